//! `independent`: a scope of its own inside a transaction, with its own connections and its own fate.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use diesel::connection::SimpleConnection;
use diesel_sharded::{Error, Route};

use super::backend::{Fleet, NAME, ids, insert, whoami};
use crate::support::said;

fn failed() -> Error {
    Error::NoRoute { known: vec![] }
}

#[test]
fn what_is_done_independently_survives_the_outer_rollback() {
    let fleet = Fleet::new(&["a", "b"]);
    let shards = fleet.manager();
    let outer = shards.transaction_on("b", |conn| {
        whoami(conn)?;
        // SQLite has one writer for a file, so there the outer transaction has not written yet.
        shards.independent(|| {
            shards.transaction_on("b", |conn| {
                insert(conn, 1)?;
                Ok::<_, Error>(())
            })?;
            shards.transaction_on("a", |conn| Ok::<_, Error>(insert(conn, 2)?))?;
            insert(&mut shards.get_on("a")?, 3)?;
            Ok::<_, Error>(())
        })?;
        Err::<(), Error>(failed())
    });
    assert!(matches!(outer, Err(Error::NoRoute { .. })));
    assert_eq!((fleet.rows("a"), fleet.rows("b")), (vec![2, 3], vec![1]));
}

#[test]
fn an_independent_rollback_leaves_the_outer_transaction_alone() {
    let fleet = Fleet::new(&["a"]);
    let shards = fleet.manager();
    shards
        .transaction_on("a", |conn| {
            let inner = shards.independent(|| {
                shards.transaction_on("a", |conn| {
                    insert(conn, 1)?;
                    Err::<(), Error>(failed())
                })
            });
            assert!(inner.is_err());
            insert(conn, 2)?;
            Ok::<_, Error>(())
        })
        .unwrap();
    assert_eq!(fleet.rows("a"), [2]);
}

#[test]
fn an_independent_connection_does_not_see_uncommitted_rows() {
    let fleet = Fleet::new(&["a"]);
    let shards = fleet.manager();
    shards
        .transaction_on("a", |conn| {
            insert(conn, 1)?;
            let seen = shards.independent(|| {
                let mut other = shards.get_on("a")?;
                Ok::<_, Error>(ids(&mut other)?)
            })?;
            assert_eq!(seen, [0; 0]);
            assert_eq!(ids(conn)?, [1]);
            Ok::<_, Error>(())
        })
        .unwrap();
}

#[test]
fn routes_and_pin_are_hidden_inside_and_back_afterwards() {
    let fleet = Fleet::new(&["a", "b"]);
    let shards = fleet.manager();
    let pinned = || {
        assert!(matches!(
            shards.get_on("b"),
            Err(Error::PinnedElsewhere { .. })
        ));
        assert!(matches!(
            shards.get(),
            Err(Error::AlreadyInTransaction { .. })
        ));
        assert_eq!(Route::stack_depth(), 2);
    };
    shards
        .on("b", || {
            shards.transaction_on("a", |conn| {
                pinned();
                shards.independent(|| {
                    assert!(matches!(shards.get(), Err(Error::NoRoute { .. })));
                    shards.on("b", || {
                        Ok::<_, Error>(assert_eq!(whoami(&mut shards.get()?)?, "b"))
                    })
                })?;
                pinned();
                let panic = catch_unwind(AssertUnwindSafe(|| {
                    shards.independent(|| {
                        let _guard = shards.route("b").unwrap().enter().unwrap();
                        panic!("on purpose")
                    })
                }));
                assert!(panic.is_err());
                pinned();
                let captured =
                    shards.independent(|| shards.on("b", || Ok::<_, Error>(Route::capture())))?;
                assert!(
                    captured.run(|| Ok::<_, Error>(())).is_err(),
                    "the pin holds again"
                );
                assert!(shards.independent(Route::capture).is_empty());
                pinned();
                assert_eq!(whoami(conn)?, "a");
                Ok::<_, Error>(())
            })?;
            assert_eq!(whoami(&mut shards.get()?)?, "b");
            Ok::<_, Error>(())
        })
        .unwrap();
    assert_eq!(Route::stack_depth(), 0);
}

#[test]
fn independent_scopes_nest() {
    let fleet = Fleet::new(&["a", "b"]);
    let shards = fleet.manager();
    shards
        .transaction_on("a", |outer| {
            shards.independent(|| {
                shards.transaction_on("b", |middle| {
                    assert!(matches!(
                        shards.get_on("a"),
                        Err(Error::PinnedElsewhere { .. })
                    ));
                    shards.independent(|| {
                        shards.transaction_on("a", |inner| {
                            assert!(matches!(
                                shards.get_on("b"),
                                Err(Error::PinnedElsewhere { .. })
                            ));
                            Ok::<_, Error>(insert(inner, 1)?)
                        })
                    })?;
                    assert!(matches!(
                        shards.get_on("b"),
                        Err(Error::AlreadyInTransaction { .. })
                    ));
                    Ok::<_, Error>(insert(middle, 2)?)
                })
            })?;
            // A fresh look, for a database that shows one moment to the whole transaction.
            assert_eq!(whoami(outer)?, "a");
            Err::<(), Error>(failed())
        })
        .unwrap_err();
    assert_eq!((fleet.rows("a"), fleet.rows("b")), (vec![1], vec![2]));
}

#[test]
fn a_scope_that_holds_the_last_connection_it_asks_for_is_told_at_once() {
    let fleet = Fleet::new(&["a", "b"]);
    let shards = fleet.manager_of_size(1);
    let began = Instant::now();
    shards
        .transaction_on("a", |conn| {
            type Ask<'a> = (&'a str, &'a dyn Fn() -> Result<(), Error>);
            let asks: [Ask<'_>; 4] = [
                ("get_on", &|| shards.get_on("a").map(drop)),
                ("get", &|| shards.on("a", || shards.get().map(drop))),
                ("transaction_on", &|| shards.transaction_on("a", |_| Ok(()))),
                ("through another shard", &|| {
                    shards.transaction_on("b", |_| {
                        shards.independent(|| shards.get_on("a")).map(drop)
                    })
                }),
            ];
            for (way, ask) in asks {
                let error = shards.independent(ask).unwrap_err();
                let Error::WouldDeadlock { shard, size, .. } = &error else {
                    panic!("{way}: {error:?}");
                };
                assert_eq!((shard.as_str(), *size), ("a", 1), "{way}");
                assert!(said(&error).contains("shard a"));
            }
            // The other shard has a connection to give.
            shards.independent(|| shards.get_on("b")).map(drop)?;
            insert(conn, 1)?;
            Ok::<_, Error>(())
        })
        .unwrap();
    assert!(began.elapsed() < Duration::from_secs(4), "nobody waited");
    assert_eq!(fleet.rows("a"), [1]);
}

#[test]
fn with_room_for_two_the_second_is_given_and_the_third_is_told() {
    let fleet = Fleet::new(&["a"]);
    let shards = fleet.manager_of_size(2);
    shards
        .transaction_on("a", |_| {
            shards.independent(|| {
                shards.transaction_on("a", |conn| {
                    assert_eq!(whoami(conn)?, "a");
                    let third = shards.independent(|| shards.get_on("a"));
                    assert!(matches!(third, Err(Error::WouldDeadlock { size: 2, .. })));
                    Ok::<_, Error>(())
                })
            })
        })
        .unwrap();
    assert_eq!(shards.status().nodes[0].connections, 2);
}

#[test]
fn a_connection_taken_independently_may_outlive_the_scope() {
    let fleet = Fleet::new(&["a", "b"]);
    let shards = fleet.manager();
    shards
        .transaction_on("a", |conn| {
            let mut other = shards.independent(|| shards.get_on("b"))?;
            // Asked for by name and with no transaction of its own, it works under any route.
            assert_eq!(whoami(&mut other)?, "b");
            insert(conn, 1)?;
            other.batch_execute("INSERT INTO items (id) VALUES (2)")?;
            Err::<(), Error>(failed())
        })
        .unwrap_err();
    assert_eq!(
        (fleet.rows("a"), fleet.rows("b")),
        (vec![], vec![2]),
        "{NAME}"
    );
}
