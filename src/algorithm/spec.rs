//! What somebody asked for: the common input of the builder and of configuration files.

use std::ops::Range;

use half_open::HalfOpen;

use super::compat::CompatSpec;
use super::custom::{CustomSpec, ShardingAlgorithm};
use super::date::DateSpec;
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
    /// See [`RuleSpec::jump`].
    Jump,
    /// See [`RuleSpec::ring`].
    Ring {
        /// How many points a shard of the weight 1 has on the ring.
        points: u32,
        /// The weights of the shards that have another than 1.
        weights: Vec<(String, u32)>,
    },
    /// See [`RuleSpec::range`].
    Range {
        /// The ranges, in any order.
        ranges: Vec<RangeSpec>,
    },
    /// See [`RuleSpec::date`].
    Date(DateSpec),
    /// See [`RuleSpec::compat`].
    Compat(CompatSpec),
    /// See [`RuleSpec::custom`].
    Custom(CustomSpec),
}

/// A half-open range of keys and its shard, for [`RuleSpec::range`].
///
/// ```
/// use diesel_sharded::RangeSpec;
///
/// let low = RangeSpec::new("a", ..100);
/// assert_eq!((low.from, low.until), (None, Some(diesel_sharded::ShardKey::Integer(100))));
/// assert_eq!(RangeSpec::new("b", 100..).until, None);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeSpec {
    /// The shard.
    pub shard: String,
    /// The first key of the range; `None` where it is open.
    pub from: Option<ShardKey<'static>>,
    /// The first key above the range; `None` where it is open.
    pub until: Option<ShardKey<'static>>,
}

/// The default of [`RuleSpec::ring`], as frozen as the hash itself.
pub(crate) const DEFAULT_POINTS: u32 = 160;

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
        let shards = listed(values.iter().map(|(shard, _)| shard));
        Self::new(shards, AlgorithmSpec::List { values })
    }

    /// Keys are hashed, and [jump consistent hashing](https://arxiv.org/abs/1406.2294) gives each
    /// hash to one of the shards, all of them getting an equal part.
    ///
    /// A shard that is appended to the list takes 1/n of the keys, evenly from all others, and moves
    /// no other key. A shard cannot leave from the middle of the list, there are no weights, and no
    /// map says what moves: [`hash`](Self::hash) can do all that. The hash is xxh3-64 with seed 0 of the
    /// [canonical bytes](ShardKey#the-canonical-bytes), the [spread](crate::Placement::spread) the same
    /// with seed 1.
    pub fn jump<S: Into<String>>(shards: impl IntoIterator<Item = S>) -> Self {
        Self::new(shards, AlgorithmSpec::Jump)
    }

    /// Consistent hashing: each shard has points on a ring, and a key belongs to the shard of the
    /// first point that is not below its hash.
    ///
    /// The order of the list has no influence. A shard that joins takes about 1/n of the keys, from
    /// all others, and one that leaves gives its keys to all others, wherever it stands. Shards have
    /// 160 [`points`](Self::points) for each unit of their [`weight`](Self::weight), and their shares
    /// differ by some percent from what the weights say: [`hash`](Self::hash) is even, and says in a
    /// map who owns what.
    ///
    /// The hash is xxh3-64 with seed 0 of the [canonical bytes](ShardKey#the-canonical-bytes); a point
    /// is xxh3-64 with seed 0 of the shard's name, a zero byte and the number of the point in 8 bytes,
    /// little-endian. The [spread](crate::Placement::spread) is xxh3-64 with seed 1 of the canonical
    /// bytes. (David Karger et al.: "Consistent Hashing and Random Trees", 1997.)
    pub fn ring<S: Into<String>>(shards: impl IntoIterator<Item = S>) -> Self {
        Self::new(
            shards,
            AlgorithmSpec::Ring {
                points: DEFAULT_POINTS,
                weights: Vec::new(),
            },
        )
    }

    /// Each range of keys belongs to a shard; a key in none of them has no place
    /// ([`Error::NotCovered`](crate::Error::NotCovered)).
    ///
    /// Ranges are half-open, in any order, and may be open at either end. They must not overlap; a
    /// gap between them is a warning. Keys are ordered as numbers, days and instants are, UUIDs and
    /// bytes byte by byte, and **texts by their UTF-8 bytes**, which is not the order of most
    /// collations; composite keys by their first part, then the second. The
    /// [spread](crate::Placement::spread) is xxh3-64 with seed 1 of the
    /// [canonical bytes](ShardKey#the-canonical-bytes).
    pub fn range(ranges: impl IntoIterator<Item = RangeSpec>) -> Self {
        let ranges: Vec<RangeSpec> = ranges.into_iter().collect();
        let shards = listed(ranges.iter().map(|range| &range.shard));
        Self::new(shards, AlgorithmSpec::Range { ranges })
    }

    /// Each calendar period belongs to a shard, and its tables are named by it: `orders_202402`.
    ///
    /// Without a [`map`](DateSpec::map) the shards take turns, one period after the other. A key
    /// outside of the plan has no place ([`Error::NotCovered`](crate::Error::NotCovered)); a plan that
    /// ends with the current period is a warning. The [spread](crate::Placement::spread) is the number
    /// that names the period. Keys are timestamps, unless [`key`](Self::key) says
    /// [`KeyType::Date`].
    pub fn date<S: Into<String>>(shards: impl IntoIterator<Item = S>, date: DateSpec) -> Self {
        Self::new(shards, AlgorithmSpec::Date(date)).key(KeyType::Timestamp)
    }

    /// Keys are placed as another system has placed them: see [`System`](crate::System).
    pub fn compat<S: Into<String>>(
        shards: impl IntoIterator<Item = S>,
        compat: CompatSpec,
    ) -> Self {
        Self::new(shards, AlgorithmSpec::Compat(compat))
    }

    /// Keys are placed by an [algorithm](ShardingAlgorithm) of the application's own, known by a
    /// name.
    pub fn custom<S: Into<String>>(
        shards: impl IntoIterator<Item = S>,
        name: impl Into<String>,
        algorithm: impl ShardingAlgorithm,
    ) -> Self {
        let custom = CustomSpec::new(name, algorithm);
        Self::new(shards, AlgorithmSpec::Custom(custom))
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

impl RuleSpec {
    /// The weight of a shard, for [`ring`](Self::ring) only: twice the weight is about twice the
    /// keys, and 0 none. Defaults to 1.
    pub fn weight(mut self, shard: impl Into<String>, weight: u32) -> Self {
        if let AlgorithmSpec::Ring { weights, .. } = &mut self.algorithm {
            weights.push((shard.into(), weight));
        } else {
            self.misplaced.push("weights");
        }
        self
    }

    /// How many points a shard of the weight 1 has, for [`ring`](Self::ring) only. More points make
    /// shares more even. Defaults to 160; another number moves nearly every key.
    pub fn points(mut self, count: u32) -> Self {
        if let AlgorithmSpec::Ring { points, .. } = &mut self.algorithm {
            *points = count;
        } else {
            self.misplaced.push("points");
        }
        self
    }
}

impl RangeSpec {
    /// The keys of a range such as `0..100`, `100..` or `..0` belong to a shard.
    ///
    /// Only the half-open ranges of the standard library can be given: `0..=99` is `0..100`.
    pub fn new<K: ToShardKey>(shard: impl Into<String>, keys: impl HalfOpen<K>) -> Self {
        let (from, until) = keys.bounds();
        let key = |key: K| key.to_shard_key().into_owned();
        Self {
            shard: shard.into(),
            from: from.map(key),
            until: until.map(key),
        }
    }
}

mod half_open {
    use std::ops::{Range, RangeFrom, RangeFull, RangeTo};

    /// The half-open ranges of the standard library.
    pub trait HalfOpen<K> {
        /// Both bounds, where there are any.
        fn bounds(self) -> (Option<K>, Option<K>);
    }

    impl<K> HalfOpen<K> for Range<K> {
        fn bounds(self) -> (Option<K>, Option<K>) {
            (Some(self.start), Some(self.end))
        }
    }

    impl<K> HalfOpen<K> for RangeFrom<K> {
        fn bounds(self) -> (Option<K>, Option<K>) {
            (Some(self.start), None)
        }
    }

    impl<K> HalfOpen<K> for RangeTo<K> {
        fn bounds(self) -> (Option<K>, Option<K>) {
            (None, Some(self.end))
        }
    }

    impl<K> HalfOpen<K> for RangeFull {
        fn bounds(self) -> (Option<K>, Option<K>) {
            (None, None)
        }
    }
}

/// Each name once, in the order of their first appearance.
fn listed<'n>(names: impl Iterator<Item = &'n String>) -> Vec<String> {
    let mut shards: Vec<String> = Vec::new();
    for name in names {
        if !shards.contains(name) {
            shards.push(name.clone());
        }
    }
    shards
}

impl AlgorithmSpec {
    /// The name of the algorithm in a configuration.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Hash { .. } => "hash",
            Self::Modulo { .. } => "modulo",
            Self::List { .. } => "list",
            Self::Jump => "jump",
            Self::Ring { .. } => "ring",
            Self::Range { .. } => "range",
            Self::Date(_) => "date",
            Self::Compat(_) => "compat",
            Self::Custom(_) => "custom",
        }
    }
}
