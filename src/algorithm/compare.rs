//! What a change of a rule moves, where that can be said without looking at keys.

use std::collections::{BTreeMap, BTreeSet};

use super::list::List;
use super::point::Point;
use super::prune;
use super::rule::{Algorithm, Rule};
use crate::name::ShardName;

/// Hash rules with other numbers of buckets are compared bucket by bucket up to their common
/// multiple.
const MOST_BUCKETS: u64 = 1 << 22;

/// From which shard to which; `None` where no shard owns the part.
pub(crate) type Way = (Option<ShardName>, Option<ShardName>);

/// Parts of the keys and their owners before and after a change.
#[derive(Clone, Debug)]
pub(crate) struct Compared {
    /// What one part is: a bucket, a range of keys, a period, a listed key.
    pub(crate) unit: &'static str,
    /// Whether all parts hold equally many keys.
    pub(crate) even: bool,
    /// What is to be said of keys that are in no part.
    pub(crate) note: Option<&'static str>,
    pub(crate) parts: u64,
    /// How many parts go which way, and the first of them by name.
    pub(crate) ways: BTreeMap<Way, (u64, Vec<String>)>,
}

impl Compared {
    fn new(unit: &'static str, even: bool) -> Self {
        Self {
            unit,
            even,
            note: None,
            parts: 0,
            ways: BTreeMap::new(),
        }
    }

    /// One part; `name` is asked for where it moves.
    fn add(&mut self, way: Way, name: impl FnOnce() -> String) {
        const NAMED: usize = 100;
        self.parts += 1;
        let (count, names) = self.ways.entry(way).or_default();
        *count += 1;
        if way.0 != way.1 && names.len() < NAMED {
            names.push(name());
        }
    }
}

impl Rule {
    /// Compares two rules part by part; `None` where they have no parts in common.
    pub(crate) fn compare(&self, new: &Self) -> Option<Compared> {
        if self.key != new.key {
            return None;
        }
        let lists = [self, new].map(|rule| matches!(rule.algorithm, Algorithm::List(_)));
        if self.steps != new.steps && !lists.contains(&true) {
            return None;
        }
        let old_shard = |at: usize| self.shards.get(at).copied();
        let new_shard = |at: usize| new.shards.get(at).copied();
        match (&self.algorithm, &new.algorithm) {
            (Algorithm::Hash(a), Algorithm::Hash(b)) => {
                let (of_a, of_b) = (a.buckets(), b.buckets());
                let common = of_a / gcd(of_a, of_b) * of_b;
                if common > MOST_BUCKETS {
                    return None;
                }
                let mut compared = Compared::new("bucket", true);
                let mut runs: Vec<(Way, std::ops::Range<u64>)> = Vec::new();
                for bucket in 0..common {
                    let way = (
                        a.owner(bucket % of_a).and_then(old_shard),
                        b.owner(bucket % of_b).and_then(new_shard),
                    );
                    match runs.last_mut() {
                        Some((last, run)) if *last == way => run.end = bucket + 1,
                        _ => runs.push((way, bucket..bucket + 1)),
                    }
                }
                for (way, run) in runs {
                    let length = run.end - run.start;
                    compared.add(way, || format!("{}..{}", run.start, run.end));
                    compared.parts += length - 1;
                    if let Some((count, _)) = compared.ways.get_mut(&way) {
                        *count += length - 1;
                    }
                }
                Some(compared)
            }
            (Algorithm::Range(a), Algorithm::Range(b)) => {
                let mut compared = Compared::new("range of keys", false);
                for (from, until, old) in a.segments() {
                    for (low, high, owner) in b.segments() {
                        // `None` is the low end as a start, and the high end as an end.
                        let start = from.clone().max(low);
                        let end = match (until.clone(), high) {
                            (None, end) | (end, None) => end,
                            (Some(a), Some(b)) => Some(a.min(b)),
                        };
                        if let (Some(start), Some(end)) = (&start, &end)
                            && start >= end
                        {
                            continue;
                        }
                        let way = (old.and_then(old_shard), owner.and_then(new_shard));
                        let shown = |end: &Option<_>| {
                            end.as_ref()
                                .map_or(String::new(), |end| prune::shown(end, self.key))
                        };
                        if way != (None, None) {
                            compared.add(way, || format!("{}..{}", shown(&start), shown(&end)));
                        }
                    }
                }
                Some(compared)
            }
            (Algorithm::Date(a), Algorithm::Date(b))
                if a.every == b.every
                    && a.zone_name == b.zone_name
                    && a.precision == b.precision
                    && a.rounding == b.rounding =>
            {
                let mut periods: BTreeMap<u64, Way> = BTreeMap::new();
                for (label, shard) in a.owned() {
                    periods.entry(label).or_default().0 = old_shard(shard);
                }
                for (label, shard) in b.owned() {
                    periods.entry(label).or_default().1 = new_shard(shard);
                }
                let mut compared = Compared::new("period", false);
                for (label, way) in periods {
                    compared.add(way, || a.digits(label));
                }
                Some(compared)
            }
            (Algorithm::List(a), Algorithm::List(b)) => {
                let note =
                    "other spellings of them, which one of the rules normalizes, not looked at";
                let note = (self.steps != new.steps).then_some(note);
                Some(self.compare_lists(new, &[a, b], note))
            }
            (Algorithm::List(a), _) => {
                let note = "other keys had no place before";
                Some(self.compare_lists(new, &[a], Some(note)))
            }
            (_, Algorithm::List(b)) => {
                let note = "other keys have no place any more";
                Some(self.compare_lists(new, &[b], Some(note)))
            }
            _ => None,
        }
    }

    /// Each key that one of the lists has, by where the two rules place it.
    fn compare_lists(&self, new: &Self, lists: &[&List], note: Option<&'static str>) -> Compared {
        let points: BTreeSet<&Point> = lists
            .iter()
            .flat_map(|list| list.entries())
            .map(|entry| &entry.point)
            .collect();
        let mut compared = Compared::new("listed key", true);
        compared.note = note;
        for point in points {
            let Some(key) = prune::key_of(point, self.key) else {
                continue;
            };
            let shard = |rule: &Self| rule.place(&key).ok().map(|placement| placement.shard());
            compared.add((shard(self), shard(new)), || key.to_string());
        }
        compared
    }

    /// The share of all keys that each shard is to have, in the order of the list; `None` where that
    /// depends on which keys there are.
    pub(crate) fn shares(&self) -> Option<Vec<f64>> {
        let count = self.shards.len();
        match &self.algorithm {
            Algorithm::Hash(hash) => {
                let mut shares = vec![0.0; count];
                for (range, owner) in hash.ranges() {
                    if let Some(share) = shares.get_mut(owner) {
                        *share += f64::from(range.end - range.start) / hash.buckets() as f64;
                    }
                }
                Some(shares)
            }
            Algorithm::Modulo(_) | Algorithm::Jump(_) => Some(vec![1.0 / count as f64; count]),
            Algorithm::Ring(ring) => {
                let total: f64 = ring.weights.iter().map(|weight| f64::from(*weight)).sum();
                let shares = ring.weights.iter();
                Some(shares.map(|weight| f64::from(*weight) / total).collect())
            }
            _ => None,
        }
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}
