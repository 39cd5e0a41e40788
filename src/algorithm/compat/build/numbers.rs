//! Systems that number: the parameters of each, and how many numbers there are.

use jiff::civil::DateTime;
use jiff::tz::{TimeZone, TimeZoneDatabase};

use super::super::super::rule::Problems;
use super::super::super::segments::{Segments, Stretch};
use super::super::interval::{Auto, Pattern, Stepped, parse, span};
use super::super::{Index, System};
use super::MAX_COUNT;

/// A system that numbers, and how many numbers it has.
pub(super) fn index(system: &System, key: &str, problems: &mut Problems) -> Option<(Index, u32)> {
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
                        super::super::interval::MAX_STEPS
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
) -> Option<(DateTime, DateTime, TimeZone)> {
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
