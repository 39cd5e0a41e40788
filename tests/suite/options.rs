//! Transactions with options: each is in force, on the server that was asked, and for one
//! transaction only.

use std::panic::{AssertUnwindSafe, catch_unwind};

use diesel_sharded::Error;

use super::backend::{Fleet, Isolation, NAME, Outcome, ids, insert, whoami};
use crate::support::said;

#[test]
fn a_read_only_transaction_refuses_writes_and_the_next_user_may_write() {
    let fleet = Fleet::new(&["a"]);
    let shards = fleet.manager_of_size(1);
    insert(&mut fleet.direct("a"), 1).unwrap();
    let mut next = 10;
    let mut next_user_writes = |what: &str| {
        insert(&mut shards.get_on("a").unwrap(), next).unwrap();
        shards
            .transaction_on("a", |conn| Ok::<_, Error>(insert(conn, next + 1)?))
            .unwrap();
        assert!(fleet.rows("a").ends_with(&[next, next + 1]), "{what}");
        next += 10;
    };

    let refused = shards.transaction_builder("a").read_only().run(|conn| {
        assert_eq!(ids(conn)?, [1], "reading is allowed");
        insert(conn, 2)
    });
    let error = refused.unwrap_err();
    assert!(
        matches!(error, diesel::result::Error::DatabaseError(..)),
        "{error:?}"
    );
    next_user_writes("a refused write");

    let read = shards
        .transaction_builder("a")
        .read_only()
        .run(|conn| Ok::<_, Error>(whoami(conn)?));
    assert_eq!(read.unwrap(), "a");
    next_user_writes("a plain read");

    let own = shards
        .transaction_builder("a")
        .read_only()
        .run(|conn| {
            ids(conn)?;
            Err::<(), Error>(Error::NoRoute { known: vec![] })
        })
        .unwrap_err();
    assert!(matches!(own, Error::NoRoute { .. }));
    next_user_writes("an error of the caller's");

    let panic = catch_unwind(AssertUnwindSafe(|| {
        let _: Result<(), Error> = shards
            .transaction_builder("a")
            .read_only()
            .run(|_| panic!("on purpose"));
    }));
    assert!(panic.is_err());
    next_user_writes("a panic");

    // Swallowing the refusal writes nothing either.
    let swallowed = shards.transaction_builder("a").read_only().run(|conn| {
        let _ = insert(conn, 3);
        Ok::<_, Error>(())
    });
    assert_eq!(swallowed.is_err(), NAME == "postgres", "{swallowed:?}");
    next_user_writes("a swallowed refusal");
    assert!(!fleet.rows("a").contains(&2) && !fleet.rows("a").contains(&3));
}

#[test]
fn a_refused_write_in_a_read_only_transaction_does_not_cost_the_connection() {
    let fleet = Fleet::new(&["a"]);
    let (shards, connects) = super::pool::counted(&fleet, 1);
    for _ in 0..5 {
        shards
            .transaction_builder("a")
            .read_only()
            .run(|conn| insert(conn, 1))
            .unwrap_err();
        shards.get_on("a").unwrap();
    }
    assert_eq!(connects(), 1, "the node is a primary all the same");
}

#[test]
fn options_go_with_a_wanted_rollback() {
    let fleet = Fleet::new(&["a"]);
    let shards = fleet.manager_of_size(1);
    let value = shards
        .transaction_builder("a")
        .isolation(Isolation::Serializable)
        .run_outcome(|conn| {
            insert(conn, 1)?;
            Ok::<_, Error>(Outcome::Rollback(3))
        })
        .unwrap();
    assert_eq!(value, 3);
    assert_eq!(fleet.rows("a"), [0; 0]);
    fleet.assert_nothing_open("a");
}

#[test]
fn an_option_the_backend_does_not_have_is_refused_before_anything_runs() {
    let fleet = Fleet::new(&["a"]);
    let shards = fleet.manager_of_size(1);
    let mut ran = false;
    let result = shards.transaction_builder("a").immediate().run(|_| {
        ran = true;
        Ok::<_, Error>(())
    });
    if NAME == "sqlite" {
        result.unwrap();
        assert!(ran);
    } else {
        let error = result.unwrap_err();
        assert!(
            matches!(
                error,
                Error::Unsupported {
                    what: "immediate",
                    ..
                }
            ),
            "{error:?}"
        );
        assert!(said(&error).contains("shard a"));
        assert!(!ran);
        // The scope is left, and the connection is back.
        shards.transaction_on("a", |_| Ok::<_, Error>(())).unwrap();
    }
}

#[test]
fn every_isolation_level_is_accepted_and_commits() {
    let fleet = Fleet::new(&["a"]);
    let shards = fleet.manager_of_size(1);
    let levels = [
        Isolation::ReadCommitted,
        Isolation::RepeatableRead,
        Isolation::Serializable,
    ];
    for (id, level) in (1..).zip(levels) {
        shards
            .transaction_builder("a")
            .isolation(level)
            .run(|conn| Ok::<_, Error>(insert(conn, id)?))
            .unwrap();
    }
    assert_eq!(fleet.rows("a"), [1, 2, 3]);
}

#[test]
fn options_inside_a_pinned_scope_do_not_get_round_the_pin() {
    let fleet = Fleet::new(&["a", "b"]);
    let shards = fleet.manager();
    shards
        .transaction_on("a", |_| {
            let here = shards
                .transaction_builder("a")
                .read_only()
                .run(|_| Ok::<_, Error>(()));
            assert!(matches!(here, Err(Error::AlreadyInTransaction { .. })));
            let there = shards
                .transaction_builder("b")
                .isolation(Isolation::Serializable)
                .run(|_| Ok::<_, Error>(()));
            assert!(matches!(there, Err(Error::PinnedElsewhere { .. })));
            Ok::<_, Error>(())
        })
        .unwrap();
}
