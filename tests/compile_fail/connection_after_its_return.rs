//! A connection that was given back cannot be used, nor can one leave its transaction.
use diesel::SqliteConnection;
use diesel::connection::SimpleConnection;
use diesel_sharded::blocking::ShardedConnectionManager;

fn check(shards: ShardedConnectionManager<SqliteConnection>) {
    let mut conn = shards.get_on("a").unwrap();
    drop(conn);
    conn.batch_execute("SELECT 1").unwrap();
}

fn escapes(shards: ShardedConnectionManager<SqliteConnection>) {
    let mut kept = None;
    let _: diesel::QueryResult<()> = shards.transaction_on("a", |conn| {
        kept = Some(conn);
        Ok(())
    });
}

fn main() {}
