//! The manager: the pools of all nodes, and the ways to reach them.

use std::fmt;
use std::sync::Arc;

use super::backend::NodeConnection;
use super::builder::ManagerBuilder;
use super::connection::ShardedConnection;
use super::keyspace::Keyspace;
use super::node::{Lease, Node, Options, Threads};
use super::transaction::TransactionBuilder;
use crate::driver::Status;
use crate::driver::fleet::Fleet;
use crate::driver::keyspace::KeyspaceRef;
use crate::driver::node_set::{NodeSet, Nodes};
use crate::driver::reload::refuse_foreign_urls;
use crate::driver::text_settings;
use crate::error::Error;
use crate::name::ShardName;
use crate::route::{Located, Route, into_caller, stack};
use crate::telemetry::{self, Reason};
use crate::topology::{ShardState, Startup, Topology};

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
    pub(super) inner: Arc<Inner<C>>,
}

pub(super) struct Inner<C: NodeConnection> {
    pub(super) fleet: Fleet<Node<C>>,
    pub(super) threads: Arc<Threads>,
    pub(super) options: Options<C>,
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
        ManagerBuilder::new()
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
        Self::new(topology, Options::default(), Arc::new(Threads::new()))
    }

    pub(super) fn new(
        topology: &Topology,
        options: Options<C>,
        threads: Arc<Threads>,
    ) -> Result<Self, Error> {
        let snapshot = topology.snapshot();
        refuse_foreign_urls::<C>(&snapshot, C::accepts)?;
        let startup = snapshot.startup;
        let nodes = NodeSet::new(snapshot, None, |snapshot, spec, class| {
            Node::new(topology, snapshot, spec, class, &options, &threads)
        });
        let manager = Self {
            inner: Arc::new(Inner {
                fleet: Fleet::new(topology.clone(), nodes),
                threads,
                options,
            }),
        };
        if startup == Startup::Require {
            for node in manager.inner.fleet.load().open_primaries() {
                node.checkout()?;
            }
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
    /// # Errors
    ///
    /// [`Error::NoRoute`] without route and default; [`Error::AlreadyInTransaction`] or
    /// [`Error::PinnedElsewhere`] inside a `transaction_on`; [`Error::Unavailable`],
    /// [`Error::PoolExhausted`] and [`Error::WouldDeadlock`] from the node.
    pub fn get(&self) -> Result<ShardedConnection<C>, Error> {
        let nodes = self.nodes()?;
        let (at, reason) = self
            .route_in_force(&nodes)
            .inspect_err(telemetry::refused)?;
        self.checkout(nodes, at, reason)
    }

    /// Checks out a connection of a shard by name, whatever the route in force; the workload class
    /// of that route holds here too.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownShard`], and all of [`get`](Self::get) but [`Error::NoRoute`].
    pub fn get_on(&self, shard: impl AsRef<str>) -> Result<ShardedConnection<C>, Error> {
        let nodes = self.nodes()?;
        let at = nodes
            .snapshot
            .locate(shard.as_ref())
            .inspect_err(telemetry::refused)?;
        self.checkout(nodes, at, Reason::Named)
    }

    /// Checks out what was located before.
    pub(super) fn get_at(&self, at: Located) -> Result<ShardedConnection<C>, Error> {
        self.checkout(self.nodes()?, at, Reason::Named)
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
    pub(super) fn checkout(
        &self,
        nodes: Nodes<Node<C>>,
        at: Located,
        reason: Reason,
    ) -> Result<ShardedConnection<C>, Error> {
        let topology = self.topology().id();
        let at = stack::admit(topology, at).inspect_err(telemetry::refused)?;
        let lease = self.lease(nodes, at, reason)?;
        let by_stack = !matches!(reason, Reason::Named);
        Ok(ShardedConnection::bound(topology, lease, by_stack))
    }

    fn lease(
        &self,
        mut nodes: Nodes<Node<C>>,
        at: Located,
        reason: Reason,
    ) -> Result<Lease<C>, Error> {
        loop {
            let shard = nodes.shard(at)?;
            if shard.state == ShardState::Offline {
                let error = Error::ShardOffline { shard: at.shard };
                telemetry::refused(&error);
                return Err(error);
            }
            let node = shard.pool(at.class)?;
            let lease = node.checkout().transpose();
            if let Some(lease) = &lease {
                node.meters().checkout(reason, lease.is_ok());
            }
            if let Some(mut lease) = lease.transpose()? {
                let read_only = shard.state == ShardState::ReadOnly;
                let slot = lease.slot_mut();
                slot.tables.adopt(shard.tables.as_ref());
                if slot.tables.is_needed() {
                    // Asked as it was made, unless a reload has brought the tables since.
                    let unfit = slot.unfit_settings().map_err(|source| Error::Database {
                        shard: Some(at.shard),
                        source,
                    })?;
                    if let Some(problem) = unfit {
                        return Err(text_settings::unfit(at.shard, node.role(), problem));
                    }
                }
                slot.set_shard_read_only(read_only)
                    .map_err(|source| Error::Database {
                        shard: Some(at.shard),
                        source,
                    })?;
                return Ok(lease);
            }
            // The node was taken out of service while we were at its door.
            nodes = self.nodes()?;
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
        let at = self
            .locate(shard.as_ref())
            .inspect_err(telemetry::refused)
            .map_err(into_caller)?;
        let _scope = stack::enter(self.topology().id(), at)
            .inspect_err(telemetry::refused)
            .map_err(into_caller)?;
        telemetry::in_route(at.shard, f)
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
        let target = self.locate(shard.as_ref()).inspect_err(telemetry::refused);
        TransactionBuilder::new(self.clone(), target)
    }

    /// Runs a closure as on a fresh thread, as far as this topology is concerned: no pin and no
    /// outer route, connections and transactions of its own. Afterwards both are back.
    ///
    /// For what must be kept whatever becomes of the surrounding transaction: an audit record, a
    /// counter of attempts.
    pub fn independent<T>(&self, f: impl FnOnce() -> T) -> T {
        let _scope = stack::barrier(self.topology().id());
        f()
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
impl<C: NodeConnection> crate::web::ShardSource for ShardedConnectionManager<C> {
    fn topology(&self) -> &Topology {
        self.inner.fleet.topology()
    }

    fn unavailable(&self, route: &Route) -> Option<Error> {
        self.nodes().ok()?.unavailable(route.located())
    }
}

impl<C: NodeConnection> fmt::Debug for ShardedConnectionManager<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ShardedConnectionManager")
            .field("shards", &self.shards())
            .finish_non_exhaustive()
    }
}
