//! Which shard has which versions.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::Serialize;

use super::alike::TableDifference;
use super::assess::row;
use super::check::{check_identity, each, look, lookers};
use super::event::{Direction, Holder};
use super::migrator::{Migrator, Target};
use super::options::Options;
use super::report::Failure;
use super::schema::{anatomy, differing};
use super::session::Held;
use crate::error::Error;
use crate::name::ShardName;

/// A matrix of databases and versions.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Status {
    /// Every migration that any source or any database knows, oldest first. Sources of different shards
    /// may give one version to different migrations: each has an entry.
    pub versions: Vec<VersionName>,
    /// One row for each database, sorted by the name of its first shard.
    pub shards: Vec<ShardStatus>,
}

impl Status {
    /// Whether every database could be read and has exactly what its sources say.
    #[must_use]
    pub fn is_up_to_date(&self) -> bool {
        self.shards.iter().all(ShardStatus::is_up_to_date)
    }
}

/// One column of the matrix.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[non_exhaustive]
pub struct VersionName {
    /// The version, without dashes.
    pub version: Arc<str>,
    /// The name of its folder, where a source has it; else what a database remembers, or nothing.
    pub name: Option<Arc<str>>,
}

/// One row of the matrix.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct ShardStatus {
    /// The shard; where several share the database, the first by name.
    pub shard: ShardName,
    /// The other shards on the same database.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<ShardName>,
    /// The versions that concern this database, oldest first.
    pub versions: Vec<VersionStatus>,
    /// Migrations that stopped half-way.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dirty: Vec<Dirty>,
    /// Migrations that have begun and not ended, where it is not known whether their runner is still at
    /// work.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub in_doubt: Vec<Dirty>,
    /// Whoever migrates this database at the moment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub locked_by: Option<Holder>,
    /// Physical tables of sharded tables that are not there, or do not look as most parts of the same table
    /// do. Looked for where every version is applied.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tables: Vec<TableDifference>,
    /// Why the database could not be read, or whose it is instead.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<Failure>,
}

impl ShardStatus {
    /// The state of a version; `None` where it does not concern this database.
    #[must_use]
    pub fn state(&self, version: &str) -> Option<VersionState> {
        self.versions
            .binary_search_by(|entry| (*entry.version).cmp(version))
            .ok()
            .map(|at| self.versions[at].state)
    }

    /// Whether the database could be read and has exactly what its sources say.
    #[must_use]
    pub fn is_up_to_date(&self) -> bool {
        self.failures.is_empty()
            && self.dirty.is_empty()
            && self.in_doubt.is_empty()
            && self.tables.is_empty()
            && self
                .versions
                .iter()
                .all(|entry| entry.state == VersionState::Applied)
    }

    /// Whether something is wrong that `run` would not put right by itself: unknown, edited,
    /// diverged or dirty versions, physical tables that differ.
    #[must_use]
    pub fn has_diverged(&self) -> bool {
        !self.dirty.is_empty()
            || !self.tables.is_empty()
            || self.versions.iter().any(|entry| {
                !matches!(
                    entry.state,
                    VersionState::Applied
                        | VersionState::Pending
                        | VersionState::Running
                        | VersionState::InDoubt
                )
            })
    }

    /// Whether another runner is at work on a database that is not up to date. What it does in a
    /// transaction cannot be seen from outside; that it holds the lock can. Nothing is wrong until that
    /// runner has ended.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.locked_by.is_some() && !self.is_up_to_date()
    }

    /// Whether a version has begun and not ended, and it is not known whether its runner is still at
    /// work: somebody has to look before it can be said whether something is wrong.
    #[must_use]
    pub fn is_in_doubt(&self) -> bool {
        !self.in_doubt.is_empty()
    }
}

/// One cell of the matrix.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct VersionStatus {
    /// The version.
    pub version: Arc<str>,
    /// The name of its folder: the entry of [`Status::versions`] that this is.
    pub name: Option<Arc<str>>,
    /// Its state.
    pub state: VersionState,
}

/// The state of one version on one database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum VersionState {
    /// It is applied.
    Applied,
    /// It is not applied, and nothing newer is.
    Pending,
    /// It is not applied although something newer is: the shard has diverged.
    Diverged,
    /// It is applied, and no source knows it.
    Unknown,
    /// It was applied with another text than it has now.
    Edited,
    /// It stopped half-way.
    Dirty,
    /// Another runner is in the middle of it.
    Running,
    /// It has begun and not ended, and whether its runner is still at work is not known: the runner took
    /// no lock, or this user may not see who has it.
    InDoubt,
}

impl VersionState {
    /// The state as a word, as in JSON.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Applied => "applied",
            Self::Pending => "pending",
            Self::Diverged => "diverged",
            Self::Unknown => "unknown",
            Self::Edited => "edited",
            Self::Dirty => "dirty",
            Self::Running => "running",
            Self::InDoubt => "in_doubt",
        }
    }
}

/// A migration that stopped half-way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Dirty {
    /// Its version.
    pub version: Arc<str>,
    /// Up or down.
    pub direction: Direction,
    /// How many of its statements have certainly run, and stayed.
    pub done: usize,
    /// How many statements it had; 0 where it is code.
    pub of: usize,
    /// What the database said. `None` where the runner was killed or lost its connection: then the
    /// statement after the last one that is done may have run or not.
    pub error: Option<String>,
    /// The numbers of statements that were not sent, since a repair resumed behind them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub skipped: Vec<usize>,
    /// The numbers of statements behind the one that stopped it which had run in an earlier attempt.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ran_before: Vec<usize>,
    /// The number of the statement that failed, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<usize>,
    /// The number of the statement that begins a transaction of the migration's own which was not
    /// committed: what ran from there on has not stayed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rolled_back_from: Option<usize>,
    /// The number of the statement from which it may go on. `None` where it may not.
    pub resume_from: Option<usize>,
    /// Why it may not go on from a statement.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_resumable: Option<String>,
    /// Why it is not known whether its runner is still at work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub doubt: Option<String>,
}

impl Migrator {
    /// Which shard has which versions. Reads only, and waits for no lock.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownShard`] for a name in the options, [`Error::Config`] for a database whose backend
    /// was not compiled in.
    pub fn status(&self, options: &Options) -> Result<Status, Error> {
        let targets = self.chosen(options)?;
        let mut shards = each(&targets, lookers(options), |target| {
            let mut status = ShardStatus {
                shard: target.shard(),
                also: target.also().to_vec(),
                versions: Vec::new(),
                dirty: Vec::new(),
                in_doubt: Vec::new(),
                locked_by: None,
                tables: Vec::new(),
                failures: Vec::new(),
            };
            match look(target, true) {
                Ok(look) => {
                    if let Err(failure) = check_identity(&self.inner, target, &look.books.identity)
                    {
                        status.failures.push(failure);
                    }
                    let running = matches!(look.held, Held::By(_));
                    status.versions = row(&target.set, &look.books, running);
                    let set = look.set.as_deref().unwrap_or(&target.set);
                    for progress in &look.books.progress {
                        let entry = Dirty::of(target, set.get(&progress.version), progress);
                        if entry.doubt.is_some() {
                            status.in_doubt.push(entry);
                        } else if !running {
                            status.dirty.push(entry);
                        }
                    }
                    status.locked_by = look.held.holder();
                }
                Err(failure) => status.failures.push(failure),
            }
            status
        });
        compare_tables(&targets, &mut shards, options);
        let versions = names(&targets, &mut shards);
        Ok(Status { versions, shards })
    }
}

/// All migrations. A version that no source of its database has, and of which the database remembers no
/// name, is taken for the migration that others have under this version.
fn names(targets: &[&Target], shards: &mut [ShardStatus]) -> Vec<VersionName> {
    let mut names: BTreeSet<VersionName> = BTreeSet::new();
    for target in targets {
        for migration in &target.set.migrations {
            names.insert(VersionName {
                version: Arc::clone(&migration.version),
                name: Some(Arc::clone(&migration.name)),
            });
        }
    }
    let rows = |shards: &[ShardStatus], named: bool| -> Vec<VersionName> {
        let entries = shards.iter().flat_map(|shard| &shard.versions);
        let entries = entries.filter(|entry| entry.name.is_some() == named);
        entries
            .map(|entry| VersionName {
                version: Arc::clone(&entry.version),
                name: entry.name.clone(),
            })
            .collect()
    };
    names.extend(rows(shards, true));
    for nameless in rows(shards, false) {
        if !names.iter().any(|known| known.version == nameless.version) {
            names.insert(nameless);
        }
    }
    for entry in shards.iter_mut().flat_map(|shard| &mut shard.versions) {
        if entry.name.is_none()
            && let Some(known) = names.iter().find(|known| known.version == entry.version)
        {
            entry.name.clone_from(&known.name);
        }
    }
    names.into_iter().collect()
}

/// Looks at the physical tables of the databases that have all of their migrations.
fn compare_tables(targets: &[&Target], shards: &mut [ShardStatus], options: &Options) {
    let (places, complete): (Vec<usize>, Vec<&Target>) = targets
        .iter()
        .enumerate()
        .filter(|(at, target)| {
            target.tables.is_some()
                && shards[*at].locked_by.is_none()
                && shards[*at].is_up_to_date()
        })
        .map(|(at, target)| (at, *target))
        .unzip();
    let read = each(&complete, lookers(options), |target| anatomy(target));
    for (at, tables) in differing(&complete, &read) {
        shards[places[at]].tables = tables;
    }
    for (at, read) in places.into_iter().zip(read) {
        shards[at].failures.extend(read.err());
    }
}
