//! Texts that a server cuts into other pieces than the tokenizer does, names that hide others, and deep texts.

use super::super::template::{KeyUse, Unfilled};
use super::super::{Analysis, Origin, Written, analyze};
use super::{ALL, Mysql, Postgres, Sqlite, becomes, refused, set, stays, three};
use crate::rewrite::{Dialect, TableNumbers, Which};

/// The statement is refused, or names the physical table and nowhere the logical one outside of what the server
/// skips.
#[track_caller]
fn never_reaches(dialects: &[Dialect], text: &str) {
    for dialect in dialects {
        if let Ok(found) = super::rewritten(*dialect, text) {
            assert!(found.contains("orders_3"), "{dialect:?} leaves {found}");
        }
    }
}

#[test]
fn a_comment_ends_an_operator() {
    for text in [
        "SELECT 1 >/* '*/ 1 AS a, note AS v FROM orders -- '",
        "SELECT 'a' ||-- '\n 'b' AS a, note AS v FROM orders -- '",
        "SELECT id |/* bits -- */ 1, note AS v FROM orders",
        "SELECT note ||/* -- sep */ 'x' AS v FROM orders",
        "DELETE FROM users WHERE qty >/* 1 -- */ 1; DELETE FROM orders",
        "UPDATE users SET note = note ||/* 1 -- */ 'x' ; DELETE FROM orders",
        "SELECT note AS v FROM users WHERE note ~/* 'x' -- */ 'o' OR id IN (SELECT id FROM orders)",
    ] {
        never_reaches(&ALL, text);
    }
    becomes(
        &ALL,
        "SELECT id |/* bits -- */ 1, note AS v FROM orders",
        "SELECT id |/* bits -- */ 1, note AS v FROM orders_3",
    );
    becomes(
        &ALL,
        "SELECT note FROM orders WHERE qty >/* ' */ 1 AND note <>/* orders */ 'orders' -- orders",
        "SELECT note FROM orders_3 WHERE qty >/* ' */ 1 AND note <>/* orders */ 'orders' -- orders",
    );
}

#[test]
fn a_key_does_not_hide_behind_a_comment() {
    for (text, expected) in [
        (
            "UPDATE orders SET qty = 4 #/* 2 -- */ 1, user_id = 999",
            KeyUse::Update,
        ),
        (
            "INSERT INTO orders (id, qty, user_id) VALUES (77, 1 #/* 1, 3) -- */ 1, 999)",
            KeyUse::Insert,
        ),
    ] {
        let Ok(Analysis::Template(template)) = analyze(&set(Postgres), text, Origin::Anyone) else {
            panic!("{text} is not read");
        };
        let keys: Vec<_> = template
            .keys()
            .iter()
            .map(|key| (&key.value, key.in_))
            .collect();
        assert_eq!(keys, [(&Written::Integer(999), expected)], "{text}");
    }
}

#[test]
fn a_literal_goes_on_in_the_next_line() {
    for text in [
        "SELECT E'x'\n'\\' , note AS v FROM users --' , note AS v FROM orders",
        "UPDATE users SET note = E'x'\n'\\' --' ; DELETE FROM orders",
        "DELETE FROM users WHERE note <> E'x' -- c\n'\\' --' AND id NOT IN (SELECT id FROM orders)",
    ] {
        refused(&[Postgres], text);
    }
}

#[test]
fn the_character_set_of_the_client_does_not_matter() {
    for text in [
        "SELECT note AS v, '\u{4e2d}\\' FROM orders -- '",
        "SELECT '\u{4e2d}\\'; DELETE FROM orders -- '",
        "UPDATE orders SET note = '\u{4e2d}\\', user_id = 2 -- '",
        "SELECT note AS \u{4e2d}`x`, y AS `FROM orders",
        "SELECT note AS v, @voil\u{e0}FROM orders",
        "INSERT INTO users (id, note) SELECT id, @a\u{a0}FROM orders",
    ] {
        refused(&[Mysql], text);
    }
    refused(
        &[Postgres],
        "SELECT note AS v, E'\u{4e2d}\\' FROM orders --'",
    );
    refused(&[Postgres], "SELECT E'x'\n'\u{4e2d}\\' FROM orders --'");
    for text in [
        "SELECT note FROM orders WHERE note = '\u{4e2d}\u{e0}\u{a0}' AND x = '\\n' -- \u{4e2d}\\",
        "SELECT note FROM orders WHERE note LIKE '\u{e9}t\u{e9}%' ORDER BY orders.id",
    ] {
        let found = text.replace("orders", "orders_3");
        becomes(&ALL, text, &found);
    }
    let plain = "SELECT note FROM orders WHERE note = '\u{4e2d}\\' AND orders.id = 1";
    becomes(
        &[Postgres, Sqlite],
        plain,
        &plain.replace("orders", "orders_3"),
    );
}

#[test]
fn a_number_that_is_no_integer_to_sqlite_is_no_key() {
    let keys = |number: &str| {
        let text = format!("INSERT INTO orders (id, user_id) VALUES (1, {number})");
        match analyze(&set(Sqlite), &text, Origin::Anyone) {
            Ok(Analysis::Template(template)) => template.keys()[0].value.clone(),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(keys("18446744073709551615"), Written::Other);
    assert_eq!(
        keys("-9223372036854775808"),
        Written::Integer(i64::MIN.into())
    );
}

#[test]
fn a_name_of_other_letters_is_another() {
    // To the servers these are one longer name each.
    for text in [
        "SELECT note FROM\u{a0}orders",
        "SELECT note FROM x\u{a0}, a\u{a0}orders",
        "SELECT note FROM orders\u{2003}",
    ] {
        for dialect in ALL {
            assert!(
                super::rewritten(dialect, text).is_ok_and(|found| found == text)
                    || super::rewritten(dialect, text).is_err(),
                "{dialect:?} changes {text}"
            );
        }
    }
    // Of the next word to the one, of a number to the other.
    for text in [
        "SELECT 1.5orders FROM orders",
        "SELECT 1orders.note FROM orders",
    ] {
        never_reaches(&ALL, text);
    }
    // A bind of Tcl's.
    refused(&[Sqlite], "SELECT $a(orders) FROM orders");
    refused(&[Sqlite], "SELECT note AS v, $a::(') FROM orders --'");
    refused(&[Sqlite], "SELECT $a::('); DELETE FROM orders; --'");
    becomes(
        &[Sqlite],
        "SELECT note FROM 'orders'\"x\", main.'orders' \"y\"",
        "SELECT note FROM 'orders_3'\"x\", main.'orders_3' \"y\"",
    );
}

#[test]
fn what_bears_the_physical_name_does_not_stand_for_the_table() {
    for text in [
        "WITH orders_3 AS (SELECT 'cte' AS note, 5 AS id) SELECT note AS v FROM orders",
        "UPDATE orders SET qty = (SELECT max(orders_3.qty) FROM users orders_3 WHERE orders_3.user_id = orders.user_id)",
        "DELETE FROM orders WHERE EXISTS (SELECT 1 FROM items orders_3 WHERE orders_3.id = 32 AND orders.id = 31)",
        "SELECT note FROM orders WHERE EXISTS (SELECT 1 FROM items AS ORDERS_3 WHERE orders.id = orders_3.id)",
        "SELECT note FROM users AS orders_3, orders",
        "INSERT INTO orders (id, user_id) SELECT id, user_id FROM orders_3",
    ] {
        for dialect in ALL {
            let Ok(Analysis::Template(template)) = analyze(&set(dialect), text, Origin::Anyone)
            else {
                panic!("{text} is not read");
            };
            let render = |spread| {
                template.render(
                    &set(dialect),
                    Some(TableNumbers {
                        which: Which::Spread(spread),
                        ..three()
                    }),
                )
            };
            assert!(
                matches!(render(3), Err(Unfilled::Taken(_))),
                "{dialect:?}: {text}"
            );
            // Under the route to another part it is some name like any other.
            assert!(render(4).is_ok(), "{dialect:?}: {text}");
        }
    }
    // Alone it is what it says.
    stays(
        &ALL,
        "SELECT note FROM orders_3 JOIN items_3 ON orders_3.id = items_3.id",
    );
}

#[test]
fn a_subquery_of_from_does_not_see_the_tables_beside_it() {
    for (text, expected) in [
        (
            "SELECT (SELECT orders.v FROM (SELECT orders.note AS v) orders) AS v FROM orders",
            "SELECT (SELECT orders.v FROM (SELECT orders_3.note AS v) orders) AS v FROM orders_3",
        ),
        (
            "SELECT id FROM orders WHERE EXISTS (SELECT 1 FROM (SELECT orders.note AS v) y, users orders WHERE orders.id = y.v)",
            "SELECT id FROM orders_3 WHERE EXISTS (SELECT 1 FROM (SELECT orders_3.note AS v) y, users orders WHERE orders.id = y.v)",
        ),
        (
            "SELECT note FROM orders WHERE id = (WITH orders AS (SELECT orders.id AS q) SELECT q FROM orders)",
            "SELECT note FROM orders_3 WHERE id = (WITH orders AS (SELECT orders_3.id AS q) SELECT q FROM orders)",
        ),
        (
            "SELECT note FROM orders WHERE id = (WITH z AS (SELECT orders.id AS q) SELECT q FROM z, users orders LIMIT 1)",
            "SELECT note FROM orders_3 WHERE id = (WITH z AS (SELECT orders_3.id AS q) SELECT q FROM z, users orders LIMIT 1)",
        ),
    ] {
        becomes(&[Postgres], text, expected);
    }
    becomes(
        &[Postgres],
        "SELECT y.v FROM orders, LATERAL (SELECT orders.note AS v) y",
        "SELECT y.v FROM orders_3, LATERAL (SELECT orders_3.note AS v) y",
    );
}

#[test]
fn what_is_written_is_a_table_whatever_a_with_says() {
    becomes(
        &[Postgres],
        "WITH orders AS (SELECT 31 AS id) UPDATE orders SET qty = 1 FROM orders AS o WHERE orders.id = o.id",
        "WITH orders AS (SELECT 31 AS id) UPDATE orders_3 SET qty = 1 FROM orders AS o WHERE orders_3.id = o.id",
    );
    // The server refuses two things of one name; once the table has its own, it would not.
    for text in [
        "WITH orders AS (SELECT 31 AS id) DELETE FROM orders USING orders WHERE orders.id = 31",
        "WITH orders AS (SELECT 31 AS id) UPDATE orders SET qty = 1 FROM orders WHERE orders.id = 31",
        "SELECT 1 FROM users orders, orders",
        "SELECT 1 FROM orders JOIN users AS orders ON orders.id = 1",
    ] {
        refused(&[Postgres], text);
    }
    becomes(
        &ALL,
        "SELECT orders.id FROM orders, archive.orders",
        "SELECT orders_3.id FROM orders_3, archive.orders",
    );
}

#[test]
fn names_in_quotes_of_other_kinds() {
    for text in [
        "PRAGMA foreign_key_check('orders')",
        "PRAGMA main.table_info('orders')",
        "PRAGMA integrity_check(\"orders\")",
    ] {
        refused(&[Sqlite], text);
    }
    refused(&[Sqlite], "SELECT max('orders'.id) FROM orders");
    stays(&[Sqlite], "PRAGMA foreign_key_check('orders_3')");
}

#[test]
fn depth_is_no_matter_of_the_stack() {
    let many = |piece: &str, times: usize| piece.repeat(times);
    // Long chains are read.
    for text in [
        format!(
            "SELECT id FROM orders WHERE id = 0{}",
            many(" OR id = 1", 1_200)
        ),
        format!(
            "SELECT id FROM orders WHERE {}id = 0{}",
            many("(", 900),
            many(" OR id = 1)", 900)
        ),
        format!("SELECT 1{} FROM orders", many(" + 1", 3_000)),
    ] {
        for dialect in ALL {
            let found = super::rewritten(dialect, &text);
            let found = found.unwrap_or_else(|error| panic!("{dialect:?}: {error:?}"));
            assert!(found.contains("orders_3"), "{dialect:?}");
        }
    }
    // And nothing ends the process, in a thread of the usual size.
    for (before, piece, after) in [
        ("", "EXPLAIN ", "SELECT id FROM orders"),
        ("", "EXPLAIN ANALYZE ", "SELECT id FROM orders"),
        ("", "DESCRIBE ", "SELECT id FROM orders"),
        ("", "DESC ", "orders"),
        ("", "EXPLAIN QUERY PLAN ", "SELECT id FROM orders"),
        ("", "EXPLAIN (COSTS OFF) ", "SELECT id FROM orders"),
        ("", "PREPARE a AS ", "SELECT id FROM orders"),
        ("", "IF 1 THEN ", "DELETE FROM orders; END IF"),
        ("", "IF 1 THEN SELECT 1; ", "DELETE FROM orders; END IF"),
        (
            "CREATE TRIGGER t AFTER INSERT ON orders ",
            "BEGIN ",
            "DELETE FROM orders; END",
        ),
        ("SELECT ", "INTERVAL ", "1 FROM orders"),
        ("SELECT ", "BINARY ", "1 FROM orders"),
        ("SELECT ", "NOT ", "1 FROM orders"),
        ("SELECT 1::int", "[]", " FROM orders"),
        ("SELECT now()", " AT TIME ZONE 'UTC'", " FROM orders"),
        ("SELECT 1", " ISNULL", " FROM orders"),
        ("SELECT 1", " NOTNULL", " FROM orders"),
        ("SELECT 1", " IS NULL", " FROM orders"),
        ("SELECT a", " COLLATE x", " FROM orders"),
        ("SELECT a", " -> 'b'", " FROM orders"),
        ("SELECT a", "::int", " FROM orders"),
        ("SELECT 1", " DIV 1", " FROM orders"),
        ("SELECT ", "CASE WHEN 1 THEN ", "1 FROM orders"),
        ("SELECT ", "ARRAY[", "1 FROM orders"),
        ("SELECT 1", " UNION SELECT 1", " FROM orders"),
        ("SELECT 1 FROM orders", " JOIN orders ON 1", ""),
        ("SELECT 1 FROM orders", " NATURAL JOIN orders", ""),
        ("", "WITH a AS (", "SELECT id FROM orders"),
        ("SELECT 1 FROM ", "(", "orders"),
    ] {
        for dialect in ALL {
            never_reaches(&[dialect], &format!("{before}{}{after}", many(piece, 150)));
        }
        never_reaches(
            &[Postgres],
            &format!("{before}{}{after}", many(piece, 5_000)),
        );
    }
}
