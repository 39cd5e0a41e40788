//! Prepared statements over sharded tables are right and bounded.

use diesel::connection::{CacheSize, Connection};
use diesel::prelude::*;

use super::super::surface::recorder::Recorder;
use super::world::{World, key, orders};
use super::{Conn, DRIVER, NAME, Sharded};

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
            "SELECT count(*) AS n FROM pg_prepared_statements WHERE statement LIKE '%orders_%' AND statement NOT LIKE '%count(*)%'",
        )
        .get_result(conn)
        .unwrap();
        assert!(prepared.n <= i64::from(LIMIT), "{}", prepared.n);
    }
}

diesel::table! {
    /// The same table with wider numbers.
    #[sql_name = "orders"]
    wide (id) {
        id -> BigInt,
        qty -> BigInt,
    }
}

#[test]
fn queries_of_one_text_bind_values_of_their_own_types() {
    let world = World::new();
    fill(&world);
    let conn = &mut world.shards.get_on("a").unwrap();
    for part in [0, 1, 0] {
        let asked = world.shards.keyspace("orders").unwrap().on_table_of("orders", "a", part, || {
            for _ in 0..2 {
                let narrow: Vec<i64> = orders::table
                    .filter(orders::qty.ne(1_000))
                    .select(orders::id)
                    .load(conn)?;
                let wide_typed: Vec<i64> = wide::table
                    .filter(wide::qty.ne(1_000_000_000_000))
                    .select(wide::id)
                    .load(conn)?;
                let boxed: Vec<i64> = orders::table
                    .filter(orders::qty.ne(1_000))
                    .select(orders::id)
                    .into_boxed()
                    .load(conn)?;
                let wide_boxed: Vec<i64> = wide::table
                    .filter(wide::qty.ne(1_000_000_000_000))
                    .select(wide::id)
                    .into_boxed()
                    .load(conn)?;
                assert_eq!([&wide_typed, &boxed, &wide_boxed], [&narrow; 3]);
                assert_eq!(narrow, [i64::from(part)]);
            }
            QueryResult::Ok(())
        });
        asked.unwrap();
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

/// A table of 32 parts, in one shard.
fn many_parts() -> (super::Fleet, super::Manager) {
    use diesel_sharded::{KeyspaceConfig, RuleSpec};

    let fleet = super::Fleet::new(&["a"]);
    let conn = &mut fleet.direct("a");
    for part in 0..32 {
        diesel::connection::SimpleConnection::batch_execute(
            conn,
            &format!(
                "CREATE TABLE orders_{part} (id BIGINT PRIMARY KEY, user_id BIGINT NOT NULL, qty INTEGER NOT NULL DEFAULT 0, note VARCHAR(60))"
            ),
        )
        .unwrap();
    }
    let keyspace =
        KeyspaceConfig::new(RuleSpec::hash(["a"], 4096)).table("orders", "user_id", 32);
    let shards = fleet
        .builder()
        .pool(crate::support::pool(8))
        .keyspace("k", keyspace)
        .build()
        .unwrap();
    (fleet, shards)
}

/// The prepared statements that a session has open, says its server.
fn open_statements(conn: &mut Sharded) -> Option<i64> {
    #[derive(QueryableByName)]
    struct Status {
        #[diesel(sql_type = diesel::sql_types::Text)]
        #[diesel(column_name = "Value")]
        value: String,
    }
    #[derive(QueryableByName)]
    struct Count {
        #[diesel(sql_type = diesel::sql_types::BigInt)]
        n: i64,
    }
    match NAME {
        "postgres" => {
            let text = "SELECT count(*) AS n FROM pg_prepared_statements WHERE statement LIKE '%orders_%' AND statement NOT LIKE '%count(*)%'";
            Some(diesel::sql_query(text).get_result::<Count>(conn).unwrap().n)
        }
        "mysql" => {
            // `Prepared_stmt_count` is of the whole server; these two are of the session.
            let mut status = |name: &str| -> i64 {
                let text = format!("SHOW SESSION STATUS LIKE '{name}'");
                let status: Status = diesel::sql_query(text).get_result(conn).unwrap();
                status.value.parse().unwrap()
            };
            Some(status("Com_stmt_prepare") - status("Com_stmt_close"))
        }
        _ => None,
    }
}

#[test]
fn many_tables_many_shapes_and_many_connections_stay_within_the_default() {
    const DEFAULT: usize = 256;
    let (_fleet, shards) = many_parts();
    let keyspace = shards.keyspace("k").unwrap();
    // What one connection keeps is decided beneath both drivers: many of them once for each backend.
    let connections = if DRIVER == "blocking" { 8 } else { 1 };
    let mut conns: Vec<Sharded> = (0..connections)
        .map(|_| shards.get_on("a").unwrap())
        .collect();
    for conn in &mut conns {
        let recorder = Recorder::default();
        conn.set_instrumentation(recorder.clone());
        for part in 0..32 {
            keyspace
                .on_table("a", part, || {
                    (0..SHAPES).try_for_each(|shape| {
                        assert_eq!(ask(conn, shape)?, [0; 0]);
                        QueryResult::Ok(())
                    })
                })
                .unwrap();
        }
        assert_eq!(recorder.cached(), DEFAULT);
        if let Some(open) = open_statements(conn) {
            let open = usize::try_from(open).unwrap();
            // MySQL's count has the few statements of the connection's set-up in it.
            let few = if NAME == "mysql" { 8 } else { 0 };
            assert!((DEFAULT..=DEFAULT + few).contains(&open), "{open}");
        }
    }
    let status = shards.status();
    let node = &status.nodes[0];
    assert_eq!(node.table_statements, conns.len() * DEFAULT);
    // Templates and texts: far below the bound of 512 KiB and 256 texts of 16 KiB for each connection.
    let bytes = node.table_text_bytes / conns.len();
    assert!((16 * 1024..2 * 1024 * 1024).contains(&bytes), "{bytes}");
    drop(conns);
    // What is closed keeps nothing.
    drop(keyspace);
    let gone = shards
        .reload_with(|topology| topology.remove_shard("a"))
        .map(drop);
    assert!(gone.is_err(), "a keyspace needs its shard");
}

/// The number that stands for a text is asked for while an observer runs another statement.
#[test]
fn an_observer_that_asks_meanwhile_gets_its_own_rows() {
    use diesel::connection::InstrumentationEvent;

    let world = World::new();
    fill(&world);
    let keyspace = world.shards.keyspace("orders").unwrap();
    let inner = std::sync::Arc::new(std::sync::Mutex::new(
        world.shards.keyspace("orders").unwrap().get(&key("a", 1)).unwrap(),
    ));
    let mut outer = keyspace.get(&key("a", 0)).unwrap();
    let asked = std::sync::Arc::clone(&inner);
    outer.set_instrumentation(move |event: InstrumentationEvent<'_>| {
        if matches!(
            event,
            InstrumentationEvent::StartQuery { .. } | InstrumentationEvent::CacheQuery { .. }
        ) {
            let conn = &mut *asked.lock().unwrap();
            let ids: Vec<i64> = orders::table.select(orders::id).load(conn).unwrap();
            assert_eq!(ids, [1]);
        }
    });
    for _ in 0..3 {
        let ids: Vec<i64> = orders::table.select(orders::id).load(&mut outer).unwrap();
        assert_eq!(ids, [0]);
        let one: i64 = orders::table.find(0).select(orders::id).first(&mut outer).unwrap();
        assert_eq!(one, 0);
    }
}
