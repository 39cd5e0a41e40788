//! Transactions that are run again when the database asks for it.

use std::fmt;

use diesel::result::Error as DieselError;

use super::backend::NodeConnection;
use super::connection::ShardedConnection;
use super::transaction::TransactionBuilder;
use crate::driver::{Outcome, pauses};
use crate::route::into_caller;
use crate::telemetry;

/// A [`TransactionBuilder`] whose closure may be run several times; made by
/// [`retries`](TransactionBuilder::retries).
#[must_use = "a transaction builder does nothing until it is run"]
pub struct RetryingTransactionBuilder<C: NodeConnection> {
    builder: TransactionBuilder<C>,
    retries: usize,
}

impl<C: NodeConnection> RetryingTransactionBuilder<C> {
    pub(super) fn new(builder: TransactionBuilder<C>, retries: usize) -> Self {
        Self { builder, retries }
    }

    /// Runs the transaction, and runs it again from its start, closure and all, when it failed by a
    /// serialization failure or a deadlock; between the runs it waits, longer each time and by
    /// chance, so that two that met do not meet again.
    ///
    /// # Errors
    ///
    /// Those of [`TransactionBuilder::run`]; of a transaction that failed each time, the last.
    pub fn run<T, E, F>(self, mut f: F) -> Result<T, E>
    where
        F: FnMut(&mut ShardedConnection<C>) -> Result<T, E>,
        E: From<DieselError>,
    {
        self.run_outcome(|conn| f(conn).map(Outcome::Commit))
    }

    /// Like [`run`](Self::run); the closure says whether it is committed or rolled back.
    ///
    /// # Errors
    ///
    /// Those of [`run`](Self::run).
    pub fn run_outcome<T, E, F>(self, mut f: F) -> Result<T, E>
    where
        F: FnMut(&mut ShardedConnection<C>) -> Result<Outcome<T>, E>,
        E: From<DieselError>,
    {
        let transaction = self.builder.checked().map_err(into_caller)?;
        let mut pauses = pauses(self.retries);
        let mut attempt = 0;
        loop {
            let (result, retryable) = transaction.run(&mut f);
            let Err(error) = result else {
                return result;
            };
            let (true, Some(pause)) = (retryable, pauses.next()) else {
                return Err(error);
            };
            attempt += 1;
            telemetry::retrying(transaction.shard(), attempt, pause);
            std::thread::sleep(pause);
        }
    }
}

impl<C: NodeConnection> fmt::Debug for RetryingTransactionBuilder<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RetryingTransactionBuilder")
            .field("builder", &self.builder)
            .field("retries", &self.retries)
            .finish_non_exhaustive()
    }
}
