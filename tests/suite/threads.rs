//! Threads: they start with nothing, carry only what was handed over, and give nothing back.

use std::sync::mpsc;
use std::thread;

use diesel_sharded::{Error, Route};

use super::backend::{Fleet, Manager, Sharded, whoami};

fn here(shards: &Manager) -> Result<String, Error> {
    Ok(whoami(&mut shards.get()?)?)
}

#[test]
fn a_new_thread_starts_without_a_route() {
    let fleet = Fleet::new(&["a", "b"]);
    let (with, without) = (
        fleet.builder().default_shard("a").build().unwrap(),
        fleet.manager(),
    );
    for_both(&with, &without, |with, without| {
        thread::scope(|scope| {
            scope
                .spawn(|| {
                    assert_eq!(Route::stack_depth(), 0);
                    assert!(matches!(without.get(), Err(Error::NoRoute { .. })));
                    assert_eq!(here(with).unwrap(), "a");
                })
                .join()
                .unwrap();
        });
    });
}

/// Runs a check where both managers have the route `b` in force.
fn for_both(with: &Manager, without: &Manager, check: impl FnOnce(&Manager, &Manager)) {
    let checked: Result<(), Error> = with.on("b", || {
        without.on("b", || {
            check(with, without);
            Ok(())
        })
    });
    checked.unwrap();
    assert_eq!(Route::stack_depth(), 0);
}

#[test]
fn what_is_captured_is_carried_and_nothing_comes_back() {
    let fleet = Fleet::new(&["a", "b", "c"]);
    let shards = fleet.manager();
    shards
        .on("a", || {
            shards.on("b", || {
                let routes = Route::capture();
                let wrapped = Route::capture().wrap(|| here(&shards));
                let mine = shards.route("c")?.wrap(|| here(&shards));
                thread::scope(|scope| {
                    let child = scope.spawn(|| {
                        routes
                            .run(|| {
                                assert_eq!(Route::stack_depth(), 1, "the topmost route only");
                                assert_eq!(here(&shards)?, "b");
                                shards.on("c", || {
                                    assert_eq!(here(&shards)?, "c");
                                    Ok::<_, Error>(())
                                })
                            })
                            .unwrap();
                        assert_eq!(Route::stack_depth(), 0);
                        assert!(matches!(shards.get(), Err(Error::NoRoute { .. })));
                    });
                    child.join().unwrap();
                    assert_eq!(scope.spawn(wrapped).join().unwrap().unwrap(), "b");
                    assert_eq!(scope.spawn(mine).join().unwrap().unwrap(), "c");
                });
                assert_eq!(here(&shards)?, "b");
                Ok::<_, Error>(())
            })
        })
        .unwrap();
}

#[test]
fn pushing_in_a_child_never_changes_the_parents_stack() {
    let fleet = Fleet::new(&["a", "b"]);
    let shards = fleet.manager();
    let (ask, asked) = mpsc::channel::<()>();
    let (answer, answered) = mpsc::channel::<()>();
    shards
        .on("a", || {
            let routes = Route::capture();
            thread::scope(|scope| {
                let shards = &shards;
                scope.spawn(move || {
                    routes
                        .run(|| {
                            let _guard = shards.route("b")?.enter()?;
                            ask.send(()).unwrap();
                            answered.recv().unwrap();
                            assert_eq!(here(shards)?, "b");
                            Ok::<_, Error>(())
                        })
                        .unwrap();
                });
                // While the child's guard is there.
                asked.recv().unwrap();
                assert_eq!(Route::stack_depth(), 1);
                assert_eq!(here(shards).unwrap(), "a");
                shards
                    .on("b", || Ok::<_, Error>(assert_eq!(here(shards)?, "b")))
                    .unwrap();
                answer.send(()).unwrap();
            });
            assert_eq!(here(&shards)?, "a");
            Ok::<_, Error>(())
        })
        .unwrap();
}

#[test]
fn a_reused_worker_does_not_keep_the_route_of_an_earlier_job() {
    let fleet = Fleet::new(&["a", "b", "c"]);
    let shards = fleet.builder().default_shard("a").build().unwrap();
    type Job = Box<dyn FnOnce() -> Result<String, Error> + Send>;
    let (jobs, inbox) = mpsc::channel::<Job>();
    let (outbox, results) = mpsc::channel();
    let worker = thread::spawn(move || {
        for job in inbox {
            outbox.send((job(), Route::stack_depth())).unwrap();
        }
    });
    let job = |shards: &Manager| -> Job {
        let shards = shards.clone();
        Box::new(move || {
            shards.on("c", || here(&shards).map(drop))?;
            here(&shards)
        })
    };
    let carried = |name: &str| {
        shards
            .on(name, || {
                let (routes, job) = (Route::capture(), job(&shards));
                jobs.send(Box::new(move || routes.run(job))).unwrap();
                Ok::<_, Error>(())
            })
            .unwrap();
    };
    carried("b");
    carried("c");
    jobs.send(job(&shards)).unwrap();
    // Sent from inside a route, but not carried.
    shards
        .on("b", || Ok::<_, Error>(jobs.send(job(&shards)).unwrap()))
        .unwrap();
    // Captured where there is nothing: the job runs with an empty stack.
    let nothing = Route::capture();
    let last = job(&shards);
    jobs.send(Box::new(move || nothing.run(last))).unwrap();
    drop(jobs);
    let answers: Vec<_> = results
        .iter()
        .map(|(answer, depth)| (answer.unwrap(), depth))
        .collect();
    worker.join().unwrap();
    assert_eq!(
        answers,
        ["b", "c", "a", "a", "a"].map(|name| (name.to_owned(), 0))
    );
}

#[test]
fn a_panicking_job_does_not_spoil_the_worker() {
    let fleet = Fleet::new(&["a", "b"]);
    let shards = fleet.manager();
    let route = shards.route("b").unwrap();
    thread::scope(|scope| {
        scope
            .spawn(|| {
                let job = route.wrap(|| -> Result<(), Error> { panic!("on purpose") });
                let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(job));
                assert!(caught.is_err());
                assert_eq!(Route::stack_depth(), 0);
                assert!(matches!(shards.get(), Err(Error::NoRoute { .. })));
            })
            .join()
            .unwrap();
    });
}

#[test]
fn the_route_is_carried_but_never_the_pin() {
    let fleet = Fleet::new(&["a", "b"]);
    let shards = fleet.manager();
    shards
        .transaction_on("a", |_conn| {
            let routes = Route::capture();
            thread::scope(|scope| {
                scope
                    .spawn(|| {
                        routes.run(|| {
                            assert_eq!(here(&shards)?, "a", "a connection of its own");
                            assert_eq!(shards.on("b", || here(&shards))?, "b");
                            shards.transaction_on("b", |conn| Ok::<_, Error>(whoami(conn)?))
                        })
                    })
                    .join()
                    .unwrap()
            })
        })
        .map(|name| assert_eq!(name, "b"))
        .unwrap();
}

#[test]
fn a_connection_kept_in_a_thread_local_survives_the_end_of_its_thread() {
    use std::cell::RefCell;
    thread_local! {
        static KEPT: RefCell<Vec<Sharded>> = const { RefCell::new(Vec::new()) };
        static ROUTE: RefCell<Option<diesel_sharded::RouteGuard>> = const { RefCell::new(None) };
    }
    let fleet = Fleet::new(&["a"]);
    let shards = fleet.manager_of_size(1);
    for _ in 0..20 {
        thread::scope(|scope| {
            scope.spawn(|| {
                // Touched before and after the crate's own thread-local, so that both orders of
                // destruction happen.
                KEPT.with(|_| ());
                let guard = shards.route("a").unwrap().enter().unwrap();
                let mut conn = shards.get().unwrap();
                whoami(&mut conn).unwrap();
                KEPT.with(|kept| kept.borrow_mut().push(conn));
                ROUTE.with(|kept| *kept.borrow_mut() = Some(guard));
            });
        });
    }
    // Each thread has given back the only connection there is.
    let status = &shards.status().nodes[0];
    assert!(status.connections <= 1, "{status:?}");
    shards.get_on("a").unwrap();
}
