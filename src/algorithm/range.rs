//! Ranges of keys, each of one shard.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::normalize::Steps;
use super::point::{self, KeyRange, Part, Point};
use super::rule::{Problems, Spot, spread};
use super::segments::{Fault, Segments, Stretch};
use super::spec::RangeSpec;
use crate::key::{KeyType, KeyValue, ShardKey};

const KEY: &str = "algorithm.ranges";

#[derive(Clone, Debug)]
pub(super) struct Range {
    line: Line,
    /// Where between the ranges no shard owns the keys, for a warning.
    pub(super) gaps: Vec<String>,
}

/// The segments, in the cheapest form that can hold their starts.
#[derive(Clone, Debug)]
enum Line {
    /// Numbers, days and instants.
    Small(Segments<i64>),
    Simple(Segments<Part>),
    Composite(Segments<Point>),
}

impl Range {
    pub(super) fn build(
        shards: &[String],
        ranges: &[RangeSpec],
        key: KeyType,
        steps: Steps,
        problems: &mut Problems,
    ) -> Option<Self> {
        let before = problems.len();
        if ranges.is_empty() {
            problems.add(
                KEY,
                "no range is listed: list the ranges of each shard".into(),
            );
        }
        let mut stretches: Vec<Stretch<Point>> = Vec::with_capacity(ranges.len());
        for range in ranges {
            let owner = shards.iter().position(|shard| *shard == range.shard);
            if owner.is_none() {
                problems.unlisted(KEY, "a range is given to", &range.shard, shards);
            }
            stretches.push(Stretch {
                from: bound(range, range.from.as_ref(), key, steps, problems),
                until: bound(range, range.until.as_ref(), key, steps, problems),
                owner: owner
                    .and_then(|owner| u32::try_from(owner).ok())
                    .unwrap_or(0),
            });
        }
        if problems.len() > before {
            return None;
        }
        let segments = match Segments::build(&stretches) {
            Ok(segments) => segments,
            Err(faults) => {
                for fault in faults {
                    problems.add(KEY, fault_text(fault, ranges));
                }
                return None;
            }
        };
        Some(Self {
            gaps: gaps(ranges, &stretches),
            line: Line::of(&segments, &stretches),
        })
    }

    #[inline(always)]
    pub(super) fn place(&self, key: KeyValue<'_>) -> Option<Spot> {
        Some(Spot {
            shard: self.owner(key)?,
            spread: spread(key),
        })
    }

    #[inline(always)]
    fn owner(&self, key: KeyValue<'_>) -> Option<usize> {
        match &self.line {
            Line::Small(segments) => {
                let number = match key {
                    KeyValue::Integer(number) => match i64::try_from(number) {
                        Ok(number) => number,
                        // All starts are between the two ends of what fits.
                        Err(_) => return segments.end(number > 0),
                    },
                    KeyValue::Timestamp(micros) => micros,
                    KeyValue::Date(days) => days.into(),
                    _ => return segments.end(true),
                };
                segments.owner(|start| start.cmp(&number))
            }
            Line::Simple(segments) => segments.owner(|start| start.compare(key)),
            Line::Composite(segments) => {
                let point = point::point(key);
                segments.owner(|start| start.cmp(&point))
            }
        }
    }

    /// The owners that a range of keys meets.
    pub(super) fn reach(&self, range: &KeyRange) -> BTreeSet<usize> {
        let meeting = |from: Option<Point>, until: Option<Point>, owner: Option<usize>| {
            owner.filter(|_| range.meets(from.as_ref(), until.as_ref()))
        };
        self.segments()
            .into_iter()
            .filter_map(|(from, until, owner)| meeting(from, until, owner))
            .collect()
    }

    /// All segments in order, ownerless ones too.
    pub(super) fn segments(&self) -> Vec<(Option<Point>, Option<Point>, Option<usize>)> {
        let small = |number: Option<&i64>| number.map(|n| vec![Part::Number((*n).into())]);
        let simple = |part: Option<&Part>| part.map(|part| vec![part.clone()]);
        match &self.line {
            Line::Small(line) => line
                .iter()
                .map(|(from, until, owner)| (small(from), small(until), owner))
                .collect(),
            Line::Simple(line) => line
                .iter()
                .map(|(from, until, owner)| (simple(from), simple(until), owner))
                .collect(),
            Line::Composite(line) => line
                .iter()
                .map(|(from, until, owner)| (from.cloned(), until.cloned(), owner))
                .collect(),
        }
    }
}

impl Line {
    fn of(segments: &Segments<Point>, stretches: &[Stretch<Point>]) -> Self {
        let small = |point: &Point| match point.as_slice() {
            [Part::Number(number)] => i64::try_from(*number).ok(),
            _ => None,
        };
        let single = |point: &Point| match point.as_slice() {
            [part] => Some(part.clone()),
            _ => None,
        };
        // Stretches without a fault have none in another form either.
        if let Some(Ok(line)) = converted(stretches, small).map(|s| Segments::build(&s)) {
            return Self::Small(line);
        }
        if let Some(Ok(line)) = converted(stretches, single).map(|s| Segments::build(&s)) {
            return Self::Simple(line);
        }
        Self::Composite(segments.clone())
    }
}

/// The same stretches with other ends; `None` where one of these cannot be converted.
fn converted<T>(
    stretches: &[Stretch<Point>],
    convert: impl Fn(&Point) -> Option<T>,
) -> Option<Vec<Stretch<T>>> {
    let end = |point: &Option<Point>| match point {
        None => Some(None),
        Some(point) => convert(point).map(Some),
    };
    let stretches = stretches.iter();
    stretches
        .map(|stretch| {
            Some(Stretch {
                from: end(&stretch.from)?,
                until: end(&stretch.until)?,
                owner: stretch.owner,
            })
        })
        .collect()
}

fn bound(
    range: &RangeSpec,
    bound: Option<&ShardKey<'static>>,
    key: KeyType,
    steps: Steps,
    problems: &mut Problems,
) -> Option<Point> {
    let bound = bound?;
    match bound.value() {
        Ok(value) if value.key_type() == key => Some(steps.normalized(value, point::point)),
        Ok(value) => {
            problems.add(
                KEY,
                format!(
                    "the bound {bound} of {:?} is {}, but the keys of this keyspace are {key}",
                    range.shard,
                    value.key_type(),
                ),
            );
            None
        }
        Err(_) => {
            problems.add(
                KEY,
                format!(
                    "the bound {bound} of {:?} is no key: leave a bound out where the range is open",
                    range.shard
                ),
            );
            None
        }
    }
}

/// A range as messages show it: `100..200 of "a"`.
fn shown(range: &RangeSpec) -> String {
    let mut text = String::new();
    if let Some(from) = &range.from {
        let _ = write!(text, "{from}");
    }
    text.push_str("..");
    if let Some(until) = &range.until {
        let _ = write!(text, "{until}");
    }
    let _ = write!(text, " of {:?}", range.shard);
    text
}

fn fault_text(fault: Fault, ranges: &[RangeSpec]) -> String {
    match fault {
        Fault::Empty(at) => format!(
            "the range {} holds no key: `until` is exclusive and must be above `from`",
            shown(&ranges[at])
        ),
        Fault::Overlap(a, b) => format!(
            "the ranges {} and {} overlap: a key has one shard (`until` is exclusive, so the next range may begin with it)",
            shown(&ranges[a]),
            shown(&ranges[b])
        ),
    }
}

/// Which keys between the first and the last range are owned by nobody.
fn gaps(ranges: &[RangeSpec], stretches: &[Stretch<Point>]) -> Vec<String> {
    let mut order: Vec<usize> = (0..stretches.len()).collect();
    order.sort_by(|a, b| stretches[*a].from.cmp(&stretches[*b].from));
    let mut gaps = Vec::new();
    for pair in order.windows(2) {
        let (a, b) = (pair[0], pair[1]);
        if let (Some(end), Some(start)) = (&stretches[a].until, &stretches[b].from)
            && end < start
            && let (Some(end), Some(start)) = (&ranges[a].until, &ranges[b].from)
        {
            gaps.push(format!("{end}..{start}"));
        }
    }
    gaps
}
