//! Periods laid out on the line of days or of instants.

use jiff::civil::Date as Day;
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{Timestamp, ToSpan};

use super::super::segments::{Segments, Stretch};
use super::period::days;
use super::{Every, Rounding};

/// An instant that the column cannot keep as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refused;

/// Microseconds in the last digit that a column keeps.
pub(super) fn unit(precision: u32) -> i64 {
    10_i64.pow(6_u32.saturating_sub(precision))
}

/// The instant that the column keeps.
pub(super) fn rounded(micros: i64, precision: u32, rounding: Rounding) -> Result<i64, Refused> {
    /// 2000-01-01 00:00:00 UTC, from which PostgreSQL counts.
    const Y2K: i64 = 946_684_800_000_000;
    let unit = unit(precision);
    let below = micros.rem_euclid(unit);
    if below == 0 {
        return Ok(micros);
    }
    let down = micros.checked_sub(below).ok_or(Refused)?;
    let up = || down.checked_add(unit).ok_or(Refused);
    let nearest = |half_up: bool| match (below * 2).cmp(&unit) {
        std::cmp::Ordering::Less => Ok(down),
        std::cmp::Ordering::Greater => up(),
        std::cmp::Ordering::Equal if half_up => up(),
        std::cmp::Ordering::Equal => Ok(down),
    };
    match rounding {
        Rounding::Refuse => Err(Refused),
        Rounding::Postgres => nearest(micros >= Y2K),
        Rounding::Mysql => nearest(true),
        Rounding::Mariadb => Ok(down),
    }
}

/// Numbered periods, the owner being the position in the list, on the line of days since 1970.
pub(super) fn of_days(every: Every, numbers: &[i64]) -> Option<Segments<i64>> {
    let mut stretches = Vec::with_capacity(numbers.len());
    for (owner, number) in (0u32..).zip(numbers) {
        stretches.push(Stretch {
            from: Some(days(every.first_day(*number)?)),
            until: Some(days(end(every, *number)?)),
            owner,
        });
    }
    Segments::build(&stretches).ok()
}

/// The first day after a period. A plan ends before the calendar does, so there is one.
fn end(every: Every, number: i64) -> Option<Day> {
    every.first_day(number + 1)
}

/// The same on the line of microseconds since 1970.
///
/// An instant is in the period of its day on the calendar of the zone. Where clocks are set back over
/// midnight, a day is left and entered again (Newfoundland, 2009-11-01 00:01): so a period may be
/// several stretches. The day can change its period only where the clock shows the first moment of one,
/// and where the clock is set; between two such instants it is in one period.
pub(super) fn of_instants(every: Every, numbers: &[i64], zone: &TimeZone) -> Option<Segments<i64>> {
    let mut cuts: Vec<Timestamp> = Vec::with_capacity(numbers.len() + 2);
    let mut last = None;
    for number in numbers {
        if last != Some(*number) {
            push_cuts(&mut cuts, every.first_day(*number)?, zone)?;
        }
        push_cuts(&mut cuts, end(every, *number)?, zone)?;
        last = Some(number + 1);
    }
    cuts.sort_unstable();
    cuts.dedup();
    let period_at = |cut: &Timestamp| {
        let number = every.number(zone.to_datetime(*cut).date());
        numbers.binary_search(&number).ok()
    };
    let mut stretches: Vec<Stretch<i64>> = Vec::with_capacity(cuts.len());
    for pair in cuts.windows(2) {
        let [from, until] = pair else { continue };
        if let Some(owner) = period_at(from) {
            stretches.push(Stretch {
                from: Some(from.as_microsecond()),
                until: Some(until.as_microsecond()),
                owner: u32::try_from(owner).ok()?,
            });
        }
    }
    Segments::build(&stretches).ok()
}

/// The instants near midnight of a day at which the calendar can change: where the clock shows
/// midnight, and where it is set within a day of that.
fn push_cuts(cuts: &mut Vec<Timestamp>, first: Day, zone: &TimeZone) -> Option<()> {
    let midnight = first.at(0, 0, 0, 0);
    let offsets = match zone.to_ambiguous_timestamp(midnight).offset() {
        AmbiguousOffset::Unambiguous { offset } => [offset, offset],
        AmbiguousOffset::Gap { before, after } | AmbiguousOffset::Fold { before, after } => {
            [before, after]
        }
    };
    for offset in offsets {
        cuts.push(offset.to_timestamp(midnight).ok()?);
    }
    let around = *cuts.last()?;
    let window = (
        around.checked_sub(48.hours()).unwrap_or(Timestamp::MIN),
        around.checked_add(48.hours()).unwrap_or(Timestamp::MAX),
    );
    for set in zone.following(window.0) {
        if set.timestamp() > window.1 {
            break;
        }
        cuts.push(set.timestamp());
    }
    Some(())
}
