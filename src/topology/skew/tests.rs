//! Traps that are told exactly where keys step into them.

use super::SkewReport;
use crate::algorithm::{CompatSpec, Layout, RuleSpec, System};
use crate::topology::{KeyspaceConfig, Topology};

fn report(rule: RuleSpec, parts: Option<u32>, keys: impl Iterator<Item = i64>) -> SkewReport {
    let shards: Vec<String> = rule.shards.clone();
    let keyspace = KeyspaceConfig::new(rule);
    let keyspace = match parts {
        Some(parts) => keyspace.table("orders", "id", parts),
        None => keyspace.table_by_rule("orders", "id"),
    };
    let builder = shards.iter().fold(Topology::builder(), |builder, name| {
        builder.shard(name, format!("{name}.sqlite"))
    });
    let topology = builder
        .keyspace("orders", keyspace)
        .build()
        .expect("a topology");
    let mut skew = topology.skew("orders").expect("the keyspace");
    keys.for_each(|key| skew.add(&key));
    skew.report()
}

fn names(count: u32) -> Vec<String> {
    (0..count).map(|number| format!("s{number}")).collect()
}

fn warned(report: &SkewReport, of: &str) -> bool {
    report.warnings.iter().any(|warning| warning.contains(of))
}

/// Two remainders of one number: by brute force, which pairs there are.
#[test]
fn unused_pairs_are_told_exactly_where_there_are_some() {
    for shards in 1..=9_u32 {
        for tables in 2..=9_u32 {
            let spec = CompatSpec::new(System::ShardingSphereMod { count: shards })
                .table(System::ShardingSphereMod { count: tables });
            let keys = || 0..i64::from(shards * tables) * 30;
            let pairs: std::collections::BTreeSet<(i64, i64)> = keys()
                .map(|key| (key % i64::from(shards), key % i64::from(tables)))
                .collect();
            let unused = pairs.len() < (shards * tables) as usize;
            // Refused unless it is accepted, and just where it leaves pairs unused.
            let unaccepted = RuleSpec::compat(names(shards), spec.clone());
            assert_eq!(
                crate::algorithm::Rule::build(&unaccepted).is_err(),
                unused,
                "{shards} {tables}"
            );
            let accepted = RuleSpec::compat(names(shards), spec.accept_correlated(true));
            for parts in [Some(tables), None] {
                let report = report(accepted.clone(), parts, keys());
                assert_eq!(
                    warned(&report, "pairs of shard and part"),
                    unused,
                    "{shards} {tables} {parts:?}: {report}"
                );
                let expected = format!("only {} of the {} pairs", pairs.len(), shards * tables);
                assert_eq!(warned(&report, &expected), unused, "{report}");
            }
            // Our own remainder and quotient never leave any.
            let own = report(RuleSpec::modulo(names(shards)), Some(tables), keys());
            assert!(!warned(&own, "pairs of shard and part"), "{own}");
        }
    }
}

/// Number i is on shard i mod 3 and nowhere else: no pair is missing.
#[test]
fn numbers_that_are_laid_out_over_shards_leave_no_pair_unused() {
    for layout in [Layout::RoundRobin, Layout::Blocks] {
        for parts in [Some(12), None] {
            let spec = CompatSpec::new(System::ShardingSphereMod { count: 12 }).layout(layout);
            let report = report(RuleSpec::compat(names(3), spec), parts, 0..10_000);
            assert_eq!(report.warnings, [""; 0], "{report}");
        }
    }
}

#[test]
fn ids_that_count_in_steps_are_told_whatever_the_step() {
    for (step, shards) in [
        (10, 5),
        (10, 10),
        (3, 3),
        (9, 9),
        (7, 14),
        (17, 17),
        (15, 5),
        (1000, 5),
    ] {
        for offset in [0, 4, -7_000] {
            let keys = (0..20_000).map(|n| n * step + offset);
            let report = report(RuleSpec::modulo(names(shards)), Some(4), keys);
            assert!(
                warned(&report, "same remainder by"),
                "{step} {shards}: {report}"
            );
            assert!(report.unlikely, "{report}");
        }
    }
    let tens = report(
        RuleSpec::modulo(names(5)),
        Some(4),
        (0..20_000).map(|n| n * 10),
    );
    assert!(warned(&tens, "same remainder by 10"), "{tens}");
    // One in a thousand does not hide it.
    let nearly = report(
        RuleSpec::modulo(names(5)),
        Some(4),
        (0..20_000).map(|n| n * 10 + i64::from(n % 1_000 == 0)),
    );
    assert!(warned(&nearly, "same remainder by 10"), "{nearly}");
    let bits = report(
        RuleSpec::modulo(names(4)),
        Some(4),
        (0..20_000).map(|n| n * 8),
    );
    assert!(warned(&bits, "3 low bits"), "{bits}");
    // A rule that hashes ids does not mind, and nothing is said.
    let hashed = report(
        RuleSpec::hash(names(4), 4_096),
        Some(4),
        (0..20_000).map(|n| n * 8),
    );
    assert!(!warned(&hashed, "low bits"), "{hashed}");
    // Half of the ids with a pattern is none, and nor is one key with all rows.
    let keys = (0..20_000).map(|n| if n % 2 == 0 { n / 2 } else { n * 10 });
    let half = report(RuleSpec::modulo(names(5)), Some(4), keys);
    assert!(!warned(&half, "ids"), "{half}");
    let one = report(RuleSpec::modulo(names(5)), Some(4), (0..20_000).map(|_| 30));
    assert!(!warned(&one, "ids") && !warned(&one, "pairs"), "{one}");
    assert!(warned(&one, "alone has 100.0 %"), "{one}");
}

#[test]
fn nothing_has_no_sign_and_one_is_singular() {
    let none = report(RuleSpec::modulo(names(5)), Some(4), std::iter::empty());
    let text = none.to_string();
    assert!(!text.contains("-0.") && text.contains("0 keys"), "{text}");
    assert!(none.deviation.is_sign_positive());
    let one = report(RuleSpec::modulo(names(5)), Some(4), [7].into_iter()).to_string();
    assert!(one.contains("orders: 1 key\n"), "{one}");
}
