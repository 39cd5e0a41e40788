//! How connections are made: in tasks of their own, within a deadline, told apart when they fail.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use diesel::ConnectionError;
use diesel_sharded::nonblocking::AsyncNodeConnection;
use diesel_sharded::{Error, PoolConfig, Startup, UnavailableCause};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::{Conn, Fleet, builder, whoami};
use crate::nonblocking::{eventually, spawned};
use crate::support::said;

fn settings() -> PoolConfig {
    PoolConfig::new()
        .max_size(4)
        .connection_timeout(Duration::from_secs(60))
        .connect_timeout(Duration::from_secs(60))
}

async fn open(url: String) -> diesel::ConnectionResult<Conn> {
    let url = diesel_sharded::DatabaseUrl::from(url);
    let kind = url.kind().expect("a known kind");
    Conn::connect(kind, url.expose()).await
}

fn cause(error: &Error) -> UnavailableCause {
    match error {
        Error::Unavailable { cause, .. } => *cause,
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_a_caller_has_asked_for_is_made_though_the_caller_goes_away() {
    let fleet = Fleet::new(&["a"]);
    spawned(async move {
        let may = Arc::new(Semaphore::new(0));
        let (asked, gate) = (Arc::new(AtomicUsize::new(0)), Arc::clone(&may));
        let count = Arc::clone(&asked);
        let shards = builder(&fleet, settings())
            .connect_with(move |node| {
                let (url, gate) = (node.url().expose().to_owned(), Arc::clone(&gate));
                count.fetch_add(1, Ordering::SeqCst);
                async move {
                    gate.acquire().await.expect("open").forget();
                    open(url).await
                }
            })
            .build()
            .await
            .unwrap();
        let impatient = shards.clone();
        let caller = tokio::spawn(async move { impatient.get_on("a").await.map(|_| ()) });
        eventually("it connects", || asked.load(Ordering::SeqCst) == 1).await;
        caller.abort();
        assert!(caller.await.unwrap_err().is_cancelled());
        may.add_permits(1);
        eventually("it is in the pool", || shards.status().nodes[0].idle == 1).await;
        let mut conn = shards.get_on("a").await.unwrap();
        assert_eq!(whoami(&mut conn).await.unwrap(), "a");
        assert_eq!(asked.load(Ordering::SeqCst), 1);
    });
}

#[test]
fn an_attempt_that_hangs_ends_with_its_deadline_for_everybody() {
    let fleet = Fleet::new(&["a", "b"]);
    spawned(async move {
        let hangs_for = Duration::from_secs(2);
        let shards = builder(&fleet, settings().connect_timeout(hangs_for))
            .connect_with(|node| {
                let (hangs, url) = (node.shard() == "b", node.url().expose().to_owned());
                async move {
                    if hangs {
                        std::future::pending::<()>().await;
                    }
                    open(url).await
                }
            })
            .build()
            .await
            .unwrap();
        let began = Instant::now();
        let mut tasks = JoinSet::new();
        for _ in 0..200 {
            let shards = shards.clone();
            tasks.spawn(async move { shards.get_on("b").await.map(|_| ()) });
        }
        // One shard that hangs is one shard that hangs.
        for _ in 0..20 {
            assert_eq!(
                whoami(&mut shards.get_on("a").await.unwrap()).await.unwrap(),
                "a"
            );
        }
        while let Some(ended) = tasks.join_next().await {
            let error = ended.unwrap().unwrap_err();
            assert_eq!(cause(&error), UnavailableCause::Timeout, "{error:?}");
            assert!(said(&error).contains("shard b"));
        }
        // Not one deadline after the other.
        assert!(
            began.elapsed() < 20 * hangs_for,
            "{:?}",
            began.elapsed()
        );
        let down = &shards.status().nodes[1];
        assert_eq!(down.down, Some(UnavailableCause::Timeout));
        assert_eq!((down.connections, down.waiting), (0, 0));
    });
}

#[test]
fn a_panic_in_a_connect_function_is_an_error_and_no_end() {
    let fleet = Fleet::new(&["a"]);
    spawned(async move {
        let broken = Arc::new(AtomicUsize::new(2));
        let left = Arc::clone(&broken);
        let shards = builder(&fleet, settings())
            .connect_with(move |node| {
                let (url, left) = (node.url().expose().to_owned(), Arc::clone(&left));
                async move {
                    let left = left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| {
                        left.checked_sub(1)
                    });
                    assert!(left.is_err(), "not yet");
                    open(url).await
                }
            })
            .build()
            .await
            .unwrap();
        let error = shards.get_on("a").await.unwrap_err();
        assert_eq!(cause(&error), UnavailableCause::Other);
        assert!(said(&error).contains("panicked"));
        let mut served = None;
        for _ in 0..1_000 {
            match shards.get_on("a").await {
                Ok(conn) => {
                    served = Some(conn);
                    break;
                }
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        }
        let mut conn = served.expect("the node comes back by itself");
        assert_eq!(whoami(&mut conn).await.unwrap(), "a");
        assert_eq!(shards.status().nodes[0].down, None);
    });
}

#[test]
fn callers_that_wait_for_others_are_told_when_nobody_can_connect() {
    let fleet = Fleet::new(&["a"]);
    spawned(async move {
        let shards = builder(&fleet, settings().max_size(1))
            .connect_with(|_| async {
                tokio::time::sleep(Duration::from_millis(50)).await;
                Err(ConnectionError::BadConnection("connection refused".into()))
            })
            .build()
            .await
            .unwrap();
        let began = Instant::now();
        let mut tasks = JoinSet::new();
        for _ in 0..500 {
            let shards = shards.clone();
            tasks.spawn(async move { shards.get_on("a").await.map(|_| ()) });
        }
        while let Some(ended) = tasks.join_next().await {
            let error = ended.unwrap().unwrap_err();
            assert_eq!(cause(&error), UnavailableCause::Refused, "{error:?}");
        }
        // Far from 500 attempts of 50 ms.
        assert!(
            began.elapsed() < Duration::from_secs(15),
            "{:?}",
            began.elapsed()
        );
    });
}

/// An attempt, until it ends or is dropped.
struct UnderWay(Arc<AtomicUsize>);

impl UnderWay {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(count))
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[test]
fn a_pool_never_has_more_connections_than_it_may() {
    let fleet = Fleet::new(&["a"]);
    spawned(async move {
        let (alive, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (now, top) = (Arc::clone(&alive), Arc::clone(&most));
        let shards = builder(&fleet, settings().max_size(3).min_idle(2))
            .connect_with(move |node| {
                let url = node.url().expose().to_owned();
                let (now, top) = (Arc::clone(&now), Arc::clone(&top));
                async move {
                    let under_way = UnderWay::new(&now);
                    top.fetch_max(now.load(Ordering::SeqCst), Ordering::SeqCst);
                    let made = open(url).await;
                    drop(under_way);
                    made
                }
            })
            .build()
            .await
            .unwrap();
        let mut tasks = JoinSet::new();
        for _ in 0..50 {
            let shards = shards.clone();
            tasks.spawn(async move {
                for _ in 0..10 {
                    let mut conn = shards.get_on("a").await.unwrap();
                    whoami(&mut conn).await.unwrap();
                    assert!(shards.status().nodes[0].connections <= 3);
                }
            });
        }
        while let Some(ended) = tasks.join_next().await {
            ended.unwrap();
        }
        assert!(most.load(Ordering::SeqCst) <= 3);
        eventually("what is wanted ahead of need is there", || {
            shards.status().nodes[0].idle >= 2
        })
        .await;
    });
}

#[test]
fn a_required_start_connects_all_nodes_at_once_and_names_what_failed() {
    let fleet = Fleet::new(&["a", "b", "c"]);
    spawned(async move {
        let both = Arc::new(tokio::sync::Barrier::new(2));
        let failed = builder(&fleet, settings())
            .startup(Startup::Require)
            .connect_with(move |node| {
                let (fails, url) = (node.shard() != "a", node.url().expose().to_owned());
                let both = Arc::clone(&both);
                async move {
                    if !fails {
                        return open(url).await;
                    }
                    // One after the other, the first one would wait here until its deadline.
                    both.wait().await;
                    Err(ConnectionError::BadConnection("connection refused".into()))
                }
            })
            .build()
            .await;
        let error = failed.unwrap_err();
        assert_eq!(cause(&error), UnavailableCause::Refused);
        let text = said(&error);
        assert!(text.contains("shard b") || text.contains("shard c"), "{text}");
    });
}
