//! Hashes in rising order, searched by their highest bits.

/// Hashes that are spread evenly, in rising order.
#[derive(Clone, Debug)]
pub(super) struct SortedHashes {
    hashes: Box<[u64]>,
    /// Where those begin whose highest bits are at least this position in the index. A search starts
    /// there and looks at two hashes on average, instead of at one per doubling.
    index: Box<[u32]>,
    shift: u32,
}

impl SortedHashes {
    /// Takes fewer than 2^32 hashes that rise already; equal ones may follow each other.
    pub(super) fn new(hashes: Box<[u64]>) -> Self {
        let bits = (hashes.len() as u64).max(2).ilog2();
        let shift = u64::BITS - bits;
        let index = (0..1u64 << bits)
            .map(|slot| hashes.partition_point(|hash| *hash >> shift < slot) as u32)
            .collect();
        Self {
            hashes,
            index,
            shift,
        }
    }

    /// The position of the first hash that is not below this one; behind the last where there is none.
    #[inline]
    pub(super) fn first_from(&self, hash: u64) -> usize {
        let start = self
            .index
            .get((hash >> self.shift) as usize)
            .map_or(0, |start| *start as usize);
        let ahead = self.hashes[start..].iter().position(|held| *held >= hash);
        ahead.map_or(self.hashes.len(), |ahead| start + ahead)
    }

    #[inline]
    pub(super) fn get(&self, at: usize) -> Option<u64> {
        self.hashes.get(at).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_found_is_what_a_binary_search_finds() {
        for count in [0, 1, 2, 3, 7, 64, 1_000_u64] {
            let mut hashes: Vec<u64> = (0..count)
                .map(|i| i.wrapping_mul(0x9E37_79B9_7F4A_7C15))
                .collect();
            hashes.extend(hashes.last().copied());
            hashes.sort_unstable();
            let sorted = SortedHashes::new(hashes.clone().into());
            let around = |hash: &u64| [hash.wrapping_sub(1), *hash, hash.wrapping_add(1)];
            for asked in hashes.iter().flat_map(around).chain([0, u64::MAX]) {
                let at = hashes.partition_point(|hash| *hash < asked);
                assert_eq!(sorted.first_from(asked), at);
                assert_eq!(sorted.get(at), hashes.get(at).copied());
            }
        }
    }
}
