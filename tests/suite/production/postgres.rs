//! What production means on PostgreSQL alone: serialization failures, the reset in detail,
//! read-only shards against statements that ask for writes.

use std::cell::Cell;
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use diesel::sql_types::Text;
use diesel_sharded::{Error, ShardState};

use super::backend::{Fleet, Isolation, Sharded, ids, insert, session};
use crate::support::{items, ours};

fn touch<C: Connection<Backend = diesel::pg::Pg>>(conn: &mut C, id: i64) -> QueryResult<usize> {
    diesel::update(items::table.find(id))
        .set(items::note.eq("touched"))
        .execute(conn)
}

fn setting(conn: &mut Sharded, name: &str) -> String {
    diesel::select(diesel::dsl::sql::<Text>(&format!(
        "current_setting('{name}')"
    )))
    .get_result(conn)
    .unwrap()
}

fn with_rows(count: i64) -> Fleet {
    let fleet = Fleet::new(&["a"]);
    let mut direct = fleet.direct("a");
    for id in 1..=count {
        insert(&mut direct, id).unwrap();
    }
    fleet
}

#[test]
fn a_row_that_was_changed_since_the_snapshot_is_looked_at_again() {
    let fleet = with_rows(1);
    let shards = fleet.manager_of_size(1);
    let mut other = fleet.direct("a");
    let runs = Cell::new(0);
    let result = shards
        .transaction_builder("a")
        .isolation(Isolation::RepeatableRead)
        .retries(5)
        .run(|conn| {
            runs.set(runs.get() + 1);
            ids(conn)?;
            if runs.get() <= 3 {
                touch(&mut other, 1)?;
            }
            touch(conn, 1)?;
            Ok::<_, Error>(runs.get())
        });
    assert_eq!(result.unwrap(), 4);
    let error = shards
        .transaction_builder("a")
        .isolation(Isolation::RepeatableRead)
        .retries(2)
        .run(|conn| {
            runs.set(runs.get() + 1);
            ids(conn)?;
            touch(&mut other, 1)?;
            Ok::<_, Error>(touch(conn, 1)?)
        })
        .unwrap_err();
    let Error::Database { source, .. } = &error else {
        panic!("{error:?}");
    };
    assert!(matches!(
        source,
        diesel::result::Error::DatabaseError(
            diesel::result::DatabaseErrorKind::SerializationFailure,
            _
        )
    ));
    assert_eq!(runs.get(), 4 + 3);
}

#[test]
fn write_skew_between_two_serializable_transactions_runs_one_of_them_again() {
    let fleet = with_rows(2);
    let shards = fleet.manager();
    let (both_have_read, runs) = (Barrier::new(2), AtomicUsize::new(0));
    thread::scope(|scope| {
        for mine in [1, 2] {
            let (shards, both_have_read, runs) = (&shards, &both_have_read, &runs);
            scope.spawn(move || {
                let mut first = true;
                shards
                    .transaction_builder("a")
                    .isolation(Isolation::Serializable)
                    .retries(10)
                    .run(|conn| {
                        runs.fetch_add(1, Ordering::SeqCst);
                        // The rule: at least one row stays untouched.
                        let untouched: Vec<i64> = items::table
                            .filter(items::note.is_null())
                            .select(items::id)
                            .load(conn)?;
                        if std::mem::take(&mut first) {
                            both_have_read.wait();
                        }
                        if untouched.len() > 1 {
                            touch(conn, mine)?;
                        }
                        Ok::<_, Error>(())
                    })
                    .unwrap();
            });
        }
    });
    assert!(
        runs.into_inner() >= 3,
        "one of them failed, maybe at its COMMIT"
    );
    let untouched: i64 = items::table
        .filter(items::note.is_null())
        .count()
        .get_result(&mut fleet.direct("a"))
        .unwrap();
    assert_eq!(untouched, 1);
}

#[test]
fn the_reset_keeps_the_session_and_diesels_own_settings() {
    let fleet = Fleet::new(&["a"]);
    fleet
        .direct("a")
        .batch_execute("CREATE SCHEMA other")
        .unwrap();
    let shards = fleet
        .builder_of_size(1)
        .reset_sessions(true)
        .build()
        .unwrap();
    let mut conn = shards.get_on("a").unwrap();
    let start = session(&mut conn).unwrap();
    assert_eq!(setting(&mut conn, "TimeZone"), "UTC");
    conn.batch_execute(
        "SET TIME ZONE 'Asia/Tokyo'; SET search_path = other; SET ROLE pg_read_all_data;
         SET client_encoding = 'LATIN1'; CREATE TEMP TABLE IF NOT EXISTS t (x INT);
         SELECT pg_advisory_lock(77); LISTEN wake_up; SET statement_timeout = '1s';
         CREATE TEMP SEQUENCE s; SELECT nextval('s')",
    )
    .unwrap();
    drop(conn);
    let mut conn = shards.get_on("a").unwrap();
    assert_eq!(session(&mut conn).unwrap(), start, "the same session");
    for (name, value) in [
        ("TimeZone", "UTC"),
        ("client_encoding", "UTF8"),
        ("search_path", "\"$user\", public"),
        ("statement_timeout", "0"),
        ("role", "none"),
    ] {
        assert_eq!(setting(&mut conn, name), value, "{name}");
    }
    let free = diesel::select(diesel::dsl::sql::<diesel::sql_types::Bool>(
        "pg_try_advisory_lock(77)",
    ));
    assert!(free.get_result::<bool>(&mut fleet.direct("a")).unwrap());
    let gone = diesel::select(diesel::dsl::sql::<diesel::sql_types::Bool>(
        "to_regclass('t') IS NULL AND to_regclass('s') IS NULL",
    ));
    assert!(gone.get_result::<bool>(&mut conn).unwrap());
    // Statements that were prepared before work after.
    insert(&mut conn, 1).unwrap();
    drop(conn);
    assert_eq!(ids(&mut shards.get_on("a").unwrap()), Ok(vec![1]));
}

#[test]
fn a_cache_that_somebody_empties_on_one_side_only_is_his_own_affair_for_one_call() {
    let fleet = Fleet::new(&["a"]);
    let shards = fleet
        .builder_of_size(1)
        .reset_sessions(true)
        .build()
        .unwrap();
    insert(&mut shards.get_on("a").unwrap(), 1).unwrap();
    shards
        .get_on("a")
        .unwrap()
        .batch_execute("DEALLOCATE ALL")
        .unwrap();
    // With the reset the next user is well, or the one after: the pool does not keep a session
    // whose statements are gone for good.
    let mut failures = 0;
    for id in 2..8 {
        failures += usize::from(insert(&mut shards.get_on("a").unwrap(), id).is_err());
    }
    assert!(failures <= 1, "{failures} calls failed");
}

#[test]
fn a_transaction_that_asks_for_writes_does_not_get_them_on_a_read_only_shard() {
    let fleet = Fleet::new(&["a"]);
    let shards = fleet.manager_of_size(1);
    shards.set_shard_state("a", ShardState::ReadOnly).unwrap();
    let mut conn = shards.get_on("a").unwrap();
    let asked = conn
        .build_transaction()
        .read_write()
        .run(|conn| insert(conn, 1));
    let error = asked.expect_err("a write to a read-only shard");
    assert!(
        matches!(ours(&error), Error::ShardReadOnly { .. }),
        "{error:?}"
    );
    drop(conn);
    assert_eq!(fleet.rows("a"), [0_i64; 0]);
}
