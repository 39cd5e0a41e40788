//! Which shards and tables can hold keys of a range.

use std::collections::{BTreeMap, BTreeSet};

use super::point::{KeyRange, Part, Point};
use super::rule::{Algorithm, Rule};
use crate::key::{KeyType, ShardKey};
use crate::name::ShardName;

/// Up to this many keys of a range are placed one by one, where the algorithm keeps no order.
const ENUMERATED: i128 = 1024;

/// A shard that can hold keys of a range, and with which spreads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reach {
    pub(crate) shard: ShardName,
    pub(crate) spreads: Spreads,
}

/// The spreads that keys of a range can have on one shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Spreads {
    All,
    These(BTreeSet<u64>),
}

impl Rule {
    /// The shards that can hold keys of a range, in the order of the rule's list.
    ///
    /// Exact for `range` and `date`, for `list` and the order-keeping compat systems, and for any
    /// kind where the range holds few keys; otherwise every shard that owns anything.
    pub(crate) fn reach(&self, range: &KeyRange) -> Vec<Reach> {
        if range.is_empty() {
            return Vec::new();
        }
        let spots = match self.few(range) {
            Some(keys) => self.spots_of(&keys),
            None => self.spots_between(range),
        };
        let mut by_shard: BTreeMap<usize, Spreads> = BTreeMap::new();
        for (shard, spread) in spots {
            let spreads = by_shard
                .entry(shard)
                .or_insert_with(|| Spreads::These(BTreeSet::new()));
            match (spreads, spread) {
                (Spreads::These(these), Some(spread)) => {
                    these.insert(spread);
                }
                (all, None) => *all = Spreads::All,
                (Spreads::All, Some(_)) => {}
            }
        }
        let found = by_shard.into_iter();
        found
            .filter_map(|(shard, spreads)| {
                let shard = *self.shards.get(shard)?;
                Some(Reach { shard, spreads })
            })
            .collect()
    }

    /// The keys of a range, where they are few and placing each costs less than anything else.
    fn few(&self, range: &KeyRange) -> Option<Vec<ShardKey<'static>>> {
        if let Some(only) = range.only(self.key) {
            return Some(vec![only]);
        }
        let ordered = matches!(
            self.algorithm,
            Algorithm::Range(_) | Algorithm::Date(_) | Algorithm::List(_)
        );
        let (from, until) = range.numbers().filter(|_| !ordered)?;
        let count = until?.checked_sub(from)?;
        if count > ENUMERATED {
            return None;
        }
        let keys = (from..until?).map(|number| key_of(&[Part::Number(number)], self.key));
        keys.collect()
    }

    fn spots_of(&self, keys: &[ShardKey<'static>]) -> Vec<(usize, Option<u64>)> {
        let placed = keys.iter().filter_map(|key| self.place(key).ok());
        placed
            .filter_map(|placement| {
                let shard = placement.shard();
                let at = self.shards.iter().position(|listed| *listed == shard)?;
                Some((at, Some(placement.spread())))
            })
            .collect()
    }

    fn spots_between(&self, range: &KeyRange) -> Vec<(usize, Option<u64>)> {
        let every = || (0..self.shards.len()).map(|shard| (shard, None)).collect();
        match &self.algorithm {
            Algorithm::Hash(hash) => {
                let owners: BTreeSet<usize> = hash.ranges().iter().map(|(_, o)| *o).collect();
                owners.into_iter().map(|owner| (owner, None)).collect()
            }
            Algorithm::Modulo(_) | Algorithm::Jump(_) | Algorithm::Custom(_) => every(),
            Algorithm::Ring(ring) => {
                let weights = ring.weights.iter().enumerate();
                let owning = weights.filter(|(_, weight)| **weight > 0);
                owning.map(|(shard, _)| (shard, None)).collect()
            }
            Algorithm::List(list) => list
                .entries()
                .iter()
                // What normalization makes of a key says nothing about the key's own order.
                .filter(|entry| !self.steps.is_empty() || range.holds(&entry.point))
                .map(|entry| (entry.shard, Some(entry.hash)))
                .collect(),
            Algorithm::Range(ranges) => {
                let owners = if self.steps.is_empty() {
                    ranges.reach(range)
                } else {
                    ranges.segments().iter().filter_map(|(.., o)| *o).collect()
                };
                owners.into_iter().map(|owner| (owner, None)).collect()
            }
            Algorithm::Date(date) => {
                let periods = date.reach(range).into_iter();
                periods
                    .map(|period| (period.shard, Some(period.label)))
                    .collect()
            }
            Algorithm::Compat(compat) => {
                let between = range
                    .numbers()
                    .and_then(|(from, until)| compat.spots_between(from, until));
                let spots = between.unwrap_or_else(|| compat.spots());
                spots
                    .into_iter()
                    .map(|(shard, spread)| (shard, Some(spread)))
                    .collect()
            }
        }
    }

    /// How a table is named whose parts the rule itself names; `None` for a rule that names none.
    pub(crate) fn suffix(&self, spread: u64) -> Option<String> {
        match &self.algorithm {
            Algorithm::Date(date) => Some(date.digits(spread)),
            Algorithm::Compat(compat) => compat.suffix(spread),
            _ => None,
        }
    }

    /// The longest end of a table's name that the rule gives; `None` for a rule that names no tables.
    pub(crate) fn longest_suffix(&self) -> Option<String> {
        match &self.algorithm {
            // All periods of a rule have equally many digits.
            Algorithm::Date(date) => date.a_label().map(|label| date.digits(label)),
            Algorithm::Compat(compat) => {
                let spots = compat.spots().into_iter();
                let suffixes = spots.filter_map(|(_, spread)| compat.suffix(spread));
                suffixes.max_by_key(String::len)
            }
            _ => None,
        }
    }

    /// Whether the parts that it names are named by dates.
    pub(crate) fn names_dates(&self) -> bool {
        match &self.algorithm {
            Algorithm::Date(_) => true,
            Algorithm::Compat(compat) => compat.names_dates(),
            _ => false,
        }
    }

    /// How many parts a table has that is numbered by this rule, where the rule decides that.
    pub(crate) fn table_count(&self) -> Option<u32> {
        match &self.algorithm {
            Algorithm::Compat(compat) => compat.table_count(),
            Algorithm::Date(_) => Some(1),
            _ => None,
        }
    }
}

impl KeyRange {
    /// The one key of a range that has only one.
    fn only(&self, key: KeyType) -> Option<ShardKey<'static>> {
        let until = self.until.as_ref();
        let next = super::point::next(&self.from, key);
        (until == next.as_ref()).then(|| key_of(&self.from, key))?
    }

    /// Every key of a type.
    pub(crate) fn full(key: KeyType) -> Self {
        Self {
            from: super::point::least(key),
            until: None,
        }
    }
}

/// The key at a point, where there is one.
pub(super) fn key_of(point: &[Part], key: KeyType) -> Option<ShardKey<'static>> {
    let one = |part: &Part, key: KeyType| {
        Some(match (part, key) {
            (Part::Number(number), KeyType::Integer) => ShardKey::Integer(*number),
            (Part::Big(number), KeyType::Integer) => ShardKey::from(*number),
            (Part::Number(days), KeyType::Date) => ShardKey::Date(i32::try_from(*days).ok()?),
            (Part::Number(micros), KeyType::Timestamp) => ShardKey::Timestamp {
                micros: i64::try_from(*micros).ok()?,
                sub_micro_nanos: 0,
            },
            (Part::Bytes(bytes), KeyType::Text) => {
                ShardKey::Text(String::from_utf8(bytes.to_vec()).ok()?.into())
            }
            (Part::Bytes(bytes), KeyType::Bytes) => ShardKey::Bytes(bytes.to_vec().into()),
            (Part::Bytes(bytes), KeyType::Uuid) => ShardKey::Uuid(bytes.as_ref().try_into().ok()?),
            _ => return None,
        })
    };
    match key {
        KeyType::Composite(types) => {
            let parts = point.iter().zip(types.parts());
            let parts = parts.map(|(part, key)| one(part, key));
            Some(ShardKey::Composite(parts.collect::<Option<_>>()?))
        }
        simple => one(point.first()?, simple),
    }
}

/// A point as people read it.
pub(super) fn shown(point: &Point, key: KeyType) -> String {
    match key_of(point, key) {
        Some(key) => key.to_string(),
        None => format!("{point:?}"),
    }
}
