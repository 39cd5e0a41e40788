//! What has no body to wrap, or a future that would outlive the route.
#![allow(unused)]
use diesel::SqliteConnection;
use diesel::prelude::*;
use diesel_sharded::blocking::{Keyspace, ShardedConnection, ShardedConnectionManager};
use diesel_sharded::{routed, sharded_transaction};

struct App {
    shards: ShardedConnectionManager<SqliteConnection>,
    orders: Keyspace<SqliteConnection>,
}

trait Service {
    #[routed(shards = self.shards(), shard = "a")]
    fn without_a_body(&self) -> QueryResult<()>;
}

impl App {
    #[routed(shards = self.shards, shard = "a")]
    const fn constant(&self) -> QueryResult<()> {
        Ok(())
    }

    #[routed(shards = self.shards, shard = "a")]
    fn future_of_somebody_else(&self) -> impl Future<Output = QueryResult<()>> {
        elsewhere()
    }
}

async fn elsewhere() -> QueryResult<()> {
    Ok(())
}

#[routed(shards = shards(), shard = "a")]
struct NoFunction;

fn main() {}
