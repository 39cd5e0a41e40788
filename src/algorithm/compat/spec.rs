//! A compat rule as it is asked for.

use super::JavaType;

/// A [`compat`](crate::RuleSpec::compat) rule as it is asked for: whose answers, and how their
/// numbers become shards and tables.
///
/// ```
/// use diesel_sharded::{CompatSpec, Layout, System};
///
/// // ShardingSphere's HASH_MOD over 8 tables, t_0 on the first shard, t_1 on the second ..
/// let orders = CompatSpec::new(System::ShardingSphereMod { count: 8 }).layout(Layout::RoundRobin);
/// assert_eq!(orders.system().as_str(), "shardingsphere-mod");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct CompatSpec {
    pub(crate) system: System,
    pub(crate) table: Option<System>,
    pub(crate) layout: Option<Layout>,
    pub(crate) accept_correlated: bool,
}

/// Whose answers a compat rule gives. Numbers begin with 0.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum System {
    /// ShardingSphere's `MOD`: the non-negative remainder of an integer.
    ShardingSphereMod {
        /// `sharding-count`.
        count: u32,
    },
    /// ShardingSphere's `HASH_MOD`: Java's `hashCode` of the bound value, made positive in 64 bits,
    /// and the remainder of that.
    ShardingSphereHashMod {
        /// `sharding-count`.
        count: u32,
        /// The type of the value that the applications bind.
        java: JavaType,
    },
    /// ShardingSphere's `INLINE` with an expression `t_${key % count}`: Java's remainder, which is
    /// negative for a negative key. Such a key finds no target there and has no place here.
    ShardingSphereInline {
        /// The divisor.
        count: u32,
    },
    /// ShardingSphere's `COSID_MOD`: Java's `floorMod` of a long.
    ShardingSphereCosidMod {
        /// `mod`.
        count: u32,
    },
    /// ShardingSphere's `VOLUME_RANGE`: 0 below `lower`, then steps of `volume`, the last from `upper`
    /// on.
    ShardingSphereVolumeRange {
        /// `range-lower`.
        lower: i64,
        /// `range-upper`.
        upper: i64,
        /// `sharding-volume`.
        volume: i64,
    },
    /// ShardingSphere's `BOUNDARY_RANGE`: 0 below the first boundary, then from one up to the next.
    ShardingSphereBoundaryRange {
        /// `sharding-ranges`, rising.
        boundaries: Vec<i64>,
    },
    /// ShardingSphere's `AUTO_INTERVAL`: seconds after `lower`, divided by `seconds`, rounded to two
    /// decimals and up, kept within the tables there are.
    ShardingSphereAutoInterval {
        /// `datetime-lower`: `2024-01-01 00:00:00`.
        lower: String,
        /// `datetime-upper`.
        upper: String,
        /// `sharding-seconds`.
        seconds: u32,
        /// The time zone in which the column's dates and times are meant.
        zone: String,
    },
    /// ShardingSphere's `INTERVAL` with the pattern `yyyy-MM-dd HH:mm:ss`: steps from `lower` on,
    /// and a table named by where the step begins.
    ShardingSphereInterval {
        /// `datetime-lower`: `2024-01-01 00:00:00`.
        lower: String,
        /// `datetime-upper`: the step that holds it is the last one.
        upper: String,
        /// `datetime-interval-amount`.
        amount: u32,
        /// `datetime-interval-unit`: `years`, `months`, `weeks`, `days`, `hours`, `minutes` or
        /// `seconds`.
        unit: String,
        /// `sharding-suffix-pattern`, of `yyyy`, `yy`, `MM`, `dd`, `HH`, `mm`, `ss`, `_` and `-`.
        suffix: String,
        /// The time zone in which the column's dates and times are meant.
        zone: String,
    },
    /// A split by the bits of Java's `hashCode` as `HashMap` spreads them. The shards are the
    /// databases in the order of their numbers, tables have three digits, and `databases` times
    /// `tables` is a power of two: otherwise some are never used.
    JavaPerturbed {
        /// How many databases.
        databases: u32,
        /// How many tables each has.
        tables: u32,
    },
    /// A split by mixing the bits of a 64-bit number.
    BitMixSplit {
        /// How many databases.
        databases: u32,
        /// How many tables each has.
        tables: u32,
        /// Whether table numbers run on over all databases.
        global_tables: bool,
    },
    /// PostgreSQL's `PARTITION BY HASH` with one key column, which is the default of PgDog and PgCat
    /// too. For texts, with a deterministic collation.
    PostgresHash {
        /// The modulus.
        modulus: u32,
    },
    /// PgCat's `sha1`.
    PgcatSha1 {
        /// How many shards.
        shards: u32,
    },
    /// Citus, as it divides the hashes when a table is distributed. After its rebalancer has moved or
    /// split a shard, only [`CitusMap`](Self::CitusMap) is right.
    CitusHash {
        /// `shard_count`.
        count: u32,
    },
    /// Citus with its own map, imported from `pg_dist_shard`.
    CitusMap {
        /// Ranges of the signed 32-bit hash, and the id of the shard as `table`.
        ranges: Vec<CompatRange>,
    },
    /// Vitess's `hash` vindex.
    VitessHash {
        /// Ranges of the keyspace id, as unsigned numbers of 64 bits.
        ranges: Vec<CompatRange>,
    },
    /// Vitess's `xxhash` vindex, for text and bytes.
    VitessXxhash {
        /// Ranges of the keyspace id, as unsigned numbers of 64 bits.
        ranges: Vec<CompatRange>,
    },
    /// SPQR's `murmur` hash of an integer.
    SpqrMurmur {
        /// Ranges of the unsigned 32-bit hash.
        ranges: Vec<CompatRange>,
    },
    /// Guava's `Hashing.consistentHash` of a long.
    GuavaConsistentHash {
        /// How many buckets.
        buckets: u32,
    },
}

/// A range of hashes that a system gave to a shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompatRange {
    /// The shard.
    pub shard: String,
    /// The first hash of the range.
    pub from: i128,
    /// The last hash of the range.
    pub to: i128,
    /// The number in the name of the table that holds the range (Citus's `shardid`); 0 where tables
    /// are not split.
    pub table: u64,
}

/// How the numbers that a system computes are laid out over the shards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Layout {
    /// As many shards as numbers: the number is the position of the shard. Tables are not split, or
    /// numbered by another system.
    OnePerShard,
    /// Number i is the table of this number, on shard i modulo the number of shards.
    RoundRobin,
    /// The first numbers are tables of the first shard, the next ones of the second.
    Blocks,
}

impl Layout {
    pub(crate) const ALL: [(Self, &'static str); 3] = [
        (Self::OnePerShard, "one-per-shard"),
        (Self::RoundRobin, "round-robin"),
        (Self::Blocks, "blocks"),
    ];

    /// Its name in a configuration.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        let known = Self::ALL.iter().find(|(layout, _)| *layout == self);
        known.map_or("", |(_, name)| name)
    }
}

impl System {
    /// The names in a configuration, in the order of the documentation.
    pub(crate) const NAMES: [&'static str; 17] = [
        "shardingsphere-mod",
        "shardingsphere-hash-mod",
        "shardingsphere-inline",
        "shardingsphere-cosid-mod",
        "shardingsphere-volume-range",
        "shardingsphere-boundary-range",
        "shardingsphere-auto-interval",
        "shardingsphere-interval",
        "java-perturbed",
        "bit-mix-split",
        "postgres-hash",
        "pgcat-sha1",
        "citus",
        "vitess-hash",
        "vitess-xxhash",
        "spqr-murmur",
        "guava-consistent-hash",
    ];

    /// Its name in a configuration.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        let at = match self {
            Self::ShardingSphereMod { .. } => 0,
            Self::ShardingSphereHashMod { .. } => 1,
            Self::ShardingSphereInline { .. } => 2,
            Self::ShardingSphereCosidMod { .. } => 3,
            Self::ShardingSphereVolumeRange { .. } => 4,
            Self::ShardingSphereBoundaryRange { .. } => 5,
            Self::ShardingSphereAutoInterval { .. } => 6,
            Self::ShardingSphereInterval { .. } => 7,
            Self::JavaPerturbed { .. } => 8,
            Self::BitMixSplit { .. } => 9,
            Self::PostgresHash { .. } => 10,
            Self::PgcatSha1 { .. } => 11,
            Self::CitusHash { .. } | Self::CitusMap { .. } => 12,
            Self::VitessHash { .. } => 13,
            Self::VitessXxhash { .. } => 14,
            Self::SpqrMurmur { .. } => 15,
            Self::GuavaConsistentHash { .. } => 16,
        };
        Self::NAMES[at]
    }
}

impl CompatSpec {
    /// The answers of a system, as the number of the shard or, with a [`layout`](Self::layout), of
    /// the table.
    pub fn new(system: System) -> Self {
        Self {
            system,
            table: None,
            layout: None,
            accept_correlated: false,
        }
    }

    /// The system that numbers the tables of each shard, by the same key. Defaults to none: the
    /// numbers of the first system are all there is.
    pub fn table(mut self, system: System) -> Self {
        self.table = Some(system);
        self
    }

    /// How numbers are laid out over the shards. Defaults to [`Layout::OnePerShard`] where there are
    /// as many numbers as shards; else it has to be said.
    pub fn layout(mut self, layout: Layout) -> Self {
        self.layout = Some(layout);
        self
    }

    /// Accepts that shard and table are remainders of one number by divisors with a common factor,
    /// so that most tables stay empty. It is an error otherwise.
    pub fn accept_correlated(mut self, accept: bool) -> Self {
        self.accept_correlated = accept;
        self
    }

    /// Whose answers these are.
    #[must_use]
    pub fn system(&self) -> &System {
        &self.system
    }
}
