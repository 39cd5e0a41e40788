//! A checked insert takes one of our connections, and a row that Diesel can insert.
#![allow(unused)]
use diesel::SqliteConnection;
use diesel::prelude::*;
use diesel_sharded::ShardKey;
use diesel_sharded::blocking::ShardedConnection;

diesel::table! {
    orders (id) {
        id -> BigInt,
        user_id -> BigInt,
    }
}

#[derive(Insertable, ShardKey)]
#[diesel(table_name = orders)]
#[sharded(keyspace = "orders")]
struct Order {
    id: i64,
    #[shard_key]
    user_id: i64,
}

#[derive(ShardKey)]
#[sharded(keyspace = "orders", table = orders)]
struct NotInsertable {
    #[shard_key]
    user_id: i64,
}

fn raw(order: &Order, conn: &mut SqliteConnection) {
    let _ = order.insert_checked(conn);
}

fn row(order: &NotInsertable, conn: &mut ShardedConnection<SqliteConnection>) {
    let _ = order.insert_checked(conn);
}

fn main() {}
