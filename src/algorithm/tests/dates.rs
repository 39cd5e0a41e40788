//! D16, D17, D19, D21 and D23: the calendar, its zones, and the ends of a plan.

mod calendar;

use std::collections::BTreeSet;
use std::ops::Bound;

use jiff::Timestamp;

use super::{build, names};
use crate::algorithm::point::KeyRange;
use crate::algorithm::prune::Spreads;
use crate::algorithm::rule::PlaceError;
use crate::algorithm::{DateSpec, Every, Rounding, Rule, RuleSpec};
use crate::key::{KeyType, ShardKey};

fn months(from: &str, until: &str, zone: &str) -> DateSpec {
    DateSpec::monthly().from(from).until(until).zone(zone)
}

fn rule(spec: DateSpec) -> Rule {
    build(&RuleSpec::date(["a"], spec))
}

fn instant(micros: i64) -> ShardKey<'static> {
    ShardKey::Timestamp {
        micros,
        sub_micro_nanos: 0,
    }
}

fn at(text: &str) -> ShardKey<'static> {
    KeyType::Timestamp.parse_key(text).expect("an instant")
}

fn label(rule: &Rule, key: &ShardKey<'_>) -> Option<u64> {
    rule.place(key).ok().map(|placement| placement.spread())
}

fn reached(rule: &Rule, bounds: (Bound<ShardKey<'_>>, Bound<ShardKey<'_>>)) -> BTreeSet<u64> {
    let range = KeyRange::new(&bounds, rule.key_type()).expect("bounds of the type");
    let reach = range.map_or_else(Vec::new, |range| rule.reach(&range));
    let labels = reach.into_iter().flat_map(|reach| match reach.spreads {
        Spreads::These(labels) => labels,
        Spreads::All => panic!("a date rule knows its periods"),
    });
    labels.collect()
}

#[test]
fn d16_ranges_meet_exactly_their_months() {
    use Bound::{Excluded, Included};
    let rule = rule(months("2021-01", "2025-01", "UTC"));
    for (from, until, expected) in [
        (
            Included(at("2021-10-30T00:00:00Z")),
            Included(at("2021-10-30T23:59:59.999Z")),
            &[202_110][..],
        ),
        (
            Included(at("2024-01-31T00:00:00Z")),
            Included(at("2024-03-01T12:00:00Z")),
            &[202_401, 202_402, 202_403],
        ),
        (
            Excluded(at("2024-01-31T23:59:59.999999Z")),
            Excluded(at("2024-02-01T00:00:00Z")),
            &[],
        ),
        (
            Included(at("2024-03-01T00:00:00Z")),
            Included(at("2024-01-01T00:00:00Z")),
            &[],
        ),
        (
            Included(at("2024-02-01T00:00:00Z")),
            Excluded(at("2024-03-01T00:00:00Z")),
            &[202_402],
        ),
    ] {
        let found = reached(&rule, (from.clone(), until.clone()));
        assert_eq!(
            found,
            expected.iter().copied().collect(),
            "{from:?} {until:?}"
        );
    }
}

#[test]
fn d17_a_plan_over_new_year_has_the_months_of_the_calendar() {
    let rule = rule(months("2023-11", "2024-02", "UTC"));
    let all = reached(&rule, (Bound::Unbounded, Bound::Unbounded));
    assert_eq!(all, [202_311, 202_312, 202_401].into());
    let names: Vec<_> = all.iter().filter_map(|label| rule.suffix(*label)).collect();
    assert_eq!(names, ["202311", "202312", "202401"]);
}

#[test]
fn d19_the_zone_of_the_rule_decides_and_no_other() {
    for (zone, expected) in [("UTC", 202_402), ("Europe/Berlin", 202_403)] {
        let rule = rule(months("2024-01", "2025-01", zone));
        for spelled in [
            "2024-02-29T23:30:00Z",
            "2024-03-01T00:30:00+01:00",
            "2024-02-29T18:30:00-05:00",
        ] {
            assert_eq!(
                label(&rule, &at(spelled)),
                Some(expected),
                "{zone} {spelled}"
            );
        }
        assert!(matches!(
            rule.place(&ShardKey::NaiveTimestamp),
            Err(PlaceError::Type { .. })
        ));
    }
}

#[test]
fn d21_a_key_is_found_under_the_value_that_is_stored() {
    let with = |rounding| rule(months("2024-01", "2025-01", "UTC").precision(0, rounding));
    let key = at("2024-01-31T23:59:59.7Z");
    for (rounding, expected) in [
        (Rounding::Postgres, 202_402),
        (Rounding::Mysql, 202_402),
        (Rounding::Mariadb, 202_401),
    ] {
        assert_eq!(label(&with(rounding), &key), Some(expected), "{rounding:?}");
    }
    assert_eq!(
        with(Rounding::Refuse).place(&key),
        Err(PlaceError::ColumnPrecision)
    );
    let whole = at("2024-01-31T23:59:59Z");
    assert_eq!(label(&with(Rounding::Refuse), &whole), Some(202_401));
    // A half goes away from 2000 in PostgreSQL, and up in MySQL.
    let plan = || {
        DateSpec::new(Every::Day)
            .from("1999-12-30")
            .until("2000-01-03")
            .zone("UTC")
    };
    let half = at("1999-12-30T23:59:59.5Z");
    let placed = |rounding| label(&rule(plan().precision(0, rounding)), &half);
    assert_eq!(placed(Rounding::Postgres), Some(19_991_230));
    assert_eq!(placed(Rounding::Mysql), Some(19_991_231));
    // What rounding moves over the end of the plan is outside of it.
    let last = at("2000-01-02T23:59:59.9Z");
    let found = rule(plan().precision(0, Rounding::Mysql)).place(&last);
    assert!(matches!(found, Err(PlaceError::NotCovered { .. })));
    for edge in [i64::MIN, i64::MAX] {
        for rounding in [Rounding::Postgres, Rounding::Mysql, Rounding::Mariadb] {
            let found = rule(plan().precision(0, rounding)).place(&instant(edge));
            assert!(found.is_err(), "{edge} {rounding:?}");
        }
    }
}

#[test]
fn d23_what_is_outside_of_the_plan_is_told_its_bounds() {
    let rule = rule(months("2023-01", "2024-01", "UTC"));
    for outside in [
        "2024-01-01T00:00:00Z",
        "2022-12-31T23:59:59.999999Z",
        "0999-01-01T00:00:00Z",
    ] {
        let Err(PlaceError::NotCovered { key, covered }) = rule.place(&at(outside)) else {
            panic!("{outside} has a place");
        };
        assert!(key.starts_with(&outside[..19]), "{key}");
        let covered = covered.expect("the bounds");
        assert!(
            covered.contains("from 2023-01-01 until 2024-01-01"),
            "{covered}"
        );
    }
    // Year 10000, and what stands for infinity in PostgreSQL.
    for outside in [253_402_300_800_000_000, i64::MAX, i64::MIN] {
        assert!(rule.place(&instant(outside)).is_err(), "{outside}");
    }
    // A year of three digits keeps its zero in the names of tables; one of five has no name.
    let early = DateSpec::monthly()
        .from("0999-01")
        .until("1000-01")
        .zone("UTC");
    let early = self::rule(early);
    let placed = early
        .place(&at("0999-12-31T00:00:00Z"))
        .expect("a placement");
    assert_eq!(early.suffix(placed.spread()).as_deref(), Some("099912"));
    let last = DateSpec::new(Every::Year)
        .from("9998")
        .until("9999")
        .zone("UTC");
    assert_eq!(
        label(&self::rule(last), &at("9998-12-31T23:59:59.999999Z")),
        Some(9_998)
    );
}

#[test]
fn a_plan_that_ends_soon_is_a_warning() {
    let rule = rule(months("2023-11", "2024-02", "Europe/Berlin"));
    let warned = |now: &str| {
        let now: Timestamp = now.parse().expect("an instant");
        rule.warnings(now).into_iter().map(|w| w.message).next()
    };
    assert_eq!(warned("2023-12-31T22:59:59Z"), None);
    let message = warned("2023-12-31T23:00:00Z").expect("a warning");
    assert!(message.contains("202402"), "{message}");
    assert!(message.contains("begins on 2024-02-01"), "{message}");
    assert!(warned("2030-01-01T00:00:00Z").is_some());
    assert_eq!(warned("2020-01-01T00:00:00Z"), None);
}

#[test]
fn what_is_wrong_with_a_plan_is_said_at_once() {
    let problems = |spec: DateSpec, key: KeyType| {
        let spec = RuleSpec::date(["a"], spec).key(key);
        let found = Rule::build(&spec).expect_err("a rule with problems");
        let lines = found.into_iter();
        lines
            .map(|p| format!("{}: {}", p.key, p.message))
            .collect::<Vec<_>>()
    };
    let check = |spec: DateSpec, key: KeyType, expected: &[&str]| {
        let found = problems(spec, key);
        assert_eq!(found.len(), expected.len(), "{found:#?}");
        for (found, expected) in found.iter().zip(expected) {
            assert!(found.starts_with(expected), "{found}\n{expected}");
        }
    };
    let timestamp = KeyType::Timestamp;
    check(
        DateSpec::monthly().from("2024-01-15").until("2023"),
        timestamp,
        &[
            "algorithm.zone: say in which time zone",
            "algorithm.from: 2024-01-15 is not the first day of a period: write 2024-01-01 or 2024-02-01",
        ],
    );
    check(
        months("2024-02", "2024-02", "Europe/Atlantis"),
        timestamp,
        &[
            "algorithm.zone: unknown time zone \"Europe/Atlantis\"",
            "algorithm.until: the plan ends on 2024-02-01",
        ],
    );
    check(
        DateSpec::monthly()
            .zone("UTC")
            .precision(7, Rounding::Refuse),
        timestamp,
        &[
            "algorithm.precision: 7 digits",
            "algorithm.from: is missing",
            "algorithm.until: is missing",
        ],
    );
    check(
        months("2024", "2025", "UTC").precision(0, Rounding::Mysql),
        KeyType::Date,
        &[
            "algorithm.zone: keys that are dates have no time zone",
            "algorithm.precision: keys that are dates",
        ],
    );
    check(
        months("2024", "2025", "UTC"),
        KeyType::Integer,
        &["algorithm.kind: `date` takes days and instants"],
    );
    check(
        DateSpec::new(Every::Day)
            .from("0001")
            .until("9999")
            .zone("UTC"),
        timestamp,
        &["algorithm.until: the plan has 3651694 periods"],
    );
    check(
        months("+12024", "infinity", "UTC"),
        timestamp,
        &[
            "algorithm.from: \"+12024\" is no day",
            "algorithm.until: \"infinity\" is no day",
        ],
    );
    check(
        DateSpec::new(Every::Days {
            count: 0,
            anchor: 0,
        })
        .from("2024")
        .until("2025")
        .zone("UTC"),
        timestamp,
        &["algorithm.every: 0 days are no period"],
    );
    let map = |spans: [(&'static str, &'static str, &'static str); 2]| {
        DateSpec::monthly().zone("UTC").map(spans)
    };
    check(
        map([("a", "2023", "2024-02"), ("a", "2024", "2025")]),
        timestamp,
        &["algorithm.map: 2023..2024-02 of \"a\" and 2024..2025 of \"a\" overlap"],
    );
    check(
        map([("b", "2023", "2024"), ("a", "2024", "2025")]).from("2023"),
        timestamp,
        &[
            "algorithm.map: periods are given to \"b\"",
            "algorithm.from: the map says from when",
        ],
    );
}

#[test]
fn shards_take_turns_or_what_the_map_gives_them() {
    let spec = DateSpec::monthly()
        .from("2023-11")
        .until("2024-03")
        .zone("UTC");
    let turns = build(&RuleSpec::date(names(3), spec.clone()));
    let longer = build(&RuleSpec::date(names(3), spec.until("2030").from("2001")));
    // Extending a plan moves no row.
    assert_eq!(turns.fingerprint(&[]), longer.fingerprint(&[]));
    let mut seen = BTreeSet::new();
    for month in ["2023-11", "2023-12", "2024-01", "2024-02"] {
        let key = at(&format!("{month}-15T00:00:00Z"));
        let placed = turns.place(&key).expect("a placement");
        assert_eq!(longer.place(&key), Ok(placed));
        seen.insert(placed.shard());
    }
    assert_eq!(seen.len(), 3);
    let map = [("old", "2020", "2023"), ("new", "2023-06", "2025")];
    let mapped = DateSpec::monthly().zone("UTC").map(map);
    let mapped = build(&RuleSpec::date(["new", "old"], mapped));
    let shard = |text: &str| mapped.place(&at(text)).map(|placed| placed.shard());
    assert_eq!(shard("2022-12-31T23:59:59Z").expect("a shard"), "old");
    assert_eq!(shard("2023-06-01T00:00:00Z").expect("a shard"), "new");
    assert!(shard("2023-05-31T23:59:59Z").is_err());
    // The map in other pieces is the same rule.
    let pieces = [
        ("new", "2023-06", "2024"),
        ("old", "2020", "2023"),
        ("new", "2024", "2025"),
    ];
    let pieces = build(&RuleSpec::date(
        ["old", "new"],
        DateSpec::monthly().zone("UTC").map(pieces),
    ));
    assert_eq!(pieces.fingerprint(&[]), mapped.fingerprint(&[]));
}
