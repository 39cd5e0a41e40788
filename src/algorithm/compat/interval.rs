//! ShardingSphere's two algorithms for times.
//!
//! Both know dates and times without a zone; which instants are meant is said by the rule.

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp};

use crate::key::KeyValue;

/// Steps beyond this many are a mistake.
pub(super) const MAX_STEPS: usize = 100_000;

/// Reads `yyyy-MM-dd HH:mm:ss`.
pub(super) fn parse(text: &str) -> Option<DateTime> {
    let form = text.len() == 19 && text.as_bytes().get(10) == Some(&b' ');
    form.then(|| text.parse().ok()).flatten()
}

/// The date and time that a column without a zone holds for an instant, in whole seconds.
fn local(key: KeyValue<'_>, zone: &TimeZone) -> Option<DateTime> {
    let KeyValue::Timestamp(micros) = key else {
        return None;
    };
    let instant = Timestamp::from_microsecond(micros).ok()?;
    let local = zone.to_datetime(instant);
    local.with().subsec_nanosecond(0).build().ok()
}

fn seconds(from: DateTime, to: DateTime) -> Option<i64> {
    Some(to.duration_since(from).as_secs())
}

#[derive(Clone, Debug)]
pub(super) struct Auto {
    pub(super) lower: DateTime,
    pub(super) seconds: u32,
    pub(super) count: u32,
    pub(super) zone: TimeZone,
}

impl Auto {
    pub(super) fn new(
        lower: DateTime,
        upper: DateTime,
        length: u32,
        zone: TimeZone,
    ) -> Option<Self> {
        let all = seconds(lower, upper)?;
        let count = all.checked_div(length.into())?.checked_add(2)?;
        Some(Self {
            lower,
            seconds: length,
            count: u32::try_from(count).ok()?,
            zone,
        })
    }

    pub(super) fn index(&self, key: KeyValue<'_>) -> Option<u32> {
        let elapsed = seconds(self.lower, local(key, &self.zone)?)?;
        Some(position(elapsed, self.seconds, self.count))
    }

    /// The indexes of the instants from one microsecond until another.
    pub(super) fn between(&self, from: i128, until: Option<i128>) -> Vec<u32> {
        let highest = self.count.saturating_sub(1);
        if self.zone.to_fixed_offset().is_err() {
            // Where clocks are set back, later instants have earlier times.
            return (0..=highest).collect();
        }
        let at = |micros: i128, otherwise: u32| {
            let micros = i64::try_from(micros).ok();
            micros
                .and_then(|micros| self.index(KeyValue::Timestamp(micros)))
                .unwrap_or(otherwise)
        };
        let first = at(from, if from > 0 { highest } else { 0 });
        let last = until.map_or(highest, |until| at(until - 1, highest));
        (first..=last).collect()
    }
}

/// Seconds over seconds, to two decimals with halves to the even one, then up; never outside of the
/// tables there are. Printing a number with two decimals rounds as Java's `DecimalFormat` does: by
/// the exact value of the binary fraction.
pub(super) fn position(elapsed: i64, length: u32, count: u32) -> u32 {
    let quotient = elapsed as f64 / f64::from(length.max(1));
    let rounded: f64 = format!("{quotient:.2}").parse().unwrap_or(0.0);
    // A conversion to a smaller type keeps to its bounds.
    (rounded.ceil().max(0.0) as u32).min(count.saturating_sub(1))
}

/// One step: the instant from which it counts, and the end of its table's name.
#[derive(Clone, Debug)]
pub(super) struct Stepped {
    /// Where each step begins; the last one is the end of all.
    starts: Box<[DateTime]>,
    suffixes: Box<[String]>,
    zone: TimeZone,
}

impl Stepped {
    /// `None` where the steps leave the calendar or are too many.
    pub(super) fn new(
        lower: DateTime,
        upper: DateTime,
        step: Span,
        pattern: &Pattern,
        zone: TimeZone,
    ) -> Option<Self> {
        let mut starts = vec![lower];
        let mut suffixes = Vec::new();
        let mut start = lower;
        // From each step to the next, not from the first one: from January 31 a month later is
        // February 29, and then March 29.
        while start <= upper {
            suffixes.push(pattern.format(start));
            start = start.checked_add(step).ok()?;
            starts.push(start);
            if starts.len() > MAX_STEPS {
                return None;
            }
        }
        Some(Self {
            starts: starts.into_boxed_slice(),
            suffixes: suffixes.into_boxed_slice(),
            zone,
        })
    }

    pub(super) fn count(&self) -> u32 {
        // At most MAX_STEPS.
        self.suffixes.len() as u32
    }

    pub(super) fn index(&self, key: KeyValue<'_>) -> Option<u32> {
        let local = local(key, &self.zone)?;
        let after = self.starts.partition_point(|start| *start <= local);
        let index = after.checked_sub(1)?;
        let index = u32::try_from(index).ok()?;
        (index < self.count()).then_some(index)
    }

    /// The steps that instants from one microsecond until another are in; `None` where the zone does
    /// not let later instants have later times.
    pub(super) fn between(&self, from: i128, until: Option<i128>) -> Option<Vec<u32>> {
        let offset = self.zone.to_fixed_offset().ok()?;
        let micros = |start: &DateTime| {
            let instant = offset.to_timestamp(*start).ok()?;
            Some(i128::from(instant.as_microsecond()))
        };
        let mut met = Vec::new();
        for (i, pair) in (0..).zip(self.starts.windows(2)) {
            let [start, end] = pair else { continue };
            let (start, end) = (micros(start)?, micros(end)?);
            if from.max(start) < until.map_or(end, |until| until.min(end)) {
                met.push(i);
            }
        }
        Some(met)
    }

    /// Where a step begins and ends.
    #[cfg(all(
        feature = "migrations",
        any(feature = "sqlite", feature = "postgres", feature = "mysql")
    ))]
    pub(super) fn ends(&self, step: u64) -> Option<(DateTime, DateTime)> {
        let step = usize::try_from(step).ok()?;
        Some((*self.starts.get(step)?, *self.starts.get(step + 1)?))
    }

    #[cfg(all(
        feature = "migrations",
        any(feature = "sqlite", feature = "postgres", feature = "mysql")
    ))]
    pub(super) fn zone(&self) -> TimeZone {
        self.zone.clone()
    }

    pub(super) fn suffix(&self, step: u64) -> Option<String> {
        self.suffixes.get(usize::try_from(step).ok()?).cloned()
    }
}

/// A pattern for the end of a table's name, of Java's letters.
#[derive(Clone, Debug)]
pub(super) struct Pattern(Vec<Field>);

#[derive(Clone, Copy, Debug)]
enum Field {
    Year,
    ShortYear,
    Month,
    Day,
    Hour,
    Minute,
    Second,
    Literal(char),
}

impl Pattern {
    pub(super) fn parse(text: &str) -> Option<Self> {
        const LETTERS: [(&str, Field); 7] = [
            ("yyyy", Field::Year),
            ("yy", Field::ShortYear),
            ("MM", Field::Month),
            ("dd", Field::Day),
            ("HH", Field::Hour),
            ("mm", Field::Minute),
            ("ss", Field::Second),
        ];
        let mut fields = Vec::new();
        let mut rest = text;
        while let Some(next) = rest.chars().next() {
            if matches!(next, '_' | '-') {
                fields.push(Field::Literal(next));
                rest = &rest[1..];
                continue;
            }
            // A run of one letter is one field, of exactly the lengths above.
            let run = rest.len() - rest.trim_start_matches(next).len();
            let known = LETTERS.iter().find(|(letters, _)| *letters == &rest[..run]);
            fields.push(known?.1);
            rest = &rest[run..];
        }
        (!fields.is_empty()).then_some(Self(fields))
    }

    fn format(&self, at: DateTime) -> String {
        let mut text = String::new();
        for field in &self.0 {
            text += &match field {
                Field::Year => format!("{:04}", at.year()),
                Field::ShortYear => format!("{:02}", at.year().rem_euclid(100)),
                Field::Month => format!("{:02}", at.month()),
                Field::Day => format!("{:02}", at.day()),
                Field::Hour => format!("{:02}", at.hour()),
                Field::Minute => format!("{:02}", at.minute()),
                Field::Second => format!("{:02}", at.second()),
                Field::Literal(literal) => literal.to_string(),
            };
        }
        text
    }
}

/// A number of units as a span of time.
pub(super) fn span(amount: u32, unit: &str) -> Option<Span> {
    let (amount, span) = (i64::from(amount), Span::new());
    let span = match unit.to_ascii_lowercase().as_str() {
        "years" => span.try_years(amount),
        "months" => span.try_months(amount),
        "weeks" => span.try_weeks(amount),
        "days" => span.try_days(amount),
        "hours" => span.try_hours(amount),
        "minutes" => span.try_minutes(amount),
        "seconds" => span.try_seconds(amount),
        _ => return None,
    };
    span.ok().filter(|_| amount > 0)
}
