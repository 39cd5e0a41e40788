//! A nonblocking connection as Diesel's blocking one.

use std::fmt;
use std::pin::Pin;

use diesel::associations::HasTable;
use diesel::connection::{
    CacheSize, Connection, ConnectionSealed, Instrumentation, LoadConnection, SimpleConnection,
    TransactionManager, TransactionManagerStatus,
};
use diesel::expression::QueryMetadata;
use diesel::migration::{CREATE_MIGRATIONS_TABLE, MigrationConnection};
use diesel::query_builder::{Query, QueryFragment, QueryId};
use diesel::query_dsl::UpdateAndFetchResults;
use diesel::r2d2::R2D2Connection;
use diesel::{ConnectionResult, Identifiable, QueryResult};
use diesel_async::{
    AsyncConnection, AsyncConnectionCore, SimpleAsyncConnection as _,
    TransactionManager as AsyncTransactionManager,
};
use futures_util::{Stream, StreamExt as _};

use super::wait;

/// Where a [`View`] has its connection.
pub(crate) trait Holds: Send {
    type Conn: AsyncConnection;

    fn establish(url: &str) -> ConnectionResult<Self>
    where
        Self: Sized;

    fn held(&mut self) -> &mut Self::Conn;

    /// A transaction with a blocking body; for a connection that cannot be lent, the steps of the
    /// connection's own.
    fn transaction<T, E>(
        view: &mut View<Self>,
        body: impl FnOnce(&mut View<Self>) -> Result<T, E>,
    ) -> Result<T, E>
    where
        Self: Sized,
        E: From<diesel::result::Error>,
    {
        ViewTransactions::begin_transaction(view)?;
        match body(view) {
            Ok(value) => {
                ViewTransactions::commit_transaction(view)?;
                Ok(value)
            }
            Err(error) => {
                ViewTransactions::rollback_transaction(view)?;
                Err(error)
            }
        }
    }
}

/// A nonblocking connection whose every call waits.
pub(crate) struct View<H>(pub(super) H);

/// A connection that belongs to somebody else.
pub(crate) struct Borrowed<'a, A>(pub(crate) &'a mut A);

impl<A: AsyncConnection> Holds for Borrowed<'_, A> {
    type Conn = A;

    fn establish(_: &str) -> ConnectionResult<Self> {
        unreachable!("what is borrowed is there")
    }

    fn held(&mut self) -> &mut A {
        self.0
    }
}

/// A connection of diesel-async's own, to compare with.
pub(crate) struct Plain<A>(A);

impl<A> View<Plain<A>> {
    pub(crate) fn plain(conn: A) -> Self {
        Self(Plain(conn))
    }
}

impl<A: AsyncConnection> Holds for Plain<A> {
    type Conn = A;

    fn establish(url: &str) -> ConnectionResult<Self> {
        wait(A::establish(url)).map(Self)
    }

    fn held(&mut self) -> &mut A {
        &mut self.0
    }
}

impl<H> fmt::Debug for View<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a nonblocking connection")
    }
}

impl<H: Holds> SimpleConnection for View<H> {
    fn batch_execute(&mut self, query: &str) -> QueryResult<()> {
        wait(self.0.held().batch_execute(query))
    }
}

impl<H: Holds> ConnectionSealed for View<H> {}

impl<H: Holds> Connection for View<H> {
    type Backend = <H::Conn as AsyncConnectionCore>::Backend;
    type TransactionManager = ViewTransactions;

    fn establish(url: &str) -> ConnectionResult<Self> {
        H::establish(url).map(Self)
    }

    fn execute_returning_count<T>(&mut self, source: &T) -> QueryResult<usize>
    where
        T: QueryFragment<Self::Backend> + QueryId,
    {
        wait(self.0.held().execute_returning_count(source))
    }

    fn transaction_state(&mut self) -> &mut State<H> {
        self.0.held().transaction_state()
    }

    fn instrumentation(&mut self) -> &mut dyn Instrumentation {
        self.0.held().instrumentation()
    }

    fn set_instrumentation(&mut self, instrumentation: impl Instrumentation) {
        self.0.held().set_instrumentation(instrumentation);
    }

    fn set_prepared_statement_cache_size(&mut self, size: CacheSize) {
        self.0.held().set_prepared_statement_cache_size(size);
    }

    fn begin_test_transaction(&mut self) -> QueryResult<()> {
        wait(self.0.held().begin_test_transaction())
    }
}

impl<H: Holds> LoadConnection for View<H> {
    type Cursor<'conn, 'query>
        = Rows<<H::Conn as AsyncConnectionCore>::Stream<'conn, 'query>>
    where
        Self: 'conn;
    type Row<'conn, 'query>
        = <H::Conn as AsyncConnectionCore>::Row<'conn, 'query>
    where
        Self: 'conn;

    fn load<'conn, 'query, T>(
        &'conn mut self,
        source: T,
    ) -> QueryResult<Self::Cursor<'conn, 'query>>
    where
        T: Query + QueryFragment<Self::Backend> + QueryId + 'query,
        Self::Backend: QueryMetadata<T::SqlType>,
    {
        let stream = wait(self.0.held().load(source))?;
        Ok(Rows(Box::pin(stream)))
    }
}

/// A stream of rows, waited for one by one.
pub(crate) struct Rows<S>(Pin<Box<S>>);

impl<S: Stream> Iterator for Rows<S> {
    type Item = S::Item;

    fn next(&mut self) -> Option<S::Item> {
        wait(self.0.next())
    }
}

impl<H: Holds + 'static> R2D2Connection for View<H> {
    fn ping(&mut self) -> QueryResult<()> {
        self.batch_execute("SELECT 1")
    }

    fn is_broken(&mut self) -> bool {
        ViewTransactions::is_broken_transaction_manager(self)
    }
}

impl<H, Changes, Output> UpdateAndFetchResults<Changes, Output> for View<H>
where
    H: Holds,
    H::Conn: diesel_async::UpdateAndFetchResults<Changes, Output>,
    Changes: Identifiable + HasTable,
{
    fn update_and_fetch(&mut self, changeset: Changes) -> QueryResult<Output> {
        wait(diesel_async::UpdateAndFetchResults::update_and_fetch(
            self.0.held(),
            changeset,
        ))
    }
}

impl<H: Holds> MigrationConnection for View<H> {
    fn setup(&mut self) -> QueryResult<usize> {
        self.batch_execute(CREATE_MIGRATIONS_TABLE).map(|()| 0)
    }
}

/// The connection's own transaction manager, waited for.
pub(crate) struct ViewTransactions;

type Manager<H> = <<H as Holds>::Conn as AsyncConnection>::TransactionManager;
type State<H> = <Manager<H> as AsyncTransactionManager<<H as Holds>::Conn>>::TransactionStateData;

impl<H: Holds> TransactionManager<View<H>> for ViewTransactions {
    type TransactionStateData = State<H>;

    fn begin_transaction(conn: &mut View<H>) -> QueryResult<()> {
        wait(Manager::<H>::begin_transaction(conn.0.held()))
    }

    fn rollback_transaction(conn: &mut View<H>) -> QueryResult<()> {
        wait(Manager::<H>::rollback_transaction(conn.0.held()))
    }

    fn commit_transaction(conn: &mut View<H>) -> QueryResult<()> {
        wait(Manager::<H>::commit_transaction(conn.0.held()))
    }

    fn transaction_manager_status_mut(conn: &mut View<H>) -> &mut TransactionManagerStatus {
        Manager::<H>::transaction_manager_status_mut(conn.0.held())
    }

    fn transaction<F, T, E>(conn: &mut View<H>, body: F) -> Result<T, E>
    where
        F: FnOnce(&mut View<H>) -> Result<T, E>,
        E: From<diesel::result::Error>,
    {
        H::transaction(conn, body)
    }

    fn is_broken_transaction_manager(conn: &mut View<H>) -> bool {
        Manager::<H>::is_broken_transaction_manager(conn.0.held())
    }
}
