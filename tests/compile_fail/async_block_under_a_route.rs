//! An async block would lose the route at its first poll.
use diesel::SqliteConnection;
use diesel_sharded::blocking::ShardedConnectionManager;

fn check(shards: ShardedConnectionManager<SqliteConnection>) {
    let _ = shards.on("a", || async { Ok::<_, diesel::result::Error>(()) });
}

fn main() {}
