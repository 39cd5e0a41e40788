//! Years, quarters, months, weeks and days: where one begins, which one a day is in, what it is
//! called.

use jiff::Span;
use jiff::civil::{Date, ISOWeekDate, Weekday};

use super::Every;
use crate::key::days_of;

/// The days of the calendar that can be named by four digits for the year.
pub(crate) const FIRST: Date = Date::constant(1, 1, 1);
/// See [`FIRST`].
pub(crate) const LAST: Date = Date::constant(9999, 12, 31);

/// Days since 1970-01-01.
pub(super) fn days(day: Date) -> i64 {
    i64::from(days_of(day))
}

/// The day so many days after 1970-01-01.
pub(super) fn day(days: i64) -> Option<Date> {
    let span = Span::new().try_days(days).ok()?;
    Date::constant(1970, 1, 1).checked_add(span).ok()
}

impl Every {
    /// The number of the period that holds a day, counted from one that never changes.
    pub(super) fn number(self, day: Date) -> i64 {
        match self {
            Self::Year => i64::from(day.year()),
            Self::Quarter => i64::from(day.year()) * 4 + (i64::from(day.month()) - 1) / 3,
            Self::Month => i64::from(day.year()) * 12 + i64::from(day.month()) - 1,
            // 1970-01-01 was a Thursday.
            Self::Week => (days(day) + 3).div_euclid(7),
            Self::Day => days(day),
            Self::Days { count, anchor } => {
                (days(day) - i64::from(anchor)).div_euclid(i64::from(count.max(1)))
            }
        }
    }

    /// The first day of a period.
    pub(super) fn first_day(self, number: i64) -> Option<Date> {
        match self {
            Self::Year => Date::new(i16::try_from(number).ok()?, 1, 1).ok(),
            Self::Quarter => month(number.div_euclid(4), number.rem_euclid(4) * 3 + 1),
            Self::Month => month(number.div_euclid(12), number.rem_euclid(12) + 1),
            Self::Week => day(number * 7 - 3),
            Self::Day => day(number),
            Self::Days { count, anchor } => {
                day(i64::from(anchor) + number * i64::from(count.max(1)))
            }
        }
    }

    /// The digits that name a period, as a number, and how many there are: 2024, 20241 (its first
    /// quarter), 202402, 202409 (its ninth ISO week), 20240229.
    pub(super) fn label(self, number: i64) -> Option<(u64, usize)> {
        let first = self.first_day(number)?;
        let year = u64::try_from(first.year()).ok()?;
        let month = u64::try_from(first.month()).ok()?;
        Some(match self {
            Self::Year => (year, 4),
            Self::Quarter => (year * 10 + (month - 1) / 3 + 1, 5),
            Self::Month => (year * 100 + month, 6),
            Self::Week => {
                let week = ISOWeekDate::from(first);
                let year = u64::try_from(week.year()).ok()?;
                (year * 100 + u64::try_from(week.week()).ok()?, 6)
            }
            Self::Day | Self::Days { .. } => {
                let day = u64::try_from(first.day()).ok()?;
                (year * 10_000 + month * 100 + day, 8)
            }
        })
    }

    /// The digits of a label, with their leading zeros.
    pub(super) fn digits(self, label: u64) -> String {
        let width = match self {
            Self::Year => 4,
            Self::Quarter => 5,
            Self::Month | Self::Week => 6,
            Self::Day | Self::Days { .. } => 8,
        };
        format!("{label:0width$}")
    }
}

fn month(year: i64, month: i64) -> Option<Date> {
    let (year, month) = (i16::try_from(year).ok()?, i8::try_from(month).ok()?);
    Date::new(year, month, 1).ok()
}

/// Reads `2024`, `2024-02`, `2024-W09` or `2024-02-29` as the first day that is meant.
pub(crate) fn parse_day(text: &str) -> Option<Date> {
    if let Some((year, week)) = text.split_once("-W") {
        let (year, week) = (digits(year, 4)?, digits(week, 2)?);
        let week = ISOWeekDate::new(year, i8::try_from(week).ok()?, Weekday::Monday).ok()?;
        return Some(week.date());
    }
    let mut parts = text.split('-');
    let year = digits(parts.next()?, 4)?;
    let mut part = || match parts.next() {
        None => Some(1),
        Some(text) => digits(text, 2).and_then(|number| i8::try_from(number).ok()),
    };
    let (month, day) = (part()?, part()?);
    if parts.next().is_some() {
        return None;
    }
    Date::new(year, month, day).ok()
}

fn digits(text: &str, count: usize) -> Option<i16> {
    let sound = text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit());
    sound.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Every; 7] = [
        Every::Year,
        Every::Quarter,
        Every::Month,
        Every::Week,
        Every::Day,
        Every::Days {
            count: 10,
            anchor: 3,
        },
        Every::Days {
            count: 1,
            anchor: -100,
        },
    ];

    #[test]
    fn a_period_begins_with_its_first_day_and_ends_before_the_next() {
        let mut day = Date::constant(1899, 12, 25);
        while day < Date::constant(2105, 1, 10) {
            let before = day.yesterday().expect("a day before");
            for every in ALL {
                let number = every.number(day);
                let first = every.first_day(number).expect("a day");
                assert!(first <= day, "{every:?} {day}");
                assert_eq!(every.number(first), number);
                let begins = every.number(before) != number;
                assert_eq!(begins, first == day, "{every:?} {day}");
                if begins {
                    assert_eq!(every.number(before), number - 1);
                }
            }
            day = day.tomorrow().expect("a day after");
        }
    }

    #[test]
    fn periods_are_named_by_the_calendar() {
        let label = |every: Every, day: &str| {
            let day = parse_day(day).expect("a day");
            let (label, width) = every.label(every.number(day)).expect("a label");
            let digits = every.digits(label);
            assert_eq!(digits.len(), width);
            digits
        };
        assert_eq!(label(Every::Year, "0999-05-05"), "0999");
        assert_eq!(label(Every::Quarter, "2024-02-29"), "20241");
        assert_eq!(label(Every::Quarter, "2024-12-31"), "20244");
        assert_eq!(label(Every::Month, "2024-02-29"), "202402");
        assert_eq!(label(Every::Month, "0001-01-01"), "000101");
        assert_eq!(label(Every::Day, "2024-02-29"), "20240229");
        // The year of an ISO week is that of its Thursday.
        assert_eq!(label(Every::Week, "2024-12-30"), "202501");
        assert_eq!(label(Every::Week, "2021-01-03"), "202053");
        assert_eq!(label(Every::Week, "2024-W09"), "202409");
        let ten = Every::Days {
            count: 10,
            anchor: 0,
        };
        assert_eq!(label(ten, "1969-12-31"), "19691222");
        assert_eq!(label(ten, "1970-01-10"), "19700101");
    }

    #[test]
    fn days_are_read_in_full_or_by_their_period() {
        for (text, day) in [
            ("2024", "2024-01-01"),
            ("2024-02", "2024-02-01"),
            ("2024-02-29", "2024-02-29"),
            ("2024-W01", "2024-01-01"),
            ("2020-W53", "2020-12-28"),
        ] {
            assert_eq!(
                parse_day(text).map(|day| day.to_string()).as_deref(),
                Some(day)
            );
        }
        for text in [
            "",
            "24",
            "2024-2",
            "2024-13",
            "2023-02-29",
            "2021-W53",
            "2024-01-01-01",
            "20240101",
            "+2024",
        ] {
            assert_eq!(parse_day(text), None, "{text}");
        }
    }
}
