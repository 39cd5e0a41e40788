//! Checks a compat rule and makes it.

use jiff::tz::{TimeZone, TimeZoneDatabase};

use super::super::rule::Problems;
use super::super::segments::{Fault, Segments, Stretch};
use super::interval::{Auto, Pattern, Stepped, parse, span};
use super::{
    Compat, CompatRange, CompatSpec, Index, JavaType, Layout, Places, RangeHash, Split, System,
};
use crate::key::KeyType;

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
    let (index, tables) = self::index(table, "algorithm.table", problems)?;
    if let (Some(a), Some(b)) = (remainder(&spec.system), remainder(table))
        && a.0 == b.0
        && !spec.accept_correlated
    {
        let common = gcd(a.1, b.1);
        if common > 1 {
            let used = u64::from(a.1) / u64::from(common) * u64::from(b.1);
            problems.add(
                "algorithm.table",
                format!(
                    "shard and table are remainders of one number by {} and {}, so only {used} of the {} pairs are ever used: if the fleet is so, say `accept_correlated = true`",
                    a.1,
                    b.1,
                    u64::from(a.1) * u64::from(b.1)
                ),
            );
        }
    }
    Some(Places::Two {
        shard: shard.0,
        table: index,
        tables,
    })
}

/// Of what number a system takes the remainder, and its divisor.
fn remainder(system: &System) -> Option<(Option<JavaType>, u32)> {
    match system {
        System::ShardingSphereMod { count }
        | System::ShardingSphereInline { count }
        | System::ShardingSphereCosidMod { count } => Some((None, *count)),
        System::ShardingSphereHashMod { count, java } => Some((Some(*java), *count)),
        _ => None,
    }
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

/// A system that numbers, and how many numbers it has.
fn index(system: &System, key: &str, problems: &mut Problems) -> Option<(Index, u32)> {
    let counted = |count: u32, name: &str, problems: &mut Problems| {
        let sound = (1..=MAX_COUNT).contains(&count);
        if !sound {
            problems.add(
                &format!("{key}.{name}"),
                format!("{count} is out of range: between 1 and {MAX_COUNT}"),
            );
        }
        sound.then_some(count)
    };
    Some(match system {
        System::ShardingSphereMod { count } => {
            let count = counted(*count, "count", problems)?;
            (Index::Modulo(count), count)
        }
        System::ShardingSphereHashMod { count, java } => {
            let count = counted(*count, "count", problems)?;
            (Index::HashModulo(count, *java), count)
        }
        System::ShardingSphereInline { count } => {
            let count = counted(*count, "count", problems)?;
            (Index::InlinePercent(count), count)
        }
        System::ShardingSphereCosidMod { count } => {
            let count = counted(*count, "count", problems)?;
            (Index::CosidModulo(count), count)
        }
        System::ShardingSphereVolumeRange {
            lower,
            upper,
            volume,
        } => numbers(
            volumes(*lower, *upper, *volume, key, problems)?,
            key,
            problems,
        )?,
        System::ShardingSphereBoundaryRange { boundaries } => {
            if boundaries.is_empty() || boundaries.windows(2).any(|pair| pair[0] >= pair[1]) {
                problems.add(
                    &format!("{key}.boundaries"),
                    "boundaries are one or more rising numbers".into(),
                );
                return None;
            }
            numbers(boundaries.clone(), key, problems)?
        }
        System::ShardingSphereAutoInterval {
            lower,
            upper,
            seconds,
            zone,
        } => {
            let (lower, upper, zone) = times(lower, upper, zone, key, problems)?;
            let seconds = counted(*seconds, "seconds", problems)?;
            let auto = Auto::new(lower, upper, seconds, zone);
            let auto = auto.filter(|auto| auto.count <= MAX_COUNT);
            let Some(auto) = auto else {
                problems.add(
                    &format!("{key}.seconds"),
                    format!("more than {MAX_COUNT} intervals are between the bounds"),
                );
                return None;
            };
            let count = auto.count;
            (Index::AutoInterval(auto), count)
        }
        System::ShardingSphereInterval {
            lower,
            upper,
            amount,
            unit,
            suffix,
            zone,
        } => {
            let (lower, upper, zone) = times(lower, upper, zone, key, problems)?;
            let Some(step) = span(*amount, unit) else {
                problems.add(
                    &format!("{key}.unit"),
                    format!(
                        "{amount} {unit:?} is no step: a whole number from 1 on of years, months, weeks, days, hours, minutes or seconds"
                    ),
                );
                return None;
            };
            let Some(pattern) = Pattern::parse(suffix) else {
                problems.add(
                    &format!("{key}.suffix"),
                    format!(
                        "{suffix:?} is no pattern that is known here: yyyy, yy, MM, dd, HH, mm, ss, `_` and `-`"
                    ),
                );
                return None;
            };
            let Some(steps) = Stepped::new(lower, upper, step, &pattern, zone) else {
                problems.add(
                    &format!("{key}.upper"),
                    format!(
                        "more than {} steps are between the bounds",
                        super::interval::MAX_STEPS
                    ),
                );
                return None;
            };
            let count = steps.count();
            (Index::Interval(steps), count)
        }
        System::PostgresHash { modulus } => {
            let modulus = counted(*modulus, "modulus", problems)?;
            (Index::PostgresHash(modulus), modulus)
        }
        System::PgcatSha1 { shards } => {
            let shards = counted(*shards, "count", problems)?;
            (Index::PgcatSha1(shards), shards)
        }
        System::CitusHash { count } => {
            let count = counted(*count, "count", problems)?;
            (Index::CitusHash(count), count)
        }
        System::GuavaConsistentHash { buckets } => {
            let buckets = counted(*buckets, "buckets", problems)?;
            (Index::GuavaConsistentHash(buckets), buckets)
        }
        other => {
            problems.add(
                key,
                format!("`{}` does not number tables alone", other.as_str()),
            );
            return None;
        }
    })
}

/// Where each partition of a volume range begins, but for the first.
fn volumes(
    lower: i64,
    upper: i64,
    volume: i64,
    key: &str,
    problems: &mut Problems,
) -> Option<Vec<i64>> {
    let length = i128::from(upper) - i128::from(lower);
    if volume < 1 || length < i128::from(volume) {
        problems.add(
            &format!("{key}.volume"),
            format!(
                "a volume is 1 or more, and at most upper minus lower: {lower}, {upper}, {volume}"
            ),
        );
        return None;
    }
    if length / i128::from(volume) > MAX_COUNT.into() {
        problems.add(
            &format!("{key}.volume"),
            format!("more than {MAX_COUNT} volumes are between the bounds"),
        );
        return None;
    }
    let mut starts = Vec::new();
    let mut start = lower;
    while start < upper {
        starts.push(start);
        start = start.saturating_add(volume);
    }
    starts.push(upper);
    Some(starts)
}

/// Partition 0 below the first boundary, and one from each on.
fn numbers(starts: Vec<i64>, key: &str, problems: &mut Problems) -> Option<(Index, u32)> {
    let count = u32::try_from(starts.len() + 1).ok()?;
    let mut stretches = Vec::with_capacity(starts.len() + 1);
    for owner in 0..count {
        let at = owner as usize;
        stretches.push(Stretch {
            from: at.checked_sub(1).map(|before| starts[before]),
            until: starts.get(at).copied(),
            owner,
        });
    }
    match Segments::build(&stretches) {
        Ok(line) => Some((Index::Numbers(line), count)),
        Err(_) => {
            problems.add(key, "the boundaries do not rise".into());
            None
        }
    }
}

fn times(
    lower: &str,
    upper: &str,
    zone: &str,
    key: &str,
    problems: &mut Problems,
) -> Option<(jiff::civil::DateTime, jiff::civil::DateTime, TimeZone)> {
    let mut time = |name: &str, text: &str| {
        let found = parse(text);
        if found.is_none() {
            problems.add(
                &format!("{key}.{name}"),
                format!("{text:?} is no date and time: write \"2024-01-01 00:00:00\""),
            );
        }
        found
    };
    let (lower, upper) = (time("lower", lower), time("upper", upper));
    let found = TimeZoneDatabase::bundled().get(zone).ok();
    if found.is_none() {
        problems.add(
            &format!("{key}.zone"),
            format!("unknown time zone {zone:?}: use a name such as \"UTC\" or \"Europe/Berlin\""),
        );
    }
    let (lower, upper) = (lower?, upper?);
    if lower > upper {
        problems.add(
            &format!("{key}.upper"),
            format!("{upper} is before {lower}"),
        );
        return None;
    }
    Some((lower, upper, found?))
}

fn ranged(
    hash: RangeHash,
    ranges: &[CompatRange],
    (least, greatest): (i128, i128),
    shards: &[String],
    problems: &mut Problems,
) -> Option<Places> {
    const KEY: &str = "algorithm.map";
    let before = problems.len();
    let shown = |range: &CompatRange| format!("{}..={} of {:?}", range.from, range.to, range.shard);
    let mut stretches = Vec::with_capacity(ranges.len());
    let mut owners = Vec::with_capacity(ranges.len());
    for (owner, range) in (0u32..).zip(ranges) {
        let shard = shards.iter().position(|shard| *shard == range.shard);
        if shard.is_none() {
            problems.unlisted(KEY, "hashes are given to", &range.shard, shards);
        }
        if range.from < least || range.to > greatest {
            problems.add(
                KEY,
                format!("{} leaves the hashes {least}..={greatest}", shown(range)),
            );
        }
        let shard = shard.and_then(|shard| u32::try_from(shard).ok());
        owners.push((shard.unwrap_or_default(), range.table));
        stretches.push(Stretch {
            from: Some(range.from),
            until: Some(range.to.saturating_add(1)),
            owner,
        });
    }
    let line = match Segments::build(&stretches) {
        Ok(line) => line,
        Err(faults) => {
            for fault in faults {
                let message = match fault {
                    Fault::Empty(i) => {
                        format!("{} holds no hash: the end is inclusive", shown(&ranges[i]))
                    }
                    Fault::Overlap(a, b) => format!(
                        "{} and {} overlap: a hash has one shard",
                        shown(&ranges[a]),
                        shown(&ranges[b])
                    ),
                };
                problems.add(KEY, message);
            }
            return None;
        }
    };
    for (from, until, owner) in line.iter() {
        if owner.is_none() {
            let from = from.copied().unwrap_or(least).max(least);
            let until = until.copied().unwrap_or(greatest + 1).min(greatest + 1);
            if from < until {
                problems.add(
                    KEY,
                    format!("no shard has the hashes {from}..={}", until - 1),
                );
            }
        }
    }
    (problems.len() == before).then(|| Places::Ranges {
        hash,
        line,
        ranges: owners.into_boxed_slice(),
    })
}

/// Whether a system can take keys of this type.
fn check_key(system: &System, key: KeyType, problems: &mut Problems) {
    let takes: &[KeyType] = match system {
        System::ShardingSphereMod { .. }
        | System::ShardingSphereInline { .. }
        | System::ShardingSphereCosidMod { .. }
        | System::ShardingSphereVolumeRange { .. }
        | System::ShardingSphereBoundaryRange { .. }
        | System::BitMixSplit { .. }
        | System::PgcatSha1 { .. }
        | System::VitessHash { .. }
        | System::SpqrMurmur { .. }
        | System::GuavaConsistentHash { .. } => &[KeyType::Integer],
        System::ShardingSphereHashMod { java, .. } => match java {
            JavaType::Integer | JavaType::Long | JavaType::BigInteger => &[KeyType::Integer],
            JavaType::Uuid => &[KeyType::Uuid],
            JavaType::String | JavaType::BigDecimal | JavaType::Double | JavaType::Boolean => {
                &[KeyType::Text]
            }
        },
        System::ShardingSphereAutoInterval { .. } | System::ShardingSphereInterval { .. } => {
            &[KeyType::Timestamp]
        }
        System::JavaPerturbed { .. } => &[KeyType::Text],
        System::PostgresHash { .. } => &[
            KeyType::Integer,
            KeyType::Text,
            KeyType::Uuid,
            KeyType::Bytes,
            KeyType::Date,
            KeyType::Timestamp,
        ],
        System::CitusHash { .. } | System::CitusMap { .. } => {
            &[KeyType::Integer, KeyType::Text, KeyType::Uuid]
        }
        System::VitessXxhash { .. } => &[KeyType::Text, KeyType::Bytes],
    };
    if !takes.contains(&key) {
        let takes: Vec<&str> = takes.iter().map(|key| key.as_str()).collect();
        problems.add(
            "algorithm.like",
            format!(
                "`{}` takes keys of the type {}, and the keys of this keyspace are {key}",
                system.as_str(),
                takes.join(" or "),
            ),
        );
    }
}
