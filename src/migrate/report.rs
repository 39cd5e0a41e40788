//! What happened, shard by shard.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde::{Serialize, Serializer};

use super::event::Direction;
use super::status::VersionState;
use crate::name::ShardName;

pub(super) fn seconds<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    // Whole microseconds: a float of a duration has digits that nobody measured.
    serializer.serialize_f64(time.as_micros() as f64 / 1e6)
}

pub(super) fn timestamp<S: Serializer>(
    time: &Option<SystemTime>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match time {
        Some(time) => serializer.collect_str(&humantime::format_rfc3339_seconds(*time)),
        None => serializer.serialize_none(),
    }
}

/// What one call did to a fleet.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
#[must_use = "the report is the only place where failures are told"]
pub struct Report {
    /// One entry for each database, sorted by the name of its first shard.
    pub shards: Vec<ShardReport>,
    /// The whole time.
    #[serde(serialize_with = "seconds")]
    pub seconds: Duration,
}

impl Report {
    /// Whether every shard that was asked for is where it was to be.
    #[must_use]
    pub fn is_success(&self) -> bool {
        self.shards.iter().all(|shard| shard.outcome.is_success())
    }

    /// The entry of a shard, found by any of the shards on its database.
    #[must_use]
    pub fn shard(&self, name: &str) -> Option<&ShardReport> {
        self.shards
            .iter()
            .find(|report| report.shard == name || report.also.iter().any(|other| *other == name))
    }

    /// The report if all is well, else an error that holds it.
    ///
    /// # Errors
    ///
    /// [`MigrationFailed`], when any shard failed, was skipped or was not tried.
    pub fn into_result(self) -> Result<Self, MigrationFailed> {
        if self.is_success() {
            Ok(self)
        } else {
            Err(MigrationFailed {
                report: Box::new(self),
            })
        }
    }
}

/// A report of which not every shard is a success, as an error.
#[derive(Clone, Debug)]
pub struct MigrationFailed {
    report: Box<Report>,
}

impl MigrationFailed {
    /// What happened, shards that succeeded included.
    pub fn report(&self) -> &Report {
        &self.report
    }
}

impl fmt::Display for MigrationFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = self.report.shards.len();
        let well = self
            .report
            .shards
            .iter()
            .filter(|shard| shard.outcome.is_success())
            .count();
        write!(f, "{well} of {all} databases are migrated")?;
        for shard in &self.report.shards {
            for failure in &shard.failures {
                write!(f, "; shard {}: {failure}", shard.shard)?;
            }
        }
        Ok(())
    }
}

impl std::error::Error for MigrationFailed {}

/// What happened to one database.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct ShardReport {
    /// The shard; where several share the database, the first by name.
    pub shard: ShardName,
    /// The other shards on the same database (`shared_database`).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<ShardName>,
    /// How it ended.
    pub outcome: Outcome,
    /// What ran to its end, in this order.
    pub ran: Vec<Ran>,
    /// Physical tables that were made or taken away, in this order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tables: Vec<String>,
    /// What a repair has recorded without running anything.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub marked: Option<Marked>,
    /// Why it failed or was skipped.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<Failure>,
    /// What is worth knowing and stopped nothing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// The time spent on this database, waiting included.
    #[serde(serialize_with = "seconds")]
    pub seconds: Duration,
}

impl ShardReport {
    pub(super) fn new(shard: ShardName, also: &[ShardName], outcome: Outcome) -> Self {
        Self {
            shard,
            also: also.to_vec(),
            outcome,
            ran: Vec::new(),
            tables: Vec::new(),
            marked: None,
            failures: Vec::new(),
            warnings: Vec::new(),
            seconds: Duration::ZERO,
        }
    }

    pub(super) fn changed_nothing(&self) -> bool {
        let marked = self.marked.as_ref().is_some_and(Marked::is_change);
        self.ran.is_empty() && self.tables.is_empty() && !marked
    }
}

/// How the work on one database ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Outcome {
    /// Everything that was to run has run.
    Done,
    /// There was nothing to do.
    UpToDate,
    /// Something failed; `ran` says what was done before.
    Failed,
    /// It could not be reached, and was left out as asked.
    Skipped,
    /// It was not started, because of failures elsewhere.
    NotTried,
}

impl Outcome {
    /// Whether the database is where it was to be.
    #[must_use]
    pub fn is_success(self) -> bool {
        matches!(self, Self::Done | Self::UpToDate)
    }

    /// The outcome as a word, as in JSON.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::UpToDate => "up_to_date",
            Self::Failed => "failed",
            Self::Skipped => "skipped",
            Self::NotTried => "not_tried",
        }
    }
}

/// One migration that ran to its end.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Ran {
    /// Its version.
    pub version: Arc<str>,
    /// The name of its folder.
    pub name: Arc<str>,
    /// Up or down.
    pub direction: Direction,
    /// The numbers of its statements that were not sent, since a repair resumed behind them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub skipped: Vec<usize>,
    /// How long it took.
    #[serde(serialize_with = "seconds")]
    pub seconds: Duration,
}

/// What a repair has recorded of a version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Marked {
    /// The version.
    pub version: Arc<str>,
    /// Whether it is recorded as applied now; else it is not.
    pub applied: bool,
    /// What it was before.
    pub was: VersionState,
}

impl Marked {
    /// Whether the record says something else than before.
    #[must_use]
    pub fn is_change(&self) -> bool {
        match self.was {
            VersionState::Applied => !self.applied,
            VersionState::Pending | VersionState::Diverged => self.applied,
            _ => true,
        }
    }
}

/// Why something did not happen.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Failure {
    /// What an operator would treat alike.
    pub kind: FailureKind,
    /// What is wrong, and what to do about it.
    pub message: String,
    /// The migration, where it is about one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<Arc<str>>,
    /// The statement that failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub statement: Option<FailedStatement>,
    /// What the database, or the migration's own code, said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub database: Option<String>,
}

impl Failure {
    pub(super) fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            version: None,
            statement: None,
            database: None,
        }
    }

    pub(super) fn of_version(mut self, version: &Arc<str>) -> Self {
        self.version = Some(Arc::clone(version));
        self
    }

    pub(super) fn said(mut self, text: impl Into<String>) -> Self {
        self.database = Some(text.into());
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(version) = &self.version {
            write!(f, "migration {version}: ")?;
        }
        f.write_str(&self.message)?;
        match &self.database {
            Some(text) => write!(f, ": {text}"),
            None => Ok(()),
        }
    }
}

/// The statement at which a migration stopped.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct FailedStatement {
    /// Its number within the migration, from 1.
    pub number: usize,
    /// How many statements the migration has.
    pub of: usize,
    /// Its text, shortened to a kilobyte.
    pub sql: String,
}

/// What kind of failure it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FailureKind {
    /// The database cannot be reached, or refuses to let us in.
    Unreachable,
    /// The shard is offline or read-only by configuration.
    Closed,
    /// The database says that it belongs to another shard.
    WrongDatabase,
    /// The data of a keyspace was placed by another rule.
    PlacementChanged,
    /// Another runner held the shard's lock for the whole patience.
    Locked,
    /// The lock was lost while migrating.
    LockLost,
    /// An earlier migration stopped half-way: `repair` it.
    Dirty,
    /// A migration has begun and not ended, and whether its runner is still at work is not known.
    InDoubt,
    /// A migration was applied with another text than it has now.
    Edited,
    /// The database has a version that no source knows.
    Unknown,
    /// A migration is missing although a newer one is applied.
    OutOfOrder,
    /// The shards would not all revert the same versions.
    ShardsDiffer,
    /// A migration has no way back.
    NotRevertible,
    /// A statement, or the code of a migration, failed.
    Statement,
    /// A statement waited too long for a lock of the database.
    LockTimeout,
    /// A statement ran longer than it may.
    StatementTimeout,
    /// The transaction of a migration was rolled back although no statement said so.
    RolledBack,
    /// The connection was lost.
    ConnectionLost,
    /// What this crate keeps in the database could not be read or written.
    Bookkeeping,
}

impl FailureKind {
    /// The kind as a word, as in JSON.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unreachable => "unreachable",
            Self::Closed => "closed",
            Self::WrongDatabase => "wrong_database",
            Self::PlacementChanged => "placement_changed",
            Self::Locked => "locked",
            Self::LockLost => "lock_lost",
            Self::Dirty => "dirty",
            Self::InDoubt => "in_doubt",
            Self::Edited => "edited",
            Self::Unknown => "unknown",
            Self::OutOfOrder => "out_of_order",
            Self::ShardsDiffer => "shards_differ",
            Self::NotRevertible => "not_revertible",
            Self::Statement => "statement",
            Self::LockTimeout => "lock_timeout",
            Self::StatementTimeout => "statement_timeout",
            Self::RolledBack => "rolled_back",
            Self::ConnectionLost => "connection_lost",
            Self::Bookkeeping => "bookkeeping",
        }
    }
}
