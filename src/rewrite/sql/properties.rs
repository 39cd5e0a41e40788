//! Any text at all, and statements of a small grammar: only table names change, and nothing panics.

use proptest::prelude::*;

use super::super::{Dialect, TableNumbers, Which};
use super::invariant;
use super::samples::{PLACED_BY, set};
use crate::name::KeyspaceName;

fn numbers(spread: u64) -> TableNumbers {
    TableNumbers {
        keyspace: KeyspaceName::intern("orders"),
        which: Which::Spread(spread),
        placed_by: PLACED_BY,
    }
}

fn dialect() -> impl Strategy<Value = Dialect> {
    prop_oneof![
        Just(Dialect::Sqlite),
        Just(Dialect::Postgres),
        Just(Dialect::Mysql)
    ]
}

/// Words and signs in any order, many of them names of sharded tables.
fn soup() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        4 => prop::sample::select(vec![
            "orders", "items", "events", "\"orders\"", "`orders`", "[orders]", "'orders'", "ORDERS",
            "orders.id", "o", "archive.orders", "shop.orders.id", "orders_3",
        ]),
        4 => prop::sample::select(vec![
            "SELECT", "FROM", "WHERE", "JOIN", "ON", "AS", "WITH", "RECURSIVE", "INSERT", "INTO", "VALUES",
            "UPDATE", "SET", "DELETE", "USING", "RETURNING", "GROUP BY", "ORDER BY", "UNION", "EXISTS",
            "IN", "FOR UPDATE OF", "LATERAL", "CREATE TABLE", "DROP TABLE", "ALTER TABLE", "CREATE INDEX", "DO",
            "ON CONFLICT", "DISTINCT", "EXPLAIN", "TABLE", "REPLACE",
        ]),
        4 => prop::sample::select(vec![
            "(", ")", ",", ";", "=", ".", "*", "1", "?", "$1", "'", "\"", "`", "--\n", "/*", "*/", "/*!",
            "$$", "E'\\'", "\n", "#", "::", "é", "\u{0}", "user_id", "x",
        ]),
    ];
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.join(" "))
}

/// Statements that are whole.
fn statement() -> impl Strategy<Value = String> {
    let table = prop::sample::select(vec![
        "orders",
        "items",
        "users",
        "\"orders\"",
        "orders AS o",
    ]);
    let column = prop::sample::select(vec![
        "id",
        "orders.id",
        "o.id",
        "orders.orders",
        "x",
        "users.id",
    ]);
    let value = prop_oneof![
        column.clone().prop_map(str::to_owned),
        Just("'orders'".to_owned()),
        Just("1".to_owned()),
        Just("(SELECT max(orders.id) FROM orders)".to_owned()),
    ];
    let condition = prop_oneof![
        (column.clone(), value.clone()).prop_map(|(a, b)| format!("{a} = {b}")),
        column
            .clone()
            .prop_map(|a| format!("{a} IN (SELECT orders.id FROM orders)")),
        column
            .clone()
            .prop_map(|a| format!("EXISTS (SELECT 1 FROM items WHERE items.id = {a})")),
        Just("note LIKE '%orders%'".to_owned()),
    ];
    let select = (
        prop::collection::vec(value.clone(), 1..4),
        prop::collection::vec(table.clone(), 1..3),
        condition.clone(),
    )
        .prop_map(|(values, tables, condition)| {
            format!(
                "SELECT {} FROM {} WHERE {condition} ORDER BY 1",
                values.join(", "),
                tables.join(", ")
            )
        });
    prop_oneof![
        select.clone(),
        select
            .clone()
            .prop_map(|inner| format!("WITH orders AS ({inner}) SELECT orders.id FROM orders")),
        select
            .clone()
            .prop_map(|inner| format!("INSERT INTO orders (id, user_id) {inner}")),
        (value.clone(), condition.clone()).prop_map(|(value, condition)| format!(
            "UPDATE orders SET qty = {value} WHERE {condition}"
        )),
        condition.prop_map(|condition| format!("DELETE FROM orders WHERE {condition}")),
        (select.clone(), select).prop_map(|(a, b)| format!("{a}; {b}")),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn any_text(dialect in dialect(), text in ".{0,80}", spread in any::<u64>()) {
        invariant::check(&set(dialect), numbers(spread), &text);
    }

    #[test]
    fn any_words(dialect in dialect(), text in soup(), spread in any::<u64>()) {
        invariant::check(&set(dialect), numbers(spread), &text);
    }

    #[test]
    fn whole_statements(dialect in dialect(), text in statement(), spread in any::<u64>()) {
        invariant::check(&set(dialect), numbers(spread), &text);
    }
}
