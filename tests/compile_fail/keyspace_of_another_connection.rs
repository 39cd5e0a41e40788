//! A keyspace hands out the connections of its own manager's type.
use diesel::{PgConnection, SqliteConnection};
use diesel_sharded::blocking::{Keyspace, ShardedConnectionManager};

fn orders(_: &Keyspace<PgConnection>) {}

fn check(shards: ShardedConnectionManager<SqliteConnection>) {
    let keyspace = shards.keyspace("orders").unwrap();
    orders(&keyspace);
}

fn main() {}
