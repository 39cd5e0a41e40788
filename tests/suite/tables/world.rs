//! The tables of these tests: `orders` and `parcels` are bound, `events` is split otherwise, `notes` not at
//! all.

use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use diesel_sharded::{KeyspaceConfig, RuleSpec};

use super::{Conn, Fleet, Manager, NAME, Sharded};

diesel::table! {
    orders (id) {
        id -> BigInt,
        user_id -> BigInt,
        qty -> Integer,
        note -> Nullable<Text>,
    }
}

diesel::table! {
    parcels (id) {
        id -> BigInt,
        user_id -> BigInt,
        order_id -> BigInt,
    }
}

diesel::table! {
    events (id) {
        id -> BigInt,
        user_id -> BigInt,
    }
}

diesel::table! {
    notes (id) {
        id -> BigInt,
        orders -> BigInt,
    }
}

diesel::table! {
    invoices (id) {
        id -> BigInt,
        user_id -> BigInt,
    }
}

diesel::allow_tables_to_appear_in_same_query!(orders, parcels, events, notes, invoices);

/// How many parts `orders` and `parcels` have.
pub(crate) const PARTS: u32 = 4;

/// The decoy's only row.
pub(crate) const DECOY: i64 = -1;

/// Two shards with all tables.
pub(crate) struct World {
    pub(crate) fleet: Fleet,
    pub(crate) shards: Manager,
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with(|builder| builder)
    }

    pub(crate) fn with(
        change: impl FnOnce(super::super::backend::Builder) -> super::super::backend::Builder,
    ) -> Self {
        let fleet = Fleet::new(&["a", "b"]);
        for shard in ["a", "b"] {
            create(&mut fleet.direct(shard));
        }
        // Key k: shard k mod 2, spread k / 2.
        let keyspace = KeyspaceConfig::new(RuleSpec::modulo(["a", "b"]))
            .table("orders", "user_id", PARTS)
            .table("parcels", "user_id", PARTS)
            .table("events", "user_id", 2);
        let billing =
            KeyspaceConfig::new(RuleSpec::modulo(["a", "b"])).table("invoices", "user_id", PARTS);
        let shards = change(
            fleet
                .builder()
                .keyspace("orders", keyspace)
                .keyspace("billing", billing),
        )
        .build()
        .unwrap();
        Self { fleet, shards }
    }

    /// Ids of the rows of a physical table, read past the crate.
    pub(crate) fn ids(&self, shard: &str, table: &str) -> Vec<i64> {
        ids_of(&mut self.fleet.direct(shard), table)
    }

    /// Fails unless the tables with the logical names are as they were made.
    pub(crate) fn assert_decoys(&self) {
        for shard in ["a", "b"] {
            for table in ["orders", "parcels", "events", "invoices"] {
                assert_eq!(
                    self.ids(shard, table),
                    [DECOY],
                    "the decoy {table} on {shard}"
                );
            }
        }
    }
}

/// A row of `orders`.
pub(crate) fn add(conn: &mut Sharded, id: i64, user_id: i64) -> QueryResult<usize> {
    diesel::insert_into(orders::table)
        .values((
            orders::id.eq(id),
            orders::user_id.eq(user_id),
            orders::qty.eq(1),
        ))
        .execute(conn)
}

/// The key with this spread on a shard.
pub(crate) fn key(shard: &str, spread: i64) -> i64 {
    spread * 2 + i64::from(shard == "b")
}

#[derive(QueryableByName)]
pub(crate) struct Id {
    #[diesel(sql_type = diesel::sql_types::BigInt)]
    pub(crate) id: i64,
}

pub(crate) fn ids_of(conn: &mut Conn, table: &str) -> Vec<i64> {
    diesel::sql_query(format!("SELECT id FROM {table} ORDER BY id"))
        .load::<Id>(conn)
        .unwrap_or_else(|error| panic!("{table}: {error}"))
        .into_iter()
        .map(|row| row.id)
        .collect()
}

fn create(conn: &mut Conn) {
    let text = if NAME == "mysql" {
        "VARCHAR(60)"
    } else {
        "TEXT"
    };
    let mut batch =
        "CREATE TABLE notes (id BIGINT PRIMARY KEY, orders BIGINT NOT NULL);".to_owned();
    let mut table = |name: &str, columns: &str, parts: u32| {
        for part in
            std::iter::once(name.to_owned()).chain((0..parts).map(|n| format!("{name}_{n}")))
        {
            batch += &format!(
                "CREATE TABLE {part} (id BIGINT PRIMARY KEY, user_id BIGINT NOT NULL{columns});"
            );
        }
        batch += &format!("INSERT INTO {name} (id, user_id) VALUES ({DECOY}, {DECOY});");
    };
    table(
        "orders",
        &format!(", qty INTEGER NOT NULL DEFAULT 0, note {text}"),
        PARTS,
    );
    table("parcels", ", order_id BIGINT NOT NULL DEFAULT 0", PARTS);
    table("events", "", 2);
    table("invoices", "", PARTS);
    conn.batch_execute(&batch).unwrap();
}
