//! Checks a plan and makes it.

use jiff::civil::Date as Day;
use jiff::tz::{TimeZone, TimeZoneDatabase};

use super::super::rule::Problems;
use super::super::segments::{Fault, Segments, Stretch};
use super::period::{self, day, days, parse_day};
use super::{Date, DateSpec, Every, Owners, Period, layout};
use crate::key::KeyType;

/// A plan with more periods is a mistake in most cases, and a megabyte of memory in all.
const MAX_PERIODS: i64 = 100_000;

impl Date {
    pub(in crate::algorithm) fn build(
        shards: &[String],
        spec: &DateSpec,
        key: KeyType,
        problems: &mut Problems,
    ) -> Option<Self> {
        let before = problems.len();
        let zone = zone(spec, key, problems);
        let precision = precision(spec, key, problems);
        if matches!(spec.every, Every::Days { count: 0, .. }) {
            problems.add(
                "algorithm.every",
                "0 days are no period: say 1 or more".into(),
            );
            return None;
        }
        let owners = owners(shards, spec, problems);
        let span = match (&owners, span(spec, &owners, problems)) {
            (_, Some(span)) => span,
            (_, None) => return None,
        };
        let owners = owners?;
        let numbers = (
            spec.every.number(span.0),
            spec.every.number(span.1.yesterday().ok()?),
        );
        if numbers.1 - numbers.0 >= MAX_PERIODS {
            problems.add(
                "algorithm.until",
                format!(
                    "the plan has {} periods, more than {MAX_PERIODS}: end it earlier, or make the periods longer",
                    numbers.1 - numbers.0 + 1
                ),
            );
        }
        if problems.len() > before || shards.is_empty() {
            return None;
        }
        let mut periods = Vec::new();
        let mut numbered = Vec::new();
        for number in numbers.0..=numbers.1 {
            let first_day = days(spec.every.first_day(number)?);
            let shard = match &owners {
                Owners::InTurn => Some(number.rem_euclid(shards.len() as i64) as usize),
                Owners::Map(map) => map
                    .iter()
                    .find(|(from, until, _)| (*from..*until).contains(&first_day))
                    .map(|(.., shard)| *shard),
            };
            if let Some(shard) = shard {
                numbered.push(number);
                periods.push(Period {
                    label: spec.every.label(number)?.0,
                    shard,
                    first_day,
                });
            }
        }
        let line = match &zone {
            None => layout::of_days(spec.every, &numbered),
            Some(zone) => layout::of_instants(spec.every, &numbered, zone),
        }?;
        Some(Self {
            every: spec.every,
            zone,
            zone_name: spec.zone.clone().unwrap_or_default(),
            owners,
            precision,
            rounding: spec.rounding,
            line,
            periods: periods.into_boxed_slice(),
            span,
        })
    }
}

fn zone(spec: &DateSpec, key: KeyType, problems: &mut Problems) -> Option<TimeZone> {
    const KEY: &str = "algorithm.zone";
    let name = match (key, &spec.zone) {
        (KeyType::Timestamp, Some(name)) => name,
        (KeyType::Timestamp, None) => {
            problems.add(
                KEY,
                "say in which time zone a period begins: \"UTC\", \"Europe/Berlin\" ..".into(),
            );
            return None;
        }
        (KeyType::Date, None) => return None,
        (KeyType::Date, Some(_)) => {
            problems.add(
                KEY,
                "keys that are dates have no time zone: take it out".into(),
            );
            return None;
        }
        _ => {
            problems.add(
                "algorithm.kind",
                format!(
                    "`date` takes days and instants, and the keys of this keyspace are {key}: declare `key` as \"date\" or \"timestamp\""
                ),
            );
            return None;
        }
    };
    let zone = TimeZoneDatabase::bundled().get(name).ok();
    if zone.is_none() {
        problems.add(
            KEY,
            format!("unknown time zone {name:?}: use a name such as \"UTC\" or \"Europe/Berlin\""),
        );
    }
    zone
}

fn precision(spec: &DateSpec, key: KeyType, problems: &mut Problems) -> u32 {
    match spec.precision {
        None => 6,
        Some(_) if key == KeyType::Date => {
            problems.add(
                "algorithm.precision",
                "keys that are dates have no fraction of a second: take it out".into(),
            );
            6
        }
        Some(digits) if digits <= 6 => digits,
        Some(digits) => {
            problems.add(
                "algorithm.precision",
                format!("{digits} digits of a second are more than a column keeps: say 0 to 6"),
            );
            6
        }
    }
}

/// A day at which a period begins, and which has a name.
fn first_day(key: &str, text: &str, every: Every, problems: &mut Problems) -> Option<Day> {
    let Some(found) = parse_day(text).filter(|day| (period::FIRST..=period::LAST).contains(day))
    else {
        problems.add(
            key,
            format!(
                "{text:?} is no day: write \"2024\", \"2024-02\", \"2024-W09\" or \"2024-02-01\""
            ),
        );
        return None;
    };
    let number = every.number(found);
    let first = every.first_day(number)?;
    if first == found {
        return Some(found);
    }
    let next = every.first_day(number + 1);
    let next = next.map_or(String::new(), |next| format!(" or {next}"));
    problems.add(
        key,
        format!("{found} is not the first day of a period: write {first}{next}"),
    );
    None
}

fn owners(shards: &[String], spec: &DateSpec, problems: &mut Problems) -> Option<Owners> {
    const KEY: &str = "algorithm.map";
    let Some(map) = &spec.map else {
        return Some(Owners::InTurn);
    };
    let before = problems.len();
    let mut stretches = Vec::with_capacity(map.len());
    for (shard, from, until) in map {
        let owner = shards.iter().position(|listed| listed == shard);
        if owner.is_none() {
            problems.unlisted(KEY, "periods are given to", shard, shards);
        }
        let from = first_day(KEY, from, spec.every, problems);
        let until = first_day(KEY, until, spec.every, problems);
        stretches.push(Stretch {
            from: from.map(days),
            until: until.map(days),
            owner: owner
                .and_then(|owner| u32::try_from(owner).ok())
                .unwrap_or(0),
        });
    }
    if problems.len() > before {
        return None;
    }
    if let Err(faults) = Segments::build(&stretches) {
        let shown = |i: usize| format!("{}..{} of {:?}", map[i].1, map[i].2, map[i].0);
        for fault in faults {
            let message = match fault {
                Fault::Empty(i) => {
                    format!(
                        "{} holds no day: the end is exclusive and must be later",
                        shown(i)
                    )
                }
                Fault::Overlap(a, b) => {
                    format!(
                        "{} and {} overlap: a period has one shard",
                        shown(a),
                        shown(b)
                    )
                }
            };
            problems.add(KEY, message);
        }
        return None;
    }
    let spans = stretches.iter();
    let spans = spans.map(|s| Some((s.from?, s.until?, s.owner as usize)));
    spans.collect::<Option<Vec<_>>>().map(Owners::Map)
}

/// From which day until which the plan is.
fn span(spec: &DateSpec, owners: &Option<Owners>, problems: &mut Problems) -> Option<(Day, Day)> {
    if spec.map.is_some() {
        for (key, given) in [
            ("algorithm.from", &spec.from),
            ("algorithm.until", &spec.until),
        ] {
            if given.is_some() {
                problems.add(
                    key,
                    "the map says from when until when: take this out".into(),
                );
            }
        }
        let Some(Owners::Map(map)) = owners else {
            return None;
        };
        let from = map.iter().map(|(from, ..)| *from).min();
        let until = map.iter().map(|(_, until, _)| *until).max();
        let (Some(from), Some(until)) = (from, until) else {
            problems.add(
                "algorithm.map",
                "the map is empty: give periods to shards".into(),
            );
            return None;
        };
        return Some((day(from)?, day(until)?));
    }
    let mut end = |key: &str, given: &Option<String>| match given {
        Some(text) => first_day(key, text, spec.every, problems),
        None => {
            problems.add(
                key,
                "is missing: a plan has a first day, and a day on which it ends".into(),
            );
            None
        }
    };
    let (from, until) = (
        end("algorithm.from", &spec.from),
        end("algorithm.until", &spec.until),
    );
    let (from, until) = (from?, until?);
    if from >= until {
        problems.add(
            "algorithm.until",
            format!("the plan ends on {until}, exclusive, which is not after its first day {from}"),
        );
        return None;
    }
    Some((from, until))
}
