//! Calendar periods: a year, a quarter, a month, a week, a day, or some days.

mod layout;
mod period;

use std::collections::BTreeSet;

use jiff::civil::Date as Day;
use jiff::tz::{TimeZone, TimeZoneDatabase};

use super::explain::Story;
use super::fingerprint::line;
use super::point::KeyRange;
use super::rule::{Problems, RuleProblem, Spot};
use super::segments::{Fault, Segments, Stretch};
use crate::key::{KeyType, KeyValue};
use period::{day, days, parse_day};

pub(super) use layout::Refused;

/// A plan with more periods is a mistake in most cases, and a megabyte of memory in all.
const MAX_PERIODS: i64 = 100_000;

/// How long a period of a [`date`](super::RuleSpec::date) rule is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Every {
    /// A calendar year; its name is `2024`.
    Year,
    /// Three months, from January, April, July or October on; `20241` to `20244`.
    Quarter,
    /// A calendar month; `202402`.
    Month,
    /// An ISO week, from Monday to Sunday; `202409`, by the year of its Thursday.
    Week,
    /// A day; `20240229`.
    Day,
    /// So many days, counted from an anchor in both directions; named by its first day, `20240229`.
    Days {
        /// How many days: 1 or more.
        count: u32,
        /// A first day, in days since 1970-01-01.
        anchor: i32,
    },
}

/// How the database makes an instant fit a column that keeps fewer digits of the second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Rounding {
    /// An instant with more digits than the column is refused: round it before it is used as a key
    /// and as a value.
    #[default]
    Refuse,
    /// As PostgreSQL does: to the nearest, halves away from 2000-01-01 00:00:00 UTC.
    Postgres,
    /// As MySQL does: to the nearest, halves up.
    Mysql,
    /// As MariaDB does unless `TIME_ROUND_FRACTIONAL` is set: cut off.
    Mariadb,
}

impl Rounding {
    pub(crate) const ALL: [(Self, &'static str); 4] = [
        (Self::Refuse, "refuse"),
        (Self::Postgres, "postgres"),
        (Self::Mysql, "mysql"),
        (Self::Mariadb, "mariadb"),
    ];

    /// Its name in a configuration.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        let known = Self::ALL.iter().find(|(rounding, _)| *rounding == self);
        known.map_or("", |(_, name)| name)
    }
}

/// A [`date`](super::RuleSpec::date) rule as it is asked for.
///
/// ```
/// use diesel_sharded::DateSpec;
///
/// let months = DateSpec::monthly().from("2023-11").until("2024-02").zone("Europe/Berlin");
/// assert_ne!(months, DateSpec::monthly().from("2023-11").until("2024-02").zone("UTC"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct DateSpec {
    pub(crate) every: Every,
    pub(crate) zone: Option<String>,
    pub(crate) from: Option<String>,
    pub(crate) until: Option<String>,
    pub(crate) map: Option<Vec<(String, String, String)>>,
    pub(crate) precision: Option<u32>,
    pub(crate) rounding: Rounding,
}

impl DateSpec {
    /// Periods of this length.
    pub fn new(every: Every) -> Self {
        Self {
            every,
            zone: None,
            from: None,
            until: None,
            map: None,
            precision: None,
            rounding: Rounding::Refuse,
        }
    }

    /// Calendar months.
    pub fn monthly() -> Self {
        Self::new(Every::Month)
    }

    /// The time zone whose days are meant, by its IANA name. There is no default: keys that are
    /// timestamps need one, keys that are dates have none.
    ///
    /// The zones are those compiled into the crate `jiff`, so that neither the machine nor its `TZ`
    /// has any influence.
    pub fn zone(mut self, name: &str) -> Self {
        self.zone = Some(name.to_owned());
        self
    }

    /// The first day of the plan: `2024`, `2024-02`, `2024-W09` or `2024-02-01`, the first day of a
    /// period.
    pub fn from(mut self, day: &str) -> Self {
        self.from = Some(day.to_owned());
        self
    }

    /// The day on which the plan ends: the first one that has no place any more. Moving it later
    /// moves no row.
    pub fn until(mut self, day: &str) -> Self {
        self.until = Some(day.to_owned());
        self
    }

    /// Which shard holds which periods: its name, the first day, and the first day that is no longer
    /// its. It takes the place of [`from`](Self::from) and [`until`](Self::until). Defaults to all
    /// shards in turn, one period after the other.
    pub fn map<S: Into<String>>(
        mut self,
        spans: impl IntoIterator<Item = (S, &'static str, &'static str)>,
    ) -> Self {
        let spans = spans.into_iter();
        self.map = Some(
            spans
                .map(|(shard, from, until)| (shard.into(), from.to_owned(), until.to_owned()))
                .collect(),
        );
        self
    }

    /// How many digits of the second the key column keeps, 0 to 6, and what its database does with
    /// an instant that has more. Defaults to 6 digits.
    pub fn precision(mut self, digits: u32, rounding: Rounding) -> Self {
        self.precision = Some(digits);
        self.rounding = rounding;
        self
    }
}

/// A checked plan.
#[derive(Clone, Debug)]
pub(super) struct Date {
    pub(super) every: Every,
    /// `None` for keys that are days.
    pub(super) zone: Option<TimeZone>,
    pub(super) zone_name: String,
    pub(super) owners: Owners,
    pub(super) precision: u32,
    pub(super) rounding: Rounding,
    /// Microseconds, or days; the owner is a position among `periods`.
    line: Segments<i64>,
    periods: Box<[Period]>,
    /// The days of the plan.
    span: (Day, Day),
}

/// How periods are given to shards.
#[derive(Clone, Debug)]
pub(super) enum Owners {
    /// In turn, by the number of the period.
    InTurn,
    /// By stretches of days since 1970-01-01.
    Map(Vec<(i64, i64, usize)>),
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Period {
    pub(super) label: u64,
    pub(super) shard: usize,
    /// In days since 1970-01-01.
    first_day: i64,
}

impl Date {
    pub(super) fn build(
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

    #[inline]
    pub(super) fn place(&self, key: KeyValue<'_>) -> Option<Spot> {
        let at = match key {
            KeyValue::Timestamp(micros) if self.precision == 6 => micros,
            KeyValue::Timestamp(micros) => {
                layout::rounded(micros, self.precision, self.rounding).ok()?
            }
            KeyValue::Date(days) => days.into(),
            _ => return None,
        };
        let period = self.line.owner(|start| start.cmp(&at))?;
        let period = self.periods.get(period)?;
        Some(Spot {
            shard: period.shard,
            spread: period.label,
        })
    }

    /// Why a key has no place, where it is not for lying outside of the plan.
    pub(super) fn refused(&self, key: KeyValue<'_>) -> Option<Refused> {
        match key {
            KeyValue::Timestamp(micros) => {
                layout::rounded(micros, self.precision, self.rounding).err()
            }
            _ => None,
        }
    }

    /// The periods that a range of keys meets.
    pub(super) fn reach(&self, range: &KeyRange) -> Vec<Period> {
        let Some((from, until)) = range.numbers() else {
            return Vec::new();
        };
        // A key that rounding moves lies on the grid of the column once it is stored.
        let grid = i128::from(layout::unit(self.precision));
        let up = |bound: i128| match self.zone {
            None => bound,
            Some(_) => {
                bound.div_euclid(grid) * grid + if bound.rem_euclid(grid) > 0 { grid } else { 0 }
            }
        };
        let (from, until) = (up(from), until.map(up));
        let mut met: BTreeSet<usize> = BTreeSet::new();
        for (start, end, period) in self.line.iter() {
            let Some(period) = period else { continue };
            let low = start.map_or(from, |start| from.max(up(i128::from(*start))));
            let high = match (end, until) {
                (None, None) => None,
                (Some(end), None) => Some(i128::from(*end)),
                (None, Some(until)) => Some(until),
                (Some(end), Some(until)) => Some(until.min(i128::from(*end))),
            };
            if high.is_none_or(|high| low < high) {
                met.insert(period);
            }
        }
        let periods = met.into_iter();
        periods
            .filter_map(|period| self.periods.get(period).copied())
            .collect()
    }

    pub(super) fn tell<'n>(
        &self,
        key: KeyValue<'_>,
        story: &mut Story,
        name: impl Fn(usize) -> &'n str,
    ) {
        let at = match key {
            KeyValue::Timestamp(micros) => {
                layout::rounded(micros, self.precision, self.rounding).unwrap_or(micros)
            }
            KeyValue::Date(days) => days.into(),
            _ => return,
        };
        if let (Some(zone), Ok(instant)) = (&self.zone, jiff::Timestamp::from_microsecond(at)) {
            let local = zone.to_datetime(instant);
            story.step("local time", format_args!("{local} in {}", self.zone_name));
        }
        let period = self.line.owner(|start| start.cmp(&at));
        if let Some(period) = period.and_then(|period| self.periods.get(period)) {
            story.bucket = Some(period.label);
            let first_day = day(period.first_day).map_or(String::new(), |day| day.to_string());
            let digits = self.digits(period.label);
            story.step("period", format_args!("{digits}, from {first_day} on"));
            let owner = name(period.shard);
            story.map_entry = Some(match self.owners {
                Owners::InTurn => format!("the period is {owner}'s turn"),
                Owners::Map(_) => format!("the map gives the period to {owner}"),
            });
        }
    }

    pub(super) fn a_label(&self) -> Option<u64> {
        self.periods.first().map(|period| period.label)
    }

    /// The digits that name a period's tables.
    pub(super) fn digits(&self, label: u64) -> String {
        self.every.digits(label)
    }

    pub(super) fn in_turn(&self) -> bool {
        matches!(self.owners, Owners::InTurn)
    }

    /// Writes the lines of a fingerprint that decide, but for the list of shards. They are frozen.
    pub(super) fn write_lines(&self, text: &mut String, name: impl Fn(usize) -> String) {
        match self.every {
            Every::Year => line(text, format_args!("every year")),
            Every::Quarter => line(text, format_args!("every quarter")),
            Every::Month => line(text, format_args!("every month")),
            Every::Week => line(text, format_args!("every week")),
            Every::Day => line(text, format_args!("every day")),
            Every::Days { count, anchor } => {
                // Anchors that are whole periods apart are one.
                let anchor = i64::from(anchor).rem_euclid(i64::from(count.max(1)));
                line(text, format_args!("every days {count} {anchor}"));
            }
        }
        if self.zone.is_some() {
            line(text, format_args!("zone {}", self.zone_name));
        }
        if self.precision < 6 {
            let (digits, rounding) = (self.precision, self.rounding.as_str());
            line(text, format_args!("precision {digits} {rounding}"));
        }
        if let Owners::Map(map) = &self.owners {
            let mut merged: Vec<(i64, i64, usize)> = Vec::new();
            let mut map = map.clone();
            map.sort_unstable();
            for (from, until, owner) in map {
                match merged.last_mut() {
                    Some((_, end, last)) if *last == owner && *end == from => *end = until,
                    _ => merged.push((from, until, owner)),
                }
            }
            for (from, until, owner) in merged {
                if let (Some(from), Some(until)) = (day(from), day(until)) {
                    line(text, format_args!("span {from} {until} {}", name(owner)));
                }
            }
        }
    }

    /// What the plan covers, for the error about a key outside of it.
    pub(super) fn covered(&self) -> String {
        let (from, until) = self.span;
        match &self.zone {
            None => format!("the plan is from {from} until {until}, exclusive"),
            Some(_) => format!(
                "the plan is from {from} until {until}, exclusive, in {}",
                self.zone_name
            ),
        }
    }

    /// What is doubtful about the plan at this moment.
    pub(super) fn warning(&self, now: jiff::Timestamp) -> Option<RuleProblem> {
        let zone = self.zone.clone().unwrap_or(TimeZone::UTC);
        let today = zone.to_datetime(now).date();
        let next = self.every.number(today) + 1;
        let (label, _) = self.every.label(next)?;
        let first_day = self.every.first_day(next)?;
        if self.periods.iter().any(|period| period.label == label) {
            return None;
        }
        (first_day > self.span.0).then(|| RuleProblem {
            key: "algorithm".to_owned(),
            message: format!(
                "the next period, {}, which begins on {first_day}, has no place: {}; extend it in time, it moves no row",
                self.digits(label),
                self.covered()
            ),
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
