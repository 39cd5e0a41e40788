//! Hash slots: a key hashes to a bucket for ever, and buckets belong to shards.

use std::num::NonZero;
use std::ops::Range;

use super::rule::{Problems, Spot};
use crate::key::KeyValue;

/// One owner per bucket is kept in memory: 2 MiB for this many.
const MAX_BUCKETS: u32 = 1 << 20;

#[derive(Clone, Debug)]
pub(super) struct Hash {
    /// The length of `owners`.
    buckets: NonZero<u64>,
    /// What the number of buckets is two to the power of.
    shift: Option<u32>,
    /// The position of the owner of each bucket, in the list of shards.
    owners: Box<[u16]>,
}

impl Hash {
    pub(super) fn build(
        shards: &[String],
        buckets: u32,
        map: Option<&[(Range<u32>, String)]>,
        problems: &mut Problems,
    ) -> Option<Self> {
        let Some(count) = NonZero::new(u64::from(buckets)).filter(|_| buckets <= MAX_BUCKETS)
        else {
            problems.add(
                "algorithm.buckets",
                format!(
                    "{buckets} buckets are out of range: choose between 1 and {MAX_BUCKETS}, for example 4096"
                ),
            );
            return None;
        };
        let owners = match map {
            Some(map) => written_owners(shards, buckets, map, problems)?,
            None => default_owners(shards, buckets, problems)?,
        };
        Some(Self {
            buckets: count,
            shift: count.is_power_of_two().then(|| count.trailing_zeros()),
            owners,
        })
    }

    #[inline(always)]
    pub(super) fn place(&self, key: KeyValue<'_>) -> Option<Spot> {
        let hash = key.hash(0);
        // The usual numbers of buckets are powers of two, and a division is half of the whole cost.
        let (bucket, spread) = match self.shift {
            Some(shift) => (hash & (self.buckets.get() - 1), hash >> shift),
            None => (hash % self.buckets, hash / self.buckets),
        };
        let owner = self.owners.get(bucket as usize)?;
        Some(Spot {
            shard: usize::from(*owner),
            spread,
        })
    }

    pub(super) fn buckets(&self) -> u64 {
        self.buckets.get()
    }

    /// The position of the owner of a bucket.
    pub(super) fn owner(&self, bucket: u64) -> Option<usize> {
        let owner = self.owners.get(usize::try_from(bucket).ok()?)?;
        Some(usize::from(*owner))
    }

    /// The bucket and the spread of a hash, and who owns the stretch of buckets around it.
    pub(super) fn bucket(&self, hash: u64) -> (u64, u64, Option<(Range<u32>, usize)>) {
        let bucket = hash % self.buckets;
        let around = self
            .ranges()
            .into_iter()
            .find(|(range, _)| (u64::from(range.start)..u64::from(range.end)).contains(&bucket));
        (bucket, hash / self.buckets, around)
    }

    /// The buckets of each owner, neighbours of one owner merged, in the order of the buckets.
    pub(super) fn ranges(&self) -> Vec<(Range<u32>, usize)> {
        let mut ranges: Vec<(Range<u32>, usize)> = Vec::new();
        for (bucket, owner) in (0..).zip(&self.owners) {
            let owner = usize::from(*owner);
            match ranges.last_mut() {
                Some((range, last)) if *last == owner => range.end = bucket + 1,
                _ => ranges.push((bucket..bucket + 1, owner)),
            }
        }
        ranges
    }
}

fn default_owners(shards: &[String], buckets: u32, problems: &mut Problems) -> Option<Box<[u16]>> {
    let count = shards.len() as u64;
    let total = u64::from(buckets);
    if count > total {
        problems.add(
            "algorithm.buckets",
            format!(
                "{buckets} bucket(s) are too few for {count} shards: each shard needs at least one, so raise the number or write down a map"
            ),
        );
        return None;
    }
    let mut owners = Vec::with_capacity(buckets as usize);
    for (i, owner) in (0..count).zip(0..=u16::MAX) {
        let end = ((i + 1) * total / count) as usize;
        owners.resize(end, owner);
    }
    Some(owners.into_boxed_slice())
}

fn written_owners(
    shards: &[String],
    buckets: u32,
    map: &[(Range<u32>, String)],
    problems: &mut Problems,
) -> Option<Box<[u16]>> {
    let before = problems.len();
    let mut ranges: Vec<(Range<u32>, &str)> = Vec::with_capacity(map.len());
    for (range, shard) in map {
        if !shards.contains(shard) {
            let what = format!("the map gives the buckets {range:?} to");
            problems.unlisted("algorithm.map", &what, shard, shards);
        }
        if range.is_empty() {
            problems.add(
                "algorithm.map",
                format!(
                    "the range {range:?} of {shard:?} holds no bucket: the end is exclusive and must be above the start"
                ),
            );
            continue;
        }
        if range.end > buckets {
            problems.add(
                "algorithm.map",
                format!(
                    "the range {range:?} of {shard:?} leaves the {buckets} buckets: the end is exclusive and at most {buckets}"
                ),
            );
        }
        // Cut off what does not exist, so that one wrong number is not reported as a gap as well.
        let range = range.start..range.end.min(buckets);
        if !range.is_empty() {
            ranges.push((range, shard));
        }
    }
    check_cover(&mut ranges, buckets, problems);
    if problems.len() > before {
        return None;
    }
    let mut owners = vec![0; buckets as usize];
    for (range, shard) in ranges {
        let owner = shards.iter().position(|listed| listed == shard)?;
        owners[range.start as usize..range.end as usize].fill(u16::try_from(owner).ok()?);
    }
    Some(owners.into_boxed_slice())
}

/// Reports the buckets that are in no range or in several.
fn check_cover(ranges: &mut [(Range<u32>, &str)], buckets: u32, problems: &mut Problems) {
    ranges.sort_by_key(|(range, _)| (range.start, range.end));
    let gap = |range: Range<u32>, problems: &mut Problems| {
        problems.add(
            "algorithm.map",
            format!("no shard owns the buckets {range:?}: give every bucket an owner"),
        );
    };
    let mut covered = 0;
    let mut last: Option<(&Range<u32>, &str)> = None;
    for (range, shard) in &*ranges {
        if range.start > covered {
            gap(covered..range.start, problems);
        }
        if let Some((earlier, owner)) = last.filter(|(earlier, _)| range.start < earlier.end) {
            problems.add(
                "algorithm.map",
                format!(
                    "the ranges {earlier:?} of {owner:?} and {range:?} of {shard:?} overlap: a bucket has one owner"
                ),
            );
        }
        if range.end > covered {
            covered = range.end;
            last = Some((range, shard));
        }
    }
    if covered < buckets {
        gap(covered..buckets, problems);
    }
}
