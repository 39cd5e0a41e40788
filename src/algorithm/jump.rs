//! Jump consistent hashing: a shard that is appended takes its part from all others, evenly.

use std::num::NonZero;

use super::rule::{Spot, hash_and_spread};
use crate::key::KeyValue;

#[derive(Clone, Debug)]
pub(super) struct Jump {
    count: NonZero<u32>,
}

impl Jump {
    pub(super) fn build(shards: usize) -> Option<Self> {
        // An empty list, and one that is too long, are problems already.
        let count = u32::try_from(shards).ok().and_then(NonZero::new)?;
        Some(Self { count })
    }

    #[inline(always)]
    pub(super) fn place(&self, key: KeyValue<'_>) -> Spot {
        let [hash, spread] = hash_and_spread(key);
        Spot {
            shard: jump_consistent_hash(hash, self.count.get()) as usize,
            spread,
        }
    }
}

/// Jump consistent hashing: the bucket of a hash among so many, from 0; 0 where there are none.
///
/// One bucket more takes an equal part from all others and moves nothing else. It is what
/// [`RuleSpec::jump`](crate::RuleSpec::jump) does with the hash of a key.
///
/// John Lamping and Eric Veach: "A Fast, Minimal Memory, Consistent Hash Algorithm",
/// <https://arxiv.org/abs/1406.2294>. Guava's `Hashing.consistentHash` and this function agree.
///
/// ```
/// use diesel_sharded::jump_consistent_hash;
///
/// assert_eq!(jump_consistent_hash(10_863_919_174_838_991, 11), 6);
/// ```
#[must_use]
#[inline]
pub fn jump_consistent_hash(hash: u64, buckets: u32) -> u32 {
    let limit = f64::from(buckets);
    let (mut key, mut bucket) = (hash, 0i64);
    loop {
        key = key.wrapping_mul(2_862_933_555_777_941_757).wrapping_add(1);
        // Signed, like the bucket, since a processor converts signed numbers in one step. The draw
        // has 31 bits.
        let draw = ((key >> 33) + 1) as i64 as f64;
        let next = (bucket + 1) as f64 * ((1u64 << 31) as f64 / draw);
        // Compared before it is rounded down, which says the same of a whole limit: the conversion
        // is off the way that decides whether to go on.
        if next >= limit {
            return bucket as u32;
        }
        bucket = next as i64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bucket_is_that_of_the_crate_for_every_size() {
        let mut hash = 1u64;
        for round in 0..20_000u32 {
            hash = hash.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29) ^ u64::from(round);
            for buckets in [0, 1, 2, 3, 8, 1_000, 1_024, 65_536, 1 << 31] {
                let theirs = jump_consistent_hash::hash(hash, buckets as usize);
                assert_eq!(
                    jump_consistent_hash(hash, buckets),
                    theirs,
                    "{hash} {buckets}"
                );
            }
        }
        for hash in [0, 1, u64::MAX] {
            assert!(jump_consistent_hash(hash, u32::MAX) < u32::MAX);
        }
    }
}
