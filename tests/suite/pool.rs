//! The node pools: connections are kept, waited for, and never waited for in vain.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use diesel_sharded::{Error, PoolConfig, Role, Startup};

use super::backend::{Fleet, Manager, insert, open, whoami};
use crate::support::{eventually, pool, said};

/// A manager that counts its connects.
pub(super) fn counted(fleet: &Fleet, size: u32) -> (Manager, impl Fn() -> usize + use<>) {
    let connects = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&connects);
    let shards = fleet
        .builder_of_size(size)
        .connect_with(move |node| {
            count.fetch_add(1, Ordering::SeqCst);
            open(node.url().expose())
        })
        .build()
        .unwrap();
    (shards, move || connects.load(Ordering::SeqCst))
}

#[test]
fn a_healthy_connection_is_not_thrown_away() {
    let fleet = Fleet::new(&["a"]);
    let (shards, connects) = counted(&fleet, 1);
    for _ in 0..100 {
        assert_eq!(whoami(&mut shards.get_on("a").unwrap()).unwrap(), "a");
    }
    for id in 0..100 {
        shards
            .transaction_on("a", |conn| Ok::<_, Error>(insert(conn, id)?))
            .unwrap();
    }
    // Neither do errors that say nothing about the connection cost it.
    for _ in 0..20 {
        insert(&mut shards.get_on("a").unwrap(), 1).unwrap_err();
        shards
            .transaction_on("a", |conn| insert(conn, 1))
            .unwrap_err();
        let _ = shards.transaction_on("a", |_| Err::<(), Error>(Error::NoRoute { known: vec![] }));
        // Raw access neither.
        insert(&mut *shards.get_on("a").unwrap().inner().unwrap(), 1).unwrap_err();
    }
    assert_eq!(connects(), 1);
}

#[test]
fn nothing_is_opened_before_it_is_needed() {
    let fleet = Fleet::new(&["a", "b"]);
    let (shards, connects) = counted(&fleet, 4);
    assert_eq!(connects(), 0);
    shards.on("a", || shards.route("b").map(drop)).unwrap();
    assert_eq!(connects(), 0, "routes open nothing");
    shards.get_on("b").unwrap();
    assert_eq!(connects(), 1);
    let status = shards.status();
    let names: Vec<_> = status
        .nodes
        .iter()
        .map(|node| {
            (
                node.shard.as_str(),
                node.role,
                node.connections,
                node.max_size,
            )
        })
        .collect();
    assert_eq!(
        names,
        [("a", Role::Primary, 0, 4), ("b", Role::Primary, 1, 4)]
    );
}

#[test]
fn a_pool_never_grows_past_its_size() {
    let fleet = Fleet::new(&["a"]);
    let (shards, connects) = counted(&fleet, 3);
    let (start, most) = (Barrier::new(24), AtomicUsize::new(0));
    let out = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..24 {
            scope.spawn(|| {
                start.wait();
                for _ in 0..10 {
                    let mut conn = shards.get_on("a").unwrap();
                    most.fetch_max(out.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    whoami(&mut conn).unwrap();
                    out.fetch_sub(1, Ordering::SeqCst);
                }
            });
        }
    });
    let most = most.into_inner();
    assert!(most <= 3, "{most} at once");
    assert!(connects() <= 3, "{} connects", connects());
    assert!(shards.status().nodes[0].connections <= 3);
}

#[test]
fn a_waiting_caller_is_served_as_soon_as_a_connection_comes_back() {
    let fleet = Fleet::new(&["a"]);
    // The timeout is far away: who is woken only by the clock fails here.
    let patient = PoolConfig::new()
        .max_size(1)
        .connection_timeout(Duration::from_secs(60));
    let shards = fleet.builder_with(patient, |_, url| url).build().unwrap();
    let held = shards.get_on("a").unwrap();
    let (served, serving) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let mut conn = shards.get_on("a").unwrap();
                served.send(whoami(&mut conn).unwrap()).unwrap();
            });
        }
        eventually("three callers wait", || {
            shards.status().nodes[0].waiting == 3
        });
        assert!(serving.try_recv().is_err());
        let back = Instant::now();
        drop(held);
        for _ in 0..3 {
            serving.recv_timeout(Duration::from_secs(10)).unwrap();
        }
        assert!(back.elapsed() < Duration::from_secs(5));
    });
    assert_eq!(shards.status().nodes[0].waiting, 0);
}

#[test]
fn a_waiting_caller_is_served_when_the_connection_that_comes_back_is_closed() {
    use diesel::connection::SimpleConnection;
    let fleet = Fleet::new(&["a"]);
    let shards = fleet.manager_of_size(1);
    thread::scope(|scope| {
        let mut held = shards.get_on("a").unwrap();
        held.batch_execute("BEGIN").unwrap();
        insert(&mut held, 1).unwrap();
        let waiter = scope.spawn(|| whoami(&mut shards.get_on("a").unwrap()).unwrap());
        eventually("a caller waits", || shards.status().nodes[0].waiting == 1);
        // It comes back dirty, and there is room for a new one.
        drop(held);
        assert_eq!(waiter.join().unwrap(), "a");
    });
    assert_eq!(fleet.rows("a"), [0; 0]);
}

#[test]
fn many_threads_on_a_small_pool_all_finish() {
    let fleet = Fleet::new(&["a", "b"]);
    let shards = fleet.manager_of_size(2);
    let start = Barrier::new(64);
    thread::scope(|scope| {
        for thread in 0..64 {
            let (shards, start) = (&shards, &start);
            scope.spawn(move || {
                start.wait();
                for turn in 0..20 {
                    let name = ["a", "b"][(thread + turn) % 2];
                    let found = shards.on(name, || Ok::<_, Error>(whoami(&mut shards.get()?)?));
                    assert_eq!(found.unwrap(), name);
                }
            });
        }
    });
    for node in shards.status().nodes {
        assert_eq!(node.waiting, 0);
        assert!(node.connections <= 2, "{node:?}");
    }
}

#[test]
fn an_exhausted_pool_says_so_after_the_configured_time() {
    let fleet = Fleet::new(&["a", "b"]);
    let short = PoolConfig::new()
        .max_size(1)
        .connection_timeout(Duration::from_millis(300));
    let shards = fleet.builder_with(short, |_, url| url).build().unwrap();
    let held = shards.get_on("a").unwrap();
    // Connecting takes its time, too.
    shards.get_on("b").unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            let began = Instant::now();
            let error = shards.get_on("a").unwrap_err();
            assert!(
                began.elapsed() >= Duration::from_millis(290),
                "{:?}",
                began.elapsed()
            );
            let Error::PoolExhausted {
                shard,
                size,
                waited,
                held,
                ..
            } = &error
            else {
                panic!("{error:?}");
            };
            assert_eq!((shard.as_str(), *size), ("a", 1));
            assert!(*waited >= Duration::from_millis(290) && held.is_empty());
            assert!(said(&error).contains("shard a"));
            // The other shard has its own pool.
            shards.get_on("b").unwrap();
        });
    });
    drop(held);
    shards.get_on("a").unwrap();
}

#[test]
fn crossed_transactions_end_in_an_error_that_names_what_is_held_and_wanted() {
    let fleet = Fleet::new(&["a", "b"]);
    let short = PoolConfig::new()
        .max_size(1)
        .connection_timeout(Duration::from_millis(400));
    let shards = fleet.builder_with(short, |_, url| url).build().unwrap();
    let both_hold_one = Barrier::new(2);
    let nested = |outer: &str, inner: &str| {
        shards.transaction_on(outer, |_| {
            both_hold_one.wait();
            shards.independent(|| shards.transaction_on(inner, |_| Ok::<_, Error>(())))
        })
    };
    let results = thread::scope(|scope| {
        let one = scope.spawn(|| nested("a", "b"));
        let other = scope.spawn(|| nested("b", "a"));
        [one.join().unwrap(), other.join().unwrap()]
    });
    let errors: Vec<_> = results.into_iter().filter_map(Result::err).collect();
    assert!(!errors.is_empty(), "one of them has to give up");
    for error in errors {
        let Error::PoolExhausted { shard, held, .. } = &error else {
            panic!("{error:?}");
        };
        assert_eq!(held.len(), 1);
        assert_ne!(held[0], *shard);
        let text = said(&error);
        assert!(
            text.contains("shard a") || text.contains("shard b"),
            "{text}"
        );
    }
    // Both recover.
    for shard in ["a", "b"] {
        shards
            .transaction_on(shard, |_| Ok::<_, Error>(()))
            .unwrap();
    }
}

#[test]
fn a_connect_function_that_panics_does_not_use_up_the_pool() {
    let fleet = Fleet::new(&["a"]);
    let left = Arc::new(AtomicUsize::new(3));
    let panics = Arc::clone(&left);
    let shards = fleet
        .builder_of_size(1)
        .connect_with(move |node| {
            let more = |left: usize| left.checked_sub(1);
            if panics
                .fetch_update(Ordering::SeqCst, Ordering::SeqCst, more)
                .is_ok()
            {
                panic!("on purpose");
            }
            open(node.url().expose())
        })
        .build()
        .unwrap();
    let began = Instant::now();
    let mut failures = 0;
    eventually("the node is used once connecting works", || {
        let got = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| shards.get_on("a")));
        match got {
            Ok(Ok(mut conn)) => whoami(&mut conn).unwrap() == "a",
            Ok(Err(error)) => {
                failures += 1;
                assert!(matches!(error, Error::Unavailable { .. }), "{error:?}");
                false
            }
            Err(_) => {
                failures += 1;
                false
            }
        }
    });
    assert!(failures >= 1);
    assert!(
        began.elapsed() < Duration::from_secs(5),
        "{:?}",
        began.elapsed()
    );
}

#[test]
fn a_required_start_connects_every_node_and_a_lazy_one_none() {
    let fleet = Fleet::new(&["a", "b"]);
    let shards = fleet.builder().startup(Startup::Require).build().unwrap();
    for node in shards.status().nodes {
        assert_eq!(node.connections, 1, "{node:?}");
    }
}

#[test]
fn idle_connections_are_opened_ahead_only_from_first_use_on() {
    let fleet = Fleet::new(&["a", "b"]);
    let shards = fleet
        .builder_with(pool(4).min_idle(2), |_, url| url)
        .build()
        .unwrap();
    assert!(
        shards
            .status()
            .nodes
            .iter()
            .all(|node| node.connections == 0)
    );
    drop(shards.get_on("a").unwrap());
    eventually("two are idle on a", || shards.status().nodes[0].idle >= 2);
    assert_eq!(shards.status().nodes[1].connections, 0, "b was not used");
}
