//! Every vector of `tests/data/placement_vectors.tsv`, through the configured rule wherever a rule can
//! say it.

use std::collections::{BTreeMap, BTreeSet};

use super::{CompatRange, CompatSpec, JavaType, Layout, System, hashes, interval, java, postgres};
use crate::algorithm::rule::Rule;
use crate::algorithm::{Placement, RuleSpec};
use crate::key::{KeyType, ShardKey, ToShardKey};

const VECTORS: &str = include_str!("../../../tests/data/placement_vectors.tsv");

const LOSS: &str = "this is a DATA-LOSS EVENT: a fleet that places rows this way would no longer find them; undo the change of the code, never change the file";

fn names(count: u32) -> Vec<String> {
    (0..count).map(|i| format!("s{i}")).collect()
}

fn place(spec: CompatSpec, shards: u32, key: &ShardKey<'_>) -> Option<Placement> {
    let kind = key.value().expect("a key with a value").key_type();
    let rule = RuleSpec::compat(names(shards), spec).key(kind);
    let rule = Rule::build(&rule).expect("a rule without problems");
    rule.place(key).ok()
}

/// The number of the shard, where each number has one.
fn number(system: System, count: u32, key: &ShardKey<'_>) -> Option<u64> {
    let placement = place(CompatSpec::new(system), count, key)?;
    placement.shard().as_str()[1..].parse().ok()
}

fn key(kind: &str, text: &str) -> ShardKey<'static> {
    let kind = match kind {
        "Long" | "Integer" | "BigInteger" | "bigint" | "u64" | "int64" => KeyType::Integer,
        "UUID" | "uuid" => KeyType::Uuid,
        _ => KeyType::Text,
    };
    kind.parse_key(text).expect("a key")
}

fn parameters(text: &str) -> BTreeMap<&str, &str> {
    let pairs = text.split(',').filter_map(|pair| pair.split_once('='));
    pairs.collect()
}

fn java_type(kind: &str) -> JavaType {
    let kind = if kind == "string" { "String" } else { kind };
    let known = JavaType::ALL.iter().find(|(_, name)| *name == kind);
    known.expect("a Java type").0
}

/// One whole range for a single shard, to see the number alone.
fn whole(from: i128, to: i128) -> Vec<CompatRange> {
    let shard = "s0".to_owned();
    vec![CompatRange {
        shard,
        from,
        to,
        table: 0,
    }]
}

fn answer(algorithm: &str, params: &str, kind: &str, text: &str) -> String {
    let params = parameters(params);
    let count = |name: &str| -> u32 { params[name].parse().expect("a number") };
    let key = key(kind, text);
    let value = key.value().expect("a key with a value");
    let shown = |number: Option<u64>| number.map_or("none".to_owned(), |n| n.to_string());
    match algorithm {
        "java_hashcode" => {
            let hash = java_type(kind).hash(value).expect("a hash");
            hash.to_string()
        }
        "hash_mod" => {
            let count = count("count");
            let java = java_type(kind);
            shown(number(
                System::ShardingSphereHashMod { count, java },
                count,
                &key,
            ))
        }
        "mod" => shown(number(System::ShardingSphereMod { count: 4 }, 4, &key)),
        "cosid_mod" => shown(number(System::ShardingSphereCosidMod { count: 4 }, 4, &key)),
        "inline_percent" => {
            // A negative remainder names no target: the rule has no place for it.
            let placed = number(System::ShardingSphereInline { count: 4 }, 4, &key);
            let remainder = text.parse::<i64>().expect("a number") % 4;
            assert_eq!(placed.is_none(), remainder < 0, "{text}");
            placed.map_or(remainder.to_string(), |number| number.to_string())
        }
        // For recognising such fleets alone: there is no such rule.
        "java_abs_mod" => (java::string(text).wrapping_abs() % 3).to_string(),
        "auto_interval" => {
            let elapsed: i64 = text.parse().expect("seconds");
            let spec = CompatSpec::new(System::ShardingSphereAutoInterval {
                lower: "2024-01-01 00:00:00".into(),
                upper: "2025-01-01 00:00:00".into(),
                seconds: 86_400,
                zone: "UTC".into(),
            });
            let start: jiff::Timestamp = "2024-01-01T00:00:00Z".parse().expect("an instant");
            let instant = ShardKey::Timestamp {
                micros: start.as_microsecond() + elapsed * 1_000_000,
                sub_micro_nanos: 0,
            };
            let placed = place(spec.layout(Layout::RoundRobin), 1, &instant);
            placed.expect("a placement").spread().to_string()
        }
        "java_perturbed" => {
            let (databases, tables) = (count("db"), count("tb"));
            let spec = CompatSpec::new(System::JavaPerturbed { databases, tables });
            let placed = place(spec, databases, &key).expect("a placement");
            let database: u64 = placed.shard().as_str()[1..].parse().expect("a number");
            let index = database * u64::from(tables) + placed.spread();
            format!("{index}|{:02}|{:03}", database + 1, placed.spread())
        }
        "bit_mix_split" => {
            let mixed = java::bit_mix(text.parse().expect("a long"));
            let split = |global_tables| {
                let spec = CompatSpec::new(System::BitMixSplit {
                    databases: 4,
                    tables: 8,
                    global_tables,
                });
                place(spec, 4, &key).expect("a placement")
            };
            let (local, global) = (split(false), split(true));
            assert_eq!(local.shard(), global.shard());
            let database = &local.shard().as_str()[1..];
            format!("{mixed}|{database}|{}|{}", local.spread(), global.spread())
        }
        "pg_hashext" => {
            let hash = postgres::extended(value).expect("a hash");
            (hash as i64).to_string()
        }
        "pg_hash_partition" => {
            let modulus = count("modulus");
            shown(number(System::PostgresHash { modulus }, modulus, &key))
        }
        "citus_hash" => postgres::citus(value).expect("a hash").to_string(),
        "citus_shard_index" => {
            let count = count("count");
            shown(number(System::CitusHash { count }, count, &key))
        }
        "vitess_hash" => {
            let number: i128 = text.parse().expect("a number");
            format!("{:016x}", hashes::vitess_hash(number as u64))
        }
        "vitess_xxhash" => format!("{:016x}", hashes::vitess_xxhash(text.as_bytes())),
        "jump_guava" => {
            let buckets = count("buckets");
            shown(number(
                System::GuavaConsistentHash { buckets },
                buckets,
                &key,
            ))
        }
        "pgcat_sha1" => {
            let shards = count("shards");
            shown(number(System::PgcatSha1 { shards }, shards, &key))
        }
        "spqr_murmur" => hashes::spqr_murmur(text.parse().expect("a long")).to_string(),
        other => panic!("a vector of an unknown algorithm: {other}"),
    }
}

#[test]
fn every_vector_of_another_system_is_answered() {
    let mut seen: BTreeMap<&str, u32> = BTreeMap::new();
    for row in VECTORS.lines().skip(1) {
        let columns: Vec<&str> = row.split('\t').collect();
        let [algorithm, params, kind, text, value, _source] = columns.as_slice() else {
            panic!("a row of the vectors has not six columns: {row}");
        };
        // Guava takes unsigned numbers of 64 bits by their bits, as a Java long has them.
        let signed = match (*algorithm, text.parse::<u64>()) {
            ("jump_guava", Ok(number)) => (number as i64).to_string(),
            _ => (*text).to_owned(),
        };
        let found = answer(algorithm, params, kind, &signed);
        // A negative remainder that finds no target is written as it is.
        assert_eq!(found, *value, "{row}\n{LOSS}");
        *seen.entry(algorithm).or_default() += 1;
    }
    assert_eq!(seen.values().sum::<u32>(), 698, "{seen:?}");
    assert_eq!(seen.len(), 18, "{seen:?}");
}

#[test]
fn volume_ranges_are_half_open_with_two_open_ends() {
    let system = System::ShardingSphereVolumeRange {
        lower: 10,
        upper: 25,
        volume: 10,
    };
    for (key, expected) in [
        (i64::MIN, 0),
        (9, 0),
        (10, 1),
        (19, 1),
        (20, 2),
        (24, 2),
        (25, 3),
        (i64::MAX, 3),
    ] {
        let found = number(system.clone(), 4, &key.to_shard_key());
        assert_eq!(found, Some(expected), "{key}");
    }
    let boundaries = System::ShardingSphereBoundaryRange {
        boundaries: vec![1, 5, 10],
    };
    for (key, expected) in [(0, 0), (1, 1), (4, 1), (5, 2), (9, 2), (10, 3), (100, 3)] {
        let found = number(boundaries.clone(), 4, &key.to_shard_key());
        assert_eq!(found, Some(expected), "{key}");
    }
}

#[test]
fn interval_steps_drift_at_the_end_of_a_month() {
    let rule = RuleSpec::compat(
        ["a"],
        CompatSpec::new(System::ShardingSphereInterval {
            lower: "2024-01-31 00:00:00".into(),
            upper: "2024-04-15 00:00:00".into(),
            amount: 1,
            unit: "months".into(),
            suffix: "yyyyMM".into(),
            zone: "Europe/Berlin".into(),
        })
        .layout(Layout::RoundRobin),
    )
    .key(KeyType::Timestamp);
    let rule = Rule::build(&rule).expect("a rule without problems");
    let at = |text: &str| {
        let key = KeyType::Timestamp.parse_key(text).expect("an instant");
        let placed = rule.place(&key).ok()?;
        rule.suffix(placed.spread())
    };
    // January 31, February 29, March 29, and the step that holds the end.
    assert_eq!(at("2024-01-30T22:59:59Z"), None);
    assert_eq!(at("2024-01-30T23:00:00Z").as_deref(), Some("202401"));
    assert_eq!(at("2024-02-28T22:59:59Z").as_deref(), Some("202401"));
    assert_eq!(at("2024-02-28T23:00:00Z").as_deref(), Some("202402"));
    assert_eq!(at("2024-03-28T23:00:00Z").as_deref(), Some("202403"));
    assert_eq!(at("2024-04-28T21:59:59Z").as_deref(), Some("202403"));
    assert_eq!(at("2024-04-28T22:00:00Z"), None);
}

#[test]
fn auto_interval_stays_within_its_tables() {
    for (elapsed, expected) in [
        (i64::MIN, 0),
        (-1, 0),
        (0, 0),
        (431, 0),
        (432, 1),
        (86_400 * 10, 10),
        (i64::MAX, 11),
    ] {
        assert_eq!(
            interval::position(elapsed, 86_400, 12),
            expected,
            "{elapsed}"
        );
    }
}

#[test]
fn imported_ranges_say_shard_and_table() {
    let map = |at: i128| {
        vec![
            CompatRange {
                shard: "s0".into(),
                from: i32::MIN.into(),
                to: at - 1,
                table: 102_008,
            },
            CompatRange {
                shard: "s1".into(),
                from: at,
                to: i32::MAX.into(),
                table: 102_009,
            },
        ]
    };
    let key = 0_i64.to_shard_key();
    // hashint8(0) is -272711505: the last of the lower range, the first of the upper one.
    for (at, shard, table) in [(-272_711_504, "s0", 102_008), (-272_711_505, "s1", 102_009)] {
        let spec = CompatSpec::new(System::CitusMap { ranges: map(at) });
        let placed = place(spec, 2, &key).expect("a placement");
        assert_eq!(placed.shard(), shard);
        assert_eq!(placed.spread(), table);
    }
    for system in [
        System::VitessHash {
            ranges: whole(0, u64::MAX.into()),
        },
        System::SpqrMurmur {
            ranges: whole(0, u32::MAX.into()),
        },
    ] {
        assert_eq!(number(system.clone(), 1, &i64::MIN.to_shard_key()), Some(0));
        let wide = i128::MAX.to_shard_key().into_owned();
        assert_eq!(number(system, 1, &wide), None);
    }
}

fn problems(spec: CompatSpec, shards: u32, key: KeyType) -> Vec<String> {
    let rule = RuleSpec::compat(names(shards), spec).key(key);
    let problems = Rule::build(&rule).expect_err("a rule with problems");
    let lines = problems.into_iter();
    lines.map(|p| format!("{}: {}", p.key, p.message)).collect()
}

#[test]
fn what_cannot_be_right_is_refused_at_load() {
    let perturbed = System::JavaPerturbed {
        databases: 3,
        tables: 4,
    };
    let found = problems(CompatSpec::new(perturbed), 3, KeyType::Text);
    assert!(found[0].contains("is no power of two"), "{found:?}");
    // D: database = id % 4, table = id % 8 use 8 of 32 pairs.
    let correlated = CompatSpec::new(System::ShardingSphereMod { count: 4 })
        .table(System::ShardingSphereInline { count: 8 });
    let found = problems(correlated.clone(), 4, KeyType::Integer);
    assert!(found[0].contains("only 8 of the 32 pairs"), "{found:?}");
    let accepted = RuleSpec::compat(names(4), correlated.accept_correlated(true));
    assert!(Rule::build(&accepted).is_ok());
    let coprime = CompatSpec::new(System::ShardingSphereMod { count: 4 })
        .table(System::ShardingSphereMod { count: 7 });
    assert!(Rule::build(&RuleSpec::compat(names(4), coprime)).is_ok());

    let counted = CompatSpec::new(System::ShardingSphereMod { count: 8 });
    let found = problems(counted.clone(), 3, KeyType::Integer);
    assert!(
        found[0].contains("say how the numbers are laid out"),
        "{found:?}"
    );
    let found = problems(counted.layout(Layout::Blocks), 3, KeyType::Integer);
    assert!(
        found[0].contains("a multiple of the number of shards"),
        "{found:?}"
    );

    let typed = CompatSpec::new(System::ShardingSphereHashMod {
        count: 2,
        java: JavaType::String,
    });
    let found = problems(typed, 2, KeyType::Integer);
    assert!(
        found[0].contains("takes keys of the type text"),
        "{found:?}"
    );

    let mut gap = whole(0, 10);
    gap.push(CompatRange {
        shard: "s9".into(),
        from: 12,
        to: 1 << 40,
        table: 0,
    });
    let found = problems(
        CompatSpec::new(System::SpqrMurmur { ranges: gap }),
        1,
        KeyType::Integer,
    );
    let expected = [
        "algorithm.map: hashes are given to \"s9\"",
        "algorithm.map: 12..=1099511627776 of \"s9\" leaves the hashes",
        "algorithm.map: no shard has the hashes 11..=11",
    ];
    assert_eq!(found.len(), expected.len(), "{found:#?}");
    for (found, expected) in found.iter().zip(expected) {
        assert!(found.starts_with(expected), "{found}");
    }
}

/// Two systems for one key are refused exactly where they leave pairs of shard and table unused.
#[test]
fn correlated_systems_are_refused_by_brute_force() {
    let systems: [fn(u32) -> System; 7] = [
        |count| System::ShardingSphereMod { count },
        |count| System::ShardingSphereInline { count },
        |count| System::ShardingSphereCosidMod { count },
        |count| System::ShardingSphereHashMod {
            count,
            java: JavaType::Integer,
        },
        |count| System::ShardingSphereHashMod {
            count,
            java: JavaType::Long,
        },
        |modulus| System::PostgresHash { modulus },
        |shards| System::PgcatSha1 { shards },
    ];
    let mixed = (0..1_000_u64).map(|n| n.wrapping_mul(0x9E37_79B9_7F4A_7C15) as i64);
    let keys: Vec<i64> = (-150..150).chain(mixed).collect();
    for shard in systems {
        for table in systems {
            for (a, b) in (1..=5).flat_map(|a| (1..=5).map(move |b| (a, b))) {
                let spec = CompatSpec::new(shard(a)).table(table(b));
                let unaccepted = RuleSpec::compat(names(a), spec.clone());
                let rule = RuleSpec::compat(names(a), spec.accept_correlated(true));
                let rule = Rule::build(&rule).expect("a rule that is accepted");
                let placed = keys
                    .iter()
                    .filter_map(|key| rule.place(&key.to_shard_key()).ok());
                let pairs: BTreeSet<_> = placed.map(|p| (p.shard(), p.spread())).collect();
                let refused = Rule::build(&unaccepted).err();
                let found = refused.map(|problems| problems[0].message.clone());
                if pairs.len() == (a * b) as usize {
                    assert_eq!(found, None, "{:?} {:?}", shard(a), table(b));
                } else {
                    let found = found.unwrap_or_default();
                    let told = format!("only {} of the {} pairs", pairs.len(), a * b);
                    assert!(
                        found.contains(&told),
                        "{:?} {:?}: {told}: {found}",
                        shard(a),
                        table(b)
                    );
                }
            }
        }
    }
}

#[test]
fn java_values_that_are_none_have_no_hash() {
    for (java, key) in [
        (JavaType::Integer, (1_i64 << 31).to_shard_key()),
        (JavaType::Long, (1_i128 << 63).to_shard_key()),
        (JavaType::BigDecimal, "1e3".to_shard_key()),
        (JavaType::BigDecimal, "".to_shard_key()),
        (JavaType::BigDecimal, "-".to_shard_key()),
        (JavaType::Double, "inf".to_shard_key()),
        (JavaType::Boolean, "TRUE".to_shard_key()),
    ] {
        let value = key.value().expect("a key with a value");
        assert_eq!(java.hash(value), None, "{java:?} {key}");
    }
    // The one value for which `Math.abs(hashCode)` is negative.
    let smallest = "polygenelubricants".to_shard_key();
    let value = smallest.value().expect("a key with a value");
    assert_eq!(JavaType::String.hash(value), Some(i32::MIN));
    let count = 4;
    let java = JavaType::String;
    let hash_mod = System::ShardingSphereHashMod { count, java };
    assert_eq!(number(hash_mod, count, &smallest), Some(0));
}
