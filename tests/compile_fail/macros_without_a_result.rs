//! Where the work must not go, the error has to go somewhere.
#![allow(unused)]
use diesel::SqliteConnection;
use diesel::prelude::*;
use diesel_sharded::blocking::{Keyspace, ShardedConnection, ShardedConnectionManager};
use diesel_sharded::{routed, sharded_transaction};

struct App {
    shards: ShardedConnectionManager<SqliteConnection>,
    orders: Keyspace<SqliteConnection>,
}

type Plain = i64;

struct OwnError;

impl App {
    #[routed(shards = self.shards, shard = "a")]
    fn nothing(&self) {}

    #[routed(shards = self.shards, shard = "a")]
    fn number(&self) -> i64 {
        1
    }

    #[routed(shards = self.shards, shard = "a")]
    fn behind_a_name(&self) -> Plain {
        1
    }

    #[routed(shards = self.shards, shard = "a")]
    fn error_that_takes_none_of_diesels(&self) -> Result<i64, OwnError> {
        Ok(1)
    }
}

fn main() {}
