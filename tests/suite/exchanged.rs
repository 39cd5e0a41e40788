//! Connections that are put in each other's place (`mem::swap`): nobody is told a wrong outcome.

use std::mem::swap;

use diesel_sharded::{Error, RollbackReason, Route};

use super::backend::{Fleet, insert};

fn assert_unbalanced<T: std::fmt::Debug>(result: Result<T, Error>, on: &str) {
    match result {
        Err(Error::RolledBack {
            shard,
            reason: RollbackReason::Unbalanced,
            ..
        }) => assert_eq!(shard, on),
        other => panic!("{other:?}"),
    }
}

#[test]
fn two_transactions_that_change_places_are_both_given_up() {
    let fleet = Fleet::new(&["a", "b"]);
    let shards = fleet.manager();
    for outer_is_well in [true, false] {
        let outer = shards.transaction_on("a", |first| {
            insert(first, 1)?;
            let inner = shards.independent(|| {
                shards.transaction_on("b", |second| {
                    insert(second, 2)?;
                    swap(first, second);
                    Ok::<_, Error>(())
                })
            });
            assert_unbalanced(inner, "b");
            if outer_is_well {
                Ok(())
            } else {
                Err(Error::NoRoute { known: vec![] })
            }
        });
        match outer_is_well {
            true => assert_unbalanced(outer, "a"),
            false => assert!(matches!(outer, Err(Error::NoRoute { .. }))),
        }
        for shard in ["a", "b"] {
            assert_eq!(fleet.rows(shard), [0; 0], "{shard}");
            fleet.assert_nothing_open(shard);
        }
    }
}

#[test]
fn a_transaction_whose_connection_was_taken_away_is_given_up() {
    let fleet = Fleet::new(&["a", "b"]);
    let shards = fleet.manager();
    let mut other = shards.get_on("b").unwrap();
    let result = shards.transaction_on("a", |conn| {
        insert(conn, 1)?;
        swap(conn, &mut other);
        Ok::<_, Error>(())
    });
    assert_unbalanced(result, "a");
    drop(other);
    assert_eq!(fleet.rows("b"), [0; 0]);
    fleet.assert_nothing_open("a");
    assert_eq!(fleet.rows("a"), [0; 0]);
}

#[test]
fn a_deep_stack_costs_each_route_the_same() {
    const DEPTH: usize = 50_000;
    let fleet = Fleet::new(&["a"]);
    let shards = fleet.manager();
    let route = shards.route("a").unwrap();
    // With a search of the stack at each step this takes minutes.
    let mut guards: Vec<_> = (0..DEPTH).map(|_| route.enter().unwrap()).collect();
    assert_eq!(Route::stack_depth(), DEPTH);
    assert!(shards.get().is_ok());
    while let Some(guard) = guards.pop() {
        drop(guard);
    }
    assert_eq!(Route::stack_depth(), 0);
}
