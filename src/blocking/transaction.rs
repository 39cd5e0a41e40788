//! Shard-scoped transactions: options, the pin, the outcome, what follows a commit.

use std::fmt;

use diesel::result::Error as DieselError;

use super::backend::NodeConnection;
use super::connection::ShardedConnection;
use super::manager::ShardedConnectionManager;
use super::retry::RetryingTransactionBuilder;
use crate::driver::{Begin, BeginOptions, Flags, Isolation, Outcome, run_hooks};
use crate::error::Error;
use crate::name::ShardName;
use crate::route::{Located, into_caller, stack};
use crate::telemetry;

/// Sets the options of one shard-scoped transaction and runs it.
///
/// Made by [`transaction_builder`](ShardedConnectionManager::transaction_builder) of a manager or a
/// keyspace.
#[must_use = "a transaction builder does nothing until it is run"]
pub struct TransactionBuilder<C: NodeConnection> {
    manager: ShardedConnectionManager<C>,
    target: Result<Located, Error>,
    options: BeginOptions,
}

impl<C: NodeConnection> TransactionBuilder<C> {
    pub(super) fn new(
        manager: ShardedConnectionManager<C>,
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
    /// a deadlock. The closure is then called more than once, hence `FnMut`.
    ///
    /// A failure of a statement that ran on the raw connection (a helper that takes
    /// `&mut PgConnection`) is not seen here, so it is not retried.
    ///
    /// ```
    /// # #[cfg(feature = "sqlite")] fn main() -> Result<(), diesel_sharded::Error> {
    /// # use diesel::connection::SimpleConnection;
    /// # use diesel_sharded::blocking::ShardedConnectionManager;
    /// # let dir = tempfile::tempdir().expect("a temporary folder");
    /// # let shards = ShardedConnectionManager::<diesel::SqliteConnection>::builder()
    /// #     .shard("order-0", dir.path().join("o").display().to_string()).build()?;
    /// shards.transaction_builder("order-0").immediate().retries(3).run(|conn| {
    ///     conn.batch_execute("CREATE TABLE IF NOT EXISTS t (id INTEGER)")
    /// })?;
    /// # Ok(())
    /// # }
    /// # #[cfg(not(feature = "sqlite"))] fn main() {}
    /// ```
    pub fn retries(self, times: usize) -> RetryingTransactionBuilder<C> {
        RetryingTransactionBuilder::new(self, times)
    }

    /// Runs the transaction; `Ok` means committed.
    ///
    /// # Errors
    ///
    /// Those of
    /// [`transaction_on`](ShardedConnectionManager::transaction_on), and [`Error::Unsupported`] for
    /// an option that the backend does not have.
    pub fn run<T, E, F>(self, f: F) -> Result<T, E>
    where
        F: FnOnce(&mut ShardedConnection<C>) -> Result<T, E>,
        E: From<DieselError>,
    {
        self.run_outcome(|conn| f(conn).map(Outcome::Commit))
    }

    /// Runs the transaction; the closure says whether it is committed or rolled back.
    ///
    /// # Errors
    ///
    /// Those of [`run`](Self::run).
    pub fn run_outcome<T, E, F>(self, f: F) -> Result<T, E>
    where
        F: FnOnce(&mut ShardedConnection<C>) -> Result<Outcome<T>, E>,
        E: From<DieselError>,
    {
        self.checked().map_err(into_caller)?.run(f).0
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
pub(super) struct Transaction<C: NodeConnection> {
    manager: ShardedConnectionManager<C>,
    at: Located,
    options: BeginOptions,
}

impl<C: NodeConnection> Transaction<C> {
    pub(super) fn shard(&self) -> ShardName {
        self.at.shard
    }

    /// Runs the transaction once; also answers whether another run may do better.
    pub(super) fn run<T, E, F>(&self, f: F) -> (Result<T, E>, bool)
    where
        F: FnOnce(&mut ShardedConnection<C>) -> Result<Outcome<T>, E>,
        E: From<DieselError>,
    {
        match self.prepare() {
            Ok((conn, begin)) => self.run_on(conn, &begin, f),
            Err(error) => (Err(into_caller(error)), false),
        }
    }

    fn prepare(&self) -> Result<(ShardedConnection<C>, Begin), Error> {
        let mut conn = self.manager.get_at(self.at)?;
        let kind = conn.ready()?.notes.kind;
        let begin = self.options.sql(kind).map_err(|what| Error::Unsupported {
            shard: self.at.shard,
            backend: kind.as_str(),
            what,
        })?;
        Ok((conn, begin))
    }

    fn run_on<T, E, F>(
        &self,
        mut conn: ShardedConnection<C>,
        begin: &Begin,
        f: F,
    ) -> (Result<T, E>, bool)
    where
        F: FnOnce(&mut ShardedConnection<C>) -> Result<Outcome<T>, E>,
        E: From<DieselError>,
    {
        let shard = self.at.shard;
        let Some(node) = conn.lease.as_ref().map(|lease| lease.node().id()) else {
            unreachable!("a checked-out connection is bound");
        };
        let pin = match stack::pin(self.manager.topology().id(), self.at, node) {
            Ok(pin) => pin,
            Err(error) => return (Err(into_caller(error)), false),
        };
        let span = telemetry::transaction_span(shard);
        conn.owns_pin = true;
        let mut wanted = "failed";
        let result = conn.scope_with(begin, |conn| {
            let outcome = f(conn)?;
            wanted = match outcome {
                Outcome::Commit(_) => "committed",
                Outcome::Rollback(_) => "rolled_back",
            };
            Ok(outcome)
        });
        telemetry::transaction_ended(shard, if result.is_ok() { wanted } else { "failed" });
        let retryable = result.is_err()
            && conn
                .slot_mut()
                .is_some_and(|slot| slot.notes.flags.any(Flags::RETRYABLE));
        let due = conn.take_committed_hooks();
        // The connection first, so that whoever waits for it finds the scope left; the hooks last,
        // so that they run as after the call.
        drop(conn);
        drop(span);
        drop(pin);
        run_hooks(shard, due);
        (result, retryable)
    }
}

impl<C: NodeConnection> ShardedConnection<C> {
    /// [`scope`](Self::scope), with what has to be set before and after it.
    pub(super) fn scope_with<F, R, E>(&mut self, begin: &Begin, f: F) -> Result<R, E>
    where
        F: FnOnce(&mut Self) -> Result<Outcome<R>, E>,
        E: From<DieselError>,
    {
        if !begin.read_only {
            return self.scope(begin.sql.as_deref(), f);
        }
        let slot = self.ready().map_err(into_caller)?;
        if begin.query_only {
            slot.muted(|conn| conn.batch_execute("PRAGMA query_only = ON"))?;
        }
        slot.notes.flags.set(Flags::READ_ONLY_WANTED);
        let restore = Restore {
            conn: self,
            query_only: begin.query_only,
        };
        restore.conn.scope(begin.sql.as_deref(), f)
    }
}

/// Lets the session write again, also when a panic goes through.
struct Restore<'a, C: NodeConnection> {
    conn: &'a mut ShardedConnection<C>,
    query_only: bool,
}

impl<C: NodeConnection> Drop for Restore<'_, C> {
    fn drop(&mut self) {
        if let Some(slot) = self.conn.slot_mut() {
            slot.notes.flags.clear(Flags::READ_ONLY_WANTED);
            if self.query_only
                && !slot.notes.flags.any(Flags::SHARD_READ_ONLY)
                && slot
                    .muted(|conn| conn.batch_execute("PRAGMA query_only = OFF"))
                    .is_err()
            {
                slot.notes.flags.set(Flags::RETIRE);
            }
        }
    }
}

impl<C: NodeConnection> fmt::Debug for TransactionBuilder<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TransactionBuilder")
            .field("target", &self.target)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}
