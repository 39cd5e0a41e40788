//! Nodes: outages, pools, killed sessions, and no secret in any of it.

use std::time::Duration;

use diesel::connection::SimpleConnection;
use diesel_sharded::blocking::ShardedConnectionManager;
use diesel_sharded::{Error, PoolConfig, UnavailableCause};

use super::log::Log;
use super::plain;
use super::recorder::Metrics;
use crate::support::sqlite::{Fleet, Manager};
use crate::support::{assert_no_secret, eventually, postgres, secrets};

const CIRCUIT: &str = "diesel_sharded_circuit_open";
const FAILURES: &str = "diesel_sharded_connect_failures_total";

/// An outage is one event each way, however many callers and probes it meets, and every caller is
/// told its first cause.
#[test]
fn an_outage_opens_the_circuit_once_and_closes_it_once() {
    let (metrics, log) = (Metrics::of_all_threads(), Log::of_all_threads());
    let folder = tempfile::tempdir().unwrap();
    let away = folder.path().join("away");
    let file = away.join("seen-outage.db").display().to_string();
    let shards = Manager::builder()
        .shard("seen-outage", file)
        .build()
        .unwrap();
    for _ in 0..3 {
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let refused = shards.get_on("seen-outage").unwrap_err();
                    assert!(
                        matches!(
                            refused,
                            Error::Unavailable {
                                cause: UnavailableCause::Unreachable,
                                source: Some(_),
                                ..
                            }
                        ),
                        "{refused:?}"
                    );
                });
            }
        });
    }
    // Some probes fail first.
    eventually("the node is probed", || {
        metrics.total(FAILURES, &[("shard", "seen-outage")]) >= 3.0
    });
    assert_eq!(metrics.all(CIRCUIT, &[("shard", "seen-outage")]), [1.0]);
    std::fs::create_dir(&away).unwrap();
    eventually("the node is back", || shards.get_on("seen-outage").is_ok());
    for _ in 0..20 {
        drop(shards.get_on("seen-outage").unwrap());
    }
    assert_eq!(
        metrics.all(CIRCUIT, &[("shard", "seen-outage")]),
        [1.0, 0.0]
    );
    let causes = metrics.total(
        FAILURES,
        &[("cause", UnavailableCause::Unreachable.as_str())],
    );
    assert!(causes >= 3.0);
    let of_this = |message| {
        let lines = log.lines(message);
        lines
            .into_iter()
            .filter(|line| line.fields["shard"] == "seen-outage")
            .collect::<Vec<_>>()
    };
    let (down, back) = (of_this("the node is down"), of_this("the node is back"));
    assert_eq!((down.len(), back.len()), (1, 1));
    assert_eq!(down[0].level, tracing::Level::ERROR);
    assert_eq!(down[0].fields["cause"], "unreachable");
    assert_eq!(back[0].level, tracing::Level::INFO);
}

/// What alarms look at says nothing of nodes that are gone.
#[test]
fn a_reload_takes_the_gauges_of_replaced_and_removed_nodes_along() {
    let metrics = Metrics::of_all_threads();
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).display().to_string();
    let shards = Manager::builder()
        .shard("seen-replaced", "/no/such/folder/x.db")
        .shard("seen-removed", file("removed"))
        .build()
        .unwrap();
    assert!(shards.get_on("seen-replaced").is_err());
    drop(shards.get_on("seen-removed").unwrap());
    let _ = shards.status();
    let pool = "diesel_sharded_pool_connections";
    let idle = |shard| metrics.all(pool, &[("shard", shard), ("state", "idle")]);
    assert_eq!(idle("seen-removed"), [1.0]);
    let change = shards
        .reload_with(|topology| {
            topology
                .replace_shard("seen-replaced", file("replaced"))
                .remove_shard("seen-removed")
        })
        .unwrap();
    assert!(change.drain(Duration::from_secs(5)).is_empty());
    assert_eq!(
        metrics.all(CIRCUIT, &[("shard", "seen-replaced")]),
        [1.0, 0.0]
    );
    assert_eq!(idle("seen-removed").last(), Some(&0.0));
}

#[test]
fn pools_are_told_by_state() {
    let fleet = Fleet::new(&["a"]);
    let shards = plain(&fleet)
        .pool(PoolConfig::new().max_size(3))
        .workload("batch", PoolConfig::new().max_size(1))
        .build()
        .unwrap();
    let first = shards.get_on("a").unwrap();
    let _second = shards.get_on("a").unwrap();
    drop(first);
    let metrics = Metrics::default();
    metrics.during(|| shards.status());
    for (class, state, count) in [
        ("", "active", 1.0),
        ("", "idle", 1.0),
        ("", "waiting", 0.0),
        ("batch", "active", 0.0),
        ("batch", "idle", 0.0),
        ("batch", "waiting", 0.0),
    ] {
        let labels = [
            ("shard", "a"),
            ("role", "primary"),
            ("class", class),
            ("state", state),
        ];
        let pool = "diesel_sharded_pool_connections";
        assert_eq!(metrics.all(pool, &labels), [count], "{labels:?}");
    }
}

#[test]
fn killed_sessions_show_as_failed_checks_closed_connections_and_failed_rollbacks() {
    let fleet = postgres::Fleet::new(&["a"]);
    let shards = fleet.manager_of_size(2);
    let (metrics, log) = (Metrics::default(), Log::default());
    metrics.during(|| {
        log.during(|| {
            let lost = shards.transaction_on("a", |conn| {
                postgres::insert(conn, 1)?;
                fleet.kill_all("a");
                Err::<(), _>(diesel::result::Error::RollbackTransaction)
            });
            // The closure's own error, whatever became of the rollback.
            assert_eq!(lost, Err(diesel::result::Error::RollbackTransaction));
            let (one, two) = (shards.get_on("a").unwrap(), shards.get_on("a").unwrap());
            drop((one, two));
            fleet.kill_all("a");
            let mut conn = shards.get_on("a").unwrap();
            if postgres::insert(&mut conn, 2).is_err() {
                drop(conn);
                // The other one is checked, because its neighbour was dead.
                let mut conn = shards.get_on("a").unwrap();
                postgres::insert(&mut conn, 3).unwrap();
            }
        });
    });
    let of = |name, more: &[(&str, &str)]| {
        let labels: Vec<_> = [("shard", "a")].iter().chain(more).copied().collect();
        metrics.total(name, &labels)
    };
    assert_eq!(of("diesel_sharded_rollback_failures_total", &[]), 1.0);
    let told = log.lines("rolling back failed, the connection is closed");
    assert_eq!(told.len(), 1);
    assert_eq!(told[0].level, tracing::Level::ERROR);
    assert_eq!(told[0].shard(), Some("a"));
    assert!(of("diesel_sharded_connections_closed_total", &[]) >= 2.0);
    let failed = [("outcome", "failed")];
    assert!(of("diesel_sharded_health_checks_total", &failed) >= 1.0);
    assert!(of("diesel_sharded_transactions_total", &failed) >= 1.0);
    assert_no_secret(&metrics.text());
    assert_no_secret(&log.text());
}

/// Everything that can be recorded about a connect that fails, with the password in every place a
/// URL can have it.
#[test]
fn nothing_recorded_shows_a_password() {
    let fleet = postgres::Fleet::new(&["pg"]);
    let real = url::Url::parse(&fleet.url("pg")).unwrap();
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = closed.local_addr().unwrap().port();
    drop(closed);
    let mut wrong = real.clone();
    wrong.set_password(Some("S3cr3t!x")).unwrap();
    let (metrics, log) = (Metrics::default(), Log::default());
    metrics.during(|| {
        log.during(|| {
            for (url, reachable) in [
                (real.to_string(), true),
                (wrong.to_string(), false),
                (
                    format!("postgres://u:S3cr3t%21x@127.0.0.1:{port}/db"),
                    false,
                ),
                (
                    format!("postgres://127.0.0.1:{port}/db?user=u&password=S3cr3t!x"),
                    false,
                ),
                (
                    format!("host=127.0.0.1 port={port} user=u password=S3cr3t!x"),
                    false,
                ),
            ] {
                let shards = ShardedConnectionManager::<diesel::PgConnection>::builder()
                    .shard("pg", url.as_str())
                    .pool(PoolConfig::new().connection_timeout(Duration::from_secs(3)))
                    .build()
                    .unwrap();
                for _ in 0..2 {
                    assert_eq!(shards.get_on("pg").is_ok(), reachable);
                }
                let _ = shards.transaction_on("pg", |conn| {
                    conn.batch_execute("SELECT 1; this is no SQL")?;
                    Ok::<_, Error>(())
                });
                let _ = shards.status();
                let _ = shards.reload_with(|topology| topology.replace_shard("pg", url.as_str()));
            }
        });
    });
    assert!(!log.lines("connecting failed").is_empty());
    assert!(metrics.total(FAILURES, &[("cause", "authentication")]) >= 1.0);
    let all = format!("{} {}", metrics.text(), log.text());
    assert_no_secret(&all);
    for secret in ["S3cr3t", "s3cr3t"] {
        assert!(!all.contains(secret), "{all}");
    }
    assert!(!secrets().is_empty());
}
