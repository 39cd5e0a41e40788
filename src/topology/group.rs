//! Items sorted by the shard that their key belongs to.

use std::collections::HashMap;

use super::snapshot::KeyspaceEntry;
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
}
