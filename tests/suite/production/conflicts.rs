//! Real deadlocks between two transactions: the victim is run again, from its start.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;

use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use diesel_sharded::Error;

use super::backend::{Fleet, Sharded, insert};
use crate::support::items;

fn touch(conn: &mut Sharded, id: i64, note: &str) -> QueryResult<usize> {
    diesel::update(items::table.find(id))
        .set(items::note.eq(note))
        .execute(conn)
}

/// Two transactions that lock the rows 1 and 2 in opposite order, `times` retries each. Answers the
/// results, and how often a closure was run.
fn crossed(fleet: &Fleet, times: usize) -> (Vec<Result<(), Error>>, usize, Vec<String>) {
    let shards = fleet.manager();
    let (both_hold_one, runs) = (Barrier::new(2), AtomicUsize::new(0));
    let hooks = Arc::new(Mutex::new(Vec::new()));
    let results = thread::scope(|scope| {
        let workers: Vec<_> = [("x", 1, 2), ("y", 2, 1)]
            .into_iter()
            .map(|(name, first, second)| {
                let (shards, both_hold_one, runs, hooks) = (&shards, &both_hold_one, &runs, &hooks);
                scope.spawn(move || {
                    let mut first_run = true;
                    shards.transaction_builder("a").retries(times).run(|conn| {
                        let run = runs.fetch_add(1, Ordering::SeqCst);
                        let hooks = Arc::clone(hooks);
                        conn.after_commit(move || hooks.lock().unwrap().push(name.to_owned()));
                        touch(conn, first, name)?;
                        insert(conn, 100 + i64::try_from(run).unwrap())?;
                        if std::mem::take(&mut first_run) {
                            both_hold_one.wait();
                        }
                        touch(conn, second, name)?;
                        Ok::<_, Error>(())
                    })
                })
            })
            .collect();
        workers
            .into_iter()
            .map(|worker| worker.join().unwrap())
            .collect()
    });
    let hooks = std::mem::take(&mut *hooks.lock().unwrap());
    for node in shards.status().nodes {
        assert!(node.connections <= 4 && node.waiting == 0, "{node:?}");
    }
    fleet.assert_nothing_open("a");
    (results, runs.into_inner(), hooks)
}

fn with_rows() -> Fleet {
    let fleet = Fleet::new(&["a"]);
    fleet
        .direct("a")
        .batch_execute("INSERT INTO items (id) VALUES (1), (2)")
        .unwrap();
    fleet
}

#[test]
fn the_victim_of_a_deadlock_is_run_again_and_both_are_kept_once() {
    let fleet = with_rows();
    let (results, runs, mut hooks) = crossed(&fleet, 5);
    for result in results {
        result.unwrap();
    }
    // One of the two once more; it may meet the other again before that one has what it waits for.
    assert!((3..=12).contains(&runs), "{runs}");
    hooks.sort();
    assert_eq!(hooks, ["x", "y"]);
    // Two of the three runs are kept.
    assert_eq!(fleet.rows("a").len(), 4);
}

#[test]
fn without_retries_the_victim_is_told_and_the_other_is_kept() {
    let fleet = with_rows();
    let (results, runs, hooks) = crossed(&fleet, 0);
    assert_eq!(runs, 2);
    let failed: Vec<&Error> = results
        .iter()
        .filter_map(|one| one.as_ref().err())
        .collect();
    assert_eq!(failed.len(), 1, "{results:?}");
    assert!(matches!(failed[0], Error::Database { .. }), "{failed:?}");
    assert_eq!(hooks.len(), 1);
    assert_eq!(fleet.rows("a").len(), 3);
}

#[test]
fn a_deadlock_that_was_swallowed_in_a_savepoint_keeps_nothing_of_the_victim() {
    let fleet = with_rows();
    let shards = fleet.manager();
    let both_hold_one = Barrier::new(2);
    let results: Vec<(bool, Result<(), Error>)> = thread::scope(|scope| {
        let workers: Vec<_> = [(1, 2), (2, 1)]
            .into_iter()
            .map(|(first, second)| {
                let (shards, both_hold_one) = (&shards, &both_hold_one);
                scope.spawn(move || {
                    let mut victim = false;
                    let result = shards.transaction_on("a", |conn| {
                        touch(conn, first, "x")?;
                        both_hold_one.wait();
                        let inner = conn.transaction(|conn| touch(conn, second, "x"));
                        victim = inner.is_err();
                        insert(conn, 100 + first)?;
                        Ok(())
                    });
                    (victim, result)
                })
            })
            .collect();
        workers
            .into_iter()
            .map(|worker| worker.join().unwrap())
            .collect()
    });
    assert_eq!(results.iter().filter(|(victim, _)| *victim).count(), 1);
    let rows = fleet.rows("a");
    for ((victim, result), first) in results.iter().zip([1, 2]) {
        // PostgreSQL rolls back to the savepoint and goes on, MySQL has lost the transaction.
        assert_eq!(
            result.is_ok(),
            rows.contains(&(100 + first)),
            "{victim} {result:?}"
        );
        assert!(*victim || result.is_ok());
    }
    fleet.assert_nothing_open("a");
}
