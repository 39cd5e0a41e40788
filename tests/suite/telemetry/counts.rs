//! Counters: each thing that happens is counted once, under its own shard.

use std::time::Duration;

use diesel::connection::{Connection as _, SimpleConnection};
use diesel::result::Error as DieselError;
use diesel_sharded::blocking::Outcome;
use diesel_sharded::{Error, KeyspaceConfig, PoolConfig, Route, RuleSpec, ShardState};

use super::log::Log;
use super::plain;
use super::recorder::Metrics;
use crate::support::sqlite::{Conn, Fleet, insert};

const CHECKOUTS: &str = "diesel_sharded_checkouts_total";
const TRANSACTIONS: &str = "diesel_sharded_transactions_total";
const REFUSALS: &str = "diesel_sharded_refusals_total";

#[test]
fn checkouts_are_counted_by_shard_reason_and_outcome() {
    let fleet = Fleet::new(&["a", "b"]);
    let shards = plain(&fleet)
        .default_shard("a")
        .workload("batch", PoolConfig::new().max_size(1))
        .keyspace("keys", KeyspaceConfig::new(RuleSpec::modulo(["a", "b"])))
        .shard("gone", "/no/such/folder/gone.db")
        .build()
        .unwrap();
    let metrics = Metrics::default();
    metrics.during(|| {
        drop(shards.get().unwrap());
        drop(shards.get_on("b").unwrap());
        drop(shards.keyspace("keys").unwrap().get(&1).unwrap());
        shards
            .on("b", || shards.get().map(drop).map_err(DieselError::from))
            .unwrap();
        let batch = shards.route("a").unwrap().workload("batch").unwrap();
        batch
            .run(|| shards.get().map(drop).map_err(DieselError::from))
            .unwrap();
        assert!(shards.get_on("gone").is_err());
        shards.transaction_on("a", |_| Ok::<_, Error>(())).unwrap();
        // Through an outer pool a checkout is one checkout too.
        let outer = shards.clone().into_pool();
        shards
            .on("b", || Ok::<_, DieselError>(drop(outer.get().unwrap())))
            .unwrap();
    });
    for (shard, class, reason, outcome, count) in [
        ("a", "", "default", "ok", 1.0),
        ("b", "", "named", "ok", 2.0),
        ("b", "", "route", "ok", 2.0),
        ("a", "batch", "route", "ok", 1.0),
        ("gone", "", "named", "error", 1.0),
        ("a", "", "named", "ok", 1.0),
    ] {
        let labels = [
            ("shard", shard),
            ("role", "primary"),
            ("class", class),
            ("reason", reason),
            ("outcome", outcome),
        ];
        assert_eq!(metrics.total(CHECKOUTS, &labels), count, "{labels:?}");
    }
    assert_eq!(metrics.total(CHECKOUTS, &[]), 8.0);
    let fallbacks = "diesel_sharded_default_fallbacks_total";
    assert_eq!(metrics.total(fallbacks, &[("shard", "a")]), 1.0);
    assert_eq!(metrics.total(fallbacks, &[]), 1.0);
    assert_eq!(shards.status().default_fallbacks, 1);
}

#[test]
fn a_wait_is_measured_and_giving_up_is_counted() {
    let fleet = Fleet::new(&["a"]);
    let pool = PoolConfig::new()
        .max_size(1)
        .connection_timeout(Duration::from_millis(400));
    let shards = plain(&fleet).pool(pool).build().unwrap();
    let (metrics, log) = (Metrics::default(), Log::default());
    let held = shards.get_on("a").unwrap();
    let waits = "diesel_sharded_checkout_wait_seconds";
    metrics.during(|| {
        log.during(|| {
            let gave_up = shards.get_on("a");
            assert!(matches!(gave_up, Err(Error::PoolExhausted { .. })));
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    crate::support::eventually("somebody waits", || {
                        shards.status().nodes[0].waiting == 1
                    });
                    std::thread::sleep(Duration::from_millis(20));
                    drop(held);
                });
                drop(shards.get_on("a").unwrap());
            });
        });
    });
    let labels = [("shard", "a"), ("role", "primary"), ("class", "")];
    let measured = metrics.all(waits, &labels);
    assert_eq!(measured.len(), 1, "{measured:?}");
    assert!((0.015..0.4).contains(&measured[0]), "{measured:?}");
    let exhausted = "diesel_sharded_pool_exhausted_total";
    assert_eq!(metrics.total(exhausted, &labels), 1.0);
    assert_eq!(log.lines("waited for a connection").len(), 1);
    let told = log.lines("all connections were in use for the whole connection_timeout");
    assert_eq!(told.len(), 1);
    assert_eq!(told[0].level, tracing::Level::WARN);
}

#[test]
fn health_checks_say_whether_they_were_needed() {
    let fleet = Fleet::new(&["a"]);
    let checks = "diesel_sharded_health_checks_total";
    for (bypass, bypassed, done) in [
        (Duration::from_secs(600), 3.0, 0.0),
        (Duration::ZERO, 0.0, 3.0),
    ] {
        let pool = PoolConfig::new().max_size(1).alive_bypass(bypass);
        let shards = plain(&fleet).pool(pool).build().unwrap();
        let metrics = Metrics::default();
        metrics.during(|| {
            for _ in 0..3 {
                drop(shards.get_on("a").unwrap());
            }
        });
        let count = |outcome| metrics.total(checks, &[("shard", "a"), ("outcome", outcome)]);
        assert_eq!((count("bypassed"), count("ok")), (bypassed, done));
        assert_eq!(count("failed"), 0.0);
    }
}

#[test]
fn transactions_are_counted_by_how_they_ended() {
    let fleet = Fleet::new(&["a", "b"]);
    let shards = fleet.manager();
    let metrics = Metrics::default();
    metrics.during(|| {
        shards.transaction_on("a", |conn| insert(conn, 1)).unwrap();
        shards
            .transaction_builder("a")
            .run_outcome(|conn| insert(conn, 2).map(Outcome::Rollback))
            .unwrap();
        let failed = shards.transaction_on("b", |conn| {
            insert(conn, 3)?;
            Err::<(), _>(DieselError::RollbackTransaction)
        });
        assert!(failed.is_err());
        // Savepoints are part of their transaction.
        shards
            .transaction_on("b", |conn| {
                use diesel::Connection;
                conn.transaction(|conn| insert(conn, 4))
            })
            .unwrap();
        // A transaction that never began is none.
        assert!(shards.transaction_on("c", |_| Ok::<_, Error>(())).is_err());
    });
    for (shard, outcome) in [
        ("a", "committed"),
        ("a", "rolled_back"),
        ("b", "failed"),
        ("b", "committed"),
    ] {
        let labels = [("shard", shard), ("outcome", outcome)];
        assert_eq!(metrics.total(TRANSACTIONS, &labels), 1.0, "{labels:?}");
    }
    assert_eq!(metrics.total(TRANSACTIONS, &[]), 4.0);
}

#[test]
fn each_run_of_a_retried_transaction_is_counted() {
    let fleet = Fleet::new(&["a"]);
    // Without a busy timeout: a locked file fails at once.
    let shards = plain(&fleet)
        .connect_with(|node| Conn::establish(node.url().expose()))
        .build()
        .unwrap();
    let mut somebody = fleet.direct("a");
    somebody.batch_execute("BEGIN IMMEDIATE").unwrap();
    let (metrics, log) = (Metrics::default(), Log::default());
    let mut runs = 0;
    metrics.during(|| {
        log.during(|| {
            shards
                .transaction_builder("a")
                .retries(5)
                .run(|conn| {
                    runs += 1;
                    if runs == 3 {
                        somebody.batch_execute("ROLLBACK").unwrap();
                    }
                    insert(conn, 1)
                })
                .unwrap();
        });
    });
    assert_eq!(runs, 3);
    let retries = "diesel_sharded_retries_total";
    assert_eq!(metrics.total(retries, &[("shard", "a")]), 2.0);
    let ended = |outcome| metrics.total(TRANSACTIONS, &[("outcome", outcome)]);
    assert_eq!((ended("failed"), ended("committed")), (2.0, 1.0));
    let told = log.lines("running the transaction again");
    let attempts: Vec<_> = told.iter().map(|line| &line.fields["attempt"]).collect();
    assert_eq!(attempts, ["1", "2"]);
}

#[test]
fn refusals_are_counted_by_their_reason() {
    let fleet = Fleet::new(&["a", "b"]);
    let shards = fleet.manager_of_size(1);
    let metrics = Metrics::default();
    metrics.during(|| {
        assert!(shards.get().is_err());
        assert!(shards.get_on("c").is_err());
        shards
            .transaction_on("a", |_| {
                assert!(shards.get_on("a").is_err());
                assert!(shards.transaction_on("b", |_| Ok::<_, Error>(())).is_err());
                assert!(shards.route("b")?.enter().is_err());
                assert!(shards.independent(|| shards.get_on("a")).is_err());
                Ok::<_, Error>(())
            })
            .unwrap();
        shards.set_shard_state("b", ShardState::Offline).unwrap();
        assert!(shards.get_on("b").is_err());
        shards.set_shard_state("b", ShardState::Open).unwrap();
        let captured = shards.on("b", || Ok::<_, Error>(Route::capture())).unwrap();
        shards
            .transaction_on("a", |_| {
                assert!(captured.run(|| Ok::<_, Error>(())).is_err());
                Ok::<_, Error>(())
            })
            .unwrap();
    });
    for (reason, shard, count) in [
        ("no_route", "", 1.0),
        ("shard_offline", "b", 1.0),
        ("unknown_shard", "", 1.0),
        ("already_in_transaction", "a", 1.0),
        ("pinned_elsewhere", "b", 3.0),
        ("would_deadlock", "a", 1.0),
    ] {
        let labels = [("reason", reason), ("shard", shard)];
        assert_eq!(metrics.total(REFUSALS, &labels), count, "{labels:?}");
    }
    assert_eq!(metrics.total(REFUSALS, &[("reason", "other")]), 0.0);
}

/// A statement's metrics are its connection's, whatever route is in force where it runs.
#[test]
fn what_a_connection_does_is_counted_under_its_own_shard() {
    let fleet = Fleet::new(&["a", "b"]);
    let shards = fleet.manager();
    let metrics = Metrics::default();
    metrics.during(|| {
        let mut bound = shards
            .on("a", || shards.get().map_err(DieselError::from))
            .unwrap();
        shards
            .on("b", || {
                // Refused: the connection is a's.
                assert!(insert(&mut bound, 1).is_err());
                let mut named = shards.get_on("a")?;
                insert(&mut named, 2)?;
                named.batch_execute("BEGIN")?;
                // Goes back with the transaction open, under a route to b.
                drop(named);
                Ok::<_, Error>(())
            })
            .unwrap();
        drop(bound);
        shards
            .on("b", || {
                shards.independent(|| shards.transaction_on("a", |conn| insert(conn, 3)))
            })
            .unwrap();
    });
    let of = |name, shard| metrics.total(name, &[("shard", shard)]);
    assert_eq!(of(REFUSALS, "a"), 1.0);
    assert_eq!(of("diesel_sharded_connections_closed_total", "a"), 1.0);
    assert_eq!(of(TRANSACTIONS, "a"), 1.0);
    assert_eq!(of(CHECKOUTS, "a"), 3.0);
    assert!(!metrics.text().contains("\"b\""), "{}", metrics.text());
    assert_eq!(fleet.rows("a"), [2, 3]);
}

#[test]
fn a_panic_in_a_hook_is_counted_and_told() {
    let fleet = Fleet::new(&["a"]);
    let shards = fleet.manager();
    let (metrics, log) = (Metrics::default(), Log::default());
    metrics.during(|| {
        log.during(|| {
            shards
                .transaction_on("a", |conn| {
                    conn.after_commit(|| panic!("a hook's panic, on purpose"));
                    conn.after_commit(|| tracing::info!("the next hook"));
                    insert(conn, 1)
                })
                .unwrap();
        });
    });
    let panics = "diesel_sharded_hook_panics_total";
    assert_eq!(metrics.total(panics, &[("shard", "a")]), 1.0);
    assert_eq!(
        metrics.total(TRANSACTIONS, &[("outcome", "committed")]),
        1.0
    );
    let told = log.lines("an after_commit hook has panicked; the transaction is committed");
    assert_eq!(told.len(), 1);
    assert_eq!(told[0].fields["shard"], "a");
    assert_eq!(log.lines("the next hook").len(), 1);
}
