//! Route guards: dropped in any order, mixed with closures, dropped where another stack is in force.

use diesel_sharded::{Error, Route};

use super::backend::{self, Fleet, Manager, whoami};

fn here(shards: &Manager) -> String {
    whoami(&mut shards.get().unwrap()).unwrap()
}

#[test]
fn guards_dropped_in_any_order_remove_exactly_their_own_route() {
    let fleet = Fleet::new(&["a", "b", "c"]);
    let shards = fleet.builder().default_shard("a").build().unwrap();
    let orders = [
        [0, 1, 2],
        [0, 2, 1],
        [1, 0, 2],
        [1, 2, 0],
        [2, 0, 1],
        [2, 1, 0],
    ];
    let names = ["c", "b", "c"];
    for order in orders {
        let mut guards: Vec<_> = names
            .iter()
            .map(|name| Some((shards.route(name).unwrap().enter().unwrap(), *name)))
            .collect();
        for (at, guard) in guards.iter().enumerate() {
            let (guard, name) = guard.as_ref().unwrap();
            assert_eq!(guard.shard(), *name, "{at}");
        }
        for dropped in order {
            guards[dropped] = None;
            let top = guards.iter().rev().flatten().next();
            let expected = top.map_or("a", |(_, name)| name);
            assert_eq!(here(&shards), expected, "{order:?} after {dropped}");
            assert_eq!(Route::stack_depth(), guards.iter().flatten().count());
        }
    }
    assert_eq!(Route::stack_depth(), 0);
}

backend::blocking_only! {
    #[test]
    fn a_guard_that_outlives_a_closure_keeps_its_own_route() {
        let fleet = Fleet::new(&["a", "b", "c"]);
        let shards = fleet.builder().default_shard("a").build().unwrap();
        // Made inside, dropped outside.
        let escaped = shards
            .on("b", || {
                let guard = shards.route("c")?.enter()?;
                assert_eq!(here(&shards), "c");
                Ok::<_, Error>(guard)
            })
            .unwrap();
        assert_eq!(
            here(&shards),
            "c",
            "the closure has removed its own entry only"
        );
        assert_eq!(Route::stack_depth(), 1);
        drop(escaped);
        assert_eq!(here(&shards), "a");

        // Made outside, dropped inside.
        let guard = shards.route("c").unwrap().enter().unwrap();
        shards
            .on("b", || {
                drop(guard);
                assert_eq!(here(&shards), "b");
                Ok::<_, Error>(())
            })
            .unwrap();
        assert_eq!(here(&shards), "a");
        assert_eq!(Route::stack_depth(), 0);
    }
}

#[test]
fn a_guard_dropped_under_captured_routes_removes_its_outer_entry() {
    let fleet = Fleet::new(&["a", "b", "c"]);
    let shards = fleet.builder().default_shard("a").build().unwrap();
    let on_c = shards.on("c", || Ok::<_, Error>(Route::capture())).unwrap();
    let nothing = Route::capture();
    assert!(nothing.is_empty() && !on_c.is_empty());

    for (captured, inside) in [(&on_c, "c"), (&nothing, "a")] {
        let first = shards.route("b").unwrap().enter().unwrap();
        let second = shards.route("c").unwrap().enter().unwrap();
        captured
            .run(|| {
                assert_eq!(here(&shards), inside);
                drop(first);
                assert_eq!(here(&shards), inside, "the inner stack is another one");
                // A guard made in here is of the inner stack.
                let inner = shards.route("b")?.enter()?;
                assert_eq!(here(&shards), "b");
                drop(inner);
                assert_eq!(here(&shards), inside);
                Ok::<_, Error>(())
            })
            .unwrap();
        assert_eq!(
            here(&shards),
            "c",
            "the outer stack is back, without the dropped entry"
        );
        assert_eq!(Route::stack_depth(), 1);
        drop(second);
        assert_eq!(here(&shards), "a");
        assert_eq!(Route::stack_depth(), 0);
    }
}

#[test]
fn a_guard_made_under_captured_routes_and_kept_leaves_nothing_behind() {
    let fleet = Fleet::new(&["a", "b"]);
    let shards = fleet.builder().default_shard("a").build().unwrap();
    let captured = Route::capture();
    let kept = captured.run(|| shards.route("b")?.enter()).unwrap();
    assert_eq!(here(&shards), "a", "its stack has gone");
    let other = shards.route("b").unwrap().enter().unwrap();
    drop(kept);
    assert_eq!(here(&shards), "b", "it removed nobody else's entry");
    drop(other);
    assert_eq!(Route::stack_depth(), 0);
}

#[test]
fn captured_routes_nest_in_captured_routes() {
    let fleet = Fleet::new(&["a", "b", "c"]);
    let shards = fleet.manager();
    let captured = |name: &str| {
        shards
            .on(name, || Ok::<_, Error>(Route::capture()))
            .unwrap()
    };
    let (on_a, on_b) = (captured("a"), captured("b"));
    shards
        .on("c", || {
            on_a.run(|| {
                assert_eq!(here(&shards), "a");
                let guard = shards.route("c")?.enter()?;
                on_b.run(|| {
                    assert_eq!(here(&shards), "b");
                    // Two stacks up.
                    drop(guard);
                    assert_eq!(here(&shards), "b");
                    Ok::<_, Error>(())
                })?;
                assert_eq!(here(&shards), "a");
                Ok::<_, Error>(())
            })?;
            assert_eq!(here(&shards), "c");
            Ok::<_, Error>(())
        })
        .unwrap();
    assert_eq!(Route::stack_depth(), 0);
}

#[test]
fn a_guard_forgotten_inside_independent_does_not_reach_out() {
    let fleet = Fleet::new(&["a", "b", "c"]);
    let shards = fleet.manager();
    shards
        .on("a", || {
            let guard = shards.independent(|| {
                assert!(matches!(shards.get(), Err(Error::NoRoute { .. })));
                let guard = shards.route("b").unwrap().enter().unwrap();
                assert_eq!(here(&shards), "b");
                guard
            });
            drop(guard);
            assert_eq!(here(&shards), "a");
            Ok::<_, Error>(())
        })
        .unwrap();
    assert_eq!(Route::stack_depth(), 0);
}
