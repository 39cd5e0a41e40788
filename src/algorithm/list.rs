//! Keys that are listed, one by one.

use std::collections::HashMap;

use super::normalize::Steps;
use super::point::{Point, point};
use super::rule::{Problems, Spot, spread};
use super::sorted_hashes::SortedHashes;
use crate::key::{KeyType, KeyValue, NoValue, ShardKey};

#[derive(Clone, Debug)]
pub(super) struct List {
    /// Of each entry. Apart from the entries, so that a search reads nothing else.
    hashes: SortedHashes,
    /// In the order of their hashes, which are the spreads as well: each key is hashed once.
    entries: Box<[Entry]>,
}

#[derive(Clone, Debug)]
pub(super) struct Entry {
    /// Of the canonical bytes, with the seed of spreads.
    pub(super) hash: u64,
    /// The canonical bytes of the key.
    pub(super) key: Box<[u8]>,
    /// The key in its order.
    pub(super) point: Point,
    /// A position in the list of shards.
    pub(super) shard: usize,
}

impl List {
    pub(super) fn build(
        shards: &[String],
        values: &[(String, Vec<ShardKey<'static>>)],
        expected: KeyType,
        steps: Steps,
        problems: &mut Problems,
    ) -> Option<Self> {
        const KEY: &str = "algorithm.values";
        let before = problems.len();
        let mut entries = Vec::new();
        let mut seen: HashMap<Box<[u8]>, &str> = HashMap::new();
        if values.iter().all(|(_, keys)| keys.is_empty()) {
            problems.add(KEY, "no key is listed: list the keys of each shard".into());
        }
        for (name, keys) in values {
            let shard = shards.iter().position(|listed| listed == name);
            if shard.is_none() {
                problems.unlisted(KEY, "keys are listed for", name, shards);
            }
            for key in keys {
                let value = match key.value() {
                    Ok(value) if value.key_type() == expected => value,
                    Ok(value) => {
                        problems.add(
                            KEY,
                            format!(
                                "{key} of {name:?} is {}, but the keys of this keyspace are {expected}: list {expected} values, or declare `key` as {:?}",
                                value.key_type(),
                                value.key_type().as_str(),
                            ),
                        );
                        continue;
                    }
                    Err(reason) => {
                        problems.add(KEY, no_value(name, key, reason));
                        continue;
                    }
                };
                let (bytes, hash, point) = steps.normalized(value, |value| {
                    let bytes = value.canonical_bytes().into_boxed_slice();
                    (bytes, spread(value), point(value))
                });
                if let Some(owner) = seen.insert(bytes.clone(), name) {
                    problems.add(KEY, listed_twice(key, owner, name));
                }
                entries.push(Entry {
                    hash,
                    key: bytes,
                    point,
                    shard: shard.unwrap_or_default(),
                });
            }
        }
        if problems.len() > before {
            return None;
        }
        entries.sort_by_key(|entry| entry.hash);
        Some(Self {
            hashes: SortedHashes::new(entries.iter().map(|entry| entry.hash).collect()),
            entries: entries.into_boxed_slice(),
        })
    }

    /// `None` for a key that is not listed.
    #[inline(always)]
    pub(super) fn place(&self, key: KeyValue<'_>) -> Option<Spot> {
        let hash = spread(key);
        let first = self.hashes.first_from(hash);
        key.encode(|tag, payload| {
            self.entries[first..]
                .iter()
                .take_while(|entry| entry.hash == hash)
                .find(|entry| matches!(&*entry.key, [t, rest @ ..] if *t == tag && rest == payload))
        })
        .map(|entry| Spot {
            shard: entry.shard,
            spread: hash,
        })
    }

    pub(super) fn entries(&self) -> &[Entry] {
        &self.entries
    }
}

fn no_value(shard: &str, key: &ShardKey<'_>, reason: NoValue) -> String {
    match reason {
        NoValue::Null => {
            format!("null is listed for {shard:?}: a row without a key has no shard, take it out")
        }
        NoValue::Precision => {
            format!("{key} of {shard:?} is finer than a microsecond: no stored value can equal it")
        }
        NoValue::NoZone => {
            format!("{key} is listed for {shard:?}: say which instant is meant")
        }
        NoValue::Parts => {
            format!("{key} of {shard:?} is no composite key: it has two to eight simple parts")
        }
    }
}

fn listed_twice(key: &ShardKey<'_>, owner: &str, name: &str) -> String {
    if owner == name {
        format!("the key {key} is listed twice for {name:?}: take one out")
    } else {
        format!("the key {key} is listed for both {owner:?} and {name:?}: a key has one shard")
    }
}
