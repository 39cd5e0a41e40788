//! A guard that nobody keeps is left at once.
#![deny(unused_must_use)]
use diesel::SqliteConnection;
use diesel_sharded::blocking::ShardedConnectionManager;

fn check(shards: ShardedConnectionManager<SqliteConnection>) {
    shards.route("a").unwrap().enter().unwrap();
    shards.route("a").unwrap();
    diesel_sharded::Route::capture();
    shards.transaction_builder("a").read_only();
}

fn main() {}
