//! What exists: shards, their nodes, keyspaces and tables, checked once and then immutable.
//!
//! A [`Topology`] is an identity (routes belong to exactly one) and, behind an atomic pointer, the
//! current [`Snapshot`]. Readers never lock; a change is a new snapshot with the next epoch.

#[cfg(any(feature = "r2d2", feature = "bb8"))]
mod change;
mod current;
mod describe;
mod diff;
mod group;
mod password;
mod place;
mod skew;
mod snapshot;
mod spec;
mod tables;
mod url;
mod validate;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{ConfigErrors, Error};
use crate::name::{KeyspaceName, ShardName};

#[cfg(any(feature = "r2d2", feature = "bb8"))]
pub(crate) use change::Changing;
#[cfg(feature = "bb8")]
pub(crate) use change::Turn;
pub use describe::{BucketMap, KeyspaceDescription, NodeDescription, TableDescription};
pub use diff::{Move, PlacementDiff, PlacementSample};
pub use group::{Grouped, Refused};
#[cfg(feature = "config")]
pub(crate) use password::PasswordCommand;
pub use place::RangeTarget;
pub use skew::{HeavyKey, Share, Skew, SkewReport};
#[cfg(feature = "config")]
pub(crate) use snapshot::nearest;
pub(crate) use snapshot::{KeyspaceEntry, ShardIndex, Snapshot};
#[cfg(any(feature = "r2d2", feature = "bb8"))]
pub(crate) use snapshot::{NodeSpec, PoolSettings};
pub(crate) use spec::TopologySpec;
#[cfg(feature = "config")]
pub(crate) use spec::{BudgetConfig, TableConfig};
pub use spec::{KeyspaceConfig, PoolConfig, ReplicaConfig, ShardConfig, ShardState, Startup};
#[cfg(feature = "async-postgres")]
pub(crate) use url::PostgresTarget;
pub use url::{DatabaseUrl, UrlKind};
#[cfg(feature = "rustls")]
pub(crate) use url::{Roots, TlsSettings, Verify};
#[cfg(feature = "config")]
pub(crate) use validate::{MAX_PARTS, Problem, key_of, list, normalized, unknown, validate};

/// The shards, keyspaces and settings that one or more managers work with.
///
/// Routes and pins belong to a topology: two topologies in one process never see each other's, even
/// where their shards have the same names. Cloning gives another handle to the same one.
#[derive(Clone)]
pub struct Topology {
    inner: Arc<Inner>,
}

struct Inner {
    id: TopologyId,
    current: current::Current,
    /// What the current snapshot was made from.
    #[cfg(any(feature = "r2d2", feature = "bb8"))]
    spec: std::sync::Mutex<TopologySpec>,
    /// Whether somebody is changing the topology.
    #[cfg(any(feature = "r2d2", feature = "bb8"))]
    turn: std::sync::Mutex<bool>,
    #[cfg(any(feature = "r2d2", feature = "bb8"))]
    turn_ended: std::sync::Condvar,
}

/// Tells topologies apart for the life of the process.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Hash)]
pub(crate) struct TopologyId(u64);

impl Topology {
    /// Starts the description of a topology in code.
    pub fn builder() -> TopologyBuilder {
        TopologyBuilder {
            spec: TopologySpec::default(),
        }
    }

    /// Checks a description and makes a topology of it.
    pub(crate) fn from_spec(
        spec: &TopologySpec,
        origin: impl Fn(&str) -> String,
    ) -> Result<Self, Error> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let snapshot = checked(spec, origin)?;
        let id = TopologyId(NEXT.fetch_add(1, Ordering::Relaxed));
        Ok(Self {
            inner: Arc::new(Inner {
                id,
                current: current::Current::new(id, snapshot),
                #[cfg(any(feature = "r2d2", feature = "bb8"))]
                spec: std::sync::Mutex::new(spec.clone()),
                #[cfg(any(feature = "r2d2", feature = "bb8"))]
                turn: std::sync::Mutex::default(),
                #[cfg(any(feature = "r2d2", feature = "bb8"))]
                turn_ended: std::sync::Condvar::new(),
            }),
        })
    }

    /// A topology of its own with the same description.
    #[cfg(any(feature = "r2d2", feature = "bb8"))]
    pub(crate) fn copy(&self) -> Result<Self, Error> {
        let spec = self
            .inner
            .spec
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .clone();
        Self::from_spec(&spec, |_| String::new())
    }

    pub(crate) fn id(&self) -> TopologyId {
        self.inner.id
    }

    /// Looks at the current snapshot.
    #[inline]
    pub(crate) fn with_current<T>(&self, f: impl FnOnce(&Snapshot) -> T) -> T {
        self.inner.current.with(f)
    }

    /// The current snapshot, to keep.
    #[cfg(any(feature = "r2d2", feature = "bb8"))]
    pub(crate) fn snapshot(&self) -> Arc<Snapshot> {
        self.inner.current.get()
    }

    /// The names of the shards, sorted.
    #[must_use]
    pub fn shards(&self) -> Vec<ShardName> {
        self.with_current(Snapshot::names)
    }

    /// The names of the keyspaces, sorted.
    #[must_use]
    pub fn keyspaces(&self) -> Vec<KeyspaceName> {
        self.with_current(Snapshot::keyspace_names)
    }

    /// How often the topology has changed since it was made; the first snapshot has epoch 1.
    #[must_use]
    #[inline]
    pub fn epoch(&self) -> u64 {
        self.inner.current.epoch()
    }
}

fn checked(spec: &TopologySpec, origin: impl Fn(&str) -> String) -> Result<Snapshot, Error> {
    validate::validate(spec).map_err(|problems| {
        let problems = problems.into_iter().map(|problem| problem.at(&origin));
        ConfigErrors(problems.collect()).into()
    })
}

impl fmt::Debug for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Topology")
            .field("epoch", &self.epoch())
            .field("shards", &self.shards())
            .field("keyspaces", &self.keyspaces())
            .finish()
    }
}

/// Describes a [`Topology`] in code; [`build`](Self::build) checks it as a configuration file is
/// checked.
#[derive(Clone, Debug)]
#[must_use]
pub struct TopologyBuilder {
    spec: TopologySpec,
}

impl TopologyBuilder {
    /// Adds a shard: its name, and its URL or a [`ShardConfig`].
    pub fn shard(mut self, name: impl Into<String>, shard: impl Into<ShardConfig>) -> Self {
        self.spec.shards.push((name.into(), shard.into()));
        self
    }

    /// Adds a keyspace.
    pub fn keyspace(mut self, name: impl Into<String>, keyspace: KeyspaceConfig) -> Self {
        self.spec.keyspaces.push((name.into(), keyspace));
        self
    }

    /// Names the shard of a checkout without a route. Defaults to none: such a checkout fails.
    pub fn default_shard(mut self, name: impl Into<String>) -> Self {
        self.spec.default_shard = Some(name.into());
        self
    }

    /// Sets the pool settings of every node; a shard or replica may override any of them.
    pub fn pool(mut self, pool: PoolConfig) -> Self {
        self.spec.pool = pool;
        self
    }

    /// Adds a workload class: every node gets a second pool of this size for it, so that batch work,
    /// which chooses the class by name, never takes the connections of the rest.
    ///
    /// `max_size` must be said here, and `min_idle` defaults to 0; everything else that the class
    /// leaves open comes from the ordinary settings of each node. Defaults to no class.
    pub fn workload(mut self, name: impl Into<String>, pool: PoolConfig) -> Self {
        self.spec.pools.push((name.into(), pool));
        self
    }

    /// Accepts that the rule, map or tables of this keyspace differ from what its data was placed
    /// by. Take it back once the data has been moved. Defaults to no keyspace.
    pub fn accept_placement(mut self, keyspace: impl Into<String>) -> Self {
        self.spec.accept_placement.push(keyspace.into());
        self
    }

    /// Says when nodes are first connected. Defaults to [`Startup::Lazy`].
    pub fn startup(mut self, startup: Startup) -> Self {
        self.spec.startup = startup;
        self
    }

    /// Allows several shards to be one database, for development. Defaults to `false`: two shards
    /// with one URL are a configuration error.
    pub fn shared_database(mut self, shared: bool) -> Self {
        self.spec.shared_database = shared;
        self
    }

    /// Limits the connections that all processes together open to one server: the sum of
    /// `max_size` over the nodes of each host and port, workload classes included, times `instances`,
    /// must stay within `connections_per_server` times `headroom`.
    pub fn budget(mut self, connections_per_server: u32, instances: u32, headroom: f64) -> Self {
        self.spec.budget = Some(spec::BudgetConfig {
            connections_per_server,
            instances,
            headroom,
        });
        self
    }

    #[cfg(any(feature = "r2d2", feature = "bb8"))]
    pub(crate) fn from_spec(spec: TopologySpec) -> Self {
        Self { spec }
    }

    #[cfg(any(feature = "r2d2", feature = "bb8"))]
    pub(crate) fn into_spec(self) -> TopologySpec {
        self.spec
    }

    /// Takes a shard out of the description, if it is there.
    pub fn remove_shard(mut self, name: &str) -> Self {
        self.spec.shards.retain(|(shard, _)| shard != name);
        self
    }

    /// Puts another description in place of a shard's; adds it where there is no such shard.
    pub fn replace_shard(self, name: &str, shard: impl Into<ShardConfig>) -> Self {
        self.remove_shard(name).shard(name, shard)
    }

    /// Says whether a shard takes work.
    pub fn shard_state(mut self, name: &str, state: ShardState) -> Self {
        for (shard, config) in &mut self.spec.shards {
            if shard == name {
                config.state = state;
            }
        }
        self
    }

    /// Checks the description.
    ///
    /// # Errors
    ///
    /// [`Error::Config`] with everything that is wrong with it.
    pub fn build(&self) -> Result<Topology, Error> {
        Topology::from_spec(&self.spec, |_| String::new())
    }
}
