//! How evenly given keys lie, and why where they do not.

mod heavy;
mod pattern;
mod report;
#[cfg(test)]
mod tests;
mod traps;

use std::collections::BTreeMap;

use super::Topology;
use super::snapshot::KeyspaceEntry;
use crate::error::Error;
use crate::key::{ShardKey, ToShardKey};
use heavy::Heavy;
use pattern::Pattern;

pub use report::{HeavyKey, Share, SkewReport};

/// More cells of shards and tables than this are not counted one by one.
const MOST_CELLS: usize = 1 << 20;

/// Counts keys by the shard and table they belong to, in memory that does not grow with them.
///
/// ```
/// use diesel_sharded::{KeyspaceConfig, RuleSpec, Topology};
///
/// let topology = Topology::builder()
///     .shard("a", "a.sqlite")
///     .shard("b", "b.sqlite")
///     .keyspace("orders", KeyspaceConfig::new(RuleSpec::modulo(["a", "b"])))
///     .build()?;
/// let mut skew = topology.skew("orders")?;
/// for id in 0..10_000_i64 {
///     skew.add(&(id << 12)); // snowflake ids at a low rate
/// }
/// let report = skew.report();
/// assert_eq!(report.shards[0].keys, 10_000);
/// assert!(report.warnings[0].contains("low bits"));
/// println!("{report}");
/// # Ok::<(), diesel_sharded::Error>(())
/// ```
#[derive(Debug)]
pub struct Skew {
    entry: KeyspaceEntry,
    keys: u64,
    /// By the position in the rule's list.
    shards: Vec<u64>,
    tables: Vec<Cells>,
    refused: u64,
    nulls: u64,
    first_refusal: Option<String>,
    heavy: Heavy,
    pattern: Pattern,
    /// Texts that trimming and lower case would change.
    foldable: u64,
}

/// The counts of one table.
#[derive(Debug)]
enum Cells {
    /// By shard, then by part.
    Numbered(Vec<u64>, usize),
    /// By shard and spread.
    ByRule(BTreeMap<(usize, u64), u64>),
    /// One part on each shard, or too many.
    None,
}

impl Topology {
    /// Starts counting keys of a keyspace by the shards and tables they belong to.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownKeyspace`].
    pub fn skew(&self, keyspace: impl AsRef<str>) -> Result<Skew, Error> {
        self.with_current(|snapshot| {
            let entry = &snapshot.keyspaces()[snapshot.find_keyspace(keyspace.as_ref())?];
            entry.can_place()?;
            Ok(Skew::new(entry.clone()))
        })
    }
}

impl Skew {
    fn new(entry: KeyspaceEntry) -> Self {
        let shards = entry.rule.shards().len();
        let counts = entry.tables.iter().map(|table| u64::from(table.count));
        let divisors = counts.chain([shards as u64]);
        let divisors: Vec<u64> = divisors.collect();
        let tables = entry
            .tables
            .iter()
            .map(|table| {
                let cells = shards.saturating_mul(table.count as usize);
                if table.by_rule {
                    Cells::ByRule(BTreeMap::new())
                } else if table.count > 1 && cells <= MOST_CELLS {
                    Cells::Numbered(vec![0; cells], table.count as usize)
                } else {
                    Cells::None
                }
            })
            .collect();
        Self {
            keys: 0,
            shards: vec![0; shards],
            tables,
            refused: 0,
            nulls: 0,
            first_refusal: None,
            heavy: Heavy::new(),
            pattern: Pattern::new(&divisors),
            foldable: 0,
            entry,
        }
    }

    /// Counts a key.
    pub fn add<K: ToShardKey + ?Sized>(&mut self, key: &K) {
        let key = key.to_shard_key();
        let placement = match self.entry.locate(&key) {
            Ok(placement) => placement,
            Err(error) => {
                if key == ShardKey::Null {
                    self.nulls += 1;
                } else {
                    self.refused += 1;
                    self.first_refusal.get_or_insert_with(|| error.to_string());
                }
                return;
            }
        };
        self.keys += 1;
        let shards = self.entry.rule.shards();
        let Some(at) = shards.iter().position(|shard| *shard == placement.shard()) else {
            return;
        };
        self.shards[at] += 1;
        for cells in &mut self.tables {
            match cells {
                Cells::Numbered(counts, parts) => {
                    let part = placement.table_number(*parts as u32) as usize;
                    counts[at * *parts + part] += 1;
                }
                Cells::ByRule(counts) if counts.len() < MOST_CELLS => {
                    *counts.entry((at, placement.spread())).or_default() += 1;
                }
                _ => {}
            }
        }
        match &key {
            ShardKey::Integer(number) => self.pattern.add(*number),
            ShardKey::Text(text) => {
                let folds = text.trim() != text || text.chars().any(char::is_uppercase);
                self.foldable += u64::from(folds);
            }
            _ => {}
        }
        self.heavy.add(&key);
    }

    /// What the keys so far came to.
    #[must_use]
    pub fn report(&self) -> SkewReport {
        let names = self.entry.rule.shards();
        let shares = self.entry.rule.shares();
        let total = self.keys.max(1) as f64;
        let mut shards: Vec<Share> = names
            .iter()
            .enumerate()
            .map(|(at, name)| Share {
                name: name.to_string(),
                keys: self.shards[at],
                share: self.shards[at] as f64 / total,
                expected: shares.as_ref().and_then(|shares| shares.get(at).copied()),
            })
            .collect();
        let (chi_square, freedom) = chi_square(&shards, self.keys);
        let warnings = self.warnings(&shards);
        shards.sort_by(|a, b| a.name.cmp(&b.name));
        let expected = |share: &Share| share.expected.unwrap_or(1.0 / shards.len().max(1) as f64);
        let owning: Vec<&Share> = shards
            .iter()
            .filter(|share| expected(share) > 0.0)
            .collect();
        let squares = owning.iter().map(|share| {
            let ratio = share.share / expected(share) - 1.0;
            ratio * ratio
        });
        // The sum of nothing is a negative zero.
        let squares = squares.fold(0.0, |sum, square| sum + square);
        let deviation = (squares / owning.len().max(1) as f64).sqrt();
        SkewReport {
            keyspace: self.entry.name.to_string(),
            keys: self.keys,
            nulls: self.nulls,
            refused: self.refused,
            first_refusal: self.first_refusal.clone(),
            tables: self.table_shares(),
            shards,
            deviation: if self.keys == 0 { 0.0 } else { deviation },
            chi_square,
            freedom,
            unlikely: chi_square.is_some_and(|chi| is_unlikely(chi, freedom)),
            heaviest: self.heavy.heaviest(10),
            uncertainty: self.heavy.lost(),
            warnings,
        }
    }

    fn table_shares(&self) -> Vec<(String, Vec<Share>)> {
        let names = self.entry.rule.shards();
        let total = self.keys.max(1) as f64;
        let share = |name: String, keys: u64| Share {
            name,
            keys,
            share: keys as f64 / total,
            expected: None,
        };
        let tables = self.entry.tables.iter().zip(&self.tables);
        tables
            .filter_map(|(table, cells)| {
                let shares: Vec<Share> = match cells {
                    Cells::None => return None,
                    Cells::Numbered(counts, parts) => counts
                        .iter()
                        .enumerate()
                        .map(|(cell, keys)| {
                            let (shard, part) = (names[cell / parts], cell % parts);
                            // Both were made from numbers of this size.
                            let part = table.part(cell / parts, part as u32);
                            share(format!("{shard} {part}"), *keys)
                        })
                        .collect(),
                    Cells::ByRule(counts) => counts
                        .iter()
                        .map(|((at, spread), keys)| {
                            let part = table.part_by_rule(&self.entry.rule, *spread);
                            share(
                                format!("{} {}", names[*at], part.unwrap_or_default()),
                                *keys,
                            )
                        })
                        .collect(),
                };
                Some((table.name.clone(), shares))
            })
            .collect()
    }
}

/// Pearson's statistic against the shares that the rule means, and its degrees of freedom.
fn chi_square(shards: &[Share], keys: u64) -> (Option<f64>, u32) {
    let mut sum = 0.0;
    let mut owning = 0_u32;
    for share in shards {
        let Some(expected) = share.expected else {
            return (None, 0);
        };
        if expected > 0.0 {
            let expected = expected * keys as f64;
            if expected < 5.0 {
                // The statistic says nothing about so few.
                return (None, 0);
            }
            sum += (share.keys as f64 - expected).powi(2) / expected;
            owning += 1;
        }
    }
    match owning.checked_sub(1) {
        Some(freedom) if freedom > 0 => (Some(sum), freedom),
        _ => (None, 0),
    }
}

/// Whether chance alone gives such a statistic less than once in a thousand times: by the
/// approximation of Wilson and Hilferty, 1931.
fn is_unlikely(chi_square: f64, freedom: u32) -> bool {
    let freedom = f64::from(freedom);
    let spread = 2.0 / (9.0 * freedom);
    let normal = ((chi_square / freedom).cbrt() - (1.0 - spread)) / spread.sqrt();
    normal > 3.09
}
