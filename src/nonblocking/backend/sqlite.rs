use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake};
use std::thread::Thread;

use diesel::backend::Backend;
use diesel::connection::{
    AnsiTransactionManager, Connection, SimpleConnection, TransactionManager,
    TransactionManagerStatus,
};
use diesel::query_builder::{
    AsQuery, CollectedQuery, MoveableBindCollector, QueryFragment, QueryId,
};
use diesel::result::Error as DieselError;
use diesel::sqlite::Sqlite;
use diesel::{ConnectionError, ConnectionResult, QueryResult, SqliteConnection};
use diesel_async::sync_connection_wrapper::SyncConnectionWrapper;
use diesel_async::{AsyncConnection, AsyncConnectionCore, SimpleAsyncConnection};

use super::{AsyncNodeConnection, StatementStart};
use crate::driver::{BindValue, IdentityRow, QueryText, TransactionProbe, Watch, binds, probe};
use crate::topology::UrlKind;

type Binds<'a> = <Sqlite as Backend>::BindCollector<'a>;
type Collected = CollectedQuery<<Binds<'static> as MoveableBindCollector<Sqlite>>::BindData>;

impl AsyncNodeConnection for SyncConnectionWrapper<SqliteConnection> {
    /// A statement that was handed to a blocking thread runs to its end.
    const SURVIVES_INTERRUPTION: bool = true;

    fn accepts(kind: UrlKind) -> bool {
        kind == UrlKind::Sqlite
    }

    /// Sets a busy timeout of five seconds: SQLite's own default is none at all, and a pool of
    /// connections to one file would answer "database is locked" at once.
    async fn connect(_: UrlKind, url: &str) -> ConnectionResult<Self> {
        let mut conn = Self::establish(url).await?;
        conn.batch_execute("PRAGMA busy_timeout = 5000")
            .await
            .map_err(ConnectionError::CouldntSetupConfiguration)?;
        Ok(conn)
    }

    fn kind(&self) -> UrlKind {
        UrlKind::Sqlite
    }

    async fn begin_with(&mut self, sql: &str) -> QueryResult<()> {
        let sql = sql.to_owned();
        self.spawn_blocking(move |conn| AnsiTransactionManager::begin_transaction_sql(conn, &sql))
            .await
    }

    async fn probe(&mut self) -> TransactionProbe {
        self.spawn_blocking(|conn| Ok(locally(conn)))
            .await
            .unwrap_or(TransactionProbe::Broken)
    }

    fn probe_here(&mut self) -> Option<TransactionProbe> {
        let probed = wait_here(self.spawn_blocking(|conn| {
            let mute = |conn: &mut SqliteConnection, muted| {
                if let Some(watch) = conn.instrumentation().downcast_mut::<Watch>() {
                    watch.muted = muted;
                }
            };
            mute(conn, true);
            let found = locally(conn);
            mute(conn, false);
            Ok(found)
        }));
        Some(probed.unwrap_or(TransactionProbe::Broken))
    }

    async fn close_transactions(&mut self, _: Option<&str>) -> QueryResult<()> {
        self.spawn_blocking(|conn| {
            match locally(conn) {
                TransactionProbe::Idle => {}
                TransactionProbe::Open | TransactionProbe::Failed => {
                    conn.batch_execute("ROLLBACK")?;
                }
                TransactionProbe::Broken | TransactionProbe::Unknown => {
                    return Err(DieselError::BrokenTransactionManager);
                }
            }
            *AnsiTransactionManager::transaction_manager_status_mut(conn) =
                TransactionManagerStatus::default();
            Ok(())
        })
        .await
    }

    /// The wrapper's lock is poisoned by the panic; its next job takes the poison away.
    async fn recover(&mut self) -> QueryResult<()> {
        self.spawn_blocking(|_| Ok(())).await
    }

    /// There is no statement that takes back pragmas, attached databases and temporary tables, so a
    /// connection that may have some is closed.
    async fn reset_session(&mut self, dirty: bool) -> QueryResult<bool> {
        Ok(!dirty)
    }

    /// There is none that changes it.
    async fn unfit_settings(&mut self) -> QueryResult<Option<String>> {
        Ok(None)
    }

    async fn read_identity(&mut self) -> QueryResult<Vec<IdentityRow>> {
        super::identity::sqlite::read(self).await
    }

    async fn write_identity(&mut self, rows: &[IdentityRow]) -> QueryResult<()> {
        super::identity::sqlite::write(self, rows).await
    }

    /// diesel-async hands a statement to a blocking thread as soon as it is asked for its future.
    fn start_load<'conn, 'query, T>(
        &'conn mut self,
        query: T,
    ) -> StatementStart<'conn, <Self as AsyncConnectionCore>::LoadFuture<'conn, 'query>>
    where
        T: AsQuery + 'query,
        T::Query: QueryFragment<Sqlite> + QueryId + 'query,
    {
        let query = query.as_query();
        match collected(&query) {
            Ok(collected) => StatementStart::AtFirstPoll(Box::new(move || self.load(collected))),
            // It answers the error, and runs nothing.
            Err(_) => StatementStart::Made(self.load(query)),
        }
    }

    fn start_execute<'conn, 'query, T>(
        &'conn mut self,
        query: T,
    ) -> StatementStart<'conn, <Self as AsyncConnectionCore>::ExecuteFuture<'conn, 'query>>
    where
        T: QueryFragment<Sqlite> + QueryId + 'query,
    {
        match collected(&query) {
            Ok(collected) => StatementStart::AtFirstPoll(Box::new(move || {
                self.execute_returning_count(collected)
            })),
            Err(_) => StatementStart::Made(self.execute_returning_count(query)),
        }
    }

    fn text_of<T>(query: &T) -> QueryResult<QueryText>
    where
        T: QueryFragment<Sqlite>,
    {
        QueryText::of(
            query,
            diesel::sqlite::SqliteQueryBuilder::default(),
            &Sqlite,
        )
    }

    fn binds_of<T>(query: &T) -> QueryResult<Vec<BindValue>>
    where
        T: QueryFragment<Sqlite>,
    {
        binds::sqlite::of_query(query)
    }
}

/// A statement apart from the query that it was made of, which another thread may not be allowed to see.
fn collected<T>(query: &T) -> QueryResult<Collected>
where
    T: QueryFragment<Sqlite>,
{
    let mut binds = Binds::default();
    query.collect_binds(&mut binds, &mut (), &Sqlite)?;
    let QueryText { text, cacheable } = SyncConnectionWrapper::text_of(query)?;
    Ok(CollectedQuery::new(text, cacheable, binds.moveable()))
}

/// Waits on this thread, where nothing can be awaited: for a job that takes no time once the statement
/// before it is through, which diesel-async waits for in the same way when it makes the next one.
fn wait_here<T>(job: impl Future<Output = T>) -> T {
    struct Unpark(Thread);

    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }

    let waker = Arc::new(Unpark(std::thread::current())).into();
    let mut context = Context::from_waker(&waker);
    // Outside of tokio's budget, which only the end of this poll would renew.
    let mut job = pin!(tokio::task::unconstrained(job));
    loop {
        match job.as_mut().poll(&mut context) {
            Poll::Ready(value) => return value,
            Poll::Pending => std::thread::park(),
        }
    }
}

/// A text with a NUL in it cannot even be handed to SQLite; after any failure Diesel looks at
/// SQLite's autocommit flag.
fn locally(conn: &mut SqliteConnection) -> TransactionProbe {
    probe(conn, |conn| {
        let _ = conn.batch_execute("\0");
    })
}
