//! Diesel's transaction manager for our connection: the checks of a route, and the truth about the
//! outcome.
//!
//! It forwards to the manager of the inner connection, which keeps the depth and sends `BEGIN`,
//! `SAVEPOINT` and `COMMIT`. What it adds: a transaction that the server or somebody's hand ended
//! is noticed, `Ok` of a commit means committed, and a future that is dropped half-way leaves
//! nothing open. PostgreSQL answers the `COMMIT` of a failed transaction with a silent rollback, and
//! after a deadlock MySQL has no transaction any more while Diesel still counts one; plain
//! diesel-async reports success in both cases.
//!
//! Each level of a closure is guarded by an [`Abandon`]: dropped before its end, it marks the
//! connection. A level in which nothing doubtful has happened costs what it costs without us.

#![expect(
    clippy::manual_async_fn,
    reason = "an `async fn` cannot promise that its future is `Send`"
)]

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, resume_unwind};

use diesel::QueryResult;
use diesel::connection::TransactionManagerStatus;
use diesel::result::Error as DieselError;
use diesel_async::TransactionManager;
use futures_util::FutureExt;

use super::backend::{AsyncNodeConnection, CommitRefused};
use super::closure::SendAsyncFn;
use super::connection::AsyncShardedConnection;
use crate::driver::{
    Flags, Outcome, ShardedTmState, TransactionProbe, believed_depth, forget_savepoints, next_scope,
};
use crate::error::{Error, RollbackReason};
use crate::name::ShardName;
use crate::route::stack;
use crate::telemetry;
use crate::topology::UrlKind;

/// The transaction manager of [`AsyncShardedConnection`](super::AsyncShardedConnection).
pub struct ShardedTm<Inner>(PhantomData<fn() -> Inner>);

impl<Inner> fmt::Debug for ShardedTm<Inner> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ShardedTm")
    }
}

impl<C> TransactionManager<AsyncShardedConnection<C>> for ShardedTm<C::TransactionManager>
where
    C: AsyncNodeConnection,
{
    type TransactionStateData = ShardedTmState;

    async fn begin_transaction(conn: &mut AsyncShardedConnection<C>) -> QueryResult<()> {
        conn.begin(None).await
    }

    async fn rollback_transaction(conn: &mut AsyncShardedConnection<C>) -> QueryResult<()> {
        conn.leave_scopes_alone()?;
        conn.roll_back().await
    }

    async fn commit_transaction(conn: &mut AsyncShardedConnection<C>) -> QueryResult<()> {
        conn.leave_scopes_alone()?;
        conn.commit().await
    }

    fn transaction_manager_status_mut(
        conn: &mut AsyncShardedConnection<C>,
    ) -> &mut TransactionManagerStatus {
        match &mut conn.lease {
            Some(lease) => lease.slot_mut().status(),
            None => &mut conn.tm.unbound,
        }
    }

    fn transaction<'a, 'conn, F, R, E>(
        conn: &'conn mut AsyncShardedConnection<C>,
        callback: F,
    ) -> impl Future<Output = Result<R, E>> + Send + 'conn
    where
        for<'r> F: AsyncFnOnce(&'r mut AsyncShardedConnection<C>) -> Result<R, E>
            + SendAsyncFn<&'r mut AsyncShardedConnection<C>, Result<R, E>, Fut: Send>
            + Send
            + 'a,
        E: From<DieselError> + Send,
        R: Send,
        'a: 'conn,
    {
        async move {
            let callback = callback;
            let ended = conn.scope(None, callback, Outcome::Commit).await?;
            Ok(value_of(ended))
        }
    }
}

/// What a closure wanted, once it is done.
pub(super) fn value_of<T>(ended: Outcome<T>) -> T {
    match ended {
        Outcome::Commit(value) | Outcome::Rollback(value) => value,
    }
}

/// A level whose future may be dropped before its end.
struct Abandon<'a, C: AsyncNodeConnection> {
    conn: &'a mut AsyncShardedConnection<C>,
    /// What the level replaces, put back when it ends, however it ends.
    outer_floor: u32,
    outer_scope: u64,
    armed: bool,
}

impl<C: AsyncNodeConnection> Abandon<'_, C> {
    fn leave_level(&mut self) {
        self.conn.tm.floor = self.outer_floor;
        self.conn.tm.scope = self.outer_scope;
    }
}

impl<C: AsyncNodeConnection> Drop for Abandon<'_, C> {
    fn drop(&mut self) {
        if self.armed {
            self.leave_level();
            self.conn.abandon();
        }
    }
}

impl<C: AsyncNodeConnection> AsyncShardedConnection<C> {
    /// Runs a closure in a transaction (or a savepoint), begun by `sql` where one is given. `wants`
    /// reads from the closure's value how the transaction is to end.
    pub(super) fn scope<'a, 's, F, V, R, E>(
        &'s mut self,
        sql: Option<&'s str>,
        callback: F,
        wants: fn(V) -> Outcome<R>,
    ) -> impl Future<Output = Result<Outcome<R>, E>> + Send
    where
        for<'r> F: AsyncFnOnce(&'r mut Self) -> Result<V, E>
            + SendAsyncFn<&'r mut Self, Result<V, E>, Fut: Send>
            + Send
            + 'a,
        E: From<DieselError> + Send,
        V: Send,
        R: Send,
        'a: 's,
    {
        async move {
            let callback = callback;
            self.begin(sql).await?;
            let shard = self.shard();
            let (depth, scope) = (self.tm.depth, next_scope());
            let mut level = Abandon {
                outer_floor: std::mem::replace(&mut self.tm.floor, depth),
                outer_scope: std::mem::replace(&mut self.tm.scope, scope),
                conn: self,
                armed: true,
            };
            // A panic is caught only to roll back before it goes on: the connection may outlive it.
            let result = {
                let conn = &mut *level.conn;
                let running = async move { callback(conn).await };
                AssertUnwindSafe(running).catch_unwind().await
            };
            if level.conn.tm.scope != scope {
                level.armed = false;
                return level.conn.exchanged(shard, result);
            }
            level.leave_level();
            let ended = level.conn.end(depth, result, wants).await;
            level.armed = false;
            ended.unwrap_or_else(|panic| resume_unwind(panic))
        }
    }

    /// Ends the level of a closure as the closure wants it; a panic of the closure is handed on.
    async fn end<V, R, E>(
        &mut self,
        depth: u32,
        result: std::thread::Result<Result<V, E>>,
        wants: fn(V) -> Outcome<R>,
    ) -> std::thread::Result<Result<Outcome<R>, E>>
    where
        E: From<DieselError> + Send,
        V: Send,
        R: Send,
    {
        if result.is_err()
            && let Some(slot) = self.slot_mut()
        {
            // What has panicked may have been code that Diesel runs on the connection.
            let _ = slot.recover().await;
        }
        if self.tm.depth != depth {
            self.unwind_to(depth).await;
        }
        let answer = match result {
            Ok(answer) => answer.map(wants),
            Err(panic) => {
                self.roll_back_after_failure().await;
                return Err(panic);
            }
        };
        Ok(match answer {
            Ok(Outcome::Commit(value)) => match self.commit().await {
                Ok(()) => Ok(Outcome::Commit(value)),
                Err(error) => Err(error.into()),
            },
            Ok(Outcome::Rollback(value)) => {
                let lost = self.lost();
                match (self.roll_back().await, lost) {
                    (Err(error), _) => Err(error.into()),
                    // It is rolled back, which is what was wanted.
                    (
                        Ok(()),
                        None
                        | Some(
                            RollbackReason::EndedByServer
                            | RollbackReason::ConnectionLost
                            | RollbackReason::Cancelled,
                        ),
                    ) => Ok(Outcome::Rollback(value)),
                    (Ok(()), Some(reason)) => {
                        Err(DieselError::from(self.rolled_back(reason, None)).into())
                    }
                }
            }
            Err(error) => {
                self.roll_back_after_failure().await;
                Err(error)
            }
        })
    }

    /// Another connection stands where the closure was given one (`mem::swap`): neither is committed.
    #[cold]
    fn exchanged<V, R, E>(
        &mut self,
        shard: Option<ShardName>,
        result: std::thread::Result<Result<V, E>>,
    ) -> Result<R, E>
    where
        E: From<DieselError>,
    {
        // Where the other belongs, its statements and its commit are refused from now on; both are
        // cleaned or closed when they go, which is what rolls them back.
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
    async fn unwind_to(&mut self, depth: u32) {
        while self.tm.depth > depth {
            if self.roll_back().await.is_err() {
                break;
            }
        }
        self.tm.depth = depth;
        self.tm.lost.get_or_insert(RollbackReason::Unbalanced);
    }

    /// Rolls back on behalf of an error or panic of the caller's, which is what the caller gets.
    async fn roll_back_after_failure(&mut self) {
        if let Err(error) = self.roll_back().await {
            if let (Some(shard), false) = (
                self.shard(),
                matches!(error, DieselError::BrokenTransactionManager),
            ) {
                telemetry::rollback_failed(shard, &error);
            }
            self.retire();
        }
    }

    /// Begins a transaction, or a savepoint where one is open.
    pub(super) async fn begin(&mut self, sql: Option<&str>) -> QueryResult<()> {
        self.bind_for_statement().await?;
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
            tm.base = believed_depth(slot.status());
            slot.notes.flags.clear(
                Flags::ENDED_BY_HAND
                    | Flags::ENDED_BY_SERVER
                    | Flags::RETRYABLE
                    | Flags::FAILED_IN_SCOPE,
            );
        }
        match sql {
            Some(sql) if outer == 0 && tm.base == 0 => slot.begin_with(sql).await?,
            Some(_) if outer > 0 => return Err(slot.failed(DieselError::AlreadyInTransaction)),
            // Inside a test transaction the savepoint has to do.
            _ => slot.begin().await?,
        }
        tm.depth += 1;
        Ok(())
    }

    /// Commits the innermost transaction or savepoint; `Ok` means committed.
    pub(super) async fn commit(&mut self) -> QueryResult<()> {
        if self.tm.depth == 0 {
            // Not begun through us; the inner manager knows what to say.
            let slot = self.ready()?;
            slot.notes.flags.set(Flags::DIRTY);
            return slot.commit().await;
        }
        if let Some(reason) = self.lost() {
            return Err(self.give_up(reason).await.into());
        }
        let outermost = self.tm.expected_depth() == 1;
        let expected = self.tm.expected_depth();
        let Some(slot) = self.slot_mut() else {
            unreachable!("a transaction is open on a bound connection");
        };
        if believed_depth(slot.status()) > expected {
            return Err(self.give_up(RollbackReason::Unbalanced).await.into());
        }
        // Only what has made it doubtful whether the transaction can be committed is paid for.
        let doubtful = slot.notes.kind != UrlKind::Mysql
            && slot
                .notes
                .flags
                .any(Flags::UNPROBED | Flags::FAILED_IN_SCOPE | Flags::INTERRUPTED);
        let committed = if !doubtful {
            slot.commit().await
        } else if outermost && slot.notes.kind == UrlKind::Postgres {
            match slot.commit_doubtful().await {
                Ok(()) => Ok(()),
                Err(CommitRefused::Because(reason)) => {
                    return Err(self.give_up(reason).await.into());
                }
                Err(CommitRefused::Failed(error)) => Err(error),
            }
        } else {
            match slot.probe().await {
                TransactionProbe::Open | TransactionProbe::Unknown => slot.commit().await,
                probed => {
                    let reason = match probed {
                        TransactionProbe::Failed => RollbackReason::FailedStatement,
                        TransactionProbe::Broken => RollbackReason::ConnectionLost,
                        _ => RollbackReason::EndedByHand,
                    };
                    return Err(self.give_up(reason).await.into());
                }
            }
        };
        let depth = self.tm.depth;
        self.tm.ended();
        match committed {
            Ok(()) => self.hooks_of_committed(depth),
            Err(_) => self.hooks_of_rolled_back(depth),
        }
        committed
    }

    /// Rolls back the innermost transaction or savepoint.
    pub(super) async fn roll_back(&mut self) -> QueryResult<()> {
        if self.tm.depth == 0 {
            let slot = self.ready()?;
            slot.notes.flags.set(Flags::DIRTY);
            return slot.roll_back().await;
        }
        if self.lost().is_some() {
            self.end_lost().await;
            return Ok(());
        }
        let expected = self.tm.expected_depth();
        let Some(slot) = self.slot_mut() else {
            unreachable!("a transaction is open on a bound connection");
        };
        let mut rolled_back = Ok(());
        // Levels that were opened by hand inside the closure go first.
        while rolled_back.is_ok() && believed_depth(slot.status()) >= expected {
            rolled_back = slot.roll_back().await;
        }
        self.hooks_of_rolled_back(self.tm.depth);
        self.tm.ended();
        rolled_back
    }

    /// Ends the innermost level of a transaction that cannot be committed.
    async fn give_up(&mut self, reason: RollbackReason) -> Error {
        if reason == RollbackReason::FailedStatement {
            // It is still there, only spoilt: a savepoint can be rolled back to, and work goes on.
            if let Err(error) = self.roll_back().await {
                return self.rolled_back(reason, Some(error));
            }
        } else {
            self.tm.lost.get_or_insert(reason);
            self.end_lost().await;
        }
        self.rolled_back(reason, None)
    }

    /// Leaves one level of a transaction that is gone. Nothing is sent before the outermost level.
    async fn end_lost(&mut self) {
        let outermost = self.tm.depth == 1;
        if outermost {
            let base = self.tm.base;
            if let Some(slot) = self.slot_mut() {
                // What Diesel still counts is closed for good, so that a server that does have a
                // transaction left (unbalanced by hand, or begun anew) loses it here. Savepoints of
                // a transaction that is gone are not there to be rolled back to.
                if believed_depth(slot.status()) > base {
                    forget_savepoints(slot.status(), base + 1);
                    let _ = slot.roll_back().await;
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
