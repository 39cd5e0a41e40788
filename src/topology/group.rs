//! Items sorted by the shard that their key belongs to.

#[cfg(any(feature = "r2d2", feature = "bb8"))]
use std::collections::BTreeMap;
use std::collections::HashMap;

use super::snapshot::KeyspaceEntry;
#[cfg(any(feature = "r2d2", feature = "bb8"))]
use crate::algorithm::Placement;
use crate::error::Error;
use crate::key::ToShardKey;
use crate::name::ShardName;

/// What [`group_by_shard`](crate::blocking::Keyspace::group_by_shard) answers: nothing is dropped.
#[derive(Debug)]
#[non_exhaustive]
pub struct Grouped<T> {
    /// The items of each shard in the order they came, sorted by shard name; shards without items
    /// are left out.
    pub by_shard: Vec<(ShardName, Vec<T>)>,
    /// The items whose key has no shard, in the order they came.
    pub refused: Vec<Refused<T>>,
}

/// An item whose key could not be located.
#[derive(Debug)]
#[non_exhaustive]
pub struct Refused<T> {
    /// The position of the item in what was given, from 0.
    pub index: usize,
    /// The item.
    pub item: T,
    /// Why it has no shard.
    pub error: Error,
}

/// Items by shard and physical table.
#[cfg(any(feature = "r2d2", feature = "bb8"))]
type Groups<T> = Vec<(Placement, Vec<T>)>;

impl KeyspaceEntry {
    pub(crate) fn group<T, K>(
        &self,
        items: impl IntoIterator<Item = T>,
        mut key: impl FnMut(&T) -> K,
    ) -> Grouped<T>
    where
        K: ToShardKey,
    {
        let mut places: HashMap<ShardName, usize> = HashMap::new();
        let mut by_shard: Vec<(ShardName, Vec<T>)> = Vec::new();
        let mut refused = Vec::new();
        for (index, item) in items.into_iter().enumerate() {
            match self.locate(&key(&item)) {
                Ok(placement) => {
                    let shard = placement.shard();
                    let place = *places.entry(shard).or_insert_with(|| {
                        by_shard.push((shard, Vec::new()));
                        by_shard.len() - 1
                    });
                    by_shard[place].1.push(item);
                }
                Err(error) => refused.push(Refused { index, item, error }),
            }
        }
        by_shard.sort_by_key(|(shard, _)| *shard);
        Grouped { by_shard, refused }
    }

    /// Items by shard and physical table, each group with the placement of its first item.
    #[cfg(any(feature = "r2d2", feature = "bb8"))]
    pub(crate) fn group_by_placement<T, K>(
        &self,
        items: impl IntoIterator<Item = T>,
        mut key: impl FnMut(&T) -> K,
    ) -> (Groups<T>, Vec<Refused<T>>)
    where
        K: ToShardKey,
    {
        // Equal remainders of the least common multiple are equal numbers in every table.
        let counts = self
            .tables
            .iter()
            .map(|table| u64::from(table.count.max(1)));
        let numbered = counts
            .filter(|count| *count > 1)
            .try_fold(1u64, least_common_multiple);
        // What a rule names has no number.
        let by_rule = self.tables.iter().any(|table| table.by_rule);
        let multiple = numbered.filter(|_| !by_rule);
        let mut groups: BTreeMap<(ShardName, u64), (Placement, Vec<T>)> = BTreeMap::new();
        let mut refused = Vec::new();
        for (index, item) in items.into_iter().enumerate() {
            match self.locate(&key(&item)) {
                Ok(placement) => {
                    let spread = placement.spread();
                    let class = multiple.map_or(spread, |multiple| spread % multiple);
                    groups
                        .entry((placement.shard(), class))
                        .or_insert_with(|| (placement, Vec::new()))
                        .1
                        .push(item);
                }
                Err(error) => refused.push(Refused { index, item, error }),
            }
        }
        (groups.into_values().collect(), refused)
    }
}

/// `None` where it is too large for a number.
#[cfg(any(feature = "r2d2", feature = "bb8"))]
fn least_common_multiple(a: u64, b: u64) -> Option<u64> {
    let (mut x, mut y) = (a, b);
    while y != 0 {
        (x, y) = (y, x % y);
    }
    (a / x).checked_mul(b)
}
