//! A fingerprint changes exactly when placement does.

use super::build;
use crate::algorithm::{Normalize, RuleSpec};
use crate::key::KeyType;

fn of(spec: &RuleSpec) -> String {
    build(spec).fingerprint(&[]).to_string()
}

fn with_map() -> RuleSpec {
    RuleSpec::hash(["a", "b"], 64).map([(0..32, "a"), (32..64, "b")])
}

#[test]
fn what_changes_nothing_changes_no_fingerprint() {
    let plain = of(&RuleSpec::hash(["a", "b"], 64));
    assert_eq!(of(&with_map()), plain);
    let pieces = [(48..64, "b"), (0..16, "a"), (32..48, "b"), (16..32, "a")];
    assert_eq!(of(&RuleSpec::hash(["b", "a"], 64).map(pieces)), plain);
    // Appended to a keyspace with a written map, a shard owns nothing.
    let appended = RuleSpec::hash(["a", "b", "c"], 64).map([(0..32, "a"), (32..64, "b")]);
    assert_eq!(of(&appended), plain);

    let text = RuleSpec::hash(["a", "b"], 64).key(KeyType::Text);
    let one = [Normalize::Trim, Normalize::Nfc];
    let other = [Normalize::Nfc, Normalize::Trim, Normalize::Trim];
    assert_eq!(of(&text.clone().normalize(one)), of(&text.normalize(other)));

    let list = RuleSpec::list([("a", vec![1, 2]), ("b", vec![3])]);
    let turned = RuleSpec::list([("b", vec![3]), ("a", vec![2, 1])]);
    assert_eq!(of(&list), of(&turned));

    let counted = RuleSpec::modulo(["a", "b"]).count(2);
    assert_eq!(of(&counted), of(&RuleSpec::modulo(["a", "b"])));
}

#[test]
fn what_moves_a_key_changes_the_fingerprint() {
    let text = || RuleSpec::hash(["a", "b"], 64).key(KeyType::Text);
    let all = [
        of(&RuleSpec::hash(["a", "b"], 64)),
        of(&RuleSpec::hash(["b", "a"], 64)),
        of(&RuleSpec::hash(["a", "b"], 128)),
        of(&RuleSpec::hash(["a", "b", "c"], 64)),
        of(&RuleSpec::hash(["a"], 64)),
        of(&RuleSpec::hash(["a", "b"], 64).map([(0..33, "a"), (33..64, "b")])),
        of(&RuleSpec::hash(["a", "b"], 64).key(KeyType::Date)),
        of(&text()),
        of(&text().normalize([Normalize::Trim])),
        of(&text().normalize([Normalize::Nfc])),
        of(&text().normalize([Normalize::Trim, Normalize::Lowercase])),
        of(&RuleSpec::modulo(["a", "b"])),
        of(&RuleSpec::modulo(["b", "a"])),
        of(&RuleSpec::modulo(["a", "b", "c"])),
        of(&RuleSpec::list([("a", vec![1]), ("b", vec![2])])),
        of(&RuleSpec::list([("a", vec![2]), ("b", vec![1])])),
        of(&RuleSpec::list([("a", vec![1]), ("b", vec![2, 3])])),
    ];
    let different: std::collections::HashSet<_> = all.iter().collect();
    assert_eq!(different.len(), all.len());
}

#[test]
fn tables_are_part_of_it_in_any_order() {
    let rule = build(&with_map());
    let orders = ("orders", "user_id", 8);
    let items = ("items", "user_id", 8);
    let both = rule.fingerprint(&[orders, items]);
    assert_eq!(both, rule.fingerprint(&[items, orders]));
    for other in [
        rule.fingerprint(&[]),
        rule.fingerprint(&[orders]),
        rule.fingerprint(&[orders, ("items", "user_id", 4)]),
        rule.fingerprint(&[orders, ("items", "order_id", 8)]),
        rule.fingerprint(&[orders, ("item", "user_id", 8)]),
    ] {
        assert_ne!(both, other);
    }
}

/// Fingerprints are stored in databases: a changed text form would refuse every one of them. These
/// were computed from the documented text by the C reference implementation of xxHash.
#[test]
fn fingerprints_are_frozen() {
    let tables = [("orders", "user_id", 8), ("items", "user_id", 1)];
    let fingerprint = build(&with_map()).fingerprint(&tables);
    assert_eq!(
        fingerprint.to_string(),
        "v1-1b5cb00fd85dca3906a10ca3c27f53d8"
    );
    assert_eq!(format!("{fingerprint:?}"), fingerprint.to_string());
    assert_eq!(
        of(&RuleSpec::modulo(["a", "b"])),
        "v1-4d1c15351f959503b70d3d85b2c43b4e"
    );
    let list = RuleSpec::list([("eu", vec!["DE", "FR"]), ("us", vec!["US"])])
        .key(KeyType::Text)
        .normalize([Normalize::Lowercase, Normalize::Trim]);
    assert_eq!(of(&list), "v1-6c75cf84d2ab127ef527ee78900401a7");
}

/// The text that is hashed, written out for every kind that has parameters of its own: it follows the
/// table in the documentation of `Fingerprint`, and a changed line would refuse every database.
#[test]
fn every_kind_has_a_frozen_text() {
    use crate::algorithm::fingerprint::canonical_text;
    use crate::algorithm::{
        CompatSpec, CustomPlace, DateSpec, Layout, RangeSpec, Rounding, ShardingAlgorithm, System,
    };
    use crate::key::{CompositeType, ShardKey};

    #[derive(Debug)]
    struct Nowhere;
    impl ShardingAlgorithm for Nowhere {
        fn place(&self, _: &ShardKey<'_>, _: usize) -> Option<CustomPlace> {
            None
        }
    }

    let text = |spec: &RuleSpec| canonical_text(&build(spec), &[("t", "k", 0)]);
    let head =
        |key: &str, kind: &str| format!("diesel-sharded rule v1\nkey {key}\nalgorithm {kind}\n");
    let tail = "table 1:t 1:k rule\n";
    let types = CompositeType::new([KeyType::Text, KeyType::Integer]).expect("two parts");
    let one = "0101000000000000000000000000000000";
    for (spec, key, kind, lines) in [
        (
            RuleSpec::jump(["b", "a"]),
            "integer",
            "jump",
            "shard 1:b\nshard 1:a\n".to_owned(),
        ),
        (
            RuleSpec::ring(["b", "a", "c"])
                .weight("b", 3)
                .weight("c", 0)
                .points(7),
            "integer",
            "ring",
            "points 7\nweight 1 1:a\nweight 3 1:b\n".to_owned(),
        ),
        (
            RuleSpec::range([RangeSpec::new("b", 1..), RangeSpec::new("a", ..1)]),
            "integer",
            "range",
            format!("keys - {one} 1:a\nkeys {one} - 1:b\n"),
        ),
        (
            RuleSpec::jump(["a"]).key(types.into()),
            "(text, integer)",
            "jump",
            "shard 1:a\n".to_owned(),
        ),
        (
            RuleSpec::date(
                ["b", "a"],
                DateSpec::monthly()
                    .from("2024-01")
                    .until("2025-01")
                    .zone("UTC")
                    .precision(3, Rounding::Mariadb),
            ),
            "timestamp",
            "date",
            "every month\nzone UTC\nprecision 3 mariadb\nshard 1:b\nshard 1:a\n".to_owned(),
        ),
        (
            RuleSpec::compat(
                ["b", "a"],
                CompatSpec::new(System::ShardingSphereMod { count: 4 }).layout(Layout::Blocks),
            ),
            "integer",
            "compat",
            "system shardingsphere-mod\ncount 4\nlayout blocks\nshard 1:b\nshard 1:a\n".to_owned(),
        ),
        (
            RuleSpec::custom(["b", "a"], "mine", Nowhere),
            "integer",
            "custom",
            "name 4:mine\nshard 1:b\nshard 1:a\n".to_owned(),
        ),
    ] {
        assert_eq!(text(&spec), format!("{}{lines}{tail}", head(key, kind)));
    }
}
