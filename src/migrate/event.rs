//! What is told while it happens.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde::Serialize;

use super::report::{Failure, ShardReport};
use crate::name::ShardName;

/// Up or down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// `up.sql`: the migration is applied.
    Up,
    /// `down.sql`: the migration is reverted.
    Down,
}

impl Direction {
    /// The direction as a word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Down => "down",
        }
    }
}

/// One thing that happened in a run; as JSON, one object whose `event` names it.
///
/// Events come from the threads that work on shards, one shard's in order. An observer is called
/// while the work waits for it, so it should not take long; a panic in it is the caller's.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Event {
    /// The preflight begins: every database is reached and read, none is changed.
    Preflight {
        /// How many databases.
        databases: usize,
    },
    /// The preflight has looked at a database.
    Checked {
        /// The shard.
        shard: ShardName,
        /// How many migrations would run.
        steps: usize,
        /// What stands against it.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        failures: Vec<Failure>,
    },
    /// Another runner holds the shard's lock; told once a second at most.
    Waiting {
        /// The shard.
        shard: ShardName,
        /// Who holds the lock, and since when, as far as the database tells.
        holder: Option<Holder>,
        /// How long we have waited so far.
        #[serde(serialize_with = "super::report::seconds")]
        waited: Duration,
    },
    /// The shard's lock is ours and the work on it begins.
    ShardStarted {
        /// The shard.
        shard: ShardName,
        /// How many migrations will run.
        steps: usize,
    },
    /// A migration begins.
    MigrationStarted {
        /// The shard.
        shard: ShardName,
        /// The migration's version.
        version: Arc<str>,
        /// The name of its folder.
        name: Arc<str>,
        /// Up or down.
        direction: Direction,
        /// How many statements are sent one by one; 0 where the text is sent as a whole.
        statements: usize,
    },
    /// A statement of a migration that is sent statement by statement has run.
    StatementDone {
        /// The shard.
        shard: ShardName,
        /// The migration's version.
        version: Arc<str>,
        /// The statement's number, from 1.
        number: usize,
        /// How many there are.
        of: usize,
    },
    /// A lock, a deadlock or a conflict; the same is tried again after a pause.
    Retrying {
        /// The shard.
        shard: ShardName,
        /// The migration's version.
        version: Arc<str>,
        /// Which retry this is, from 1.
        retry: u32,
        /// How many there are at most.
        of: u32,
        /// What the database said.
        message: String,
    },
    /// A migration is done and recorded.
    MigrationFinished {
        /// The shard.
        shard: ShardName,
        /// The migration's version.
        version: Arc<str>,
        /// The name of its folder.
        name: Arc<str>,
        /// Up or down.
        direction: Direction,
        /// How long it took.
        #[serde(serialize_with = "super::report::seconds")]
        seconds: Duration,
    },
    /// A physical table was made, or taken away.
    TableDone {
        /// The shard.
        shard: ShardName,
        /// Its name, before a rename.
        table: String,
        /// What was done with it.
        action: TableAction,
    },
    /// Something worth knowing that stopped nothing.
    Warning {
        /// The shard.
        shard: ShardName,
        /// What it is.
        message: String,
    },
    /// The work on a shard is over; every database of the run has exactly one of these.
    ShardFinished(ShardReport),
    /// The run is over. (What a program does with what was migrated may follow.)
    Finished {
        /// Databases that are where they were to be.
        succeeded: usize,
        /// Databases that failed.
        failed: usize,
        /// Databases that could not be reached, and were left out as asked.
        skipped: usize,
        /// Databases that were not started, because of failures elsewhere.
        not_tried: usize,
        /// The whole time.
        #[serde(serialize_with = "super::report::seconds")]
        seconds: Duration,
    },
}

/// What was done with a physical table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum TableAction {
    /// It was made.
    Created,
    /// It has another name now.
    Renamed,
    /// It is gone, with its rows.
    Dropped,
}

impl TableAction {
    /// The action as a word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Renamed => "renamed",
            Self::Dropped => "dropped",
        }
    }
}

/// Who holds a shard's lock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Holder {
    /// The process, its host and its session, as far as they are known.
    pub who: String,
    /// The number of the session on its server; `None` on SQLite.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<i64>,
    /// Since when.
    #[serde(serialize_with = "super::report::timestamp")]
    pub since: Option<SystemTime>,
}

impl Holder {
    /// The holder in a sentence: `process 12 on host (session 34 of the server), since 2026-01-31T12:00:00Z`.
    #[must_use]
    pub fn told(&self) -> String {
        let mut text = self.who.clone();
        if let Some(session) = self.session {
            text = format!("{text} (session {session} of the server)");
        }
        if let Some(since) = self.since {
            text = format!("{text}, since {}", humantime::format_rfc3339_seconds(since));
        }
        text
    }
}

/// Is told what happens. Any `Fn(&Event)` that may be called from several threads.
pub type Observer<'a> = dyn Fn(&Event) + Sync + 'a;
