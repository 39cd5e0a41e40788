//! One migration on one database.

use std::sync::Arc;
use std::time::Duration;

use diesel::connection::SimpleConnection;
use diesel::result::Error as DieselError;

use super::event::{Direction, Event};
use super::report::{FailedStatement, Failure, FailureKind};
use super::session::Session;
use super::source::{Body, Migration, Script};
use super::split::Statement;
use super::work::Job;
use crate::blocking::TransactionProbe;
use crate::topology::UrlKind;

/// The pause before the first retry; each further one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// How much of a statement is repeated in a failure.
const LONGEST_SHOWN: usize = 1024;

/// Said of a migration without `down.sql`, which may well be meant to have none.
pub(super) const NO_WAY_BACK: &str =
    "it has no down.sql, so it cannot be reverted: write one if there is to be a way back";

/// Why a try did not succeed.
pub(super) struct Stopped {
    pub(super) failure: Failure,
    /// The same may succeed when it is tried again, and nothing of it has stayed.
    pub(super) again: bool,
}

impl From<Failure> for Stopped {
    fn from(failure: Failure) -> Self {
        Self {
            failure,
            again: false,
        }
    }
}

fn shortened(sql: &str) -> String {
    if sql.len() <= LONGEST_SHOWN {
        return sql.to_owned();
    }
    let mut end = LONGEST_SHOWN;
    while !sql.is_char_boundary(end) {
        end -= 1;
    }
    format!("{} ..", &sql[..end])
}

impl Job<'_> {
    /// Runs a migration, and records it.
    pub(super) fn apply(
        &self,
        session: &mut Session,
        migration: &Migration,
        direction: Direction,
    ) -> Result<(), Failure> {
        match (&migration.body, direction) {
            (Body::Sql { up: script, .. }, Direction::Up)
            | (
                Body::Sql {
                    down: Some(script), ..
                },
                Direction::Down,
            ) if script.refused.is_some() => {
                let reason = script.refused.as_deref().unwrap_or_default();
                Err(Failure::new(FailureKind::Statement, reason).of_version(&migration.version))
            }
            (Body::Sql { up: script, .. }, Direction::Up)
            | (
                Body::Sql {
                    down: Some(script), ..
                },
                Direction::Down,
            ) => match &script.statements {
                Some(statements) if !script.in_transaction => {
                    self.step_by_step(session, migration, direction, statements, 0, None)
                }
                _ => self.in_transaction(session, migration, direction, |job, session| {
                    job.send(session, migration, script)
                }),
            },
            (Body::Sql { down: None, .. }, Direction::Down) => {
                Err(Failure::new(FailureKind::NotRevertible, NO_WAY_BACK)
                    .of_version(&migration.version))
            }
            (Body::Code(code), _)
                if code.run_in_transaction() && session.kind() == UrlKind::Mysql =>
            {
                self.code_that_may_commit(session, migration, &**code, direction)
            }
            (Body::Code(code), _) if code.run_in_transaction() => {
                self.in_transaction(session, migration, direction, |job, session| {
                    job.call(session, &**code, direction)
                })
            }
            (Body::Code(code), _) => self.code(session, migration, &**code, direction),
        }
    }

    /// Runs the body in one transaction with its entry in the version table; tries again after a
    /// conflict, as often as was asked for.
    pub(super) fn in_transaction(
        &self,
        session: &mut Session,
        migration: &Migration,
        direction: Direction,
        body: impl Fn(&Self, &mut Session) -> Result<(), Stopped>,
    ) -> Result<(), Failure> {
        let mut retry = 0;
        loop {
            match self.attempt(session, migration, direction, &body) {
                Ok(()) => return Ok(()),
                Err(stopped) if stopped.again && retry < self.options.retries => {
                    retry += 1;
                    let failure = stopped.failure.of_version(&migration.version);
                    self.pause(retry, &failure);
                }
                Err(stopped) => return Err(stopped.failure.of_version(&migration.version)),
            }
        }
    }

    fn attempt(
        &self,
        session: &mut Session,
        migration: &Migration,
        direction: Direction,
        body: impl Fn(&Self, &mut Session) -> Result<(), Stopped>,
    ) -> Result<(), Stopped> {
        session
            .begin()
            .map_err(|error| self.refused(session, "beginning its transaction failed", &error))?;
        if let Err(stopped) = body(self, session) {
            session.rollback();
            return Err(stopped);
        }
        match session.probe() {
            TransactionProbe::Open | TransactionProbe::Unknown => {}
            TransactionProbe::Failed => {
                session.rollback();
                return Err(Failure::new(
                    FailureKind::RolledBack,
                    "a statement in it had failed, its error was swallowed, and the server does not commit what is left: nothing of it has stayed",
                )
                .into());
            }
            _ => {
                session.rollback();
                return Err(Failure::new(
                    FailureKind::RolledBack,
                    "its transaction was over before its end: something in it commits or rolls back, and what ran before may have stayed; look at the database, and say `run_in_transaction = false`",
                )
                .into());
            }
        }
        let step = |what: &'static str| move |error: DieselError| (what, error);
        let recorded = session
            .record(migration, direction)
            .map_err(step(
                "writing it into the tables that are kept failed, after all of it had run (does it change them, or `search_path`?)",
            ))
            .and_then(|()| {
                session.commit().map_err(step(
                    "all of it had run, and committing it failed (a constraint that is deferred speaks then)",
                ))
            });
        recorded.map_err(|(what, error)| {
            session.rollback();
            let what = format!("{what}, nothing of it has stayed");
            let stopped = self.refused(session, &what, &error);
            match stopped.failure.kind {
                FailureKind::ConnectionLost => Failure {
                    message: "the connection was lost while it was committed: it is recorded if it has been, so run again".to_owned(),
                    ..stopped.failure
                }
                .into(),
                _ => stopped,
            }
        })
    }

    /// Sends the text of a migration that runs in a transaction.
    fn send(
        &self,
        session: &mut Session,
        migration: &Migration,
        script: &Script,
    ) -> Result<(), Stopped> {
        let Some(statements) = &script.statements else {
            return session.batch_execute(&script.text).map_err(|error| {
                let mut stopped =
                    self.refused(session, "it failed, nothing of it has stayed", &error);
                stopped.failure.statement = Some(FailedStatement {
                    number: 1,
                    of: 1,
                    sql: shortened(&script.text),
                });
                stopped
            });
        };
        for (at, statement) in statements.iter().enumerate() {
            session.batch_execute(&statement.text).map_err(|error| {
                let mut stopped = self.failed_at(session, statements, at, &error);
                stopped.failure.message += ", nothing of the migration has stayed";
                stopped.failure.message += hint(&error);
                stopped
            })?;
            self.done(migration, at + 1, statements.len());
        }
        Ok(())
    }

    /// A statement, one of several, that failed.
    pub(super) fn failed_at(
        &self,
        session: &Session,
        statements: &[Statement],
        at: usize,
        error: &DieselError,
    ) -> Stopped {
        let of = statements.len();
        let mut stopped = self.refused(
            session,
            &format!("statement {} of {of} failed", at + 1),
            error,
        );
        stopped.failure.statement = Some(FailedStatement {
            number: at + 1,
            of,
            sql: shortened(&statements[at].text),
        });
        stopped
    }

    fn refused(&self, session: &Session, what: &str, error: &DieselError) -> Stopped {
        Stopped {
            failure: Failure::new(session.kind_of(error), what).said(error.to_string()),
            again: session.is_conflict(error),
        }
    }

    pub(super) fn done(&self, migration: &Migration, number: usize, of: usize) {
        self.tell(&Event::StatementDone {
            shard: self.target.shard(),
            version: Arc::clone(&migration.version),
            number,
            of,
        });
    }

    /// Tells that the same is tried again, and waits: each time twice as long.
    pub(super) fn pause(&self, retry: u32, failure: &Failure) {
        self.tell(&Event::Retrying {
            shard: self.target.shard(),
            version: failure.version.clone().unwrap_or_default(),
            retry,
            of: self.options.retries,
            message: failure.database.clone().unwrap_or_default(),
        });
        let doubled = 2u32.saturating_pow(retry.saturating_sub(1).min(16));
        std::thread::sleep((FIRST_PAUSE * doubled).min(LONGEST_PAUSE));
    }
}

/// What to do about an error that has nothing to do with the data.
fn hint(error: &DieselError) -> &'static str {
    let text = error.to_string();
    if text.contains("cannot run inside a transaction block")
        || text.contains("cannot be executed from")
        || text.contains("from within a transaction")
    {
        " (write `run_in_transaction = false` into its metadata.toml)"
    } else {
        ""
    }
}

impl Migration {
    /// The statements of one direction, where they are known.
    pub(super) fn script(&self, direction: Direction) -> Option<&[Statement]> {
        let script = match (&self.body, direction) {
            (Body::Sql { up, .. }, Direction::Up) => up,
            (Body::Sql { down, .. }, Direction::Down) => down.as_ref()?,
            (Body::Code(_), _) => return None,
        };
        script.statements.as_deref()
    }
}
