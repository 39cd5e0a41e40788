//! Diesel's transaction manager for our connection: the checks of a route, and the truth about the
//! outcome.
//!
//! It forwards to the manager of the inner connection, which keeps the depth and sends `BEGIN`,
//! `SAVEPOINT` and `COMMIT`. What it adds: a transaction that the server or somebody's hand ended
//! is noticed, and `Ok` of a commit means committed. PostgreSQL answers the `COMMIT` of a failed
//! transaction with a silent rollback, and after a deadlock MySQL has no transaction any more while
//! Diesel still counts one; plain Diesel reports success in both cases.

use std::fmt;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use diesel::QueryResult;
use diesel::connection::{TransactionManager, TransactionManagerStatus};
use diesel::result::Error as DieselError;

use super::backend::NodeConnection;
use super::connection::ShardedConnection;
use super::slot::Slot;
use crate::driver::{
    Flags, Outcome, ShardedTmState, TransactionProbe, believed_depth, forget_savepoints, next_scope,
};
use crate::error::{Error, RollbackReason};
use crate::name::ShardName;
use crate::route::stack;
use crate::telemetry;
use crate::topology::UrlKind;

/// The transaction manager of [`ShardedConnection`](super::ShardedConnection).
pub struct ShardedTm<Inner>(PhantomData<fn() -> Inner>);

impl<Inner> fmt::Debug for ShardedTm<Inner> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ShardedTm")
    }
}

impl<C> TransactionManager<ShardedConnection<C>> for ShardedTm<C::TransactionManager>
where
    C: NodeConnection,
{
    type TransactionStateData = ShardedTmState;

    fn begin_transaction(conn: &mut ShardedConnection<C>) -> QueryResult<()> {
        conn.begin(None)
    }

    fn rollback_transaction(conn: &mut ShardedConnection<C>) -> QueryResult<()> {
        conn.leave_scopes_alone()?;
        conn.roll_back()
    }

    fn commit_transaction(conn: &mut ShardedConnection<C>) -> QueryResult<()> {
        conn.leave_scopes_alone()?;
        conn.commit()
    }

    fn transaction_manager_status_mut(
        conn: &mut ShardedConnection<C>,
    ) -> &mut TransactionManagerStatus {
        match &mut conn.lease {
            Some(lease) => {
                C::TransactionManager::transaction_manager_status_mut(&mut lease.slot_mut().conn)
            }
            None => &mut conn.tm.unbound,
        }
    }

    fn transaction<F, R, E>(conn: &mut ShardedConnection<C>, callback: F) -> Result<R, E>
    where
        F: FnOnce(&mut ShardedConnection<C>) -> Result<R, E>,
        E: From<DieselError>,
    {
        conn.scope(None, |conn| callback(conn).map(Outcome::Commit))
    }
}

impl<C: NodeConnection> ShardedConnection<C> {
    /// Runs a closure in a transaction (or a savepoint), begun by `sql` where one is given.
    pub(super) fn scope<F, R, E>(&mut self, sql: Option<&str>, callback: F) -> Result<R, E>
    where
        F: FnOnce(&mut Self) -> Result<Outcome<R>, E>,
        E: From<DieselError>,
    {
        self.begin(sql)?;
        let depth = self.tm.depth;
        let outer_floor = std::mem::replace(&mut self.tm.floor, depth);
        let scope = next_scope();
        let outer_scope = std::mem::replace(&mut self.tm.scope, scope);
        let shard = self.shard();
        // A panic is caught only to roll back before it goes on: the connection may outlive it.
        let result = catch_unwind(AssertUnwindSafe(|| callback(self)));
        if self.tm.scope != scope {
            return self.exchanged(shard, result);
        }
        self.tm.floor = outer_floor;
        self.tm.scope = outer_scope;
        if self.tm.depth != depth {
            self.unwind_to(depth);
        }
        match result {
            Ok(Ok(Outcome::Commit(value))) => {
                self.commit()?;
                Ok(value)
            }
            Ok(Ok(Outcome::Rollback(value))) => {
                let lost = self.lost();
                self.roll_back()?;
                match lost {
                    // It is rolled back, which is what was wanted.
                    None | Some(RollbackReason::EndedByServer | RollbackReason::ConnectionLost) => {
                        Ok(value)
                    }
                    Some(reason) => Err(DieselError::from(self.rolled_back(reason, None)).into()),
                }
            }
            Ok(Err(error)) => {
                self.roll_back_after_failure();
                Err(error)
            }
            Err(panic) => {
                self.roll_back_after_failure();
                resume_unwind(panic)
            }
        }
    }

    /// Another connection stands where the closure was given one (`mem::swap`): neither is committed.
    #[cold]
    fn exchanged<R, E>(
        &mut self,
        shard: Option<ShardName>,
        result: std::thread::Result<Result<Outcome<R>, E>>,
    ) -> Result<R, E>
    where
        E: From<DieselError>,
    {
        // Where the other belongs, its statements and its commit are refused from now on; both are
        // closed when they go, which is what rolls them back.
        self.tm.lost.get_or_insert(RollbackReason::Unbalanced);
        self.retire();
        match result {
            Ok(Ok(_)) => Err(DieselError::from(match shard {
                Some(shard) => Error::RolledBack {
                    shard,
                    reason: RollbackReason::Unbalanced,
                    source: Some("another connection was put in its place".into()),
                },
                None => self.rolled_back(RollbackReason::Unbalanced, None),
            })
            .into()),
            Ok(Err(error)) => Err(error),
            Err(panic) => resume_unwind(panic),
        }
    }

    /// Refuses to end the level of a closure by hand: what follows in the closure would run outside
    /// of any transaction.
    fn leave_scopes_alone(&mut self) -> Result<(), Error> {
        if self.tm.depth == 0 || self.tm.depth > self.tm.floor {
            return Ok(());
        }
        self.tm.lost.get_or_insert(RollbackReason::Unbalanced);
        Err(self.rolled_back(RollbackReason::Unbalanced, None))
    }

    /// The closure has left transactions open, or closed one that is not its own.
    fn unwind_to(&mut self, depth: u32) {
        while self.tm.depth > depth {
            if self.roll_back().is_err() {
                break;
            }
        }
        self.tm.depth = depth;
        self.tm.lost.get_or_insert(RollbackReason::Unbalanced);
    }

    /// Rolls back on behalf of an error or panic of the caller's, which is what the caller gets.
    fn roll_back_after_failure(&mut self) {
        if let Err(error) = self.roll_back() {
            if let (Some(shard), false) = (
                self.shard(),
                matches!(error, DieselError::BrokenTransactionManager),
            ) {
                telemetry::rollback_failed(shard, &error);
            }
            if let Some(slot) = self.slot_mut() {
                slot.notes.flags.set(Flags::RETIRE);
            }
        }
    }

    /// Begins a transaction, or a savepoint where one is open.
    pub(super) fn begin(&mut self, sql: Option<&str>) -> QueryResult<()> {
        self.ready()?;
        if !self.owns_pin
            && let Some(shard) = self.shard()
        {
            stack::may_begin(self.topology, shard)?;
            // A transaction under another route could not do anything, whoever asked for the
            // connection.
            if let Some(at) = stack::top(self.topology)
                && at.shard != shard
            {
                return Err(Error::RouteMismatch {
                    bound: shard,
                    routed: at.shard,
                }
                .into());
            }
        }
        let (outer, tm) = (self.open_depth(), &mut self.tm);
        let Some(lease) = &mut self.lease else {
            unreachable!("a ready connection is bound");
        };
        let slot = lease.slot_mut();
        if tm.depth == 0 {
            tm.base = believed_depth(status(slot));
            slot.notes.flags.clear(
                Flags::ENDED_BY_HAND
                    | Flags::ENDED_BY_SERVER
                    | Flags::RETRYABLE
                    | Flags::FAILED_IN_SCOPE,
            );
        }
        let begun = match sql {
            Some(sql) if outer == 0 && tm.base == 0 => slot.conn.begin_with(sql),
            Some(_) if outer > 0 => Err(DieselError::AlreadyInTransaction),
            // Inside a test transaction the savepoint has to do.
            _ => C::TransactionManager::begin_transaction(&mut slot.conn),
        };
        match begun {
            Ok(()) => {
                tm.depth += 1;
                Ok(())
            }
            Err(error) => Err(slot.failed(error)),
        }
    }

    /// Commits the innermost transaction or savepoint; `Ok` means committed.
    pub(super) fn commit(&mut self) -> QueryResult<()> {
        if self.tm.depth == 0 {
            // Not begun through us; the inner manager knows what to say.
            let slot = self.ready()?;
            slot.notes.flags.set(Flags::DIRTY);
            return noted(slot, |conn| C::TransactionManager::commit_transaction(conn));
        }
        if let Some(reason) = self.lost() {
            return Err(self.give_up(reason).into());
        }
        let Some(lease) = &mut self.lease else {
            unreachable!("a transaction is open on a bound connection");
        };
        let slot = lease.slot_mut();
        let nested_by_hand = believed_depth(status(slot)) > self.tm.expected_depth();
        if nested_by_hand {
            return Err(self.give_up(RollbackReason::Unbalanced).into());
        }
        if slot.notes.kind != UrlKind::Mysql {
            match slot.probe() {
                TransactionProbe::Open | TransactionProbe::Unknown => {}
                TransactionProbe::Failed => {
                    return Err(self.give_up(RollbackReason::FailedStatement).into());
                }
                TransactionProbe::Idle => {
                    return Err(self.give_up(RollbackReason::EndedByHand).into());
                }
                TransactionProbe::Broken => {
                    return Err(self.give_up(RollbackReason::ConnectionLost).into());
                }
            }
        }
        let committed = noted(slot, |conn| C::TransactionManager::commit_transaction(conn));
        let depth = self.tm.depth;
        self.tm.ended();
        match committed {
            Ok(()) => self.hooks_of_committed(depth),
            Err(_) => self.hooks_of_rolled_back(depth),
        }
        committed
    }

    /// Rolls back the innermost transaction or savepoint.
    pub(super) fn roll_back(&mut self) -> QueryResult<()> {
        if self.tm.depth == 0 {
            let slot = self.ready()?;
            slot.notes.flags.set(Flags::DIRTY);
            return noted(slot, |conn| {
                C::TransactionManager::rollback_transaction(conn)
            });
        }
        if self.lost().is_some() {
            self.end_lost();
            return Ok(());
        }
        let expected = self.tm.expected_depth();
        let Some(lease) = &mut self.lease else {
            unreachable!("a transaction is open on a bound connection");
        };
        let slot = lease.slot_mut();
        let mut rolled_back = Ok(());
        // Levels that were opened by hand inside the closure go first.
        while rolled_back.is_ok() && believed_depth(status(slot)) >= expected {
            rolled_back = noted(slot, |conn| {
                C::TransactionManager::rollback_transaction(conn)
            });
        }
        self.hooks_of_rolled_back(self.tm.depth);
        self.tm.ended();
        rolled_back
    }

    /// Ends the innermost level of a transaction that cannot be committed.
    fn give_up(&mut self, reason: RollbackReason) -> Error {
        if reason == RollbackReason::FailedStatement {
            // It is still there, only spoilt: a savepoint can be rolled back to, and work goes on.
            if let Err(error) = self.roll_back() {
                return self.rolled_back(reason, Some(error));
            }
        } else {
            self.tm.lost.get_or_insert(reason);
            self.end_lost();
        }
        self.rolled_back(reason, None)
    }

    /// Leaves one level of a transaction that is gone. Nothing is sent before the outermost level.
    fn end_lost(&mut self) {
        let outermost = self.tm.depth == 1;
        if outermost {
            let base = self.tm.base;
            if let Some(slot) = self.slot_mut() {
                // What Diesel still counts is closed for good, so that a server that does have a
                // transaction left (unbalanced by hand, or begun anew) loses it here. Savepoints of
                // a transaction that is gone are not there to be rolled back to.
                if believed_depth(status(slot)) > base {
                    forget_savepoints(status(slot), base + 1);
                    let _ = noted(slot, |conn| {
                        C::TransactionManager::rollback_transaction(conn)
                    });
                }
                slot.notes
                    .flags
                    .clear(Flags::ENDED_BY_HAND | Flags::ENDED_BY_SERVER);
                slot.notes.flags.set(Flags::DIRTY);
                if base > 0 {
                    // The test transaction beneath is gone as well.
                    slot.notes.flags.set(Flags::RETIRE);
                }
            }
        }
        self.hooks_of_rolled_back(self.tm.depth);
        self.tm.ended();
    }
}

fn status<C: NodeConnection>(slot: &mut Slot<C>) -> &mut TransactionManagerStatus {
    C::TransactionManager::transaction_manager_status_mut(&mut slot.conn)
}

fn noted<C: NodeConnection, T>(
    slot: &mut Slot<C>,
    f: impl FnOnce(&mut C) -> QueryResult<T>,
) -> QueryResult<T> {
    f(&mut slot.conn).map_err(|error| slot.failed(error))
}
