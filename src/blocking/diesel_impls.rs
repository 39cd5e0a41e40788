//! Diesel's connection traits for our connection: each statement is checked, forwarded, and its
//! errors are taken note of.

use diesel::connection::{
    CacheSize, Connection, ConnectionSealed, Instrumentation, LoadConnection, SimpleConnection,
    TransactionManager, WithMetadataLookup,
};
use diesel::expression::QueryMetadata;
use diesel::migration::MigrationConnection;
use diesel::query_builder::{Query, QueryFragment, QueryId};
use diesel::r2d2::R2D2Connection;
use diesel::result::Error as DieselError;
use diesel::{ConnectionResult, QueryResult};

use super::backend::NodeConnection;
use super::connection::{Meant, Ready, ShardedConnection};
use super::manager::ShardedConnectionManager;
use super::node::Threads;
use super::slot::Slot;
use super::transaction_manager::ShardedTm;
use crate::driver::{Flags, Noter, Plan, ShardedTmState, TextEffect};
use crate::error::Error;
use crate::route::stack;
use crate::topology::UrlKind;

impl<C: NodeConnection> SimpleConnection for ShardedConnection<C> {
    fn batch_execute(&mut self, query: &str) -> QueryResult<()> {
        let in_transaction = self.tm.depth() > 0;
        let Ready { slot, meant } = self.ready_with_tables()?;
        let plan = if slot.tables.is_needed() {
            let shard = slot.notes.shard;
            let check = |check: &dyn Fn(&_) -> _| meant.topology.with_current(check);
            slot.tables
                .plan_text(shard, meant.numbers, query, check)
                .map_err(|error| meant.explain(shard, error))?
        } else {
            None
        };
        let query = plan.as_ref().map_or(query, |plan| &*plan.text);
        let result = slot.conn.batch_execute(query);
        if slot.notes.kind == UrlKind::Mysql {
            take_text(slot, TextEffect::of(query), in_transaction);
        } else {
            slot.notes.flags.set(Flags::DIRTY | Flags::UNPROBED);
        }
        result.map_err(|error| slot.failed(error))
    }
}

impl<C: NodeConnection> ConnectionSealed for ShardedConnection<C> {}

impl<C: NodeConnection> Connection for ShardedConnection<C> {
    type Backend = C::Backend;
    type TransactionManager = ShardedTm<C::TransactionManager>;

    /// Connects to one database as to a topology of one shard, named `default`.
    ///
    /// For code that is given a URL and nothing else, such as test suites written for a plain
    /// connection.
    fn establish(database_url: &str) -> ConnectionResult<Self> {
        let one_shard = || {
            ShardedConnectionManager::builder()
                .threads(Threads::of_lone_connections())
                .shard("default", database_url)
                .default_shard("default")
                .pool(crate::topology::PoolConfig::new().max_size(1))
                .build()?
                .get_on("default")
        };
        one_shard().map_err(|error| match error {
            Error::Unavailable {
                source: Some(source),
                ..
            } => diesel::ConnectionError::BadConnection(source.to_string()),
            other => diesel::ConnectionError::InvalidConnectionUrl(other.to_string()),
        })
    }

    fn begin_test_transaction(&mut self) -> QueryResult<()> {
        let by_the_pool = self.handle.as_ref().is_some_and(|handle| handle.fresh);
        if by_the_pool && self.lease.is_none() && stack::top(self.topology).is_none() {
            return Err(DieselError::QueryBuilderError(
                "a test transaction cannot be opened by an outer pool (TestCustomizer): its \
                 connections belong to no shard until they are checked out under a route; use \
                 node pools of size 1 and begin the test transaction on a checked-out connection"
                    .into(),
            ));
        }
        Self::TransactionManager::begin_transaction(self)?;
        let depth = Self::TransactionManager::transaction_manager_status_mut(self)
            .transaction_depth()?
            .map_or(0, std::num::NonZeroU32::get);
        assert_eq!(depth, 1, "a test transaction is the outermost transaction");
        Self::TransactionManager::transaction_manager_status_mut(self).set_test_transaction_flag();
        self.tm.hand_over_to_test();
        Ok(())
    }

    fn execute_returning_count<T>(&mut self, source: &T) -> QueryResult<usize>
    where
        T: QueryFragment<Self::Backend> + QueryId,
    {
        let in_transaction = self.tm.depth() > 0;
        let Ready { slot, meant } = self.ready_with_tables()?;
        before_statement(slot, source, in_transaction);
        if slot.tables.is_needed()
            && let Some(plan) = plan(slot, meant, source)?
        {
            let (_scope, query) = plan.numbered(source);
            return slot
                .conn
                .execute_returning_count(&query)
                .map_err(|error| slot.failed(error));
        }
        slot.conn
            .execute_returning_count(source)
            .map_err(|error| slot.failed(error))
    }

    fn transaction_state(&mut self) -> &mut ShardedTmState {
        &mut self.tm
    }

    fn instrumentation(&mut self) -> &mut dyn Instrumentation {
        match (&mut self.lease, &mut self.handle) {
            (Some(lease), _) => lease.slot_mut().instrumentation(),
            (None, Some(handle)) => &mut *handle.instrumentation,
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
            (None, Some(handle)) => handle.instrumentation = instrumentation.into(),
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
            slot.tables.forget_prepared();
        }
    }
}

impl<B, C> LoadConnection<B> for ShardedConnection<C>
where
    C: NodeConnection + LoadConnection<B>,
{
    type Cursor<'conn, 'query> =
        ShardedCursor<'conn, <C as LoadConnection<B>>::Cursor<'conn, 'query>>;
    type Row<'conn, 'query> = <C as LoadConnection<B>>::Row<'conn, 'query>;

    fn load<'conn, 'query, T>(
        &'conn mut self,
        source: T,
    ) -> QueryResult<Self::Cursor<'conn, 'query>>
    where
        T: Query + QueryFragment<Self::Backend> + QueryId + 'query,
        Self::Backend: QueryMetadata<T::SqlType>,
    {
        let in_transaction = self.tm.depth() > 0;
        let Ready { slot, meant } = self.ready_with_tables()?;
        before_statement(slot, &source, in_transaction);
        if slot.tables.is_needed() {
            return load_rewritten::<B, C, T>(slot, meant, source);
        }
        let (conn, noter) = slot.split();
        let rows = LoadConnection::<B>::load(conn, source);
        cursor(rows, noter)
    }
}

/// What [`load`](LoadConnection::load) does where the shard has sharded tables; apart from it, so that
/// it costs the others nothing.
#[inline(never)]
fn load_rewritten<'conn, 'query, B, C, T>(
    slot: &'conn mut Slot<C>,
    meant: Meant<'_>,
    source: T,
) -> QueryResult<ShardedCursor<'conn, <C as LoadConnection<B>>::Cursor<'conn, 'query>>>
where
    C: NodeConnection + LoadConnection<B>,
    T: Query + QueryFragment<C::Backend> + QueryId + 'query,
    C::Backend: QueryMetadata<T::SqlType>,
{
    let plan = plan(slot, meant, &source)?;
    let (conn, noter) = slot.split();
    let rows = match plan {
        None => LoadConnection::<B>::load(conn, source),
        Some(plan) => {
            let (_scope, query) = plan.numbered(source);
            LoadConnection::<B>::load(conn, query)
        }
    };
    cursor(rows, noter)
}

#[inline]
fn cursor<I>(rows: QueryResult<I>, noter: Noter<'_>) -> QueryResult<ShardedCursor<'_, I>> {
    match rows {
        Ok(rows) => Ok(ShardedCursor { rows, noter }),
        Err(error) => Err(noter.failed(error)),
    }
}

/// The rows of a query, as the inner connection gives them; an error among them is taken note of.
#[derive(Debug)]
pub struct ShardedCursor<'conn, I> {
    rows: I,
    noter: Noter<'conn>,
}

impl<I, T> Iterator for ShardedCursor<'_, I>
where
    I: Iterator<Item = QueryResult<T>>,
{
    type Item = QueryResult<T>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        match self.rows.next() {
            Some(Err(error)) => Some(Err(self.noter.failed(error))),
            other => other,
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.rows.size_hint()
    }
}

/// The text of a query for the tables of the route; `None`: the query is sent as it is.
#[inline]
fn plan<C, T>(slot: &mut Slot<C>, meant: Meant<'_>, query: &T) -> QueryResult<Option<Plan>>
where
    C: NodeConnection,
    T: QueryFragment<C::Backend> + QueryId,
{
    let shard = slot.notes.shard;
    let conn = &slot.conn;
    let plan = slot
        .tables
        .plan(shard, T::query_id(), meant.numbers, || conn.text_of(query))
        .map_err(|error| meant.explain(shard, error))?;
    if let Some(plan) = &plan {
        plan.check_keys(
            shard,
            meant.numbers,
            |check| meant.topology.with_current(check),
            || slot.conn.binds_of(query),
        )?;
    }
    Ok(plan)
}

/// A statement whose text is not fixed by its type may be anything, a `BEGIN` included.
#[inline]
fn before_statement<C, T>(slot: &mut Slot<C>, source: &T, in_transaction: bool)
where
    C: NodeConnection,
    T: QueryFragment<C::Backend> + QueryId,
{
    if T::HAS_STATIC_QUERY_ID {
        return;
    }
    if slot.notes.kind == UrlKind::Mysql {
        let effect = slot
            .conn
            .text_of(source)
            .map_or(TextEffect::UNKNOWN, |query| TextEffect::of(&query.text));
        take_text(slot, effect, in_transaction);
    } else {
        slot.notes.flags.set(Flags::DIRTY | Flags::UNPROBED);
    }
}

fn take_text<C: NodeConnection>(slot: &mut Slot<C>, effect: TextEffect, in_transaction: bool) {
    if effect.may_open {
        slot.notes.flags.set(Flags::DIRTY);
    }
    if effect.moves {
        // Whatever the next user asks would be asked of another database.
        slot.notes.flags.set(Flags::RETIRE);
    }
    if effect.ends && in_transaction {
        slot.notes.flags.set(Flags::ENDED_BY_HAND);
    }
}

impl<C: NodeConnection> R2D2Connection for ShardedConnection<C> {
    fn ping(&mut self) -> QueryResult<()> {
        let slot = self.ready()?;
        slot.conn.ping().map_err(|error| slot.failed(error))
    }

    fn is_broken(&mut self) -> bool {
        <Self as Connection>::TransactionManager::is_broken_transaction_manager(self)
            || self
                .slot_mut()
                .is_some_and(|slot| slot.notes.flags.any(Flags::LOST | Flags::RETIRE))
    }
}

impl<C: NodeConnection> MigrationConnection for ShardedConnection<C> {
    fn setup(&mut self) -> QueryResult<usize> {
        let slot = self.ready()?;
        slot.conn.setup().map_err(|error| slot.failed(error))
    }
}

impl<C> WithMetadataLookup for ShardedConnection<C>
where
    C: NodeConnection + WithMetadataLookup,
{
    fn metadata_lookup(
        &mut self,
    ) -> &mut <Self::Backend as diesel::sql_types::TypeMetadata>::MetadataLookup {
        match self.ready() {
            Ok(slot) => slot.conn.metadata_lookup(),
            Err(error) => panic!("{error}"),
        }
    }
}
