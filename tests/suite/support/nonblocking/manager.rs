//! The nonblocking manager whose every call waits.

use std::cell::RefCell;
use std::fmt;
use std::ops::Deref;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use diesel::{ConnectionResult, QueryResult};
use diesel_sharded::nonblocking::{
    self, AsyncNodeConnection, AsyncShardedConnectionManager, NodeInfo, TablePlace,
};
use diesel_sharded::{
    Config, Error, KeyspaceConfig, PoolConfig, Route, ShardConfig, ShardName, ShardState, Startup,
    ToShardKey, Topology, TopologyBuilder,
};
use send_wrapper::SendWrapper;
use tokio::task::block_in_place;

use super::owned::{Owned, Sharded, lend};
use super::pool::Pool;
use super::transactions::TransactionBuilder;
use super::view::{Borrowed, View};
use super::{carry, in_context, unpack, wait};

pub(crate) struct Manager<C: AsyncNodeConnection>(pub(super) AsyncShardedConnectionManager<C>);

impl<C: AsyncNodeConnection> Clone for Manager<C> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

/// What answers without waiting is the driver's own.
impl<C: AsyncNodeConnection> Deref for Manager<C> {
    type Target = AsyncShardedConnectionManager<C>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl<C: AsyncNodeConnection> Manager<C> {
    pub(crate) fn builder() -> Builder<C> {
        Builder(AsyncShardedConnectionManager::builder())
    }

    pub(crate) fn from_config(config: &Config) -> Result<Self, Error> {
        wait(AsyncShardedConnectionManager::from_config(config)).map(Self)
    }

    pub(crate) fn from_topology(topology: &Topology) -> Result<Self, Error> {
        wait(AsyncShardedConnectionManager::from_topology(topology)).map(Self)
    }

    pub(crate) fn get(&self) -> Result<Sharded<C>, Error> {
        Ok(Owned::new(wait(self.0.get())?, &self.0))
    }

    pub(crate) fn get_on(&self, shard: impl AsRef<str>) -> Result<Sharded<C>, Error> {
        Ok(Owned::new(wait(self.0.get_on(shard.as_ref()))?, &self.0))
    }

    pub(crate) fn on<T, E>(
        &self,
        shard: impl AsRef<str>,
        body: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E>
    where
        E: From<diesel::result::Error>,
    {
        let body = SendWrapper::new(body);
        let scope = self
            .0
            .on(shard.as_ref(), async move || carry(body.take()()));
        unpack(wait(scope))
    }

    pub(crate) fn transaction_on<T, E>(
        &self,
        shard: impl AsRef<str>,
        body: impl FnOnce(&mut Sharded<C>) -> Result<T, E>,
    ) -> Result<T, E>
    where
        E: From<diesel::result::Error>,
    {
        let (manager, body) = (self.0.clone(), SendWrapper::new(body));
        let transaction = self.0.transaction_on(shard.as_ref(), async move |conn| {
            carry(lend(conn, &manager, body.take()))
        });
        unpack(wait(transaction))
    }

    pub(crate) fn transaction_builder(&self, shard: impl AsRef<str>) -> TransactionBuilder<C> {
        let builder = self.0.transaction_builder(shard.as_ref());
        TransactionBuilder::new(builder, &self.0)
    }

    pub(crate) fn independent<T>(&self, body: impl FnOnce() -> T) -> T {
        let body = SendWrapper::new(body);
        let scope = self
            .0
            .independent(async move || SendWrapper::new(body.take()()));
        wait(scope).take()
    }

    pub(crate) fn keyspace(&self, name: impl AsRef<str>) -> Result<Keyspace<C>, Error> {
        Ok(Keyspace(self.0.keyspace(name)?, self.0.clone()))
    }

    pub(crate) fn test_transactions(&self) -> Result<Self, Error> {
        wait(self.0.test_transactions()).map(Self)
    }

    pub(crate) fn write_identity(&self) -> Result<(), Error> {
        wait(self.0.write_identity())
    }

    pub(crate) fn reload(&self, config: &Config) -> Result<Reloaded<C>, Error> {
        wait(self.0.reload(config)).map(Reloaded)
    }

    pub(crate) fn reload_with(
        &self,
        edit: impl FnOnce(TopologyBuilder) -> TopologyBuilder,
    ) -> Result<Reloaded<C>, Error> {
        let edit = SendWrapper::new(edit);
        wait(self.0.reload_with(move |topology| edit.take()(topology))).map(Reloaded)
    }

    pub(crate) fn set_shard_state(
        &self,
        shard: impl AsRef<str>,
        state: ShardState,
    ) -> Result<(), Error> {
        wait(self.0.set_shard_state(shard.as_ref(), state))
    }

    pub(crate) fn into_pool(self) -> Pool<C> {
        in_context(|| Pool::of(self.0.clone().into_pool(), self.0))
    }
}

/// What a reload has changed.
pub(crate) struct Reloaded<C: AsyncNodeConnection>(nonblocking::Reloaded<C>);

impl<C: AsyncNodeConnection> Deref for Reloaded<C> {
    type Target = nonblocking::Reloaded<C>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl<C: AsyncNodeConnection> Reloaded<C> {
    pub(crate) fn drain(&self, grace: Duration) -> Vec<ShardName> {
        wait(self.0.drain(grace))
    }
}

pub(crate) struct Builder<C: AsyncNodeConnection>(nonblocking::ManagerBuilder<C>);

impl<C: AsyncNodeConnection> Builder<C> {
    pub(crate) fn shard(self, name: impl Into<String>, shard: impl Into<ShardConfig>) -> Self {
        Self(self.0.shard(name, shard))
    }

    pub(crate) fn keyspace(self, name: impl Into<String>, keyspace: KeyspaceConfig) -> Self {
        Self(self.0.keyspace(name, keyspace))
    }

    pub(crate) fn default_shard(self, name: impl Into<String>) -> Self {
        Self(self.0.default_shard(name))
    }

    pub(crate) fn pool(self, pool: PoolConfig) -> Self {
        Self(self.0.pool(pool))
    }

    pub(crate) fn startup(self, startup: Startup) -> Self {
        Self(self.0.startup(startup))
    }

    pub(crate) fn shared_database(self, shared: bool) -> Self {
        Self(self.0.shared_database(shared))
    }

    pub(crate) fn workload(self, name: impl Into<String>, pool: PoolConfig) -> Self {
        Self(self.0.workload(name, pool))
    }

    pub(crate) fn accept_placement(self, keyspace: impl Into<String>) -> Self {
        Self(self.0.accept_placement(keyspace))
    }

    pub(crate) fn reset_sessions(self, reset: bool) -> Self {
        Self(self.0.reset_sessions(reset))
    }

    /// The function blocks, so it runs where the runtime allows that.
    pub(crate) fn connect_with(
        self,
        connect: impl Fn(NodeInfo<'_>) -> ConnectionResult<C> + Send + Sync + 'static,
    ) -> Self {
        Self(self.0.connect_with(move |node: NodeInfo<'_>| {
            let connected = block_in_place(|| connect(node));
            async move { connected }
        }))
    }

    pub(crate) fn on_return(
        self,
        f: impl Fn(&mut View<Borrowed<'_, C>>) -> QueryResult<()> + Send + Sync + 'static,
    ) -> Self {
        let f = Arc::new(f);
        Self(self.0.on_return(move |conn| {
            let f = Arc::clone(&f);
            Box::pin(async move { block_in_place(|| f(&mut View(Borrowed(conn)))) })
        }))
    }

    pub(crate) fn build(self) -> Result<Manager<C>, Error> {
        wait(self.0.build()).map(Manager)
    }
}

pub(crate) struct Keyspace<C: AsyncNodeConnection>(
    nonblocking::Keyspace<C>,
    AsyncShardedConnectionManager<C>,
);

impl<C: AsyncNodeConnection> Clone for Keyspace<C> {
    fn clone(&self) -> Self {
        Self(self.0.clone(), self.1.clone())
    }
}

impl<C: AsyncNodeConnection> Deref for Keyspace<C> {
    type Target = nonblocking::Keyspace<C>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl<C: AsyncNodeConnection> Keyspace<C> {
    pub(crate) fn resolve<K: ToShardKey + Sync + ?Sized>(&self, key: &K) -> Result<Route, Error> {
        wait(self.0.resolve(key))
    }

    pub(crate) fn get<K: ToShardKey + Sync + ?Sized>(&self, key: &K) -> Result<Sharded<C>, Error> {
        Ok(Owned::new(wait(self.0.get(key))?, &self.1))
    }

    pub(crate) fn on<K, T, E>(&self, key: &K, body: impl FnOnce() -> Result<T, E>) -> Result<T, E>
    where
        K: ToShardKey + Sync + ?Sized,
        E: From<diesel::result::Error>,
    {
        let body = SendWrapper::new(body);
        unpack(wait(self.0.on(key, async move || carry(body.take()()))))
    }

    pub(crate) fn transaction_for<K, T, E>(
        &self,
        key: &K,
        body: impl FnOnce(&mut Sharded<C>) -> Result<T, E>,
    ) -> Result<T, E>
    where
        K: ToShardKey + Sync + ?Sized,
        E: From<diesel::result::Error>,
    {
        self.transaction_builder(key).run(body)
    }

    pub(crate) fn transaction_builder<K>(&self, key: &K) -> TransactionBuilder<C>
    where
        K: ToShardKey + Sync + ?Sized,
    {
        TransactionBuilder::new(self.0.transaction_builder(key), &self.1)
    }
}

impl<C: AsyncNodeConnection> Keyspace<C> {
    pub(crate) fn on_table<T, E>(
        &self,
        shard: impl AsRef<str>,
        number: u32,
        body: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E>
    where
        E: From<diesel::result::Error>,
    {
        let body = SendWrapper::new(body);
        let scope = self
            .0
            .on_table(shard.as_ref(), number, async move || carry(body.take()()));
        unpack(wait(scope))
    }

    pub(crate) fn on_table_of<T, E>(
        &self,
        table: &str,
        shard: impl AsRef<str>,
        number: u32,
        body: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E>
    where
        E: From<diesel::result::Error>,
    {
        let body = SendWrapper::new(body);
        let scope = self
            .0
            .on_table_of(table, shard.as_ref(), number, async move || {
                carry(body.take()())
            });
        unpack(wait(scope))
    }

    pub(crate) fn for_each_table<T, E>(
        &self,
        table: impl AsRef<str>,
        body: impl FnMut(&mut Sharded<C>, TablePlace) -> Result<T, E>,
    ) -> Result<Vec<OfTable<T, E>>, Error>
    where
        E: From<diesel::result::Error>,
    {
        let body = SendWrapper::new(Rc::new(RefCell::new(body)));
        let manager = self.1.clone();
        let visits = self
            .0
            .for_each_table(table.as_ref(), async move |conn: &mut _, place| {
                carry(lend(conn, &manager, |conn| {
                    (*body.borrow_mut())(conn, place)
                }))
            });
        let visited = wait(visits)?;
        Ok(visited
            .into_iter()
            .map(|each| OfTable {
                place: each.place,
                result: unpack(each.result),
            })
            .collect())
    }
}

/// What came of one table.
#[derive(Debug)]
pub(crate) struct OfTable<T, E> {
    pub(crate) place: TablePlace,
    pub(crate) result: Result<T, E>,
}

/// As the driver shows it: a test looks for passwords there.
impl<C: AsyncNodeConnection> fmt::Debug for Manager<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<C: AsyncNodeConnection> fmt::Debug for Builder<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<C: AsyncNodeConnection> fmt::Debug for Reloaded<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
