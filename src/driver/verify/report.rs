//! What a verification found.

use std::fmt;

use serde::Serialize as _;

use super::{TableJob, VerifyState};
use crate::algorithm::counted;
use crate::key::ShardKey;
use crate::name::ShardName;

/// What [`verify`](crate::blocking::verify) found in a keyspace.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct VerifyReport {
    /// The keyspace.
    pub keyspace: String,
    /// How many rows were read, by the runs that this one goes on with too.
    pub rows: u64,
    /// How many physical tables were read to their end, by those runs too.
    pub tables: u64,
    /// What is wrong, sorted by shard and table; as many findings as were to be kept.
    pub findings: Vec<Finding>,
    /// How many findings more there are than were kept; those of the run that this one goes on with are
    /// among them.
    pub more: u64,
    /// Shards that could not be read to the end, each with the reason.
    pub failed: Vec<(String, String)>,
}

/// Rows that are not as the rule has them.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct Finding {
    /// The shard on which they are.
    #[serde(serialize_with = "as_text")]
    pub shard: ShardName,
    /// The physical table.
    pub table: String,
    /// The key, as errors show it; `None` where there is none, or none in common.
    pub key: Option<String>,
    /// What tells it from the other findings of its table.
    #[serde(skip)]
    pub(crate) about: About,
    /// How many rows.
    pub rows: u64,
    /// What is wrong with them.
    #[serde(flatten)]
    pub kind: FindingKind,
}

/// What a finding is about: findings about one key of one table are one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum About {
    /// The table, or rows without a key in common.
    Table,
    /// A key, as the rule takes it.
    Key(ShardKey<'static>),
    /// What a database has in the place of a key.
    Text(String),
}

/// What is wrong with rows.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(tag = "finding", rename_all = "snake_case")]
#[non_exhaustive]
pub enum FindingKind {
    /// The rule places their key elsewhere.
    Misplaced {
        /// The shard where they belong.
        #[serde(serialize_with = "as_text")]
        home_shard: ShardName,
        /// The physical table there.
        home_table: String,
        /// Whether rows with this key are there as well: the key is in two places.
        also_at_home: bool,
    },
    /// The rule has no place for their key.
    Unplaced {
        /// Why.
        reason: String,
    },
    /// Their key is null, so they belong nowhere.
    NullKey,
    /// Their key is not of the declared type.
    Unreadable,
    /// The table is not there, although the rule places rows in it.
    MissingTable,
    /// None of the physical tables that the rule names is on any shard.
    NoTable,
    /// The table has a name as the rule gives it, of a period or number that the rule does not have. Its
    /// rows are not read.
    OutsidePlan,
}

impl Finding {
    pub(crate) fn of_table(job: &TableJob, kind: FindingKind, rows: u64) -> Self {
        Self {
            shard: job.shard,
            table: job.physical.clone(),
            key: None,
            about: About::Table,
            rows,
            kind,
        }
    }

    /// The table of a job is not there.
    pub(crate) fn missing_table(job: &TableJob) -> Self {
        Self::of_table(job, FindingKind::MissingTable, 0)
    }
}

fn as_text<S: serde::Serializer>(shard: &ShardName, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(shard.as_str())
}

fn as_text_where_there<S: serde::Serializer>(
    shard: &Option<ShardName>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    shard.map(|shard| shard.as_str()).serialize(serializer)
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            shard,
            table,
            key,
            rows,
            kind,
            ..
        } = self;
        write!(f, "shard {shard}, table {table}: ")?;
        let key = key.as_deref().unwrap_or("");
        let belong = if *rows == 1 { "belongs" } else { "belong" };
        let have = if *rows == 1 { "has" } else { "have" };
        let rows = counted(*rows, "row");
        match kind {
            FindingKind::Misplaced {
                home_shard,
                home_table,
                also_at_home,
            } => {
                write!(
                    f,
                    "{rows} with the key {key} {belong} to {home_table} on {home_shard}"
                )?;
                if *also_at_home {
                    f.write_str(", where there are rows with it as well")?;
                }
                Ok(())
            }
            FindingKind::Unplaced { reason } => {
                write!(f, "{rows} with the key {key} {have} no place: {reason}")
            }
            FindingKind::NullKey => write!(f, "{rows} without a key"),
            FindingKind::Unreadable if key.is_empty() => {
                write!(f, "{rows} with a key of another type")
            }
            FindingKind::Unreadable => {
                write!(f, "{rows} with the key {key:?}, which is of another type")
            }
            FindingKind::MissingTable => f.write_str("the table is not there"),
            FindingKind::NoTable => f.write_str(
                "none of the tables that the rule names is there, nor on any other shard: check the name of the table",
            ),
            FindingKind::OutsidePlan => f.write_str(
                "the table lies outside of what the rule covers, and its rows were not read: extend the plan, or move the table away",
            ),
        }
    }
}

/// How far a verification has come.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct VerifyProgress<'a> {
    /// The shard that has come further.
    pub shard: ShardName,
    /// The physical table that is read there.
    pub table: &'a str,
    /// How many rows were read so far, on all shards.
    pub rows: u64,
    /// How many findings there are so far.
    pub findings: u64,
    /// What lets another run go on from here.
    pub state: &'a VerifyState,
}

/// Where the rows with one key are, and where they belong: what
/// [`find_key`](crate::blocking::find_key) answers.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct KeyPlaces {
    /// The key.
    pub key: String,
    /// The shard where they belong; `None` where the rule has no place for the key.
    #[serde(serialize_with = "as_text_where_there")]
    pub home: Option<ShardName>,
    /// The physical tables there, one for each table that was looked at.
    pub home_tables: Vec<String>,
    /// Why the rule has no place for the key, where it has none.
    pub nowhere: Option<String>,
    /// Where rows with this key really are, on any shard.
    pub found: Vec<RowsFound>,
    /// Tables that are not there, although the rule places rows in them.
    pub missing: Vec<Finding>,
    /// Shards that could not be asked, each with the reason.
    pub failed: Vec<(String, String)>,
}

/// Rows with one key in one table.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct RowsFound {
    /// The shard.
    #[serde(serialize_with = "as_text")]
    pub shard: ShardName,
    /// The physical table.
    pub table: String,
    /// How many rows.
    pub rows: u64,
    /// Whether they belong there.
    pub at_home: bool,
}
