//! `manager.test_transactions()`: handlers write, the test reads, nothing is left.

use std::sync::mpsc;
use std::thread;

use diesel::prelude::*;
use diesel_sharded::{Error, KeyspaceConfig, RuleSpec};

use super::backend::{Fleet, Manager, NAME, ids, insert, whoami};
use crate::support::eventually;

/// An application's handler: it knows nothing of tests.
fn place_order(shards: &Manager, shard: &str, id: i64) -> Result<(), Error> {
    shards.transaction_on(shard, |conn| {
        insert(conn, id)?;
        // Something optional that may fail.
        let _ = conn.transaction(|conn| insert(conn, id));
        Ok(())
    })
}

fn seen(shards: &Manager, shard: &str) -> Vec<i64> {
    ids(&mut shards.get_on(shard).unwrap()).unwrap()
}

#[test]
fn what_a_handler_writes_is_read_by_the_test_and_by_nobody_else() {
    let fleet = Fleet::new(&["a", "b"]);
    let shards = fleet.manager();
    insert(&mut shards.get_on("a").unwrap(), 1).unwrap();
    let test = shards.test_transactions().unwrap();
    place_order(&test, "a", 2).unwrap();
    place_order(&test, "b", 3).unwrap();
    test.on("a", || insert(&mut test.get()?, 4)).unwrap();
    assert_eq!(
        (seen(&test, "a"), seen(&test, "b")),
        (vec![1, 2, 4], vec![3])
    );
    for node in test.status().nodes {
        assert_eq!((node.connections, node.max_size), (1, 1), "{node:?}");
    }
    drop(test);
    fleet.assert_nothing_open("a");
    assert_eq!((fleet.rows("a"), fleet.rows("b")), (vec![1], vec![]));
    assert_eq!(
        shards.status().nodes[0].max_size,
        4,
        "the real one is as it was"
    );
    place_order(&shards, "a", 5).unwrap();
    assert_eq!(fleet.rows("a"), [1, 5]);
}

#[test]
fn a_handler_that_fails_takes_only_its_own_work_with_it() {
    let fleet = Fleet::new(&["a"]);
    let test = fleet.manager().test_transactions().unwrap();
    place_order(&test, "a", 1).unwrap();
    for _ in 0..3 {
        let error = place_order(&test, "a", 1).unwrap_err();
        let Error::Database { source, .. } = &error else {
            panic!("{error:?}");
        };
        assert!(
            matches!(
                source,
                diesel::result::Error::DatabaseError(
                    diesel::result::DatabaseErrorKind::UniqueViolation,
                    _
                )
            ),
            "{source:?}"
        );
        assert_eq!(seen(&test, "a"), [1]);
    }
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        test.transaction_on("a", |conn| -> Result<(), Error> {
            insert(conn, 2)?;
            panic!("of the application")
        })
    }));
    assert!(panicked.is_err());
    assert_eq!(seen(&test, "a"), [1]);
    place_order(&test, "a", 3).unwrap();
    assert_eq!(seen(&test, "a"), [1, 3]);
    drop(test);
    assert_eq!(fleet.rows("a"), [0_i64; 0]);
}

#[test]
fn a_statement_that_fails_outside_of_a_transaction_spoils_a_postgresql_test_and_no_other() {
    let fleet = Fleet::new(&["a"]);
    let test = fleet.manager().test_transactions().unwrap();
    // In production each of these is a transaction of its own; here they share the test's, and
    // PostgreSQL keeps nothing of a transaction in which a statement has failed.
    let spoilt = NAME == "postgres";
    insert(&mut test.get_on("a").unwrap(), 1).unwrap();
    insert(&mut test.get_on("a").unwrap(), 1).unwrap_err();
    assert_eq!(seen(&test, "a"), if spoilt { vec![] } else { vec![1] });
    insert(&mut test.get_on("a").unwrap(), 2).unwrap();
    assert_eq!(seen(&test, "a"), if spoilt { vec![2] } else { vec![1, 2] });
    drop(test);
    assert_eq!(fleet.rows("a"), [0_i64; 0]);
}

#[test]
fn each_manager_for_tests_starts_from_the_committed_rows() {
    let fleet = Fleet::new(&["a"]);
    let shards = fleet.manager();
    for turn in 0..5 {
        let test = shards.test_transactions().unwrap();
        assert_eq!(seen(&test, "a"), [0_i64; 0], "turn {turn}");
        place_order(&test, "a", 1).unwrap();
        assert_eq!(seen(&test, "a"), [1]);
    }
}

#[test]
fn hooks_keyspaces_retries_and_outer_pools_work_in_it() {
    let fleet = Fleet::new(&["a", "b"]);
    let shards = fleet
        .builder()
        .keyspace("k", KeyspaceConfig::new(RuleSpec::modulo(["a", "b"])))
        .build()
        .unwrap();
    let test = shards.test_transactions().unwrap();
    let (sender, receiver) = mpsc::channel();
    let keyspace = test.keyspace("k").unwrap();
    for key in 0..4_i64 {
        keyspace
            .transaction_builder(&key)
            .retries(2)
            .run(|conn| {
                let sender = sender.clone();
                conn.after_commit(move || sender.send(key).unwrap());
                Ok::<_, Error>(insert(conn, key)?)
            })
            .unwrap();
        assert_eq!(receiver.try_recv(), Ok(key));
    }
    let failed = test.transaction_on("a", |conn| {
        let sender = sender.clone();
        conn.after_commit(move || sender.send(-1).unwrap());
        Err::<(), Error>(Error::NoRoute { known: vec![] })
    });
    assert!(failed.is_err());
    assert!(receiver.try_recv().is_err());
    let pool = test.clone().into_pool();
    let through = test.on("b", || {
        let mut conn = pool.get().unwrap();
        conn.transaction(|conn| insert(conn, 9))?;
        ids(&mut conn)
    });
    assert_eq!(through, Ok(vec![1, 3, 9]));
    assert_eq!(seen(&test, "a"), [0, 2]);
    drop((pool, test, keyspace));
    assert_eq!((fleet.rows("a"), fleet.rows("b")), (vec![], vec![]));
}

#[test]
fn a_second_thread_waits_its_turn_and_sees_the_same_rows() {
    let fleet = Fleet::new(&["a"]);
    let test = fleet.manager().test_transactions().unwrap();
    let mut held = test.get_on("a").unwrap();
    insert(&mut held, 1).unwrap();
    thread::scope(|scope| {
        let other = scope.spawn(|| seen(&test, "a"));
        eventually("the other waits", || test.status().nodes[0].waiting == 1);
        drop(held);
        assert_eq!(other.join().unwrap(), [1]);
    });
    // In one scope it would wait for itself.
    let nested = test.transaction_on("a", |_| test.independent(|| test.get_on("a").map(drop)));
    assert!(
        matches!(nested, Err(Error::WouldDeadlock { .. })),
        "{nested:?}"
    );
}

#[test]
fn its_routes_and_pins_are_its_own() {
    let fleet = Fleet::new(&["a", "b"]);
    let shards = fleet.manager();
    let test = shards.test_transactions().unwrap();
    shards
        .on("a", || {
            assert!(matches!(test.get(), Err(Error::NoRoute { .. })));
            test.on("b", || {
                assert_eq!(whoami(&mut test.get()?)?, "b");
                assert_eq!(whoami(&mut shards.get()?)?, "a");
                Ok::<_, Error>(())
            })
        })
        .unwrap();
    // A change of the real topology does not pull the ground from under a test.
    place_order(&test, "b", 1).unwrap();
    shards
        .reload_with(|topology| topology.remove_shard("b"))
        .unwrap();
    assert_eq!(seen(&test, "b"), [1]);
}
