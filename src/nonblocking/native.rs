//! What diesel-async offers on one connection type only, with our checks around it.

#![expect(
    clippy::manual_async_fn,
    reason = "an `async fn` cannot promise that its future is `Send`"
)]

#[cfg(feature = "async-postgres")]
mod postgres {
    use std::future::Future;

    use diesel::result::Error as DieselError;
    use diesel_async::AsyncPgConnection;

    use crate::driver::{BeginOptions, Flags, Isolation, Outcome};
    use crate::nonblocking::AsyncShardedConnection;
    use crate::nonblocking::closure::SendAsyncFn;
    use crate::nonblocking::transaction_manager::value_of;
    use crate::route::into_caller;
    use crate::topology::UrlKind;

    impl AsyncShardedConnection<AsyncPgConnection> {
        /// Sets the options of a transaction on this connection before it is run; the twin of
        /// diesel-async's own.
        pub fn build_transaction(&mut self) -> PgTransactionBuilder<'_> {
            PgTransactionBuilder {
                conn: self,
                options: BeginOptions::default(),
            }
        }
    }

    /// Sets the options of one PostgreSQL transaction; the twin of diesel-async's
    /// [`TransactionBuilder`](diesel_async::pg::TransactionBuilder).
    #[derive(Debug)]
    #[must_use = "a transaction builder does nothing until it is run"]
    pub struct PgTransactionBuilder<'a> {
        conn: &'a mut AsyncShardedConnection<AsyncPgConnection>,
        options: BeginOptions,
    }

    impl PgTransactionBuilder<'_> {
        /// Makes the transaction read-only.
        pub fn read_only(mut self) -> Self {
            self.options.read_only = Some(true);
            self
        }

        /// Makes the transaction read-write, whatever the session's default is.
        pub fn read_write(mut self) -> Self {
            self.options.read_only = Some(false);
            self
        }

        /// Makes a serializable, read-only transaction wait until it cannot fail.
        pub fn deferrable(mut self) -> Self {
            self.options.deferrable = Some(true);
            self
        }

        /// Makes the transaction start at once, whatever the session's default is.
        pub fn not_deferrable(mut self) -> Self {
            self.options.deferrable = Some(false);
            self
        }

        /// Sets the isolation level `READ COMMITTED`.
        pub fn read_committed(mut self) -> Self {
            self.options.isolation = Some(Isolation::ReadCommitted);
            self
        }

        /// Sets the isolation level `REPEATABLE READ`.
        pub fn repeatable_read(mut self) -> Self {
            self.options.isolation = Some(Isolation::RepeatableRead);
            self
        }

        /// Sets the isolation level `SERIALIZABLE`.
        pub fn serializable(mut self) -> Self {
            self.options.isolation = Some(Isolation::Serializable);
            self
        }

        /// Runs the transaction.
        ///
        /// # Errors
        ///
        /// Those of the closure and of the transaction; inside another transaction
        /// [`AlreadyInTransaction`](diesel::result::Error::AlreadyInTransaction).
        pub fn run<'a, 's, T, E, F>(
            &'s mut self,
            f: F,
        ) -> impl Future<Output = Result<T, E>> + Send + 's
        where
            for<'r> F: AsyncFnOnce(&'r mut AsyncShardedConnection<AsyncPgConnection>) -> Result<T, E>
                + SendAsyncFn<
                    &'r mut AsyncShardedConnection<AsyncPgConnection>,
                    Result<T, E>,
                    Fut: Send,
                > + Send
                + 'a,
            E: From<DieselError> + Send + 's,
            T: Send + 's,
            'a: 's,
        {
            async move {
                let f = f;
                let mut options = self.options;
                let slot = self.conn.ready().map_err(into_caller)?;
                if slot.notes.flags.any(Flags::SHARD_READ_ONLY) {
                    // The shard says more than the transaction.
                    options.read_only = options.read_only.filter(|read_only| *read_only);
                }
                let mut begin = options
                    .sql(UrlKind::Postgres)
                    .unwrap_or_else(|what| unreachable!("PostgreSQL has {what} transactions"));
                // A plain BEGIN would become a savepoint inside another transaction; this may not.
                begin
                    .sql
                    .get_or_insert_with(|| "BEGIN TRANSACTION".to_owned());
                let ended = self.conn.scope_with(&begin, f, Outcome::Commit).await?;
                Ok(value_of(ended))
            }
        }
    }
}

#[cfg(feature = "async-sqlite")]
mod sqlite {
    use std::future::Future;

    use diesel::SqliteConnection;
    use diesel::result::Error as DieselError;
    use diesel_async::sync_connection_wrapper::SyncConnectionWrapper;

    use crate::driver::Outcome;
    use crate::nonblocking::AsyncShardedConnection;
    use crate::nonblocking::closure::SendAsyncFn;
    use crate::nonblocking::transaction_manager::value_of;

    type Wrapped = SyncConnectionWrapper<SqliteConnection>;

    impl AsyncShardedConnection<Wrapped> {
        /// Runs a transaction that takes the write lock at its start (`BEGIN IMMEDIATE`).
        ///
        /// # Errors
        ///
        /// Those of the closure and of the transaction; inside another transaction
        /// [`AlreadyInTransaction`](diesel::result::Error::AlreadyInTransaction).
        pub fn immediate_transaction<'a, 's, T, E, F>(
            &'s mut self,
            f: F,
        ) -> impl Future<Output = Result<T, E>> + Send + 's
        where
            for<'r> F: AsyncFnOnce(&'r mut Self) -> Result<T, E>
                + SendAsyncFn<&'r mut Self, Result<T, E>, Fut: Send>
                + Send
                + 'a,
            E: From<DieselError> + Send + 's,
            T: Send + 's,
            'a: 's,
        {
            async move {
                let f = f;
                let ended = self.scope(Some("BEGIN IMMEDIATE"), f, Outcome::Commit);
                Ok(value_of(ended.await?))
            }
        }

        /// Runs a transaction that keeps every other connection out (`BEGIN EXCLUSIVE`).
        ///
        /// # Errors
        ///
        /// Those of the closure and of the transaction; inside another transaction
        /// [`AlreadyInTransaction`](diesel::result::Error::AlreadyInTransaction).
        pub fn exclusive_transaction<'a, 's, T, E, F>(
            &'s mut self,
            f: F,
        ) -> impl Future<Output = Result<T, E>> + Send + 's
        where
            for<'r> F: AsyncFnOnce(&'r mut Self) -> Result<T, E>
                + SendAsyncFn<&'r mut Self, Result<T, E>, Fut: Send>
                + Send
                + 'a,
            E: From<DieselError> + Send + 's,
            T: Send + 's,
            'a: 's,
        {
            async move {
                let f = f;
                let ended = self.scope(Some("BEGIN EXCLUSIVE"), f, Outcome::Commit);
                Ok(value_of(ended.await?))
            }
        }
    }
}

#[cfg(feature = "async-postgres")]
pub use postgres::PgTransactionBuilder;
