//! Calendar periods: a year, a quarter, a month, a week, a day, or some days.

mod build;
mod layout;
mod period;
mod spec;

use std::collections::BTreeSet;

use jiff::civil::Date as Day;
use jiff::tz::TimeZone;

use super::explain::Story;
use super::fingerprint::line;
use super::point::KeyRange;
use super::rule::{RuleProblem, Spot};
use super::segments::Segments;
use crate::key::KeyValue;
use period::day;

pub(super) use layout::Refused;
#[cfg(all(
    feature = "migrations",
    any(feature = "sqlite", feature = "postgres", feature = "mysql")
))]
pub(crate) use period::parse_day;
pub use spec::{DateSpec, Every, Rounding};

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

    /// The label of each period, and the position of its shard.
    pub(super) fn owned(&self) -> impl Iterator<Item = (u64, usize)> {
        self.periods
            .iter()
            .map(|period| (period.label, period.shard))
    }

    /// Every period with its ends.
    #[cfg(all(
        feature = "migrations",
        any(feature = "sqlite", feature = "postgres", feature = "mysql")
    ))]
    pub(super) fn spans(&self) -> Vec<super::periods::Span> {
        let spans = self.periods.iter().filter_map(|period| {
            let from = day(period.first_day)?;
            let until = self.every.first_day(self.every.number(from) + 1)?;
            Some(super::periods::Span {
                spread: period.label,
                owner: period.shard,
                from: from.at(0, 0, 0, 0),
                until: until.at(0, 0, 0, 0),
            })
        });
        spans.collect()
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
                "the next period, {}, which begins on {first_day}, has no place: {}; extend it in time, it moves no row, and make its tables with `diesel-sharded tables ensure`",
                self.digits(label),
                self.covered()
            ),
        })
    }
}
