//! Prepared statements over sharded tables are right and bounded.

use diesel::connection::{CacheSize, Connection};
use diesel::prelude::*;

use super::super::surface::recorder::Recorder;
use super::world::{World, key, orders};
use super::{Conn, NAME, Sharded};

type Db = <Conn as Connection>::Backend;

const SHAPES: usize = 50;
const LIMIT: u32 = 64;

/// A query of its own shape for each `shape`; it answers the ids of the part.
fn ask(conn: &mut Sharded, shape: usize) -> QueryResult<Vec<i64>> {
    let mut query = orders::table.select(orders::id).into_boxed::<Db>();
    for _ in 0..shape {
        query = query.filter(orders::qty.ne(-1));
    }
    query.order(orders::id).load(conn)
}

fn fill(world: &World) {
    let keyspace = world.shards.keyspace("orders").unwrap();
    for part in 0..4 {
        let user = key("a", part);
        keyspace
            .transaction_for(&user, |conn| {
                diesel::insert_into(orders::table)
                    .values((
                        orders::id.eq(part),
                        orders::user_id.eq(user),
                        orders::qty.eq(1),
                    ))
                    .execute(conn)
            })
            .unwrap();
    }
}

/// Every shape on every part, twice.
fn ask_all(world: &World, conn: &mut Sharded) {
    let keyspace = world.shards.keyspace("orders").unwrap();
    for _ in 0..2 {
        for part in 0..4 {
            keyspace
                .on_table_of("orders", "a", part, || {
                    for shape in 0..SHAPES {
                        assert_eq!(ask(conn, shape)?, [i64::from(part)], "{shape} on {part}");
                    }
                    Ok::<_, diesel::result::Error>(())
                })
                .unwrap();
        }
    }
}

#[test]
fn prepared_statements_stay_within_their_bound() {
    let world =
        World::with(|builder| builder.pool(crate::support::pool(1).table_statements(LIMIT)));
    fill(&world);
    let conn = &mut world.shards.get_on("a").unwrap();
    let recorder = Recorder::default();
    conn.set_instrumentation(recorder.clone());
    ask_all(&world, conn);
    // Filling the tables has used four of them, one for each.
    let bound = usize::try_from(LIMIT).unwrap();
    assert!(
        (bound - 4..=bound).contains(&recorder.cached()),
        "{}",
        recorder.cached()
    );
    // Other statements are kept as ever.
    recorder.take();
    for _ in 0..2 {
        let none: Vec<i64> = super::world::notes::table
            .select(super::world::notes::id)
            .load(conn)
            .unwrap();
        assert!(none.is_empty());
    }
    assert_eq!(recorder.cached(), 1);
    if NAME == "postgres" {
        #[derive(QueryableByName)]
        struct Count {
            #[diesel(sql_type = diesel::sql_types::BigInt)]
            n: i64,
        }
        let prepared: Count = diesel::sql_query(
            "SELECT count(*) AS n FROM pg_prepared_statements WHERE statement LIKE '%orders_%'",
        )
        .get_result(conn)
        .unwrap();
        assert!(prepared.n <= i64::from(LIMIT), "{}", prepared.n);
    }
}

#[test]
fn an_emptied_cache_has_room_again() {
    let world =
        World::with(|builder| builder.pool(crate::support::pool(1).table_statements(LIMIT)));
    fill(&world);
    let conn = &mut world.shards.get_on("a").unwrap();
    ask_all(&world, conn);
    conn.set_prepared_statement_cache_size(CacheSize::Disabled);
    conn.set_prepared_statement_cache_size(CacheSize::Unbounded);
    let recorder = Recorder::default();
    conn.set_instrumentation(recorder.clone());
    ask_all(&world, conn);
    assert_eq!(recorder.cached(), usize::try_from(LIMIT).unwrap());
}

#[test]
fn no_statement_is_kept_where_none_may_be() {
    let world = World::with(|builder| builder.pool(crate::support::pool(1).table_statements(0)));
    fill(&world);
    let conn = &mut world.shards.get_on("a").unwrap();
    let recorder = Recorder::default();
    conn.set_instrumentation(recorder.clone());
    ask_all(&world, conn);
    assert_eq!(recorder.cached(), 0);
}
