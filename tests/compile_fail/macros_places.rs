//! A manager is no keyspace, a keyspace no manager, and an async function takes those of its driver.
#![allow(unused)]
use diesel::SqliteConnection;
use diesel::prelude::*;
use diesel_async::sync_connection_wrapper::SyncConnectionWrapper;
use diesel_sharded::blocking::{Keyspace, ShardedConnection, ShardedConnectionManager};
use diesel_sharded::nonblocking::{self, AsyncShardedConnection};
use diesel_sharded::{routed, sharded_transaction};

struct App {
    shards: ShardedConnectionManager<SqliteConnection>,
    orders: Keyspace<SqliteConnection>,
}

type Conn = ShardedConnection<SqliteConnection>;
type AsyncConn = AsyncShardedConnection<SyncConnectionWrapper<SqliteConnection>>;

impl App {
    #[routed(shards = self.orders, shard = "order-1")]
    fn hashes_the_name(&self) -> QueryResult<()> {
        Ok(())
    }

    #[sharded_transaction(shards = self.orders, shard = "order-1")]
    fn hashes_the_name_too(&self, #[conn] conn: &mut Conn) -> QueryResult<()> {
        Ok(())
    }

    #[sharded_transaction(keyspace = self.shards, key = name)]
    fn takes_the_key_for_a_shard(&self, name: &str, #[conn] conn: &mut Conn) -> QueryResult<()> {
        Ok(())
    }

    #[routed(keyspace = "orders", key = 1)]
    fn names_the_keyspace(&self) -> QueryResult<()> {
        Ok(())
    }

    #[routed(keyspace = self.orders, key = 1)]
    async fn waits_on_a_blocking_one(&self) -> QueryResult<()> {
        Ok(())
    }
}

struct AsyncApp {
    orders: nonblocking::Keyspace<SyncConnectionWrapper<SqliteConnection>>,
}

impl AsyncApp {
    #[sharded_transaction(keyspace = self.orders, key = 1)]
    fn blocks_on_an_async_one(&self, #[conn] conn: &mut AsyncConn) -> QueryResult<()> {
        Ok(())
    }
}

fn main() {}
