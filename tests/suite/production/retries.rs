//! `retries(n)`: the whole closure again, from a new BEGIN, on the same shard, at most n times.

use std::cell::{Cell, RefCell};
use std::sync::{Arc, Mutex};

use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use diesel_sharded::{Error, Route};

use super::backend::{Fleet, Isolation, NAME, Outcome, Sharded, ids, insert, whoami};
use crate::support::conflict_of;

/// A statement that fails as a conflict with another transaction does; real ones: `conflicts`.
pub(crate) fn conflict(fleet: &Fleet, conn: &mut Sharded) -> QueryResult<()> {
    if let Some(text) = conflict_of(NAME) {
        return conn.batch_execute(text);
    }
    conn.batch_execute("PRAGMA busy_timeout = 0")?;
    let mut other = fleet.direct("a");
    other.batch_execute("BEGIN IMMEDIATE")?;
    insert(conn, 999).map(drop)
}

#[test]
fn a_transaction_that_conflicts_is_run_again_until_it_does_not() {
    let fleet = Fleet::new(&["a", "b"]);
    let shards = fleet.manager_of_size(1);
    let (runs, hooks) = (Cell::new(0), Arc::new(Mutex::new(Vec::new())));
    let result = shards.on("b", || {
        shards.transaction_builder("a").retries(5).run(|conn| {
            runs.set(runs.get() + 1);
            let run = runs.get();
            assert_eq!(whoami(conn)?, "a");
            assert_eq!(Route::stack_depth(), 2);
            assert_eq!(ids(conn)?, [0_i64; 0], "nothing is left of an earlier run");
            let hooks = Arc::clone(&hooks);
            conn.after_commit(move || hooks.lock().unwrap().push(run));
            if run <= 2 {
                if NAME != "sqlite" {
                    insert(conn, 100 + run)?;
                }
                conflict(&fleet, conn)?;
            }
            insert(conn, run)?;
            Ok::<_, Error>(run)
        })
    });
    assert_eq!(result.unwrap(), 3);
    assert_eq!(runs.get(), 3);
    assert_eq!(fleet.rows("a"), [3]);
    assert_eq!(*hooks.lock().unwrap(), [3], "hooks of failed runs are void");
    fleet.assert_nothing_open("a");
}

#[test]
fn it_is_run_at_most_n_times_more_and_the_last_error_comes_out() {
    let fleet = Fleet::new(&["a"]);
    let shards = fleet.manager_of_size(1);
    for times in [0, 1, 3] {
        let runs = Cell::new(0);
        let result: Result<(), Error> =
            shards.transaction_builder("a").retries(times).run(|conn| {
                runs.set(runs.get() + 1);
                conn.after_commit(|| panic!("never committed"));
                Ok(conflict(&fleet, conn)?)
            });
        let error = result.unwrap_err();
        assert!(matches!(error, Error::Database { .. }), "{error:?}");
        assert_eq!(runs.get(), times + 1);
        assert_eq!(shards.status().nodes[0].connections, 1);
    }
    fleet.assert_nothing_open("a");
    insert(&mut shards.get_on("a").unwrap(), 1).unwrap();
    assert_eq!(fleet.rows("a"), [1]);
}

/// An application's own error, which tells nothing about the database's.
#[derive(Debug, PartialEq)]
enum App {
    Database,
    OutOfStock,
}

impl From<diesel::result::Error> for App {
    fn from(_: diesel::result::Error) -> Self {
        Self::Database
    }
}

#[test]
fn a_conflict_is_seen_through_an_applications_own_error() {
    let fleet = Fleet::new(&["a"]);
    let shards = fleet.manager_of_size(1);
    let runs = Cell::new(0);
    let result = shards.transaction_builder("a").retries(3).run(|conn| {
        runs.set(runs.get() + 1);
        if runs.get() == 1 {
            conflict(&fleet, conn)?;
        }
        insert(conn, 1)?;
        Ok::<_, App>(runs.get())
    });
    assert_eq!(result, Ok(2));
}

#[test]
fn nothing_else_is_run_again() {
    let fleet = Fleet::new(&["a"]);
    let shards = fleet.manager_of_size(1);
    insert(&mut shards.get_on("a").unwrap(), 1).unwrap();
    let runs = Cell::new(0);
    type Case<'a> = (&'a str, &'a dyn Fn(&mut Sharded) -> Result<(), App>, App);
    let cases: [Case<'_>; 4] = [
        (
            "the closure's own error",
            &|_| Err(App::OutOfStock),
            App::OutOfStock,
        ),
        (
            "a duplicate",
            &|conn| Ok(insert(conn, 1).map(drop)?),
            App::Database,
        ),
        (
            "no such table",
            &|conn| Ok(conn.batch_execute("SELECT * FROM nothing_of_that_name")?),
            App::Database,
        ),
        (
            "its own error after a failed savepoint",
            &|conn| {
                let _ = conn.transaction(|conn| insert(conn, 1));
                Err(App::OutOfStock)
            },
            App::OutOfStock,
        ),
    ];
    for (what, case, expected) in cases {
        runs.set(0);
        let result = shards.transaction_builder("a").retries(5).run(|conn| {
            runs.set(runs.get() + 1);
            case(conn)
        });
        assert_eq!(result, Err(expected), "{what}");
        assert_eq!(runs.get(), 1, "{what}");
    }
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        runs.set(0);
        shards.transaction_builder("a").retries(5).run(|conn| {
            runs.set(runs.get() + 1);
            let _ = conflict(&fleet, conn);
            if true {
                panic!("of the application");
            }
            Ok::<(), Error>(())
        })
    }));
    assert!(panicked.is_err());
    assert_eq!(runs.get(), 1, "a panic");
    assert_eq!(fleet.rows("a"), [1]);
}

#[test]
fn a_conflict_of_an_earlier_transaction_is_no_reason() {
    let fleet = Fleet::new(&["a"]);
    let shards = fleet.manager_of_size(1);
    let _ = shards.transaction_on("a", |conn| conflict(&fleet, conn));
    let _ = conflict(&fleet, &mut shards.get_on("a").unwrap());
    let runs = Cell::new(0);
    let result = shards.transaction_builder("a").retries(5).run(|_| {
        runs.set(runs.get() + 1);
        Err::<(), _>(App::OutOfStock)
    });
    assert_eq!((result, runs.get()), (Err(App::OutOfStock), 1));
}

#[test]
fn the_options_hold_for_every_run_and_an_outcome_is_an_outcome() {
    let fleet = Fleet::new(&["a"]);
    let shards = fleet.manager_of_size(1);
    let (runs, levels) = (Cell::new(0), RefCell::new(Vec::new()));
    let result = shards
        .transaction_builder("a")
        .isolation(Isolation::Serializable)
        .retries(4)
        .run_outcome(|conn| {
            runs.set(runs.get() + 1);
            if NAME == "postgres" {
                let level = diesel::select(diesel::dsl::sql::<diesel::sql_types::Text>(
                    "current_setting('transaction_isolation')",
                ));
                levels.borrow_mut().push(level.get_result::<String>(conn)?);
            }
            if runs.get() < 3 {
                conflict(&fleet, conn)?;
            }
            insert(conn, 1)?;
            Ok::<_, Error>(Outcome::Rollback("dry"))
        });
    assert_eq!(result.unwrap(), "dry");
    assert_eq!(runs.get(), 3);
    if NAME == "postgres" {
        assert_eq!(*levels.borrow(), ["serializable"; 3]);
    }
    assert_eq!(fleet.rows("a"), [0_i64; 0]);
}

#[test]
fn what_never_began_is_not_run_again() {
    let fleet = Fleet::new(&["a", "b"]);
    let shards = fleet.manager_of_size(1);
    let never = |_: &mut Sharded| -> Result<(), Error> { panic!("not run") };
    shards
        .transaction_on("a", |_| {
            let again = shards.transaction_builder("a").retries(5).run(never);
            assert!(matches!(again, Err(Error::AlreadyInTransaction { .. })));
            let elsewhere = shards.transaction_builder("b").retries(5).run(never);
            assert!(matches!(elsewhere, Err(Error::PinnedElsewhere { .. })));
            Ok::<_, Error>(())
        })
        .unwrap();
    let unknown = shards.transaction_builder("c").retries(5).run(never);
    assert!(matches!(unknown, Err(Error::UnknownShard { .. })));
}
