//! The prepared SELECT under a route that means a physical table, and what connections remember for it.

use std::cell::RefCell;
use std::hint::black_box;
use std::rc::Rc;

use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use diesel::{PgConnection, SqliteConnection};
use diesel_sharded::blocking::NodeConnection;
use diesel_sharded::{KeyspaceConfig, Route, RuleSpec};

use super::compare::Work;
use super::operations::{ROWS, SCHEMA, Sharded, find_flights, flights};

const POSTGRES_SCHEMA: &str = "
    DROP TABLE IF EXISTS flights;
    CREATE TABLE flights (id BIGINT PRIMARY KEY, tail_number TEXT NOT NULL, distance INTEGER NOT NULL);
    INSERT INTO flights SELECT id, 'N' || (10000 + id * 7), id * 3 FROM generate_series(1, 1000) AS id";

/// One database in which `flights` is split into so many tables.
fn shards<C: NodeConnection>(url: &str, count: u32) -> Sharded<C> {
    Sharded::<C>::builder()
        .shard("a", url)
        .keyspace(
            "k",
            KeyspaceConfig::new(RuleSpec::hash(["a"], 16)).table("flights", "id", count),
        )
        .build()
        .expect("one shard")
}

/// Under a route to a physical table, and under a route to the shard of the plain table.
pub(crate) fn under_a_table_route() -> (Work, Work) {
    (sqlite(4), sqlite(1))
}

fn sqlite(count: u32) -> Work {
    prepared(
        &shards::<SqliteConnection>(":memory:", count),
        count,
        SCHEMA,
        |conn, n| {
            find_flights(conn, n);
        },
    )
}

/// One of the two, for counting instructions.
pub(crate) fn statement_table_route(count: u32) -> Work {
    sqlite(count)
}

diesel::table! {
    flights_3 (id) {
        id -> BigInt,
        tail_number -> Text,
        distance -> Integer,
    }
}

/// The same on a server: both on one connection and on one table, named by the route or by its own name. Two
/// connections would be two processes of the server, which differ by more than what is looked for.
pub(crate) fn under_a_table_route_on_postgres(url: &str) -> (Work, Work) {
    let shards = shards::<PgConnection>(url, 4);
    let table = shards
        .keyspace("k")
        .and_then(|keyspace| keyspace.table_route("a", 3))
        .expect("a table");
    let shard = shards.route("a").expect("a shard");
    let mut conn = shards.get_on("a").expect("a connection");
    let created: Result<(), diesel::result::Error> =
        table.run(|| conn.batch_execute(POSTGRES_SCHEMA));
    created.expect("the flights");
    let conn = Rc::new(RefCell::new(conn));
    let again = Rc::clone(&conn);
    (
        Work::new(move |n| {
            finds(&table, n, |id| {
                flights::table.find(id).get_result(&mut *conn.borrow_mut())
            })
        }),
        Work::new(move |n| {
            finds(&shard, n, |id| {
                flights_3::table
                    .find(id)
                    .get_result(&mut *again.borrow_mut())
            })
        }),
    )
}

fn finds(route: &Route, n: u64, mut find: impl FnMut(i64) -> QueryResult<(i64, String, i32)>) {
    let done = route.run(|| {
        for i in 0..n {
            black_box(find(i as i64 % ROWS + 1)?);
        }
        Ok::<_, diesel::result::Error>(())
    });
    done.expect("the flights with these ids");
}

fn prepared<C: NodeConnection>(
    shards: &Sharded<C>,
    count: u32,
    schema: &str,
    find: impl Fn(&mut diesel_sharded::blocking::ShardedConnection<C>, u64) + 'static,
) -> Work {
    let route = if count > 1 {
        shards
            .keyspace("k")
            .and_then(|keyspace| keyspace.table_route("a", 3))
    } else {
        shards.route("a")
    };
    let route = route.expect("a route");
    let mut conn = route.run(|| shards.get()).expect("a connection");
    let created: Result<(), diesel::result::Error> = route.run(|| conn.batch_execute(schema));
    created.expect("the flights");
    Work::new(move |n| {
        let done = route.run(|| {
            find(&mut conn, n);
            Ok::<_, diesel::result::Error>(())
        });
        done.expect("the route");
    })
}

/// What 8 connections remember after 50 shapes of a query on each of 32 tables.
pub(crate) fn remembered() -> String {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("a.db").display().to_string();
    let shards = shards::<SqliteConnection>(&file, 32);
    let keyspace = shards.keyspace("k").expect("the keyspace");
    let mut conns: Vec<_> = (0..8)
        .map(|_| shards.get_on("a").expect("a connection"))
        .collect();
    for number in 0..32 {
        let route = keyspace.table_route("a", number).expect("a table");
        let asked = route.run(|| {
            conns[0].batch_execute(
                "CREATE TABLE flights (id INTEGER PRIMARY KEY, tail_number TEXT NOT NULL, distance INTEGER NOT NULL)",
            )?;
            for conn in &mut conns {
                for shape in 0..50 {
                    let mut query = flights::table.into_boxed();
                    for _ in 0..shape {
                        query = query.filter(flights::distance.ne(-1));
                    }
                    let none: Vec<(i64, String, i32)> = query.load(conn)?;
                    assert!(none.is_empty());
                }
            }
            Ok::<_, diesel::result::Error>(())
        });
        asked.expect("every shape on every table");
    }
    let status = shards.status();
    let node = &status.nodes[0];
    format!(
        "{} prepared statements and {} bytes of texts and templates in 8 connections (bounds for each: 256 statements; 512 KiB of templates and 256 texts of at most 16 KiB)",
        node.table_statements, node.table_text_bytes
    )
}
