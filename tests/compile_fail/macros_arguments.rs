//! Every wrong argument is named, at once.
#![allow(unused)]
use diesel::SqliteConnection;
use diesel::prelude::*;
use diesel_sharded::blocking::{Keyspace, ShardedConnection, ShardedConnectionManager};
use diesel_sharded::{routed, sharded_transaction};

struct App {
    shards: ShardedConnectionManager<SqliteConnection>,
    orders: Keyspace<SqliteConnection>,
}

impl App {
    #[routed(keyspace = self.orders)]
    fn key_missing(&self) -> QueryResult<()> {
        Ok(())
    }

    #[routed(shard = "a")]
    fn manager_missing(&self) -> QueryResult<()> {
        Ok(())
    }

    #[routed(keyspace = self.orders, key = 7, shards = self.shards, shard = "a")]
    fn both(&self) -> QueryResult<()> {
        Ok(())
    }

    #[routed(key_space = self.orders, key = 7, key = 8, isolation = "serializable")]
    fn unknown_and_twice(&self) -> QueryResult<()> {
        Ok(())
    }

    #[routed]
    fn nothing(&self) -> QueryResult<()> {
        Ok(())
    }

    #[sharded_transaction(keyspace = self.orders, key = 7, isolation = "snapshot", read_only = true, retries)]
    fn options(&self, #[conn] conn: &mut ShardedConnection<SqliteConnection>) -> QueryResult<()> {
        Ok(())
    }
}

fn main() {}
