//! Jump consistent hashing: a shard that is appended takes its part from all others, evenly.

use std::hint::black_box;
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

    /// The spot of a number, which travels in registers.
    #[inline(never)]
    pub(super) fn place_integer(&self, number: i128) -> Spot {
        self.place(KeyValue::Integer(number))
    }

    #[inline(always)]
    pub(super) fn place(&self, key: KeyValue<'_>) -> Spot {
        let [hash, spread] = hash_and_spread(key);
        // Held on to, so that it is computed beside the loop. The compiler would move it behind that,
        // where nothing is left for the processor to do meanwhile.
        let spread = black_box(spread);
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
    match in_fixed_point(hash, buckets) {
        Some(bucket) => bucket,
        None => in_floating_point(hash, buckets),
    }
}

/// The next key of the generator, and its draw of 31 bits plus one.
// Signed before it is a double, since a processor converts signed numbers in one step.
#[inline(always)]
fn draw(key: u64) -> (u64, f64) {
    let key = key.wrapping_mul(2_862_933_555_777_941_757).wrapping_add(1);
    (key, ((key >> 33) + 1) as i64 as f64)
}

/// The algorithm as it is published.
#[inline]
fn in_floating_point(hash: u64, buckets: u32) -> u32 {
    let limit = f64::from(buckets);
    let (mut key, mut bucket) = (hash, 0i64);
    loop {
        let drawn;
        (key, drawn) = draw(key);
        let next = (bucket + 1) as f64 * ((1u64 << 31) as f64 / drawn);
        // Compared before it is rounded down, which says the same of a whole limit: the conversion
        // is off the way that decides whether to go on.
        if next >= limit {
            return bucket as u32;
        }
        bucket = next as i64;
    }
}

/// The same for at most 65,536 buckets, where all but the division is done on integers: from one
/// bucket to the next it is then a third of the way. `None` where the answer could be another one.
#[inline(always)]
fn in_fixed_point(hash: u64, buckets: u32) -> Option<u32> {
    /// A quotient is rounded to 31 bits of fraction, so the product with a bucket of 16 bits is off by
    /// at most 2^15 of them, ..
    const FRACTION: u32 = 31;
    const ONE: u64 = 1 << FRACTION;
    /// .. and rounding the true one to a double moves it by far less than as much again. Further than
    /// this from an integer, both are rounded down to the same one.
    const DOUBT: u64 = 1 << 17;
    const BUCKETS: u32 = 1 << 16;
    /// A sum with this has a mantissa that ends with those 31 bits, and has room for the quotient.
    const ALIGNED: f64 = (1u64 << (f64::MANTISSA_DIGITS - 1 - FRACTION)) as f64;
    const MANTISSA: u64 = (1 << (f64::MANTISSA_DIGITS - 1)) - 1;

    if buckets > BUCKETS {
        return None;
    }
    let limit = u64::from(buckets);
    let (mut key, mut after) = (hash, 1);
    loop {
        let drawn;
        (key, drawn) = draw(key);
        let quotient = ONE as f64 / drawn;
        // One that is so large leads behind the last bucket from wherever it is.
        let most = f64::from(BUCKETS);
        let quotient = if quotient < most { quotient } else { most };
        let product = after * ((quotient + ALIGNED).to_bits() & MANTISSA);
        if (product + DOUBT) % ONE < 2 * DOUBT {
            return None;
        }
        let next = product >> FRACTION;
        if next >= limit {
            return Some((after - 1) as u32);
        }
        after = next + 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bucket_is_that_of_the_crate_for_every_size() {
        let (mut hash, mut uncertain) = (1u64, 0);
        for round in 0..20_000u32 {
            hash = hash.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29) ^ u64::from(round);
            for buckets in [0, 1, 2, 3, 8, 1_000, 1_024, 65_535, 65_536, 65_537, 1 << 31] {
                let theirs = jump_consistent_hash::hash(hash, buckets as usize);
                assert_eq!(
                    jump_consistent_hash(hash, buckets),
                    theirs,
                    "{hash} {buckets}"
                );
                assert_eq!(in_floating_point(hash, buckets), theirs, "{hash} {buckets}");
                uncertain +=
                    u32::from(buckets <= 65_536 && in_fixed_point(hash, buckets).is_none());
            }
        }
        // Integers alone decide nearly always, and not always.
        assert!((1..1_000).contains(&uncertain), "{uncertain}");
        for hash in [0, 1, u64::MAX] {
            assert!(jump_consistent_hash(hash, u32::MAX) < u32::MAX);
        }
    }
}
