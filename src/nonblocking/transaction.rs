//! Shard-scoped transactions: options, the pin, the outcome, what follows a commit.

#![expect(
    clippy::manual_async_fn,
    reason = "an `async fn` cannot promise that its future is `Send`"
)]

use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, resume_unwind};

use diesel::result::Error as DieselError;
use futures_util::FutureExt;

use super::backend::AsyncNodeConnection;
use super::closure::SendAsyncFn;
use super::connection::AsyncShardedConnection;
use super::manager::AsyncShardedConnectionManager;
use super::retry::RetryingTransactionBuilder;
use super::transaction_manager::value_of;
use crate::driver::{Begin, BeginOptions, Flags, Isolation, Outcome, run_hooks};
use crate::error::Error;
use crate::name::ShardName;
use crate::route::{Located, in_pin, into_caller};
use crate::telemetry;

/// Sets the options of one shard-scoped transaction and runs it.
///
/// Made by [`transaction_builder`](AsyncShardedConnectionManager::transaction_builder) of a manager or
/// a keyspace.
#[must_use = "a transaction builder does nothing until it is run"]
pub struct TransactionBuilder<C: AsyncNodeConnection> {
    manager: AsyncShardedConnectionManager<C>,
    target: Result<Located, Error>,
    options: BeginOptions,
}

impl<C: AsyncNodeConnection> TransactionBuilder<C> {
    pub(super) fn new(
        manager: AsyncShardedConnectionManager<C>,
        target: Result<Located, Error>,
    ) -> Self {
        Self {
            manager,
            target,
            options: BeginOptions::default(),
        }
    }

    /// Sets the isolation level. Defaults to the database's own; SQLite is always serializable.
    pub fn isolation(mut self, level: Isolation) -> Self {
        self.options.isolation = Some(level);
        self
    }

    /// Refuses writes inside the transaction. Defaults to `false`.
    pub fn read_only(mut self) -> Self {
        self.options.read_only = Some(true);
        self
    }

    /// Takes SQLite's write lock at the start (`BEGIN IMMEDIATE`), so that a later write cannot fail
    /// with "database is locked" half-way. Defaults to `false`; other backends refuse it.
    pub fn immediate(mut self) -> Self {
        self.options.immediate = true;
        self
    }

    /// Runs the transaction again, up to `times` times, when it failed by a serialization failure or
    /// a deadlock. The closure is then run more than once, each time as a fresh clone, hence `Clone`:
    /// what it captures is shared (`&T`, `Arc`, atomics) or cloned, never `&mut`.
    ///
    /// A failure of a statement that ran on the raw connection (a helper that takes
    /// `&mut AsyncPgConnection`) is not seen here, so it is not retried.
    ///
    /// ```
    /// # #[cfg(feature = "async-sqlite")]
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), diesel_sharded::Error> {
    /// # use diesel_async::SimpleAsyncConnection;
    /// # use diesel_async::sync_connection_wrapper::SyncConnectionWrapper;
    /// # use diesel_sharded::nonblocking::AsyncShardedConnectionManager;
    /// # let dir = tempfile::tempdir().expect("a temporary folder");
    /// # let shards = AsyncShardedConnectionManager::<SyncConnectionWrapper<diesel::SqliteConnection>>::builder()
    /// #     .shard("order-0", dir.path().join("o").display().to_string()).build().await?;
    /// shards.transaction_builder("order-0").immediate().retries(3).run(async |conn| {
    ///     conn.batch_execute("CREATE TABLE IF NOT EXISTS t (id INTEGER)").await
    /// }).await?;
    /// # Ok(())
    /// # }
    /// # #[cfg(not(feature = "async-sqlite"))] fn main() {}
    /// ```
    pub fn retries(self, times: usize) -> RetryingTransactionBuilder<C> {
        RetryingTransactionBuilder::new(self, times)
    }

    /// Runs the transaction; `Ok` means committed.
    ///
    /// # Errors
    ///
    /// Those of
    /// [`transaction_on`](AsyncShardedConnectionManager::transaction_on), and [`Error::Unsupported`]
    /// for an option that the backend does not have.
    ///
    /// # Cancellation
    ///
    /// See [`transaction_on`](AsyncShardedConnectionManager::transaction_on).
    pub fn run<'a, T, E, F>(self, f: F) -> impl Future<Output = Result<T, E>> + Send + 'a
    where
        for<'r> F: AsyncFnOnce(&'r mut AsyncShardedConnection<C>) -> Result<T, E>
            + SendAsyncFn<&'r mut AsyncShardedConnection<C>, Result<T, E>, Fut: Send>
            + Send
            + 'a,
        E: From<DieselError> + Send + 'a,
        T: Send + 'a,
    {
        async move {
            let f = f;
            let transaction = self.checked().map_err(into_caller)?;
            transaction.run(f, Outcome::Commit).await.0
        }
    }

    /// Runs the transaction; the closure says whether it is committed or rolled back.
    ///
    /// # Errors
    ///
    /// Those of [`run`](Self::run).
    pub fn run_outcome<'a, T, E, F>(self, f: F) -> impl Future<Output = Result<T, E>> + Send + 'a
    where
        for<'r> F: AsyncFnOnce(&'r mut AsyncShardedConnection<C>) -> Result<Outcome<T>, E>
            + SendAsyncFn<&'r mut AsyncShardedConnection<C>, Result<Outcome<T>, E>, Fut: Send>
            + Send
            + 'a,
        E: From<DieselError> + Send + 'a,
        T: Send + 'a,
    {
        async move {
            let f = f;
            let transaction = self.checked().map_err(into_caller)?;
            transaction.run(f, |outcome| outcome).await.0
        }
    }

    /// The transaction itself, once its target is known to exist.
    pub(super) fn checked(self) -> Result<Transaction<C>, Error> {
        Ok(Transaction {
            at: self.target?,
            manager: self.manager,
            options: self.options,
        })
    }
}

/// A transaction that can be run, more than once if need be.
pub(super) struct Transaction<C: AsyncNodeConnection> {
    manager: AsyncShardedConnectionManager<C>,
    at: Located,
    options: BeginOptions,
}

impl<C: AsyncNodeConnection> Transaction<C> {
    pub(super) fn shard(&self) -> ShardName {
        self.at.shard
    }

    /// Runs the transaction once; also answers whether another run may do better.
    pub(super) fn run<'a, 's, V, T, E, F>(
        &'s self,
        f: F,
        wants: fn(V) -> Outcome<T>,
    ) -> impl Future<Output = (Result<T, E>, bool)> + Send + 's
    where
        for<'r> F: AsyncFnOnce(&'r mut AsyncShardedConnection<C>) -> Result<V, E>
            + SendAsyncFn<&'r mut AsyncShardedConnection<C>, Result<V, E>, Fut: Send>
            + Send
            + 'a,
        E: From<DieselError> + Send + 's,
        T: Send + 's,
        V: Send + 's,
        'a: 's,
    {
        async move {
            let f = f;
            match self.prepare().await {
                Ok((conn, begin)) => self.run_on(conn, &begin, f, wants).await,
                Err(error) => (Err(into_caller(error)), false),
            }
        }
    }

    async fn prepare(&self) -> Result<(AsyncShardedConnection<C>, Begin), Error> {
        let mut conn = self.manager.get_at(self.at).await?;
        let kind = conn.ready()?.notes.kind;
        let begin = self.options.sql(kind).map_err(|what| Error::Unsupported {
            shard: self.at.shard,
            backend: kind.as_str(),
            what,
        })?;
        Ok((conn, begin))
    }

    fn run_on<'a, 's, V, T, E, F>(
        &'s self,
        mut conn: AsyncShardedConnection<C>,
        begin: &'s Begin,
        f: F,
        wants: fn(V) -> Outcome<T>,
    ) -> impl Future<Output = (Result<T, E>, bool)> + Send + 's
    where
        for<'r> F: AsyncFnOnce(&'r mut AsyncShardedConnection<C>) -> Result<V, E>
            + SendAsyncFn<&'r mut AsyncShardedConnection<C>, Result<V, E>, Fut: Send>
            + Send
            + 'a,
        E: From<DieselError> + Send + 's,
        T: Send + 's,
        V: Send + 's,
        'a: 's,
    {
        async move {
            let f = f;
            let shard = self.at.shard;
            let Some(node) = conn.lease.as_ref().map(|lease| lease.node().id()) else {
                unreachable!("a checked-out connection is bound");
            };
            conn.owns_pin = true;
            let topology = self.manager.topology().id();
            let result = {
                let conn = &mut conn;
                let running = async move { conn.scope_with(begin, f, wants).await };
                match in_pin(topology, self.at, node, running) {
                    Ok(pinned) => pinned.await,
                    Err(error) => {
                        telemetry::refused(&error);
                        return (Err(into_caller(error)), false);
                    }
                }
            };
            telemetry::transaction_ended(
                shard,
                match &result {
                    Ok(Outcome::Commit(_)) => "committed",
                    Ok(Outcome::Rollback(_)) => "rolled_back",
                    Err(_) => "failed",
                },
            );
            let retryable = result.is_err()
                && conn
                    .slot_mut()
                    .is_some_and(|slot| slot.notes.flags.any(Flags::RETRYABLE));
            let due = conn.take_committed_hooks();
            // The connection first, so that whoever waits for it finds the scope left; the hooks last,
            // so that they run as after the call.
            drop(conn);
            run_hooks(shard, due);
            (result.map(value_of), retryable)
        }
    }
}

impl<C: AsyncNodeConnection> AsyncShardedConnection<C> {
    /// [`scope`](Self::scope), with what has to be set before and after it.
    pub(super) fn scope_with<'a, 's, F, V, R, E>(
        &'s mut self,
        begin: &'s Begin,
        f: F,
        wants: fn(V) -> Outcome<R>,
    ) -> impl Future<Output = Result<Outcome<R>, E>> + Send + 's
    where
        for<'r> F: AsyncFnOnce(&'r mut Self) -> Result<V, E>
            + SendAsyncFn<&'r mut Self, Result<V, E>, Fut: Send>
            + Send
            + 'a,
        E: From<DieselError> + Send + 's,
        V: Send + 's,
        R: Send + 's,
        'a: 's,
    {
        async move {
            let f = f;
            let sql = begin.sql.as_deref();
            if !begin.read_only {
                return self.scope(sql, f, wants).await;
            }
            let slot = self.ready().map_err(into_caller)?;
            slot.notes.flags.set(Flags::READ_ONLY_WANTED);
            if !begin.query_only {
                let ended = self.scope(sql, f, wants).await;
                self.writes_again();
                return ended;
            }
            slot.query_only(true).await?;
            let mut restore = Restore {
                conn: self,
                armed: true,
            };
            let ended = {
                let running = restore.conn.scope(sql, f, wants);
                AssertUnwindSafe(running).catch_unwind().await
            };
            restore.conn.writes_again();
            if let Some(slot) = restore.conn.slot_mut()
                && !slot.notes.flags.any(Flags::SHARD_READ_ONLY)
                && slot.query_only(false).await.is_err()
            {
                slot.notes.flags.set(Flags::RETIRE);
            }
            restore.armed = false;
            ended.unwrap_or_else(|panic| resume_unwind(panic))
        }
    }

    fn writes_again(&mut self) {
        if let Some(slot) = self.slot_mut() {
            slot.notes.flags.clear(Flags::READ_ONLY_WANTED);
        }
    }
}

/// A session that was told that it may only read is of no use to the next user, should the future be
/// dropped before it can be told otherwise.
struct Restore<'a, C: AsyncNodeConnection> {
    conn: &'a mut AsyncShardedConnection<C>,
    armed: bool,
}

impl<C: AsyncNodeConnection> Drop for Restore<'_, C> {
    fn drop(&mut self) {
        if self.armed {
            self.conn.retire();
        }
    }
}

impl<C: AsyncNodeConnection> fmt::Debug for TransactionBuilder<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TransactionBuilder")
            .field("target", &self.target)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}
