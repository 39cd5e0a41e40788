//! A checked rule: the description of `spec.rs` after every question about it was answered.

use std::ops::Range;

use super::compat::Compat;
use super::custom::Custom;
use super::date::Date;
use super::fingerprint::{Fingerprint, TableNames};
use super::hash::Hash;
use super::jump::Jump;
use super::list::List;
use super::modulo::Modulo;
use super::normalize::Steps;
use super::placement::Placement;
use super::range::Range as KeyRanges;
use super::ring::Ring;
use super::spec::{AlgorithmSpec, RuleSpec};
use crate::error::Error;
use crate::key::{KeyType, KeyValue, NoValue, ShardKey};
use crate::name::{KeyspaceName, ShardName};

pub(super) use super::problems::{Problems, RuleProblem};

/// Positions in the list of shards are kept in 16 bits.
const MAX_SHARDS: usize = 1 << 16;

/// A sharding rule that is total: every key of its type is placed, or answered with an error.
#[derive(Clone, Debug)]
pub(crate) struct Rule {
    pub(super) shards: Box<[ShardName]>,
    pub(super) key: KeyType,
    pub(super) steps: Steps,
    pub(super) algorithm: Algorithm,
}

#[derive(Clone, Debug)]
pub(super) enum Algorithm {
    Hash(Hash),
    Modulo(Modulo),
    List(List),
    Jump(Jump),
    Ring(Ring),
    Range(KeyRanges),
    Date(Box<Date>),
    Compat(Box<Compat>),
    Custom(Custom),
}

/// A placement whose shard is still a position in the rule's list.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spot {
    pub(super) shard: usize,
    pub(super) spread: u64,
}

impl Spot {
    /// No place: a position that no list has. Unlike an `Option` of it, a spot goes back to its caller
    /// in two registers.
    const NOWHERE: Self = Self {
        shard: usize::MAX,
        spread: 0,
    };
}

/// The spread of every kind that does not say otherwise: not the seed of `hash`, so that a table
/// number says nothing about the shard.
#[inline(always)]
pub(super) fn spread(key: KeyValue<'_>) -> u64 {
    key.hash(SPREAD_SEED)
}

/// The hash that decides on the shard, and the [`spread`].
#[inline(always)]
pub(super) fn hash_and_spread(key: KeyValue<'_>) -> [u64; 2] {
    key.hashes([0, SPREAD_SEED])
}

const SPREAD_SEED: u64 = 1;

/// Why a rule has no place for a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PlaceError {
    /// There is no key.
    Null,
    /// The key has another type than the keyspace declares.
    Type {
        expected: KeyType,
        found: &'static str,
    },
    /// A timestamp finer than what databases store.
    Precision,
    /// A timestamp finer than what its column stores.
    ColumnPrecision,
    /// No range, list or plan holds this key; and what does the rule cover?
    NotCovered {
        key: String,
        covered: Option<String>,
    },
}

impl PlaceError {
    /// The public error, which names the keyspace.
    pub(crate) fn into_error(self, keyspace: KeyspaceName) -> Error {
        match self {
            Self::Null => Error::NullShardKey { keyspace },
            Self::Type { expected, found } => Error::KeyType {
                keyspace,
                expected: expected.as_str(),
                found,
            },
            Self::Precision => Error::KeyType {
                keyspace,
                expected: KeyType::Timestamp.as_str(),
                found: "a timestamp finer than a microsecond (round it to the column's precision first)",
            },
            Self::ColumnPrecision => Error::KeyType {
                keyspace,
                expected: KeyType::Timestamp.as_str(),
                found: "a timestamp finer than the key column (round it to the column's precision first, or say in the rule how the database rounds)",
            },
            Self::NotCovered { key, covered } => Error::NotCovered {
                keyspace,
                key,
                covered,
            },
        }
    }
}

impl Rule {
    /// Checks a description and makes the rule of it.
    ///
    /// Whether the shards exist is not asked here; the topology knows.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with the description.
    pub(crate) fn build(spec: &RuleSpec) -> Result<Self, Vec<RuleProblem>> {
        let mut problems = Problems::default();
        let steps = Steps::new(&spec.normalize);
        check_shards(&spec.shards, &mut problems);
        if !steps.is_empty() && !has_text(spec.key) {
            problems.add(
                "normalize",
                format!(
                    "only text keys can be normalized, and these are {}: take `normalize` out, or declare `key` as \"text\"",
                    spec.key
                ),
            );
        }
        for setting in &spec.misplaced {
            problems.add(
                &format!("algorithm.{setting}"),
                format!(
                    "`{setting}` has no meaning for `{}`: take it out",
                    spec.algorithm.name()
                ),
            );
        }
        let algorithm = build_algorithm(spec, steps, &mut problems);
        match algorithm {
            Some(algorithm) if problems.0.is_empty() => Ok(Self {
                // Interned last: a refused configuration leaves nothing behind.
                shards: spec
                    .shards
                    .iter()
                    .map(|name| ShardName::intern(name))
                    .collect(),
                key: spec.key,
                steps,
                algorithm,
            }),
            _ => Err(problems.0),
        }
    }

    /// Where this key lives.
    ///
    /// # Errors
    ///
    /// [`PlaceError`]: the key is null, of another type, too fine, or covered by nothing.
    pub(crate) fn place(&self, key: &ShardKey<'_>) -> Result<Placement, PlaceError> {
        let value = match key.value() {
            Ok(value) if value.key_type() == self.key => value,
            Ok(value) => return Err(self.wrong_type(value)),
            Err(reason) => return Err(self.no_value(reason)),
        };
        let placement = if self.steps.is_empty() {
            self.place_value(value)
        } else {
            self.place_normalized(value)
        };
        placement.ok_or_else(|| self.not_covered(key, value))
    }

    #[cold]
    fn not_covered(&self, key: &ShardKey<'_>, value: KeyValue<'_>) -> PlaceError {
        let covered = match &self.algorithm {
            Algorithm::Date(date) if date.refused(value).is_some() => {
                return PlaceError::ColumnPrecision;
            }
            Algorithm::Date(date) => Some(date.covered()),
            Algorithm::Custom(custom) => Some(
                self.steps
                    .normalized(value, |value| custom.refused(&value.to_key())),
            ),
            Algorithm::Compat(compat) => Some(format!(
                "`{}` has no place for it",
                compat.spec.system.as_str()
            )),
            _ => None,
        };
        PlaceError::NotCovered {
            key: key.to_string(),
            covered,
        }
    }

    /// The placement of a key that has one as it is; for what else there is to say,
    /// [`place`](Self::place) is asked.
    #[inline(always)]
    pub(crate) fn find(&self, key: &ShardKey<'_>) -> Option<Placement> {
        let spot = match key {
            // Most keys are numbers, and where the caller's type says so, this one never leaves the
            // registers: written to memory and read back it would cost as much as the rest.
            ShardKey::Integer(number) => self.find_integer(*number),
            other => self.find_other(other),
        };
        let shard = self.shards.get(spot.shard)?;
        Some(Placement::new(*shard, spot.spread))
    }

    #[inline(never)]
    fn find_integer(&self, number: i128) -> Spot {
        if self.key != KeyType::Integer {
            return Spot::NOWHERE;
        }
        match &self.algorithm {
            Algorithm::Hash(hash) => {
                let spot = hash.place(KeyValue::Integer(number));
                spot.unwrap_or(Spot::NOWHERE)
            }
            // Out of line, like everything that a hash does not need: it keeps its way short.
            Algorithm::Jump(jump) => jump.place_integer(number),
            _ => self.place_integer(number),
        }
    }

    #[inline(never)]
    fn find_other(&self, key: &ShardKey<'_>) -> Spot {
        match key.value() {
            Ok(value) if value.key_type() == self.key && self.steps.is_empty() => {
                match &self.algorithm {
                    Algorithm::Hash(hash) => hash.place(value).unwrap_or(Spot::NOWHERE),
                    _ => self.place_other(value),
                }
            }
            _ => Spot::NOWHERE,
        }
    }

    fn place_value(&self, value: KeyValue<'_>) -> Option<Placement> {
        let spot = self.place_otherwise(value)?;
        let shard = self.shards.get(spot.shard)?;
        Some(Placement::new(*shard, spot.spread))
    }

    #[inline(never)]
    fn place_integer(&self, number: i128) -> Spot {
        let spot = self.place_otherwise(KeyValue::Integer(number));
        spot.unwrap_or(Spot::NOWHERE)
    }

    #[inline(never)]
    fn place_other(&self, value: KeyValue<'_>) -> Spot {
        self.place_otherwise(value).unwrap_or(Spot::NOWHERE)
    }

    #[inline(always)]
    fn place_otherwise(&self, value: KeyValue<'_>) -> Option<Spot> {
        match &self.algorithm {
            Algorithm::Hash(hash) => hash.place(value),
            Algorithm::Modulo(modulo) => modulo.place(value),
            Algorithm::List(list) => list.place(value),
            Algorithm::Jump(jump) => Some(jump.place(value)),
            Algorithm::Ring(ring) => ring.place(value),
            Algorithm::Range(range) => range.place(value),
            Algorithm::Date(date) => date.place(value),
            Algorithm::Compat(compat) => compat.place(value),
            Algorithm::Custom(custom) => custom.place(&value.to_key()),
        }
    }

    #[inline(never)]
    fn place_normalized(&self, value: KeyValue<'_>) -> Option<Placement> {
        self.steps
            .normalized(value, |value| self.place_value(value))
    }

    #[cold]
    fn wrong_type(&self, value: KeyValue<'_>) -> PlaceError {
        let found = match (self.key, value.key_type()) {
            (KeyType::Uuid, KeyType::Text) => "text (parse it into a UUID first)",
            (KeyType::Uuid, KeyType::Bytes) => "bytes (make a UUID of them first)",
            (KeyType::Integer, KeyType::Text) => "text (parse it into a number first)",
            (KeyType::Timestamp, KeyType::Date) => "date (say which instant is meant)",
            (KeyType::Date, KeyType::Timestamp) => {
                "timestamp (take its day, in the time zone that is meant)"
            }
            (_, other) => other.as_str(),
        };
        PlaceError::Type {
            expected: self.key,
            found,
        }
    }

    #[cold]
    pub(crate) fn no_value(&self, reason: NoValue) -> PlaceError {
        let expected = self.key;
        match reason {
            NoValue::Null => PlaceError::Null,
            NoValue::Precision if expected == KeyType::Timestamp => PlaceError::Precision,
            NoValue::Precision => PlaceError::Type {
                expected,
                found: "timestamp",
            },
            NoValue::NoZone => PlaceError::Type {
                expected,
                found: "a timestamp without a time zone (say which instant is meant, in UTC with `.and_utc()`)",
            },
            NoValue::Parts => PlaceError::Type {
                expected,
                found: "a composite key of fewer than two, more than eight or nested parts",
            },
        }
    }

    /// Whether text keys go through this step.
    pub(crate) fn normalizes(&self, step: super::Normalize) -> bool {
        self.steps.in_order().any(|taken| taken == step)
    }

    /// What is doubtful about the rule at this moment, though not wrong.
    pub(crate) fn warnings(&self, now: jiff::Timestamp) -> Vec<RuleProblem> {
        match &self.algorithm {
            Algorithm::Range(range) => range
                .gaps
                .iter()
                .map(|gap| RuleProblem {
                    key: "algorithm.ranges".to_owned(),
                    message: format!("no shard has the keys {gap}: they are refused"),
                })
                .collect(),
            Algorithm::Date(date) => date.warning(now).into_iter().collect(),
            Algorithm::Custom(custom) => custom.warning().into_iter().collect(),
            _ => Vec::new(),
        }
    }

    /// The shards of the rule, in the order of its list.
    pub(crate) fn shards(&self) -> &[ShardName] {
        &self.shards
    }

    /// The type of the keys it takes.
    pub(crate) fn key_type(&self) -> KeyType {
        self.key
    }

    /// The name of the algorithm in a configuration.
    pub(crate) fn algorithm_name(&self) -> &'static str {
        match self.algorithm {
            Algorithm::Hash(_) => "hash",
            Algorithm::Modulo(_) => "modulo",
            Algorithm::List(_) => "list",
            Algorithm::Jump(_) => "jump",
            Algorithm::Ring(_) => "ring",
            Algorithm::Range(_) => "range",
            Algorithm::Date(_) => "date",
            Algorithm::Compat(_) => "compat",
            Algorithm::Custom(_) => "custom",
        }
    }

    /// Which shard owns which buckets, in the order of the buckets and with neighbours merged;
    /// `None` for an algorithm without buckets.
    pub(crate) fn effective_map(&self) -> Option<Vec<(Range<u32>, ShardName)>> {
        let Algorithm::Hash(hash) = &self.algorithm else {
            return None;
        };
        let ranges = hash.ranges().into_iter();
        Some(
            ranges
                .filter_map(|(range, owner)| Some((range, *self.shards.get(owner)?)))
                .collect(),
        )
    }

    /// The fingerprint of this rule for a keyspace with these tables, each given as its name, its
    /// key column and its count.
    #[cfg(test)]
    pub(crate) fn fingerprint(&self, tables: &[(&str, &str, u32)]) -> Fingerprint {
        self.fingerprint_named(tables, &TableNames::default())
    }

    /// The same where tables have names of their own kind.
    pub(crate) fn fingerprint_named(
        &self,
        tables: &[(&str, &str, u32)],
        names: &TableNames<'_>,
    ) -> Fingerprint {
        Fingerprint::of(self, tables, names)
    }

    /// The position of a shard in the list of the rule.
    pub(crate) fn position(&self, shard: ShardName) -> Option<usize> {
        self.shards.iter().position(|listed| *listed == shard)
    }
}

/// Whether there is a text in keys of this type.
fn has_text(key: KeyType) -> bool {
    match key {
        KeyType::Composite(parts) => parts.parts().any(|part| part == KeyType::Text),
        simple => simple == KeyType::Text,
    }
}

fn check_shards(shards: &[String], problems: &mut Problems) {
    if shards.is_empty() {
        problems.add("shards", "no shard is listed: list at least one".into());
    }
    if shards.len() > MAX_SHARDS {
        problems.add(
            "shards",
            format!(
                "{} shards are listed: a keyspace has at most {MAX_SHARDS}",
                shards.len()
            ),
        );
    }
    let mut seen = std::collections::HashMap::new();
    for name in shards {
        let times = seen.entry(name).or_insert(0u32);
        *times += 1;
        if *times == 2 {
            problems.add(
                "shards",
                format!("{name:?} is listed more than once: a shard has one position"),
            );
        }
    }
}

/// `None` when there is nothing to build on; the problems say why.
fn build_algorithm(spec: &RuleSpec, steps: Steps, problems: &mut Problems) -> Option<Algorithm> {
    let shards = spec.shards.as_slice();
    match &spec.algorithm {
        AlgorithmSpec::Modulo { count } => {
            if spec.key != KeyType::Integer {
                problems.add(
                    "algorithm.kind",
                    format!(
                        "`modulo` divides integers, and the keys of this keyspace are {}: use `hash`",
                        spec.key
                    ),
                );
            }
            // `modulo` without shards has the count 0, which is no second mistake.
            if shards.is_empty() {
                return None;
            }
            Modulo::build(shards.len(), *count, problems).map(Algorithm::Modulo)
        }
        AlgorithmSpec::Hash { buckets, map } => {
            Hash::build(shards, *buckets, map.as_deref(), problems).map(Algorithm::Hash)
        }
        AlgorithmSpec::List { values } => {
            List::build(shards, values, spec.key, steps, problems).map(Algorithm::List)
        }
        AlgorithmSpec::Jump => Jump::build(shards.len()).map(Algorithm::Jump),
        AlgorithmSpec::Ring { points, weights } => {
            Ring::build(shards, *points, weights, problems).map(Algorithm::Ring)
        }
        AlgorithmSpec::Range { ranges } => {
            KeyRanges::build(shards, ranges, spec.key, steps, problems).map(Algorithm::Range)
        }
        AlgorithmSpec::Date(date) => Date::build(shards, date, spec.key, problems)
            .map(|date| Algorithm::Date(Box::new(date))),
        AlgorithmSpec::Compat(compat) => Compat::build(shards, compat, spec.key, problems)
            .map(|compat| Algorithm::Compat(Box::new(compat))),
        AlgorithmSpec::Custom(custom) => {
            Custom::build(shards.len(), custom, spec.key, problems).map(Algorithm::Custom)
        }
    }
}
