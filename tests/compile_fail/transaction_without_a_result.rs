//! The closure of a transaction says whether it is to be committed.
use diesel::SqliteConnection;
use diesel_sharded::blocking::ShardedConnectionManager;

fn check(shards: ShardedConnectionManager<SqliteConnection>) {
    let _ = shards.transaction_on("a", |_conn| 1);
}

fn main() {}
