//! One dedicated connection of one shard: for its lock, its bookkeeping and its migrations.

mod books;
mod lock;
mod names;
mod progress;
mod schema;
mod settings;
mod tables;

use std::ops::{Deref, DerefMut};

use diesel::QueryResult;
use diesel::connection::{Connection, SimpleConnection, TransactionManager};
use diesel::result::Error as DieselError;

pub(super) use books::Books;
pub(super) use lock::{Held, Lock, myself};
pub(super) use progress::{Attempt, Progress, now};

use super::AnyConnection;
use super::report::{Failure, FailureKind};
use crate::blocking::{NodeConnection, TransactionProbe, connect_once, wal};
use crate::error::UnavailableCause;
use crate::replica::statement_failure;
use crate::topology::{NodeSpec, UrlKind};

type Manager = <AnyConnection as Connection>::TransactionManager;

/// A connection outside of every pool. What it holds, the shard's lock among it, goes with it.
pub(super) struct Session {
    conn: AnyConnection,
    kind: UrlKind,
}

impl Session {
    /// Connects to a primary within its `connect_timeout`.
    pub(super) fn open(spec: &NodeSpec, kind: UrlKind) -> Result<Self, Failure> {
        match connect_once::<AnyConnection>(spec, kind) {
            Ok(mut conn) => {
                // What SQLite lacks for a database in WAL mode shows itself only when it is read.
                if let Some(file) = wal::file(spec)
                    && let Err(error) = conn.batch_execute("SELECT count(*) FROM sqlite_master")
                {
                    let hint = format!("the database cannot be read: {}", wal::hint(&file));
                    return Err(
                        Failure::new(FailureKind::Unreachable, hint).said(error.to_string())
                    );
                }
                Ok(Self { conn, kind })
            }
            Err((cause, text)) => Err(Failure::new(
                FailureKind::Unreachable,
                format!("the database is unavailable: {cause}"),
            )
            .said(text)),
        }
    }

    /// Refuses a session that reads texts otherwise than they were read when they were made for each part
    /// of a table.
    pub(super) fn read_as_we_do(&mut self) -> Result<(), Failure> {
        let unfit = self.conn.unfit_settings().map_err(|error| {
            let what = "the settings of the session could not be read";
            Failure::new(self.kind_of(&error), what).said(error.to_string())
        })?;
        match unfit {
            None => Ok(()),
            Some(problem) => Err(Failure::new(
                FailureKind::Unreachable,
                format!(
                    "the database is unavailable: {}",
                    UnavailableCause::Settings
                ),
            )
            .said(problem)),
        }
    }

    pub(super) fn kind(&self) -> UrlKind {
        self.kind
    }

    /// Begins a transaction. SQLite takes its write lock at once: a transaction that only finds out
    /// at its first write that somebody else writes cannot wait for it.
    pub(super) fn begin(&mut self) -> QueryResult<()> {
        let sql = match self.kind {
            UrlKind::Sqlite => "BEGIN IMMEDIATE",
            UrlKind::Postgres | UrlKind::Mysql => "BEGIN",
        };
        self.conn.begin_with(sql)
    }

    pub(super) fn commit(&mut self) -> QueryResult<()> {
        Manager::commit_transaction(&mut self.conn)
    }

    /// Rolls back what is open. What the database has rolled back by itself is no error.
    pub(super) fn rollback(&mut self) {
        if self.probe() == TransactionProbe::Idle {
            return;
        }
        if Manager::rollback_transaction(&mut self.conn).is_err() {
            // What was begun by hand, Diesel does not know.
            let _ = self.conn.batch_execute("ROLLBACK");
        }
    }

    /// Rolls back what is open, also where it was begun by hand.
    pub(super) fn rollback_by_hand(&mut self) {
        self.rollback();
        if self.probe() != TransactionProbe::Idle {
            let _ = self.conn.batch_execute("ROLLBACK");
        }
    }

    pub(super) fn probe(&mut self) -> TransactionProbe {
        self.conn.probe()
    }

    /// Runs a closure in a transaction of its own.
    pub(super) fn transact<T>(
        &mut self,
        work: impl FnOnce(&mut Self) -> QueryResult<T>,
    ) -> QueryResult<T> {
        self.begin()?;
        match work(self).and_then(|value| self.commit().map(|()| value)) {
            Ok(value) => Ok(value),
            Err(error) => {
                self.rollback();
                Err(error)
            }
        }
    }

    /// What an error of this backend means.
    pub(super) fn kind_of(&self, error: &DieselError) -> FailureKind {
        let failure = statement_failure(self.kind == UrlKind::Mysql, error);
        let text = error.to_string().to_ascii_lowercase();
        let says = |words: &[&str]| words.iter().any(|words| text.contains(words));
        if failure.connection_lost {
            FailureKind::ConnectionLost
        } else if says(&[
            "due to lock timeout",
            "lock wait timeout exceeded",
            "database is locked",
            "database table is locked",
        ]) {
            FailureKind::LockTimeout
        } else if says(&[
            "due to statement timeout",
            "max_statement_time exceeded",
            "maximum statement execution time exceeded",
        ]) {
            FailureKind::StatementTimeout
        } else {
            FailureKind::Statement
        }
    }

    /// Whether the same may succeed when it is tried again: a lock, a deadlock, a conflict.
    pub(super) fn is_conflict(&self, error: &DieselError) -> bool {
        self.kind_of(error) == FailureKind::LockTimeout
            || statement_failure(self.kind == UrlKind::Mysql, error).retryable
    }
}

impl Deref for Session {
    type Target = AnyConnection;

    fn deref(&self) -> &AnyConnection {
        &self.conn
    }
}

impl DerefMut for Session {
    fn deref_mut(&mut self) -> &mut AnyConnection {
        &mut self.conn
    }
}

/// A failure to read or write what the crate itself keeps in a database.
pub(super) fn bookkeeping(what: &str, error: &DieselError) -> Failure {
    let text = error.to_string();
    let kind = if statement_failure(false, error).connection_lost {
        FailureKind::ConnectionLost
    } else if text.contains("file is not a database") {
        FailureKind::Unreachable
    } else {
        FailureKind::Bookkeeping
    };
    Failure::new(kind, format!("{what} failed")).said(text)
}
