//! Every period against the calendar itself: changes of the clock, days that come twice, pruning.

use std::collections::BTreeSet;
use std::ops::Bound;

use jiff::Timestamp;
use jiff::civil::Date as Day;
use jiff::tz::{TimeZone, TimeZoneDatabase};
use proptest::prelude::*;

use super::super::{build, names};
use super::{at, instant, label, months, reached, rule};
use crate::algorithm::rule::PlaceError;
use crate::algorithm::{DateSpec, Every, Rounding, Rule, RuleSpec};
use crate::key::{KeyType, ShardKey};

/// The period of an instant by the calendar of its zone, without any of the code that places.
fn by_calendar(every: Every, day: Day) -> u64 {
    let (year, month) = (day.year() as u64, day.month() as u64);
    match every {
        Every::Year => year,
        Every::Quarter => year * 10 + month.div_ceil(3),
        Every::Month => year * 100 + month,
        Every::Week => {
            let week = day.iso_week_date();
            week.year() as u64 * 100 + week.week() as u64
        }
        _ => year * 10_000 + month * 100 + day.day() as u64,
    }
}

/// Zones that set their clocks over midnight, skip a day, count halves of hours, or have none of it.
const ZONES: [&str; 9] = [
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "America/St_Johns",
    "America/Sao_Paulo",
    "Pacific/Apia",
    "Asia/Kathmandu",
    "Australia/Lord_Howe",
    "Asia/Gaza",
];

const EVERY: [Every; 5] = [
    Every::Year,
    Every::Quarter,
    Every::Month,
    Every::Week,
    Every::Day,
];

/// Every minute of three hours around a moment, and every half hour of a day and a quarter.
fn minutes() -> impl Iterator<Item = i64> {
    (-180..180).chain((-60..60).map(|half| half * 30))
}

/// Plans from 2009 to 2012 over three shards, each laid out once.
fn plan(every: Every, zone: &'static str) -> std::sync::Arc<Rule> {
    use std::sync::{Arc, Mutex};
    type Plans = Vec<((Every, &'static str), Arc<Rule>)>;
    static PLANS: Mutex<Plans> = Mutex::new(Vec::new());
    let mut plans = PLANS.lock().expect("a lock");
    if let Some((_, rule)) = plans.iter().find(|(key, _)| *key == (every, zone)) {
        return Arc::clone(rule);
    }
    let (first, last) = match every {
        Every::Week => ("2009-W02", "2013-W01"),
        _ => ("2009", "2013"),
    };
    let spec = DateSpec::new(every).from(first).until(last).zone(zone);
    let rule = Arc::new(build(&RuleSpec::date(names(3), spec)));
    plans.push(((every, zone), Arc::clone(&rule)));
    rule
}

fn zone(name: &str) -> TimeZone {
    TimeZoneDatabase::bundled().get(name).expect("a zone")
}

#[test]
fn every_minute_near_a_change_of_day_or_clock_is_in_the_period_of_its_day() {
    for name in ZONES {
        let zone = zone(name);
        let (first, last): (Timestamp, Timestamp) = (
            "2005-12-26T00:00:00Z".parse().expect("an instant"),
            "2013-01-07T00:00:00Z".parse().expect("an instant"),
        );
        // Each clock change with two days around it, and each turn of the year.
        let mut windows: Vec<Timestamp> = zone
            .following(first)
            .map(|change| change.timestamp())
            .take_while(|change| *change < last)
            .collect();
        for year in 2006..2013 {
            windows.push(
                format!("{year}-01-01T00:00:00Z")
                    .parse()
                    .expect("an instant"),
            );
            windows.push(
                format!("{year}-03-01T00:00:00Z")
                    .parse()
                    .expect("an instant"),
            );
        }
        for every in EVERY {
            let (from, until) = match every {
                Every::Week => ("2005-W01", "2014-W02"),
                _ => ("2005", "2014"),
            };
            let rule = rule(DateSpec::new(every).from(from).until(until).zone(name));
            for window in &windows {
                for minute in minutes() {
                    let micros = window.as_microsecond() + minute * 60_000_000;
                    for beside in [micros - 1, micros] {
                        let at = Timestamp::from_microsecond(beside).expect("an instant");
                        let day = zone.to_datetime(at).date();
                        assert_eq!(
                            label(&rule, &instant(beside)),
                            Some(by_calendar(every, day)),
                            "{name} {every:?} {at}"
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn newfoundland_enters_a_day_twice() {
    // At 00:01 on 1 November 2009 clocks went back to 23:01 on 31 October.
    let rule = rule(months("2009-01", "2010-01", "America/St_Johns"));
    for (at_utc, expected) in [
        ("2009-11-01T02:29:59Z", 200_910),
        ("2009-11-01T02:30:30Z", 200_911),
        ("2009-11-01T02:31:00Z", 200_910),
        ("2009-11-01T03:29:59Z", 200_910),
        ("2009-11-01T03:30:00Z", 200_911),
    ] {
        assert_eq!(label(&rule, &at(at_utc)), Some(expected), "{at_utc}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// Pruning against placing every key of a dense set, around a month's end with its clock change.
    #[test]
    fn d16_pruning_by_date_agrees_with_looking_at_every_key(
        name in proptest::sample::select(ZONES.to_vec()),
        every in proptest::sample::select(EVERY.to_vec()),
        start in proptest::sample::select(vec![
            "2009-10-31T20:00:00Z", "2011-12-28T00:00:00Z", "2012-02-28T10:00:00Z", "2010-10-15T20:00:00Z", "2010-03-31T18:00:00Z",
        ]),
        from in 0i64..200, length in -3i64..200,
        open_from: bool, after: bool, closed: bool, shift in -1i64..2,
    ) {
        const STEP: i64 = 30 * 60 * 1_000_000;
        let rule = plan(every, name);
        let start: Timestamp = start.parse().expect("an instant");
        let low = start.as_microsecond() + from * STEP + shift;
        let high = low + length * STEP;
        let low_bound = if after { Bound::Excluded(low) } else { Bound::Included(low) };
        let high_bound = if closed { Bound::Included(high) } else { Bound::Excluded(high) };
        let pruned = reached(&rule, (low_bound.map(instant), high_bound.map(instant)));
        let mut looked = BTreeSet::new();
        // Half hours are denser than the calendar of any of the zones but at :01, so whole minutes
        // and the microseconds beside them are looked at too.
        let mut micros = low - 1;
        while micros <= high + 1 {
            for beside in [micros - 1, micros, micros + 1] {
                let minute = beside.div_euclid(60_000_000) * 60_000_000;
                for key in [beside, minute, minute - 1] {
                    if std::ops::RangeBounds::<i64>::contains(&(low_bound, high_bound), &key) {
                        looked.extend(label(&rule, &instant(key)));
                    }
                }
            }
            micros += 60_000_000;
        }
        prop_assert_eq!(pruned, looked);
        // An open end reaches the ends of the plan.
        if open_from {
            let open = reached(&rule, (Bound::Unbounded, high_bound.map(instant)));
            prop_assert!(open.is_superset(&reached(&rule, (Bound::Included(instant(low.min(high))), high_bound.map(instant)))));
        }
    }

    #[test]
    fn days_are_pruned_exactly(from in 14_000i32..16_000, length in -2i32..400, every in proptest::sample::select(vec![
        Every::Year, Every::Quarter, Every::Month, Every::Week, Every::Day, Every::Days { count: 10, anchor: 7 },
    ])) {
        let (first, last) = match every {
            Every::Week => ("2009-W01", "2013-W01"),
            Every::Days { .. } => ("1970-01-08", "2013-01-02"),
            _ => ("2009", "2013"),
        };
        let spec = DateSpec::new(every).from(first).until(last);
        let rule = build(&RuleSpec::date(names(3), spec).key(KeyType::Date));
        let until = from + length;
        let pruned = reached(&rule, (Bound::Included(ShardKey::Date(from)), Bound::Excluded(ShardKey::Date(until))));
        let looked: BTreeSet<u64> = (from..until).filter_map(|day| label(&rule, &ShardKey::Date(day))).collect();
        prop_assert_eq!(pruned, looked);
    }

    #[test]
    fn any_instant_is_placed_or_refused(micros: i64, every in proptest::sample::select(EVERY.to_vec()), digits in 0u32..7) {
        let (first, last) = match every {
            Every::Week => ("2019-W01", "2020-W01"),
            _ => ("2019", "2020"),
        };
        for rounding in [Rounding::Refuse, Rounding::Postgres, Rounding::Mysql, Rounding::Mariadb] {
            let spec = DateSpec::new(every).from(first).until(last).zone("Europe/Berlin");
            let found = rule(spec.precision(digits, rounding)).place(&instant(micros));
            let refused = matches!(found, Err(PlaceError::NotCovered { .. } | PlaceError::ColumnPrecision));
            prop_assert!(found.is_ok() || refused);
        }
    }
}
