//! The prepared SELECT under a route that means a physical table.

use diesel::SqliteConnection;
use diesel::connection::SimpleConnection;
use diesel_sharded::{KeyspaceConfig, RuleSpec};

use super::compare::Work;
use super::operations::{SCHEMA, Sharded, find_flights};

/// One in-memory database with `flights` itself and, in its place, one physical table of it.
fn shards(count: u32) -> Sharded<SqliteConnection> {
    Sharded::<SqliteConnection>::builder()
        .shard("a", ":memory:")
        .keyspace(
            "k",
            KeyspaceConfig::new(RuleSpec::hash(["a"], 16)).table("flights", "id", count),
        )
        .build()
        .expect("one shard")
}

/// Under a route to a physical table, and under a route to the shard of the plain table.
pub(crate) fn under_a_table_route() -> (Work, Work) {
    let sharded = shards(4);
    let route = sharded
        .keyspace("k")
        .and_then(|keyspace| keyspace.table_route("a", 3))
        .expect("table 3");
    let mut conn = route.run(|| sharded.get()).expect("a connection");
    conn.batch_execute(&SCHEMA.replace("flights", "flights_3"))
        .expect("the flights");
    let ours = Work::new(move |n| {
        let done = route.run(|| {
            find_flights(&mut conn, n);
            Ok::<_, diesel::result::Error>(())
        });
        done.expect("the route");
    });
    let plain = shards(1);
    let route = plain.route("a").expect("shard a");
    let mut conn = route.run(|| plain.get()).expect("a connection");
    conn.batch_execute(SCHEMA).expect("the flights");
    let theirs = Work::new(move |n| {
        let done = route.run(|| {
            find_flights(&mut conn, n);
            Ok::<_, diesel::result::Error>(())
        });
        done.expect("the route");
    });
    (ours, theirs)
}
