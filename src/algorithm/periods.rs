//! The periods of a rule that names tables by dates.

use jiff::Timestamp;
use jiff::civil::DateTime;

use super::rule::{Algorithm, Rule};
use crate::name::ShardName;

/// One period: what keys in it have as their spread, and who owns it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Period {
    pub(crate) spread: u64,
    pub(crate) shard: ShardName,
    /// Its first moment on the calendar of the rule's zone.
    pub(crate) from: DateTime,
    /// The first moment after it.
    pub(crate) until: DateTime,
}

impl Rule {
    /// The periods of the plan, in the order of time; `None` for a rule without dates.
    pub(crate) fn periods(&self) -> Option<Vec<Period>> {
        let spans = match &self.algorithm {
            Algorithm::Date(date) => date.spans(),
            Algorithm::Compat(compat) => compat.spans()?,
            _ => return None,
        };
        let mut periods: Vec<Period> = spans
            .into_iter()
            .filter_map(|span| {
                Some(Period {
                    spread: span.spread,
                    shard: *self.shards.get(span.owner)?,
                    from: span.from,
                    until: span.until,
                })
            })
            .collect();
        periods.sort_by_key(|period| (period.from, period.spread));
        Some(periods)
    }

    /// An instant on the calendar of the rule's zone; UTC where keys are days.
    pub(crate) fn local_time(&self, at: Timestamp) -> DateTime {
        let zone = match &self.algorithm {
            Algorithm::Date(date) => date.zone.clone(),
            Algorithm::Compat(compat) => compat.zone(),
            _ => None,
        };
        zone.unwrap_or(jiff::tz::TimeZone::UTC).to_datetime(at)
    }
}

/// A period whose owner is a position in the rule's list.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub(super) spread: u64,
    pub(super) owner: usize,
    pub(super) from: DateTime,
    pub(super) until: DateTime,
}

#[cfg(test)]
mod tests {
    use super::super::{DateSpec, RuleSpec};
    use super::*;
    use crate::key::KeyType;

    #[test]
    fn a_period_knows_its_owner_and_its_ends() {
        let spec = RuleSpec::date(
            ["a", "b"],
            DateSpec::monthly()
                .from("2023-12")
                .until("2024-03")
                .zone("Europe/Berlin"),
        );
        let rule = Rule::build(&spec.key(KeyType::Timestamp)).expect("a rule");
        let periods = rule.periods().expect("periods");
        let told: Vec<String> = periods
            .iter()
            .map(|p| {
                format!(
                    "{} {} {} {}",
                    p.spread,
                    p.shard,
                    p.from.date(),
                    p.until.date()
                )
            })
            .collect();
        assert_eq!(told.len(), 3);
        for (told, expected) in told.iter().zip([
            ("202312", "2023-12-01 2024-01-01"),
            ("202401", "2024-01-01 2024-02-01"),
            ("202402", "2024-02-01 2024-03-01"),
        ]) {
            assert!(
                told.starts_with(expected.0) && told.ends_with(expected.1),
                "{told}"
            );
        }
        assert_ne!(periods[0].shard, periods[1].shard);
        // Midnight in Berlin is an hour earlier in UTC.
        let eve = "2023-12-31T23:30:00Z".parse().expect("an instant");
        assert_eq!(rule.local_time(eve).date().to_string(), "2024-01-01");
        let hash = Rule::build(&RuleSpec::hash(["a"], 16)).expect("a rule");
        assert_eq!(hash.periods(), None);
    }
}
