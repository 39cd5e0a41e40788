//! Routes and tasks: what moves between threads, what is spawned, what shares a thread.

#![expect(
    clippy::await_holding_invalid_type,
    reason = "what becomes of that mistake is tested here"
)]

use std::sync::Arc;

use diesel_sharded::{Error, FutureExt, Route};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Barrier;
use tokio::task::{LocalSet, spawn_blocking, spawn_local, yield_now};

use super::backend::{Fleet, Manager, whoami};

const NAMES: [&str; 3] = ["a", "b", "c"];

fn here(shards: &Manager) -> Result<String, Error> {
    Ok(whoami(&mut shards.get()?)?)
}

fn workers(count: usize) -> Runtime {
    Builder::new_multi_thread()
        .worker_threads(count)
        .build()
        .unwrap()
}

fn one_thread() -> Runtime {
    Builder::new_current_thread().build().unwrap()
}

#[test]
fn two_hundred_tasks_on_four_workers_read_their_own_shard_only() {
    let fleet = Fleet::new(&NAMES);
    let shards = fleet.builder().default_shard("a").build().unwrap();
    workers(4).block_on(async {
        let mut tasks = tokio::task::JoinSet::new();
        for i in 0..200 {
            let (name, shards) = (NAMES[i % 3], shards.clone());
            let route = shards.route(name).unwrap();
            let reads = |name: &'static str, shards: Manager| async move {
                for _ in 0..20 {
                    yield_now().await;
                    assert_eq!(here(&shards).unwrap(), name);
                }
            };
            tasks.spawn(reads(name, shards.clone()).with_route(route));
            if i % 10 == 0 {
                // Without a route between them: always the default.
                tasks.spawn(reads("a", shards));
            }
        }
        while let Some(ended) = tasks.join_next().await {
            ended.unwrap();
        }
    });
}

#[test]
fn spawned_tasks_and_blocking_work_start_with_an_empty_stack() {
    let fleet = Fleet::new(&NAMES);
    let (with, without) = (
        fleet.builder().default_shard("a").build().unwrap(),
        fleet.manager(),
    );
    for runtime in [workers(2), one_thread()] {
        let (with, without) = (with.clone(), without.clone());
        let routes = [with.route("b").unwrap(), without.route("b").unwrap()];
        let [inner, outer] = routes;
        runtime.block_on(
            async move {
                let (one, two) = (with.clone(), without.clone());
                let look = move || {
                    assert_eq!(Route::stack_depth(), 0);
                    assert!(matches!(two.get(), Err(Error::NoRoute { .. })));
                    here(&one).unwrap()
                };
                let look_too = look.clone();
                let spawned = tokio::spawn(async move {
                    yield_now().await;
                    look_too()
                });
                assert_eq!(spawned.await.unwrap(), "a");
                assert_eq!(spawn_blocking(look).await.unwrap(), "a");
                assert_eq!(here(&with).unwrap(), "b");
                let still = async { here(&without).unwrap() }.with_route(outer);
                assert_eq!(still.await, "b");
            }
            .with_route(inner),
        );
    }
}

#[test]
fn a_route_is_carried_to_tasks_and_blocking_work_on_purpose() {
    let fleet = Fleet::new(&NAMES);
    let shards = fleet.manager();
    for runtime in [workers(2), one_thread()] {
        let (shards, route) = (shards.clone(), shards.route("b").unwrap());
        runtime.block_on(
            async move {
                let carried = shards.clone();
                let task = async move {
                    yield_now().await;
                    // What it pushes stays its own.
                    carried.on("c", || Ok::<_, Error>(assert_eq!(here(&carried)?, "c")))?;
                    here(&carried)
                };
                let task = tokio::spawn(task.in_current_route());
                assert_eq!(task.await.unwrap().unwrap(), "b");
                let carried = shards.clone();
                let job = Route::capture().wrap(move || here(&carried));
                assert_eq!(spawn_blocking(job).await.unwrap().unwrap(), "b");
                assert_eq!(here(&shards).unwrap(), "b");
            }
            .with_route(route),
        );
    }
}

#[test]
fn a_reused_blocking_thread_keeps_no_route_of_an_earlier_job() {
    let fleet = Fleet::new(&NAMES);
    let shards = fleet.builder().default_shard("a").build().unwrap();
    let runtime = Builder::new_current_thread()
        .max_blocking_threads(1)
        .build()
        .unwrap();
    runtime.block_on(async {
        for (name, carried) in [("b", true), ("c", true), ("b", false), ("c", false)] {
            let job = {
                let shards = shards.clone();
                move || {
                    shards.on("c", || here(&shards).map(drop))?;
                    Ok::<_, Error>((here(&shards)?, Route::stack_depth()))
                }
            };
            let answer = async {
                if carried {
                    spawn_blocking(Route::capture().wrap(job)).await
                } else {
                    spawn_blocking(job).await
                }
            }
            .with_route(shards.route(name).unwrap())
            .await;
            let expected = if carried { (name, 1) } else { ("a", 0) };
            assert_eq!(answer.unwrap().unwrap(), (expected.0.to_owned(), expected.1));
        }
    });
}

#[test]
fn a_task_that_is_aborted_half_way_leaves_its_worker_clean() {
    let fleet = Fleet::new(&NAMES);
    let shards = fleet.manager();
    workers(1).block_on(async {
        let started = Arc::new(Barrier::new(2));
        let task = {
            let (shards, started) = (shards.clone(), Arc::clone(&started));
            async move {
                let held = shards.get().unwrap();
                started.wait().await;
                std::future::pending::<()>().await;
                drop(held);
            }
        };
        let task = tokio::spawn(task.with_route(shards.route("b").unwrap()));
        started.wait().await;
        task.abort();
        assert!(task.await.unwrap_err().is_cancelled());
        // On the same, only worker.
        let next = tokio::spawn(async move {
            assert_eq!(Route::stack_depth(), 0);
            matches!(shards.get(), Err(Error::NoRoute { .. }))
        });
        assert!(next.await.unwrap());
    });
}

#[test]
fn tasks_of_a_local_set_are_apart() {
    let fleet = Fleet::new(&NAMES);
    let shards = fleet.builder().default_shard("a").build().unwrap();
    let local = LocalSet::new();
    one_thread().block_on(local.run_until(async {
        let mut tasks = Vec::new();
        for name in ["b", "c", "b", "c"] {
            let shards = shards.clone();
            let route = shards.route(name).unwrap();
            // `Rc` across the await: only a local set takes this.
            let name = std::rc::Rc::new(name);
            tasks.push(spawn_local(
                async move {
                    for _ in 0..20 {
                        yield_now().await;
                        assert_eq!(here(&shards).unwrap(), *name);
                    }
                }
                .with_route(route),
            ));
        }
        let shards = shards.clone();
        tasks.push(spawn_local(async move {
            for _ in 0..20 {
                yield_now().await;
                assert_eq!(here(&shards).unwrap(), "a");
            }
        }));
        for task in tasks {
            task.await.unwrap();
        }
    }));
}

/// What the README and clippy.toml warn of, and what is immune to it.
#[test]
fn a_guard_across_await_leaks_to_bare_tasks_of_its_thread_but_not_into_futures_with_a_stack() {
    let fleet = Fleet::new(&NAMES);
    let shards = fleet.builder().default_shard("a").build().unwrap();
    let local = LocalSet::new();
    one_thread().block_on(local.run_until(async {
        let (held, seen) = (Arc::new(Barrier::new(2)), Arc::new(Barrier::new(2)));
        let holder = {
            let (shards, held, seen) = (shards.clone(), Arc::clone(&held), Arc::clone(&seen));
            spawn_local(async move {
                let _guard = shards.route("b").unwrap().enter().unwrap();
                held.wait().await;
                seen.wait().await;
            })
        };
        held.wait().await;
        // A bare task of this thread sees the route of the other: never hold a guard across await.
        assert_eq!(here(&shards).unwrap(), "b");
        // With a stack of its own it does not.
        let read = || async { (here(&shards).unwrap(), Route::stack_depth()) };
        let mine = read().with_route(shards.route("c").unwrap()).await;
        assert_eq!(mine, ("c".to_owned(), 1));
        seen.wait().await;
        holder.await.unwrap();
        assert_eq!(read().await, ("a".to_owned(), 0));

        // A holder with a stack of its own leaks nothing.
        let holder = {
            let (shards, held, seen) = (shards.clone(), Arc::clone(&held), Arc::clone(&seen));
            let route = shards.route("c").unwrap();
            spawn_local(
                async move {
                    let _guard = shards.route("b").unwrap().enter().unwrap();
                    held.wait().await;
                    seen.wait().await;
                    assert_eq!(here(&shards).unwrap(), "b");
                }
                .with_route(route),
            )
        };
        held.wait().await;
        assert_eq!(read().await, ("a".to_owned(), 0));
        seen.wait().await;
        holder.await.unwrap();
    }));
}

#[test]
fn a_route_around_a_runtime_is_seen_by_its_main_future_and_not_by_carried_or_foreign_threads() {
    let fleet = Fleet::new(&NAMES);
    let shards = fleet.builder().default_shard("a").build().unwrap();
    let runtime = workers(1);
    shards
        .on("b", || {
            runtime.block_on(async {
                assert_eq!(here(&shards)?, "b");
                let (own, bare) = (shards.clone(), shards.clone());
                let bare = tokio::spawn(async move { here(&bare) });
                assert_eq!(bare.await.unwrap()?, "a");
                let route = shards.route("c")?;
                let own = tokio::spawn(async move { here(&own) }.with_route(route));
                assert_eq!(own.await.unwrap()?, "c");
                Ok::<_, Error>(())
            })
        })
        .unwrap();
}
