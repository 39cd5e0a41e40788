//! Tasks that wait for a connection: in turn, not for ever, and free to go away.

use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};
use std::time::Duration;

use diesel_sharded::{Error, PoolConfig};
use tokio::task::JoinSet;

use super::{Fleet, Manager, builder, manager, whoami};
use crate::nonblocking::{eventually, spawned};
use crate::support::pool;

fn waiting(shards: &Manager) -> usize {
    shards.status().nodes[0].waiting
}

/// Polls a future so many times, woken or not, and drops it.
async fn poked(times: usize, future: impl Future) {
    let mut future = pin!(future);
    for _ in 0..times {
        let polled = future
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()));
        if polled.is_ready() {
            return;
        }
        tokio::task::yield_now().await;
    }
}

#[test]
fn callers_are_served_in_the_order_in_which_they_came() {
    let fleet = Fleet::new(&["a"]);
    spawned(async move {
        let shards = manager(&fleet, 1).await;
        let held = shards.get_on("a").await.unwrap();
        let order = Arc::new(Mutex::new(Vec::new()));
        let mut tasks = JoinSet::new();
        for turn in 0..20 {
            let (shards, order) = (shards.clone(), Arc::clone(&order));
            let before = waiting(&shards);
            assert_eq!(before, turn);
            let asking = shards.clone();
            tasks.spawn(async move {
                let conn = asking.get_on("a").await.unwrap();
                order.lock().unwrap().push(turn);
                drop(conn);
            });
            eventually("it waits", || waiting(&shards) == turn + 1).await;
        }
        drop(held);
        while let Some(ended) = tasks.join_next().await {
            ended.unwrap();
        }
        let order = order.lock().unwrap();
        assert_eq!(*order, (0..20).collect::<Vec<_>>());
        assert_eq!(waiting(&shards), 0);
    });
}

#[test]
fn a_newcomer_does_not_pass_those_who_wait() {
    let fleet = Fleet::new(&["a"]);
    spawned(async move {
        let shards = manager(&fleet, 1).await;
        let held = shards.get_on("a").await.unwrap();
        let asking = shards.clone();
        let first = tokio::spawn(async move { asking.get_on("a").await.map(|_| ()) });
        eventually("it waits", || waiting(&shards) == 1).await;
        drop(held);
        // Its connection is free and it has not run yet, perhaps; this one comes after it all the same.
        shards.get_on("a").await.unwrap();
        eventually("the first is through", || first.is_finished()).await;
        first.await.unwrap().unwrap();
    });
}

#[test]
fn a_caller_that_waits_too_long_is_told_what_held_it_up() {
    let fleet = Fleet::new(&["a"]);
    spawned(async move {
        let settings = PoolConfig::new()
            .max_size(2)
            .connection_timeout(Duration::from_secs(2));
        let shards = builder(&fleet, settings).build().await.unwrap();
        let _one = shards.get_on("a").await.unwrap();
        let _two = shards.get_on("a").await.unwrap();
        let error = shards.get_on("a").await.unwrap_err();
        assert!(
            matches!(&error, Error::PoolExhausted { shard, size: 2, waited, .. }
                if *shard == "a" && *waited >= Duration::from_secs(2)),
            "{error:?}"
        );
        assert_eq!(waiting(&shards), 0);
    });
}

#[test]
fn a_scope_that_holds_the_last_connection_is_told_at_once() {
    let fleet = Fleet::new(&["a"]);
    spawned(async move {
        let shards = manager(&fleet, 1).await;
        let inside = shards.transaction_on("a", async |_| {
            let apart = shards
                .independent(async || shards.get_on("a").await.map(|_| ()))
                .await;
            assert!(
                matches!(apart, Err(Error::WouldDeadlock { .. })),
                "{apart:?}"
            );
            Ok::<_, Error>(())
        });
        let done = tokio::time::timeout(Duration::from_secs(4), inside).await;
        done.expect("nobody waits for the timeout of the pool")
            .unwrap();
    });
}

#[test]
fn a_checkout_that_is_dropped_at_any_point_leaves_the_pool_whole() {
    let fleet = Fleet::new(&["a"]);
    spawned(async move {
        for times in 0..30 {
            let shards = manager(&fleet, 1).await;
            poked(times, shards.get_on("a")).await;
            let mut conn = shards.get_on("a").await.unwrap();
            assert_eq!(whoami(&mut conn).await.unwrap(), "a", "after {times} polls");
            // The same while somebody else has the connection.
            poked(times, shards.get_on("a")).await;
            assert_eq!(waiting(&shards), 0, "after {times} polls");
            drop(conn);
            let mut conn = shards.get_on("a").await.unwrap();
            assert_eq!(whoami(&mut conn).await.unwrap(), "a", "after {times} polls");
            assert_eq!(shards.status().nodes[0].connections, 1);
        }
    });
}

#[test]
fn ten_thousand_tasks_on_four_small_pools_all_finish() {
    let fleet = Fleet::new(&["a", "b", "c", "d"]);
    spawned(async move {
        let settings = pool(4)
            .connection_timeout(Duration::from_secs(120))
            .connect_timeout(Duration::from_secs(60));
        let shards = builder(&fleet, settings).build().await.unwrap();
        let mut tasks = JoinSet::new();
        for task in 0..10_000 {
            let shards = shards.clone();
            tasks.spawn(async move {
                let shard = ["a", "b", "c", "d"][task % 4];
                shards
                    .on(shard, async || {
                        let mut conn = shards.get().await?;
                        assert_eq!(whoami(&mut conn).await?, shard);
                        Ok::<_, Error>(())
                    })
                    .await
            });
        }
        while let Some(ended) = tasks.join_next().await {
            ended.unwrap().unwrap();
        }
        for node in shards.status().nodes {
            assert!(node.connections <= 4, "{node:?}");
            assert_eq!(node.waiting, 0);
        }
    });
}

#[test]
fn routes_of_tasks_that_move_between_threads_stay_theirs() {
    let fleet = Fleet::new(&["a", "b", "c"]);
    spawned(async move {
        let shards = builder(&fleet, pool(4).connection_timeout(Duration::from_secs(60)).connect_timeout(Duration::from_secs(60)))
            .default_shard("a")
            .build()
            .await
            .unwrap();
        let mut tasks = JoinSet::new();
        for task in 0..200 {
            let shards = shards.clone();
            tasks.spawn(async move {
                let mut foreign = 0;
                for _ in 0..20 {
                    // Every fourth task has no route: it must see the default, nobody else's.
                    let expected = ["a", "b", "c", "a"][task % 4];
                    let look = async || -> Result<String, Error> {
                        tokio::task::yield_now().await;
                        Ok(whoami(&mut shards.get().await?).await?)
                    };
                    let found = if task % 4 == 3 {
                        look().await
                    } else {
                        shards.on(expected, look).await
                    };
                    foreign += usize::from(found.unwrap() != expected);
                }
                foreign
            });
        }
        let mut foreign = 0;
        while let Some(ended) = tasks.join_next().await {
            foreign += ended.unwrap();
        }
        assert_eq!(foreign, 0, "of 4,000");
    });
}
