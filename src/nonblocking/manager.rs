//! The manager: the pools of all nodes, and the ways to reach them.

use std::fmt;
use std::sync::Arc;

use futures_util::future::try_join_all;

use super::backend::AsyncNodeConnection;
use super::builder::ManagerBuilder;
use super::closure::{SendAsyncFn, SendAsyncFn0};
use super::connection::AsyncShardedConnection;
use super::keyspace::Keyspace;
use super::node::{Found, Lease, Node, Options};
use super::transaction::TransactionBuilder;
use crate::driver::fleet::Fleet;
use crate::driver::keyspace::KeyspaceRef;
use crate::driver::node_set::{NodeSet, Nodes};
use crate::driver::reload::{refuse_foreign_urls, refuse_unusable_urls};
use crate::driver::{Flags, Status, text_settings};
use crate::error::Error;
use crate::name::ShardName;
use crate::route::{Located, Route, in_barrier, in_route, into_caller, stack};
use crate::telemetry::{self, Reason};
use crate::topology::{ShardState, Startup, Topology};

/// The pools of all physical databases of a topology, and the routing between them.
///
/// Use it as it is ([`get`](Self::get), [`transaction_on`](Self::transaction_on)), or put it into
/// a `bb8::Pool` in place of diesel-async's own manager ([`into_pool`](Self::into_pool)): each
/// checkout then goes to the database named by the route on top of the calling task's route stack.
///
/// It works inside a tokio runtime, of either flavour. Pools are built at their first use, in the
/// runtime of that moment; when it ends, they are built anew in the next one.
///
/// Cloning gives another handle to the same pools.
///
/// ```
/// # #[cfg(feature = "async-sqlite")]
/// # #[tokio::main]
/// # async fn main() -> Result<(), diesel_sharded::Error> {
/// use diesel::SqliteConnection;
/// use diesel_async::SimpleAsyncConnection;
/// use diesel_async::sync_connection_wrapper::SyncConnectionWrapper;
/// use diesel_sharded::nonblocking::AsyncShardedConnectionManager;
///
/// # let dir = tempfile::tempdir().expect("a temporary folder");
/// # let file = |name: &str| dir.path().join(name).display().to_string();
/// let shards = AsyncShardedConnectionManager::<SyncConnectionWrapper<SqliteConnection>>::builder()
///     .shard("order-0", file("order-0.db"))
///     .shard("order-1", file("order-1.db"))
///     .build()
///     .await?;
///
/// shards.transaction_on("order-1", async |conn| {
///     conn.batch_execute("CREATE TABLE t (id INTEGER)").await
/// }).await?;
/// assert_eq!(shards.get_on("order-1").await?.shard(), Some(shards.shards()[1]));
/// # Ok(())
/// # }
/// # #[cfg(not(feature = "async-sqlite"))] fn main() {}
/// ```
pub struct AsyncShardedConnectionManager<C: AsyncNodeConnection> {
    pub(super) inner: Arc<Inner<C>>,
}

pub(super) struct Inner<C: AsyncNodeConnection> {
    pub(super) fleet: Fleet<Node<C>>,
    pub(super) options: Options<C>,
}

impl<C: AsyncNodeConnection> Clone for AsyncShardedConnectionManager<C> {
    fn clone(&self) -> Self {
        Self {
            inner: Arc::clone(&self.inner),
        }
    }
}

impl<C: AsyncNodeConnection> AsyncShardedConnectionManager<C> {
    /// Starts the description of a topology and its manager in code.
    pub fn builder() -> ManagerBuilder<C> {
        ManagerBuilder::new()
    }

    /// Makes a manager for a loaded configuration.
    ///
    /// # Errors
    ///
    /// [`Error::Config`] with everything that is wrong with it; with `startup = "require"` also
    /// [`Error::Unavailable`].
    #[cfg(feature = "config")]
    pub async fn from_config(config: &crate::config::Config) -> Result<Self, Error> {
        Self::from_topology(&config.topology()?).await
    }

    /// Makes a manager for a configuration file (`.toml`, `.yaml`, `.yml` or `.json`).
    ///
    /// # Errors
    ///
    /// Those of [`Config::from_file`](crate::Config::from_file) and
    /// [`from_config`](Self::from_config).
    #[cfg(feature = "config")]
    pub fn from_file(
        path: impl AsRef<std::path::Path>,
    ) -> impl Future<Output = Result<Self, Error>> + Send {
        // Read at once: the path need not live as long as the future.
        let config = crate::config::Config::from_file(path);
        async move { Self::from_config(&config?).await }
    }

    /// Makes a manager for a topology that may have other managers too; they see each other's
    /// routes.
    ///
    /// # Errors
    ///
    /// [`Error::Config`] when a node's URL is not one of `C`'s; [`Error::Unavailable`] when the
    /// topology says [`Startup::Require`] and a node cannot be reached.
    pub async fn from_topology(topology: &Topology) -> Result<Self, Error> {
        Self::new(topology, Options::default()).await
    }

    pub(super) async fn new(topology: &Topology, options: Options<C>) -> Result<Self, Error> {
        let snapshot = topology.snapshot();
        refuse_foreign_urls::<C>(&snapshot, C::accepts)?;
        if options.connector.is_none() {
            refuse_unusable_urls(&snapshot, C::url_problems)?;
        }
        let startup = snapshot.startup;
        let nodes = NodeSet::new(snapshot, None, |snapshot, spec, class| {
            Node::new(topology, snapshot, spec, class, &options)
        });
        let manager = Self {
            inner: Arc::new(Inner {
                fleet: Fleet::new(topology.clone(), nodes),
                options,
            }),
        };
        if startup == Startup::Require {
            let nodes = manager.inner.fleet.load();
            let primaries = nodes.open_primaries().map(Arc::clone).collect::<Vec<_>>();
            drop(nodes);
            // All at once: start-up takes as long as the slowest node.
            try_join_all(primaries.iter().map(Node::checkout)).await?;
        }
        Ok(manager)
    }

    /// The topology this manager works with.
    #[must_use]
    pub fn topology(&self) -> &Topology {
        self.inner.fleet.topology()
    }

    /// The names of the shards, sorted.
    #[must_use]
    pub fn shards(&self) -> Vec<ShardName> {
        self.topology().shards()
    }

    /// Checks out a connection of the shard that the route in force names; with no route, of the
    /// default shard.
    ///
    /// Waiting callers of a node are served in the order in which they came. The future may be dropped
    /// at any point.
    ///
    /// # Errors
    ///
    /// [`Error::NoRoute`] without route and default; [`Error::AlreadyInTransaction`] or
    /// [`Error::PinnedElsewhere`] inside a `transaction_on`; [`Error::Unavailable`],
    /// [`Error::PoolExhausted`] and [`Error::WouldDeadlock`] from the node.
    pub async fn get(&self) -> Result<AsyncShardedConnection<C>, Error> {
        let (at, reason) = self
            .nodes()
            .and_then(|nodes| self.route_in_force(&nodes).inspect_err(telemetry::refused))?;
        self.checkout(at, reason).await
    }

    /// Checks out a connection of a shard by name, whatever the route in force; the workload class
    /// of that route holds here too.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownShard`], and all of [`get`](Self::get) but [`Error::NoRoute`].
    pub fn get_on(
        &self,
        shard: impl AsRef<str>,
    ) -> impl Future<Output = Result<AsyncShardedConnection<C>, Error>> + Send {
        let at = self
            .nodes()
            .and_then(|nodes| nodes.snapshot.locate(shard.as_ref()))
            .inspect_err(telemetry::refused);
        async move { self.checkout(at?, Reason::Named).await }
    }

    /// Checks out what was located before.
    pub(super) async fn get_at(&self, at: Located) -> Result<AsyncShardedConnection<C>, Error> {
        self.checkout(at, Reason::Named).await
    }

    /// The nodes of the topology as it is now.
    #[inline]
    pub(super) fn nodes(&self) -> Result<Nodes<Node<C>>, Error> {
        match self.inner.fleet.current() {
            Some(nodes) => Ok(nodes),
            None => self.follow(),
        }
    }

    pub(super) fn route_in_force(
        &self,
        nodes: &NodeSet<Node<C>>,
    ) -> Result<(Located, Reason), Error> {
        self.inner.fleet.route_in_force(nodes)
    }

    #[inline]
    pub(super) async fn checkout(
        &self,
        at: Located,
        reason: Reason,
    ) -> Result<AsyncShardedConnection<C>, Error> {
        let topology = self.topology().id();
        let at = stack::admit(topology, at).inspect_err(telemetry::refused)?;
        let lease = match self.try_lease(at, reason)? {
            Found::Well(lease) => lease,
            // Boxed, so that the future of a checkout is small where nothing has to be waited for.
            found => Box::pin(self.lease(found, at, reason)).await?,
        };
        let by_stack = !matches!(reason, Reason::Named);
        Ok(AsyncShardedConnection::bound(topology, lease, by_stack))
    }

    /// The way of nearly every checkout: an idle connection that was in use a moment ago.
    #[inline]
    fn try_lease(&self, at: Located, reason: Reason) -> Result<Found<C>, Error> {
        let nodes = self.nodes()?;
        let shard = nodes.shard(at)?;
        if shard.state != ShardState::Open {
            return Ok(Found::Nothing);
        }
        let node = shard.pool(at.class)?;
        let mut found = node.try_checkout();
        if let Found::Well(lease) = &mut found {
            let slot = lease.slot_mut();
            if slot.notes.flags.any(Flags::SHARD_READ_ONLY)
                || (shard.tables.is_some() && slot.is_unread())
            {
                return Ok(found.into_doubtful());
            }
            slot.rewriter_mut().adopt(shard.tables.as_ref());
            node.meters().checkout(reason, true);
        }
        Ok(found)
    }

    async fn lease(
        &self,
        mut found: Found<C>,
        at: Located,
        reason: Reason,
    ) -> Result<Lease<C>, Error> {
        loop {
            // The nodes as they are now are looked at only for a moment, not while we wait.
            let (node, state, tables) = {
                let nodes = self.nodes()?;
                let shard = nodes.shard(at)?;
                let node = Arc::clone(shard.pool(at.class)?);
                (node, shard.state, shard.tables.clone())
            };
            if state == ShardState::Offline {
                let error = Error::ShardOffline { shard: at.shard };
                telemetry::refused(&error);
                return Err(error);
            }
            let lease = node
                .checkout_slow(std::mem::replace(&mut found, Found::Nothing))
                .await
                .transpose();
            if let Some(lease) = &lease {
                node.meters().checkout(reason, lease.is_ok());
            }
            if let Some(mut lease) = lease.transpose()? {
                let read_only = state == ShardState::ReadOnly;
                let slot = lease.slot_mut();
                slot.rewriter_mut().adopt(tables.as_ref());
                if tables.is_some() {
                    // Asked as it was made, unless a reload has brought the tables since.
                    let unfit = slot
                        .unfit_settings()
                        .await
                        .map_err(|source| Error::Database {
                            shard: Some(at.shard),
                            source,
                        })?;
                    if let Some(problem) = unfit {
                        return Err(text_settings::unfit(at.shard, node.role(), problem));
                    }
                }
                slot.set_shard_read_only(read_only)
                    .await
                    .map_err(|source| Error::Database {
                        shard: Some(at.shard),
                        source,
                    })?;
                return Ok(lease);
            }
            // The node was taken out of service while we were at its door.
        }
    }

    /// Makes a route to a shard.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownShard`].
    pub fn route(&self, shard: impl AsRef<str>) -> Result<Route, Error> {
        self.topology().route(shard)
    }

    /// Reads a route's text form and checks it against the topology of today.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidRoute`] for a text that is not a route this release can honour,
    /// [`Error::UnknownShard`] for one whose shard is gone.
    pub fn parse_route(&self, text: &str) -> Result<Route, Error> {
        self.topology().parse_route(text)
    }

    #[inline]
    pub(super) fn locate(&self, shard: &str) -> Result<Located, Error> {
        self.topology()
            .with_current(|snapshot| snapshot.locate(shard))
    }

    /// Runs an async closure under a route to a shard; the route is in force whenever its future is
    /// polled, on whichever thread, and at no other time.
    ///
    /// ```
    /// # #[cfg(feature = "async-sqlite")]
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), diesel_sharded::Error> {
    /// # use diesel_async::sync_connection_wrapper::SyncConnectionWrapper;
    /// # use diesel_sharded::nonblocking::AsyncShardedConnectionManager;
    /// # let dir = tempfile::tempdir().expect("a temporary folder");
    /// # let file = |name: &str| dir.path().join(name).display().to_string();
    /// # let shards = AsyncShardedConnectionManager::<SyncConnectionWrapper<diesel::SqliteConnection>>::builder()
    /// #     .shard("a", file("a")).build().await?;
    /// let shard = shards.on("a", async || {
    ///     tokio::task::yield_now().await;
    ///     Ok::<_, diesel_sharded::Error>(shards.get().await?.shard())
    /// }).await?;
    /// assert_eq!(shard, Some(shards.shards()[0]));
    /// # Ok(())
    /// # }
    /// # #[cfg(not(feature = "async-sqlite"))] fn main() {}
    /// ```
    ///
    /// # Errors
    ///
    /// Those of the closure; [`Error::UnknownShard`] and [`Error::PinnedElsewhere`] (then the
    /// closure is not run).
    pub fn on<'a, T, E, F>(
        &'a self,
        shard: impl AsRef<str>,
        f: F,
    ) -> impl Future<Output = Result<T, E>> + Send
    where
        T: Send + 'a,
        E: From<diesel::result::Error> + Send + 'a,
        F: AsyncFnOnce() -> Result<T, E> + SendAsyncFn0<Result<T, E>, Fut: Send> + Send + 'a,
    {
        self.on_located(self.locate(shard.as_ref()), f)
    }

    /// Runs an async closure under a route to what was located before.
    pub(super) fn on_located<'a, T, E, F>(
        &'a self,
        at: Result<Located, Error>,
        f: F,
    ) -> impl Future<Output = Result<T, E>> + Send + use<'a, C, T, E, F>
    where
        T: Send + 'a,
        E: From<diesel::result::Error> + Send + 'a,
        F: AsyncFnOnce() -> Result<T, E> + SendAsyncFn0<Result<T, E>, Fut: Send> + Send + 'a,
    {
        let topology = self.topology().id();
        async move {
            let routed = at.and_then(|at| {
                in_route(topology, at, async move {
                    let f = f;
                    f().await
                })
            });
            routed
                .inspect_err(telemetry::refused)
                .map_err(into_caller)?
                .await
        }
    }

    /// Runs a closure in a transaction on a shard; the shard is pinned until it ends.
    ///
    /// `Ok` means committed. An `Err` or a panic of the closure rolls back and comes out unchanged.
    /// Savepoints are Diesel's own: `conn.transaction(..)`.
    ///
    /// # Errors
    ///
    /// Those of the closure; [`Error::UnknownShard`]; [`Error::AlreadyInTransaction`] and
    /// [`Error::PinnedElsewhere`] inside another `transaction_on`; what the node answers to a
    /// checkout; [`Error::RolledBack`] when the server did not commit.
    pub fn transaction_on<'a, T, E, F>(
        &'a self,
        shard: impl AsRef<str>,
        f: F,
    ) -> impl Future<Output = Result<T, E>> + Send
    where
        T: Send + 'a,
        E: From<diesel::result::Error> + Send + 'a,
        for<'r> F: AsyncFnOnce(&'r mut AsyncShardedConnection<C>) -> Result<T, E>
            + SendAsyncFn<&'r mut AsyncShardedConnection<C>, Result<T, E>, Fut: Send>
            + Send
            + 'a,
    {
        self.transaction_builder(shard).run(f)
    }

    /// Sets the options of a transaction on a shard before it is run.
    ///
    /// An unknown shard is answered by [`run`](TransactionBuilder::run).
    pub fn transaction_builder(&self, shard: impl AsRef<str>) -> TransactionBuilder<C> {
        let target = self.locate(shard.as_ref()).inspect_err(telemetry::refused);
        TransactionBuilder::new(self.clone(), target)
    }

    /// Runs an async closure as in a fresh task, as far as this topology is concerned: no pin and no
    /// outer route, connections and transactions of its own. Afterwards both are back.
    ///
    /// For what must be kept whatever becomes of the surrounding transaction: an audit record, a
    /// counter of attempts.
    pub fn independent<'a, T, F>(
        &'a self,
        f: F,
    ) -> impl Future<Output = T> + Send + use<'a, C, T, F>
    where
        T: Send + 'a,
        F: AsyncFnOnce() -> T + SendAsyncFn0<T, Fut: Send> + Send + 'a,
    {
        let topology = self.topology().id();
        async move {
            in_barrier(topology, async move {
                let f = f;
                f().await
            })
            .await
        }
    }

    /// A keyspace by name; it follows changes of the topology.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownKeyspace`].
    pub fn keyspace(&self, name: impl AsRef<str>) -> Result<Keyspace<C>, Error> {
        let keyspace = KeyspaceRef::find(self.topology(), name.as_ref())?;
        Ok(Keyspace::new(self.clone(), keyspace))
    }

    /// The state of every node's pool, and what was counted since the manager was made.
    ///
    /// With the feature `metrics` this also sets the gauges of the pools, so call it now and then:
    /// where metrics are scraped, for example.
    #[must_use]
    pub fn status(&self) -> Status {
        self.inner.fleet.status()
    }
}

#[cfg(any(feature = "tower", feature = "actix"))]
impl<C: AsyncNodeConnection> crate::web::ShardSource for AsyncShardedConnectionManager<C> {
    fn topology(&self) -> &Topology {
        self.inner.fleet.topology()
    }

    fn unavailable(&self, route: &Route) -> Option<Error> {
        self.nodes().ok()?.unavailable(route.located())
    }
}

impl<C: AsyncNodeConnection> fmt::Debug for AsyncShardedConnectionManager<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AsyncShardedConnectionManager")
            .field("shards", &self.shards())
            .finish_non_exhaustive()
    }
}
