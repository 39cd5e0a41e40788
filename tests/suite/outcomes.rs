//! `Ok` means committed, and what the caller said comes back as the caller said it.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};

use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use diesel::result::{DatabaseErrorKind, Error as DieselError};
use diesel_sharded::{Error, RollbackReason};

use super::backend::{Fleet, Manager, NAME, Outcome, RAW_WAYS, Sharded, ids, insert};
use crate::support::{eventually, items, ours, said};

/// Nothing was written, and the one connection of the pool is there and clean.
fn assert_untouched(fleet: &Fleet, shards: &Manager) {
    assert_eq!(fleet.rows("a"), [0; 0]);
    fleet.assert_nothing_open("a");
    eventually("all came back", || {
        let status = &shards.status().nodes[0];
        status.connections == status.idle
    });
    let mut conn = shards.get_on("a").unwrap();
    insert(&mut conn, 1000).unwrap();
    assert_eq!(fleet.rows("a"), [1000], "the next user writes at once");
    diesel::delete(items::table).execute(&mut conn).unwrap();
}

#[derive(Debug, PartialEq)]
enum App {
    OutOfStock(u32),
    Db(DieselError),
}

impl From<DieselError> for App {
    fn from(error: DieselError) -> Self {
        Self::Db(error)
    }
}

#[derive(Debug, PartialEq)]
struct Odd(u8);

impl fmt::Display for Odd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "odd {}", self.0)
    }
}

impl std::error::Error for Odd {}

#[test]
fn the_callers_own_error_comes_back_unchanged_and_nothing_is_kept() {
    let fleet = Fleet::new(&["a"]);
    let shards = fleet.manager_of_size(1);
    let error = shards
        .transaction_on("a", |conn| {
            insert(conn, 1)?;
            Err::<(), _>(App::OutOfStock(7))
        })
        .unwrap_err();
    assert_eq!(error, App::OutOfStock(7));
    assert_untouched(&fleet, &shards);

    type Dyn = Box<dyn std::error::Error + Send + Sync>;
    let error = shards
        .transaction_on("a", |conn| {
            insert(conn, 1)?;
            Err::<(), Dyn>(Box::new(Odd(3)))
        })
        .unwrap_err();
    assert_eq!(error.downcast_ref::<Odd>(), Some(&Odd(3)));
    assert_untouched(&fleet, &shards);

    // Diesel's own way to say "never mind".
    let error = shards
        .transaction_on("a", |conn| {
            insert(conn, 1)?;
            Err::<(), _>(DieselError::RollbackTransaction)
        })
        .unwrap_err();
    assert_eq!(error, DieselError::RollbackTransaction);
    assert_untouched(&fleet, &shards);
}

#[test]
fn the_error_of_a_statement_passes_through_as_diesels_own() {
    let fleet = Fleet::new(&["a"]);
    let shards = fleet.manager_of_size(1);
    let twice = |conn: &mut Sharded| {
        insert(conn, 1)?;
        insert(conn, 1)
    };
    let error = shards.transaction_on("a", twice).unwrap_err();
    assert!(
        matches!(
            error,
            DieselError::DatabaseError(DatabaseErrorKind::UniqueViolation, _)
        ),
        "{error:?}"
    );
    let error = shards
        .transaction_on("a", |conn| Ok::<_, App>(twice(conn)?))
        .unwrap_err();
    assert!(matches!(
        error,
        App::Db(DieselError::DatabaseError(
            DatabaseErrorKind::UniqueViolation,
            _
        ))
    ));
    let error = shards
        .transaction_on("a", |conn| Ok::<_, Error>(twice(conn)?))
        .unwrap_err();
    assert!(matches!(
        error,
        Error::Database {
            source: DieselError::DatabaseError(DatabaseErrorKind::UniqueViolation, _),
            ..
        }
    ));
    assert_untouched(&fleet, &shards);
}

#[test]
fn a_panic_rolls_back_and_goes_on_with_its_own_payload() {
    let fleet = Fleet::new(&["a"]);
    let shards = fleet.manager_of_size(1);
    type Never = Result<(), Error>;
    let panics: [(&str, &dyn Fn()); 4] = [
        ("in the transaction", &|| {
            let _: Never = shards.transaction_on("a", |conn| {
                insert(conn, 1)?;
                panic_any(Odd(9))
            });
        }),
        ("in a savepoint", &|| {
            let _: Never = shards.transaction_on("a", |conn| {
                insert(conn, 1)?;
                conn.transaction(|conn| {
                    insert(conn, 2)?;
                    panic_any(Odd(9))
                })
            });
        }),
        ("after a failed statement", &|| {
            let _: Never = shards.transaction_on("a", |conn| {
                insert(conn, 1)?;
                let _ = insert(conn, 1);
                panic_any(Odd(9))
            });
        }),
        ("on a connection of the caller", &|| {
            let mut conn = shards.get_on("a").unwrap();
            let _ = conn.transaction(|conn| -> QueryResult<()> {
                insert(conn, 1)?;
                panic_any(Odd(9))
            });
        }),
    ];
    for (form, panics) in panics {
        let payload = catch_unwind(AssertUnwindSafe(panics)).unwrap_err();
        assert_eq!(*payload.downcast::<Odd>().unwrap(), Odd(9), "{form}");
        assert_untouched(&fleet, &shards);
    }
}

#[test]
fn a_caught_panic_in_a_savepoint_leaves_a_transaction_that_commits() {
    let fleet = Fleet::new(&["a"]);
    let shards = fleet.manager_of_size(1);
    let result = shards.transaction_on("a", |conn| {
        insert(conn, 1)?;
        let panic = catch_unwind(AssertUnwindSafe(|| {
            let _: QueryResult<()> = conn.transaction(|conn| {
                insert(conn, 2)?;
                panic!("on purpose")
            });
        }));
        assert!(panic.is_err());
        insert(conn, 3)?;
        Ok::<_, Error>(())
    });
    result.unwrap();
    assert_eq!(fleet.rows("a"), [1, 3]);
    fleet.assert_nothing_open("a");
}

#[test]
fn a_wanted_rollback_is_ok_and_keeps_its_value() {
    let fleet = Fleet::new(&["a"]);
    let shards = fleet.manager_of_size(1);
    let seen = shards
        .transaction_builder("a")
        .run_outcome(|conn| {
            insert(conn, 1)?;
            Ok::<_, Error>(Outcome::Rollback(ids(conn)?))
        })
        .unwrap();
    assert_eq!(seen, [1], "the closure saw its row");
    assert_untouched(&fleet, &shards);
    // After a failed statement too: rolled back is what was wanted.
    let seen = shards
        .transaction_builder("a")
        .run_outcome(|conn| {
            insert(conn, 1)?;
            let _ = insert(conn, 1);
            Ok::<_, Error>(Outcome::Rollback("dry"))
        })
        .unwrap();
    assert_eq!(seen, "dry");
    assert_untouched(&fleet, &shards);

    let value = shards
        .transaction_builder("a")
        .run_outcome(|conn| {
            insert(conn, 1)?;
            Ok::<_, Error>(Outcome::Commit(5))
        })
        .unwrap();
    assert_eq!(value, 5);
    assert_eq!(fleet.rows("a"), [1]);
}

#[test]
fn a_swallowed_statement_error_is_never_a_silent_rollback() {
    let fleet = Fleet::new(&["a"]);
    let shards = fleet.manager_of_size(1);
    type Fail = Box<dyn Fn(&mut Sharded) -> QueryResult<()>>;
    let mut failures: Vec<(&str, Fail)> = vec![
        ("typed", Box::new(|conn| insert(conn, 1).map(drop))),
        (
            "batch",
            Box::new(|conn| conn.batch_execute("INSERT INTO items (id) VALUES (1)")),
        ),
        (
            "sql_query",
            Box::new(|conn| {
                let again = diesel::sql_query("INSERT INTO items (id) VALUES (1)");
                again.execute(conn).map(drop)
            }),
        ),
    ];
    for (way, reach) in RAW_WAYS {
        let raw = |conn: &mut Sharded| reach(conn, &mut |raw| insert(raw, 1).map(drop));
        failures.push((way, Box::new(raw)));
    }
    for (way, fail) in failures {
        let result = shards.transaction_on("a", |conn| {
            insert(conn, 1)?;
            fail(conn).unwrap_err();
            Ok::<_, Error>(())
        });
        if NAME == "postgres" {
            let error = result.unwrap_err();
            assert!(
                matches!(
                    &error,
                    Error::RolledBack {
                        reason: RollbackReason::FailedStatement,
                        ..
                    }
                ),
                "{way}: {error:?}"
            );
            assert!(said(&error).contains("shard a"));
            assert_untouched(&fleet, &shards);
        } else {
            // SQLite and MySQL undo the failed statement only; what is left is committed.
            result.unwrap();
            assert_eq!(fleet.rows("a"), [1], "{way}");
            diesel::delete(items::table)
                .execute(&mut fleet.direct("a"))
                .unwrap();
        }
    }
}

#[test]
fn an_error_swallowed_in_a_savepoint_costs_the_savepoint_only() {
    let fleet = Fleet::new(&["a"]);
    let shards = fleet.manager_of_size(1);
    shards
        .transaction_on("a", |conn| {
            insert(conn, 1)?;
            let inner = conn.transaction(|conn| {
                insert(conn, 2)?;
                insert(conn, 1)
            });
            assert!(inner.is_err());
            insert(conn, 3)?;
            conn.transaction(|conn| {
                conn.transaction(|conn| insert(conn, 4))?;
                conn.transaction(|conn| {
                    insert(conn, 5)?;
                    Err::<(), _>(DieselError::RollbackTransaction)
                })
                .unwrap_err();
                insert(conn, 6)
            })?;
            Ok::<_, Error>(())
        })
        .unwrap();
    assert_eq!(fleet.rows("a"), [1, 3, 4, 6]);
    fleet.assert_nothing_open("a");
}

#[test]
fn a_savepoint_whose_failure_was_swallowed_inside_is_not_released_as_a_success() {
    let fleet = Fleet::new(&["a"]);
    let shards = fleet.manager_of_size(1);
    let result = shards.transaction_on("a", |conn| {
        insert(conn, 1)?;
        let inner = conn.transaction(|conn| {
            insert(conn, 2)?;
            let _ = insert(conn, 1);
            Ok::<_, DieselError>(())
        });
        if NAME == "postgres" {
            let error = inner.unwrap_err();
            assert!(
                matches!(ours(&error), Error::RolledBack { .. }),
                "{error:?}"
            );
        } else {
            inner?;
        }
        insert(conn, 3)?;
        Ok::<_, Error>(())
    });
    result.unwrap();
    let expected: &[i64] = if NAME == "postgres" {
        &[1, 3]
    } else {
        &[1, 2, 3]
    };
    assert_eq!(fleet.rows("a"), expected);
}

#[test]
fn a_helper_that_fails_half_way_leaves_no_half() {
    let fleet = Fleet::new(&["a"]);
    fleet
        .direct("a")
        .batch_execute("CREATE TABLE directory (item BIGINT PRIMARY KEY)")
        .unwrap();
    let shards = fleet.manager_of_size(1);
    insert(&mut fleet.direct("a"), 7).unwrap();
    fn helper(conn: &mut Sharded, id: i64) -> QueryResult<usize> {
        conn.batch_execute(&format!("INSERT INTO directory VALUES ({id})"))?;
        insert(conn, id)
    }
    let directory = || {
        diesel::dsl::sql::<diesel::sql_types::BigInt>("SELECT item FROM directory ORDER BY item")
            .load::<i64>(&mut fleet.direct("a"))
            .unwrap()
    };
    let error = shards
        .transaction_on("a", |conn| helper(conn, 7))
        .unwrap_err();
    assert!(matches!(
        error,
        DieselError::DatabaseError(DatabaseErrorKind::UniqueViolation, _)
    ));
    assert_eq!((directory(), fleet.rows("a")), (vec![], vec![7]));

    // The same in a savepoint whose error is swallowed: the rest is in the transaction, not outside.
    let error = shards
        .transaction_on("a", |conn| {
            let _ = conn.transaction(|conn| helper(conn, 7));
            helper(conn, 8)?;
            Err::<(), _>(DieselError::RollbackTransaction)
        })
        .unwrap_err();
    assert_eq!(error, DieselError::RollbackTransaction);
    assert_eq!((directory(), fleet.rows("a")), (vec![], vec![7]));
}
