//! What the body consumes is cloned for each run.
#![allow(unused)]
use diesel::SqliteConnection;
use diesel::prelude::*;
use diesel_sharded::blocking::{Keyspace, ShardedConnection, ShardedConnectionManager};
use diesel_async::sync_connection_wrapper::SyncConnectionWrapper;
use diesel_sharded::nonblocking::{self, AsyncShardedConnection};
use diesel_sharded::{routed, sharded_transaction};

struct App {
    shards: ShardedConnectionManager<SqliteConnection>,
    orders: Keyspace<SqliteConnection>,
}

struct Order {
    user_id: i64,
    note: String,
}

type Conn = ShardedConnection<SqliteConnection>;
type AsyncConn = AsyncShardedConnection<SyncConnectionWrapper<SqliteConnection>>;

impl App {
    #[sharded_transaction(keyspace = self.orders, key = order.user_id, retries = 3)]
    fn consumed(&self, #[conn] conn: &mut Conn, order: Order) -> QueryResult<()> {
        drop(order);
        Ok(())
    }

    #[sharded_transaction(keyspace = self.orders, key = order.user_id, retries = 3)]
    fn borrowed_is_fine(&self, #[conn] conn: &mut Conn, order: Order) -> QueryResult<usize> {
        look(&order)
    }

    #[sharded_transaction(keyspace = self.orders, key = 7, retries = 3)]
    fn looked_at_through_a_field(&self, #[conn] conn: &mut Conn, order: Order) -> QueryResult<usize> {
        Ok((&order.note).len() + (&order).note.len())
    }

    #[sharded_transaction(keyspace = self.orders, key = 7, retries = 3)]
    fn itself(self, #[conn] conn: &mut Conn) -> QueryResult<()> {
        Ok(())
    }
}

struct AsyncApp {
    orders: nonblocking::Keyspace<SyncConnectionWrapper<SqliteConnection>>,
    seen: Vec<i64>,
}

impl AsyncApp {
    #[sharded_transaction(keyspace = self.orders, key = 7, retries = 3)]
    async fn changes_an_argument(&self, #[conn] conn: &mut AsyncConn, seen: &mut Vec<i64>) -> QueryResult<()> {
        seen.push(1);
        Ok(())
    }

    #[sharded_transaction(keyspace = self.orders, key = 7, retries = 3)]
    async fn changes_itself(&mut self, #[conn] conn: &mut AsyncConn) -> QueryResult<()> {
        self.seen.push(1);
        Ok(())
    }
}

fn look(order: &Order) -> QueryResult<usize> {
    Ok(order.note.len())
}

fn main() {}
