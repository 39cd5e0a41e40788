//! Transactions that are run again when the database asks for it.

#![expect(
    clippy::manual_async_fn,
    reason = "an `async fn` cannot promise that its future is `Send`"
)]

use std::fmt;
use std::future::Future;

use diesel::result::Error as DieselError;

use super::backend::AsyncNodeConnection;
use super::closure::SendAsyncFn;
use super::connection::AsyncShardedConnection;
use super::transaction::{Transaction, TransactionBuilder};
use crate::driver::{Outcome, pauses};
use crate::route::into_caller;
use crate::telemetry;

/// A [`TransactionBuilder`] whose closure may be run several times; made by
/// [`retries`](TransactionBuilder::retries).
#[must_use = "a transaction builder does nothing until it is run"]
pub struct RetryingTransactionBuilder<C: AsyncNodeConnection> {
    builder: TransactionBuilder<C>,
    retries: usize,
}

impl<C: AsyncNodeConnection> RetryingTransactionBuilder<C> {
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
    pub fn run<'a, T, E, F>(self, f: F) -> impl Future<Output = Result<T, E>> + Send + 'a
    where
        for<'r> F: AsyncFnOnce(&'r mut AsyncShardedConnection<C>) -> Result<T, E>
            + SendAsyncFn<&'r mut AsyncShardedConnection<C>, Result<T, E>, Fut: Send>
            + Clone
            + Send
            + 'a,
        E: From<DieselError> + Send + 'a,
        T: Send + 'a,
    {
        async move {
            let f = f;
            let transaction = self.builder.checked().map_err(into_caller)?;
            again(&transaction, self.retries, f, Outcome::Commit).await
        }
    }

    /// Like [`run`](Self::run); the closure says whether it is committed or rolled back.
    ///
    /// # Errors
    ///
    /// Those of [`run`](Self::run).
    pub fn run_outcome<'a, T, E, F>(self, f: F) -> impl Future<Output = Result<T, E>> + Send + 'a
    where
        for<'r> F: AsyncFnOnce(&'r mut AsyncShardedConnection<C>) -> Result<Outcome<T>, E>
            + SendAsyncFn<&'r mut AsyncShardedConnection<C>, Result<Outcome<T>, E>, Fut: Send>
            + Clone
            + Send
            + 'a,
        E: From<DieselError> + Send + 'a,
        T: Send + 'a,
    {
        async move {
            let f = f;
            let transaction = self.builder.checked().map_err(into_caller)?;
            again(&transaction, self.retries, f, |outcome| outcome).await
        }
    }
}

fn again<'a, 's, C, V, T, E, F>(
    transaction: &'s Transaction<C>,
    retries: usize,
    f: F,
    wants: fn(V) -> Outcome<T>,
) -> impl Future<Output = Result<T, E>> + Send + 's
where
    C: AsyncNodeConnection,
    for<'r> F: AsyncFnOnce(&'r mut AsyncShardedConnection<C>) -> Result<V, E>
        + SendAsyncFn<&'r mut AsyncShardedConnection<C>, Result<V, E>, Fut: Send>
        + Clone
        + Send
        + 'a,
    E: From<DieselError> + Send + 's,
    T: Send + 's,
    V: Send + 's,
    'a: 's,
{
    async move {
        let f = f;
        let mut pauses = pauses(retries);
        let mut attempt = 0;
        loop {
            let once = f.clone();
            let (result, retryable) = transaction.run(once, wants).await;
            let Err(error) = result else {
                return result;
            };
            let (true, Some(pause)) = (retryable, pauses.next()) else {
                return Err(error);
            };
            attempt += 1;
            telemetry::retrying(transaction.shard(), attempt, pause);
            tokio::time::sleep(pause).await;
        }
    }
}

impl<C: AsyncNodeConnection> fmt::Debug for RetryingTransactionBuilder<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RetryingTransactionBuilder")
            .field("builder", &self.builder)
            .field("retries", &self.retries)
            .finish_non_exhaustive()
    }
}
