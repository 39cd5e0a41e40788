//! Inside `transaction_on` the shard is pinned: what is refused, and what is still allowed.

use std::time::{Duration, Instant};

use diesel::prelude::*;
use diesel_sharded::{CapturedRoutes, Error, KeyspaceConfig, Route, RuleSpec};

use super::backend::{Fleet, Keyspace, Manager, Outcome, ids, insert, whoami};
use crate::support::{ours, said};

/// What the ways to ask for a shard work with.
struct Scene {
    shards: Manager,
    /// Remainder 0 lives on `a`, remainder 1 on `b`.
    keys: Keyspace,
}

impl Scene {
    fn new(fleet: &Fleet, size: u32) -> Self {
        let shards = fleet
            .builder_of_size(size)
            .keyspace("k", KeyspaceConfig::new(RuleSpec::modulo(["a", "b"])))
            .build()
            .unwrap();
        let keys = shards.keyspace("k").unwrap();
        let scene = Self { shards, keys };
        for shard in ["a", "b"] {
            assert_eq!(scene.keys.locate(&scene.key(shard)).unwrap().shard(), shard);
        }
        scene
    }

    fn key(&self, shard: &str) -> i64 {
        i64::from(shard == "b")
    }
}

type Way = (&'static str, fn(&Scene, &str) -> Result<(), Error>);

/// A route to the shard: allowed for the pinned one, where it changes nothing.
const ROUTES: &[Way] = &[
    ("on", |at, shard| at.shards.on(shard, || Ok(()))),
    ("Route::enter", |at, shard| {
        at.shards.route(shard)?.enter().map(drop)
    }),
    ("Route::run", |at, shard| {
        at.shards.route(shard)?.run(|| Ok(()))
    }),
    ("Route::wrap", |at, shard| {
        at.shards.route(shard)?.wrap(|| Ok(()))()
    }),
    ("parse_route", |at, shard| {
        let route = at.shards.parse_route(&format!("v1;shard={shard}"))?;
        route.enter().map(drop)
    }),
    ("CapturedRoutes::run", |at, shard| {
        captured(at, shard).run(|| Ok(()))
    }),
    ("keyspace.on", |at, shard| {
        at.keys.on(&at.key(shard), || Ok(()))
    }),
    ("keyspace.route", |at, shard| {
        at.keys.route(&at.key(shard))?.run(|| Ok(()))
    }),
];

/// A second connection of the shard: never allowed.
const CONNECTIONS: &[Way] = &[
    ("get under on", |at, shard| {
        at.shards.on(shard, || at.shards.get().map(drop))
    }),
    ("get_on", |at, shard| at.shards.get_on(shard).map(drop)),
    ("transaction_on", |at, shard| {
        at.shards.transaction_on(shard, |_| Ok(()))
    }),
    ("transaction_builder", |at, shard| {
        at.shards
            .transaction_builder(shard)
            .run_outcome(|_| Ok::<_, Error>(Outcome::Rollback(())))
    }),
    ("keyspace.get", |at, shard| {
        at.keys.get(&at.key(shard)).map(drop)
    }),
    ("keyspace.transaction_for", |at, shard| {
        at.keys.transaction_for(&at.key(shard), |_| Ok(()))
    }),
    ("keyspace.transaction_builder", |at, shard| {
        at.keys.transaction_builder(&at.key(shard)).run(|_| Ok(()))
    }),
    ("get under captured routes", |at, shard| {
        captured(at, shard).run(|| at.shards.get().map(drop))
    }),
    ("from another manager of the topology", |at, shard| {
        let second = Manager::from_topology(at.shards.topology())?;
        second.get_on(shard).map(drop)
    }),
];

/// Routes captured where the shard could be entered.
fn captured(at: &Scene, shard: &str) -> CapturedRoutes {
    at.shards
        .independent(|| at.shards.on(shard, || Ok::<_, Error>(Route::capture())))
        .unwrap()
}

#[test]
fn inside_a_transaction_every_way_out_is_a_typed_error_at_once() {
    let fleet = Fleet::new(&["a", "b"]);
    // One connection: whoever waited for a second would wait for the whole timeout.
    let scene = Scene::new(&fleet, 1);
    let began = Instant::now();
    scene
        .shards
        .transaction_on("a", |conn| {
            for (way, ask) in ROUTES {
                ask(&scene, "a").unwrap_or_else(|error| panic!("{way}: {error}"));
            }
            for (way, ask) in CONNECTIONS {
                let error = ask(&scene, "a").unwrap_err();
                let Error::AlreadyInTransaction { shard } = &error else {
                    panic!("{way}: {error:?}");
                };
                assert_eq!(*shard, "a", "{way}");
                assert!(said(&error).contains("shard a"));
            }
            for (way, ask) in ROUTES.iter().chain(CONNECTIONS) {
                let error = ask(&scene, "b").unwrap_err();
                let Error::PinnedElsewhere { pinned, wanted } = &error else {
                    panic!("{way}: {error:?}");
                };
                assert_eq!((pinned.as_str(), wanted.as_str()), ("a", "b"), "{way}");
                assert!(said(&error).contains("shard a") && said(&error).contains("shard b"));
            }
            // With no route of its own, `get` sees the pin.
            let error = scene.shards.get().unwrap_err();
            assert!(
                matches!(error, Error::AlreadyInTransaction { .. }),
                "{error:?}"
            );
            // Making a route is always allowed.
            assert_eq!(scene.shards.route("b")?.shard(), "b");
            assert_eq!(scene.keys.route(&1)?.shard(), "b");
            assert_eq!(scene.keys.resolve(&1)?.shard(), "b");
            insert(conn, 1)?;
            Ok::<_, Error>(())
        })
        .unwrap();
    assert!(began.elapsed() < Duration::from_secs(4), "nobody waited");
    assert_eq!(fleet.rows("a"), [1]);
    assert_eq!(Route::stack_depth(), 0);
    // And afterwards all of it works again.
    for shard in ["a", "b"] {
        for (way, ask) in ROUTES.iter().chain(CONNECTIONS) {
            ask(&scene, shard).unwrap_or_else(|error| panic!("{way}: {error}"));
        }
    }
}

#[test]
fn a_refused_closure_is_not_run() {
    let fleet = Fleet::new(&["a", "b"]);
    let scene = Scene::new(&fleet, 1);
    type Never = Result<(), Error>;
    fn never<T>() -> T {
        panic!("the closure is not run")
    }
    scene
        .shards
        .transaction_on("a", |_| {
            let refused: [Never; 6] = [
                scene.shards.on("b", never),
                scene.shards.route("b")?.run(never),
                captured(&scene, "b").run(never),
                scene.shards.transaction_on("b", |_| never()),
                scene.shards.transaction_on("a", |_| never()),
                scene.keys.transaction_for(&1, |_| never()),
            ];
            assert!(refused.iter().all(Result::is_err));
            Ok::<_, Error>(())
        })
        .unwrap();
}

#[test]
fn a_nested_transaction_on_the_same_shard_leaves_the_outer_one_alone() {
    let fleet = Fleet::new(&["a", "b"]);
    let shards = fleet.manager_of_size(1);
    shards
        .transaction_on("a", |conn| {
            insert(conn, 1)?;
            let inner = shards.transaction_on("a", |conn| {
                insert(conn, 2)?;
                Err::<(), Error>(Error::NoRoute { known: vec![] })
            });
            assert!(matches!(inner, Err(Error::AlreadyInTransaction { .. })));
            insert(conn, 3)?;
            Ok::<_, Error>(())
        })
        .unwrap();
    assert_eq!(fleet.rows("a"), [1, 3]);
}

#[test]
fn a_nested_transaction_on_another_shard_never_runs_on_the_outer_one() {
    let fleet = Fleet::new(&["a", "b"]);
    let shards = fleet.manager();
    let outer = shards.transaction_on("a", |conn| {
        insert(conn, 1)?;
        let inner = shards.transaction_on("b", |conn| {
            insert(conn, 2)?;
            Ok::<_, Error>(whoami(conn)?)
        });
        assert!(matches!(inner, Err(Error::PinnedElsewhere { .. })));
        inner
    });
    assert!(matches!(outer, Err(Error::PinnedElsewhere { .. })));
    for shard in ["a", "b"] {
        assert_eq!(fleet.rows(shard), [0; 0], "{shard}");
    }
}

#[test]
fn a_helper_with_a_route_of_its_own_is_told_of_the_pin() {
    let fleet = Fleet::new(&["a", "b"]);
    let shards = fleet.manager();
    let helper = || -> QueryResult<String> { shards.on("b", || whoami(&mut shards.get()?)) };
    let error = shards
        .transaction_on("a", |conn| {
            insert(conn, 1)?;
            helper()
        })
        .unwrap_err();
    assert!(matches!(ours(&error), Error::PinnedElsewhere { .. }));
    assert_eq!(fleet.rows("a"), [0; 0]);
    assert_eq!(helper().unwrap(), "b");
}

#[test]
fn a_transaction_brings_its_own_route_under_an_outer_one() {
    let fleet = Fleet::new(&["a", "b"]);
    let shards = fleet.manager();
    shards
        .on("b", || {
            shards.transaction_on("a", |conn| {
                assert_eq!(whoami(conn)?, "a");
                assert_eq!(Route::stack_depth(), 2);
                // Entering the pinned shard's route is allowed and hides nothing.
                shards.on("a", || Ok::<_, Error>(assert_eq!(whoami(conn)?, "a")))?;
                Ok::<_, Error>(())
            })?;
            assert_eq!(whoami(&mut shards.get()?)?, "b");
            Ok::<_, Error>(())
        })
        .unwrap();
    assert_eq!(Route::stack_depth(), 0);
}

#[test]
fn the_pin_is_gone_after_every_end() {
    let fleet = Fleet::new(&["a", "b"]);
    let shards = fleet.manager_of_size(1);
    let free = |what: &str| {
        assert_eq!(Route::stack_depth(), 0, "{what}");
        assert_eq!(
            whoami(&mut shards.get_on("b").unwrap()).unwrap(),
            "b",
            "{what}"
        );
        assert_eq!(
            whoami(&mut shards.get_on("a").unwrap()).unwrap(),
            "a",
            "{what}"
        );
    };
    shards.transaction_on("a", |_| Ok::<_, Error>(())).unwrap();
    free("commit");
    let _ = shards.transaction_on("a", |conn| {
        insert(conn, 1)?;
        Err::<(), Error>(Error::NoRoute { known: vec![] })
    });
    free("error");
    let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _: Result<(), Error> = shards.transaction_on("a", |_| panic!("on purpose"));
    }));
    assert!(panic.is_err());
    free("panic");
    shards
        .transaction_builder("a")
        .run_outcome(|_| Ok::<_, Error>(Outcome::Rollback(())))
        .unwrap();
    free("wanted rollback");
    let error = shards
        .transaction_on("nowhere", |_| Ok::<_, Error>(()))
        .unwrap_err();
    assert!(matches!(error, Error::UnknownShard { .. }));
    free("unknown shard");
}

#[test]
fn a_transaction_on_a_connection_held_from_outside_is_refused_inside() {
    let fleet = Fleet::new(&["a", "b"]);
    let shards = fleet.manager();
    for held in ["a", "b"] {
        let mut outside = shards.get_on(held).unwrap();
        shards
            .transaction_on("a", |conn| {
                insert(conn, 1)?;
                let error = outside.transaction(|conn| insert(conn, 2)).unwrap_err();
                match ours(&error) {
                    Error::AlreadyInTransaction { .. } => assert_eq!(held, "a"),
                    Error::PinnedElsewhere { .. } => assert_eq!(held, "b"),
                    other => panic!("{other:?}"),
                }
                Err::<(), Error>(Error::NoRoute { known: vec![] })
            })
            .unwrap_err();
        drop(outside);
        assert_eq!(fleet.rows(held), [0; 0]);
    }
}

#[test]
fn a_transaction_without_a_named_shard_never_begins_on_one_and_writes_on_another() {
    let fleet = Fleet::new(&["a", "b"]);
    let shards = fleet.manager();
    // A handle with no shard of its own, and no route: refused before anything is sent.
    let pool = shards.clone().into_pool();
    let mut handle = pool.get().unwrap();
    let error = handle.transaction(|conn| insert(conn, 1)).unwrap_err();
    assert!(matches!(ours(&error), Error::NoRoute { .. }), "{error:?}");
    drop(handle);

    // One that is bound by its first statement: the transaction is where the statements are.
    let mut handle = pool.get().unwrap();
    shards
        .on("b", || {
            handle.transaction(|conn| {
                insert(conn, 1)?;
                let error = shards.on("a", || insert(conn, 2)).unwrap_err();
                assert!(
                    matches!(ours(&error), Error::RouteMismatch { .. }),
                    "{error:?}"
                );
                assert_eq!(ids(conn)?, [1]);
                Ok::<_, diesel::result::Error>(())
            })
        })
        .unwrap();
    assert_eq!((fleet.rows("a"), fleet.rows("b")), (vec![], vec![1]));

    // Plain connections likewise.
    let mut conn = shards.on("a", || shards.get()).unwrap();
    let error = conn
        .transaction(|conn| shards.on("b", || insert(conn, 3)))
        .unwrap_err();
    assert!(matches!(ours(&error), Error::RouteMismatch { .. }));
    assert_eq!((fleet.rows("a"), fleet.rows("b")), (vec![], vec![1]));
}
