//! A key is type-checked where it stands.
#![allow(unused)]
use diesel::SqliteConnection;
use diesel::prelude::*;
use diesel_sharded::blocking::{Keyspace, ShardedConnection, ShardedConnectionManager};
use diesel_sharded::{routed, sharded_transaction};

struct App {
    shards: ShardedConnectionManager<SqliteConnection>,
    orders: Keyspace<SqliteConnection>,
}

struct Order {
    user_id: i64,
    price: f64,
}

impl App {
    #[routed(keyspace = self.orders, key = order.price)]
    fn no_key(&self, order: &Order) -> QueryResult<()> {
        Ok(())
    }

    #[routed(keyspace = self.orders, key = order.user)]
    fn no_such_field(&self, order: &Order) -> QueryResult<()> {
        Ok(())
    }

    #[routed(keyspace = self.shards, key = order.user_id)]
    fn a_manager_is_no_keyspace(&self, order: &Order) -> QueryResult<()> {
        Ok(())
    }
}

fn main() {}
