//! What only PostgreSQL does: its transaction builder, a transaction that fails as a whole.

use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use diesel::result::{DatabaseErrorKind, Error as DieselError};
use diesel::sql_types::Text;
use diesel_sharded::{Error, RollbackReason};

use super::backend::{Fleet, Isolation, Sharded, ids, insert, session};
use crate::support::{items, ours};

fn ask<C>(conn: &mut C, setting: &str) -> String
where
    C: diesel::connection::LoadConnection<Backend = diesel::pg::Pg>,
{
    let current = format!("current_setting('{setting}')");
    diesel::select(diesel::dsl::sql::<Text>(&current))
        .get_result(conn)
        .unwrap()
}

#[test]
fn statements_after_a_failed_one_get_the_servers_word() {
    let fleet = Fleet::new(&["a"]);
    let shards = fleet.manager_of_size(1);
    let error = shards
        .transaction_on("a", |conn| {
            insert(conn, 1)?;
            let _ = insert(conn, 1);
            insert(conn, 2)
        })
        .unwrap_err();
    // "current transaction is aborted": the transaction is there, so it is the server that speaks.
    assert!(error.to_string().contains("aborted"), "{error:?}");
    assert_eq!(fleet.rows("a"), [0; 0]);
}

#[test]
fn isolation_and_access_mode_are_in_force_for_one_transaction() {
    let fleet = Fleet::new(&["a"]);
    let shards = fleet.manager_of_size(1);
    let default = ask(&mut fleet.direct("a"), "transaction_isolation");
    for (level, name) in [
        (Isolation::ReadCommitted, "read committed"),
        (Isolation::RepeatableRead, "repeatable read"),
        (Isolation::Serializable, "serializable"),
    ] {
        for read_only in [false, true] {
            let mut builder = shards.transaction_builder("a").isolation(level);
            if read_only {
                builder = builder.read_only();
            }
            builder
                .run(|conn| {
                    assert_eq!(ask(conn, "transaction_isolation"), name);
                    let access = ask(conn, "transaction_read_only");
                    assert_eq!(access, if read_only { "on" } else { "off" });
                    Ok::<_, Error>(())
                })
                .unwrap();
            shards
                .transaction_on("a", |conn| {
                    assert_eq!(ask(conn, "transaction_isolation"), default);
                    assert_eq!(ask(conn, "transaction_read_only"), "off");
                    Ok::<_, Error>(())
                })
                .unwrap();
        }
    }
}

#[test]
fn diesels_transaction_builder_is_ours() {
    let fleet = Fleet::new(&["a", "b"]);
    let shards = fleet.manager_of_size(1);
    let mut conn = shards.get_on("a").unwrap();
    conn.build_transaction()
        .serializable()
        .read_only()
        .deferrable()
        .run(|conn| {
            assert_eq!(ask(conn, "transaction_isolation"), "serializable");
            assert_eq!(ask(conn, "transaction_read_only"), "on");
            assert_eq!(ask(conn, "transaction_deferrable"), "on");
            Ok::<_, DieselError>(())
        })
        .unwrap();
    conn.build_transaction()
        .repeatable_read()
        .read_write()
        .not_deferrable()
        .run(|conn| {
            assert_eq!(ask(conn, "transaction_isolation"), "repeatable read");
            insert(conn, 1)?;
            conn.transaction(|conn| insert(conn, 2))?;
            Ok::<_, DieselError>(())
        })
        .unwrap();
    assert_eq!(fleet.rows("a"), [1, 2]);
    // A swallowed failure, an end by hand, a transaction in a transaction: the same answers.
    let error = conn
        .build_transaction()
        .run(|conn| {
            let _ = insert(conn, 1);
            Ok::<_, DieselError>(())
        })
        .unwrap_err();
    assert!(
        matches!(ours(&error), Error::RolledBack { .. }),
        "{error:?}"
    );
    let error = conn
        .build_transaction()
        .run(|conn| conn.batch_execute("COMMIT"))
        .unwrap_err();
    assert!(
        matches!(ours(&error), Error::RolledBack { .. }),
        "{error:?}"
    );
    conn.transaction(|conn| {
        let error = conn
            .build_transaction()
            .run(|_| Ok::<_, DieselError>(()))
            .unwrap_err();
        assert_eq!(error, DieselError::AlreadyInTransaction);
        insert(conn, 3)
    })
    .unwrap();
    let mut held = shards.get_on("b").unwrap();
    drop(conn);
    shards
        .transaction_on("a", |_| {
            let error = held
                .build_transaction()
                .run(|_| Ok::<_, DieselError>(()))
                .unwrap_err();
            assert!(
                matches!(ours(&error), Error::PinnedElsewhere { .. }),
                "{error:?}"
            );
            Ok::<_, Error>(())
        })
        .unwrap();
    assert_eq!(fleet.rows("a"), [1, 2, 3]);
}

#[test]
fn a_serialization_failure_at_commit_is_the_outcome() {
    let fleet = Fleet::new(&["a"]);
    let shards = fleet.manager_of_size(2);
    let write_skew = |id: i64| {
        shards
            .transaction_builder("a")
            .isolation(Isolation::Serializable)
            .run(|conn| {
                ids(conn)?;
                // The other one reads, writes and commits in between.
                let other = shards.independent(|| {
                    shards
                        .transaction_builder("a")
                        .isolation(Isolation::Serializable)
                        .run(|conn| {
                            ids(conn)?;
                            insert(conn, id)
                        })
                });
                other?;
                insert(conn, id + 1)
            })
    };
    let error = write_skew(1).unwrap_err();
    assert!(
        matches!(
            error,
            DieselError::DatabaseError(DatabaseErrorKind::SerializationFailure, _)
        ),
        "{error:?}"
    );
    assert_eq!(fleet.rows("a"), [1]);
    fleet.assert_nothing_open("a");
    shards.transaction_on("a", |conn| insert(conn, 5)).unwrap();
}

#[test]
fn a_deadlock_that_is_swallowed_is_never_a_silent_rollback() {
    let fleet = Fleet::new(&["a"]);
    let shards = fleet.manager_of_size(2);
    for id in [1, 2] {
        insert(&mut fleet.direct("a"), id).unwrap();
    }
    let both_hold_one = std::sync::Barrier::new(2);
    let update = |conn: &mut Sharded, id: i64, note: &str| {
        diesel::update(items::table.find(id))
            .set(items::note.eq(note))
            .execute(conn)
    };
    let crossed = |first: i64, second: i64, note: &str| {
        shards.transaction_on("a", |conn| {
            update(conn, first, note)?;
            both_hold_one.wait();
            let _ = update(conn, second, note);
            Ok::<_, Error>(())
        })
    };
    let results = std::thread::scope(|scope| {
        let one = scope.spawn(|| crossed(1, 2, "one"));
        let other = scope.spawn(|| crossed(2, 1, "other"));
        [one.join().unwrap(), other.join().unwrap()]
    });
    let errors: Vec<_> = results
        .iter()
        .filter_map(|result| result.as_ref().err())
        .collect();
    assert_eq!(errors.len(), 1, "one victim: {results:?}");
    assert!(matches!(
        errors[0],
        Error::RolledBack {
            reason: RollbackReason::FailedStatement,
            ..
        }
    ));
    let notes: Vec<Option<String>> = items::table
        .select(items::note)
        .load(&mut fleet.direct("a"))
        .unwrap();
    assert_eq!(notes[0], notes[1], "the whole transaction of the other one");
    fleet.assert_nothing_open("a");
}

#[test]
fn a_primary_that_has_turned_read_only_costs_each_old_connection_one_failure() {
    let fleet = Fleet::new(&["a"]);
    let shards = fleet.manager_of_size(2);
    let refuse = |conn: &mut Sharded| {
        conn.batch_execute("SET default_transaction_read_only = on")
            .unwrap();
        session(conn).unwrap()
    };
    let (mut one, mut two) = (shards.get_on("a").unwrap(), shards.get_on("a").unwrap());
    let old = [refuse(&mut one), refuse(&mut two)];
    drop((one, two));
    let mut failures = 0;
    for id in 1..=6 {
        let mut conn = shards.get_on("a").unwrap();
        if insert(&mut conn, id).is_err() {
            failures += 1;
        } else {
            assert!(!old.contains(&session(&mut conn).unwrap()));
        }
    }
    assert!(failures <= 2, "{failures} failures");
}
