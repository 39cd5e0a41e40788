//! Table sets for the tests.

use super::super::{Dialect, Parts, PlacedBy, ShardedTable, TableSet};
use crate::name::KeyspaceName;

/// Of the routes to these tables.
pub(crate) const PLACED_BY: PlacedBy = PlacedBy(1);

pub(super) fn table(keyspace: &str, name: &str, count: u32) -> ShardedTable {
    let (schema, name) = match name.split_once('.') {
        Some((schema, name)) => (Some(schema.to_owned()), name),
        None => (None, name),
    };
    ShardedTable {
        keyspace: KeyspaceName::intern(keyspace),
        schema,
        name: name.to_owned(),
        key_column: "user_id".to_owned(),
        placed_by: PLACED_BY,
        parts: Parts::Numbered((0..count).map(|n| format!("{name}_{n}")).collect()),
    }
}

/// `orders` and `items` are bound, `events` has another count, `invoices` another keyspace.
pub(crate) fn set(dialect: Dialect) -> TableSet {
    TableSet::new(
        dialect,
        Some("shop"),
        vec![
            table("orders", "orders", 8),
            table("orders", "items", 8),
            table("orders", "events", 4),
            table("billing", "invoices", 8),
            table("orders", "order", 8),
        ],
    )
}
