//! A node that is down: told at once, asked by one probe in the background, used again by itself.

use std::thread;
use std::time::{Duration, Instant};

use diesel_sharded::{Error, PoolConfig, Startup, UnavailableCause};

use super::backend::{Fleet, Manager, insert, whoami};
use crate::production_support::{Gate, Mode, Silent, at_port, closed_port, told};
use crate::support::eventually;

const CONNECT: Duration = Duration::from_secs(1);

fn settings() -> PoolConfig {
    PoolConfig::new()
        .max_size(2)
        .connection_timeout(Duration::from_secs(20))
        .connect_timeout(CONNECT)
}

/// A fleet whose shard `b` is at this URL instead.
fn with_b_at(fleet: &Fleet, url: &str) -> Manager {
    fleet
        .builder_with(settings(), |shard, right| {
            if shard == "b" { url.to_owned() } else { right }
        })
        .build()
        .unwrap()
}

fn cause(shards: &Manager) -> UnavailableCause {
    let error = shards.get_on("b").unwrap_err();
    told(&error, &[]);
    match error {
        Error::Unavailable { shard, cause, .. } if shard == "b" => cause,
        other => panic!("{other:?}"),
    }
}

fn down(shards: &Manager) -> Option<UnavailableCause> {
    let nodes = shards.status().nodes;
    nodes.iter().find(|node| node.shard == "b").unwrap().down
}

/// Whether the shard gives its name.
fn serves(shards: &Manager, shard: &str) -> bool {
    match shards.get_on(shard) {
        Ok(mut conn) => whoami(&mut conn).unwrap() == shard,
        Err(_) => false,
    }
}

#[test]
fn after_the_first_caller_nobody_pays_for_a_host_that_says_nothing() {
    let fleet = Fleet::new(&["a", "b"]);
    let silent = Silent::new();
    let shards = with_b_at(&fleet, &at_port(&fleet.url("b"), silent.port()));
    let began = Instant::now();
    assert_eq!(cause(&shards), UnavailableCause::Timeout);
    let first = began.elapsed();
    assert!(
        first >= CONNECT - Duration::from_millis(50) && first < CONNECT * 3,
        "{first:?}"
    );
    assert_eq!(down(&shards), Some(UnavailableCause::Timeout));
    // Also while probes come and go: many calls in less than one connect.
    let began = Instant::now();
    let errors: Vec<_> = (0..300).map(|_| shards.get_on("b").unwrap_err()).collect();
    let all = began.elapsed();
    println!("first call {first:?}, the next 300 {all:?}");
    assert!(all < CONNECT, "{all:?}");
    for error in errors {
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
    }
    for retrying in [
        shards
            .transaction_builder("b")
            .retries(3)
            .run(|_| Ok::<_, Error>(())),
        shards.transaction_on("b", |_| Ok(())),
    ] {
        assert!(matches!(retrying, Err(Error::Unavailable { .. })));
    }
    assert_eq!(whoami(&mut shards.get_on("a").unwrap()).unwrap(), "a");
}

#[test]
fn the_probe_finds_a_node_that_is_back_and_no_caller_pays_for_it() {
    let fleet = Fleet::new(&["a", "b"]);
    for mode in [Mode::HangUp, Mode::Silent] {
        let gate = Gate::new(&fleet.url("b"), mode);
        let shards = with_b_at(&fleet, &gate.url(&fleet.url("b")));
        let told = cause(&shards);
        println!("{mode:?}: {told:?}");
        assert_eq!(down(&shards), Some(told));
        gate.set(Mode::Pass);
        // Nobody asks for a connection meanwhile.
        eventually("the node is up", || down(&shards).is_none());
        let before = gate.accepted();
        let began = Instant::now();
        assert_eq!(whoami(&mut shards.get_on("b").unwrap()).unwrap(), "b");
        println!(
            "{mode:?}: the first checkout after took {:?}",
            began.elapsed()
        );
        assert_eq!(gate.accepted(), before, "it took the probe's connection");
        for id in 0..20 {
            let id = id + if mode == Mode::Silent { 100 } else { 0 };
            insert(&mut shards.get_on("b").unwrap(), id).unwrap();
        }
        assert_eq!(shards.status().nodes[1].connections, 1);
    }
}

#[test]
fn a_node_that_is_down_is_asked_by_one_probe_and_not_by_its_callers() {
    let fleet = Fleet::new(&["a", "b"]);
    let gate = Gate::new(&fleet.url("b"), Mode::HangUp);
    let shards = with_b_at(&fleet, &gate.url(&fleet.url("b")));
    cause(&shards);
    let (before, began) = (gate.accepted(), Instant::now());
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                while began.elapsed() < Duration::from_millis(1_500) {
                    cause(&shards);
                    thread::yield_now();
                }
            });
        }
    });
    let asked = gate.accepted() - before;
    println!("asked {asked} times in {:?}", began.elapsed());
    // Pauses of 100, 200, 400 and 800 ms, and at most two connects each (a greeting, an attempt).
    assert!((1..=10).contains(&asked), "{asked}");
}

#[test]
fn a_node_that_goes_away_and_comes_back_again_and_again_is_followed_each_time() {
    let fleet = Fleet::new(&["a", "b"]);
    let gate = Gate::new(&fleet.url("b"), Mode::Pass);
    let shards = with_b_at(&fleet, &gate.url(&fleet.url("b")));
    for turn in 0..3 {
        insert(&mut shards.get_on("b").unwrap(), turn).unwrap();
        gate.break_down();
        // The connection in the pool is found out first, then the node.
        eventually("the node is down", || {
            let _ = shards.get_on("b").map(|mut conn| whoami(&mut conn));
            down(&shards).is_some()
        });
        let began = Instant::now();
        for _ in 0..100 {
            let error = shards.get_on("b").unwrap_err();
            assert!(matches!(error, Error::Unavailable { .. }), "{error:?}");
        }
        assert!(began.elapsed() < CONNECT, "{:?}", began.elapsed());
        assert_eq!(whoami(&mut shards.get_on("a").unwrap()).unwrap(), "a");
        gate.set(Mode::Pass);
        eventually("the node is up", || down(&shards).is_none());
        assert_eq!(whoami(&mut shards.get_on("b").unwrap()).unwrap(), "b");
    }
    assert_eq!(fleet.rows("b"), [0, 1, 2]);
}

#[test]
fn callers_that_meet_a_silent_host_at_the_same_time_pay_once() {
    let fleet = Fleet::new(&["a", "b"]);
    let silent = Silent::new();
    let shards = with_b_at(&fleet, &at_port(&fleet.url("b"), silent.port()));
    let start = std::sync::Barrier::new(8);
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                start.wait();
                let began = Instant::now();
                assert_eq!(cause(&shards), UnavailableCause::Timeout);
                let waited = began.elapsed();
                assert!(waited < CONNECT * 2, "{waited:?}");
            });
        }
    });
}

#[test]
fn one_shard_down_at_the_start_is_one_shard_down() {
    let fleet = Fleet::new(&["a", "b", "c"]);
    let gate = Gate::new(&fleet.url("c"), Mode::HangUp);
    let began = Instant::now();
    let shards = fleet
        .builder_with(settings(), |shard, right| {
            if shard == "c" {
                gate.url(&right)
            } else {
                right
            }
        })
        .build()
        .unwrap();
    assert!(
        began.elapsed() < Duration::from_secs(1),
        "nothing is opened"
    );
    for name in ["a", "b"] {
        assert_eq!(whoami(&mut shards.get_on(name).unwrap()).unwrap(), name);
    }
    let error = shards.get_on("c").unwrap_err();
    assert!(matches!(&error, Error::Unavailable { shard, .. } if *shard == "c"));
    gate.set(Mode::Pass);
    eventually("c serves without a rebuild", || serves(&shards, "c"));
}

#[test]
fn a_required_start_is_bounded_by_the_connect_timeout_and_names_the_shard() {
    let fleet = Fleet::new(&["a", "b"]);
    let silent = Silent::new();
    let urls = [
        (
            at_port(&fleet.url("b"), silent.port()),
            UnavailableCause::Timeout,
        ),
        (
            at_port(&fleet.url("b"), closed_port()),
            UnavailableCause::Refused,
        ),
    ];
    for (url, expected) in urls {
        let began = Instant::now();
        let error = fleet
            .builder_with(
                settings(),
                |shard, right| {
                    if shard == "b" { url.clone() } else { right }
                },
            )
            .startup(Startup::Require)
            .build()
            .unwrap_err();
        let waited = began.elapsed();
        let Error::Unavailable { shard, cause, .. } = &error else {
            panic!("{error:?}");
        };
        assert_eq!((shard.as_str(), *cause), ("b", expected));
        assert!(waited < CONNECT * 3, "{waited:?}");
        assert!(told(&error, &[]).contains("shard b"));
    }
}
