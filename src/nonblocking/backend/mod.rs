//! What the driver needs to know of each connection type: one small trait, one file per backend.

#[cfg(any(
    feature = "async-sqlite",
    feature = "async-postgres",
    feature = "async-mysql"
))]
mod identity;
#[cfg(feature = "async-mysql")]
mod mysql;
#[cfg(feature = "async-postgres")]
mod postgres;
#[cfg(feature = "async-postgres")]
mod postgres_connect;
#[cfg(feature = "async-sqlite")]
mod sqlite;
#[cfg(feature = "rustls")]
mod tls;

use std::fmt;
use std::future::Future;

use diesel::query_builder::{AsQuery, QueryFragment, QueryId};
use diesel::result::Error as DieselError;
use diesel::{ConnectionResult, QueryResult};
#[cfg(any(feature = "async-postgres", feature = "async-mysql"))]
use diesel_async::AnsiTransactionManager;
use diesel_async::{AsyncConnection, AsyncConnectionCore, TransactionManager};

use crate::driver::{BindValue, IdentityRow, QueryText, TransactionProbe};
use crate::error::RollbackReason;
use crate::topology::{DatabaseUrl, UrlKind};

/// A diesel-async connection type that can be the physical connection of a node.
///
/// Implemented for [`AsyncPgConnection`](diesel_async::AsyncPgConnection),
/// [`AsyncMysqlConnection`](diesel_async::AsyncMysqlConnection) and
/// [`SyncConnectionWrapper<SqliteConnection>`](diesel_async::sync_connection_wrapper::SyncConnectionWrapper)
/// behind their features.
///
/// Unless a method says otherwise its future may be dropped at any point; the driver then puts the
/// connection through [`close_transactions`](Self::close_transactions) before anybody else gets it,
/// or closes it.
pub trait AsyncNodeConnection: AsyncConnection + 'static {
    /// Whether a connection can be used on after the future of a statement was dropped half-way.
    ///
    /// Where not, its answer would be taken for that of the next statement, so the connection refuses
    /// further statements and is closed.
    const SURVIVES_INTERRUPTION: bool;

    /// Whether this type can connect to URLs of this kind.
    fn accepts(kind: UrlKind) -> bool;

    /// What this type cannot honour in a URL: a parameter that it would ignore could be the one that
    /// asks for encryption. The texts hold no value of any parameter. Not asked where the application
    /// connects by a function of its own. Defaults to nothing.
    fn url_problems(url: &DatabaseUrl) -> Vec<String> {
        let _ = url;
        Vec::new()
    }

    /// Connects. Called once per physical connection, under the node's `connect_timeout`.
    ///
    /// # Errors
    ///
    /// What the driver says.
    fn connect(kind: UrlKind, url: &str) -> impl Future<Output = ConnectionResult<Self>> + Send;

    /// The backend behind this connection.
    fn kind(&self) -> UrlKind;

    /// Asks the server for an answer of any kind.
    ///
    /// # Errors
    ///
    /// What the driver says.
    fn ping(&mut self) -> impl Future<Output = QueryResult<()>> + Send {
        async { self.batch_execute("SELECT 1").await }
    }

    /// Starts a transaction with this statement, so that Diesel knows of it.
    ///
    /// # Errors
    ///
    /// What the driver says, and `AlreadyInTransaction` where Diesel knows of an open one.
    fn begin_with(&mut self, sql: &str) -> impl Future<Output = QueryResult<()>> + Send;

    /// Commits the outermost transaction where it is doubtful that there is one that can be committed,
    /// and finds that out in the same round trip. Called on PostgreSQL only.
    ///
    /// # Errors
    ///
    /// Why nothing was committed. After [`RollbackReason::FailedStatement`] the transaction is still
    /// open, after anything else it is not, and Diesel knows.
    fn commit_doubtful(&mut self) -> impl Future<Output = Result<(), CommitRefused>> + Send {
        async {
            Self::TransactionManager::commit_transaction(self)
                .await
                .map_err(CommitRefused::Failed)
        }
    }

    /// Lets diesel-async forget that a future of its transaction manager was dropped half-way, which
    /// it takes for the end of the connection. What it believes of the transaction stays.
    fn forget_interruption(&mut self) {}

    /// Finds out whether a transaction is open: of the client library where it knows (SQLite), else of
    /// the server (PostgreSQL: one round trip). Called only where something has happened that makes it
    /// doubtful.
    fn probe(&mut self) -> impl Future<Output = TransactionProbe> + Send;

    /// The same at once and unseen by the user's instrumentation, before a statement of a transaction
    /// of which it is doubtful whether it is still there. Only of a client library that knows by itself
    /// (SQLite); `None`: the server refuses such a statement.
    fn probe_here(&mut self) -> Option<TransactionProbe> {
        None
    }

    /// Makes sure that no transaction is open, whatever was before and whatever Diesel believes, and
    /// that Diesel knows it. One round trip.
    ///
    /// `home`: the MySQL database that the session is sent back to.
    ///
    /// # Errors
    ///
    /// What the driver says; the connection is closed then.
    fn close_transactions(
        &mut self,
        home: Option<&str>,
    ) -> impl Future<Output = QueryResult<()>> + Send;

    /// Makes the connection able to answer after a panic in code of the user's that ran inside it.
    ///
    /// # Errors
    ///
    /// The connection is closed then.
    fn recover(&mut self) -> impl Future<Output = QueryResult<()>> + Send {
        async { Ok(()) }
    }

    /// Takes back what a user may have set in the session: settings, role, locks, temporary tables.
    /// `dirty`: something ran that the crate has not seen through.
    ///
    /// `Ok(false)`: that cannot be done on this backend, close the connection.
    ///
    /// # Errors
    ///
    /// What the driver says; the connection is closed then too.
    fn reset_session(&mut self, dirty: bool) -> impl Future<Output = QueryResult<bool>> + Send;

    /// Asks the session whether it reads texts by its backend's default settings; answers what differs and
    /// what is to be done. Asked on shards with sharded tables only.
    ///
    /// # Errors
    ///
    /// What the driver says.
    fn unfit_settings(&mut self) -> impl Future<Output = QueryResult<Option<String>>> + Send;

    /// Reads `diesel_sharded_identity`; no rows where there is no such table.
    ///
    /// # Errors
    ///
    /// What the driver says.
    fn read_identity(&mut self) -> impl Future<Output = QueryResult<Vec<IdentityRow>>> + Send;

    /// Writes rows of `diesel_sharded_identity`, each in place of one that is there; makes the table
    /// where it is missing.
    ///
    /// # Errors
    ///
    /// What the driver says.
    fn write_identity(
        &mut self,
        rows: &[IdentityRow],
    ) -> impl Future<Output = QueryResult<()>> + Send;

    /// Makes the future of a query whose rows are wanted. Nothing may start before it is polled: what the
    /// statement was made for may turn out to be wrong there.
    ///
    /// Defaults to diesel-async's own `load`.
    fn start_load<'conn, 'query, T>(
        &'conn mut self,
        query: T,
    ) -> StatementStart<'conn, <Self as AsyncConnectionCore>::LoadFuture<'conn, 'query>>
    where
        T: AsQuery + 'query,
        T::Query: QueryFragment<<Self as AsyncConnectionCore>::Backend> + QueryId + 'query,
    {
        StatementStart::Made(self.load(query))
    }

    /// The same of a statement whose number of rows is wanted.
    fn start_execute<'conn, 'query, T>(
        &'conn mut self,
        query: T,
    ) -> StatementStart<'conn, <Self as AsyncConnectionCore>::ExecuteFuture<'conn, 'query>>
    where
        T: QueryFragment<<Self as AsyncConnectionCore>::Backend> + QueryId + 'query,
    {
        StatementStart::Made(self.execute_returning_count(query))
    }

    /// The text of a query.
    ///
    /// # Errors
    ///
    /// What Diesel says of a query that has none.
    fn text_of<T>(query: &T) -> QueryResult<QueryText>
    where
        T: QueryFragment<<Self as AsyncConnectionCore>::Backend>;

    /// The values that a query binds, in their order.
    ///
    /// # Errors
    ///
    /// What Diesel says of a value that cannot be sent.
    fn binds_of<T>(query: &T) -> QueryResult<Vec<BindValue>>
    where
        T: QueryFragment<<Self as AsyncConnectionCore>::Backend>;
}

/// The future of a statement, or how it is made once it is polled.
pub enum StatementStart<'conn, F> {
    /// A future that does nothing until it is polled.
    Made(F),
    /// What makes it, where the future starts its work as soon as it is made.
    AtFirstPoll(Box<dyn FnOnce() -> F + Send + 'conn>),
}

impl<F> fmt::Debug for StatementStart<'_, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Made(_) => "Made",
            Self::AtFirstPoll(_) => "AtFirstPoll",
        })
    }
}

/// Why a doubtful commit came to nothing.
#[derive(Debug)]
#[non_exhaustive]
pub enum CommitRefused {
    /// There was nothing that could be committed.
    Because(RollbackReason),
    /// The server refused the `COMMIT`, or was not there to answer it.
    Failed(DieselError),
}

/// What diesel-async's own transaction manager needs to forget.
#[cfg(any(feature = "async-postgres", feature = "async-mysql"))]
fn forget_interruption<C>(conn: &mut C)
where
    C: AsyncConnection<TransactionManager = AnsiTransactionManager>,
{
    let believed = std::mem::take(AnsiTransactionManager::transaction_manager_status_mut(conn));
    *conn.transaction_state() = AnsiTransactionManager::default();
    *AnsiTransactionManager::transaction_manager_status_mut(conn) = believed;
}
