//! D15 and D16 on ranges: edges, gaps, overlaps, and pruning that is exact.

use std::collections::BTreeSet;
use std::ops::Bound;

use proptest::prelude::*;

use super::{build, names, place, shard};
use crate::algorithm::point::KeyRange;
use crate::algorithm::rule::PlaceError;
use crate::algorithm::{RangeSpec, Rule, RuleSpec};
use crate::key::{CompositeType, KeyType, ShardKey, ToShardKey};

fn reached(rule: &Rule, bounds: (Bound<ShardKey<'_>>, Bound<ShardKey<'_>>)) -> BTreeSet<String> {
    let range = KeyRange::new(&bounds, rule.key_type()).expect("bounds of the type");
    let reach = range.map_or_else(Vec::new, |range| rule.reach(&range));
    reach.iter().map(|reach| reach.shard.to_string()).collect()
}

fn d15() -> RuleSpec {
    RuleSpec::range([
        RangeSpec::new("a", 0..100),
        RangeSpec::new("b", 100..200),
        RangeSpec::new("c", 300..),
    ])
}

#[test]
fn d15_a_boundary_is_in_one_range_and_a_gap_in_none() {
    let rule = build(&d15());
    for (key, expected) in [
        (-1, None),
        (0, Some("a")),
        (99, Some("a")),
        (100, Some("b")),
        (199, Some("b")),
        (200, None),
        (299, None),
        (300, Some("c")),
        (i64::MAX, Some("c")),
        (i64::MIN, None),
    ] {
        let found = rule.place(&key.to_shard_key());
        match expected {
            Some(name) => assert_eq!(found.expect("a placement").shard(), name, "{key}"),
            None => assert!(matches!(found, Err(PlaceError::NotCovered { .. })), "{key}"),
        }
    }
    assert_eq!(shard(&rule, i128::MAX), "c");
    assert_eq!(shard(&rule, u128::MAX), "c");
    assert!(rule.place(&i128::MIN.to_shard_key()).is_err());
    let warnings = rule.warnings(jiff::Timestamp::UNIX_EPOCH);
    assert_eq!(warnings.len(), 1);
    assert!(
        warnings[0]
            .message
            .contains("no shard has the keys 200..300")
    );
}

#[test]
fn d15_overlaps_are_refused_when_the_rule_is_built() {
    let problems = |ranges: Vec<RangeSpec>, key: KeyType| {
        let found = Rule::build(&RuleSpec::range(ranges).key(key)).expect_err("problems");
        found.into_iter().map(|p| p.message).collect::<Vec<_>>()
    };
    let closed = vec![RangeSpec::new("a", 0..101), RangeSpec::new("b", 100..201)];
    let found = problems(closed, KeyType::Integer);
    assert_eq!(found.len(), 1);
    assert!(
        found[0].starts_with("the ranges 0..101 of \"a\" and 100..201 of \"b\" overlap"),
        "{found:?}"
    );
    let backwards = std::ops::Range { start: 7, end: 3 };
    let all = vec![
        RangeSpec::new("a", 5..5),
        RangeSpec::new("a", backwards),
        RangeSpec::new("a", ..10),
        RangeSpec::new("b", ..0),
        RangeSpec::new("b", 9..),
    ];
    assert_eq!(problems(all, KeyType::Integer).len(), 4);
    let typed = vec![
        RangeSpec::new("a", "x".."y"),
        RangeSpec {
            shard: "b".into(),
            from: Some(ShardKey::Null),
            until: None,
        },
    ];
    let found = problems(typed, KeyType::Integer);
    assert_eq!(found.len(), 3, "{found:#?}");
    assert!(found[0].contains("is text, but the keys of this keyspace are integer"));
    assert!(found[2].contains("is no key"));
    let none: [RangeSpec; 0] = [];
    assert!(Rule::build(&RuleSpec::range(none)).is_err());
}

#[test]
fn every_type_has_an_order() {
    let text = build(
        &RuleSpec::range([
            RangeSpec::new("a", .."m"),
            RangeSpec::new("b", "m".."é"),
            RangeSpec::new("c", "é"..),
        ])
        .key(KeyType::Text),
    );
    for (key, expected) in [
        ("", "a"),
        ("Z", "a"),
        ("lzz", "a"),
        ("m", "b"),
        ("zz", "b"),
        ("é", "c"),
        ("用户", "c"),
    ] {
        assert_eq!(shard(&text, key), expected, "{key}");
    }
    let uuid = |first: u8| ShardKey::Uuid([first; 16]);
    let uuids = build(
        &RuleSpec::range([
            RangeSpec::new("a", ..uuid(0x80)),
            RangeSpec::new("b", uuid(0x80)..),
        ])
        .key(KeyType::Uuid),
    );
    assert_eq!(shard(&uuids, uuid(0x7f)), "a");
    assert_eq!(shard(&uuids, uuid(0x80)), "b");
    let big = 1_u128 << 127;
    let wide = build(&RuleSpec::range([
        RangeSpec::new("a", ..i128::MIN + 1),
        RangeSpec {
            shard: "b".into(),
            from: Some(ShardKey::Integer(i128::MIN + 1)),
            until: Some(ShardKey::from(big + 5)),
        },
        RangeSpec::new("c", big + 5..),
    ]));
    assert_eq!(shard(&wide, i128::MIN), "a");
    assert_eq!(shard(&wide, 0), "b");
    assert_eq!(shard(&wide, i128::MAX), "b");
    assert_eq!(shard(&wide, big + 4), "b");
    assert_eq!(shard(&wide, u128::MAX), "c");
    let days = build(
        &RuleSpec::range([
            RangeSpec::new("a", ..ShardKey::Date(0)),
            RangeSpec::new("b", ShardKey::Date(0)..),
        ])
        .key(KeyType::Date),
    );
    assert_eq!(shard(&days, ShardKey::Date(i32::MIN)), "a");
    assert_eq!(shard(&days, ShardKey::Date(i32::MAX)), "b");
}

#[test]
fn composite_keys_are_ordered_by_their_parts() {
    let types = CompositeType::new([KeyType::Text, KeyType::Integer]).expect("two parts");
    let rule = build(
        &RuleSpec::range([
            RangeSpec::new("a", ..("m", 5)),
            RangeSpec::new("b", ("m", 5)..),
        ])
        .key(types.into()),
    );
    for (key, expected) in [
        (("", i64::MAX), "a"),
        (("m", 4), "a"),
        (("m", 5), "b"),
        (("m\0", i64::MIN), "b"),
        (("lzzzz", 900), "a"),
    ] {
        assert_eq!(shard(&rule, key), expected, "{key:?}");
    }
    let within = |from, until| reached(&rule, (Bound::Included(from), Bound::Excluded(until)));
    let key = |text: &'static str, number: i64| (text, number).to_shard_key().into_owned();
    assert_eq!(within(key("a", 0), key("m", 5)), ["a".to_owned()].into());
    assert_eq!(within(key("m", 4), key("m", 6)).len(), 2);
    assert_eq!(
        reached(&rule, (Bound::Excluded(key("m", 4)), Bound::Unbounded)),
        ["b".to_owned()].into()
    );
    assert!(within(key("x", 0), key("b", 0)).is_empty());
    // The parts' ends do not run into each other, and null anywhere is a missing key.
    let hash = build(&RuleSpec::hash(names(4), 4096).key(types.into()));
    assert_ne!(place(&hash, ("ab", 1)), place(&hash, ("a", 1)));
    assert!(matches!(
        hash.place(&("a", None::<i64>).to_shard_key()),
        Err(PlaceError::Null)
    ));
    for wrong in [
        ("a", "b").to_shard_key(),
        ("a", 1, 1).to_shard_key(),
        (1, "a").to_shard_key(),
        "a".to_shard_key(),
        (("a", 1), 1).to_shard_key(),
    ] {
        assert!(
            matches!(hash.place(&wrong), Err(PlaceError::Type { .. })),
            "{wrong}"
        );
    }
}

#[test]
fn empty_and_open_ranges_are_pruned_exactly() {
    use Bound::{Excluded, Included, Unbounded};
    let rule = build(&d15());
    let key = |number: i128| ShardKey::Integer(number);
    for (from, until, expected) in [
        (Unbounded, Unbounded, "abc"),
        (Included(key(100)), Included(key(99)), ""),
        (Excluded(key(99)), Excluded(key(100)), ""),
        (Excluded(key(99)), Included(key(100)), "b"),
        (Included(key(99)), Excluded(key(100)), "a"),
        (Included(key(200)), Excluded(key(300)), ""),
        (Included(key(200)), Included(key(300)), "c"),
        (Unbounded, Excluded(key(0)), ""),
        (Unbounded, Included(key(0)), "a"),
        (Excluded(ShardKey::from(u128::MAX)), Unbounded, ""),
        (Included(ShardKey::from(u128::MAX)), Unbounded, "c"),
        (Excluded(key(i128::MAX)), Unbounded, "c"),
        (Unbounded, Excluded(key(i128::MIN)), ""),
        (Included(key(50)), Excluded(key(150)), "ab"),
    ] {
        let found: String = reached(&rule, (from.clone(), until.clone()))
            .into_iter()
            .collect();
        assert_eq!(found, expected, "{from:?} {until:?}");
    }
    assert!(KeyRange::new(&("a".."b"), KeyType::Integer).is_err());
    assert!(KeyRange::new(&(Some(1)..None), KeyType::Integer).is_err());
}

#[test]
fn a_normalized_rule_prunes_nothing_but_single_keys() {
    let spec = RuleSpec::range([RangeSpec::new("a", .."m"), RangeSpec::new("b", "m"..)])
        .key(KeyType::Text)
        .normalize([crate::algorithm::Normalize::Lowercase]);
    let rule = build(&spec);
    let text = |text: &'static str| text.to_shard_key();
    // "X" is before "a" by its bytes, and on the shard of "x".
    let wide = reached(
        &rule,
        (Bound::Included(text("A")), Bound::Excluded(text("a"))),
    );
    assert_eq!(wide.len(), 2);
    let one = reached(
        &rule,
        (Bound::Included(text("X")), Bound::Included(text("X"))),
    );
    assert_eq!(one, ["b".to_owned()].into());
}

/// Non-overlapping ranges with gaps, made of rising cuts, over few shards.
fn cut_ranges() -> impl Strategy<Value = Vec<RangeSpec>> {
    (
        proptest::collection::btree_set(-60i64..60, 1..12),
        proptest::collection::vec(0u8..5, 14),
        any::<bool>(),
        any::<bool>(),
    )
        .prop_map(|(cuts, owners, open_low, open_high)| {
            let cuts: Vec<i64> = cuts.into_iter().collect();
            let mut ranges = Vec::new();
            for (i, owner) in owners.into_iter().enumerate().take(cuts.len() + 1) {
                let from = i.checked_sub(1).map(|before| cuts[before]);
                let until = cuts.get(i).copied();
                let open = (from.is_none() && !open_low) || (until.is_none() && !open_high);
                if owner < 3 && !open {
                    ranges.push(RangeSpec {
                        shard: format!("s{owner}"),
                        from: from.map(|n| n.to_shard_key().into_owned()),
                        until: until.map(|n| n.to_shard_key().into_owned()),
                    });
                }
            }
            ranges
        })
        .prop_filter("at least one range", |ranges| !ranges.is_empty())
}

fn any_bound() -> impl Strategy<Value = Bound<i64>> {
    prop_oneof![
        Just(Bound::Unbounded),
        (-70i64..70).prop_map(Bound::Included),
        (-70i64..70).prop_map(Bound::Excluded),
    ]
}

proptest! {
    #[test]
    fn d16_pruning_agrees_with_looking_at_every_key(
        ranges in cut_ranges(), from in any_bound(), until in any_bound(),
    ) {
        let rule = build(&RuleSpec::range(ranges.clone()));
        let bounds = (from.map(|n| n.to_shard_key().into_owned()), until.map(|n| n.to_shard_key().into_owned()));
        let pruned = reached(&rule, bounds);
        let mut looked = BTreeSet::new();
        // Beyond these keys nothing changes any more.
        for key in -100i64..100 {
            let inside = std::ops::RangeBounds::<i64>::contains(&(from, until), &key);
            let placed = rule.place(&key.to_shard_key());
            let listed = ranges.iter().find(|range| {
                range.from.as_ref().is_none_or(|from| *from == ShardKey::Integer(key.into()) || matches!(from, ShardKey::Integer(n) if *n <= key.into()))
                    && range.until.as_ref().is_none_or(|until| matches!(until, ShardKey::Integer(n) if i128::from(key) < *n))
            });
            let placed = placed.ok().map(|placement| placement.shard().to_string());
            prop_assert_eq!(placed.clone(), listed.map(|range| range.shard.clone()));
            if let Some(placed) = placed.filter(|_| inside) {
                looked.insert(placed);
            }
        }
        prop_assert_eq!(pruned, looked);
    }

    #[test]
    fn text_ranges_are_pruned_exactly(
        cuts in proptest::collection::btree_set("[ab\0]{0,3}", 1..5),
        from in "[ab\0]{0,3}", until in "[ab\0]{0,3}", closed: bool, after: bool,
    ) {
        let cuts: Vec<String> = cuts.into_iter().collect();
        let ranges = (0..=cuts.len()).map(|i| RangeSpec {
            shard: format!("s{i}"),
            from: i.checked_sub(1).map(|before| cuts[before].to_shard_key().into_owned()),
            until: cuts.get(i).map(|cut| cut.to_shard_key().into_owned()),
        });
        let ranges: Vec<RangeSpec> = ranges
            .filter(|range| range.from.is_some() || range.until != Some("".to_shard_key()))
            .collect();
        let rule = build(&RuleSpec::range(ranges).key(KeyType::Text));
        let low = if after { Bound::Excluded(&from) } else { Bound::Included(&from) };
        let high = if closed { Bound::Included(&until) } else { Bound::Excluded(&until) };
        let pruned = reached(&rule, (low.map(|t| t.to_shard_key()), high.map(|t| t.to_shard_key())));
        // Every text of up to five of these letters, which is dense enough for bounds of three.
        let mut texts = vec![String::new()];
        let mut looked = BTreeSet::new();
        for _ in 0..5 {
            let longer = texts.iter().flat_map(|text| ['\0', 'a', 'b'].map(|c| format!("{text}{c}")));
            let longer: BTreeSet<String> = longer.chain(texts.iter().cloned()).collect();
            texts = longer.into_iter().collect();
        }
        for text in &texts {
            if std::ops::RangeBounds::<String>::contains(&(low, high), text) {
                looked.insert(shard(&rule, text.as_str()).to_owned());
            }
        }
        prop_assert_eq!(pruned, looked);
    }

    #[test]
    fn few_keys_are_placed_one_by_one_and_many_go_everywhere(from in -5_000i64..5_000, length in 0i64..3_000) {
        for spec in [RuleSpec::hash(names(9), 64), RuleSpec::jump(names(9)), RuleSpec::modulo(names(9)), RuleSpec::ring(names(9)).points(5)] {
            let rule = build(&spec);
            let key = |n: i64| n.to_shard_key().into_owned();
            let pruned = reached(&rule, (Bound::Included(key(from)), Bound::Excluded(key(from + length))));
            let looked: BTreeSet<String> = (from..from + length).map(|key| shard(&rule, key).to_owned()).collect();
            if length <= 1_024 {
                prop_assert_eq!(pruned, looked);
            } else {
                prop_assert!(pruned.is_superset(&looked));
            }
        }
    }

    #[test]
    fn lists_are_pruned_to_their_keys(keys in proptest::collection::btree_set(-50i64..50, 1..30), from in any_bound(), until in any_bound()) {
        let keys: Vec<i64> = keys.into_iter().collect();
        let rule = build(&RuleSpec::list(keys.iter().map(|key| (format!("s{}", key.rem_euclid(5)), [*key]))));
        let bounds = (from.map(|n| n.to_shard_key().into_owned()), until.map(|n| n.to_shard_key().into_owned()));
        let inside = keys.iter().filter(|key| std::ops::RangeBounds::<i64>::contains(&(from, until), *key));
        let looked: BTreeSet<String> = inside.map(|key| format!("s{}", key.rem_euclid(5))).collect();
        prop_assert_eq!(reached(&rule, bounds), looked);
    }
}
