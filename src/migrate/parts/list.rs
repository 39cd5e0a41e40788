//! Every physical table of every shard, and whether it is there.

use serde::Serialize;

use super::super::check::{each, lookers};
use super::super::migrator::{Migrator, Target};
use super::super::options::Options;
use super::super::report::Failure;
use super::super::session::Session;
use super::{Part, Present, TableParts};
use crate::error::Error;
use crate::name::{KeyspaceName, ShardName};
use crate::rewrite::{Parts, TableSet};

/// The physical tables of the databases of a topology.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct TablesReport {
    /// One entry for each database, sorted by the name of its first shard.
    pub shards: Vec<ShardTables>,
}

impl TablesReport {
    /// Whether every database could be read and has the tables that rows may come for now.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.shards.iter().all(|shard| {
            shard.failures.is_empty()
                && shard
                    .tables
                    .iter()
                    .all(|part| part.state != PartState::Missing)
        })
    }
}

/// The physical tables of one database.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct ShardTables {
    /// The shard; where several share the database, the first by name.
    pub shard: ShardName,
    /// The other shards on the same database.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<ShardName>,
    /// Its sharded tables part by part, by logical name and then by number or time.
    pub tables: Vec<TablePart>,
    /// Why the database could not be read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<Failure>,
}

/// One physical table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct TablePart {
    /// The keyspace.
    pub keyspace: KeyspaceName,
    /// The logical table.
    pub table: String,
    /// The physical one.
    pub part: String,
    /// The first moment of its period on the calendar of the rule, where it has a period.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The first moment after its period.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// Whether it is there.
    pub state: PartState,
}

/// Whether a physical table is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum PartState {
    /// It is there.
    There,
    /// It is not there, and rows may come for it now.
    Missing,
    /// It is not there, and its period has not begun.
    Ahead,
    /// It is not there, and older than every part that is.
    Retired,
}

impl PartState {
    /// The state as a word, as in JSON.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::There => "there",
            Self::Missing => "missing",
            Self::Ahead => "ahead",
            Self::Retired => "retired",
        }
    }
}

impl Migrator {
    /// Lists the physical tables of each chosen database. Reads only.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownShard`] for a name in the options, [`Error::Config`] for a database whose backend
    /// was not compiled in.
    pub fn tables(&self, options: &Options) -> Result<TablesReport, Error> {
        let targets = self.chosen(options)?;
        let shards = each(&targets, lookers(options), |target| {
            let (tables, failures) = match parts_of(target) {
                Ok(tables) => (tables, Vec::new()),
                Err(failure) => (Vec::new(), vec![failure]),
            };
            ShardTables {
                shard: target.shard(),
                also: target.also().to_vec(),
                tables,
                failures,
            }
        });
        Ok(TablesReport { shards })
    }
}

fn parts_of(target: &Target) -> Result<Vec<TablePart>, Failure> {
    let Some(set) = &target.tables else {
        return Ok(Vec::new());
    };
    // Reading a database that is not there would make it.
    let absent = target.file.as_ref().is_some_and(|file| !file.exists());
    let mut session = match absent {
        true => None,
        false => Some(Session::open(&target.spec, target.kind)?),
    };
    let by_rule = match &mut session {
        Some(session) => target.parts(session)?,
        None => super::of(set, &target.shards),
    };
    let mut present = Present::default();
    let mut all = Vec::new();
    for (at, table) in set.tables().iter().enumerate() {
        let mut add = |part: &str, span: Option<_>, state: PartState| {
            let (from, until) = span.unzip();
            all.push(TablePart {
                keyspace: table.keyspace,
                table: table.full_name(),
                part: part.to_owned(),
                from,
                until,
                state,
            });
        };
        match &table.parts {
            Parts::Numbered(names) => {
                for name in names {
                    let is_there = match &mut session {
                        Some(session) => {
                            present.has(session, set.dialect, table.schema.as_deref(), name)?
                        }
                        None => false,
                    };
                    add(
                        name,
                        None,
                        if is_there {
                            PartState::There
                        } else {
                            PartState::Missing
                        },
                    );
                }
            }
            Parts::ByRule { .. } => {
                let Some(own) = by_rule.iter().find(|own| own.at == at) else {
                    continue;
                };
                for part in &own.parts {
                    let span = part.span.map(|(from, until)| (shown(from), shown(until)));
                    add(&part.name, span, own.state(part));
                }
            }
        }
    }
    all.sort_by(|a, b| a.table.cmp(&b.table));
    Ok(all)
}

/// A moment of a calendar; midnight goes without saying.
pub(super) fn shown(at: jiff::civil::DateTime) -> String {
    if at.time() == jiff::civil::Time::midnight() {
        at.date().to_string()
    } else {
        at.to_string()
    }
}

impl TableParts {
    pub(super) fn state(&self, part: &Part) -> PartState {
        let oldest = self.there().next().and_then(|part| part.span);
        match (part.span, oldest, self.now) {
            _ if part.is_there => PartState::There,
            (Some((from, _)), _, Some(now)) if from > now => PartState::Ahead,
            (Some((from, _)), Some((oldest, _)), _) if from < oldest => PartState::Retired,
            _ => PartState::Missing,
        }
    }
}

/// Whether a set has a table whose parts are named by dates.
pub(super) fn has_dates(set: &TableSet) -> bool {
    set.tables().iter().any(|table| match &table.parts {
        Parts::ByRule { rule, .. } => rule.names_dates(),
        Parts::Numbered(_) => false,
    })
}
