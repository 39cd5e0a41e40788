//! A ring of points: each shard owns the keys before its points, by its weight.

use std::collections::BTreeMap;

use xxhash_rust::xxh3::xxh3_64;

use super::rule::{Problems, Spot, hash_and_spread};
use super::sorted_hashes::SortedHashes;
use crate::key::KeyValue;

/// More points than this make no ring evener, only larger: 48 MiB.
const MAX_POINTS: u64 = 1 << 22;

#[derive(Clone, Debug)]
pub(super) struct Ring {
    /// Apart from the owners, so that a search reads nothing else.
    points: SortedHashes,
    /// The position in the list of shards of each point's owner.
    owners: Box<[u32]>,
    pub(super) per_weight: u32,
    /// The weight of each shard, in the order of the list.
    pub(super) weights: Box<[u32]>,
}

impl Ring {
    pub(super) fn build(
        shards: &[String],
        per_weight: u32,
        weights: &[(String, u32)],
        problems: &mut Problems,
    ) -> Option<Self> {
        let before = problems.len();
        let mut given: BTreeMap<&str, u32> = BTreeMap::new();
        for (shard, weight) in weights {
            if !shards.contains(shard) {
                problems.unlisted("algorithm.weights", "a weight is given for", shard, shards);
            } else if given.insert(shard, *weight).is_some() {
                problems.add(
                    "algorithm.weights",
                    format!("{shard:?} has more than one weight: give it one"),
                );
            }
        }
        let weights: Box<[u32]> = shards
            .iter()
            .map(|shard| given.get(shard.as_str()).copied().unwrap_or(1))
            .collect();
        let total: u64 = weights.iter().map(|weight| u64::from(*weight)).sum();
        let points = total.saturating_mul(per_weight.into());
        if per_weight == 0 {
            problems.add(
                "algorithm.points",
                "a shard needs points on the ring: say for example 160".into(),
            );
        } else if total == 0 && !shards.is_empty() {
            problems.add(
                "algorithm.weights",
                "every shard has the weight 0, so nobody owns a key: give one of them a weight"
                    .into(),
            );
        } else if points > MAX_POINTS {
            problems.add(
                "algorithm.points",
                format!(
                    "{per_weight} points for a total weight of {total} are {points}, more than {MAX_POINTS}: lower the weights, which count only in relation to each other, or the points"
                ),
            );
        }
        if problems.len() > before || points == 0 {
            return None;
        }
        let mut ring: Vec<(u64, &str, u32)> = Vec::with_capacity(points as usize);
        for ((position, shard), weight) in (0u32..).zip(shards).zip(&weights) {
            for number in 0..u64::from(*weight) * u64::from(per_weight) {
                ring.push((point(shard, number), shard, position));
            }
        }
        // Where two points meet, the name decides and not the position in the list.
        ring.sort_unstable_by(|a, b| (a.0, a.1).cmp(&(b.0, b.1)));
        ring.dedup_by_key(|(point, ..)| *point);
        Some(Self {
            points: SortedHashes::new(ring.iter().map(|(point, ..)| *point).collect()),
            owners: ring.iter().map(|(.., position)| *position).collect(),
            per_weight,
            weights,
        })
    }

    #[inline(always)]
    pub(super) fn place(&self, key: KeyValue<'_>) -> Option<Spot> {
        let [hash, spread] = hash_and_spread(key);
        Some(Spot {
            shard: self.owner(hash)?.0,
            spread,
        })
    }

    /// The owner of a hash, and the point at which it is owned: the first one that is not below it,
    /// or the first of all.
    #[inline]
    pub(super) fn owner(&self, hash: u64) -> Option<(usize, u64)> {
        let first = self.points.first_from(hash);
        let at = if first < self.owners.len() { first } else { 0 };
        Some((*self.owners.get(at)? as usize, self.points.get(at)?))
    }
}

/// Where the point of a shard lies: xxh3-64 of its name, a zero byte and the number of the point in
/// 8 bytes, little-endian.
fn point(shard: &str, number: u64) -> u64 {
    let mut text = Vec::with_capacity(shard.len() + 9);
    text.extend_from_slice(shard.as_bytes());
    text.push(0);
    text.extend_from_slice(&number.to_le_bytes());
    xxh3_64(&text)
}
