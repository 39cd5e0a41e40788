//! Changes one after another and at the same time, under load: no call fails for it.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::thread;
use std::time::Duration;

use diesel_sharded::{Error, PoolConfig};

use super::super::production_open::open;
use super::backend::{Fleet, Manager, NAME, insert, whoami};
use crate::support::eventually;

fn patient(size: u32) -> PoolConfig {
    PoolConfig::new()
        .max_size(size)
        .connection_timeout(Duration::from_secs(30))
}

#[test]
fn pools_that_are_replaced_under_load_cost_no_call_and_leave_no_connection() {
    let fleet = Fleet::new(&["a"]);
    let shards = fleet
        .builder_with(patient(3), |_, url| url)
        .build()
        .unwrap();
    let (done, next) = (AtomicBool::new(false), AtomicI64::new(0));
    let start = Barrier::new(7);
    let failures = thread::scope(|scope| {
        let workers: Vec<_> = (0..6)
            .map(|worker| {
                let (shards, done, next, start) = (&shards, &done, &next, &start);
                scope.spawn(move || {
                    let mut failures = Vec::new();
                    start.wait();
                    while !done.load(Ordering::SeqCst) {
                        let result = match worker % 3 {
                            0 => shards
                                .get_on("a")
                                .and_then(|mut conn| Ok(whoami(&mut conn)?)),
                            1 => shards.on("a", || Ok(whoami(&mut shards.get()?)?)),
                            _ => shards.transaction_on("a", |conn| {
                                insert(conn, next.fetch_add(1, Ordering::SeqCst))?;
                                Ok::<_, Error>(whoami(conn)?)
                            }),
                        };
                        if !matches!(&result, Ok(name) if name == "a") {
                            failures.push(format!("{result:?}"));
                        }
                    }
                    failures
                })
            })
            .collect();
        start.wait();
        let mut busy = Vec::new();
        for round in 0..40 {
            let change = shards
                .reload_with(|topology| topology.pool(patient(2 + round % 3)))
                .unwrap();
            assert_eq!(change.replaced.len(), 1, "round {round}");
            if !change.drain(Duration::from_secs(5)).is_empty() {
                busy.push(round);
            }
        }
        done.store(true, Ordering::SeqCst);
        let failures: Vec<String> = workers
            .into_iter()
            .flat_map(|worker| worker.join().unwrap())
            .collect();
        assert!(busy.is_empty(), "not drained after 5 s in rounds {busy:?}");
        failures
    });
    assert!(
        failures.is_empty(),
        "{} calls: {:?}",
        failures.len(),
        failures.first()
    );
    // Every acknowledged write once.
    let written = next.into_inner();
    assert!(written > 0);
    assert_eq!(fleet.rows("a"), (0..written).collect::<Vec<_>>());
    if NAME != "sqlite" {
        eventually("only the newest pool has connections", || {
            open(&fleet, "a") <= i64::from(shards.status().nodes[0].max_size)
        });
    }
    // SQLite closes a file of this process only when nobody in it holds a lock on it.
    drop(shards);
    eventually("no connection is left", || open(&fleet, "a") == 0);
    fleet.assert_nothing_open("a");
}

#[test]
fn changes_made_at_the_same_time_all_take_effect() {
    let names = ["a", "s0", "s1", "s2", "s3", "s4"];
    let fleet = Fleet::new(&names);
    let shards = fleet
        .connecting(Manager::builder())
        .pool(patient(2))
        .shard("a", fleet.url("a"))
        .build()
        .unwrap();
    let other = Manager::from_topology(shards.topology()).unwrap();
    for _ in 0..3 {
        let start = Barrier::new(6);
        thread::scope(|scope| {
            for (at, name) in names[1..].iter().enumerate() {
                let manager = if at % 2 == 0 { &shards } else { &other };
                let (fleet, start) = (&fleet, &start);
                scope.spawn(move || {
                    start.wait();
                    manager
                        .reload_with(|topology| topology.shard(*name, fleet.url(name)))
                        .unwrap();
                    assert_eq!(whoami(&mut manager.get_on(name).unwrap()).unwrap(), *name);
                });
            }
            let (shards, start) = (&shards, &start);
            scope.spawn(move || {
                start.wait();
                for _ in 0..50 {
                    assert_eq!(whoami(&mut shards.get_on("a").unwrap()).unwrap(), "a");
                }
            });
        });
        for manager in [&shards, &other] {
            for name in names {
                let mut conn = manager.get_on(name).unwrap();
                assert_eq!(whoami(&mut conn).unwrap(), name);
            }
            assert_eq!(manager.status().nodes.len(), names.len());
        }
        // All of them go again, at the same time.
        let start = Barrier::new(5);
        thread::scope(|scope| {
            for name in &names[1..] {
                let (shards, start) = (&shards, &start);
                scope.spawn(move || {
                    start.wait();
                    let change = shards
                        .reload_with(|topology| topology.remove_shard(name))
                        .unwrap();
                    assert!(change.drain(Duration::from_secs(5)).is_empty());
                });
            }
        });
        assert_eq!(shards.shards(), ["a"]);
        assert_eq!(whoami(&mut other.get_on("a").unwrap()).unwrap(), "a");
        for name in &names[1..] {
            eventually("its connections are closed", || open(&fleet, name) == 0);
        }
    }
    assert_eq!(shards.topology().epoch(), 31);
}
