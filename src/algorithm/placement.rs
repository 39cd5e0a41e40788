//! What an algorithm answers.

use crate::name::ShardName;

/// Where a key lives: its shard, and the number from which the numbers of its tables follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Placement {
    shard: ShardName,
    spread: u64,
}

impl Placement {
    pub(crate) fn new(shard: ShardName, spread: u64) -> Self {
        Self { shard, spread }
    }

    /// The shard that holds the key.
    #[must_use]
    #[inline]
    pub fn shard(self) -> ShardName {
        self.shard
    }

    /// A number that spreads the keys of one shard.
    ///
    /// It is taken from another part of the key than the shard is, so the keys of one shard reach
    /// every table of that shard. (Where database and table are both a remainder of the key, as in
    /// `id % 4` and `id % 8`, only 8 of the 32 pairs are ever used.) Each algorithm says in its
    /// documentation what its spread is.
    #[must_use]
    #[inline]
    pub fn spread(self) -> u64 {
        self.spread
    }

    /// The number of the physical table that holds the key, of `count` tables: `spread` modulo
    /// `count`, so between 0 and `count - 1`.
    ///
    /// A `count` of 0 is taken as 1, the table that is not split; this function never panics.
    #[must_use]
    #[inline]
    pub fn table_number(self, count: u32) -> u32 {
        // The remainder of a division by a u32 fits a u32.
        (self.spread % u64::from(count.max(1))) as u32
    }
}
