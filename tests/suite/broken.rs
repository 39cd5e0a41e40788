//! Connections that die: in a transaction, in the pool, on the wire.

use diesel::prelude::*;
use diesel_sharded::{Error, PoolConfig, RollbackReason};

use super::backend::{Fleet, Manager, Sharded, ids, insert, session, whoami};
use crate::support::{pool, proxy::Proxy};

use std::time::Duration;

fn transaction_works(fleet: &Fleet, shards: &Manager, id: i64) {
    shards
        .transaction_on("a", |conn| Ok::<_, Error>(insert(conn, id)?))
        .unwrap();
    assert!(fleet.rows("a").contains(&id));
}

/// The transaction is lost: whatever is said now, nothing is kept.
fn assert_gone(error: &Error) {
    assert!(
        matches!(
            error,
            Error::RolledBack {
                reason: RollbackReason::ConnectionLost,
                ..
            } | Error::Database { .. }
        ),
        "{error:?}"
    );
}

#[test]
fn a_session_killed_inside_a_transaction_is_an_error_and_the_pool_recovers() {
    let fleet = Fleet::new(&["a"]);
    let shards = fleet.manager_of_size(1);
    type End = fn(&mut Sharded) -> Result<(), Error>;
    let ends: [(&str, End); 4] = [
        ("commits at once", |_| Ok(())),
        ("tries and gives the error", |conn| {
            insert(conn, 2)?;
            panic!("the session is gone")
        }),
        ("tries and swallows the error", |conn| {
            insert(conn, 2).unwrap_err();
            // The first statement has found out, the next ones are not sent.
            let again = Error::from(insert(conn, 3).unwrap_err());
            assert_gone(&again);
            assert!(matches!(again, Error::RolledBack { .. }), "{again:?}");
            let again = Error::from(conn.transaction(|conn| insert(conn, 4)).unwrap_err());
            assert!(matches!(again, Error::RolledBack { .. }), "{again:?}");
            Ok(())
        }),
        ("tries in a savepoint and swallows", |conn| {
            let _ = conn.transaction(|conn| insert(conn, 2));
            let _ = insert(conn, 3);
            Ok(())
        }),
    ];
    for (at, (what, end)) in (100..).zip(ends) {
        let result = shards.transaction_on("a", |conn| {
            insert(conn, 1)?;
            fleet.kill_all("a");
            end(conn)
        });
        assert_gone(&result.expect_err(what));
        assert!(
            fleet.rows("a").iter().all(|id| *id >= 100),
            "{what}: nothing was kept"
        );
        transaction_works(&fleet, &shards, at);
    }
}

#[test]
fn a_session_killed_under_a_panic_leaves_the_payload_alone() {
    let fleet = Fleet::new(&["a"]);
    let shards = fleet.manager_of_size(1);
    let payload = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _: Result<(), Error> = shards.transaction_on("a", |conn| {
            insert(conn, 1)?;
            fleet.kill_all("a");
            std::panic::panic_any(42)
        });
    }))
    .unwrap_err();
    assert_eq!(*payload.downcast::<i32>().unwrap(), 42);
    transaction_works(&fleet, &shards, 1);
}

#[test]
fn a_callers_error_survives_a_killed_session() {
    let fleet = Fleet::new(&["a"]);
    let shards = fleet.manager_of_size(1);
    let error = shards
        .transaction_on("a", |conn| {
            insert(conn, 1)?;
            fleet.kill_all("a");
            Err::<(), Error>(Error::NoRoute { known: vec![] })
        })
        .unwrap_err();
    assert!(matches!(error, Error::NoRoute { .. }), "{error:?}");
    transaction_works(&fleet, &shards, 1);
}

/// Fills the pool with four idle connections that were all in use a moment ago.
fn warm(shards: &Manager) -> Vec<i64> {
    let mut all: Vec<_> = (0..4).map(|_| shards.get_on("a").unwrap()).collect();
    all.iter_mut().map(|conn| session(conn).unwrap()).collect()
}

#[test]
fn after_a_kill_at_most_one_call_fails_and_then_all_are_fresh() {
    let fleet = Fleet::new(&["a"]);
    // Within the window nobody looks before use: the worst case.
    let trusting = pool(4).alive_bypass(Duration::from_secs(600));
    let shards = fleet.builder_with(trusting, |_, url| url).build().unwrap();
    for _ in 0..3 {
        let old = warm(&shards);
        fleet.kill_all("a");
        let mut failures = 0;
        for _ in 0..12 {
            match session(&mut shards.get_on("a").unwrap()) {
                Ok(session) => assert!(!old.contains(&session)),
                Err(_) => failures += 1,
            }
        }
        assert!(failures <= 1, "{failures} calls failed");
        // All at once, so that none of the old ones hides at the bottom.
        assert!(warm(&shards).iter().all(|session| !old.contains(session)));
    }
}

#[test]
fn with_a_check_at_every_checkout_a_kill_costs_no_call() {
    let fleet = Fleet::new(&["a"]);
    let careful = pool(4).alive_bypass(Duration::ZERO);
    let shards = fleet.builder_with(careful, |_, url| url).build().unwrap();
    let old = warm(&shards);
    fleet.kill_all("a");
    for session in warm(&shards) {
        assert!(!old.contains(&session));
    }
}

#[test]
fn a_cut_wire_is_noticed_and_the_next_checkout_connects_again() {
    let fleet = Fleet::new(&["a"]);
    let proxy = Proxy::new(&fleet.url("a"));
    let trusting = pool(2).alive_bypass(Duration::from_secs(600));
    let shards = fleet
        .builder_with(trusting, |_, url| proxy.url(&url))
        .build()
        .unwrap();
    for turn in 0..3 {
        whoami(&mut shards.get_on("a").unwrap()).unwrap();
        proxy.cut();
        let failures = (0..4)
            .filter(|_| whoami(&mut shards.get_on("a").unwrap()).is_err())
            .count();
        assert!(failures <= 1, "{failures} calls failed");

        let result = shards.transaction_on("a", |conn| {
            insert(conn, 1)?;
            proxy.cut();
            let _ = ids(conn);
            Ok::<_, Error>(())
        });
        assert_gone(&result.unwrap_err());
        assert_eq!(shards.status().nodes[0].down, None, "the node is not down");
        transaction_works(&fleet, &shards, 10 + turn);
    }
    assert_eq!(fleet.rows("a"), [10, 11, 12]);
}

#[test]
fn a_database_that_is_gone_does_not_touch_the_other_shards() {
    let fleet = Fleet::new(&["a", "b"]);
    let proxy = Proxy::new(&fleet.url("a"));
    let short = PoolConfig::new()
        .max_size(2)
        .connection_timeout(Duration::from_secs(2));
    let shards = fleet
        .builder_with(
            short,
            |shard, url| if shard == "a" { proxy.url(&url) } else { url },
        )
        .build()
        .unwrap();
    for shard in ["a", "b"] {
        whoami(&mut shards.get_on(shard).unwrap()).unwrap();
    }
    let old = session(&mut shards.get_on("b").unwrap()).unwrap();
    proxy.cut();
    let _ = whoami(&mut shards.get_on("a").unwrap());
    assert_eq!(session(&mut shards.get_on("b").unwrap()).unwrap(), old);
}
