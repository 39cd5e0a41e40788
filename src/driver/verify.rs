//! Whether rows are where the rule places them: what is asked of each table, and what the answers mean.
//!
//! Nothing here talks to a database. A driver sends the statements of [`sql`] and hands what comes
//! back to a [`TableCheck`].

mod check;
mod report;
pub(crate) mod sql;
mod tail;

use std::collections::{BTreeMap, BTreeSet};

use crate::error::Error;
use crate::key::KeyType;
use crate::name::ShardName;
use crate::topology::{KeyspaceEntry, Snapshot, Topology};

pub use check::ScannedKey;
pub(crate) use check::{RawKey, TableCheck};
pub(crate) use report::About;
pub use report::{Finding, FindingKind, KeyPlaces, RowsFound, VerifyProgress, VerifyReport};
pub(crate) use tail::Tail;

/// How a keyspace is verified.
#[derive(Clone, Debug)]
#[must_use]
pub struct VerifyOptions {
    pub(crate) table: Option<String>,
    pub(crate) rows_per_second: Option<u32>,
    pub(crate) page: u32,
    pub(crate) parallel: usize,
    pub(crate) keep: usize,
    pub(crate) resume: Option<VerifyState>,
}

impl Default for VerifyOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl VerifyOptions {
    /// All tables of the keyspace, 50,000 rows a second on each shard.
    pub fn new() -> Self {
        Self {
            table: None,
            rows_per_second: Some(50_000),
            page: 20_000,
            parallel: 8,
            keep: 1_000,
            resume: None,
        }
    }

    /// Only this table, by its logical name.
    pub fn table(mut self, name: impl Into<String>) -> Self {
        self.table = Some(name.into());
        self
    }

    /// The most rows that are read from one shard in a second; `None` for as many as there come.
    /// Defaults to 50,000.
    pub fn rows_per_second(mut self, rows: Option<u32>) -> Self {
        self.rows_per_second = rows.map(|rows| rows.max(1));
        self
    }

    /// How many rows one statement reads, and no more than `rows_per_second`. Defaults to 20,000.
    pub fn page(mut self, rows: u32) -> Self {
        self.page = rows.max(2);
        self
    }

    /// How many shards are read at the same time. Defaults to 8.
    pub fn parallel(mut self, shards: usize) -> Self {
        self.parallel = shards.max(1);
        self
    }

    /// How many findings are kept for the report; the others are counted. Defaults to 1,000.
    pub fn keep(mut self, findings: usize) -> Self {
        self.keep = findings;
        self
    }

    /// The rows of one statement: no more than a second may have.
    pub(crate) fn rows_at_once(&self) -> u32 {
        let most = self.rows_per_second.unwrap_or(self.page);
        // Two at least, as `page`: one row and how it goes on.
        self.page.min(most).max(2)
    }

    /// Goes on where a run stopped, whose last state this is.
    pub fn resume(mut self, state: VerifyState) -> Self {
        self.resume = Some(state);
        self
    }
}

/// How far a run has come: kept somewhere, it lets another run go on from there. Findings before that
/// are counted, in [`VerifyReport::more`], and not listed again.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[non_exhaustive]
pub struct VerifyState {
    /// The keyspace.
    pub keyspace: String,
    /// The fingerprint of its rule: under another one a run begins anew.
    pub fingerprint: String,
    /// The last key that was read of each table, by shard and physical table; `None` where the table
    /// is done.
    pub positions: BTreeMap<String, BTreeMap<String, Option<String>>>,
    /// How many findings there were so far.
    #[serde(default)]
    pub findings: u64,
    /// How many rows were read so far.
    #[serde(default)]
    pub rows: u64,
    /// How many physical tables were read so far, each to its end.
    #[serde(default)]
    pub tables: u64,
    /// The tables, by their logical names, of which some physical table was there.
    #[serde(default)]
    pub present: BTreeSet<String>,
}

/// One physical table of one shard.
#[derive(Clone, Debug)]
pub(crate) struct TableJob {
    pub(crate) shard: ShardName,
    /// The position among the keyspace's tables.
    pub(crate) logical: usize,
    /// The number among its parts, where they are numbered.
    pub(crate) number: Option<u32>,
    pub(crate) physical: String,
    pub(crate) key_column: String,
    /// The rule places rows there, so the table has to be there.
    pub(crate) expected: bool,
    /// Where to begin; `None` is the beginning.
    pub(crate) after: Option<String>,
}

/// The tables of one shard whose names are as the rule gives them, while the rule has no such part.
#[derive(Clone, Debug)]
pub(crate) struct Outside {
    /// A table of the plan, beside which others are.
    pub(crate) like: TableJob,
    /// What stands before and behind the part in a name, without the schema.
    around: (String, String),
    /// How many digits a part has.
    digits: BTreeSet<usize>,
    planned: BTreeSet<String>,
}

impl Outside {
    /// The table as one that can be looked at, where this is the name of one.
    pub(crate) fn job(&self, name: &str) -> Option<TableJob> {
        let part = name.strip_prefix(self.around.0.as_str())?;
        let part = part.strip_suffix(self.around.1.as_str())?;
        let is_part =
            self.digits.contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit());
        let physical = match self.like.physical.split_once('.') {
            Some((schema, _)) => format!("{schema}.{name}"),
            None => name.to_owned(),
        };
        (is_part && !self.planned.contains(&physical)).then(|| TableJob {
            physical,
            expected: false,
            after: None,
            ..self.like.clone()
        })
    }
}

/// What is to be read for one keyspace.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) keyspace: KeyspaceEntry,
    pub(crate) key: KeyType,
    /// By shard.
    pub(crate) jobs: Vec<Vec<TableJob>>,
    /// What is to be told, by shard.
    pub(crate) outside: BTreeMap<ShardName, Vec<Outside>>,
}

impl Plan {
    pub(crate) fn new(
        topology: &Topology,
        keyspace: &str,
        options: &VerifyOptions,
    ) -> Result<Self, Error> {
        let snapshot = topology.snapshot();
        Self::of(&snapshot, keyspace, options)
    }

    /// The tables named by the rule of which not one is anywhere.
    pub(crate) fn without_table(&self, is_there: impl Fn(usize) -> bool) -> Vec<Finding> {
        let tables = self.outside.values().flatten().map(|tables| &tables.like);
        let mut missing: Vec<&TableJob> = tables.filter(|job| !is_there(job.logical)).collect();
        missing.sort_by_key(|job| job.logical);
        missing.dedup_by_key(|job| job.logical);
        let missing = missing.into_iter();
        missing
            .map(|job| {
                let finding = Finding::of_table(job, FindingKind::NoTable, 0);
                let table = self.keyspace.tables[job.logical].name.clone();
                Finding { table, ..finding }
            })
            .collect()
    }

    fn of(snapshot: &Snapshot, keyspace: &str, options: &VerifyOptions) -> Result<Self, Error> {
        let entry = &snapshot.keyspaces()[snapshot.find_keyspace(keyspace)?];
        let refuse = |message: String| -> Error {
            crate::error::ConfigErrors::one("keyspaces", entry.name.as_str(), message).into()
        };
        let key = entry.rule.key_type();
        if let KeyType::Composite(_) = key {
            return Err(refuse(format!(
                "its keys are composite, {key}, and a declared table has one `key_column`, which does not hold the whole key: it cannot be verified; write the key columns of one shard's rows into a CSV file, and `diesel-sharded skew {} --keys FILE --column A --column B` says on which shards they belong",
                entry.name
            )));
        }
        entry.can_place()?;
        let wanted: Vec<usize> = (0..entry.tables.len())
            .filter(|at| match &options.table {
                None => true,
                Some(name) => entry.tables[*at].name == *name,
            })
            .collect();
        if wanted.is_empty() {
            let known: Vec<&str> = entry.tables.iter().map(|t| t.name.as_str()).collect();
            return Err(refuse(match &options.table {
                Some(name) => format!(
                    "there is no table {name:?} (tables: {})",
                    if known.is_empty() {
                        "none".to_owned()
                    } else {
                        known.join(", ")
                    }
                ),
                None => {
                    "it declares no tables: say in `tables` which there are, and their key columns"
                        .to_owned()
                }
            }));
        }
        let state = options
            .resume
            .as_ref()
            .filter(|state| state.fingerprint == entry.fingerprint.to_string());
        let position = |shard: ShardName, table: &str| {
            state.and_then(|state| state.positions.get(shard.as_str())?.get(table).cloned())
        };
        let targets = entry.all_targets();
        let mut outside: BTreeMap<ShardName, Vec<Outside>> = BTreeMap::new();
        let jobs = entry
            .rule
            .shards()
            .iter()
            .enumerate()
            .map(|(listed, shard)| {
                let owned = targets.iter().find(|target| target.shard == *shard);
                let mut jobs = Vec::new();
                for logical in &wanted {
                    let table = &entry.tables[*logical];
                    // A row may be in any table of any shard, whoever was to have it.
                    let parts = table.every_part(&entry.rule, listed);
                    if table.by_rule
                        && let Some((_, first)) = parts.first()
                    {
                        let planned: BTreeSet<String> =
                            parts.iter().map(|(_, part)| part.clone()).collect();
                        let around = table.around_part();
                        let digits = planned
                            .iter()
                            .filter_map(|part| {
                                let name = part.rsplit('.').next().unwrap_or(part);
                                name.len().checked_sub(around.0.len() + around.1.len())
                            })
                            .collect();
                        outside.entry(*shard).or_default().push(Outside {
                            like: TableJob {
                                shard: *shard,
                                logical: *logical,
                                number: None,
                                physical: first.clone(),
                                key_column: table.key_column.clone(),
                                expected: false,
                                after: None,
                            },
                            around,
                            digits,
                            planned,
                        });
                    }
                    for (number, physical) in parts {
                        let after = position(*shard, &physical);
                        if after == Some(None) {
                            continue;
                        }
                        let expected = !table.by_rule
                            && owned.is_some_and(|target| target.tables.contains(&physical));
                        jobs.push(TableJob {
                            shard: *shard,
                            logical: *logical,
                            number,
                            physical,
                            key_column: table.key_column.clone(),
                            expected,
                            after: after.flatten(),
                        });
                    }
                }
                jobs
            })
            .collect();
        Ok(Self {
            keyspace: entry.clone(),
            key,
            jobs,
            outside,
        })
    }
}
