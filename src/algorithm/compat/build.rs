//! Checks a compat rule and makes it.

mod keys;
mod numbers;
mod ranges;

use super::super::rule::Problems;
use super::{Compat, CompatSpec, Index, JavaType, Layout, Places, RangeHash, Split, System};
use crate::key::KeyType;
use keys::check_key;
use numbers::index;
use ranges::ranged;

/// More numbers than this are a mistake.
const MAX_COUNT: u32 = 1 << 20;

impl Compat {
    pub(in crate::algorithm) fn build(
        shards: &[String],
        spec: &CompatSpec,
        key: KeyType,
        problems: &mut Problems,
    ) -> Option<Self> {
        let before = problems.len();
        check_key(&spec.system, key, problems);
        let places = places(shards, spec, key, problems);
        if problems.len() > before || shards.is_empty() {
            return None;
        }
        Some(Self {
            spec: spec.clone(),
            places: places?,
            shards: u32::try_from(shards.len()).ok()?,
        })
    }
}

fn places(
    shards: &[String],
    spec: &CompatSpec,
    key: KeyType,
    problems: &mut Problems,
) -> Option<Places> {
    let count = u32::try_from(shards.len()).ok()?;
    let only_alone = |what: &str, problems: &mut Problems| {
        let name = spec.system.as_str();
        if spec.table.is_some() {
            problems.add(
                "algorithm.table",
                format!("`{name}` {what}: take the second system out"),
            );
        }
        if spec.layout.is_some() {
            problems.add(
                "algorithm.layout",
                format!("`{name}` {what}: take the layout out"),
            );
        }
    };
    match &spec.system {
        System::JavaPerturbed { databases, tables } => {
            only_alone("numbers databases and tables itself", problems);
            let (databases, tables) = split(count, *databases, *tables, problems)?;
            if !(databases * tables).is_power_of_two() {
                problems.add(
                    "algorithm.tables",
                    format!(
                        "{databases} databases times {tables} tables is no power of two, and the mask of `java-perturbed` would never reach some of them: check the numbers of the fleet"
                    ),
                );
                return None;
            }
            Some(Places::Split(Split::JavaPerturbed { databases, tables }))
        }
        System::BitMixSplit {
            databases,
            tables,
            global_tables,
        } => {
            only_alone("numbers databases and tables itself", problems);
            let (databases, tables) = split(count, *databases, *tables, problems)?;
            Some(Places::Split(Split::BitMix {
                databases,
                tables,
                global: *global_tables,
            }))
        }
        System::CitusMap { ranges } => {
            only_alone("gives ranges of a hash to shards", problems);
            let full = (i32::MIN.into(), i32::MAX.into());
            ranged(RangeHash::Citus, ranges, full, shards, problems)
        }
        System::VitessHash { ranges } => {
            only_alone("gives ranges of a hash to shards", problems);
            let full = (0, u64::MAX.into());
            ranged(RangeHash::VitessHash, ranges, full, shards, problems)
        }
        System::VitessXxhash { ranges } => {
            only_alone("gives ranges of a hash to shards", problems);
            let full = (0, u64::MAX.into());
            ranged(RangeHash::VitessXxhash, ranges, full, shards, problems)
        }
        System::SpqrMurmur { ranges } => {
            only_alone("gives ranges of a hash to shards", problems);
            let full = (0, u32::MAX.into());
            ranged(RangeHash::SpqrMurmur, ranges, full, shards, problems)
        }
        system => {
            let (index, numbers) = index(system, "algorithm", problems)?;
            match &spec.table {
                None => laid_out(index, numbers, spec.layout, count, problems),
                Some(table) => {
                    check_key(table, key, problems);
                    two(spec, (index, numbers), table, count, problems)
                }
            }
        }
    }
}

/// One index for shards and tables.
fn laid_out(
    index: Index,
    numbers: u32,
    layout: Option<Layout>,
    shards: u32,
    problems: &mut Problems,
) -> Option<Places> {
    let layout = match layout {
        Some(layout) => layout,
        None if numbers == shards => Layout::OnePerShard,
        None => {
            problems.add(
                "algorithm.layout",
                format!(
                    "the system has {numbers} numbers, and {shards} shard(s) are listed: list as many, or say how the numbers are laid out over them, \"round-robin\" or \"blocks\""
                ),
            );
            return None;
        }
    };
    let wrong = match layout {
        Layout::OnePerShard => numbers != shards,
        Layout::RoundRobin => numbers < shards,
        Layout::Blocks => numbers.checked_rem(shards) != Some(0),
    };
    if wrong {
        let needed = match layout {
            Layout::OnePerShard => "as many numbers as shards",
            Layout::RoundRobin => "at least as many numbers as shards",
            Layout::Blocks => "a multiple of the number of shards",
        };
        problems.add(
            "algorithm.layout",
            format!(
                "`{}` needs {needed}, and the system has {numbers} numbers for {shards} shard(s)",
                layout.as_str()
            ),
        );
        return None;
    }
    Some(Places::Index {
        index,
        count: numbers,
        layout,
    })
}

/// One system for the shard, another for the table.
fn two(
    spec: &CompatSpec,
    shard: (Index, u32),
    table: &System,
    shards: u32,
    problems: &mut Problems,
) -> Option<Places> {
    if spec.layout.is_some() {
        problems.add(
            "algorithm.layout",
            "with a second system for the tables, the first one numbers the shards: take the layout out"
                .into(),
        );
    }
    if shard.1 != shards {
        problems.add(
            "algorithm.count",
            format!(
                "the system has {} numbers, and {shards} shard(s) are listed: the two must be equal, since the number is the position in the list",
                shard.1
            ),
        );
    }
    let (number, tables) = index(table, "algorithm.table", problems)?;
    if !spec.accept_correlated
        && let Some((a, b, used)) = used_pairs(&spec.system, table)
        && used < u64::from(a) * u64::from(b)
    {
        problems.add(
            "algorithm.table",
            format!(
                "shard and table are remainders of one number by {a} and {b}, so only {used} of the {} pairs are ever used: if the fleet is so, say `accept_correlated = true`",
                u64::from(a) * u64::from(b)
            ),
        );
    }
    Some(Places::Two {
        shard: shard.0,
        table: number,
        tables,
    })
}

/// Of what a system takes the remainder.
#[derive(Clone, Copy, PartialEq)]
enum Dividend {
    Number,
    /// A negative one has no place.
    PositiveNumber,
    JavaHash(JavaType),
    PostgresHash,
    Sha1,
}

/// What a system divides, and by what; `None` for one that does not divide.
fn remainder(system: &System) -> Option<(Dividend, u32)> {
    Some(match system {
        System::ShardingSphereMod { count } | System::ShardingSphereCosidMod { count } => {
            (Dividend::Number, *count)
        }
        System::ShardingSphereInline { count } => (Dividend::PositiveNumber, *count),
        System::ShardingSphereHashMod { count, java } => (Dividend::JavaHash(*java), *count),
        System::PostgresHash { modulus } => (Dividend::PostgresHash, *modulus),
        System::PgcatSha1 { shards } => (Dividend::Sha1, *shards),
        _ => return None,
    })
}

/// The divisors of two systems that divide one number, and how many pairs of remainders there are. Two
/// hashes of other kinds, or of other Java types than these, are taken for independent.
fn used_pairs(shard: &System, table: &System) -> Option<(u32, u32, u64)> {
    use Dividend::{JavaHash, Number, PositiveNumber};
    use JavaType::{Integer, Long};
    let ((of_a, a), (of_b, b)) = (remainder(shard)?, remainder(table)?);
    let common = match gcd(a, b) {
        0 => return None,
        common => u64::from(common),
    };
    // The two remainders agree modulo the common divisor.
    let agreeing = match (of_a, of_b) {
        (a, b) if a == b => common,
        (Number, PositiveNumber) | (PositiveNumber, Number) => common,
        // Java's hash of an `Integer` is itself, and without its sign a negative number agrees with the
        // other remainder's negative: where that is itself, it has been counted.
        (Number, JavaHash(Integer)) | (JavaHash(Integer), Number) => {
            2 * common - if common.is_multiple_of(2) { 2 } else { 1 }
        }
        (PositiveNumber, JavaHash(Integer)) | (JavaHash(Integer), PositiveNumber) => common,
        // Both are the number itself where it is positive, and of a negative one its size, or one less.
        (JavaHash(Integer), JavaHash(Long)) | (JavaHash(Long), JavaHash(Integer)) => {
            common * common.min(2)
        }
        _ => return None,
    };
    Some((
        a,
        b,
        agreeing * (u64::from(a) / common) * (u64::from(b) / common),
    ))
}

fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}

fn split(shards: u32, databases: u32, tables: u32, problems: &mut Problems) -> Option<(u32, u32)> {
    if databases != shards {
        problems.add(
            "algorithm.databases",
            format!(
                "there are {databases} databases, and {shards} shard(s) are listed: the two must be equal, since the number of the database is the position in the list"
            ),
        );
        return None;
    }
    let all = databases
        .checked_mul(tables)
        .filter(|all| *all <= MAX_COUNT);
    if tables == 0 || all.is_none() {
        problems.add(
            "algorithm.tables",
            format!(
                "{databases} databases with {tables} tables each are out of range: between 1 and {MAX_COUNT} tables in all"
            ),
        );
        return None;
    }
    Some((databases, tables))
}
