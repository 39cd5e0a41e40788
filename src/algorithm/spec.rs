//! What somebody asked for: the common input of the builder and of configuration files.

use std::ops::Range;

use super::normalize::Normalize;
use crate::key::{KeyType, ShardKey, ToShardKey};

/// A sharding rule as it is asked for: over which shards, by which keys, by which algorithm.
///
/// It is checked when the topology is built, and everything that is wrong with it is reported then,
/// at once. The list of shards is a parameter of the rule: its order decides, for
/// [`modulo`](Self::modulo) always and for [`hash`](Self::hash) as long as no
/// [`map`](Self::map) is written down.
///
/// ```
/// use diesel_sharded::{KeyType, Normalize, RuleSpec};
///
/// let orders = RuleSpec::hash(["order-0", "order-1"], 4096)
///     .map([(0..1024, "order-0"), (1024..4096, "order-1")]);
/// let accounts = RuleSpec::hash(["eu", "us"], 4096)
///     .key(KeyType::Text)
///     .normalize([Normalize::Trim, Normalize::Lowercase]);
/// let countries = RuleSpec::list([("eu", vec!["DE", "FR"]), ("us", vec!["US"])])
///     .key(KeyType::Text);
/// assert_ne!(orders, accounts);
/// assert_ne!(accounts, countries);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct RuleSpec {
    pub(crate) shards: Vec<String>,
    pub(crate) key: KeyType,
    pub(crate) normalize: Vec<Normalize>,
    pub(crate) algorithm: AlgorithmSpec,
    /// Setters that were called on an algorithm they do not belong to. A setting that is silently
    /// dropped would place rows otherwise than asked for, so it becomes a problem of the rule.
    pub(crate) misplaced: Vec<&'static str>,
}

/// An algorithm and its parameters, as they are asked for.
///
/// The constructors of [`RuleSpec`] make it; it is there by itself for rules that are read from
/// somewhere else ([`RuleSpec::new`]).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AlgorithmSpec {
    /// See [`RuleSpec::hash`].
    Hash {
        /// Into how many buckets keys are hashed: 1 to 1,048,576.
        buckets: u32,
        /// Which shard owns which buckets; `None` for equal parts in the order of the shards.
        map: Option<Vec<(Range<u32>, String)>>,
    },
    /// See [`RuleSpec::modulo`].
    Modulo {
        /// The divisor, which must be the number of shards.
        count: u32,
    },
    /// See [`RuleSpec::list`].
    List {
        /// The keys of each shard.
        values: Vec<(String, Vec<ShardKey<'static>>)>,
    },
}

impl RuleSpec {
    /// A rule over these shards, by this algorithm, for integer keys.
    pub fn new<S: Into<String>>(
        shards: impl IntoIterator<Item = S>,
        algorithm: AlgorithmSpec,
    ) -> Self {
        Self {
            shards: shards.into_iter().map(Into::into).collect(),
            key: KeyType::Integer,
            normalize: Vec::new(),
            algorithm,
            misplaced: Vec::new(),
        }
    }

    /// Keys are hashed into a fixed number of buckets, and each bucket belongs to one shard.
    ///
    /// This is the algorithm to take without a reason for another: it spreads any keys evenly, and
    /// buckets can move between shards later. `buckets` is between 1 and 1,048,576 and can never be
    /// changed without moving nearly every row; 4096 leaves room for growth.
    ///
    /// The hash is [xxh3](https://github.com/Cyan4973/xxHash)-64 with seed 0 of the
    /// [canonical bytes](ShardKey#the-canonical-bytes); `h` modulo `buckets` is the bucket, `h`
    /// divided by `buckets` the [spread](crate::Placement::spread). Without a [`map`](Self::map) the
    /// i-th of n shards owns the buckets from i × buckets ÷ n up to, not including,
    /// (i + 1) × buckets ÷ n, rounded down: then a shard that is added to the list moves rows. Write
    /// the map down before that.
    pub fn hash<S: Into<String>>(shards: impl IntoIterator<Item = S>, buckets: u32) -> Self {
        Self::new(shards, AlgorithmSpec::Hash { buckets, map: None })
    }

    /// The remainder of an integer key, divided by the number of shards, is the position of its
    /// shard in the list.
    ///
    /// The remainder is the Euclidean one, never negative: with four shards, -1 is on the last.
    /// The [spread](crate::Placement::spread) is the Euclidean quotient, its low 64 bits. A shard
    /// can be neither added nor taken away nor put elsewhere in the list without moving nearly
    /// every row.
    ///
    /// Take it only for keys whose low bits vary evenly, like those of a sequence. Snowflake ids
    /// often do not: their low bits count the ids of one millisecond, so at a low rate they are
    /// constant, and with 2, 4, 8 .. shards (`id % 2^k` looks at the low bits alone) all rows are on
    /// one shard. [`hash`](Self::hash) has no such keys.
    pub fn modulo<S: Into<String>>(shards: impl IntoIterator<Item = S>) -> Self {
        let mut spec = Self::new(shards, AlgorithmSpec::Modulo { count: 0 });
        // A list that does not fit a u32 is refused for its length, whatever the count is.
        let count = u32::try_from(spec.shards.len()).unwrap_or(u32::MAX);
        spec.algorithm = AlgorithmSpec::Modulo { count };
        spec
    }

    /// Each shard holds the keys that are listed for it, and no other key has a place
    /// ([`Error::NotCovered`](crate::Error::NotCovered)).
    ///
    /// For a handful of known values: countries, tenants, regions. The
    /// [spread](crate::Placement::spread) is xxh3-64 with seed 1 of the
    /// [canonical bytes](ShardKey#the-canonical-bytes). Listed values are
    /// [normalized](Self::normalize) like keys. Give [`key`](Self::key) where the values are no
    /// integers.
    pub fn list<S, K>(values: impl IntoIterator<Item = (S, K)>) -> Self
    where
        S: Into<String>,
        K: IntoIterator<Item: ToShardKey>,
    {
        let values: Vec<(String, Vec<ShardKey<'static>>)> = values
            .into_iter()
            .map(|(shard, keys)| {
                let keys = keys.into_iter();
                let keys = keys.map(|key| key.to_shard_key().into_owned());
                (shard.into(), keys.collect())
            })
            .collect();
        let mut shards = Vec::new();
        for (shard, _) in &values {
            if !shards.contains(shard) {
                shards.push(shard.clone());
            }
        }
        Self::new(shards, AlgorithmSpec::List { values })
    }

    /// The type of the shard keys. Defaults to [`KeyType::Integer`].
    pub fn key(mut self, key: KeyType) -> Self {
        self.key = key;
        self
    }

    /// What is done to text keys before they are placed. Defaults to nothing.
    ///
    /// The order of the list has no influence; see [`Normalize`].
    pub fn normalize(mut self, steps: impl IntoIterator<Item = Normalize>) -> Self {
        self.normalize = steps.into_iter().collect();
        self
    }

    /// Which shard owns which buckets, for [`hash`](Self::hash) only.
    ///
    /// The ranges exclude their ends, as `0..1024` does in Rust, and together hold every bucket
    /// exactly once. Their order has no influence. A listed shard that is in no range owns nothing.
    pub fn map<S: Into<String>>(
        mut self,
        ranges: impl IntoIterator<Item = (Range<u32>, S)>,
    ) -> Self {
        if let AlgorithmSpec::Hash { map, .. } = &mut self.algorithm {
            let ranges = ranges.into_iter();
            *map = Some(ranges.map(|(range, shard)| (range, shard.into())).collect());
        } else {
            self.misplaced.push("map");
        }
        self
    }

    /// The divisor, for [`modulo`](Self::modulo) only. Defaults to the number of shards, and must be
    /// that number: saying it guards against a shard that is added to the list by mistake.
    pub fn count(mut self, divisor: u32) -> Self {
        if let AlgorithmSpec::Modulo { count } = &mut self.algorithm {
            *count = divisor;
        } else {
            self.misplaced.push("count");
        }
        self
    }
}

impl AlgorithmSpec {
    /// The name of the algorithm in a configuration.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Hash { .. } => "hash",
            Self::Modulo { .. } => "modulo",
            Self::List { .. } => "list",
        }
    }
}
