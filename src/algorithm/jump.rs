//! Jump consistent hashing: a shard that is appended takes its part from all others, evenly.

use std::num::NonZero;

use super::rule::{Spot, spread};
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
        Spot {
            shard: jump_consistent_hash(key.hash(0), self.count.get()) as usize,
            spread: spread(key),
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
    let mut key = hash;
    let (mut bucket, mut next) = (0, 0);
    while next < u64::from(buckets) {
        bucket = next;
        key = key.wrapping_mul(2_862_933_555_777_941_757).wrapping_add(1);
        let draw = ((key >> 33) + 1) as f64;
        // The quotient is positive and, for the next bucket to be one, below 2^32.
        next = ((bucket + 1) as f64 * ((1u64 << 31) as f64 / draw)) as u64;
    }
    bucket as u32
}
