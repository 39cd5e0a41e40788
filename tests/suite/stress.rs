//! Many threads, many checkouts, no wrong shard.

use std::thread;

use diesel_sharded::{Error, Route};

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
