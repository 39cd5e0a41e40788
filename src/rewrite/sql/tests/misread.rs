//! Texts that a server reads otherwise than the parser does.

use super::{ALL, Mysql, Postgres, Sqlite, becomes, refused, stays};

#[test]
fn a_name_where_a_table_is_looked_for_is_never_taken_for_another_thing() {
    // The word before FROM is a label to the server, and an operator to the parser.
    for text in [
        "SELECT note AS v, note LIKE FROM orders",
        "SELECT note AS v, note ILIKE FROM orders",
        "SELECT note AS v, note COLLATE FROM orders",
        "SELECT note AS v, note AND FROM orders",
        "SELECT note AS v, note XOR FROM orders",
        "SELECT note AS v, note RLIKE FROM orders",
        "SELECT note AS v, note OVERLAPS FROM orders",
        "INSERT INTO users (id, user_id) SELECT 500, 1 LIKE FROM orders",
        "SELECT note LIKE FROM users JOIN orders ON true",
    ] {
        refused(&ALL, text);
    }
    // A modifier is a table to the parser, and the table its alias.
    for text in [
        "INSERT DELAYED orders (id, user_id) VALUES (1, 7)",
        "INSERT HIGH_PRIORITY orders (id, user_id) VALUES (1, 7)",
        "REPLACE DELAYED orders (id, user_id) VALUES (1, 7)",
        "REPLACE DELAYED INTO orders (id, user_id) VALUES (1, 7)",
        "DELETE QUICK FROM orders",
        "DELETE LOW_PRIORITY QUICK IGNORE FROM orders WHERE id = 1",
    ] {
        if let Ok(found) = super::rewritten(Mysql, text) {
            assert!(found.contains("orders_3"), "{found} stays");
        }
    }
    for text in [
        "SELECT NEXTVAL(orders)",
        "INSERT INTO users (id) VALUES (LASTVAL(orders))",
        "CREATE TABLE notes (id BIGINT DEFAULT NEXTVAL(orders))",
        "SELECT SETVAL(orders, 5)",
    ] {
        refused(&[Mysql], text);
    }
    // Further tables of that FROM are columns to the parser.
    for text in [
        "SELECT o.note, interval FROM sched, orders o",
        "SELECT o.note, -interval FROM sched, main.orders o",
        "SELECT o.note, 1 LIKE FROM users, orders o",
        "SELECT o.note, count(*) RLIKE FROM users, orders AS o",
        "SELECT o.note, BINARY(1) FROM users, orders o",
        "SELECT note, 1 ilike FROM (orders)",
        "SELECT note, 1 ilike FROM (users, orders)",
        "SELECT o.note, 1 collate FROM users, orders o",
        "INSERT INTO users (id, user_id) SELECT 1, 1 ilike FROM notes, orders o",
        "SELECT id FROM orders WHERE EXISTS (SELECT 1 LIKE FROM users, orders)",
    ] {
        for dialect in ALL {
            // Where it is read rightly it is rewritten.
            if let Ok(found) = super::rewritten(dialect, text) {
                assert!(found.contains("orders_3"), "{dialect:?} leaves {found}");
            }
        }
    }
    for text in [
        "SELECT note FROM (TABLE public.orders) t",
        "SELECT note FROM (TABLE \"public\".\"orders\") t",
        "SELECT note FROM (((TABLE public.orders))) t",
        "WITH x AS (TABLE public.orders) SELECT note FROM x",
        "SELECT note FROM users, LATERAL (TABLE public.orders) t",
        "DELETE FROM users WHERE EXISTS (TABLE public.orders)",
        "INSERT INTO users (id, user_id) (TABLE public.orders)",
        "INSERT INTO orders (id, user_id) SELECT id, 7 FROM (TABLE public.items) t",
        "TABLE public.orders",
    ] {
        refused(&[Postgres], text);
    }
    for text in [
        "SELECT note AS v FROM (TABLE orders) t",
        "SELECT note AS v FROM (TABLE orders) AS t",
        "WITH x AS (TABLE orders) SELECT note AS v FROM x",
        "TABLE orders",
        "SELECT 1 UNION TABLE orders",
    ] {
        refused(&ALL, text);
    }
}

#[test]
fn columns_and_aliases_of_that_name_are_still_what_they_are() {
    stays(
        &ALL,
        "SELECT orders FROM notes WHERE orders > 1 ORDER BY orders",
    );
    stays(&ALL, "SELECT orders.id FROM users orders");
    stays(
        &ALL,
        "SELECT orders.id FROM users AS orders JOIN notes ON orders.id = notes.id",
    );
    stays(
        &ALL,
        "WITH orders AS (SELECT 1 AS id) SELECT id FROM orders",
    );
    stays(
        &[Mysql],
        "INSERT INTO notes (id) VALUES (1) ON DUPLICATE KEY UPDATE orders = VALUES(orders)",
    );
    stays(
        &[Postgres],
        "SELECT extract(year FROM orders), trim(both 'x' FROM orders), a IS DISTINCT FROM orders FROM notes",
    );
    stays(
        &[Postgres],
        "ALTER TABLE notes ALTER COLUMN orders TYPE INT USING orders::int",
    );
    stays(&[Mysql], "SELECT STRAIGHT_JOIN orders FROM notes");
    becomes(
        &[Postgres, Mysql],
        "SELECT extract(year FROM orders.made) FROM orders",
        "SELECT extract(year FROM orders_3.made) FROM orders_3",
    );
}

#[test]
fn code_in_texts_is_looked_through_wherever_it_is_run() {
    for text in [
        "BEGIN NOT ATOMIC EXECUTE IMMEDIATE 'DELETE FROM orders'; END",
        "IF 1 = 1 THEN EXECUTE IMMEDIATE 'DELETE FROM orders'; END IF",
        "SET STATEMENT max_statement_time = 10 FOR EXECUTE IMMEDIATE 'DELETE FROM orders'",
        "SET STATEMENT max_statement_time = 10 FOR PREPARE s FROM 'DELETE FROM orders'",
        "BEGIN NOT ATOMIC DECLARE s TEXT DEFAULT 'DELETE FROM orders'; EXECUTE IMMEDIATE s; END",
        "EXECUTE IMMEDIATE N'DELETE FROM orders'",
        "PREPARE s FROM N'DELETE FROM orders'",
        "EXECUTE IMMEDIATE 'DELETE FROM ord' 'ers; SELECT 1 FROM orders_3'",
    ] {
        refused(&[Mysql], text);
    }
    for text in [
        "DO $$ BEGIN DELETE FROM orders; END $$",
        "DO U&'BEGIN DELETE FROM orders; END'",
        "CREATE FUNCTION f() RETURNS void LANGUAGE plpgsql AS U&'BEGIN DELETE FROM orders; END'",
    ] {
        refused(&[Postgres], text);
    }
    // Physical and longer names, and what is no code.
    stays(
        &[Postgres],
        "DO $$ BEGIN DELETE FROM orders_3; DELETE FROM my_orders; END $$",
    );
    stays(&[Mysql], "PREPARE s FROM 'DELETE FROM orders_3'");
    stays(&[Mysql], "DO RELEASE_LOCK('orders')");
}

#[test]
fn a_definition_qualifies_columns_by_its_table() {
    for (text, expected) in [
        (
            "ALTER TABLE orders ADD CONSTRAINT few CHECK (orders.qty < 10)",
            "ALTER TABLE orders_3 ADD CONSTRAINT few_3 CHECK (orders_3.qty < 10)",
        ),
        (
            "CREATE TABLE orders (id INT, qty INT, CHECK (orders.qty > 0))",
            "CREATE TABLE orders_3 (id INT, qty INT, CHECK (orders_3.qty > 0))",
        ),
        (
            "CREATE INDEX ix ON orders (qty) WHERE orders.qty > 0",
            "CREATE INDEX ix_3 ON orders_3 (qty) WHERE orders_3.qty > 0",
        ),
    ] {
        becomes(&[Postgres, Sqlite], text, expected);
    }
}

#[test]
fn words_that_the_parser_does_not_know_are_read_over() {
    for (text, expected) in [
        (
            "UPDATE IGNORE orders SET qty = 5",
            "UPDATE IGNORE orders_3 SET qty = 5",
        ),
        (
            "update low_priority ignore orders set qty = orders.qty + 5",
            "update low_priority ignore orders_3 set qty = orders_3.qty + 5",
        ),
        (
            "UPDATE /* x */ LOW_PRIORITY orders JOIN users ON 1 = 1 SET orders.qty = 77",
            "UPDATE /* x */ LOW_PRIORITY orders_3 JOIN users ON 1 = 1 SET orders_3.qty = 77",
        ),
        (
            "SELECT orders.id FROM orders WHERE orders.id = 1 LOCK IN SHARE MODE",
            "SELECT orders_3.id FROM orders_3 WHERE orders_3.id = 1 LOCK IN SHARE MODE",
        ),
    ] {
        becomes(&[Mysql], text, expected);
    }
    for (text, expected) in [
        (
            "SELECT o.id FROM orders AS o FOR NO KEY UPDATE",
            "SELECT o.id FROM orders_3 AS o FOR NO KEY UPDATE",
        ),
        (
            "SELECT orders.id FROM orders, users FOR KEY SHARE OF orders SKIP LOCKED",
            "SELECT orders_3.id FROM orders_3, users FOR KEY SHARE OF orders_3 SKIP LOCKED",
        ),
        (
            "SELECT id FROM orders WHERE orders.qty BETWEEN SYMMETRIC 5 AND 1",
            "SELECT id FROM orders_3 WHERE orders_3.qty BETWEEN SYMMETRIC 5 AND 1",
        ),
    ] {
        becomes(&[Postgres], text, expected);
    }
    // Of their own backend alone.
    refused(&[Sqlite, Postgres], "UPDATE IGNORE orders SET qty = 5");
}

#[test]
fn statements_within_what_is_not_rewritten_are_not_rewritten_either() {
    for text in [
        "PREPARE p AS DELETE FROM orders",
        "PREPARE p AS SELECT id FROM orders",
        "CREATE RULE r AS ON INSERT TO users DO ALSO DELETE FROM orders",
        "CREATE FUNCTION f() RETURNS void LANGUAGE sql BEGIN ATOMIC DELETE FROM orders; END",
        "COPY (DELETE FROM orders RETURNING *) TO STDOUT",
        "COPY (SELECT id FROM orders) TO STDOUT",
        "DECLARE c CURSOR FOR SELECT id FROM orders",
        "CREATE VIEW v AS SELECT id FROM orders",
    ] {
        refused(&[Postgres], text);
    }
    let trigger = "CREATE TRIGGER tr AFTER INSERT ON users BEGIN DELETE FROM orders; END";
    refused(&[Sqlite], trigger);
    for text in [
        "CREATE TRIGGER tr AFTER INSERT ON users FOR EACH ROW BEGIN DELETE FROM orders; END",
        "CREATE TRIGGER tr AFTER INSERT ON users FOR EACH ROW DELETE FROM orders",
        "IF 1 = 1 THEN DELETE FROM orders; END IF",
        "CREATE PROCEDURE p() BEGIN DELETE FROM orders; END",
    ] {
        refused(&[Mysql], text);
    }
    // An EXPLAIN runs what is within, and a common table expression may change rows.
    becomes(
        &[Postgres],
        "EXPLAIN ANALYZE DELETE FROM orders",
        "EXPLAIN ANALYZE DELETE FROM orders_3",
    );
    becomes(
        &[Postgres],
        "WITH gone AS (DELETE FROM orders RETURNING id) SELECT id FROM gone",
        "WITH gone AS (DELETE FROM orders_3 RETURNING id) SELECT id FROM gone",
    );
}

#[test]
fn keys_are_found_in_joins_within_parentheses_and_behind_sqlites_other_names() {
    use super::super::super::Dialect;
    use super::super::{Analysis, Origin, Refusal, Written, analyze};
    let keys =
        |dialect: Dialect, text: &str| match analyze(&super::set(dialect), text, Origin::Anyone)? {
            Analysis::Untouched => panic!("{text} names no table"),
            Analysis::Template(template) => Ok(template
                .keys()
                .iter()
                .map(|key| key.value.clone())
                .collect::<Vec<_>>()),
        };
    for text in [
        "UPDATE (users JOIN orders ON 1 = 1) SET orders.user_id = 7",
        "UPDATE users JOIN (orders JOIN items ON 1 = 1) ON 1 = 1 SET orders.user_id = 7",
        "UPDATE ((users JOIN orders)) JOIN items SET orders.user_id = 7",
    ] {
        assert_eq!(keys(Mysql, text), Ok(vec![Written::Integer(7)]), "{text}");
    }
    for text in [
        "UPDATE orders SET rowid = 7",
        "UPDATE orders SET _ROWID_ = 7 WHERE id = 1",
        "UPDATE orders SET (qty, rowid) = (1, 7)",
    ] {
        assert_eq!(
            keys(Sqlite, text),
            Err(Refusal::RowNumber { table: 0 }),
            "{text}"
        );
        assert_eq!(keys(Postgres, text), Ok(Vec::new()), "{text}");
    }
    let text = "INSERT INTO orders (user_id, rowid) VALUES (3, 7)";
    assert_eq!(keys(Sqlite, text), Ok(vec![Written::Other]));
    assert_eq!(keys(Postgres, text), Ok(vec![Written::Integer(3)]));
}

#[test]
fn two_dashes_begin_a_comment_only_where_everybody_says_so() {
    refused(&[Mysql], "SELECT note AS v --\u{1}'\n FROM orders -- '");
    refused(&[Mysql], "SELECT note AS v --\u{a0}'\n FROM orders -- '");
    becomes(
        &[Mysql],
        "SELECT note -- orders\n FROM orders --\torders",
        "SELECT note -- orders\n FROM orders_3 --\torders",
    );
}
