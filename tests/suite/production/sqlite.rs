//! What production means for files: one writer, databases in memory, folders that are not there.

use std::cell::Cell;
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use diesel_sharded::{Error, PoolConfig, ShardConfig, UnavailableCause};

use super::backend::{Fleet, Manager, ids, insert, opened, whoami};
use crate::support::{eventually, items, said};

/// A manager whose connections do not wait for a lock.
fn impatient(fleet: &Fleet) -> Manager {
    fleet
        .builder()
        .connect_with(|node| opened(node.url().expose(), "PRAGMA busy_timeout = 0"))
        .build()
        .unwrap()
}

#[test]
fn two_readers_that_both_want_to_write_do_so_one_after_the_other() {
    let fleet = Fleet::new(&["a"]);
    let shards = impatient(&fleet);
    insert(&mut shards.get_on("a").unwrap(), 0).unwrap();
    let (both_have_read, runs) = (Barrier::new(2), AtomicUsize::new(0));
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut first = true;
                shards
                    .transaction_builder("a")
                    .retries(20)
                    .run(|conn| {
                        runs.fetch_add(1, Ordering::SeqCst);
                        let next = ids(conn)?.len();
                        if std::mem::take(&mut first) {
                            both_have_read.wait();
                        }
                        insert(conn, i64::try_from(next).unwrap())?;
                        Ok::<_, Error>(())
                    })
                    .unwrap();
            });
        }
    });
    assert_eq!(
        fleet.rows("a"),
        [0, 1, 2],
        "nobody overwrote what he had not seen"
    );
    assert!(runs.into_inner() >= 3);
}

#[test]
fn a_lock_that_is_not_let_go_is_tried_n_times_more() {
    let fleet = Fleet::new(&["a"]);
    let shards = impatient(&fleet);
    let mut holder = fleet.direct("a");
    holder.batch_execute("BEGIN IMMEDIATE").unwrap();
    let runs = Cell::new(0);
    let write = |times| {
        runs.set(0);
        shards.transaction_builder("a").retries(times).run(|conn| {
            runs.set(runs.get() + 1);
            Ok::<_, Error>(insert(conn, 1).map(drop)?)
        })
    };
    let error = write(4).unwrap_err();
    assert!(said(&error).contains("locked"), "{error:?}");
    assert_eq!(runs.get(), 5);
    // `BEGIN IMMEDIATE` fails before the closure is run, and is tried again as well.
    runs.set(0);
    let begun = shards
        .transaction_builder("a")
        .immediate()
        .retries(3)
        .run(|_| {
            runs.set(runs.get() + 1);
            Ok::<_, Error>(())
        });
    assert!(begun.is_err());
    assert_eq!(runs.get(), 0);
    holder.batch_execute("COMMIT").unwrap();
    write(0).unwrap();
    assert_eq!(runs.get(), 1);
}

#[test]
fn a_lock_that_is_let_go_in_time_costs_no_error() {
    let fleet = Fleet::new(&["a"]);
    let shards = impatient(&fleet);
    let mut holder = Some(fleet.direct("a"));
    holder
        .as_mut()
        .unwrap()
        .batch_execute("BEGIN IMMEDIATE")
        .unwrap();
    let runs = Cell::new(0);
    shards
        .transaction_builder("a")
        .retries(10)
        .run(|conn| {
            runs.set(runs.get() + 1);
            if runs.get() == 3 {
                holder.take();
            }
            diesel::insert_into(items::table)
                .values(items::id.eq(runs.get()))
                .execute(conn)?;
            Ok::<_, Error>(())
        })
        .unwrap();
    assert_eq!((runs.get(), fleet.rows("a")), (3, vec![3]));
}

#[test]
fn a_database_in_memory_is_one_connection_that_is_never_recycled() {
    let shards = Manager::builder()
        .shard("a", ":memory:")
        .shard("b", ":memory:")
        .pool(PoolConfig::new().connection_timeout(Duration::from_millis(200)))
        .build()
        .unwrap();
    for shard in ["a", "b"] {
        shards
            .get_on(shard)
            .unwrap()
            .batch_execute(&format!(
                "CREATE TABLE whoami (name TEXT); INSERT INTO whoami VALUES ('{shard}')"
            ))
            .unwrap();
    }
    for _ in 0..3 {
        for shard in ["a", "b"] {
            let mut conn = shards.get_on(shard).unwrap();
            assert_eq!(whoami(&mut conn).unwrap(), shard);
        }
    }
    let held = shards.get_on("a").unwrap();
    thread::scope(|scope| {
        let second = scope.spawn(|| shards.get_on("a").map(drop)).join().unwrap();
        assert!(matches!(second, Err(Error::PoolExhausted { size: 1, .. })));
    });
    // Work that leaves other shards alone through a reload keeps it too.
    shards
        .reload_with(|topology| topology.remove_shard("b"))
        .unwrap();
    drop(held);
    assert_eq!(whoami(&mut shards.get_on("a").unwrap()).unwrap(), "a");

    // Said for the whole topology it gives way, said for this database it is a mistake.
    let all = Manager::builder()
        .shard("a", ":memory:")
        .pool(PoolConfig::new().max_size(2))
        .build();
    assert_eq!(all.unwrap().status().nodes[0].max_size, 1);
    let own = ShardConfig::new(":memory:").pool(PoolConfig::new().max_size(2));
    let two = Manager::builder().shard("a", own).build();
    assert!(matches!(two, Err(Error::Config(_))), "{two:?}");
    let same = Manager::builder()
        .shard("a", "file:x?mode=memory&cache=shared")
        .shard("b", "file:x?mode=memory&cache=shared")
        .build();
    assert!(matches!(same, Err(Error::Config(_))), "{same:?}");
}

#[test]
fn a_folder_that_is_not_there_is_one_shard_down_and_comes_back_by_itself() {
    let fleet = Fleet::new(&["a"]);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("later").join("b.db");
    let shards = fleet
        .builder()
        .shard("b", file.display().to_string())
        .build()
        .unwrap();
    let error = shards.get_on("b").unwrap_err();
    assert!(
        matches!(&error, Error::Unavailable { shard, cause: UnavailableCause::Unreachable, .. } if *shard == "b"),
        "{error:?}"
    );
    assert_eq!(
        shards.status().nodes[1].down,
        Some(UnavailableCause::Unreachable)
    );
    assert_eq!(whoami(&mut shards.get_on("a").unwrap()).unwrap(), "a");
    std::fs::create_dir(file.parent().unwrap()).unwrap();
    eventually("the node is up", || shards.status().nodes[1].down.is_none());
    shards
        .get_on("b")
        .unwrap()
        .batch_execute("CREATE TABLE t (x)")
        .unwrap();
}
