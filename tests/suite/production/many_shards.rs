//! 64 shards of which 8 accept and say nothing: the other 56 are not touched, and threads do not
//! grow with nodes.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use diesel_sharded::{Error, PoolConfig, UnavailableCause};

use super::backend::{Fleet, Manager, NAME, whoami};
use crate::production_support::{Silent, alone, at_port, threads};
use crate::support::eventually;

const WELL: usize = 56;
const SILENT: usize = 8;
const CONNECT: Duration = Duration::from_secs(1);

fn name(at: usize) -> String {
    format!("s{at:02}")
}

/// How long calls on the shards that are well take: the median and the longest.
fn latency(shards: &Manager) -> (Duration, Duration) {
    let mut times: Vec<Duration> = thread::scope(|scope| {
        let workers: Vec<_> = (0..4)
            .map(|worker| {
                scope.spawn(move || {
                    let mut times = Vec::new();
                    for turn in 0..10 * WELL / 4 {
                        let shard = name((turn * 4 + worker) % WELL);
                        let began = Instant::now();
                        let found = shards.on(&shard, || whoami(&mut shards.get()?));
                        assert_eq!(found.unwrap(), "a");
                        times.push(began.elapsed());
                    }
                    times
                })
            })
            .collect();
        workers
            .into_iter()
            .flat_map(|worker| worker.join().unwrap())
            .collect()
    });
    times.sort();
    (times[times.len() / 2], times[times.len() - 1])
}

#[test]
fn silent_hosts_take_neither_time_nor_threads_from_the_others() {
    let test = format!(
        "{NAME}::production_servers::many_shards::silent_hosts_take_neither_time_nor_threads_from_the_others"
    );
    if !alone(&test) {
        return;
    }
    let fleet = Fleet::new(&["a"]);
    let hosts: Vec<Silent> = (0..SILENT).map(|_| Silent::new()).collect();
    let mut builder = Manager::builder().shared_database(true).pool(
        PoolConfig::new()
            .max_size(2)
            .connection_timeout(Duration::from_secs(20))
            .connect_timeout(CONNECT),
    );
    for at in 0..WELL {
        builder = builder.shard(name(at), fleet.url("a"));
    }
    for (at, host) in (WELL..).zip(&hosts) {
        builder = builder.shard(name(at), at_port(&fleet.url("a"), host.port()));
    }
    let built = Instant::now();
    let shards = builder.build().unwrap();
    println!(
        "{NAME}: built {} shards in {:?}",
        WELL + SILENT,
        built.elapsed()
    );

    latency(&shards);
    let (before_threads, before) = (threads(), latency(&shards));
    let (done, start) = (AtomicBool::new(false), Barrier::new(SILENT + 1));
    let during = thread::scope(|scope| {
        for at in WELL..WELL + SILENT {
            let (shards, done, start) = (&shards, &done, &start);
            scope.spawn(move || {
                start.wait();
                while !done.load(Ordering::SeqCst) {
                    let error = shards.get_on(name(at)).unwrap_err();
                    assert!(
                        matches!(
                            error,
                            Error::Unavailable {
                                cause: UnavailableCause::Timeout,
                                ..
                            }
                        ),
                        "{error:?}"
                    );
                    thread::sleep(Duration::from_millis(5));
                }
            });
        }
        start.wait();
        let first = latency(&shards);
        eventually("all eight are known to be down", || {
            let nodes = shards.status().nodes;
            nodes.iter().filter(|node| node.down.is_some()).count() == SILENT
        });
        let later = latency(&shards);
        done.store(true, Ordering::SeqCst);
        [first, later]
    });
    println!(
        "{NAME}: median and longest of {} calls: before {before:?}, with 8 silent hosts {during:?}",
        10 * WELL
    );
    for (median, longest) in during {
        assert!(
            median < before.0 * 10 + Duration::from_millis(5),
            "{median:?}"
        );
        assert!(longest < Duration::from_secs(2), "{longest:?}");
    }

    // Attempts that hang end by themselves where the client library has a clock; elsewhere there is
    // one per node at most.
    let mut most = 0;
    eventually(
        "helper threads are gone, but for one per silent node",
        || {
            let now = threads();
            most = most.max(now);
            now <= before_threads + SILENT
        },
    );
    let settled = threads();
    // Callers come back again and again: no thread more for it.
    for _ in 0..3 {
        for at in WELL..WELL + SILENT {
            shards.get_on(name(at)).unwrap_err();
        }
        latency(&shards);
    }
    let after = threads();
    println!("{NAME}: threads before {before_threads}, settled {settled}, after {after}");
    assert!(after <= settled.max(before_threads + SILENT), "{after}");

    // One of them comes to life: it serves, whatever the others do.
    drop(hosts);
    for node in shards.status().nodes {
        assert!(node.connections <= 2 && node.waiting == 0, "{node:?}");
    }
}

#[test]
fn threads_do_not_grow_with_the_number_of_nodes_in_use() {
    let test = format!(
        "{NAME}::production_servers::many_shards::threads_do_not_grow_with_the_number_of_nodes_in_use"
    );
    if !alone(&test) {
        return;
    }
    let fleet = Fleet::new(&["a"]);
    let used = |count: usize| {
        let mut builder = Manager::builder()
            .shared_database(true)
            .pool(crate::support::pool(1).min_idle(1));
        for at in 0..count {
            builder = builder.shard(name(at), fleet.url("a"));
        }
        let before = threads();
        let shards = builder.build().unwrap();
        for at in 0..count {
            whoami(&mut shards.get_on(name(at)).unwrap()).unwrap();
        }
        // The thread of the last connect ends in a moment.
        let mut more = usize::MAX;
        for _ in 0..200 {
            more = more.min(threads() - before);
            thread::sleep(Duration::from_millis(1));
        }
        more
    };
    let (few, many) = (used(2), used(40));
    println!("{NAME}: {few} threads more for 2 nodes, {many} for 40");
    assert!(many <= few, "{few} {many}");
}
