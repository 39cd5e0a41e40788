//! What the backends' own connection types offer beyond Diesel's traits, on our connection.
//!
//! Each inherent method of theirs that takes a closure or starts a transaction has a twin here;
//! otherwise a call would silently reach the raw connection through `DerefMut`, past the checks.

#[cfg(feature = "postgres")]
mod postgres {
    use diesel::pg::{CopyFromQuery, Pg, PgQueryBuilder};
    use diesel::prelude::ExecuteCopyFromDsl;
    use diesel::query_builder::{QueryBuilder, QueryFragment};
    use diesel::result::Error as DieselError;
    use diesel::{PgConnection, QueryResult, QuerySource};

    use crate::blocking::ShardedConnection;
    use crate::blocking::connection::Ready;
    use crate::driver::{BeginOptions, Flags, Isolation, Outcome};
    use crate::route::into_caller;
    use crate::topology::UrlKind;

    impl ShardedConnection<PgConnection> {
        /// Builds a transaction with options, as
        /// [`PgConnection::build_transaction`](diesel::PgConnection::build_transaction) does.
        pub fn build_transaction(&mut self) -> PgTransactionBuilder<'_> {
            PgTransactionBuilder {
                conn: self,
                options: BeginOptions::default(),
            }
        }
    }

    /// Sets the options of one PostgreSQL transaction; the twin of Diesel's
    /// [`TransactionBuilder`](diesel::pg::TransactionBuilder).
    #[derive(Debug)]
    #[must_use = "a transaction builder does nothing until it is run"]
    pub struct PgTransactionBuilder<'a> {
        conn: &'a mut ShardedConnection<PgConnection>,
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
        pub fn run<T, E, F>(&mut self, f: F) -> Result<T, E>
        where
            F: FnOnce(&mut ShardedConnection<PgConnection>) -> Result<T, E>,
            E: From<DieselError>,
        {
            let mut options = self.options;
            if self
                .conn
                .ready()
                .map_err(into_caller)?
                .notes
                .flags
                .any(Flags::SHARD_READ_ONLY)
            {
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
            self.conn
                .scope_with(&begin, |conn| f(conn).map(Outcome::Commit))
        }
    }

    impl ShardedConnection<PgConnection> {
        /// Fails where what stands in the place of a table is a sharded one. It is known without a route: under one
        /// with tables nothing reaches the raw connection.
        fn refuse_sharded<F: QueryFragment<Pg>>(&mut self, table: &F) -> QueryResult<()> {
            let Ready { slot, meant } = self.ready_with_tables()?;
            if slot.tables.is_needed() {
                let mut text = PgQueryBuilder::new();
                text.push_sql("SELECT * FROM ");
                table.to_sql(&mut text, &Pg)?;
                let check = |check: &dyn Fn(&_) -> _| meant.topology.with_current(check);
                let shard = slot.notes.shard;
                slot.tables.plan_text(shard, None, &text.finish(), check)?;
            }
            Ok(())
        }
    }

    impl<T, A> ExecuteCopyFromDsl<ShardedConnection<PgConnection>> for CopyFromQuery<T, A>
    where
        T: QuerySource + Default,
        T::FromClause: QueryFragment<Pg>,
        Self: ExecuteCopyFromDsl<PgConnection>,
        <Self as ExecuteCopyFromDsl<PgConnection>>::Error: From<DieselError>,
    {
        type Error = <Self as ExecuteCopyFromDsl<PgConnection>>::Error;

        fn execute(
            self,
            conn: &mut ShardedConnection<PgConnection>,
        ) -> Result<usize, <Self as ExecuteCopyFromDsl<PgConnection>>::Error> {
            // Under a route with tables nothing is copied, whatever the table.
            conn.inner()?;
            conn.refuse_sharded(&T::default().from_clause())?;
            // Diesel does not look at the connection after a COPY, so nothing is assumed of it.
            ExecuteCopyFromDsl::execute(self, conn.inner()?)
        }
    }
}

#[cfg(feature = "sqlite")]
mod sqlite {
    use diesel::SqliteConnection;
    use diesel::result::Error as DieselError;

    use crate::blocking::ShardedConnection;
    use crate::driver::Outcome;

    impl ShardedConnection<SqliteConnection> {
        /// Runs a transaction that takes the write lock at its start (`BEGIN IMMEDIATE`).
        ///
        /// # Errors
        ///
        /// Those of the closure and of the transaction; inside another transaction
        /// [`AlreadyInTransaction`](diesel::result::Error::AlreadyInTransaction).
        pub fn immediate_transaction<T, E, F>(&mut self, f: F) -> Result<T, E>
        where
            F: FnOnce(&mut Self) -> Result<T, E>,
            E: From<DieselError>,
        {
            self.scope(Some("BEGIN IMMEDIATE"), |conn| f(conn).map(Outcome::Commit))
        }

        /// Runs a transaction that keeps every other connection out (`BEGIN EXCLUSIVE`).
        ///
        /// # Errors
        ///
        /// Those of the closure and of the transaction; inside another transaction
        /// [`AlreadyInTransaction`](diesel::result::Error::AlreadyInTransaction).
        pub fn exclusive_transaction<T, E, F>(&mut self, f: F) -> Result<T, E>
        where
            F: FnOnce(&mut Self) -> Result<T, E>,
            E: From<DieselError>,
        {
            self.scope(Some("BEGIN EXCLUSIVE"), |conn| f(conn).map(Outcome::Commit))
        }
    }
}

#[cfg(feature = "postgres")]
pub use postgres::PgTransactionBuilder;
