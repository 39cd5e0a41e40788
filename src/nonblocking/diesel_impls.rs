//! diesel-async's connection traits for our connection: each statement is checked, forwarded, and its
//! errors are taken note of.

use diesel::connection::{CacheSize, Instrumentation};
use diesel::query_builder::{AsQuery, QueryFragment, QueryId};
use diesel::result::Error as DieselError;
use diesel::{ConnectionResult, QueryResult};
use diesel_async::pooled_connection::PoolableConnection;
use diesel_async::{
    AsyncConnection, AsyncConnectionCore, SimpleAsyncConnection, TransactionManager,
};

use super::backend::AsyncNodeConnection;
use super::connection::{AsyncShardedConnection, TableRoute};
use super::flight::InFlight;
use super::manager::AsyncShardedConnectionManager;
use super::slot::Slot;
use super::statement::{ExecuteFuture, LoadFuture, ShardedStream};
use super::transaction_manager::ShardedTm;
use crate::driver::{Flags, Notes, Plan, ShardedTmState, TextEffect};
use crate::error::Error;
use crate::route::stack;
use crate::topology::UrlKind;

impl<C: AsyncNodeConnection> SimpleAsyncConnection for AsyncShardedConnection<C> {
    async fn batch_execute(&mut self, query: &str) -> QueryResult<()> {
        self.bind_for_statement().await?;
        let in_transaction = self.tm.depth() > 0;
        let tables = self.table_route();
        let slot = self.ready()?;
        take_text(&slot.notes, Some(query), in_transaction);
        let plan = plan_text(slot, &tables, query)?;
        let query = plan.as_ref().map_or(query, |plan| &*plan.text);
        let flight = InFlight::new::<C>(&slot.notes);
        let result = slot.conn.batch_execute(query).await;
        flight.landed();
        result.map_err(|error| slot.failed(error))
    }
}

impl<C: AsyncNodeConnection> AsyncConnectionCore for AsyncShardedConnection<C> {
    type ExecuteFuture<'conn, 'query> =
        ExecuteFuture<'conn, <C as AsyncConnectionCore>::ExecuteFuture<'conn, 'query>>;
    type LoadFuture<'conn, 'query> =
        LoadFuture<'conn, <C as AsyncConnectionCore>::LoadFuture<'conn, 'query>>;
    type Stream<'conn, 'query> =
        ShardedStream<'conn, <C as AsyncConnectionCore>::Stream<'conn, 'query>>;
    type Row<'conn, 'query> = <C as AsyncConnectionCore>::Row<'conn, 'query>;
    type Backend = <C as AsyncConnectionCore>::Backend;

    fn load<'conn, 'query, T>(&'conn mut self, source: T) -> Self::LoadFuture<'conn, 'query>
    where
        T: AsQuery + 'query,
        T::Query: QueryFragment<Self::Backend> + QueryId + 'query,
    {
        let in_transaction = self.tm.depth() > 0;
        let (tables, mut under, slot) = self.start_statement();
        let made = slot.map_err(DieselError::from).and_then(|slot| {
            let query = source.as_query();
            before_statement::<C, _>(&slot.notes, &query, in_transaction);
            let rows = match plan::<C, _>(slot, &tables, &query)? {
                None => slot.conn.start_load(query),
                Some(plan) => {
                    under.planned();
                    slot.conn.start_load(plan.of(query))
                }
            };
            Ok((rows, InFlight::waiting::<C>(&slot.notes)))
        });
        LoadFuture::new(under, made)
    }

    fn execute_returning_count<'conn, 'query, T>(
        &'conn mut self,
        source: T,
    ) -> Self::ExecuteFuture<'conn, 'query>
    where
        T: QueryFragment<Self::Backend> + QueryId + 'query,
    {
        let in_transaction = self.tm.depth() > 0;
        let (tables, mut under, slot) = self.start_statement();
        let made = slot.map_err(DieselError::from).and_then(|slot| {
            before_statement::<C, _>(&slot.notes, &source, in_transaction);
            let count = match plan::<C, _>(slot, &tables, &source)? {
                None => slot.conn.start_execute(source),
                Some(plan) => {
                    under.planned();
                    slot.conn.start_execute(plan.of(source))
                }
            };
            Ok((count, InFlight::waiting::<C>(&slot.notes)))
        });
        ExecuteFuture::new(under, made)
    }
}

impl<C: AsyncNodeConnection> AsyncConnection for AsyncShardedConnection<C> {
    type TransactionManager = ShardedTm<C::TransactionManager>;

    /// Connects to one database as to a topology of one shard, named `default`.
    ///
    /// For code that is given a URL and nothing else, such as test suites written for a plain
    /// connection.
    async fn establish(database_url: &str) -> ConnectionResult<Self> {
        let one_shard = async {
            AsyncShardedConnectionManager::builder()
                .shard("default", database_url)
                .default_shard("default")
                .pool(crate::topology::PoolConfig::new().max_size(1))
                .build()
                .await?
                .get_on("default")
                .await
        };
        one_shard.await.map_err(|error| match error {
            Error::Unavailable {
                source: Some(source),
                ..
            } => diesel::ConnectionError::BadConnection(source.to_string()),
            other => diesel::ConnectionError::InvalidConnectionUrl(other.to_string()),
        })
    }

    async fn begin_test_transaction(&mut self) -> QueryResult<()> {
        let by_the_pool = self.handle.as_ref().is_some_and(|handle| handle.fresh);
        if by_the_pool && self.lease.is_none() && stack::top(self.topology).is_none() {
            return Err(DieselError::QueryBuilderError(
                "a test transaction cannot be opened by an outer pool (a customizer): its \
                 connections belong to no shard until they are checked out under a route; use \
                 `test_transactions()` of the manager, or begin the test transaction on a \
                 checked-out connection"
                    .into(),
            ));
        }
        Self::TransactionManager::begin_transaction(self).await?;
        let depth = Self::TransactionManager::transaction_manager_status_mut(self)
            .transaction_depth()?
            .map_or(0, std::num::NonZeroU32::get);
        assert_eq!(depth, 1, "a test transaction is the outermost transaction");
        Self::TransactionManager::transaction_manager_status_mut(self).set_test_transaction_flag();
        self.tm.hand_over_to_test();
        Ok(())
    }

    fn transaction_state(&mut self) -> &mut ShardedTmState {
        &mut self.tm
    }

    fn instrumentation(&mut self) -> &mut dyn Instrumentation {
        match (&mut self.lease, &mut self.handle) {
            (Some(lease), _) => lease.slot_mut().instrumentation(),
            (None, Some(handle)) => &mut **handle
                .instrumentation
                .get_mut()
                .unwrap_or_else(std::sync::PoisonError::into_inner),
            (None, None) => unreachable!("a connection without a handle is always bound"),
        }
    }

    fn set_instrumentation(&mut self, instrumentation: impl Instrumentation) {
        match (&mut self.lease, &mut self.handle) {
            (Some(lease), _) => {
                lease
                    .slot_mut()
                    .swap_instrumentation(instrumentation.into());
            }
            (None, Some(handle)) => {
                handle.instrumentation = std::sync::Mutex::new(instrumentation.into());
            }
            (None, None) => {}
        }
    }

    /// Sets the size for this checkout; the next user of the physical connection finds the default.
    fn set_prepared_statement_cache_size(&mut self, size: CacheSize) {
        if let Some(handle) = &mut self.handle {
            handle.cache_size = Some(size);
        }
        if let Some(slot) = self.slot_mut() {
            slot.conn.set_prepared_statement_cache_size(size);
            slot.notes.flags.set(Flags::CACHE_CHANGED);
            slot.rewriter().forget_prepared();
        }
    }
}

/// For pools that expect it, and for `is_broken`; the node pools go by what they know themselves.
impl<C: AsyncNodeConnection> PoolableConnection for AsyncShardedConnection<C> {
    fn is_broken(&mut self) -> bool {
        let unusable = Flags::LOST | Flags::RETIRE | Flags::UNUSABLE;
        self.slot_mut()
            .is_some_and(|slot| slot.notes.flags.any(unusable))
            || <Self as AsyncConnection>::TransactionManager::is_broken_transaction_manager(self)
    }
}

/// The text of a query for the tables of the route; `None`: the query is sent as it is.
fn plan<C, T>(slot: &Slot<C>, tables: &TableRoute, query: &T) -> QueryResult<Option<Plan>>
where
    C: AsyncNodeConnection,
    T: QueryFragment<<C as AsyncConnectionCore>::Backend> + QueryId,
{
    let shard = slot.notes.shard;
    let plan = slot
        .rewriter()
        .plan(shard, T::query_id(), tables.numbers, || C::text_of(query))
        .map_err(|error| tables.explain(shard, error))?;
    if let (Some(plan), Some(topology)) = (&plan, &tables.topology) {
        plan.check_keys(
            shard,
            tables.numbers,
            |check| topology.with_current(check),
            || C::binds_of(query),
        )?;
    }
    Ok(plan)
}

/// The text of a batch for the tables of the route; `None`: it is sent as it is.
fn plan_text<C>(slot: &Slot<C>, tables: &TableRoute, query: &str) -> QueryResult<Option<Plan>>
where
    C: AsyncNodeConnection,
{
    let check = |check: &dyn Fn(&_) -> _| match &tables.topology {
        Some(topology) => topology.with_current(check),
        None => Ok(()),
    };
    let shard = slot.notes.shard;
    slot.rewriter()
        .plan_text(shard, tables.numbers, query, check)
        .map_err(|error| tables.explain(shard, error))
}

/// A statement whose text is not fixed by its type may be anything, a `BEGIN` included.
#[inline]
pub(super) fn before_statement<C, T>(notes: &Notes, source: &T, in_transaction: bool)
where
    C: AsyncNodeConnection,
    T: QueryFragment<<C as AsyncConnectionCore>::Backend> + QueryId,
{
    if !T::HAS_STATIC_QUERY_ID {
        let text = C::text_of(source).ok().map(|query| query.text);
        take_text(notes, text.as_deref(), in_transaction);
    }
}

/// What a text written by hand may do to the transaction.
pub(super) fn take_text(notes: &Notes, text: Option<&str>, in_transaction: bool) {
    let effect = match (text, notes.kind) {
        (None, _) => TextEffect::UNKNOWN,
        (Some(text), UrlKind::Mysql) => TextEffect::of(text),
        (Some(text), UrlKind::Postgres | UrlKind::Sqlite) => TextEffect::of_standard(text),
    };
    if effect.may_open {
        notes.flags.set(Flags::DIRTY | Flags::UNPROBED);
    }
    if effect.may_set {
        notes.flags.set(Flags::SESSION_SET);
    }
    if effect.moves {
        // Whatever the next user asks would be asked of another database.
        notes.flags.set(Flags::RETIRE);
    }
    if effect.ends && in_transaction {
        notes.flags.set(Flags::ENDED_BY_HAND);
    }
}

/// Statements on a shared connection, which PostgreSQL's protocol sends one behind the other without
/// waiting: `try_join!(a.load(&mut &conn), b.load(&mut &conn))`.
#[cfg(feature = "async-postgres")]
mod pipelined {
    use diesel_async::AsyncPgConnection;

    use super::*;
    use crate::nonblocking::backend::StatementStart;

    impl SimpleAsyncConnection for &AsyncShardedConnection<AsyncPgConnection> {
        async fn batch_execute(&mut self, query: &str) -> QueryResult<()> {
            let tables = self.table_route();
            let slot = self.ready_shared()?;
            take_text(&slot.notes, Some(query), self.tm.depth() > 0);
            let plan = plan_text(slot, &tables, query)?;
            let query = plan.as_ref().map_or(query, |plan| &*plan.text);
            let flight = InFlight::new::<AsyncPgConnection>(&slot.notes);
            let result = (&mut &slot.conn).batch_execute(query).await;
            flight.landed();
            result.map_err(|error| slot.failed(error))
        }
    }

    impl<'a> AsyncConnectionCore for &'a AsyncShardedConnection<AsyncPgConnection> {
        type ExecuteFuture<'conn, 'query> = ExecuteFuture<
            'a,
            <&'a AsyncPgConnection as AsyncConnectionCore>::ExecuteFuture<'conn, 'query>,
        >;
        type LoadFuture<'conn, 'query> = LoadFuture<
            'a,
            <&'a AsyncPgConnection as AsyncConnectionCore>::LoadFuture<'conn, 'query>,
        >;
        type Stream<'conn, 'query> = ShardedStream<
            'a,
            <&'a AsyncPgConnection as AsyncConnectionCore>::Stream<'conn, 'query>,
        >;
        type Row<'conn, 'query> =
            <&'a AsyncPgConnection as AsyncConnectionCore>::Row<'conn, 'query>;
        type Backend = diesel::pg::Pg;

        fn load<'conn, 'query, T>(&'conn mut self, source: T) -> Self::LoadFuture<'conn, 'query>
        where
            T: AsQuery + 'query,
            T::Query: QueryFragment<Self::Backend> + QueryId + 'query,
        {
            let shared: &'a AsyncShardedConnection<_> = self;
            let (tables, mut under, slot) = shared.start_shared();
            let made = slot
                .map_err(DieselError::from)
                .and_then(|slot: &'a Slot<_>| {
                    let query = source.as_query();
                    let in_transaction = shared.tm.depth() > 0;
                    before_statement::<AsyncPgConnection, _>(&slot.notes, &query, in_transaction);
                    let conn = &mut &slot.conn;
                    let rows = match plan(slot, &tables, &query)? {
                        None => AsyncConnectionCore::load(conn, query),
                        Some(plan) => {
                            under.planned();
                            AsyncConnectionCore::load(conn, plan.of(query))
                        }
                    };
                    let flight = InFlight::waiting::<AsyncPgConnection>(&slot.notes);
                    Ok((StatementStart::Made(rows), flight))
                });
            LoadFuture::new(under, made)
        }

        fn execute_returning_count<'conn, 'query, T>(
            &'conn mut self,
            source: T,
        ) -> Self::ExecuteFuture<'conn, 'query>
        where
            T: QueryFragment<Self::Backend> + QueryId + 'query,
        {
            let shared: &'a AsyncShardedConnection<_> = self;
            let (tables, mut under, slot) = shared.start_shared();
            let made = slot
                .map_err(DieselError::from)
                .and_then(|slot: &'a Slot<_>| {
                    let in_transaction = shared.tm.depth() > 0;
                    before_statement::<AsyncPgConnection, _>(&slot.notes, &source, in_transaction);
                    let conn = &mut &slot.conn;
                    let count = match plan(slot, &tables, &source)? {
                        None => AsyncConnectionCore::execute_returning_count(conn, source),
                        Some(plan) => {
                            under.planned();
                            AsyncConnectionCore::execute_returning_count(conn, plan.of(source))
                        }
                    };
                    let flight = InFlight::waiting::<AsyncPgConnection>(&slot.notes);
                    Ok((StatementStart::Made(count), flight))
                });
            ExecuteFuture::new(under, made)
        }
    }
}
