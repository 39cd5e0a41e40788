//! A connection belongs to one shard: what happens when it is used under another shard's route.

use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use diesel_sharded::{Error, Route};

use super::backend::{Fleet, Manager, Sharded, ids, insert, whoami};
use crate::support::{items, ours, said, watch::Statements};

/// Every way to send something through a connection.
type Way = (&'static str, fn(&mut Sharded) -> QueryResult<()>);

const WAYS: &[Way] = &[
    ("load", |conn| ids(conn).map(drop)),
    ("first", |conn| whoami(conn).map(drop)),
    ("execute", |conn| insert(conn, 90).map(drop)),
    ("batch_execute", |conn| {
        conn.batch_execute("INSERT INTO items (id) VALUES (91)")
    }),
    ("sql_query", |conn| {
        diesel::sql_query("INSERT INTO items (id) VALUES (92)")
            .execute(conn)
            .map(drop)
    }),
    ("transaction", |conn| {
        conn.transaction(|conn| insert(conn, 93)).map(drop)
    }),
    ("inner", |conn| insert(&mut *conn.inner()?, 94).map(drop)),
    ("load_iter", |conn| {
        let rows = items::table
            .select(items::id)
            .load_iter::<i64, diesel::connection::DefaultLoadingMode>(conn)?;
        rows.collect::<QueryResult<Vec<_>>>().map(drop)
    }),
    ("setup", |conn| {
        diesel::migration::MigrationConnection::setup(conn).map(drop)
    }),
    ("ping", |conn| diesel::r2d2::R2D2Connection::ping(conn)),
];

fn assert_mismatch(error: &diesel::result::Error, way: &str) {
    let error = ours(error);
    let Error::RouteMismatch { bound, routed } = error else {
        panic!("{way}: {error:?}");
    };
    assert_eq!((bound.as_str(), routed.as_str()), ("a", "b"), "{way}");
    let text = said(error);
    assert!(text.contains("shard a") && text.contains('b'), "{text}");
}

#[test]
fn a_connection_bound_by_the_stack_refuses_another_route_and_sends_nothing() {
    let fleet = Fleet::new(&["a", "b"]);
    let shards = fleet.builder().default_shard("a").build().unwrap();
    let by_route = |shards: &Manager| shards.on("a", || shards.get()).unwrap();
    let by_default = |shards: &Manager| shards.get().unwrap();
    let bound: [&dyn Fn(&Manager) -> Sharded; 2] = [&by_route, &by_default];
    for bind in bound {
        for (way, send) in WAYS {
            let mut conn = bind(&shards);
            let heard = Statements::default();
            conn.set_instrumentation(heard.clone());
            shards
                .on("b", || {
                    assert_mismatch(&send(&mut conn).unwrap_err(), way);
                    Ok::<_, Error>(())
                })
                .unwrap();
            assert_eq!(heard.take(), [""; 0], "{way}: nothing was sent");
            // Outside the route the connection works: an empty stack names no shard.
            assert_eq!(whoami(&mut conn).unwrap(), "a", "{way}");
            // And under its own.
            shards
                .on("b", || {
                    shards.on("a", || Ok::<_, Error>(whoami(&mut conn)?))
                })
                .unwrap();
        }
    }
    for shard in ["a", "b"] {
        assert_eq!(fleet.rows(shard), [0; 0], "{shard}");
    }
}

#[test]
fn a_connection_asked_for_by_name_works_under_any_route() {
    let fleet = Fleet::new(&["a", "b"]);
    let shards = fleet.manager();
    let mut conn = shards.get_on("a").unwrap();
    shards
        .on("b", || {
            assert_eq!(whoami(&mut conn)?, "a");
            assert_eq!(whoami(&mut shards.get_on("a")?)?, "a");
            assert_eq!(whoami(&mut shards.get()?)?, "b");
            // A transaction begun and ended in here is refused: it would be open under b's route.
            let error = conn.transaction(|conn| insert(conn, 1)).unwrap_err();
            assert_mismatch(&error, "transaction");
            Ok::<_, Error>(())
        })
        .unwrap();
    assert_eq!(fleet.rows("a"), [0; 0]);
}

#[test]
fn an_open_transaction_binds_a_connection_asked_for_by_name() {
    let fleet = Fleet::new(&["a", "b"]);
    let shards = fleet.manager();
    for (way, send) in WAYS {
        if *way == "setup" {
            // Creates a table: it would end MySQL's transaction, which is another test's business.
            continue;
        }
        let mut conn = shards.get_on("a").unwrap();
        let committed = conn.transaction(|conn| {
            insert(conn, 1)?;
            shards.on("b", || {
                assert_mismatch(&send(conn).unwrap_err(), way);
                assert_eq!(whoami(&mut shards.get()?)?, "b", "no pin is in force");
                Ok::<_, Error>(())
            })?;
            assert_eq!(ids(conn)?, [1], "the transaction goes on");
            Err::<(), _>(diesel::result::Error::RollbackTransaction)
        });
        assert!(committed.is_err());
    }
    assert_eq!(fleet.rows("a"), [0; 0]);
}

#[test]
fn connections_made_lazily_inside_a_scope_belong_to_the_scope() {
    let fleet = Fleet::new(&["a", "b"]);
    let shards = fleet.builder().default_shard("a").build().unwrap();
    insert(&mut fleet.direct("b"), 7).unwrap();

    // The checkout happens in the scope; the rows are read after it.
    let mut conn = shards.on("b", || shards.get()).unwrap();
    assert_eq!(ids(&mut conn).unwrap(), [7]);
    let rows = shards
        .on("b", || {
            items::table
                .select(items::id)
                .load_iter::<i64, diesel::connection::DefaultLoadingMode>(&mut conn)
        })
        .unwrap();
    assert_eq!(rows.map(Result::unwrap).collect::<Vec<_>>(), [7]);

    // An iterator that checks out when it is asked: with the route captured, it goes to b.
    let mut lazy = shards
        .on("b", || {
            let (routes, shards) = (Route::capture(), shards.clone());
            Ok::<_, Error>(std::iter::from_fn(move || {
                Some(routes.run(|| Ok::<_, Error>(whoami(&mut shards.get()?)?)))
            }))
        })
        .unwrap();
    assert_eq!(lazy.next().unwrap().unwrap(), "b");
    shards
        .on("a", || {
            Ok::<_, Error>(assert_eq!(lazy.next().unwrap()?, "b"))
        })
        .unwrap();
}

#[test]
fn a_cursor_that_is_open_when_the_route_changes_stays_with_its_shard() {
    let fleet = Fleet::new(&["a", "b"]);
    let shards = fleet.manager();
    for id in 1..=3 {
        insert(&mut fleet.direct("a"), id).unwrap();
    }
    let mut conn = shards.on("a", || shards.get()).unwrap();
    let mut rows = items::table
        .select(items::id)
        .order(items::id)
        .load_iter::<i64, diesel::connection::DefaultLoadingMode>(&mut conn)
        .unwrap();
    assert_eq!(rows.next().unwrap().unwrap(), 1);
    let rest: Vec<i64> = shards
        .on("b", || rows.by_ref().collect::<QueryResult<_>>())
        .unwrap();
    assert_eq!(rest, [2, 3]);
}

#[test]
fn a_statement_outside_any_route_never_mismatches() {
    let fleet = Fleet::new(&["a", "b"]);
    let shards = fleet.manager();
    let mut conn = shards.on("b", || shards.get()).unwrap();
    assert_eq!(whoami(&mut conn).unwrap(), "b");
    shards
        .on("a", || {
            // `independent` hides the route, so there is none that could differ.
            assert_eq!(shards.independent(|| whoami(&mut conn))?, "b");
            assert!(whoami(&mut conn).is_err());
            Ok::<_, Error>(())
        })
        .unwrap();
    assert_eq!(conn.shard().unwrap(), "b");
}
