//! The keys with the most rows, in memory that does not grow.

use std::collections::HashMap;

use super::report::HeavyKey;
use crate::key::ShardKey;

/// How many keys are followed at a time.
const FOLLOWED: usize = 1024;

/// The summary of Misra and Gries ("Finding repeated elements", 1982): a key with more than 1/1024 of
/// all rows is always among those that are followed, and its count is too low by at most that.
#[derive(Debug)]
pub(super) struct Heavy {
    /// By a hash of the key; two keys with one hash would be counted as one.
    counts: HashMap<u64, (ShardKey<'static>, u64)>,
    lost: u64,
}

impl Heavy {
    pub(super) fn new() -> Self {
        Self {
            counts: HashMap::with_capacity(FOLLOWED + 1),
            lost: 0,
        }
    }

    pub(super) fn add(&mut self, key: &ShardKey<'_>) {
        let Ok(value) = key.value() else { return };
        let hash = value.hash(2);
        if let Some((_, count)) = self.counts.get_mut(&hash) {
            *count += 1;
        } else if self.counts.len() < FOLLOWED {
            self.counts.insert(hash, (key.borrowed().into_owned(), 1));
        } else {
            // Everybody pays for the one that finds no room: each count was raised once before.
            self.lost += 1;
            self.counts.retain(|_, (_, count)| {
                *count -= 1;
                *count > 0
            });
        }
    }

    /// A number of different keys that there are at least.
    pub(super) fn at_least_distinct(&self) -> usize {
        if self.lost > 0 {
            FOLLOWED
        } else {
            self.counts.len()
        }
    }

    /// By how much a count may be too low.
    pub(super) fn lost(&self) -> u64 {
        self.lost
    }

    pub(super) fn heaviest(&self, most: usize) -> Vec<HeavyKey> {
        let mut all: Vec<&(ShardKey<'static>, u64)> = self.counts.values().collect();
        all.sort_by_key(|(key, count)| (std::cmp::Reverse(*count), key.to_string()));
        all.into_iter()
            .take(most)
            .filter(|(_, count)| *count > 1)
            .map(|(key, count)| HeavyKey {
                key: key.to_string(),
                at_least: *count,
            })
            .collect()
    }
}
