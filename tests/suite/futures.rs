//! Routes across `await`: one future, polled by hand or on one runtime.
//!
//! The work inside is done by the blocking manager, so that each read shows the stack in force at
//! that very poll.

#![expect(
    clippy::await_holding_invalid_type,
    reason = "what becomes of that mistake is tested here"
)]

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use diesel_sharded::{Error, FutureExt, Route, Routed};
use tokio::task::yield_now;

use super::backend::{Fleet, Manager, whoami};

fn here(shards: &Manager) -> Result<String, Error> {
    Ok(whoami(&mut shards.get()?)?)
}

/// One poll, with a waker that does nothing.
fn poll<F: Future + ?Sized>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    let answer = runtime.unwrap().block_on(future);
    assert_eq!(Route::stack_depth(), 0, "something was left in the thread");
    answer
}

#[test]
fn a_route_survives_await_and_the_output_is_unchanged() {
    let fleet = Fleet::new(&["a", "b"]);
    let shards = fleet.builder().default_shard("a").build().unwrap();
    let answer: Result<u8, &str> = block_on(
        async {
            for _ in 0..20 {
                yield_now().await;
                assert_eq!(here(&shards).unwrap(), "b");
                assert_eq!(Route::stack_depth(), 1);
            }
            Err("of the caller")
        }
        .with_route(shards.route("b").unwrap()),
    );
    assert_eq!(answer, Err("of the caller"));
}

#[test]
fn the_stack_is_out_between_polls_and_the_callers_is_untouched() {
    let fleet = Fleet::new(&["a", "b"]);
    let shards = fleet.manager();
    let mut future = pin!(
        async {
            yield_now().await;
            here(&shards)
        }
        .with_route(shards.route("b").unwrap())
    );
    shards
        .on("a", || {
            assert!(poll(future.as_mut()).is_pending());
            assert_eq!(Route::stack_depth(), 1);
            assert_eq!(here(&shards)?, "a");
            Ok::<_, Error>(())
        })
        .unwrap();
    assert_eq!(Route::stack_depth(), 0);
    let Poll::Ready(answer) = poll(future.as_mut()) else {
        panic!("it yields once");
    };
    assert_eq!(answer.unwrap(), "b");
    assert_eq!(Route::stack_depth(), 0);
}

#[test]
fn a_future_with_a_route_does_not_see_the_route_around_it() {
    let fleet = Fleet::new(&["a", "b"]);
    let (one, two) = (fleet.manager(), fleet.manager());
    one.on("a", || {
        two.on("a", || {
            block_on_inside(
                async {
                    assert_eq!(here(&one)?, "b");
                    assert!(matches!(two.get(), Err(Error::NoRoute { .. })));
                    assert_eq!(Route::stack_depth(), 1);
                    Ok::<_, Error>(())
                }
                .with_route(one.route("b")?),
            )
        })
    })
    .unwrap();
}

fn block_on_inside<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.unwrap().block_on(future)
}

#[test]
fn what_is_in_force_is_taken_at_the_call_and_the_topmost_of_each_topology() {
    let fleet = Fleet::new(&["a", "b", "c"]);
    let (one, two) = (fleet.manager(), fleet.manager());
    let future = one
        .on("a", || {
            one.on("b", || {
                two.on("c", || {
                    Ok::<_, Error>(
                        async {
                            yield_now().await;
                            assert_eq!(Route::stack_depth(), 2);
                            Ok::<_, Error>((here(&one)?, here(&two)?))
                        }
                        .in_current_route(),
                    )
                })
            })
        })
        .unwrap();
    // Polled where another route is in force.
    let answer = two.on("a", || block_on_inside(future)).unwrap();
    assert_eq!(answer, ("b".to_owned(), "c".to_owned()));
}

#[test]
fn with_nothing_in_force_a_carried_stack_is_empty() {
    let fleet = Fleet::new(&["a"]);
    let shards = fleet.manager();
    let empty = async { Route::stack_depth() }.in_current_route();
    let depth = shards.on("a", || Ok::<_, Error>(block_on_inside(empty)));
    assert_eq!(depth.unwrap(), 0);
}

#[test]
fn captured_routes_and_references_are_routes_too() {
    let fleet = Fleet::new(&["a", "b"]);
    let shards = fleet.manager();
    let captured = shards.on("b", || Ok::<_, Error>(Route::capture())).unwrap();
    let route = shards.route("a").unwrap();
    block_on(async {
        let read = || async { here(&shards).unwrap() };
        assert_eq!(read().with_route(&captured).await, "b");
        assert_eq!(read().with_route(captured).await, "b");
        assert_eq!(read().with_route(&route).await, "a");
        assert_eq!(read().with_route(route).await, "a");
    });
}

#[test]
fn routes_nest_in_futures_and_each_comes_back() {
    let fleet = Fleet::new(&["a", "b", "c"]);
    let shards = fleet.manager();
    block_on(
        async {
            assert_eq!(here(&shards)?, "a");
            async {
                yield_now().await;
                assert_eq!(here(&shards)?, "b");
                shards.on("c", || Ok::<_, Error>(assert_eq!(here(&shards)?, "c")))?;
                assert_eq!(here(&shards)?, "b");
                Ok::<_, Error>(())
            }
            .with_route(shards.route("b")?)
            .await?;
            assert_eq!(here(&shards)?, "a");
            Ok::<_, Error>(())
        }
        .with_route(shards.route("a").unwrap()),
    )
    .unwrap();
}

#[test]
fn two_futures_in_one_thread_never_see_each_others_route() {
    let fleet = Fleet::new(&["a", "b"]);
    let shards = fleet.builder().default_shard("a").build().unwrap();
    let reads = |name: &'static str| {
        let shards = &shards;
        async move {
            for _ in 0..20 {
                assert_eq!(here(shards).unwrap(), name);
                yield_now().await;
            }
        }
    };
    block_on(async {
        tokio::join!(
            reads("b").with_route(shards.route("b").unwrap()),
            reads("a").with_route(shards.route("a").unwrap()),
            reads("a"), // without a route: the default
            async {
                // Joined inside one future: both under its route.
                tokio::join!(reads("b"), reads("b"));
            }
            .with_route(shards.route("b").unwrap()),
        );
    });
}

#[test]
fn the_loser_of_a_select_is_dropped_under_its_own_route() {
    let fleet = Fleet::new(&["a", "b"]);
    let shards = fleet.manager();
    let log = Rc::new(RefCell::new(Vec::new()));
    block_on(
        async {
            let loser = async {
                let _log = LogsItsDrop(&shards, Rc::clone(&log));
                std::future::pending::<()>().await;
            }
            .with_route(shards.route("b").unwrap());
            tokio::select! {
                biased;
                () = loser => unreachable!(),
                () = yield_now() => {}
            }
            assert_eq!(here(&shards).unwrap(), "a");
        }
        .with_route(shards.route("a").unwrap()),
    );
    assert_eq!(*log.borrow(), ["b"]);
}

struct LogsItsDrop<'a>(&'a Manager, Rc<RefCell<Vec<String>>>);

impl Drop for LogsItsDrop<'_> {
    fn drop(&mut self) {
        let name = here(self.0).unwrap_or_else(|error| error.to_string());
        self.1.borrow_mut().push(name);
    }
}

#[test]
fn a_future_is_dropped_under_its_stack_at_any_stage() {
    let fleet = Fleet::new(&["a", "b"]);
    let shards = fleet.manager();
    let log = Rc::new(RefCell::new(Vec::new()));
    // A value that the future owns from the start, so that it is dropped with it unpolled too.
    let make = || {
        let held = LogsItsDrop(&shards, Rc::clone(&log));
        async move {
            let _held = held;
            yield_now().await;
            yield_now().await;
        }
        .with_route(shards.route("b").unwrap())
    };
    for polls in 0..4 {
        let mut future = Box::pin(make());
        for _ in 0..polls {
            let _ = poll(future.as_mut());
        }
        shards
            .on("a", || {
                drop(future);
                assert_eq!(here(&shards)?, "a");
                Ok::<_, Error>(())
            })
            .unwrap();
        assert_eq!(Route::stack_depth(), 0);
    }
    assert_eq!(*log.borrow(), ["b"; 4]);
}

#[test]
fn a_panic_in_a_poll_leaves_nothing_behind() {
    let fleet = Fleet::new(&["a", "b"]);
    let shards = fleet.builder().default_shard("a").build().unwrap();
    let mut future = Box::pin(
        async {
            yield_now().await;
            let _guard = shards.route("a").unwrap().enter().unwrap();
            shards
                .on("b", || -> Result<(), Error> { panic!("on purpose") })
                .unwrap();
        }
        .with_route(shards.route("b").unwrap()),
    );
    assert!(poll(future.as_mut()).is_pending());
    shards
        .on("b", || {
            let caught = catch_unwind(AssertUnwindSafe(|| poll(future.as_mut())));
            assert!(caught.is_err());
            assert_eq!(Route::stack_depth(), 1);
            Ok::<_, Error>(())
        })
        .unwrap();
    assert_eq!(Route::stack_depth(), 0);
    assert_eq!(here(&shards).unwrap(), "a");
    drop(future);
    assert_eq!(Route::stack_depth(), 0);
}

#[test]
fn a_panic_while_a_future_is_dropped_leaves_nothing_behind() {
    struct PanicsInDrop;
    impl Drop for PanicsInDrop {
        fn drop(&mut self) {
            panic!("on purpose");
        }
    }
    let fleet = Fleet::new(&["a"]);
    let shards = fleet.manager();
    let held = PanicsInDrop;
    let future = async move {
        let _held = held;
    }
    .with_route(shards.route("a").unwrap());
    let caught = catch_unwind(AssertUnwindSafe(|| drop(future)));
    assert!(caught.is_err());
    assert_eq!(Route::stack_depth(), 0);
}

#[test]
fn a_future_inside_a_transaction_sees_its_pin_through_its_own_stack() {
    let fleet = Fleet::new(&["a", "b"]);
    let shards = fleet.manager();
    let reads = || async {
        yield_now().await;
        shards.get().map(drop)
    };
    shards
        .transaction_on("a", |_conn| {
            let elsewhere = block_on_inside(reads().with_route(shards.route("b")?));
            assert!(
                matches!(&elsewhere, Err(Error::PinnedElsewhere { pinned, wanted })
                    if pinned.as_str() == "a" && wanted.as_str() == "b"),
                "{elsewhere:?}"
            );
            let same = block_on_inside(reads().with_route(shards.route("a")?));
            assert!(
                matches!(same, Err(Error::AlreadyInTransaction { .. })),
                "{same:?}"
            );
            // Inside it, entering is refused at once, blocking transactions are too.
            let (route, begin) = block_on_inside(
                async {
                    let route = shards.on("b", || Ok::<_, Error>(()));
                    let begin = shards.transaction_on("b", |_conn| Ok::<_, Error>(()));
                    (route, begin)
                }
                .in_current_route(),
            );
            assert!(matches!(route, Err(Error::PinnedElsewhere { .. })));
            assert!(matches!(begin, Err(Error::PinnedElsewhere { .. })));
            // `independent` hides it there as it does here.
            let free = block_on_inside(
                async {
                    shards.independent(|| shards.on("b", || here(&shards)))
                }
                .with_route(shards.route("a")?),
            )?;
            assert_eq!(free, "b");
            let hidden = shards.independent(|| {
                block_on_inside(async { here(&shards) }.with_route(shards.route("b")?))
            })?;
            assert_eq!(hidden, "b");
            Ok::<_, Error>(())
        })
        .unwrap();
    fleet.assert_nothing_open("a");
}

#[test]
fn what_is_carried_out_of_a_transaction_is_its_route_and_not_its_pin() {
    let fleet = Fleet::new(&["a", "b"]);
    let shards = fleet.manager();
    let future = shards
        .transaction_on("a", |_conn| {
            let read = async {
                yield_now().await;
                here(&shards)
            };
            Ok::<_, Error>(read.in_current_route())
        })
        .unwrap();
    assert_eq!(block_on(future).unwrap(), "a");
}

#[test]
fn a_guard_across_await_stays_in_the_stack_of_its_future() {
    let fleet = Fleet::new(&["a", "b", "c"]);
    let shards = fleet.manager();
    let mut holder = Box::pin(
        async {
            let outer = shards.route("b").unwrap().enter().unwrap();
            yield_now().await;
            let inner = shards.route("c").unwrap().enter().unwrap();
            yield_now().await;
            assert_eq!(here(&shards).unwrap(), "c");
            drop(outer); // out of order
            assert_eq!(here(&shards).unwrap(), "c");
            drop(inner);
            here(&shards).unwrap()
        }
        .with_route(shards.route("a").unwrap()),
    );
    for _ in 0..2 {
        assert!(poll(holder.as_mut()).is_pending());
        assert_eq!(Route::stack_depth(), 0, "the guard leaked into the thread");
        assert!(matches!(shards.get(), Err(Error::NoRoute { .. })));
    }
    assert!(matches!(poll(holder.as_mut()), Poll::Ready(name) if name == "a"));
}

#[test]
fn a_guard_that_leaves_its_future_removes_its_own_entry_and_no_other() {
    let fleet = Fleet::new(&["a", "b", "c"]);
    let shards = fleet.manager();
    let guard = |name: &str| shards.route(name).unwrap().enter().unwrap();

    // Out of the future, which is still there and still polled.
    let (give, given) = tokio::sync::oneshot::channel();
    let (go, gone) = tokio::sync::oneshot::channel::<()>();
    let mut future = Box::pin(
        async {
            let _ = give.send(guard("b"));
            assert_eq!(here(&shards).unwrap(), "b");
            gone.await.unwrap();
            here(&shards).unwrap()
        }
        .with_route(shards.route("a").unwrap()),
    );
    assert!(poll(future.as_mut()).is_pending());
    let around = guard("c");
    drop(block_on_inside(given).unwrap());
    assert_eq!(here(&shards).unwrap(), "c", "the entry around is another's");
    go.send(()).unwrap();
    let answer = poll(future.as_mut());
    assert!(matches!(&answer, Poll::Ready(name) if name == "a"), "{answer:?}");
    drop(around);

    // Into the future, dropped there.
    let outer = guard("c");
    block_on_inside(async { drop(outer) }.with_route(shards.route("a").unwrap()));
    assert_eq!(Route::stack_depth(), 0);

    // As its output; the stack it belonged to is gone.
    let output = block_on_inside(async { guard("b") }.with_route(shards.route("a").unwrap()));
    let around = guard("c");
    drop(output);
    assert_eq!(here(&shards).unwrap(), "c");
    drop(around);
    assert_eq!(Route::stack_depth(), 0);
}

#[test]
fn futures_and_their_stacks_are_as_sendable_as_what_is_in_them() {
    fn sendable<T: Send + Sync + 'static>(value: T) -> T {
        value
    }
    fn unpinned<T: Unpin>(value: T) -> T {
        value
    }
    let fleet = Fleet::new(&["a"]);
    let shards = fleet.manager();
    let ready: Routed<std::future::Ready<u8>> =
        std::future::ready(7).with_route(shards.route("a").unwrap());
    assert_eq!(block_on(unpinned(sendable(ready))), 7);
    // Not Send, not 'static: just as good on one thread.
    let (local, name) = (Rc::new(1), String::from("text"));
    let borrowed = async { name.len() + *local }.in_current_route();
    assert_eq!(block_on(borrowed), 5);
}

#[test]
fn a_thread_that_is_ending_can_still_drop_a_future() {
    thread_local! {
        static KEPT: RefCell<Option<Pin<Box<dyn Future<Output = ()>>>>> = const { RefCell::new(None) };
    }
    let fleet = Fleet::new(&["a"]);
    let shards = fleet.manager();
    std::thread::spawn(move || {
        // This thread-local is older than the stack's, so it is dropped after it.
        KEPT.with(|_| ());
        let _ = Route::stack_depth();
        let future = async move {
            shards.get().map(drop).unwrap();
            let _late = poll_fn(|_| Poll::<()>::Pending).await;
        };
        let route = Route::capture();
        let mut future: Pin<Box<dyn Future<Output = ()>>> = Box::pin(future.with_route(route));
        let _ = catch_unwind(AssertUnwindSafe(|| poll(future.as_mut())));
        KEPT.with(|kept| *kept.borrow_mut() = Some(future));
    })
    .join()
    .unwrap();
}
