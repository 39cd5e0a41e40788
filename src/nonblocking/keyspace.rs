//! A keyspace as the application uses it: from a shard key to the shard, and what to do there.

use std::fmt;
use std::ops::RangeBounds;

use super::backend::AsyncNodeConnection;
use super::closure::{SendAsyncFn, SendAsyncFn0, SendAsyncFn2};
use super::connection::AsyncShardedConnection;
use super::manager::AsyncShardedConnectionManager;
use super::transaction::TransactionBuilder;
use crate::algorithm::{Explanation, Fingerprint, Placement};
use crate::driver::keyspace::{GroupedByPlacement, KeyspaceRef};
use crate::driver::{OwnTables, TablePlace, TableResult};
use crate::error::Error;
use crate::key::{HasShardKey, ToShardKey};
use crate::name::{KeyspaceName, ShardName};
use crate::route::{Located, Route, in_route, into_caller};
use crate::telemetry;
use crate::topology::{BucketMap, Grouped, RangeTarget};

/// A set of shards over which one rule spreads rows by their shard key.
///
/// Owned, `Clone` and `'static`: keep it in the application's state. It follows changes of the
/// topology.
///
/// ```
/// # #[cfg(feature = "async-sqlite")]
/// # #[tokio::main]
/// # async fn main() -> Result<(), diesel_sharded::Error> {
/// use diesel::SqliteConnection;
/// use diesel_async::SimpleAsyncConnection;
/// use diesel_async::sync_connection_wrapper::SyncConnectionWrapper;
/// use diesel_sharded::nonblocking::AsyncShardedConnectionManager;
/// use diesel_sharded::{KeyspaceConfig, RuleSpec};
///
/// # let dir = tempfile::tempdir().expect("a temporary folder");
/// # let file = |name: &str| dir.path().join(name).display().to_string();
/// let shards = AsyncShardedConnectionManager::<SyncConnectionWrapper<SqliteConnection>>::builder()
///     .shard("order-0", file("order-0.db"))
///     .shard("order-1", file("order-1.db"))
///     .keyspace("orders", KeyspaceConfig::new(RuleSpec::hash(["order-0", "order-1"], 4096)))
///     .build()
///     .await?;
///
/// let orders = shards.keyspace("orders")?;
/// let home = orders.locate(&42_i64)?.shard();
/// orders.transaction_for(&42_i64, async |conn| {
///     assert_eq!(conn.shard(), Some(home));
///     conn.batch_execute("CREATE TABLE t (id INTEGER)").await
/// }).await?;
/// # Ok(())
/// # }
/// # #[cfg(not(feature = "async-sqlite"))] fn main() {}
/// ```
pub struct Keyspace<C: AsyncNodeConnection> {
    manager: AsyncShardedConnectionManager<C>,
    keyspace: KeyspaceRef,
}

impl<C: AsyncNodeConnection> Clone for Keyspace<C> {
    fn clone(&self) -> Self {
        Self {
            manager: self.manager.clone(),
            keyspace: self.keyspace.clone(),
        }
    }
}

impl<C: AsyncNodeConnection> Keyspace<C> {
    pub(super) fn new(manager: AsyncShardedConnectionManager<C>, keyspace: KeyspaceRef) -> Self {
        Self { manager, keyspace }
    }

    /// The name of the keyspace.
    #[must_use]
    pub fn name(&self) -> KeyspaceName {
        self.keyspace.name()
    }

    /// The shards of the keyspace, in the order of its rule.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownKeyspace`] when the keyspace has been removed since.
    pub fn shards(&self) -> Result<Vec<ShardName>, Error> {
        self.keyspace.look(|entry| entry.rule.shards().to_vec())
    }

    /// The fingerprint of the keyspace's rule, map and tables: equal fingerprints place every key
    /// alike.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownKeyspace`] when the keyspace has been removed since.
    pub fn fingerprint(&self) -> Result<Fingerprint, Error> {
        self.keyspace.look(|entry| entry.fingerprint)
    }

    /// Which shard owns which hash buckets, complete and in order; `None` for a rule without
    /// buckets.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownKeyspace`] when the keyspace has been removed since.
    pub fn bucket_map(&self) -> Result<Option<BucketMap>, Error> {
        self.keyspace.look(|entry| entry.rule.effective_map())
    }

    /// Where a key's rows live. No I/O, no allocation.
    ///
    /// # Errors
    ///
    /// [`Error::NullShardKey`], [`Error::KeyType`], [`Error::NotCovered`].
    #[inline]
    pub fn locate<K: ToShardKey + ?Sized>(&self, key: &K) -> Result<Placement, Error> {
        self.keyspace.locate(key)
    }

    /// How a key comes to its place, step by step: the sibling of [`locate`](Self::locate), for debug
    /// pages. No I/O.
    ///
    /// # Errors
    ///
    /// Those of [`locate`](Self::locate).
    pub fn explain<K: ToShardKey + ?Sized>(&self, key: &K) -> Result<Explanation, Error> {
        self.keyspace.explain(key)
    }

    /// The shards and tables that can hold rows with a key in a range, sorted by shard; an empty
    /// range has none. No I/O.
    ///
    /// Exact for rules of the kinds `range`, `date` and `list`, for ShardingSphere's range and
    /// interval algorithms in a zone without clock changes, and for any rule where the range holds at
    /// most 1,024 numbers or days. Other rules scatter neighbouring keys: there the answer is every
    /// shard that owns anything.
    ///
    /// Text is ordered by its UTF-8 bytes. A database that compares the column by another collation
    /// finds rows between two texts that are elsewhere: give the column a binary collation (`"C"`,
    /// `utf8mb4_bin`) before you prune by text. Under a rule that normalizes, texts are not pruned.
    ///
    /// # Errors
    ///
    /// [`Error::NullShardKey`] and [`Error::KeyType`] for a bound that is no key of the keyspace.
    pub fn locate_range<K: ToShardKey>(
        &self,
        bounds: impl RangeBounds<K>,
    ) -> Result<Vec<RangeTarget>, Error> {
        self.keyspace.look(|entry| entry.locate_range(&bounds))?
    }

    /// The route to a key's shard. No I/O.
    ///
    /// # Errors
    ///
    /// Those of [`locate`](Self::locate).
    pub fn route<K: ToShardKey + ?Sized>(&self, key: &K) -> Result<Route, Error> {
        self.keyspace.route(key)
    }

    /// The route to a key's shard, asking a database where the rule needs one.
    ///
    /// None of today's rules does; this is the form for code that must keep working with one that
    /// does.
    ///
    /// # Errors
    ///
    /// Those of [`locate`](Self::locate).
    pub fn resolve<K: ToShardKey + ?Sized>(
        &self,
        key: &K,
    ) -> impl Future<Output = Result<Route, Error>> + Send + use<C, K> {
        // The key is read at once: it need not live as long as the future.
        std::future::ready(self.route(key))
    }

    /// The route to the shard of a value that knows its own key. No I/O.
    ///
    /// # Errors
    ///
    /// [`Error::WrongKeyspace`] for a value of another keyspace, and those of
    /// [`locate`](Self::locate).
    pub fn route_of<V: HasShardKey + ?Sized>(&self, value: &V) -> Result<Route, Error> {
        self.keyspace.route_of(value)
    }

    /// Runs an async closure under the route to a key's shard.
    ///
    /// # Errors
    ///
    /// Those of the closure, of [`locate`](Self::locate), and [`Error::PinnedElsewhere`].
    pub fn on<'a, K, T, E, F>(
        &'a self,
        key: &K,
        f: F,
    ) -> impl Future<Output = Result<T, E>> + Send + use<'a, C, K, T, E, F>
    where
        K: ToShardKey + ?Sized,
        T: Send + 'a,
        E: From<diesel::result::Error> + Send + 'a,
        F: AsyncFnOnce() -> Result<T, E> + SendAsyncFn0<Result<T, E>, Fut: Send> + Send + 'a,
    {
        self.manager.on_located(self.keyspace.located(key), f)
    }

    /// Checks out a connection of a key's shard, whatever the route in force. Sharded tables are those
    /// of the key on it.
    ///
    /// They stay so until a route is entered that says otherwise. Under one to another key of this
    /// keyspace statements over its tables are [`Error::TableMismatch`]; under one to this shard without
    /// tables (`on(shard, ..)`) none are meant, and the raw connection is within reach. A route that was
    /// in force at the checkout, one to another shard without tables and one of another keyspace change
    /// nothing.
    ///
    /// # Errors
    ///
    /// Those of [`locate`](Self::locate) and of
    /// [`get_on`](AsyncShardedConnectionManager::get_on).
    pub fn get<K: ToShardKey + ?Sized>(
        &self,
        key: &K,
    ) -> impl Future<Output = Result<AsyncShardedConnection<C>, Error>> + Send + use<'_, C, K> {
        let at = self.keyspace.located(key);
        async move {
            let at = at?;
            let mut conn = self.manager.get_at(at).await?;
            conn.tables = OwnTables::of(at, self.manager.topology().id());
            Ok(conn)
        }
    }

    /// Runs an async closure in a transaction on a key's shard; the shard is pinned until it ends.
    ///
    /// # Errors
    ///
    /// Those of [`locate`](Self::locate) and of
    /// [`transaction_on`](AsyncShardedConnectionManager::transaction_on).
    pub fn transaction_for<'a, K, T, E, F>(
        &'a self,
        key: &K,
        f: F,
    ) -> impl Future<Output = Result<T, E>> + Send + use<'a, C, K, T, E, F>
    where
        K: ToShardKey + ?Sized,
        T: Send + 'a,
        E: From<diesel::result::Error> + Send + 'a,
        for<'r> F: AsyncFnOnce(&'r mut AsyncShardedConnection<C>) -> Result<T, E>
            + SendAsyncFn<&'r mut AsyncShardedConnection<C>, Result<T, E>, Fut: Send>
            + Send
            + 'a,
    {
        self.transaction_builder(key).run(f)
    }

    /// Sets the options of a transaction on a key's shard before it is run.
    ///
    /// A key that has no shard is answered by [`run`](TransactionBuilder::run).
    pub fn transaction_builder<K: ToShardKey + ?Sized>(&self, key: &K) -> TransactionBuilder<C> {
        TransactionBuilder::new(self.manager.clone(), self.keyspace.located(key))
    }

    /// The route to the physical tables with a number, on a shard: for jobs that go by table instead of
    /// by key.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownShard`]; [`Error::UnknownTable`] for a number that is too large, and where the
    /// keyspace's tables are split into different counts ([`on_table_of`](Self::on_table_of) names
    /// one).
    pub fn table_route(&self, shard: impl AsRef<str>, number: u32) -> Result<Route, Error> {
        self.keyspace.table_route(None, shard.as_ref(), number)
    }

    /// Runs an async closure under the route to the physical tables with a number, on a shard.
    ///
    /// # Errors
    ///
    /// Those of the closure, of [`table_route`](Self::table_route), and [`Error::PinnedElsewhere`].
    pub fn on_table<'a, S, T, E, F>(
        &'a self,
        shard: S,
        number: u32,
        f: F,
    ) -> impl Future<Output = Result<T, E>> + Send + use<'a, C, S, T, E, F>
    where
        S: AsRef<str>,
        T: Send + 'a,
        E: From<diesel::result::Error> + Send + 'a,
        F: AsyncFnOnce() -> Result<T, E> + SendAsyncFn0<Result<T, E>, Fut: Send> + Send + 'a,
    {
        let at = self.keyspace.table_at(None, shard.as_ref(), number);
        self.manager.on_located(at, f)
    }

    /// [`on_table`](Self::on_table) for keyspaces whose tables are split into different counts: the
    /// number is one of `table`, and of the tables that are split alike.
    ///
    /// # Errors
    ///
    /// Those of [`on_table`](Self::on_table); [`Error::UnknownTable`] where there is no such table.
    pub fn on_table_of<'a, N, S, T, E, F>(
        &'a self,
        table: N,
        shard: S,
        number: u32,
        f: F,
    ) -> impl Future<Output = Result<T, E>> + Send + use<'a, C, N, S, T, E, F>
    where
        N: AsRef<str>,
        S: AsRef<str>,
        T: Send + 'a,
        E: From<diesel::result::Error> + Send + 'a,
        F: AsyncFnOnce() -> Result<T, E> + SendAsyncFn0<Result<T, E>, Fut: Send> + Send + 'a,
    {
        let at = self
            .keyspace
            .table_at(Some(table.as_ref()), shard.as_ref(), number);
        self.manager.on_located(at, f)
    }

    /// Every physical table of a logical one, by shard and number: what a job goes through.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownTable`] where the keyspace has no such table.
    pub fn table_places(&self, table: impl AsRef<str>) -> Result<Vec<TablePlace>, Error> {
        self.keyspace.table_places(table.as_ref())
    }

    /// Runs an async closure once for each physical table of a logical one, on every shard of the
    /// keyspace: one after the other, by shard and number, each with a connection of its own. All of them
    /// are visited whatever becomes of the others, and the answer says what came of each. The closure is
    /// run more than once, each time as a fresh clone, hence `Clone`.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownTable`] where the keyspace has no such table; what went wrong with one table is
    /// in its [`TableResult`].
    pub fn for_each_table<'a, N, T, E, F>(
        &'a self,
        table: N,
        f: F,
    ) -> impl Future<Output = Result<Vec<TableResult<T, E>>, Error>> + Send + use<'a, C, N, T, E, F>
    where
        N: AsRef<str>,
        T: Send + 'a,
        E: From<diesel::result::Error> + Send + 'a,
        for<'r> F: AsyncFnOnce(&'r mut AsyncShardedConnection<C>, TablePlace) -> Result<T, E>
            + SendAsyncFn2<&'r mut AsyncShardedConnection<C>, TablePlace, Result<T, E>, Fut: Send>
            + Clone
            + Send
            + 'a,
    {
        let tables = self.keyspace.located_tables(table.as_ref());
        async move {
            let f = f;
            let mut results = Vec::new();
            for (place, at) in tables? {
                let result = self.on_one_table(at, place, f.clone()).await;
                results.push(TableResult::new(place, result));
            }
            Ok(results)
        }
    }

    fn on_one_table<'a, T, E, F>(
        &'a self,
        at: Result<Located, Error>,
        place: TablePlace,
        f: F,
    ) -> impl Future<Output = Result<T, E>> + Send + use<'a, C, T, E, F>
    where
        T: Send + 'a,
        E: From<diesel::result::Error> + Send + 'a,
        for<'r> F: AsyncFnOnce(&'r mut AsyncShardedConnection<C>, TablePlace) -> Result<T, E>
            + SendAsyncFn2<&'r mut AsyncShardedConnection<C>, TablePlace, Result<T, E>, Fut: Send>
            + Send
            + 'a,
    {
        let topology = self.manager.topology().id();
        async move {
            let routed = at.and_then(|at| {
                in_route(topology, at, async move {
                    let f = f;
                    let mut conn = self.manager.get().await.map_err(into_caller)?;
                    f(&mut conn, place).await
                })
            });
            routed
                .inspect_err(telemetry::refused)
                .map_err(into_caller)?
                .await
        }
    }

    /// Sorts items by the physical tables of their key, each group with the route to it: for one batch
    /// per table. Order is kept and nothing is dropped: an item whose key has no placement comes back as
    /// [`refused`](GroupedByPlacement::refused), with its error.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownKeyspace`] when the keyspace has been removed since it was looked up.
    pub fn group_by_placement<T, K>(
        &self,
        items: impl IntoIterator<Item = T>,
        key: impl FnMut(&T) -> K,
    ) -> Result<GroupedByPlacement<T>, Error>
    where
        K: ToShardKey,
    {
        self.keyspace.group_by_placement(items, key)
    }

    /// Sorts items by the shard of their key, for one transaction or one batch per shard. Order is
    /// kept and nothing is dropped: an item whose key has no shard comes back as
    /// [`refused`](Grouped::refused), with its error.
    ///
    /// # Panics
    ///
    /// When the keyspace has been removed from the topology since it was looked up.
    pub fn group_by_shard<T, K>(
        &self,
        items: impl IntoIterator<Item = T>,
        key: impl FnMut(&T) -> K,
    ) -> Grouped<T>
    where
        K: ToShardKey,
    {
        match self.keyspace.group(items, key) {
            Ok(grouped) => grouped,
            Err(error) => panic!("{error}"),
        }
    }

    /// Sorts values that know their own key by its shard, as
    /// [`group_by_shard`](Self::group_by_shard) does.
    ///
    /// # Errors
    ///
    /// [`Error::WrongKeyspace`] for values of another keyspace, and [`Error::UnknownKeyspace`] when
    /// the keyspace has been removed since it was looked up; no value is looked at then.
    pub fn group_rows<V: HasShardKey>(
        &self,
        values: impl IntoIterator<Item = V>,
    ) -> Result<Grouped<V>, Error> {
        self.keyspace.group_rows(values)
    }
}

impl<C: AsyncNodeConnection> fmt::Debug for Keyspace<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keyspace")
            .field("name", &self.name())
            .finish_non_exhaustive()
    }
}
