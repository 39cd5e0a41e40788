//! The connection of a transaction is one parameter, marked.
#![allow(unused)]
use diesel::SqliteConnection;
use diesel::prelude::*;
use diesel_sharded::blocking::{Keyspace, ShardedConnection, ShardedConnectionManager};
use diesel_sharded::{routed, sharded_transaction};

struct App {
    shards: ShardedConnectionManager<SqliteConnection>,
    orders: Keyspace<SqliteConnection>,
}

type Conn = ShardedConnection<SqliteConnection>;

impl App {
    #[sharded_transaction(keyspace = self.orders, key = 7)]
    fn not_marked(&self, conn: &mut Conn) -> QueryResult<()> {
        Ok(())
    }

    #[sharded_transaction(keyspace = self.orders, key = 7)]
    fn two(&self, #[conn] a: &mut Conn, #[conn] b: &mut Conn) -> QueryResult<()> {
        Ok(())
    }

    #[sharded_transaction(keyspace = self.orders, key = 7)]
    fn lives_on<'a>(&'a self, #[conn] conn: &'a mut Conn) -> QueryResult<()> {
        Ok(())
    }

    #[sharded_transaction(keyspace = self.orders, key = 7)]
    fn by_value(&self, #[conn] conn: Conn) -> QueryResult<()> {
        Ok(())
    }

    #[sharded_transaction(keyspace = self.orders, key = 7)]
    fn of_another_backend(&self, #[conn] conn: &mut ShardedConnection<PgConnection>) -> QueryResult<()> {
        Ok(())
    }

    #[sharded_transaction(keyspace = self.orders, key = 7)]
    fn marked_with_more(&self, #[conn(first)] conn: &mut Conn) -> QueryResult<()> {
        Ok(())
    }

    #[sharded_transaction(keyspace = self.orders, key = 7)]
    fn given_away(&self, #[conn] conn: &mut Conn) -> QueryResult<&mut Conn> {
        Ok(conn)
    }

    #[sharded_transaction(keyspace = self.orders, key = 7)]
    fn fine(&self, #[conn] conn: &mut Conn) -> QueryResult<()> {
        Ok(())
    }

    fn callers_do_not_pass_it(&self, conn: &mut Conn) -> QueryResult<()> {
        self.fine(conn)
    }
}

fn main() {}
