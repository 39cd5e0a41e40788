//! Runtimes come and go, of either flavour; a manager does not mind.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use diesel_async::SimpleAsyncConnection;
use diesel_sharded::{Error, UnavailableCause};

use super::{Fleet, builder, insert, manager, whoami};
use crate::nonblocking::eventually;
use crate::support::pool;

fn current_thread() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
}

fn multi_thread() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
}

#[test]
fn a_manager_outlives_the_runtime_of_its_pools() {
    let fleet = Fleet::new(&["a"]);
    let shards = multi_thread().block_on(manager(&fleet, 1));
    for turn in 0..6 {
        let runtime = if turn % 2 == 0 {
            current_thread()
        } else {
            multi_thread()
        };
        runtime.block_on(async {
            let mut conn = shards.get_on("a").await.unwrap();
            insert(&mut conn, turn).await.unwrap();
            drop(conn);
            // Not only the first one of a runtime.
            let mut conn = shards.get_on("a").await.unwrap();
            assert_eq!(whoami(&mut conn).await.unwrap(), "a");
        });
    }
    assert_eq!(fleet.rows("a"), (0..6).collect::<Vec<_>>());
}

#[test]
fn a_runtime_that_ends_under_a_transaction_leaves_nothing_open() {
    let fleet = Fleet::new(&["a"]);
    let shards = multi_thread().block_on(manager(&fleet, 1));
    let runtime = multi_thread();
    let (inside, is_inside) = tokio::sync::oneshot::channel();
    let in_task = shards.clone();
    runtime.spawn(async move {
        let _: Result<(), Error> = in_task
            .transaction_on("a", async |conn| {
                insert(conn, 1).await?;
                let _ = inside.send(());
                std::future::pending().await
            })
            .await;
    });
    runtime.block_on(is_inside).unwrap();
    drop(runtime);
    fleet.assert_nothing_open("a");
    multi_thread().block_on(async {
        let mut conn = shards.get_on("a").await.unwrap();
        insert(&mut conn, 2).await.unwrap();
    });
    assert_eq!(fleet.rows("a"), [2]);
}

#[test]
fn a_connection_that_is_dropped_outside_of_any_runtime_goes_back() {
    let fleet = Fleet::new(&["a"]);
    let runtime = multi_thread();
    let shards = runtime.block_on(async {
        builder(&fleet, pool(1).min_idle(1)).build().await.unwrap()
    });
    for dirty in [false, true, false, true] {
        let mut conn = runtime.block_on(shards.get_on("a")).unwrap();
        if dirty {
            runtime.block_on(conn.batch_execute("BEGIN")).unwrap();
        }
        drop(conn);
        let mut conn = runtime.block_on(shards.get_on("a")).unwrap();
        assert_eq!(runtime.block_on(whoami(&mut conn)).unwrap(), "a");
    }
    runtime.block_on(eventually("nothing is open", || {
        fleet.open_transactions("a") == 0
    }));
}

#[test]
fn without_a_runtime_a_checkout_says_so() {
    let fleet = Fleet::new(&["a"]);
    let polled_once = |shards: &super::Manager| {
        let mut asking = pin!(shards.get_on("a"));
        let mut context = Context::from_waker(Waker::noop());
        match asking.as_mut().poll(&mut context) {
            Poll::Ready(answer) => answer.map(|_| ()),
            Poll::Pending => panic!("it waits for what cannot come"),
        }
    };
    let assert_said = |answer: Result<(), Error>| match answer {
        Err(Error::Unavailable { cause, source, .. }) => {
            assert_eq!(cause, UnavailableCause::Other);
            assert!(source.unwrap().to_string().contains("tokio runtime"));
        }
        other => panic!("{other:?}"),
    };
    let runtime = multi_thread();
    let shards = runtime.block_on(manager(&fleet, 2));
    assert_said(polled_once(&shards));
    drop(runtime.block_on(shards.get_on("a")).unwrap());
    // Also where there is an idle connection.
    assert_said(polled_once(&shards));
    runtime.block_on(shards.get_on("a")).unwrap();
}

#[test]
fn a_local_set_is_a_runtime_too() {
    let fleet = Fleet::new(&["a", "b"]);
    let runtime = current_thread();
    tokio::task::LocalSet::new().block_on(&runtime, async {
        let shards = std::rc::Rc::new(manager(&fleet, 1).await);
        let tasks = ["a", "b"].map(|shard| {
            let shards = std::rc::Rc::clone(&shards);
            tokio::task::spawn_local(async move {
                for _ in 0..10 {
                    let mut conn = shards.get_on(shard).await.unwrap();
                    assert_eq!(whoami(&mut conn).await.unwrap(), shard);
                    tokio::task::yield_now().await;
                }
            })
        });
        for task in tasks {
            task.await.unwrap();
        }
    });
}
