//! Shard-scoped transactions: options, the pin, the outcome.

use diesel::result::Error as DieselError;

use super::backend::NodeConnection;
use super::begin::{Begin, BeginOptions, Isolation};
use super::connection::ShardedConnection;
use super::manager::ShardedConnectionManager;
use super::slot::Flags;
use super::transaction_manager::Outcome;
use crate::error::Error;
use crate::route::{Located, into_caller, stack};

/// Sets the options of one shard-scoped transaction and runs it.
///
/// Made by [`transaction_builder`](ShardedConnectionManager::transaction_builder) of a manager or a
/// keyspace.
#[derive(Debug)]
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
        let Self {
            manager,
            target,
            options,
        } = self;
        let at = target.map_err(into_caller)?;
        let mut conn = manager.get_at(at).map_err(into_caller)?;
        let begin = begin_for(options, at, &mut conn).map_err(into_caller)?;
        let _pin = stack::pin(manager.topology().id(), at).map_err(into_caller)?;
        conn.owns_pin = true;
        // Dropped before the pin, so that whoever waits for the connection finds the scope left.
        let mut conn = conn;
        conn.scope_with(&begin, f)
    }
}

fn begin_for<C: NodeConnection>(
    options: BeginOptions,
    at: Located,
    conn: &mut ShardedConnection<C>,
) -> Result<Begin, Error> {
    let kind = conn.ready()?.kind;
    options.sql(kind).map_err(|what| Error::Unsupported {
        shard: at.shard,
        backend: kind.as_str(),
        what,
    })
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
        slot.flags.set(Flags::READ_ONLY_WANTED);
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
            slot.flags.clear(Flags::READ_ONLY_WANTED);
            if self.query_only
                && slot
                    .muted(|conn| conn.batch_execute("PRAGMA query_only = OFF"))
                    .is_err()
            {
                slot.flags.set(Flags::RETIRE);
            }
        }
    }
}
