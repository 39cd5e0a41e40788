//! What becomes of texts.

use super::super::{Dialect, TableNumbers, TableSet, Which};
use super::samples::{PLACED_BY, set, table};
use super::{Analysis, Origin, Refusal, analyze};
use crate::name::KeyspaceName;

/// The route of a key whose spread is 3.
fn three() -> TableNumbers {
    TableNumbers {
        keyspace: KeyspaceName::intern("orders"),
        which: Which::Spread(3),
        placed_by: PLACED_BY,
    }
}

fn rewritten_by(set: &TableSet, text: &str, origin: Origin) -> Result<String, Refusal> {
    match analyze(set, text, origin)? {
        Analysis::Untouched => Ok(text.to_owned()),
        Analysis::Template(template) => Ok(template
            .render(set, Some(three()))
            .unwrap_or_else(|unfilled| panic!("{unfilled:?} in {text}"))),
    }
}

fn rewritten(dialect: Dialect, text: &str) -> Result<String, Refusal> {
    rewritten_by(&set(dialect), text, Origin::Anyone)
}

const ALL: [Dialect; 3] = [Dialect::Sqlite, Dialect::Postgres, Dialect::Mysql];

#[track_caller]
fn becomes(dialects: &[Dialect], text: &str, expected: &str) {
    for dialect in dialects {
        let found = rewritten(*dialect, text).unwrap_or_else(|refusal| {
            panic!("{dialect:?} refuses {text}: {refusal:?}");
        });
        assert_eq!(found, expected, "{dialect:?}: {text}");
        // Twice is once.
        assert_eq!(
            rewritten(*dialect, &found).as_deref(),
            Ok(found.as_str()),
            "{dialect:?}: again {found}"
        );
    }
}

#[track_caller]
fn stays(dialects: &[Dialect], text: &str) {
    becomes(dialects, text, text);
}

#[track_caller]
fn refused(dialects: &[Dialect], text: &str) {
    for dialect in dialects {
        if let Ok(found) = rewritten(*dialect, text) {
            panic!("{dialect:?} makes {found} of {text}");
        }
    }
}

use Dialect::{Mysql, Postgres, Sqlite};

mod lexed;
mod misread;

#[test]
fn every_place_of_a_table_and_every_qualifier() {
    for (text, expected) in [
        ("SELECT * FROM orders", "SELECT * FROM orders_3"),
        (
            "SELECT orders.id, orders.* FROM orders WHERE orders.qty > 5 GROUP BY orders.id HAVING max(orders.qty) > 1 ORDER BY orders.id LIMIT 3",
            "SELECT orders_3.id, orders_3.* FROM orders_3 WHERE orders_3.qty > 5 GROUP BY orders_3.id HAVING max(orders_3.qty) > 1 ORDER BY orders_3.id LIMIT 3",
        ),
        (
            "SELECT o.id FROM orders AS o JOIN items i ON i.order_id = o.id",
            "SELECT o.id FROM orders_3 AS o JOIN items_3 i ON i.order_id = o.id",
        ),
        (
            "SELECT 1 FROM users, orders WHERE users.id = orders.user_id",
            "SELECT 1 FROM users, orders_3 WHERE users.id = orders_3.user_id",
        ),
        (
            "SELECT 1 FROM (users JOIN orders ON users.id = orders.user_id)",
            "SELECT 1 FROM (users JOIN orders_3 ON users.id = orders_3.user_id)",
        ),
        (
            "SELECT 1 FROM users WHERE EXISTS (SELECT 1 FROM orders WHERE orders.user_id = users.id)",
            "SELECT 1 FROM users WHERE EXISTS (SELECT 1 FROM orders_3 WHERE orders_3.user_id = users.id)",
        ),
        (
            "SELECT id FROM orders UNION ALL SELECT id FROM items",
            "SELECT id FROM orders_3 UNION ALL SELECT id FROM items_3",
        ),
        (
            "INSERT INTO orders (id, user_id) VALUES (1, 3)",
            "INSERT INTO orders_3 (id, user_id) VALUES (1, 3)",
        ),
        (
            "INSERT INTO orders (id) SELECT orders.id FROM orders WHERE orders.id = 3",
            "INSERT INTO orders_3 (id) SELECT orders_3.id FROM orders_3 WHERE orders_3.id = 3",
        ),
        (
            "UPDATE orders SET qty = orders.qty + 1 WHERE orders.id = 3",
            "UPDATE orders_3 SET qty = orders_3.qty + 1 WHERE orders_3.id = 3",
        ),
        (
            "DELETE FROM orders WHERE orders.id = 1",
            "DELETE FROM orders_3 WHERE orders_3.id = 1",
        ),
        (
            "SELECT 1 FROM orders; DELETE FROM items; SELECT 2",
            "SELECT 1 FROM orders_3; DELETE FROM items_3; SELECT 2",
        ),
        (
            "EXPLAIN SELECT * FROM orders",
            "EXPLAIN SELECT * FROM orders_3",
        ),
        (
            "SELECT (SELECT count(*) FROM items WHERE items.order_id = orders.id) FROM orders",
            "SELECT (SELECT count(*) FROM items_3 WHERE items_3.order_id = orders_3.id) FROM orders_3",
        ),
        (
            "SELECT count(orders.id) FILTER (WHERE orders.qty > 1) OVER (PARTITION BY orders.user_id) FROM orders",
            "SELECT count(orders_3.id) FILTER (WHERE orders_3.qty > 1) OVER (PARTITION BY orders_3.user_id) FROM orders_3",
        ),
    ] {
        let dialects: &[Dialect] = if text.contains("FILTER") {
            &[Sqlite, Postgres]
        } else {
            &ALL
        };
        becomes(dialects, text, expected);
    }
}

#[test]
fn what_only_some_backends_have() {
    becomes(
        &[Sqlite, Postgres],
        "INSERT INTO orders (id, user_id, qty) VALUES (1, 3, 1) ON CONFLICT (id) DO UPDATE SET qty = (orders.qty + excluded.qty) RETURNING orders.qty, orders.*",
        "INSERT INTO orders_3 (id, user_id, qty) VALUES (1, 3, 1) ON CONFLICT (id) DO UPDATE SET qty = (orders_3.qty + excluded.qty) RETURNING orders_3.qty, orders_3.*",
    );
    becomes(
        &[Mysql],
        "INSERT INTO orders (id, user_id, qty) VALUES (1, 3, 1) ON DUPLICATE KEY UPDATE qty = orders.qty + VALUES(qty), orders.id = orders.id",
        "INSERT INTO orders_3 (id, user_id, qty) VALUES (1, 3, 1) ON DUPLICATE KEY UPDATE qty = orders_3.qty + VALUES(qty), orders_3.id = orders_3.id",
    );
    becomes(
        &[Mysql],
        "INSERT INTO items (id) SELECT orders.id FROM orders ON DUPLICATE KEY UPDATE n = orders.qty",
        "INSERT INTO items_3 (id) SELECT orders_3.id FROM orders_3 ON DUPLICATE KEY UPDATE n = orders_3.qty",
    );
    becomes(
        &[Mysql],
        "UPDATE orders SET orders.qty = 5 WHERE `orders`.`id` = 1 ORDER BY orders.id LIMIT 1",
        "UPDATE orders_3 SET orders_3.qty = 5 WHERE `orders_3`.`id` = 1 ORDER BY orders_3.id LIMIT 1",
    );
    becomes(
        &[Mysql],
        "DELETE orders FROM orders JOIN items ON items.order_id = orders.id WHERE items.n = 1",
        "DELETE orders_3 FROM orders_3 JOIN items_3 ON items_3.order_id = orders_3.id WHERE items_3.n = 1",
    );
    becomes(
        &[Mysql],
        "UPDATE orders o JOIN items i ON i.order_id = o.id SET o.qty = i.n",
        "UPDATE orders_3 o JOIN items_3 i ON i.order_id = o.id SET o.qty = i.n",
    );
    becomes(
        &[Postgres],
        "DELETE FROM orders USING items WHERE items.order_id = orders.id RETURNING orders.id",
        "DELETE FROM orders_3 USING items_3 WHERE items_3.order_id = orders_3.id RETURNING orders_3.id",
    );
    becomes(
        &[Postgres],
        "UPDATE ONLY orders SET qty = items.n FROM items WHERE items.order_id = orders.id",
        "UPDATE ONLY orders_3 SET qty = items_3.n FROM items_3 WHERE items_3.order_id = orders_3.id",
    );
    becomes(
        &[Postgres],
        "SELECT * FROM orders JOIN LATERAL (SELECT * FROM items WHERE items.order_id = orders.id) x ON true FOR UPDATE OF orders",
        "SELECT * FROM orders_3 JOIN LATERAL (SELECT * FROM items_3 WHERE items_3.order_id = orders_3.id) x ON true FOR UPDATE OF orders_3",
    );
    becomes(
        &[Postgres],
        "WITH moved AS (DELETE FROM orders WHERE orders.id = 1 RETURNING *) INSERT INTO items SELECT * FROM moved",
        "WITH moved AS (DELETE FROM orders_3 WHERE orders_3.id = 1 RETURNING *) INSERT INTO items_3 SELECT * FROM moved",
    );
    becomes(
        &[Postgres],
        "SELECT EXTRACT(year FROM orders.ts) FROM orders WHERE orders.a IS DISTINCT FROM orders.b",
        "SELECT EXTRACT(year FROM orders_3.ts) FROM orders_3 WHERE orders_3.a IS DISTINCT FROM orders_3.b",
    );
    becomes(
        &[Sqlite],
        "SELECT 1 FROM users WHERE users.id IN orders",
        "SELECT 1 FROM users WHERE users.id IN orders_3",
    );
    becomes(
        &[Sqlite],
        "SELECT 1 FROM 'orders'",
        "SELECT 1 FROM 'orders_3'",
    );
    becomes(
        &[Sqlite, Mysql],
        "REPLACE INTO orders (id, user_id) VALUES (1, 3)",
        "REPLACE INTO orders_3 (id, user_id) VALUES (1, 3)",
    );
}

#[test]
fn a_table_expression_of_that_name_is_not_the_table() {
    stays(
        &ALL,
        "WITH orders AS (SELECT 42 AS id) SELECT orders.id FROM orders",
    );
    becomes(
        &ALL,
        "WITH recent AS (SELECT id FROM orders WHERE qty > 5) SELECT * FROM recent",
        "WITH recent AS (SELECT id FROM orders_3 WHERE qty > 5) SELECT * FROM recent",
    );
    becomes(
        &[Postgres, Mysql],
        "WITH orders AS (SELECT * FROM orders WHERE orders.qty > 5) SELECT orders.id FROM orders",
        "WITH orders AS (SELECT * FROM orders_3 WHERE orders_3.qty > 5) SELECT orders.id FROM orders",
    );
    // SQLite answers "circular reference" to it, also without a rewriter.
    stays(
        &[Sqlite],
        "WITH orders AS (SELECT * FROM orders WHERE qty > 5) SELECT * FROM orders",
    );
    stays(
        &ALL,
        "WITH RECURSIVE orders AS (SELECT 1 AS id UNION ALL SELECT orders.id + 1 FROM orders WHERE orders.id < 3) SELECT orders.id FROM orders",
    );
    becomes(
        &[Postgres, Mysql],
        "WITH a AS (SELECT * FROM orders), orders AS (SELECT * FROM a) SELECT * FROM orders",
        "WITH a AS (SELECT * FROM orders_3), orders AS (SELECT * FROM a) SELECT * FROM orders",
    );
    stays(
        &[Sqlite],
        "WITH a AS (SELECT * FROM orders), orders AS (SELECT 1) SELECT * FROM orders",
    );
    refused(
        &[Mysql],
        "WITH RECURSIVE a AS (SELECT * FROM orders), orders AS (SELECT 1) SELECT * FROM orders",
    );
    // Inner and outer scopes.
    becomes(
        &ALL,
        "SELECT * FROM (WITH orders AS (SELECT 1 AS id) SELECT orders.id FROM orders) x, orders WHERE orders.id = x.id",
        "SELECT * FROM (WITH orders AS (SELECT 1 AS id) SELECT orders.id FROM orders) x, orders_3 WHERE orders_3.id = x.id",
    );
    // What is written to is a table.
    becomes(
        &[Postgres],
        "WITH orders AS (SELECT 1 AS id) DELETE FROM orders WHERE orders.id = 1",
        "WITH orders AS (SELECT 1 AS id) DELETE FROM orders_3 WHERE orders_3.id = 1",
    );
}

#[test]
fn literals_comments_columns_and_aliases_of_that_name_stay() {
    becomes(
        &ALL,
        "SELECT 'select from orders', 'it''s orders', orders.orders AS orders /* orders */ FROM orders -- orders\n WHERE note LIKE '%orders%' ORDER BY orders",
        "SELECT 'select from orders', 'it''s orders', orders_3.orders AS orders /* orders */ FROM orders_3 -- orders\n WHERE note LIKE '%orders%' ORDER BY orders",
    );
    for text in [
        "SELECT orders.id FROM users AS orders WHERE orders.id = 1",
        "SELECT 'orders' FROM users",
        "SELECT orders FROM users",
        "SELECT users.orders FROM users GROUP BY users.orders",
        "SELECT id FROM users -- orders",
        "INSERT INTO users (orders) VALUES (1)",
        "UPDATE users SET orders = 1",
        "SELECT orders_3.id FROM orders_3",
        "SELECT reorders.id, orders2.id FROM reorders, orders2",
        "SELECT orders.id FROM archive.orders",
        "SELECT archive.orders.id FROM archive.orders",
        "SELECT orders.total FROM (SELECT 1 AS total) orders",
    ] {
        stays(&ALL, text);
    }
    becomes(
        &[Postgres],
        r"SELECT E'it\'s orders', $$ orders $$, $t$ orders $t$, U&'orders', data->'orders' FROM orders",
        r"SELECT E'it\'s orders', $$ orders $$, $t$ orders $t$, U&'orders', data->'orders' FROM orders_3",
    );
    becomes(
        &[Mysql],
        r#"SELECT 'it\'s orders', "orders", "it\" orders" FROM orders # orders"#,
        r#"SELECT 'it\'s orders', "orders", "it\" orders" FROM orders_3 # orders"#,
    );
    becomes(
        &[Mysql, Postgres],
        "SELECT /*+ INDEX(orders ix) */ id FROM orders",
        "SELECT /*+ INDEX(orders ix) */ id FROM orders_3",
    );
    stays(&[Sqlite], "SELECT * FROM users WHERE name = 'orders'");
    stays(&[Mysql], r#"SELECT * FROM users WHERE name = "orders""#);
}

#[test]
fn spellings_of_the_name_by_backend() {
    becomes(
        &[Postgres],
        r#"SELECT "orders".id, ORDERS.x FROM ORDERS"#,
        r#"SELECT "orders_3".id, orders_3.x FROM orders_3"#,
    );
    stays(&[Postgres], r#"SELECT "Orders".id FROM "Orders""#);
    becomes(
        &[Sqlite],
        r#"SELECT "Orders".id, [orders].a, `orders`.b, ORDERS.c FROM oRDERS"#,
        r#"SELECT "orders_3".id, [orders_3].a, `orders_3`.b, orders_3.c FROM orders_3"#,
    );
    stays(&[Mysql], "SELECT ORDERS.id FROM ORDERS");
    becomes(
        &[Mysql],
        "SELECT `orders`.id FROM `orders`",
        "SELECT `orders_3`.id FROM `orders_3`",
    );
    // A reserved word.
    becomes(
        &[Postgres, Sqlite],
        r#"SELECT "order"."id" FROM "order""#,
        r#"SELECT "order_3"."id" FROM "order_3""#,
    );
    becomes(
        &[Mysql],
        "SELECT `order`.id FROM `order`",
        "SELECT `order_3`.id FROM `order_3`",
    );
}

#[test]
fn schemas() {
    let shop = |dialect| {
        TableSet::new(
            dialect,
            Some("main"),
            vec![table("orders", "shop.orders", 8)],
        )
    };
    for dialect in [Postgres, Mysql] {
        let quote = if dialect == Mysql { '`' } else { '"' };
        let text = r#"SELECT "shop"."orders"."id", orders.qty, "orders"."x" FROM "shop"."orders" WHERE "shop"."orders"."id" = 1"#
            .replace('"', &quote.to_string());
        let expected = text.replace("orders", "orders_3");
        assert_eq!(
            rewritten_by(&shop(dialect), &text, Origin::Anyone),
            Ok(expected)
        );
        let other = text.replace("shop", "archive");
        assert_eq!(
            rewritten_by(&shop(dialect), &other, Origin::Anyone),
            Ok(other.clone())
        );
        assert!(rewritten_by(&shop(dialect), "SELECT * FROM orders", Origin::Anyone).is_err());
        let both = "SELECT orders.id FROM shop.orders, archive.orders AS x WHERE x.id = orders.id";
        assert_eq!(
            rewritten_by(&shop(dialect), both, Origin::Anyone).as_deref(),
            Ok(
                "SELECT orders_3.id FROM shop.orders_3, archive.orders AS x WHERE x.id = orders_3.id"
            )
        );
    }
    becomes(
        &[Postgres],
        "SELECT public.orders.id FROM public.orders",
        "SELECT public.orders_3.id FROM public.orders_3",
    );
    becomes(
        &[Sqlite],
        "SELECT main.orders.id FROM main.orders",
        "SELECT main.orders_3.id FROM main.orders_3",
    );
    becomes(
        &[Mysql],
        "SELECT shop.orders.id FROM shop.orders",
        "SELECT shop.orders_3.id FROM shop.orders_3",
    );
    stays(&[Sqlite], "SELECT id FROM temp.orders");
}

#[test]
fn what_cannot_be_decided_is_refused() {
    refused(&[Postgres], "DO $$ BEGIN DELETE FROM orders; END $$");
    refused(&[Mysql], "PREPARE s FROM 'SELECT * FROM orders'");
    refused(&[Mysql], "SELECT 1 /*! FROM orders */");
    refused(&[Mysql], "SELECT 1 /*!50000 FROM orders */");
    refused(&[Mysql], "SELECT 1 /*M! FROM orders */");
    refused(&[Postgres], r#"SELECT * FROM U&"\006Frders""#);
    refused(&[Postgres], "COPY orders TO STDOUT");
    refused(&[Postgres], "TABLE orders");
    refused(
        &[Postgres],
        "MERGE INTO orders USING items ON items.id = orders.id WHEN MATCHED THEN DELETE",
    );
    refused(&[Postgres], "SELECT 1 INTO orders FROM users");
    refused(
        &[Postgres],
        "CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT count(*) FROM orders'",
    );
    refused(&[Postgres], "VACUUM orders");
    refused(&[Sqlite], "ATTACH 'x' AS y; FROBNICATE orders");
    refused(&ALL, "CREATE VIEW v AS SELECT * FROM orders");
    refused(&ALL, "SELECT FROM WHERE orders.");
    refused(&ALL, "LOCK TABLES orders WRITE");
    // Too deep for a stack.
    let chain = vec!["orders.id = 1"; 5000].join(" OR ");
    refused(&ALL, &format!("SELECT 1 FROM orders WHERE {chain}"));
    let nested = format!(
        "SELECT {}1{} FROM orders",
        "(".repeat(5000),
        ")".repeat(5000)
    );
    refused(&ALL, &nested);
}

#[test]
fn long_lists_are_not_deep() {
    let list = vec!["?"; 5000].join(", ");
    let text = format!("SELECT 1 FROM orders WHERE orders.id IN ({list})");
    becomes(&[Sqlite, Mysql], &text, &text.replace("orders", "orders_3"));
    let rows = vec!["(1, 3, -1 + 2)"; 2000].join(", ");
    let text = format!("INSERT INTO orders (id, user_id, qty) VALUES {rows}");
    becomes(&ALL, &text, &text.replace("orders", "orders_3"));
    let chain = vec!["orders.id = 1"; 150].join(" OR ");
    let text = format!("SELECT 1 FROM orders WHERE {chain}");
    becomes(&ALL, &text, &text.replace("orders", "orders_3"));
}

#[test]
fn unbound_tables_do_not_meet_in_one_statement() {
    refused(
        &ALL,
        "SELECT 1 FROM orders JOIN events ON events.id = orders.id",
    );
    refused(&ALL, "SELECT 1 FROM orders, invoices");
    refused(
        &ALL,
        "DELETE FROM orders WHERE id IN (SELECT id FROM events)",
    );
    assert_eq!(
        rewritten(Sqlite, "SELECT 1 FROM orders, invoices"),
        Err(Refusal::Unbound { one: 0, other: 3 })
    );
    becomes(
        &ALL,
        "SELECT 1 FROM orders; SELECT 1 FROM events",
        "SELECT 1 FROM orders_3; SELECT 1 FROM events_3",
    );
}

#[test]
fn definitions_name_the_table_and_what_it_owns() {
    for (text, expected) in [
        (
            "CREATE TABLE orders (id INT, user_id INT, CONSTRAINT few CHECK (id > 0))",
            "CREATE TABLE orders_3 (id INT, user_id INT, CONSTRAINT few_3 CHECK (id > 0))",
        ),
        (
            "CREATE TABLE items (id INT, order_id INT REFERENCES orders (id))",
            "CREATE TABLE items_3 (id INT, order_id INT REFERENCES orders_3 (id))",
        ),
        (
            "ALTER TABLE orders ADD COLUMN orders INT",
            "ALTER TABLE orders_3 ADD COLUMN orders INT",
        ),
        ("DROP TABLE orders, items", "DROP TABLE orders_3, items_3"),
    ] {
        becomes(&ALL, text, expected);
    }
    becomes(
        &[Sqlite, Postgres],
        "CREATE UNIQUE INDEX ix_user ON orders (user_id)",
        "CREATE UNIQUE INDEX ix_user_3 ON orders_3 (user_id)",
    );
    becomes(
        &[Mysql],
        "CREATE UNIQUE INDEX ix_user ON orders (user_id)",
        "CREATE UNIQUE INDEX ix_user ON orders_3 (user_id)",
    );
    for (text, expected) in [
        (
            "ALTER TABLE orders REPLICA IDENTITY USING INDEX ix_user",
            "ALTER TABLE orders_3 REPLICA IDENTITY USING INDEX ix_user_3",
        ),
        (
            "ALTER TABLE orders ADD CONSTRAINT one UNIQUE USING INDEX ix_user",
            "ALTER TABLE orders_3 ADD CONSTRAINT one_3 UNIQUE USING INDEX ix_user_3",
        ),
    ] {
        becomes(&[Postgres], text, expected);
        // Of orders_3 it is orders_3_id_idx.
        refused(&[Postgres], &text.replace("ix_user", "orders_id_idx"));
    }
    stays(
        &ALL,
        "CREATE TABLE notes (id INT, orders INT, CHECK (orders > 0))",
    );
    stays(&ALL, "ALTER TABLE notes ADD COLUMN orders INT");
    refused(&ALL, "CREATE TABLE notes (id INT REFERENCES orders (id))");
    refused(&ALL, "ALTER TABLE orders RENAME TO purchases");
}
