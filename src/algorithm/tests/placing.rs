//! Keys of every kind get one place, or one error.

use std::collections::HashMap;

use proptest::prelude::*;

use super::{build, names, place, shard};
use crate::algorithm::rule::PlaceError;
use crate::algorithm::{Normalize, Rule, RuleSpec};
use crate::error::Error;
use crate::key::{KeyType, ShardKey, ToShardKey};
use crate::name::KeyspaceName;

fn refused(rule: &Rule, key: impl ToShardKey) -> Error {
    let error = rule.place(&key.to_shard_key()).expect_err("no placement");
    error.into_error(KeyspaceName::intern("orders"))
}

#[test]
fn d01_modulo_of_negative_keys_is_euclidean() {
    for (key, count, expected) in [
        (-1i64, 4, "s3"),
        (-1, 32, "s31"),
        (-1, 3, "s2"),
        (-7, 4, "s1"),
        (-7, 32, "s25"),
        (-8, 4, "s0"),
        (-8, 32, "s24"),
        (-8, 3, "s1"),
    ] {
        let rule = build(&RuleSpec::modulo(names(count)));
        assert_eq!(shard(&rule, key), expected, "{key} modulo {count}");
    }
}

#[test]
fn d02_the_smallest_integer_has_a_place() {
    for (count, expected) in [(2, "s0"), (3, "s1"), (4, "s0"), (7, "s6"), (32, "s0")] {
        let rule = build(&RuleSpec::modulo(names(count)));
        assert_eq!(shard(&rule, i64::MIN), expected, "modulo {count}");
        let rule = build(&RuleSpec::hash(names(count), 4096));
        let _ = place(&rule, i64::MIN);
    }
    for count in [1, 2, 3, 7, 32] {
        let modulo = build(&RuleSpec::modulo(names(count)));
        let divisor = count as i128;
        for key in [
            i128::MIN,
            i128::MAX,
            i64::MIN.into(),
            i64::MAX.into(),
            u64::MAX.into(),
        ] {
            let placement = place(&modulo, key);
            let remainder = format!("s{}", key.rem_euclid(divisor));
            assert_eq!(placement.shard(), remainder.as_str());
            assert_eq!(placement.spread(), key.div_euclid(divisor) as u64);
        }
        let placement = place(&modulo, u128::MAX);
        let remainder = format!("s{}", u128::MAX % count as u128);
        assert_eq!(placement.shard(), remainder.as_str());
        assert_eq!(placement.spread(), (u128::MAX / count as u128) as u64);
    }
}

#[test]
fn d04_one_number_has_one_place_in_every_width() {
    for count in [7, 32] {
        for rule in [
            build(&RuleSpec::hash(names(count), 4096)),
            build(&RuleSpec::modulo(names(count))),
        ] {
            let seven = place(&rule, 7i64);
            assert_eq!(place(&rule, 7i16), seven);
            assert_eq!(place(&rule, 7i32), seven);
            assert_eq!(place(&rule, 7u32), seven);
            assert_eq!(place(&rule, 7u64), seven);
            assert_eq!(place(&rule, 7u128), seven);
            let minus_one = place(&rule, -1i64);
            assert_eq!(place(&rule, -1i16), minus_one);
            assert_eq!(place(&rule, -1i32), minus_one);
            assert_eq!(place(&rule, -1i128), minus_one);
        }
    }
}

#[test]
fn d05_text_is_never_taken_for_a_number() {
    let rule = build(&RuleSpec::hash(names(4), 4096));
    for text in ["1", " 1", "01", "1.0", ""] {
        let error = refused(&rule, text);
        assert!(matches!(
            error,
            Error::KeyType {
                expected: "integer",
                ..
            }
        ));
        assert_eq!(
            error.to_string(),
            "keyspace orders takes integer keys, not text (parse it into a number first)"
        );
    }
    let rule = build(&RuleSpec::hash(names(4), 4096).key(KeyType::Text));
    let error = refused(&rule, 1);
    assert_eq!(
        error.to_string(),
        "keyspace orders takes text keys, not integer"
    );
}

#[test]
fn d06_a_missing_key_has_no_place() {
    for rule in [
        build(&RuleSpec::hash(names(4), 4096)),
        build(&RuleSpec::modulo(names(4))),
        build(&RuleSpec::list([("s0", [1])])),
    ] {
        let error = refused(&rule, None::<i64>);
        assert!(matches!(error, Error::NullShardKey { .. }));
        assert_eq!(rule.place(&ShardKey::Null), Err(PlaceError::Null));
        // The text "null" is a text like any other.
        assert!(matches!(refused(&rule, "null"), Error::KeyType { .. }));
    }
}

#[test]
fn every_type_is_taken_by_its_own_keyspace_alone() {
    let of_type = [
        (KeyType::Integer, ShardKey::Integer(1)),
        (KeyType::Integer, u128::MAX.to_shard_key()),
        (KeyType::Text, "1".to_shard_key()),
        (KeyType::Uuid, ShardKey::Uuid([1; 16])),
        (KeyType::Bytes, ShardKey::Bytes(vec![1; 16].into())),
        (KeyType::Date, ShardKey::Date(1)),
        (
            KeyType::Timestamp,
            ShardKey::Timestamp {
                micros: 1,
                sub_micro_nanos: 0,
            },
        ),
    ];
    for (declared, _) in &of_type {
        let rule = build(&RuleSpec::hash(names(4), 4096).key(*declared));
        for (kind, key) in &of_type {
            let placed = rule.place(key);
            assert_eq!(placed.is_ok(), kind == declared, "{kind} of {declared}");
        }
        let error = refused(&rule, ShardKey::NaiveTimestamp);
        assert!(error.to_string().contains("`.and_utc()`"), "{error}");
        let fine = ShardKey::Timestamp {
            micros: 1,
            sub_micro_nanos: 1,
        };
        let error = refused(&rule, fine).to_string();
        let is_timestamp = *declared == KeyType::Timestamp;
        assert_eq!(
            error.contains("finer than a microsecond"),
            is_timestamp,
            "{error}"
        );
    }
}

#[test]
fn d08_d09_normalized_keys_share_a_place() {
    let spec = RuleSpec::hash(names(64), 4096).key(KeyType::Text);
    let plain = build(&spec);
    let folded = build(&spec.normalize([Normalize::Nfc, Normalize::Lowercase, Normalize::Trim]));
    for same in ["ABC", "abc ", "\tAbc"] {
        assert_eq!(place(&folded, same), place(&folded, "abc"));
        assert_ne!(place(&plain, same), place(&plain, "abc"));
    }
    assert_eq!(place(&folded, "E\u{301}"), place(&folded, "\u{e9}"));
    assert_ne!(place(&plain, "e\u{301}"), place(&plain, "\u{e9}"));
    assert_eq!(place(&folded, "abc"), place(&plain, "abc"));
}

#[test]
fn d14_hash_spreads_ids_whose_low_bits_are_constant() {
    // One snowflake id per 2 ms: the 12 low bits count the ids of a millisecond, so all are 0.
    let ids = (0..3200i64).map(|i| (1_700_000_000_000 + 2 * i) << 22);
    let hash = build(&RuleSpec::hash(names(32), 4096));
    let modulo = build(&RuleSpec::modulo(names(32)));
    let mut per_shard: HashMap<&str, usize> = HashMap::new();
    for id in ids {
        *per_shard.entry(shard(&hash, id)).or_default() += 1;
        assert_eq!(shard(&modulo, id), "s0");
    }
    assert_eq!(per_shard.len(), 32);
    assert!(per_shard.values().all(|ids| (50..=150).contains(ids)));
}

#[test]
fn shard_and_table_do_not_correlate() {
    for rule in [
        build(&RuleSpec::hash(names(4), 4096)),
        build(&RuleSpec::modulo(names(4))),
    ] {
        let mut pairs: HashMap<(&str, u32), usize> = HashMap::new();
        for key in 0..3200 {
            let placement = place(&rule, key);
            let pair = (placement.shard().as_str(), placement.table_number(8));
            *pairs.entry(pair).or_default() += 1;
        }
        assert_eq!(pairs.len(), 32);
        assert!(pairs.values().all(|keys| (50..=150).contains(keys)));
    }
}

#[test]
fn a_table_number_is_below_its_count() {
    let rule = build(&RuleSpec::modulo(names(1)));
    let placement = place(&rule, -1);
    assert_eq!(placement.spread(), u64::MAX);
    assert_eq!(placement.table_number(8), 7);
    assert_eq!(placement.table_number(1), 0);
    assert_eq!(placement.table_number(0), 0);
    assert_eq!(placement.table_number(u32::MAX), 0);
}

#[test]
fn a_list_places_what_it_lists_and_nothing_else() {
    let spec = RuleSpec::list([("eu", vec!["DE", " fr"]), ("us", vec!["US"])])
        .key(KeyType::Text)
        .normalize([Normalize::Lowercase, Normalize::Trim]);
    let rule = build(&spec);
    assert_eq!(shard(&rule, "de"), "eu");
    assert_eq!(shard(&rule, "FR"), "eu");
    assert_eq!(shard(&rule, "us "), "us");
    let error = refused(&rule, "GB");
    assert_eq!(
        error.to_string(),
        "no shard of keyspace orders covers the key \"GB\""
    );
    assert_eq!(place(&rule, "DE").spread(), place(&rule, "de").spread());
}

#[test]
fn the_parts_of_a_default_map_are_those_of_the_docs() {
    for (shards, buckets) in [(1, 1), (3, 10), (7, 4096), (4096, 4096), (3, 1 << 20)] {
        let rule = build(&RuleSpec::hash(names(shards), buckets));
        let (n, b) = (shards as u64, u64::from(buckets));
        let expected: Vec<_> = (0..n)
            .map(|i| {
                (
                    (i * b / n) as u32..((i + 1) * b / n) as u32,
                    format!("s{i}"),
                )
            })
            .collect();
        let found = rule.effective_map().expect("a map");
        let found: Vec<_> = found.into_iter().map(|(r, s)| (r, s.to_string())).collect();
        assert_eq!(found, expected);
    }
    assert_eq!(build(&RuleSpec::modulo(names(2))).effective_map(), None);
}

#[test]
fn a_written_map_decides_whatever_its_order() {
    let map = [(2048..4096, "s0"), (0..1024, "s0"), (1024..2048, "s1")];
    let rule = build(&RuleSpec::hash(names(3), 4096).map(map));
    let found = rule.effective_map().expect("a map");
    let found: Vec<_> = found.iter().map(|(r, s)| (r.clone(), s.as_str())).collect();
    assert_eq!(
        found,
        [(0..1024, "s0"), (1024..2048, "s1"), (2048..4096, "s0")]
    );
    assert_eq!(rule.shards().len(), 3);
    assert_eq!(rule.algorithm_name(), "hash");
}

fn any_key() -> impl Strategy<Value = ShardKey<'static>> {
    prop_oneof![
        any::<i128>().prop_map(ShardKey::Integer),
        any::<i64>().prop_map(|n| ShardKey::Integer(n.into())),
        any::<u128>().prop_map(ShardKey::from),
        any::<String>().prop_map(|text| ShardKey::Text(text.into())),
        any::<[u8; 16]>().prop_map(ShardKey::Uuid),
        any::<Vec<u8>>().prop_map(|bytes| ShardKey::Bytes(bytes.into())),
        any::<i32>().prop_map(ShardKey::Date),
        any::<i64>().prop_map(|micros| ShardKey::Timestamp {
            micros,
            sub_micro_nanos: 0
        }),
    ]
}

proptest! {
    #[test]
    fn bucket_and_spread_make_up_the_hash(
        key in any_key(), shards in 1usize..20, buckets in 20u32..10_000,
    ) {
        let value = key.value().expect("a key with a value");
        let rule = build(&RuleSpec::hash(names(shards), buckets).key(value.key_type()));
        let placement = place(&rule, &key);
        let hash = value.hash(0);
        let bucket = hash - placement.spread() * u64::from(buckets);
        prop_assert!(bucket < u64::from(buckets));
        let map = rule.effective_map().expect("a map");
        let owner = map.iter().find(|(range, _)| u64::from(range.start) <= bucket && bucket < u64::from(range.end));
        prop_assert_eq!(owner.map(|(_, shard)| *shard), Some(placement.shard()));
    }

    #[test]
    fn every_integer_is_placed_on_a_listed_shard(
        number: i128, big: u128, shards in 1usize..40,
    ) {
        for rule in [
            build(&RuleSpec::hash(names(shards), 4096)),
            build(&RuleSpec::modulo(names(shards))),
        ] {
            for key in [ShardKey::Integer(number), ShardKey::from(big)] {
                prop_assert!(rule.shards().contains(&place(&rule, key).shard()));
            }
        }
    }

    #[test]
    fn modulo_takes_a_number_apart(number: i64, shards in 1usize..40) {
        let rule = build(&RuleSpec::modulo(names(shards)));
        let placement = place(&rule, number);
        let remainder: i128 = placement.shard().as_str()[1..].parse().expect("a number");
        let quotient = placement.spread() as i64;
        prop_assert_eq!(i128::from(quotient) * shards as i128 + remainder, i128::from(number));
    }

    #[test]
    fn an_effective_map_is_total(shards in 1usize..100, buckets in 100u32..5000) {
        let map = build(&RuleSpec::hash(names(shards), buckets)).effective_map();
        let map = map.expect("a map");
        let mut next = 0;
        for (range, _) in &map {
            prop_assert_eq!(range.start, next);
            prop_assert!(!range.is_empty());
            next = range.end;
        }
        prop_assert_eq!(next, buckets);
        prop_assert_eq!(map.len(), shards);
    }

    #[test]
    fn a_written_default_map_places_alike(number: i64, shards in 1usize..20, buckets in 20u32..5000) {
        let plain = build(&RuleSpec::hash(names(shards), buckets));
        let map = plain.effective_map().expect("a map");
        let map = map.iter().map(|(range, shard)| (range.clone(), shard.as_str()));
        let written = build(&RuleSpec::hash(names(shards), buckets).map(map));
        prop_assert_eq!(place(&plain, number), place(&written, number));
        prop_assert_eq!(plain.fingerprint(&[]), written.fingerprint(&[]));
    }

    #[test]
    fn long_lists_are_searched_right(keys in proptest::collection::hash_set(any::<i64>(), 1..200)) {
        let keys: Vec<i64> = keys.into_iter().collect();
        let (a, b) = keys.split_at(keys.len() / 2);
        let rule = build(&RuleSpec::list([("a", a), ("b", b)]));
        for key in &keys {
            let expected = if a.contains(key) { "a" } else { "b" };
            prop_assert_eq!(shard(&rule, key), expected);
        }
    }
}
