//! Rules that place rows where another system has placed them already.
//!
//! They exist for fleets that exist. Each answers as its system does, with the faults of that
//! system, and is checked against vectors that the system computed.

mod build;
mod hashes;
mod interval;
mod java;
mod postgres;
mod spec;
mod steps;
#[cfg(test)]
mod tests;
mod text;

use super::rule::Spot;
use super::segments::Segments;
use crate::key::KeyValue;

pub use java::JavaType;
pub use spec::{CompatRange, CompatSpec, Layout, System};

/// A checked compat rule.
#[derive(Clone, Debug)]
pub(super) struct Compat {
    pub(super) spec: CompatSpec,
    places: Places,
    /// How many shards there are.
    shards: u32,
}

/// How a key becomes a shard and a table.
#[derive(Clone, Debug)]
enum Places {
    /// One index for both.
    Index {
        index: Index,
        /// How many there are.
        count: u32,
        layout: Layout,
    },
    /// One index for the shard, another one for the table.
    Two {
        shard: Index,
        table: Index,
        tables: u32,
    },
    /// The system computes database and table together.
    Split(Split),
    /// The system gives ranges of a hash to shards.
    Ranges {
        hash: RangeHash,
        /// The owner is a position among `ranges`.
        line: Segments<i128>,
        /// The shard of each range, and its table.
        ranges: Box<[(u32, u64)]>,
    },
}

/// A number below a count, or none for a key that the system does not place.
#[derive(Clone, Debug)]
enum Index {
    Modulo(u32),
    HashModulo(u32, JavaType),
    InlinePercent(u32),
    CosidModulo(u32),
    Numbers(Segments<i64>),
    AutoInterval(interval::Auto),
    Interval(interval::Stepped),
    PostgresHash(u32),
    PgcatSha1(u32),
    CitusHash(u32),
    GuavaConsistentHash(u32),
}

#[derive(Clone, Copy, Debug)]
enum Split {
    JavaPerturbed {
        databases: u32,
        tables: u32,
    },
    BitMix {
        databases: u32,
        tables: u32,
        global: bool,
    },
}

#[derive(Clone, Copy, Debug)]
enum RangeHash {
    Citus,
    VitessHash,
    VitessXxhash,
    SpqrMurmur,
}

impl Index {
    fn of(&self, key: KeyValue<'_>) -> Option<u32> {
        let long = |key: KeyValue<'_>| match key {
            KeyValue::Integer(number) => i64::try_from(number).ok(),
            _ => None,
        };
        match self {
            Self::Modulo(count) => match key {
                KeyValue::Integer(number) => Some(number.rem_euclid(i128::from(*count)) as u32),
                KeyValue::BigInteger(number) => Some((number % u128::from(*count)) as u32),
                _ => None,
            },
            Self::HashModulo(count, java) => {
                let hash = i64::from(java.hash(key)?);
                Some((hash.abs() % i64::from(*count)) as u32)
            }
            // The remainder keeps the sign of the number: a negative one names no target.
            Self::InlinePercent(count) => u32::try_from(long(key)? % i64::from(*count)).ok(),
            Self::CosidModulo(count) => Some(long(key)?.rem_euclid(i64::from(*count)) as u32),
            Self::Numbers(line) => {
                let number = long(key)?;
                let index = line.owner(|start| start.cmp(&number))?;
                u32::try_from(index).ok()
            }
            Self::AutoInterval(auto) => auto.index(key),
            Self::Interval(steps) => steps.index(key),
            Self::PostgresHash(modulus) => {
                postgres::partition(key, *modulus).and_then(|part| u32::try_from(part).ok())
            }
            Self::PgcatSha1(shards) => Some(hashes::pgcat_sha1(long(key)?, *shards)),
            Self::CitusHash(count) => Some(postgres::citus_index(postgres::citus(key)?, *count)),
            Self::GuavaConsistentHash(buckets) => Some(super::jump::jump_consistent_hash(
                long(key)? as u64,
                *buckets,
            )),
        }
    }
}

impl RangeHash {
    fn of(self, key: KeyValue<'_>) -> Option<i128> {
        let long = match key {
            KeyValue::Integer(number) => i64::try_from(number).ok(),
            _ => None,
        };
        Some(match self {
            Self::Citus => postgres::citus(key)?.into(),
            Self::VitessHash => {
                // Vitess takes unsigned numbers, and signed ones by their 64 bits.
                let number = match key {
                    KeyValue::Integer(number) => u64::try_from(number).ok(),
                    _ => None,
                };
                let number = number.or_else(|| long.map(|number| number as u64))?;
                hashes::vitess_hash(number).into()
            }
            Self::VitessXxhash => match key {
                KeyValue::Text(text) => hashes::vitess_xxhash(text.as_bytes()).into(),
                KeyValue::Bytes(bytes) => hashes::vitess_xxhash(bytes).into(),
                _ => return None,
            },
            Self::SpqrMurmur => hashes::spqr_murmur(long?).into(),
        })
    }
}

impl Split {
    /// Database and table, both from 0.
    fn of(self, key: KeyValue<'_>) -> Option<(u32, u32)> {
        match self {
            Self::JavaPerturbed { databases, tables } => {
                let KeyValue::Text(text) = key else {
                    return None;
                };
                let index = java::perturbed(text, databases * tables);
                Some((index / tables, index % tables))
            }
            Self::BitMix {
                databases, tables, ..
            } => {
                let KeyValue::Integer(number) = key else {
                    return None;
                };
                let mixed = java::bit_mix(i64::try_from(number).ok()?);
                Some(java::split(mixed, databases, tables))
            }
        }
    }

    fn tables(self) -> u32 {
        match self {
            Self::JavaPerturbed { tables, .. } | Self::BitMix { tables, .. } => tables,
        }
    }

    /// The number of a table as its name has it.
    fn number(self, database: u32, table: u32) -> u64 {
        match self {
            Self::BitMix {
                tables,
                global: true,
                ..
            } => u64::from(database) * u64::from(tables) + u64::from(table),
            _ => table.into(),
        }
    }
}

impl Compat {
    pub(super) fn place(&self, key: KeyValue<'_>) -> Option<Spot> {
        match &self.places {
            Places::Index {
                index,
                count,
                layout,
            } => {
                let index = index.of(key)?;
                Some(Spot {
                    shard: layout.shard(index, *count, self.shards) as usize,
                    spread: index.into(),
                })
            }
            Places::Two { shard, table, .. } => Some(Spot {
                shard: shard.of(key)? as usize,
                spread: table.of(key)?.into(),
            }),
            Places::Split(split) => {
                let (database, table) = split.of(key)?;
                Some(Spot {
                    shard: database as usize,
                    spread: split.number(database, table),
                })
            }
            Places::Ranges { hash, line, ranges } => {
                let hash = hash.of(key)?;
                let range = line.owner(|start| start.cmp(&hash))?;
                let (shard, table) = ranges.get(range)?;
                Some(Spot {
                    shard: *shard as usize,
                    spread: *table,
                })
            }
        }
    }

    /// Every shard and spread there can be.
    pub(super) fn spots(&self) -> Vec<(usize, u64)> {
        match &self.places {
            Places::Index { count, layout, .. } => (0..*count)
                .map(|index| {
                    let shard = layout.shard(index, *count, self.shards);
                    (shard as usize, index.into())
                })
                .collect(),
            Places::Two { tables, .. } => (0..self.shards)
                .flat_map(|shard| (0..*tables).map(move |table| (shard as usize, table.into())))
                .collect(),
            Places::Split(split) => (0..self.shards)
                .flat_map(|database| {
                    (0..split.tables())
                        .map(move |table| (database as usize, split.number(database, table)))
                })
                .collect(),
            Places::Ranges { ranges, .. } => {
                let spots = ranges.iter();
                spots
                    .map(|(shard, table)| (*shard as usize, *table))
                    .collect()
            }
        }
    }

    /// The spots that an order-keeping system can give to keys of a range of numbers; `None` where
    /// the system keeps no order.
    pub(super) fn spots_between(
        &self,
        from: i128,
        until: Option<i128>,
    ) -> Option<Vec<(usize, u64)>> {
        let Places::Index {
            index,
            count,
            layout,
        } = &self.places
        else {
            return None;
        };
        let met: Vec<u32> = match index {
            Index::Numbers(line) => line
                .iter()
                .filter(|(start, end, _)| {
                    let low = start.map_or(i128::from(i64::MIN), |start| (*start).into());
                    let high = end.map_or(i128::from(i64::MAX) + 1, |end| (*end).into());
                    from.max(low) < until.map_or(high, |until| until.min(high))
                })
                .filter_map(|(.., owner)| owner.and_then(|owner| u32::try_from(owner).ok()))
                .collect(),
            Index::AutoInterval(auto) => auto.between(from, until),
            Index::Interval(steps) => steps.between(from, until)?,
            _ => return None,
        };
        let spots = met.into_iter().filter(|index| index < count);
        Some(
            spots
                .map(|index| {
                    let shard = layout.shard(index, *count, self.shards);
                    (shard as usize, u64::from(index))
                })
                .collect(),
        )
    }

    /// How many parts a numbered table of this rule has, where the rule says so.
    pub(super) fn table_count(&self) -> Option<u32> {
        match &self.places {
            Places::Index {
                layout: Layout::OnePerShard,
                ..
            } => Some(1),
            Places::Index { count, .. } => Some(*count),
            Places::Two { tables, .. } => Some(*tables),
            Places::Split(Split::BitMix {
                databases,
                tables,
                global: true,
            }) => Some(databases * tables),
            Places::Split(split) => Some(split.tables()),
            Places::Ranges { .. } => Some(1),
        }
    }

    /// Every step with its ends, where the rule goes by steps of time.
    #[cfg(all(
        feature = "migrations",
        any(feature = "sqlite", feature = "postgres", feature = "mysql")
    ))]
    pub(super) fn spans(&self) -> Option<Vec<super::periods::Span>> {
        let Places::Index {
            index: Index::Interval(steps),
            ..
        } = &self.places
        else {
            return None;
        };
        let spots = self.spots().into_iter();
        Some(
            spots
                .filter_map(|(owner, spread)| {
                    let (from, until) = steps.ends(spread)?;
                    Some(super::periods::Span {
                        spread,
                        owner,
                        from,
                        until,
                    })
                })
                .collect(),
        )
    }

    /// The zone of such a rule.
    #[cfg(all(
        feature = "migrations",
        any(feature = "sqlite", feature = "postgres", feature = "mysql")
    ))]
    pub(super) fn zone(&self) -> Option<jiff::tz::TimeZone> {
        match &self.places {
            Places::Index {
                index: Index::Interval(steps),
                ..
            } => Some(steps.zone()),
            _ => None,
        }
    }

    /// Whether that end is a date.
    pub(super) fn names_dates(&self) -> bool {
        matches!(
            &self.places,
            Places::Index {
                index: Index::Interval(_),
                ..
            }
        )
    }

    /// The end of the name of a table that is named by the rule.
    pub(super) fn suffix(&self, spread: u64) -> Option<String> {
        match &self.places {
            Places::Split(Split::JavaPerturbed { .. }) => Some(format!("{spread:03}")),
            Places::Index {
                index: Index::Interval(steps),
                ..
            } => steps.suffix(spread),
            Places::Index {
                layout: Layout::OnePerShard,
                ..
            } => None,
            Places::Ranges {
                hash: RangeHash::Citus,
                ..
            }
            | Places::Index { .. }
            | Places::Two { .. }
            | Places::Split(_) => Some(spread.to_string()),
            Places::Ranges { .. } => None,
        }
    }
}

impl Layout {
    fn shard(self, index: u32, count: u32, shards: u32) -> u32 {
        match self {
            Self::OnePerShard => index,
            Self::RoundRobin => index % shards.max(1),
            // As many of each as divide evenly; the build has checked that they do.
            Self::Blocks => index / (count / shards.max(1)).max(1),
        }
    }
}
