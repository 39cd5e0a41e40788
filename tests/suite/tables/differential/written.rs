//! Statements that people write, at random: counts, joins, common tables, upserts, `REPLACE`, `RETURNING`.

use diesel::connection::LoadConnection;
use diesel::prelude::*;
use proptest::prelude::*;

use super::super::NAME;
use super::{Answer, Db, Number, Step, USER, alike};

/// A statement, and whether it answers rows.
#[derive(Clone, Debug)]
enum Written {
    Query(String),
    Change(String),
}

impl Step for Written {
    fn answer<C: LoadConnection<Backend = Db>>(&self, conn: &mut C) -> QueryResult<Answer> {
        match self {
            Written::Query(sql) => diesel::sql_query(sql)
                .load::<Number>(conn)
                .map(|rows| rows.into_iter().map(|row| row.n).collect()),
            Written::Change(sql) => diesel::sql_query(sql)
                .execute(conn)
                .map(|rows| vec![i64::try_from(rows).ok()]),
        }
    }
}

fn number() -> impl Strategy<Value = String> + Clone {
    prop_oneof![
        prop::sample::select(vec![
            "orders.qty",
            "orders.id",
            "orders.orders",
            "qty",
            "1",
            "7"
        ])
        .prop_map(str::to_owned),
        (0..9).prop_map(|n: i32| n.to_string()),
        Just("(SELECT max(orders.id) FROM orders)".to_owned()),
        Just("(SELECT count(*) FROM parcels WHERE parcels.order_id = orders.id)".to_owned()),
        Just("CASE WHEN orders.qty > 5 THEN orders.orders ELSE 0 END".to_owned()),
        Just("length('orders, \"orders\" and `orders`')".to_owned()),
    ]
}

fn condition() -> impl Strategy<Value = String> + Clone {
    let leaf = prop_oneof![
        (
            number(),
            prop::sample::select(vec!["=", "<>", "<", ">="]),
            number()
        )
            .prop_map(|(a, op, b)| format!("{a} {op} {b}")),
        Just("EXISTS (SELECT 1 FROM parcels WHERE parcels.order_id = orders.id)".to_owned()),
        Just("orders.id IN (SELECT parcels.order_id FROM parcels)".to_owned()),
        Just("orders.orders IS NULL".to_owned()),
        Just("'orders' = 'orders' /* orders */".to_owned()),
        number().prop_map(|a| format!("{a} BETWEEN 1 AND 5")),
    ];
    leaf.prop_recursive(2, 6, 2, |inner| {
        (
            inner.clone(),
            prop::sample::select(vec!["AND", "OR"]),
            inner,
        )
            .prop_map(|(a, op, b)| format!("({a} {op} {b})"))
    })
}

fn step() -> impl Strategy<Value = Written> {
    let source = prop::sample::select(vec![
        "orders",
        "orders JOIN parcels ON parcels.order_id = orders.id",
        "orders LEFT JOIN parcels ON parcels.order_id = orders.id",
        "parcels, orders",
        "(SELECT * FROM orders) orders",
        "(SELECT id AS order_id FROM orders) parcels JOIN orders ON orders.id = parcels.order_id",
    ]);
    let query = (number(), source, condition());
    prop_oneof![
        3 => query.clone().prop_map(|(n, source, condition)| Written::Query(format!(
            "SELECT CAST(sum({n}) AS {}) AS n FROM {source} WHERE {condition}",
            if NAME == "mysql" { "SIGNED" } else { "BIGINT" }
        ))),
        1 => query.clone().prop_map(|(n, source, condition)| Written::Query(format!(
            "WITH w AS (SELECT {n} AS x FROM {source} WHERE {condition}) SELECT count(w.x) AS n FROM w"
        ))),
        1 => condition().prop_map(|condition| Written::Query(format!(
            "SELECT count(*) AS n FROM orders WHERE {condition} GROUP BY orders.user_id HAVING count(orders.id) > 0"
        ))),
        1 => (number(), condition()).prop_map(|(n, condition)| Written::Query(format!(
            "SELECT count(*) AS n FROM (SELECT orders.id FROM orders WHERE {condition} UNION SELECT parcels.id FROM parcels WHERE parcels.id = {}) u",
            if n.contains("orders") || n == "qty" { "2".to_owned() } else { n }
        ))),
        2 => (0..9, condition()).prop_map(|(n, condition)| Written::Change(format!(
            "UPDATE orders SET qty = qty + {n}, orders = id WHERE {}",
            // MySQL reads no table that it changes.
            if condition.contains("SELECT") { "orders.id > 1".to_owned() } else { condition }
        ))),
        1 => (4..40, 0..9).prop_map(|(id, qty)| Written::Change(format!(
            "INSERT INTO orders (id, user_id, orders, qty) VALUES ({id}, {USER}, {qty}, {qty}), ({id} + 100, {USER}, NULL, 1)"
        ))),
        1 => (200..300).prop_map(|id| Written::Change(format!(
            "INSERT INTO orders (id, user_id, orders, qty) SELECT parcels.id + {id}, parcels.user_id, parcels.order_id, 1 FROM parcels"
        ))),
        1 => (0..9).prop_map(|n| Written::Change(format!("DELETE FROM orders WHERE orders.qty = {n}"))),
        2 => (1..6, 0..9).prop_map(|(id, qty)| Written::Change(upsert(id, qty))),
        1 => (1..6, 0..9).prop_map(|(id, qty)| Written::Change(format!(
            "{} INTO orders (id, user_id, orders, qty) VALUES ({id}, {USER}, NULL, {qty})",
            // PostgreSQL has none: the same as an insert.
            if NAME == "postgres" { "INSERT" } else { "REPLACE" }
        ))),
        2 => (1..60, 0..9).prop_map(|(n, qty)| further(n, qty)),
    ]
}

/// Adds to the row that is there.
fn upsert(id: i32, qty: i32) -> String {
    let insert = format!("INSERT INTO orders (id, user_id, orders, qty) VALUES ({id}, {USER}, 3, {qty})");
    match (NAME, qty % 3) {
        ("mysql", 0) => format!("{insert} ON DUPLICATE KEY UPDATE orders.qty = orders.qty + VALUES(qty), orders = orders.id"),
        ("mysql", _) => format!("{insert} ON DUPLICATE KEY UPDATE qty = qty + 1, orders = VALUES(orders) + orders.orders"),
        (_, 0) => format!("{insert} ON CONFLICT (id) DO UPDATE SET qty = orders.qty + excluded.qty, orders = orders.id"),
        (_, 1) => format!("{insert} ON CONFLICT (id) DO UPDATE SET orders = excluded.orders + orders.orders WHERE orders.qty > 5"),
        _ => format!("{insert} ON CONFLICT (id) DO NOTHING"),
    }
}

/// Changes rows and answers them; on MySQL, where Diesel reads no such answer, changes rows of a join.
fn further(n: i32, qty: i32) -> Written {
    match (NAME, n % 3) {
        ("mysql", 0) => Written::Change(format!(
            "UPDATE orders JOIN parcels ON parcels.order_id = orders.id SET orders.qty = {qty}, parcels.order_id = orders.id + {n}"
        )),
        ("mysql", 1) => Written::Change(format!(
            "DELETE orders, parcels FROM orders JOIN parcels ON parcels.order_id = orders.id WHERE orders.qty = {qty}"
        )),
        ("mysql", _) => Written::Change(format!(
            "DELETE FROM orders USING orders LEFT JOIN parcels ON parcels.order_id = orders.id WHERE parcels.id IS NULL AND orders.qty < {qty}"
        )),
        (_, 0) => Written::Query(format!(
            "INSERT INTO orders (id, user_id, orders, qty) VALUES ({n}, {USER}, {qty}, {qty}), ({n} + 200, {USER}, NULL, 2) RETURNING orders.qty * 10 + orders.id AS n"
        )),
        (_, 1) => Written::Query(format!(
            "UPDATE orders SET qty = orders.qty + 1, orders = {qty} WHERE orders.id < {n} RETURNING orders.id + orders.orders AS n"
        )),
        _ => Written::Query(format!(
            "DELETE FROM orders WHERE orders.qty = {qty} RETURNING orders.id AS n"
        )),
    }
}

#[test]
fn statements_by_hand_answer_as_on_a_plain_table() {
    alike(step());
}
