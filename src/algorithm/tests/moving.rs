//! D12: consistent hashes go by names, and a change of the shards moves what it must and no more.

use proptest::prelude::*;

use super::{build, names, place, shard};
use crate::algorithm::{Rule, RuleSpec};
use crate::key::KeyType;

const KEYS: i64 = 10_000;

fn ring(shards: &[&str]) -> Rule {
    build(&RuleSpec::ring(shards.iter().copied()))
}

/// All orders of a list.
fn orders<'n>(names: &[&'n str]) -> Vec<Vec<&'n str>> {
    if names.is_empty() {
        return vec![Vec::new()];
    }
    let mut all = Vec::new();
    for (i, name) in names.iter().enumerate() {
        let mut rest = names.to_vec();
        rest.remove(i);
        for mut order in orders(&rest) {
            order.push(name);
            all.push(order);
        }
    }
    all
}

#[test]
fn d12_the_order_of_listing_does_not_move_a_key_of_a_ring() {
    let orders = orders(&["a", "b", "c", "d"]);
    assert_eq!(orders.len(), 24);
    let first = ring(&orders[0]);
    for order in &orders {
        let rule = ring(order);
        assert_eq!(rule.fingerprint(&[]), first.fingerprint(&[]));
        for key in 0..KEYS {
            assert_eq!(place(&rule, key), place(&first, key), "{order:?} {key}");
        }
    }
}

/// How many keys moved, each of which must have moved to `to`.
fn moved(before: &Rule, after: &Rule, to: &str) -> i64 {
    let mut moved = 0;
    for key in 0..KEYS {
        let (from, now) = (place(before, key), place(after, key));
        if from.shard() != now.shard() {
            assert_eq!(now.shard(), to, "{key}");
            moved += 1;
        }
        // The tables of a shard are not touched by who else is there.
        assert_eq!(from.spread(), now.spread());
    }
    moved
}

#[test]
fn a_shard_that_joins_takes_its_part_and_moves_nothing_else() {
    for count in [1, 2, 3, 7, 15, 63] {
        let fair = KEYS / (count as i64 + 1);
        for (before, after) in [
            (
                RuleSpec::jump(names(count)),
                RuleSpec::jump(names(count + 1)),
            ),
            (
                RuleSpec::ring(names(count)),
                RuleSpec::ring(names(count + 1)),
            ),
        ] {
            let moved = moved(&build(&before), &build(&after), &format!("s{count}"));
            assert!(
                (fair / 2..=fair * 3 / 2).contains(&moved),
                "{count}: {moved} of {fair}"
            );
        }
    }
}

#[test]
fn a_shard_of_a_ring_may_leave_from_anywhere() {
    let (all, without) = (ring(&["a", "b", "c", "d"]), ring(&["d", "a", "c"]));
    for key in 0..KEYS {
        let before = place(&all, key);
        if before.shard() != "b" {
            assert_eq!(place(&without, key), before);
        }
    }
}

#[test]
fn weights_are_shares_of_a_ring() {
    let rule = build(
        &RuleSpec::ring(["a", "b", "c"])
            .weight("a", 2)
            .weight("c", 0),
    );
    let of = |name: &str| (0..KEYS).filter(|key| shard(&rule, *key) == name).count();
    let (a, b) = (of("a"), of("b"));
    assert_eq!(of("c"), 0);
    assert!((5_800..=7_500).contains(&a), "{a} and {b}");
    // Who weighs nothing might as well not be listed.
    let two = build(&RuleSpec::ring(["b", "a"]).weight("a", 2));
    assert_eq!(rule.fingerprint(&[]), two.fingerprint(&[]));
    for key in 0..KEYS {
        assert_eq!(place(&rule, key), place(&two, key));
    }
}

#[test]
fn what_is_wrong_with_a_ring_is_said() {
    let problems = |spec: RuleSpec| {
        let found = Rule::build(&spec).expect_err("a rule with problems");
        let lines = found.into_iter();
        lines
            .map(|p| format!("{}: {}", p.key, p.message))
            .collect::<Vec<_>>()
    };
    let two = || RuleSpec::ring(["order-0", "order-1"]);
    for (spec, beginning) in [
        (two().points(0), "algorithm.points: a shard needs points"),
        (
            two().points(u32::MAX),
            "algorithm.points: 4294967295 points for a total weight of 2",
        ),
        (
            two()
                .weight("order-0", u32::MAX)
                .weight("order-1", u32::MAX),
            "algorithm.points: 160 points for a total weight",
        ),
        (
            two().weight("order-0", 0).weight("order-1", 0),
            "algorithm.weights: every shard has the weight 0",
        ),
        (
            two().weight("ordr-1", 2),
            "algorithm.weights: a weight is given for \"ordr-1\", which is not listed in `shards`: did you mean \"order-1\"?",
        ),
        (
            two().weight("order-0", 2).weight("order-0", 3),
            "algorithm.weights: \"order-0\" has more than one weight",
        ),
        (
            RuleSpec::jump(["a"]).weight("a", 1),
            "algorithm.weights: `weights` has no meaning for `jump`",
        ),
    ] {
        let found = problems(spec);
        assert_eq!(found.len(), 1, "{found:#?}");
        assert!(found[0].starts_with(beginning), "{found:?}");
    }
}

#[test]
fn one_point_makes_a_ring() {
    let rule = build(&RuleSpec::ring(["only"]).points(1));
    for key in [i64::MIN, -1, 0, 1, i64::MAX] {
        assert_eq!(shard(&rule, key), "only");
    }
}

proptest! {
    #[test]
    fn jump_and_ring_answer_with_a_listed_shard(
        number: i128, text: String, shards in 1usize..200,
    ) {
        for spec in [RuleSpec::jump(names(shards)), RuleSpec::ring(names(shards)).points(3)] {
            let rule = build(&spec);
            prop_assert!(rule.shards().contains(&place(&rule, number).shard()));
            let rule = build(&spec.key(KeyType::Text));
            prop_assert!(rule.shards().contains(&place(&rule, text.as_str()).shard()));
        }
    }

    /// The search of the ring by its index, against looking at every point.
    #[test]
    fn a_ring_is_searched_right(points in 1u32..40, shards in 1usize..20, keys in proptest::collection::vec(any::<i64>(), 20)) {
        let rule = build(&RuleSpec::ring(names(shards)).points(points));
        let mut all: Vec<(u64, String)> = Vec::new();
        for name in names(shards) {
            for number in 0..u64::from(points) {
                let mut text = name.clone().into_bytes();
                text.push(0);
                text.extend(number.to_le_bytes());
                all.push((xxhash_rust::xxh3::xxh3_64(&text), name.clone()));
            }
        }
        all.sort();
        for key in keys {
            let shard_key = crate::key::ShardKey::Integer(key.into());
            let hash = shard_key.value().expect("a value").hash(0);
            let owner = all.iter().find(|(point, _)| *point >= hash).unwrap_or(&all[0]);
            prop_assert_eq!(shard(&rule, key), owner.1.as_str());
        }
    }
}
