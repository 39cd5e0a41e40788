//! Shards that come, go and move while they are in use: running work finishes where it is.

use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use diesel::connection::{Connection, SimpleConnection};
use diesel_sharded::{Error, Route};

use super::super::pool::counted;
use super::super::production_open::open;
use super::backend::{Fleet, Manager, NAME, Reloaded, ids, insert, whoami};
use crate::support::eventually;

/// A manager of `a` and `b` of the fleet, with pools of this size.
fn of_two(fleet: &Fleet, size: u32) -> Manager {
    fleet
        .connecting(Manager::builder())
        .pool(crate::support::pool(size))
        .shard("a", fleet.url("a"))
        .shard("b", fleet.url("b"))
        .build()
        .unwrap()
}

fn names(names: &[diesel_sharded::ShardName]) -> Vec<&str> {
    names.iter().map(|name| name.as_str()).collect()
}

/// What a change has done: added, removed, replaced.
fn changes(change: &Reloaded) -> (Vec<&str>, Vec<&str>, Vec<&str>) {
    (
        names(&change.added),
        names(&change.removed),
        names(&change.replaced),
    )
}

fn here(shards: &Manager, shard: &str) -> String {
    whoami(&mut shards.get_on(shard).unwrap()).unwrap()
}

fn assert_unknown(shards: &Manager, old: &Route) {
    let nothing = |_: &mut super::backend::Sharded| Ok::<(), Error>(());
    let answers = [
        ("get_on", shards.get_on("b").map(drop)),
        ("route", shards.route("b").map(drop)),
        ("on", shards.on("b", || Ok(()))),
        ("transaction_on", shards.transaction_on("b", nothing)),
        ("a route made before", old.run(|| shards.get().map(drop))),
        ("its text", shards.parse_route(&old.to_string()).map(drop)),
    ];
    for (what, answer) in answers {
        let error = answer.expect_err(what);
        assert!(
            matches!(&error, Error::UnknownShard { shard, .. } if shard == "b"),
            "{what}: {error:?}"
        );
    }
}

#[test]
fn a_shard_that_is_added_serves_at_once() {
    let fleet = Fleet::new(&["a", "b", "c"]);
    let shards = of_two(&fleet, 2);
    assert_eq!(
        (here(&shards, "a"), shards.topology().epoch()),
        ("a".into(), 1)
    );
    let change = shards
        .reload_with(|topology| topology.shard("c", fleet.url("c")))
        .unwrap();
    assert_eq!(changes(&change), (vec!["c"], vec![], vec![]));
    assert_eq!((change.epoch, shards.topology().epoch()), (2, 2));
    assert!(change.drain(Duration::ZERO).is_empty());
    assert_eq!(here(&shards, "c"), "c");
    shards
        .transaction_on("c", |conn| Ok::<_, Error>(insert(conn, 1)?))
        .unwrap();
    assert_eq!(names(&shards.shards()), ["a", "b", "c"]);
    assert_eq!(shards.status().nodes.len(), 3);
    assert_eq!(fleet.rows("c"), [1]);
}

#[test]
fn transactions_on_a_removed_shard_finish_and_then_nothing_of_ours_is_left() {
    let fleet = Fleet::new(&["a", "b"]);
    let shards = of_two(&fleet, 6);
    let old = shards.route("b").unwrap();
    // Two idle ones beside the four that will be in use.
    let idle: Vec<_> = (0..6).map(|_| shards.get_on("b").unwrap()).collect();
    drop(idle);
    let (inside, changed) = (Barrier::new(5), Barrier::new(5));
    let change = thread::scope(|scope| {
        let running: Vec<_> = (0..4)
            .map(|thread| {
                let (shards, inside, changed) = (&shards, &inside, &changed);
                scope.spawn(move || {
                    shards.transaction_on("b", |conn| {
                        whoami(conn)?;
                        inside.wait();
                        changed.wait();
                        assert_eq!(whoami(conn)?, "b");
                        // SQLite has one writer for a file.
                        if thread == 0 || NAME != "sqlite" {
                            insert(conn, thread)?;
                        }
                        conn.transaction(ids)?;
                        Ok::<_, Error>(())
                    })
                })
            })
            .collect();
        inside.wait();
        let change = shards
            .reload_with(|topology| topology.remove_shard("b"))
            .unwrap();
        assert_eq!(changes(&change), (vec![], vec!["b"], vec![]));
        // At once, while they run.
        assert_unknown(&shards, &old);
        assert_eq!(names(&change.drain(Duration::from_millis(30))), ["b"]);
        // SQLite closes a file of this process only when nobody in it holds a lock on it.
        let idle_closed = NAME == "sqlite" || open(&fleet, "b") <= 4;
        changed.wait();
        assert!(idle_closed, "what was idle is closed while the others run");
        for one in running {
            one.join().unwrap().unwrap();
        }
        change
    });
    assert!(change.drain(Duration::from_secs(5)).is_empty());
    eventually("no connection is left", || open(&fleet, "b") == 0);
    let rows = if NAME == "sqlite" { 1 } else { 4 };
    assert_eq!(fleet.rows("b").len(), rows);
    assert_eq!(here(&shards, "a"), "a");
    assert_eq!(shards.status().nodes.len(), 1);
}

#[test]
fn a_shard_that_moves_takes_new_work_at_its_new_place_and_finishes_old_work_at_the_old() {
    let fleet = Fleet::new(&["a", "b", "c"]);
    let shards = of_two(&fleet, 4);
    let route = shards.route("b").unwrap();
    let (inside, changed) = (Barrier::new(4), Barrier::new(4));
    let change = thread::scope(|scope| {
        let running: Vec<_> = (0..3)
            .map(|thread| {
                let (shards, inside, changed) = (&shards, &inside, &changed);
                scope.spawn(move || {
                    shards.transaction_on("b", |conn| {
                        whoami(conn)?;
                        inside.wait();
                        changed.wait();
                        if thread == 0 {
                            insert(conn, 1)?;
                        }
                        Ok::<_, Error>(whoami(conn)?)
                    })
                })
            })
            .collect();
        inside.wait();
        let change = shards
            .reload_with(|topology| topology.replace_shard("b", fleet.url("c")))
            .unwrap();
        assert_eq!(changes(&change), (vec![], vec![], vec!["b"]));
        assert_eq!(here(&shards, "b"), "c");
        let by_route = route.run(|| Ok::<_, Error>(whoami(&mut shards.get()?)?));
        assert_eq!(by_route.unwrap(), "c");
        shards
            .transaction_on("b", |conn| Ok::<_, Error>(insert(conn, 2)?))
            .unwrap();
        assert_eq!(names(&change.drain(Duration::ZERO)), ["b"]);
        changed.wait();
        for one in running {
            assert_eq!(one.join().unwrap().unwrap(), "b");
        }
        change
    });
    assert!(change.drain(Duration::from_secs(5)).is_empty());
    eventually("no connection is left", || open(&fleet, "b") == 0);
    assert_eq!((fleet.rows("b"), fleet.rows("c")), (vec![1], vec![2]));
}

#[test]
fn a_pinned_transaction_stays_where_it_is_whatever_is_asked_in_it() {
    let fleet = Fleet::new(&["a", "b", "c"]);
    let shards = of_two(&fleet, 1);
    shards
        .transaction_on("b", |conn| {
            insert(conn, 1)?;
            // The thread of the transaction may be the one that changes the topology.
            shards.reload_with(|topology| topology.replace_shard("b", fleet.url("c")))?;
            assert_eq!(whoami(conn)?, "b");
            assert!(matches!(
                shards.get_on("b"),
                Err(Error::AlreadyInTransaction { .. })
            ));
            assert!(matches!(
                shards.get_on("a"),
                Err(Error::PinnedElsewhere { .. })
            ));
            shards.independent(|| {
                let mut new = shards.get_on("b")?;
                assert_eq!(whoami(&mut new)?, "c");
                insert(&mut new, 2)?;
                Ok::<_, Error>(())
            })?;
            let change = shards.reload_with(|topology| topology.remove_shard("b"))?;
            drop(change);
            conn.transaction(|conn| insert(conn, 3))?;
            insert(conn, 4)?;
            assert_eq!(whoami(conn)?, "b");
            Ok::<_, Error>(())
        })
        .unwrap();
    assert_eq!((fleet.rows("b"), fleet.rows("c")), (vec![1, 3, 4], vec![2]));
    eventually("no connection is left", || {
        open(&fleet, "b") == 0 && open(&fleet, "c") == 0
    });
}

#[test]
fn a_transaction_on_a_removed_shard_that_fails_keeps_nothing() {
    let fleet = Fleet::new(&["a", "b"]);
    let shards = of_two(&fleet, 1);
    let failed = shards.transaction_on("b", |conn| {
        insert(conn, 1)?;
        shards.reload_with(|topology| topology.remove_shard("b"))?;
        Err::<(), Error>(Error::NoRoute { known: vec![] })
    });
    assert!(matches!(failed, Err(Error::NoRoute { .. })));
    assert_eq!(fleet.rows("b"), [0_i64; 0]);
    fleet.assert_nothing_open("b");
}

#[test]
fn who_waits_for_a_connection_of_the_old_place_is_served_by_the_new_one() {
    let fleet = Fleet::new(&["a", "b", "c"]);
    let shards = of_two(&fleet, 1);
    let held = shards.get_on("b").unwrap();
    thread::scope(|scope| {
        let waiting: Vec<_> = (0..3)
            .map(|_| scope.spawn(|| Ok::<_, Error>(whoami(&mut shards.get_on("b")?)?)))
            .collect();
        eventually("three callers wait", || {
            shards.status().nodes[1].waiting == 3
        });
        shards
            .reload_with(|topology| topology.replace_shard("b", fleet.url("c")))
            .unwrap();
        for one in waiting {
            assert_eq!(one.join().unwrap().unwrap(), "c");
        }
    });
    drop(held);
}

#[test]
fn who_waits_for_a_shard_that_is_removed_or_taken_offline_is_told() {
    let fleet = Fleet::new(&["a", "b"]);
    let shards = of_two(&fleet, 1);
    let held = shards.get_on("b").unwrap();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| shards.get_on("b").map(drop));
        eventually("somebody waits", || shards.status().nodes[1].waiting == 1);
        shards
            .reload_with(|topology| topology.remove_shard("b"))
            .unwrap();
        let error = waiting.join().unwrap().unwrap_err();
        assert!(matches!(error, Error::UnknownShard { .. }), "{error:?}");
    });
    drop(held);
}

#[test]
fn a_connection_that_is_out_belongs_to_its_place_until_it_comes_back() {
    let fleet = Fleet::new(&["a", "b", "c"]);
    let shards = of_two(&fleet, 1);
    let mut out = shards.get_on("b").unwrap();
    let change = shards
        .reload_with(|topology| topology.replace_shard("b", fleet.url("c")))
        .unwrap();
    assert_eq!(whoami(&mut out).unwrap(), "b");
    out.batch_execute("INSERT INTO items (id) VALUES (1)")
        .unwrap();
    assert_eq!(out.shard().unwrap(), "b");
    drop(out);
    assert!(change.drain(Duration::from_secs(5)).is_empty());
    assert_eq!(here(&shards, "b"), "c");
    eventually("the old one is closed", || open(&fleet, "b") == 0);
}

#[test]
fn what_has_not_changed_keeps_its_connections() {
    let fleet = Fleet::new(&["a", "b", "c"]);
    let (shards, connects) = counted(&fleet, 1);
    for name in ["a", "b", "c"] {
        here(&shards, name);
    }
    let change = shards.reload_with(|topology| topology).unwrap();
    assert_eq!(changes(&change), (vec![], vec![], vec![]));
    let change = shards
        .reload_with(|topology| topology.remove_shard("a"))
        .unwrap();
    assert!(change.drain(Duration::from_secs(5)).is_empty());
    for name in ["b", "c"] {
        assert_eq!(here(&shards, name), name);
    }
    assert_eq!(connects(), 3);
}

#[test]
fn other_pool_settings_are_another_pool() {
    let fleet = Fleet::new(&["a", "b"]);
    let shards = of_two(&fleet, 1);
    here(&shards, "a");
    let change = shards
        .reload_with(|topology| topology.pool(crate::support::pool(3)))
        .unwrap();
    assert_eq!(changes(&change), (vec![], vec![], vec!["a", "b"]));
    assert!(change.drain(Duration::from_secs(5)).is_empty());
    let three = [(); 3].map(|()| shards.get_on("a").unwrap());
    assert_eq!(shards.status().nodes[0].connections, 3);
    drop(three);
    assert_eq!(open(&fleet, "a"), 3);
}
