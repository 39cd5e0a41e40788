//! Many threads, many checkouts, no wrong shard.

use std::thread;

use diesel_sharded::{Error, FutureExt, Route, Topology};

use crate::support::sqlite::{Fleet, whoami};

const THREADS: u64 = 100;
const CHECKOUTS: u64 = 10_000;
const SHARDS: [&str; 4] = ["a", "b", "c", "d"];

/// The next number of a small generator; good enough to shuffle routes, and the same every time.
fn next(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

#[test]
fn a_million_checkouts_under_random_routes_never_land_on_the_wrong_shard() {
    let fleet = Fleet::new(&SHARDS);
    let shards = fleet.builder_of_size(8).default_shard("a").build().unwrap();
    let wrong: u64 = thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let shards = &shards;
                scope.spawn(move || {
                    let mut state = thread * 7919 + 1;
                    let mut wrong = 0;
                    let mut look = |expected: &str| -> Result<(), Error> {
                        let found = whoami(&mut shards.get()?)?;
                        wrong += u64::from(found != expected);
                        Ok(())
                    };
                    let mut done = 0;
                    while done < CHECKOUTS {
                        let random = next(&mut state);
                        let outer = SHARDS[(random % 4) as usize];
                        let inner = SHARDS[(random / 4 % 4) as usize];
                        let result = match random / 16 % 5 {
                            0 => {
                                done += 1;
                                look("a")
                            }
                            1 => {
                                done += 1;
                                shards.on(outer, || look(outer))
                            }
                            2 => {
                                done += 3;
                                shards.on(outer, || {
                                    look(outer)?;
                                    shards.on(inner, || look(inner))?;
                                    look(outer)
                                })
                            }
                            3 => {
                                done += 2;
                                let one = shards.route(outer).and_then(|route| route.enter());
                                let other = shards.route(inner).and_then(|route| route.enter());
                                look(inner).and_then(|()| {
                                    drop(one);
                                    look(inner)?;
                                    drop(other);
                                    Ok(())
                                })
                            }
                            _ => {
                                done += 1;
                                let routes = shards.on(outer, || Ok::<_, Error>(Route::capture()));
                                routes.and_then(|routes| {
                                    shards.on(inner, || routes.run(|| look(outer)))
                                })
                            }
                        };
                        result.unwrap_or_else(|error| panic!("{error}"));
                    }
                    assert_eq!(Route::stack_depth(), 0);
                    wrong
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .sum()
    });
    assert_eq!(wrong, 0, "of {} checkouts", THREADS * CHECKOUTS);
}

/// The shards of the futures.
const FUTURES: [&str; 3] = ["a", "b", "c"];

#[test]
fn a_thousand_tasks_that_switch_a_thousand_times_never_see_a_foreign_route() {
    // No database in it, so that it is the switching that is tried.
    let topology = Topology::builder()
        .shard("a", "a.db")
        .shard("b", "b.db")
        .shard("c", "c.db")
        .build()
        .unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(4)
        .build()
        .unwrap();
    runtime.block_on(async {
        let mut tasks = tokio::task::JoinSet::new();
        for i in 0..1_000 {
            let route = topology.route(FUTURES[i % 3]).unwrap();
            let other = topology.route(FUTURES[(i + 1) % 3]).unwrap();
            let (topology, mine) = (topology.clone(), route.clone());
            tasks.spawn(
                async move {
                    let mut foreign = 0;
                    for round in 0..1_000 {
                        tokio::task::yield_now().await;
                        foreign += u32::from(!in_force(&topology, &mine));
                        if round % 100 == 0 {
                            async {
                                tokio::task::yield_now().await;
                                foreign += u32::from(!in_force(&topology, &other));
                            }
                            .with_route(&other)
                            .await;
                        }
                    }
                    foreign
                }
                .with_route(route),
            );
        }
        let mut foreign = 0;
        while let Some(ended) = tasks.join_next().await {
            foreign += ended.unwrap();
        }
        assert_eq!(foreign, 0);
        assert_eq!(Route::stack_depth(), 0);
    });
}

/// Whether this, and only this, is the route in force.
fn in_force(topology: &Topology, route: &Route) -> bool {
    let found = topology.route_in_force().map(|found| found.shard());
    Route::stack_depth() == 1 && found == Some(route.shard())
}
