//! What is wrong with a rule is found when it is built, all of it at once.

use super::names;
use crate::algorithm::{AlgorithmSpec, Normalize, Rule, RuleSpec};
use crate::key::{KeyType, ShardKey, ToShardKey};

fn problems(spec: &RuleSpec) -> Vec<String> {
    let problems = Rule::build(spec).expect_err("a rule with problems");
    let lines = problems.into_iter();
    lines.map(|p| format!("{}: {}", p.key, p.message)).collect()
}

/// Each line of `expected` is the beginning of one problem.
fn assert_problems(spec: &RuleSpec, expected: &[&str]) {
    let found = problems(spec);
    assert_eq!(found.len(), expected.len(), "{found:#?}");
    for (found, expected) in found.iter().zip(expected) {
        assert!(found.starts_with(expected), "{found}\n{expected}");
    }
}

#[test]
fn shards_are_there_and_named_once() {
    let none: [&str; 0] = [];
    assert_problems(&RuleSpec::hash(none, 4096), &["shards: no shard is listed"]);
    assert_problems(&RuleSpec::modulo(none), &["shards: no shard is listed"]);
    assert_problems(
        &RuleSpec::hash(["a", "b", "a", "a"], 4096),
        &["shards: \"a\" is listed more than once"],
    );
    assert_problems(
        &RuleSpec::hash(names(70_000), 1 << 20),
        &["shards: 70000 shards are listed: a keyspace has at most 65536"],
    );
    let most = RuleSpec::hash(names(65_536), 1 << 20);
    assert!(Rule::build(&most).is_ok());
}

#[test]
fn buckets_are_enough_and_not_too_many() {
    let range = "algorithm.buckets: ";
    assert_problems(&RuleSpec::hash(["a"], 0), &[range]);
    assert_problems(&RuleSpec::hash(["a"], (1 << 20) + 1), &[range]);
    assert_problems(
        &RuleSpec::hash(["a", "b", "c"], 2),
        &["algorithm.buckets: 2 bucket(s) are too few for 3 shards"],
    );
    // A shard that is emptied, or not yet filled, may be listed.
    let drained = RuleSpec::hash(["a", "b", "c"], 2).map([(0..1, "b"), (1..2, "c")]);
    assert!(Rule::build(&drained).is_ok());
}

#[test]
fn a_map_gives_each_bucket_one_owner() {
    let map = |ranges: Vec<(std::ops::Range<u32>, &str)>| {
        RuleSpec::hash(["order-0", "order-1"], 100).map(ranges)
    };
    assert_problems(
        &map(vec![]),
        &["algorithm.map: no shard owns the buckets 0..100"],
    );
    assert_problems(
        &map(vec![(10..50, "order-0"), (60..90, "order-1")]),
        &[
            "algorithm.map: no shard owns the buckets 0..10",
            "algorithm.map: no shard owns the buckets 50..60",
            "algorithm.map: no shard owns the buckets 90..100",
        ],
    );
    assert_problems(
        &map(vec![
            (40..100, "order-1"),
            (0..50, "order-0"),
            (10..20, "order-1"),
        ]),
        &[
            "algorithm.map: the ranges 0..50 of \"order-0\" and 10..20 of \"order-1\" overlap",
            "algorithm.map: the ranges 0..50 of \"order-0\" and 40..100 of \"order-1\" overlap",
        ],
    );
    assert_problems(
        &map(vec![
            (0..50, "order-0"),
            (0..50, "order-0"),
            (50..100, "order-1"),
        ]),
        &["algorithm.map: the ranges 0..50 of \"order-0\" and 0..50 of \"order-0\" overlap"],
    );
    assert_problems(
        &map(vec![(0..50, "order-0"), (50..101, "order-1")]),
        &["algorithm.map: the range 50..101 of \"order-1\" leaves the 100 buckets"],
    );
    assert_problems(
        &map(vec![(0..100, "order-0"), (200..u32::MAX, "order-1")]),
        &["algorithm.map: the range 200..4294967295 of \"order-1\" leaves the 100 buckets"],
    );
    let reversed = std::ops::Range { start: 7, end: 3 };
    assert_problems(
        &map(vec![
            (0..100, "order-0"),
            (5..5, "order-1"),
            (reversed, "order-1"),
        ]),
        &[
            "algorithm.map: the range 5..5 of \"order-1\" holds no bucket",
            "algorithm.map: the range 7..3 of \"order-1\" holds no bucket",
        ],
    );
    assert_problems(
        &map(vec![(0..50, "order-0"), (50..100, "ordr-1")]),
        &[
            "algorithm.map: the map gives the buckets 50..100 to \"ordr-1\", which is not listed in `shards`: did you mean \"order-1\"?",
        ],
    );
}

#[test]
fn modulo_divides_integers_by_the_number_of_shards() {
    assert!(Rule::build(&RuleSpec::modulo(names(4)).count(4)).is_ok());
    for count in [0, 3, 8] {
        let expected = format!("algorithm.count: the count is {count}, but 4 shard(s) are listed");
        assert_problems(&RuleSpec::modulo(names(4)).count(count), &[&expected]);
    }
    assert_problems(
        &RuleSpec::modulo(names(4)).key(KeyType::Uuid),
        &["algorithm.kind: `modulo` divides integers, and the keys of this keyspace are uuid"],
    );
}

#[test]
fn listed_keys_are_of_one_type_and_have_one_shard() {
    let nothing: [(&str, [i64; 0]); 1] = [("a", [])];
    assert_problems(
        &RuleSpec::list(nothing),
        &["algorithm.values: no key is listed"],
    );
    let values: Vec<(String, Vec<ShardKey<'static>>)> = vec![
        (
            "a".into(),
            vec![1.to_shard_key().into_owned(), ShardKey::Null],
        ),
        (
            "b".into(),
            vec!["x".to_shard_key().into_owned(), ShardKey::Integer(1)],
        ),
        ("c".into(), vec![ShardKey::Integer(2), ShardKey::Integer(2)]),
    ];
    assert_problems(
        &RuleSpec::new(["a", "b"], AlgorithmSpec::List { values }),
        &[
            "algorithm.values: null is listed for \"a\"",
            "algorithm.values: \"x\" of \"b\" is text, but the keys of this keyspace are integer",
            "algorithm.values: the key 1 is listed for both \"a\" and \"b\"",
            "algorithm.values: keys are listed for \"c\", which is not listed in `shards`",
            "algorithm.values: the key 2 is listed twice for \"c\"",
        ],
    );
    let folded = RuleSpec::list([("a", ["DE"]), ("b", ["de"])]).key(KeyType::Text);
    assert!(Rule::build(&folded).is_ok());
    assert_problems(
        &folded.normalize([Normalize::Lowercase]),
        &["algorithm.values: the key \"de\" is listed for both \"a\" and \"b\""],
    );
}

#[test]
fn settings_that_mean_nothing_are_not_dropped() {
    assert_problems(
        &RuleSpec::hash(["a"], 16).count(1),
        &["algorithm.count: `count` has no meaning for `hash`"],
    );
    assert_problems(
        &RuleSpec::modulo(["a"]).map([(0..1, "a")]),
        &["algorithm.map: `map` has no meaning for `modulo`"],
    );
    assert_problems(
        &RuleSpec::hash(["a"], 16).normalize([Normalize::Trim]),
        &["normalize: only text keys can be normalized, and these are integer"],
    );
}

#[test]
fn everything_is_reported_at_once() {
    assert_problems(
        &RuleSpec::hash(["a", "a"], 10)
            .key(KeyType::Date)
            .normalize([Normalize::Nfc])
            .map([(0..5, "b"), (4..9, "a")])
            .count(2),
        &[
            "shards: ",
            "normalize: ",
            "algorithm.count: ",
            "algorithm.map: the map gives the buckets 0..5 to \"b\"",
            "algorithm.map: the ranges 0..5 of \"b\" and 4..9 of \"a\" overlap",
            "algorithm.map: no shard owns the buckets 9..10",
        ],
    );
}
