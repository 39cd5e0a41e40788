//! Constraints that are checked at the COMMIT: what follows a commit does not follow.

use std::cell::Cell;
use std::sync::mpsc;

use diesel::connection::SimpleConnection;
use diesel_sharded::{Error, RollbackReason};

use super::backend::{Fleet, Manager, NAME};

/// A shard whose table `child` refers to `parent`, checked at the commit.
fn prepared(fleet: &Fleet) -> Manager {
    let shards = fleet.manager_of_size(1);
    let mut conn = shards.get_on("a").unwrap();
    conn.batch_execute(
        "CREATE TABLE parent (id INTEGER PRIMARY KEY);
         CREATE TABLE child (p INTEGER REFERENCES parent DEFERRABLE INITIALLY DEFERRED)",
    )
    .unwrap();
    if NAME == "sqlite" {
        conn.batch_execute("PRAGMA foreign_keys = ON").unwrap();
    }
    drop(conn);
    shards
}

#[test]
fn a_constraint_that_fails_at_the_commit_voids_the_hooks_and_is_not_run_again() {
    let fleet = Fleet::new(&["a"]);
    let shards = prepared(&fleet);
    let ((sender, receiver), runs) = (mpsc::channel(), Cell::new(0));
    let result = shards.transaction_builder("a").retries(3).run(|conn| {
        runs.set(runs.get() + 1);
        let sender = sender.clone();
        conn.after_commit(move || sender.send(()).unwrap());
        conn.batch_execute("INSERT INTO child VALUES (9)")?;
        Ok::<_, Error>(())
    });
    let error = result.unwrap_err();
    assert!(
        matches!(
            error,
            Error::Database { .. }
                | Error::RolledBack {
                    reason: RollbackReason::FailedStatement,
                    ..
                }
        ),
        "{error:?}"
    );
    assert_eq!(runs.get(), 1);
    assert!(receiver.try_recv().is_err());
    shards.transaction_on("a", |_| Ok::<_, Error>(())).unwrap();
    assert!(receiver.try_recv().is_err(), "nor with the next commit");
    fleet.assert_nothing_open("a");
}
