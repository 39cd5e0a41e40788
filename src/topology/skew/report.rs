//! What the counting came to.

use std::fmt;

use crate::algorithm::{counted, percent};

/// How evenly keys lie; its [`Display`](fmt::Display) shows bars.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
#[non_exhaustive]
pub struct SkewReport {
    /// The keyspace.
    pub keyspace: String,
    /// How many keys have a place.
    pub keys: u64,
    /// How many were null.
    pub nulls: u64,
    /// How many have no place for another reason.
    pub refused: u64,
    /// The reason of the first of these.
    pub first_refusal: Option<String>,
    /// The shards, sorted by name.
    pub shards: Vec<Share>,
    /// The parts of each table that has parts, by shard.
    pub tables: Vec<(String, Vec<Share>)>,
    /// How far shards are from what they are to have, relative and as a standard deviation: 0.1 is
    /// ten percent.
    pub deviation: f64,
    /// Pearson's chi-square against the shares that the rule means; `None` where it means none, or
    /// where the keys are too few.
    pub chi_square: Option<f64>,
    /// Its degrees of freedom.
    pub freedom: u32,
    /// Whether chance alone gives so uneven a picture less than once in a thousand times.
    pub unlikely: bool,
    /// The keys with the most rows, at most ten, the heaviest first.
    pub heaviest: Vec<HeavyKey>,
    /// By how much their counts may be too low.
    pub uncertainty: u64,
    /// Known traps that these keys step into.
    pub warnings: Vec<String>,
}

/// How many keys one shard or table has.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
#[non_exhaustive]
pub struct Share {
    /// The shard, or the shard and the physical table.
    pub name: String,
    /// How many keys.
    pub keys: u64,
    /// Their share of all, from 0 to 1.
    pub share: f64,
    /// The share that the rule means; `None` where it depends on the keys.
    pub expected: Option<f64>,
}

/// A key with many rows.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct HeavyKey {
    /// The key, as errors show it.
    pub key: String,
    /// How many rows it has at least.
    pub at_least: u64,
}

/// A bar for a value among others, as wide as it is large.
struct Bar {
    value: f64,
    most: f64,
}

impl fmt::Display for Bar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const WIDTH: f64 = 40.0;
        const EIGHTHS: [char; 8] = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉'];
        let eighths =
            (self.value / self.most.max(f64::MIN_POSITIVE) * WIDTH * 8.0).round() as usize;
        for _ in 0..eighths / 8 {
            f.write_str("█")?;
        }
        match eighths % 8 {
            0 => Ok(()),
            part => write!(f, "{}", EIGHTHS[part]),
        }
    }
}

fn shares(f: &mut fmt::Formatter<'_>, shares: &[Share], shown: usize) -> fmt::Result {
    let width = shares
        .iter()
        .take(shown)
        .map(|share| share.name.chars().count())
        .max();
    let width = width.unwrap_or(0);
    let most = shares.iter().map(|share| share.share).fold(0.0, f64::max);
    for share in shares.iter().take(shown) {
        let bar = Bar {
            value: share.share,
            most,
        };
        write!(
            f,
            "\n  {:<width$}  {:>12}  {:>6} %",
            share.name,
            share.keys,
            percent(share.share)
        )?;
        if let Some(expected) = share.expected {
            write!(f, " of {:>6} %", percent(expected))?;
        }
        write!(f, "  {bar}")?;
    }
    match shares.len().saturating_sub(shown) {
        0 => Ok(()),
        more => write!(f, "\n  and {more} more"),
    }
}

impl fmt::Display for SkewReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 64;
        let keys = counted(self.keys, "key");
        write!(f, "keyspace {}: {keys}", self.keyspace)?;
        if self.nulls > 0 {
            write!(f, ", {} null", self.nulls)?;
        }
        if self.refused > 0 {
            let first = self.first_refusal.as_deref().unwrap_or("");
            write!(f, ", {} without a place ({first})", self.refused)?;
        }
        write!(f, "\n\nshards")?;
        shares(f, &self.shards, SHOWN)?;
        write!(f, "\n  deviation {} %", percent(self.deviation))?;
        if let Some(chi_square) = self.chi_square {
            let verdict = if self.unlikely {
                "chance does not explain that"
            } else {
                "as chance has it"
            };
            write!(
                f,
                ", chi-square {chi_square:.1} for {}: {verdict}",
                counted(self.freedom.into(), "degree of freedom")
            )?;
        }
        for (table, parts) in &self.tables {
            write!(f, "\n\ntable {table}")?;
            shares(f, parts, SHOWN)?;
        }
        if !self.heaviest.is_empty() {
            write!(f, "\n\nheaviest keys")?;
            for heavy in &self.heaviest {
                write!(f, "\n  {}: {}", heavy.key, heavy.at_least)?;
                if self.uncertainty > 0 {
                    write!(f, " to {}", heavy.at_least + self.uncertainty)?;
                }
            }
        }
        for warning in &self.warnings {
            write!(f, "\n\nwarning: {warning}")?;
        }
        Ok(())
    }
}
