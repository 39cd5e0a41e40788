//! What only SQLite does: transactions that an error ends, locks taken early, a session that may
//! only read.

use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use diesel::result::Error as DieselError;
use diesel_sharded::{Error, RollbackReason};

use super::backend::{Fleet, Sharded, ids, insert};
use crate::support::{items, ours};

/// Ways in which SQLite ends the whole transaction because one statement failed.
type End = (&'static str, fn(&mut Sharded));

const ENDS: [End; 4] = [
    ("typed", |conn| {
        // A trigger that says RAISE(ROLLBACK, ..).
        insert(conn, 666).unwrap_err();
    }),
    ("batch_execute", |conn| {
        conn.batch_execute("INSERT OR ROLLBACK INTO items (id) VALUES (1)")
            .unwrap_err();
    }),
    ("sql_query", |conn| {
        let insert = diesel::sql_query("INSERT OR ROLLBACK INTO items (id) VALUES (1)");
        insert.execute(conn).unwrap_err();
    }),
    ("raw", |conn| {
        conn.inner()
            .unwrap()
            .batch_execute("INSERT OR ROLLBACK INTO items (id) VALUES (1)")
            .unwrap_err();
    }),
];

fn fleet() -> Fleet {
    let fleet = Fleet::new(&["a"]);
    fleet
        .direct("a")
        .batch_execute(
            "CREATE TRIGGER no BEFORE INSERT ON items WHEN new.id = 666
             BEGIN SELECT RAISE(ROLLBACK, 'not this one'); END",
        )
        .unwrap();
    fleet
}

#[test]
fn after_an_error_that_ended_the_transaction_nothing_is_written() {
    let fleet = fleet();
    let shards = fleet.manager_of_size(1);
    for (way, end) in ENDS {
        let result = shards.transaction_on("a", |conn| {
            insert(conn, 1)?;
            end(conn);
            let refused = [
                insert(conn, 10).map(drop),
                conn.batch_execute("INSERT INTO items (id) VALUES (11)"),
                conn.transaction(|conn| insert(conn, 12)).map(drop),
                ids(conn).map(drop),
            ];
            for error in refused {
                let error = error.expect_err(way);
                assert!(
                    matches!(ours(&error), Error::RolledBack { .. }),
                    "{way}: {error:?}"
                );
            }
            Ok::<_, Error>(())
        });
        let error = result.expect_err(way);
        assert!(
            matches!(
                &error,
                Error::RolledBack {
                    reason: RollbackReason::EndedByServer,
                    ..
                }
            ) || way == "raw",
            "{way}: {error:?}"
        );
        assert_eq!(fleet.rows("a"), [0; 0], "{way}");
        fleet.assert_nothing_open("a");
        insert(&mut shards.get_on("a").unwrap(), 2).unwrap();
        assert_eq!(fleet.rows("a"), [2], "{way}");
        diesel::delete(items::table)
            .execute(&mut fleet.direct("a"))
            .unwrap();
    }
}

#[test]
fn an_error_that_ended_the_transaction_ends_it_from_within_a_savepoint_too() {
    let fleet = fleet();
    let shards = fleet.manager_of_size(1);
    for (way, end) in ENDS {
        let result = shards.transaction_on("a", |conn| {
            insert(conn, 1)?;
            let _ = conn.transaction(|conn| {
                insert(conn, 2)?;
                end(conn);
                Err::<(), _>(DieselError::RollbackTransaction)
            });
            let _ = insert(conn, 3);
            Ok::<_, Error>(())
        });
        let error = result.expect_err(way);
        assert!(
            matches!(error, Error::RolledBack { .. }),
            "{way}: {error:?}"
        );
        assert_eq!(fleet.rows("a"), [0; 0], "{way}");
        fleet.assert_nothing_open("a");
    }
}

#[test]
fn the_callers_error_about_it_comes_back_unchanged() {
    let fleet = fleet();
    let shards = fleet.manager_of_size(1);
    let error = shards
        .transaction_on("a", |conn| {
            insert(conn, 1)?;
            insert(conn, 666)
        })
        .unwrap_err();
    assert!(error.to_string().contains("not this one"), "{error:?}");
    shards.transaction_on("a", |conn| insert(conn, 1)).unwrap();
    assert_eq!(fleet.rows("a"), [1]);
}

/// Whether another connection is kept from writing.
fn locked(fleet: &Fleet) -> bool {
    fleet.open_transactions("a") == 1
}

#[test]
fn an_immediate_transaction_keeps_other_writers_out_from_its_start() {
    let fleet = Fleet::new(&["a"]);
    let shards = fleet.manager_of_size(1);
    shards
        .transaction_builder("a")
        .immediate()
        .run(|conn| {
            assert!(locked(&fleet), "before the first write");
            Ok::<_, Error>(insert(conn, 1)?)
        })
        .unwrap();
    assert!(!locked(&fleet));
    shards
        .transaction_on("a", |conn| {
            ids(conn)?;
            assert!(!locked(&fleet), "a plain one waits with that");
            Ok::<_, Error>(())
        })
        .unwrap();
}

#[test]
fn the_first_write_of_an_immediate_transaction_cannot_be_refused_for_a_newer_one() {
    let fleet = Fleet::new(&["a"]);
    let shards = fleet.manager_of_size(1);
    // A plain transaction that has read before somebody else wrote cannot write any more.
    let error = shards
        .transaction_on("a", |conn| {
            ids(conn)?;
            insert(&mut fleet.direct("a"), 1)?;
            insert(conn, 2)
        })
        .unwrap_err();
    assert!(error.to_string().contains("locked"), "{error:?}");
    // An immediate one has excluded that.
    shards
        .transaction_builder("a")
        .immediate()
        .run(|conn| {
            ids(conn)?;
            let mut other = fleet.direct("a");
            other.batch_execute("PRAGMA busy_timeout = 0")?;
            insert(&mut other, 3).unwrap_err();
            insert(conn, 4)
        })
        .unwrap();
    assert_eq!(fleet.rows("a"), [1, 4]);
}

#[test]
fn sqlites_own_transaction_methods_are_ours() {
    let fleet = Fleet::new(&["a", "b"]);
    let shards = fleet.manager_of_size(1);
    type Run = fn(&mut Sharded, &mut dyn FnMut(&mut Sharded) -> QueryResult<()>) -> QueryResult<()>;
    let runs: [(&str, Run); 2] = [
        ("immediate", |conn, f| {
            Sharded::immediate_transaction(conn, f)
        }),
        ("exclusive", |conn, f| {
            Sharded::exclusive_transaction(conn, f)
        }),
    ];
    for (id, (what, run)) in (1..).zip(runs) {
        let mut conn = shards.get_on("a").unwrap();
        run(&mut conn, &mut |conn| {
            assert!(locked(&fleet), "{what}");
            insert(conn, id * 10)?;
            conn.transaction(|conn| insert(conn, id * 10 + 1))?;
            Ok(())
        })
        .unwrap();
        assert!(!locked(&fleet), "{what}");
        assert!(fleet.rows("a").ends_with(&[id * 10, id * 10 + 1]), "{what}");
        // An error rolls back, a panic too.
        run(&mut conn, &mut |conn| {
            insert(conn, 99)?;
            Err(DieselError::RollbackTransaction)
        })
        .unwrap_err();
        let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _ = run(&mut conn, &mut |conn| {
                insert(conn, 98)?;
                panic!("on purpose")
            });
        }));
        assert!(panic.is_err(), "{what}");
        // What a panic leaves is the next one's: the nonblocking driver closes it.
        drop(conn);
        let mut conn = shards.get_on("a").unwrap();
        // Inside another transaction it is refused, and that one goes on.
        conn.transaction(|conn| {
            let error = run(conn, &mut |_| Ok(())).unwrap_err();
            assert_eq!(error, DieselError::AlreadyInTransaction, "{what}");
            insert(conn, id * 10 + 2)
        })
        .unwrap();
        // And an end written by hand is no success here either.
        let error = run(&mut conn, &mut |conn| conn.batch_execute("ROLLBACK")).unwrap_err();
        assert!(
            matches!(ours(&error), Error::RolledBack { .. }),
            "{what}: {error:?}"
        );
        // Under a pin it is a transaction like any other.
        drop(conn);
        let mut held = shards.get_on("b").unwrap();
        shards
            .transaction_on("a", |_| {
                let error = run(&mut held, &mut |_| Ok(())).unwrap_err();
                assert!(
                    matches!(ours(&error), Error::PinnedElsewhere { .. }),
                    "{what}"
                );
                Ok::<_, Error>(())
            })
            .unwrap();
    }
    assert_eq!(fleet.rows("a"), [10, 11, 12, 20, 21, 22]);
    assert_eq!(shards.status().nodes[0].connections, 1);
}

#[test]
fn a_busy_database_is_an_error_of_the_statement_and_costs_no_connection() {
    let fleet = Fleet::new(&["a"]);
    let (shards, connects) = super::pool::counted(&fleet, 1);
    let mut writer = fleet.direct("a");
    writer.batch_execute("BEGIN IMMEDIATE").unwrap();
    for _ in 0..3 {
        let mut conn = shards.get_on("a").unwrap();
        conn.batch_execute("PRAGMA busy_timeout = 0").unwrap();
        let error = insert(&mut conn, 1).unwrap_err();
        assert!(error.to_string().contains("locked"), "{error:?}");
        let error = shards_free(&mut conn);
        assert!(error.to_string().contains("locked"), "{error:?}");
    }
    writer.batch_execute("ROLLBACK").unwrap();
    insert(&mut shards.get_on("a").unwrap(), 1).unwrap();
    assert_eq!(connects(), 1);
}

/// A transaction that cannot begin.
fn shards_free(conn: &mut Sharded) -> DieselError {
    conn.immediate_transaction(|_| -> QueryResult<()> { panic!("not run") })
        .unwrap_err()
}
