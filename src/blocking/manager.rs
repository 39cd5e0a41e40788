//! The manager: the pools of all nodes, and the ways to reach them.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;
use diesel::ConnectionResult;

use super::backend::NodeConnection;
use super::connection::ShardedConnection;
use super::keyspace::Keyspace;
use super::node::{Connector, Node, NodeInfo, Threads};
use super::status::{NodeStatus, Status};
use super::transaction::TransactionBuilder;
use crate::error::{ConfigErrors, ConfigProblem, Error};
use crate::name::ShardName;
use crate::route::{Located, Route, into_caller, stack};
use crate::telemetry;
use crate::topology::{
    KeyspaceConfig, PoolConfig, ShardConfig, Snapshot, Startup, Topology, TopologyBuilder,
};

/// The pools of all physical databases of a topology, and the routing between them.
///
/// Use it as it is ([`get`](Self::get), [`transaction_on`](Self::transaction_on)), or put it into
/// an `r2d2::Pool` in place of Diesel's own `ConnectionManager` ([`into_pool`](Self::into_pool)):
/// each checkout then goes to the database named by the route on top of the calling thread's route
/// stack.
///
/// Cloning gives another handle to the same pools.
///
/// ```
/// # #[cfg(feature = "sqlite")] fn main() -> Result<(), diesel_sharded::Error> {
/// use diesel::connection::SimpleConnection;
/// use diesel::SqliteConnection;
/// use diesel_sharded::blocking::ShardedConnectionManager;
///
/// # let dir = tempfile::tempdir().expect("a temporary folder");
/// # let file = |name: &str| dir.path().join(name).display().to_string();
/// let shards = ShardedConnectionManager::<SqliteConnection>::builder()
///     .shard("order-0", file("order-0.db"))
///     .shard("order-1", file("order-1.db"))
///     .build()?;
///
/// shards.transaction_on("order-1", |conn| {
///     conn.batch_execute("CREATE TABLE t (id INTEGER)")
/// })?;
/// assert_eq!(shards.get_on("order-1")?.shard(), Some(shards.shards()[1]));
/// # Ok(())
/// # }
/// # #[cfg(not(feature = "sqlite"))] fn main() {}
/// ```
pub struct ShardedConnectionManager<C: NodeConnection> {
    inner: Arc<Inner<C>>,
}

struct Inner<C: NodeConnection> {
    topology: Topology,
    nodes: ArcSwap<NodeSet<C>>,
    threads: Arc<Threads>,
    fallbacks: AtomicU64,
}

/// The nodes of one snapshot, in its order.
struct NodeSet<C: NodeConnection> {
    snapshot: Arc<Snapshot>,
    primaries: Vec<Arc<Node<C>>>,
}

impl<C: NodeConnection> NodeSet<C> {
    #[inline]
    fn primary(&self, at: Located) -> Result<&Arc<Node<C>>, Error> {
        let index = self.snapshot.relocate(at)?;
        Ok(&self.primaries[index.get()])
    }
}

impl<C: NodeConnection> Clone for ShardedConnectionManager<C> {
    fn clone(&self) -> Self {
        Self {
            inner: Arc::clone(&self.inner),
        }
    }
}

impl<C: NodeConnection> ShardedConnectionManager<C> {
    /// Starts the description of a topology and its manager in code.
    pub fn builder() -> ManagerBuilder<C> {
        ManagerBuilder {
            topology: Topology::builder(),
            connector: None,
        }
    }

    /// Makes a manager for a loaded configuration.
    ///
    /// # Errors
    ///
    /// [`Error::Config`] with everything that is wrong with it; with `startup = "require"` also
    /// [`Error::Unavailable`].
    #[cfg(feature = "config")]
    pub fn from_config(config: &crate::config::Config) -> Result<Self, Error> {
        Self::from_topology(&config.topology()?)
    }

    /// Makes a manager for a configuration file (`.toml`, `.yaml`, `.yml` or `.json`).
    ///
    /// # Errors
    ///
    /// Those of [`Config::from_file`](crate::Config::from_file) and
    /// [`from_config`](Self::from_config).
    #[cfg(feature = "config")]
    pub fn from_file(path: impl AsRef<std::path::Path>) -> Result<Self, Error> {
        Self::from_config(&crate::config::Config::from_file(path)?)
    }

    /// Makes a manager for a topology that may have other managers too; they see each other's
    /// routes.
    ///
    /// # Errors
    ///
    /// [`Error::Config`] when a node's URL is not one of `C`'s; [`Error::Unavailable`] when the
    /// topology says [`Startup::Require`] and a node cannot be reached.
    pub fn from_topology(topology: &Topology) -> Result<Self, Error> {
        Self::new(topology, None)
    }

    fn new(topology: &Topology, connector: Option<Arc<Connector<C>>>) -> Result<Self, Error> {
        let snapshot = topology.snapshot();
        refuse_foreign_urls::<C>(&snapshot)?;
        let threads = Arc::new(Threads::new());
        let primaries = snapshot
            .shards()
            .iter()
            .map(|shard| {
                Arc::new(Node::new(
                    topology.clone(),
                    shard.primary.clone(),
                    connector.clone(),
                    Arc::clone(&threads),
                ))
            })
            .collect();
        let startup = snapshot.startup;
        let manager = Self {
            inner: Arc::new(Inner {
                topology: topology.clone(),
                nodes: ArcSwap::from_pointee(NodeSet {
                    snapshot,
                    primaries,
                }),
                threads,
                fallbacks: AtomicU64::new(0),
            }),
        };
        if startup == Startup::Require {
            for node in &manager.inner.nodes.load().primaries {
                node.checkout()?;
            }
        }
        Ok(manager)
    }

    /// The topology this manager works with.
    #[must_use]
    pub fn topology(&self) -> &Topology {
        &self.inner.topology
    }

    /// The names of the shards, sorted.
    #[must_use]
    pub fn shards(&self) -> Vec<ShardName> {
        self.inner.topology.shards()
    }

    /// Checks out a connection of the shard that the route in force names; with no route, of the
    /// default shard.
    ///
    /// # Errors
    ///
    /// [`Error::NoRoute`] without route and default; [`Error::AlreadyInTransaction`] or
    /// [`Error::PinnedElsewhere`] inside a `transaction_on`; [`Error::Unavailable`],
    /// [`Error::PoolExhausted`] and [`Error::WouldDeadlock`] from the node.
    pub fn get(&self) -> Result<ShardedConnection<C>, Error> {
        let nodes = self.inner.nodes.load();
        let at = self.route_in_force(&nodes)?;
        self.checkout(&nodes, at, true)
    }

    /// Checks out a connection of a shard by name, whatever the route in force.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownShard`], and all of [`get`](Self::get) but [`Error::NoRoute`].
    pub fn get_on(&self, shard: impl AsRef<str>) -> Result<ShardedConnection<C>, Error> {
        let nodes = self.inner.nodes.load();
        let at = nodes.snapshot.locate(shard.as_ref())?;
        self.checkout(&nodes, at, false)
    }

    /// Checks out what a route or the default names; what it answers counts as bound by the stack.
    pub(super) fn get_at(&self, at: Located) -> Result<ShardedConnection<C>, Error> {
        self.checkout(&self.inner.nodes.load(), at, false)
    }

    fn route_in_force(&self, nodes: &NodeSet<C>) -> Result<Located, Error> {
        if let Some(at) = stack::top(self.inner.topology.id()) {
            return Ok(at);
        }
        match nodes.snapshot.default_shard {
            Some(index) => {
                let at = nodes.snapshot.located(index);
                self.inner.fallbacks.fetch_add(1, Ordering::Relaxed);
                telemetry::fell_to_default(at.shard);
                Ok(at)
            }
            None => Err(Error::NoRoute {
                known: nodes.snapshot.names(),
            }),
        }
    }

    #[inline]
    fn checkout(
        &self,
        nodes: &NodeSet<C>,
        at: Located,
        by_stack: bool,
    ) -> Result<ShardedConnection<C>, Error> {
        let topology = self.inner.topology.id();
        stack::may_check_out_here(topology, at.shard)?;
        let lease = nodes.primary(at)?.checkout()?;
        Ok(ShardedConnection::bound(topology, lease, by_stack))
    }

    /// Makes a route to a shard.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownShard`].
    pub fn route(&self, shard: impl AsRef<str>) -> Result<Route, Error> {
        self.inner.topology.route(shard)
    }

    /// Reads a route's text form and checks it against the topology of today.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidRoute`] for a text that is not a route this release can honour,
    /// [`Error::UnknownShard`] for one whose shard is gone.
    pub fn parse_route(&self, text: &str) -> Result<Route, Error> {
        self.inner.topology.parse_route(text)
    }

    #[inline]
    pub(super) fn locate(&self, shard: &str) -> Result<Located, Error> {
        self.inner
            .topology
            .with_current(|snapshot| snapshot.locate(shard))
    }

    /// Runs a closure under a route to a shard.
    ///
    /// # Errors
    ///
    /// Those of the closure; [`Error::UnknownShard`] and [`Error::PinnedElsewhere`] (then the
    /// closure is not run).
    ///
    /// The closure must return a `Result`, so an `async` block does not get in here by accident: it
    /// would lose the route at its first poll.
    ///
    /// ```compile_fail
    /// # fn check(shards: diesel_sharded::blocking::ShardedConnectionManager<diesel::SqliteConnection>) {
    /// shards.on("a", || async { Ok::<_, diesel::result::Error>(()) }).unwrap();
    /// # }
    /// ```
    #[inline]
    pub fn on<T, E>(&self, shard: impl AsRef<str>, f: impl FnOnce() -> Result<T, E>) -> Result<T, E>
    where
        E: From<diesel::result::Error>,
    {
        let at = self.locate(shard.as_ref()).map_err(into_caller)?;
        let _scope = stack::enter(self.inner.topology.id(), at).map_err(into_caller)?;
        f()
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
    pub fn transaction_on<T, E, F>(&self, shard: impl AsRef<str>, f: F) -> Result<T, E>
    where
        F: FnOnce(&mut ShardedConnection<C>) -> Result<T, E>,
        E: From<diesel::result::Error>,
    {
        self.transaction_builder(shard).run(f)
    }

    /// Sets the options of a transaction on a shard before it is run.
    ///
    /// An unknown shard is answered by [`run`](TransactionBuilder::run).
    pub fn transaction_builder(&self, shard: impl AsRef<str>) -> TransactionBuilder<C> {
        TransactionBuilder::new(self.clone(), self.locate(shard.as_ref()))
    }

    /// Runs a closure as on a fresh thread, as far as this topology is concerned: no pin and no
    /// outer route, connections and transactions of its own. Afterwards both are back.
    ///
    /// For what must be kept whatever becomes of the surrounding transaction: an audit record, a
    /// counter of attempts.
    pub fn independent<T>(&self, f: impl FnOnce() -> T) -> T {
        let _scope = stack::barrier(self.inner.topology.id());
        f()
    }

    /// A keyspace by name; it follows changes of the topology.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownKeyspace`].
    pub fn keyspace(&self, name: impl AsRef<str>) -> Result<Keyspace<C>, Error> {
        let (name, index) = self.inner.topology.with_current(|snapshot| {
            let index = snapshot.find_keyspace(name.as_ref())?;
            Ok::<_, Error>((snapshot.keyspaces()[index].name, index))
        })?;
        Ok(Keyspace::new(self.clone(), name, index))
    }

    /// The state of every node's pool, and what was counted since the manager was made.
    #[must_use]
    pub fn status(&self) -> Status {
        let nodes = self.inner.nodes.load();
        Status {
            epoch: nodes.snapshot.epoch,
            default_fallbacks: self.inner.fallbacks.load(Ordering::Relaxed),
            nodes: nodes.primaries.iter().map(NodeStatus::of).collect(),
        }
    }

    /// The connections that all node pools together may open.
    fn capacity(&self) -> u32 {
        self.inner
            .nodes
            .load()
            .primaries
            .iter()
            .fold(0, |sum, node| sum.saturating_add(node.spec().pool.max_size))
    }

    /// Puts the manager into an outer r2d2 pool, sized so that the node pools are what limits a
    /// caller.
    ///
    /// The outer pool hands out handles, which cost nothing while idle; the database connections
    /// stay in the node pools. For other settings build it with `r2d2::Pool::builder()` as usual.
    #[must_use]
    pub fn into_pool(self) -> r2d2::Pool<Self> {
        let longest = self
            .inner
            .nodes
            .load()
            .primaries
            .iter()
            .map(|node| node.spec().pool.connection_timeout)
            .max()
            .unwrap_or(std::time::Duration::from_secs(30));
        r2d2::Pool::builder()
            .max_size(self.capacity().max(1))
            .min_idle(Some(1))
            .idle_timeout(None)
            .max_lifetime(None)
            .connection_timeout(longest)
            .thread_pool(self.inner.threads.pool())
            .build_unchecked(self)
    }

    /// Binds a handle of an outer pool by the stack. `Ok(None)`: no route, no default.
    pub(super) fn bind_by_stack(&self) -> Result<Option<ShardedConnection<C>>, Error> {
        match self.get() {
            Ok(conn) => Ok(Some(conn)),
            Err(Error::NoRoute { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// A node that `C` cannot talk to is a mistake of the configuration, found before any checkout.
fn refuse_foreign_urls<C: NodeConnection>(snapshot: &Snapshot) -> Result<(), Error> {
    let problems: Vec<_> = snapshot
        .shards()
        .iter()
        .filter(|shard| {
            !shard
                .primary
                .url
                .kind()
                .is_some_and(|kind| C::accepts(kind))
        })
        .map(|shard| ConfigProblem {
            origin: String::new(),
            key: format!("shards.{}.url", shard.name),
            message: format!(
                "{} does not connect to this kind of url ({})",
                std::any::type_name::<C>(),
                shard.primary.url
            ),
        })
        .collect();
    if problems.is_empty() {
        Ok(())
    } else {
        Err(Error::Config(ConfigErrors(problems)))
    }
}

impl<C: NodeConnection> fmt::Debug for ShardedConnectionManager<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ShardedConnectionManager")
            .field("shards", &self.shards())
            .finish_non_exhaustive()
    }
}

/// Describes a topology in code and makes the manager for it.
#[must_use = "a builder does nothing until it is built"]
pub struct ManagerBuilder<C: NodeConnection> {
    topology: TopologyBuilder,
    connector: Option<Arc<Connector<C>>>,
}

impl<C: NodeConnection> ManagerBuilder<C> {
    /// Adds a shard: its name, and its URL or a [`ShardConfig`].
    pub fn shard(mut self, name: impl Into<String>, shard: impl Into<ShardConfig>) -> Self {
        self.topology = self.topology.shard(name, shard);
        self
    }

    /// Adds a keyspace.
    pub fn keyspace(mut self, name: impl Into<String>, keyspace: KeyspaceConfig) -> Self {
        self.topology = self.topology.keyspace(name, keyspace);
        self
    }

    /// Names the shard of a checkout without a route. Defaults to none: such a checkout fails.
    pub fn default_shard(mut self, name: impl Into<String>) -> Self {
        self.topology = self.topology.default_shard(name);
        self
    }

    /// Sets the pool settings of every node; a shard may override any of them.
    pub fn pool(mut self, pool: PoolConfig) -> Self {
        self.topology = self.topology.pool(pool);
        self
    }

    /// Says when nodes are first connected. Defaults to [`Startup::Lazy`].
    pub fn startup(mut self, startup: Startup) -> Self {
        self.topology = self.topology.startup(startup);
        self
    }

    /// Allows several shards to be one database, for development. Defaults to `false`.
    pub fn shared_database(mut self, shared: bool) -> Self {
        self.topology = self.topology.shared_database(shared);
        self
    }

    /// Limits the connections to one server; see [`TopologyBuilder::budget`].
    pub fn budget(mut self, connections_per_server: u32, instances: u32, headroom: f64) -> Self {
        self.topology = self
            .topology
            .budget(connections_per_server, instances, headroom);
        self
    }

    /// Connects nodes in the application's own way: TLS, short-lived tokens, `SET` after connect.
    ///
    /// Called for each physical connection, on a thread that may wait; an attempt that outlives
    /// `connect_timeout` is given up.
    ///
    /// ```
    /// # #[cfg(feature = "postgres")] fn check() -> Result<(), diesel_sharded::Error> {
    /// use diesel::{Connection, PgConnection};
    /// use diesel::connection::SimpleConnection;
    /// use diesel_sharded::blocking::ShardedConnectionManager;
    ///
    /// let shards = ShardedConnectionManager::<PgConnection>::builder()
    ///     .shard("order-0", "postgres://app@db-0/orders")
    ///     .connect_with(|node| {
    ///         let mut conn = PgConnection::establish(node.url().expose())?;
    ///         conn.batch_execute("SET application_name = 'orders'")
    ///             .map_err(diesel::ConnectionError::CouldntSetupConfiguration)?;
    ///         Ok(conn)
    ///     })
    ///     .build()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn connect_with(
        mut self,
        connect: impl Fn(NodeInfo<'_>) -> ConnectionResult<C> + Send + Sync + 'static,
    ) -> Self {
        self.connector = Some(Arc::new(connect));
        self
    }

    /// Checks the description and makes the manager. Opens no connection, unless the topology says
    /// [`Startup::Require`].
    ///
    /// # Errors
    ///
    /// [`Error::Config`] with everything that is wrong; [`Error::Unavailable`] under
    /// [`Startup::Require`].
    pub fn build(self) -> Result<ShardedConnectionManager<C>, Error> {
        ShardedConnectionManager::new(&self.topology.build()?, self.connector)
    }
}

impl<C: NodeConnection> fmt::Debug for ManagerBuilder<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ManagerBuilder")
            .field("topology", &self.topology)
            .finish_non_exhaustive()
    }
}
