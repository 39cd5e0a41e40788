//! A route guard belongs to the stack of its thread.
use diesel::SqliteConnection;
use diesel_sharded::blocking::ShardedConnectionManager;

fn check(shards: ShardedConnectionManager<SqliteConnection>) {
    let guard = shards.route("a").unwrap().enter().unwrap();
    std::thread::spawn(move || drop(guard));
}

fn main() {}
