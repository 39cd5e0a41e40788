//! Migrations whose body is code.

use std::panic::{AssertUnwindSafe, catch_unwind};

use diesel::result::Error as DieselError;

use super::apply::Stopped;
use super::event::Direction;
use super::report::{Failure, FailureKind};
use super::session::{Session, bookkeeping};
use super::source::{CodeMigration, Migration};
use super::steps::Halt;
use super::work::Job;
use crate::error::BoxError;
use crate::route::stack;

impl Job<'_> {
    /// Runs code outside of a transaction.
    pub(super) fn code(
        &self,
        session: &mut Session,
        migration: &Migration,
        code: &dyn CodeMigration,
        direction: Direction,
    ) -> Result<(), Failure> {
        let progress = self.progress(migration, direction, 0, 0);
        self.begin(session, &progress)?;
        if let Err(stopped) = self.call(session, code, direction) {
            let halt = Halt::default();
            return Err(self.left_dirty(session, migration, progress, stopped.failure, halt));
        }
        self.end(session, migration, progress)
    }

    /// Runs code in a transaction on MySQL, where a statement that changes the schema commits it.
    ///
    /// Whether one has is told by a mark that is set inside the transaction: if it is there after the
    /// rollback, what ran before has stayed as well.
    pub(super) fn code_that_may_commit(
        &self,
        session: &mut Session,
        migration: &Migration,
        code: &dyn CodeMigration,
        direction: Direction,
    ) -> Result<(), Failure> {
        let version = &migration.version;
        let progress = self.progress(migration, direction, 0, 0);
        self.begin(session, &progress)?;
        let ran = self.in_transaction(session, migration, direction, |job, session| {
            let ours = |ours| {
                if ours {
                    Ok(())
                } else {
                    Err(DieselError::NotFound)
                }
            };
            session
                .advance(&progress, 1)
                .and_then(ours)
                .map_err(|error| bookkeeping("marking that it begins", &error))?;
            job.call(session, code, direction)?;
            session
                .withdraw_own(&progress)
                .and_then(ours)
                .map_err(|error| bookkeeping("recording it", &error).into())
        });
        ran.map_err(|failure| {
            let marked = session.read_progress().is_ok_and(|rows| {
                rows.iter()
                    .any(|row| row.version == **version && row.done == 0)
            });
            if marked && session.withdraw(version).is_ok() {
                return failure;
            }
            self.left_dirty(session, migration, progress, failure, Halt::default())
        })
    }

    /// Calls a migration's own code, with the thread bound to its shard.
    pub(super) fn call(
        &self,
        session: &mut Session,
        code: &dyn CodeMigration,
        direction: Direction,
    ) -> Result<(), Stopped> {
        let topology = self.inner.topology.id();
        let bound = self
            .inner
            .topology
            .with_current(|snapshot| snapshot.locate(self.target.shard().as_str()))
            .and_then(|at| match code.run_in_transaction() {
                true => stack::pin(topology, at, stack::NodeId::next()),
                false => stack::confine(topology, at),
            });
        let _bound = bound.map_err(|error| {
            Stopped::from(Failure::new(FailureKind::Statement, error.to_string()))
        })?;
        let called = catch_unwind(AssertUnwindSafe(|| match direction {
            Direction::Up => code.run(session),
            Direction::Down => code.revert(session),
        }));
        let error: BoxError = match called {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(error)) => error,
            Err(_) => "it panicked".into(),
        };
        let failed = Failure::new(FailureKind::Statement, "its code failed");
        let Some(cause) = error.downcast_ref::<DieselError>() else {
            return Err(failed.said(chain(&*error)).into());
        };
        let kind = session.kind_of(cause);
        let again = session.is_conflict(cause);
        Err(Stopped {
            failure: Failure { kind, ..failed }.said(error.to_string()),
            again,
        })
    }
}

/// An error with its causes.
fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}
