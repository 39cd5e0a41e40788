//! A migration that cannot run in a transaction: sent statement by statement, with a record of how far
//! it has come.

use std::sync::Arc;

use diesel::connection::SimpleConnection;

use super::dirty::have;
use super::event::Direction;
use super::report::{Failure, FailureKind};
use super::session::{Attempt, Progress, Session, bookkeeping, myself, now};
use super::source::{Migration, checksums};
use super::split::{Effect, Statement, after};
use super::status::Dirty;
use super::work::Job;
use crate::blocking::TransactionProbe;
use crate::topology::UrlKind;

/// Where a migration stopped.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Halt {
    /// The place of the statement that did not succeed.
    pub(super) at: Option<usize>,
    /// The place of the statement that began the transaction that was open then.
    pub(super) open: Option<usize>,
    /// It changed nothing by itself.
    pub(super) is_clean: bool,
}

/// Why an attempt does not go on.
enum Stop {
    Failed(Failure),
    /// The statement has run, and that could not be recorded.
    Unrecorded(Failure),
    /// Its record is not there any more.
    Gone,
}

impl Job<'_> {
    /// Sends statement by statement what cannot run in a transaction, from the one after `done`, and
    /// records after each one how far it has come.
    ///
    /// When this ends early, by whatever cause, the record says which statements have certainly run and
    /// stayed: it is made before the first one is sent, and raised only after each has succeeded. In a
    /// transaction that the migration begins by itself it is raised inside of that, so that it is
    /// committed or rolled back with what it tells of; before the `COMMIT` itself it is raised past it.
    /// Only where nothing has run is it taken back.
    ///
    /// `earlier`: what is known of earlier attempts, where it goes on after one.
    pub(super) fn step_by_step(
        &self,
        session: &mut Session,
        migration: &Migration,
        direction: Direction,
        statements: &[Statement],
        done: usize,
        earlier: Option<Attempt>,
    ) -> Result<(), Failure> {
        let is_first = earlier.is_none();
        let mut progress = self.progress(migration, direction, done, statements.len());
        progress.checksums = checksums(statements, session.kind());
        progress.attempt = Attempt {
            unlocked: progress.attempt.unlocked,
            ..earlier.unwrap_or_default()
        };
        self.begin(session, &progress)?;
        let mut open = None;
        for (at, statement) in statements.iter().enumerate().skip(done) {
            if let Err(stop) = self.step(session, &mut progress, statements, at, &mut open) {
                let halt = Halt {
                    at: Some(at),
                    open,
                    is_clean: is_first && !statement.may_fail_half_way(session.kind()),
                };
                return Err(self.stop(session, migration, progress, stop, halt));
            }
            self.done(migration, at + 1, statements.len());
        }
        if open.is_some() || !session.is_idle() {
            let failure = Failure::new(
                FailureKind::RolledBack,
                "it has begun a transaction by hand and not ended it, which was rolled back",
            );
            let halt = Halt {
                open,
                ..Halt::default()
            };
            return Err(self.stop(session, migration, progress, Stop::Failed(failure), halt));
        }
        self.end(session, migration, progress)
    }

    /// Sends one statement. `open`: the place of the one that began the transaction that is open.
    fn step(
        &self,
        session: &mut Session,
        progress: &mut Progress,
        statements: &[Statement],
        at: usize,
        open: &mut Option<usize>,
    ) -> Result<(), Stop> {
        let (statement, kind) = (&statements[at], session.kind());
        let effect = statement.effect(kind);
        if open.is_some() && effect == Effect::Commits {
            self.raise(session, progress, at + 1)?;
        }
        let mut retry = 0;
        loop {
            match session.batch_execute(&statement.text) {
                Ok(()) => break,
                // Of a transaction that is open, more than this statement may be gone.
                Err(error)
                    if retry < self.options.retries
                        && open.is_none()
                        && session.is_conflict(&error)
                        && !statement.may_fail_half_way(kind)
                        && session.is_idle() =>
                {
                    retry += 1;
                    let failure = self.failed_at(session, statements, at, &error).failure;
                    self.pause(
                        retry,
                        &failure.of_version(&progress.version.as_str().into()),
                    );
                }
                Err(error) => {
                    let failed = self.failed_at(session, statements, at, &error);
                    return Err(Stop::Failed(failed.failure));
                }
            }
        }
        *open = after(*open, at, effect, kind);
        match session.probe() {
            TransactionProbe::Idle => *open = None,
            // A savepoint of SQLite begins one, too.
            TransactionProbe::Open if open.is_none() => *open = Some(at),
            _ => {}
        }
        self.raise(session, progress, at + 1)
            .map_err(|stop| match stop {
                Stop::Failed(mut failure) => {
                    failure.message =
                        format!("statement {} has run, and {}", at + 1, failure.message);
                    Stop::Unrecorded(failure)
                }
                stop => stop,
            })?;
        if open.is_none() {
            progress.done = at + 1;
        }
        Ok(())
    }

    /// Records how far it has come.
    fn raise(&self, session: &mut Session, progress: &Progress, done: usize) -> Result<(), Stop> {
        match session.advance(progress, done) {
            Ok(true) => Ok(()),
            Ok(false) => Err(Stop::Gone),
            Err(error) => Err(Stop::Failed(bookkeeping(
                "recording how far it has come",
                &error,
            ))),
        }
    }

    /// The record of a migration that begins.
    pub(super) fn progress(
        &self,
        migration: &Migration,
        direction: Direction,
        done: usize,
        total: usize,
    ) -> Progress {
        Progress {
            version: migration.version.to_string(),
            name: migration.name.to_string(),
            direction,
            done,
            total,
            error: None,
            started_at: now(),
            checksums: Vec::new(),
            attempt: Attempt {
                unlocked: (!self.options.lock).then(myself),
                ..Attempt::default()
            },
            doubt: None,
        }
    }

    /// Makes that record.
    pub(super) fn begin(&self, session: &mut Session, progress: &Progress) -> Result<(), Failure> {
        session.begin_progress(progress).map_err(|error| {
            bookkeeping("recording that it begins", &error)
                .of_version(&progress.version.as_str().into())
        })
    }

    /// Records that a migration has come to its end.
    pub(super) fn end(
        &self,
        session: &mut Session,
        migration: &Migration,
        progress: Progress,
    ) -> Result<(), Failure> {
        let stop = match session.finish(&progress, migration) {
            Ok(true) => return Ok(()),
            Ok(false) => Stop::Gone,
            Err(error) => Stop::Failed(bookkeeping("recording it", &error)),
        };
        Err(self.stop(session, migration, progress, stop, Halt::default()))
    }

    fn stop(
        &self,
        session: &mut Session,
        migration: &Migration,
        mut progress: Progress,
        stop: Stop,
        halt: Halt,
    ) -> Failure {
        match stop {
            Stop::Failed(failure) => self.left_dirty(session, migration, progress, failure, halt),
            Stop::Unrecorded(failure) => {
                let halt = Halt {
                    at: None,
                    is_clean: false,
                    ..halt
                };
                self.left_dirty(session, migration, progress, failure, halt)
            }
            Stop::Gone => {
                if halt.open.is_none() {
                    // It was sent, and only its record is missing.
                    progress.done = halt.at.map_or(progress.total, |at| at + 1);
                }
                self.lost_record(session, migration, progress)
            }
        }
    }

    /// Writes down why a migration stopped half-way, and says what to do next.
    pub(super) fn left_dirty(
        &self,
        session: &mut Session,
        migration: &Migration,
        mut progress: Progress,
        failure: Failure,
        halt: Halt,
    ) -> Failure {
        session.rollback_by_hand();
        let version = Arc::clone(&migration.version);
        let is_lost = failure.kind == FailureKind::ConnectionLost;
        if let (Some(begin), Some(at), true) = (halt.open, halt.at, is_lost)
            && let Some(script) = migration.script(progress.direction)
            && script[at].effect(session.kind()) == Effect::Commits
        {
            let mut failure = failure.of_version(&version);
            failure.message = format!(
                "the connection was lost while the transaction that statement {} begins was committed: `diesel-sharded migration status` says whether it was",
                begin + 1
            );
            return failure;
        }
        // What was in a transaction begun by hand is rolled back, and so is what was recorded in it.
        if let Ok(rows) = session.read_progress() {
            let own = |row: &&Progress| {
                row.version == progress.version && row.started_at == progress.started_at
            };
            match rows.iter().find(own) {
                Some(row) => progress.done = row.done,
                None => return self.lost_record(session, migration, progress),
            }
        }
        // A statement that fails alone and first has changed nothing: there is nothing to repair.
        let untouched = progress.done == 0 && !is_lost && halt.is_clean;
        if untouched && session.withdraw(&version).is_ok() {
            let mut failure = failure.of_version(&version);
            failure.message += ", nothing of the migration has run";
            if halt.open.is_some() {
                failure.message += " that was not rolled back";
            }
            return failure;
        }
        let said = failure
            .database
            .clone()
            .unwrap_or_else(|| failure.message.clone());
        let mut told = failure.message.clone();
        if !is_lost {
            progress.attempt.failed = halt.at.map(|at| at + 1);
            // Where the record has come further, it was committed, and so was what it tells of.
            let back = halt.open.filter(|begin| progress.done <= *begin);
            progress.attempt.begun = back.map(|begin| begin + 1);
            if let (Some(begin), None, UrlKind::Mysql) = (halt.open, back, session.kind()) {
                let stayed: Vec<usize> = (begin + 1..=progress.done).collect();
                told = format!(
                    "{told}; MySQL commits an open transaction before a change of the schema, so {} although no COMMIT came",
                    have(&stayed, "has stayed", "have stayed")
                );
            }
            progress.error = Some(said.clone());
            // If it cannot be written, the record says the same without the cause.
            let _ = session.stopped(&progress);
        }
        let next = Dirty::of(self.target, Some(migration), &progress).failure(self.target.shard());
        Failure {
            message: format!("{told}; {}", next.message),
            database: Some(said),
            ..failure.of_version(&version)
        }
    }

    /// Somebody has ended the record of this attempt while it was going on. What ran is there all the
    /// same, so it is written down again, unless somebody has begun it anew or recorded it as applied.
    fn lost_record(
        &self,
        session: &mut Session,
        migration: &Migration,
        mut progress: Progress,
    ) -> Failure {
        session.rollback_by_hand();
        let version = &migration.version;
        let what = "somebody else has ended its record while it ran (`migration repair`, or another runner where one of the two takes no lock)";
        progress.error = Some(what.to_owned());
        let failure = Failure::new(FailureKind::Bookkeeping, what).of_version(version);
        let is_free = session.read_books().is_ok_and(|books| {
            let is_applied = books.applied.contains_key(&**version);
            is_applied == (progress.direction == Direction::Down)
                && books.progress.iter().all(|row| row.version != **version)
        });
        let dirty = Dirty::of(self.target, Some(migration), &progress);
        let told = if is_free && session.begin_progress(&progress).is_ok() {
            dirty.failure(self.target.shard()).message
        } else {
            format!(
                "{} by this runner, and something else is recorded now: see to it that one runner is at work at a time, and look at the database and at `diesel-sharded migration status`",
                dirty.told()
            )
        };
        Failure {
            message: format!("{what}; {told}"),
            ..failure
        }
    }
}

impl Session {
    /// Whether no transaction is open, as far as the client library can tell.
    fn is_idle(&mut self) -> bool {
        matches!(
            self.probe(),
            TransactionProbe::Idle | TransactionProbe::Unknown
        ) || self.kind() == UrlKind::Mysql
    }
}
