//! What a topology tells about itself: for tools, status pages, migrations.

use std::ops::Range;

use super::snapshot::NodeSpec;
use super::{Grouped, ShardState, Startup, Topology, UrlKind};
use crate::algorithm::{Fingerprint, Placement};
use crate::error::{ConfigProblem, Error};
use crate::key::{KeyType, ToShardKey};
use crate::name::{KeyspaceName, Role, ShardName};
use crate::route::Route;
use crate::topology::DatabaseUrl;

/// Which shard owns which hash buckets, in the order of the buckets.
pub type BucketMap = Vec<(Range<u32>, ShardName)>;

/// One node of a topology.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct NodeDescription {
    /// The shard the node belongs to.
    pub shard: ShardName,
    /// The node's role in it.
    pub role: Role,
    /// Where the node is; prints without its password.
    pub url: DatabaseUrl,
    /// Whether the shard takes work.
    pub state: ShardState,
    /// The share of reads a replica takes among the replicas of its shard; 1 for a primary.
    pub weight: u32,
    /// The most connections the node's pool opens.
    pub max_size: u32,
    /// What a driver needs beyond this.
    #[cfg(feature = "r2d2")]
    spec: NodeSpec,
}

/// One sharded table of a keyspace.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TableDescription {
    /// The logical name.
    pub name: String,
    /// The column that holds the shard key.
    pub key_column: String,
    /// Into how many physical tables each shard splits it; 1 where the rule names them.
    pub count: u32,
    /// Whether the rule names the physical tables.
    pub by_rule: bool,
    /// How the physical tables are named: `{name}_{table}`.
    pub pattern: String,
}

/// One keyspace and its rule, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeyspaceDescription {
    /// The name.
    pub name: KeyspaceName,
    /// The type of its shard keys.
    pub key: KeyType,
    /// The kind of its algorithm, as a configuration names it: `hash`.
    pub algorithm: &'static str,
    /// Its shards, in the order of the rule.
    pub shards: Vec<ShardName>,
    /// What its rule, map and tables come to; see [`Topology::fingerprint`].
    pub fingerprint: Fingerprint,
    /// Its folders of migrations; `{backend}` in them is not replaced.
    pub migrations: Vec<String>,
}

impl NodeDescription {
    fn of(node: &NodeSpec, state: ShardState) -> Self {
        Self {
            shard: node.shard,
            role: node.role,
            url: node.url.clone(),
            state,
            weight: node.weight,
            max_size: node.pool.max_size,
            #[cfg(feature = "r2d2")]
            spec: node.clone(),
        }
    }

    #[cfg(feature = "r2d2")]
    pub(crate) fn spec(&self) -> &NodeSpec {
        &self.spec
    }
}

impl Topology {
    /// All nodes: each shard's primary, then its replicas, sorted by shard.
    #[must_use]
    pub fn nodes(&self) -> Vec<NodeDescription> {
        self.with_current(|snapshot| {
            snapshot
                .shards()
                .iter()
                .flat_map(|shard| {
                    std::iter::once(&shard.primary)
                        .chain(&shard.replicas)
                        .map(|node| NodeDescription::of(node, shard.state))
                })
                .collect()
        })
    }

    /// The shard of a checkout without a route, if there is one.
    #[must_use]
    pub fn default_shard(&self) -> Option<ShardName> {
        self.with_current(|snapshot| {
            let index = snapshot.default_shard?;
            Some(snapshot.shard(index).name)
        })
    }

    /// When nodes are first connected.
    #[must_use]
    pub fn startup(&self) -> Startup {
        self.with_current(|snapshot| snapshot.startup)
    }

    /// Whether several shards may be one database, for development.
    #[must_use]
    pub fn shared_database(&self) -> bool {
        self.with_current(|snapshot| snapshot.shared_database)
    }

    /// The backends that the shards' URLs name, each once.
    #[must_use]
    pub fn url_kinds(&self) -> Vec<UrlKind> {
        let mut kinds = Vec::new();
        for kind in self.nodes().iter().filter_map(|node| node.url.kind()) {
            if !kinds.contains(&kind) {
                kinds.push(kind);
            }
        }
        kinds
    }

    /// What a keyspace is made of.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownKeyspace`].
    pub fn describe_keyspace(
        &self,
        keyspace: impl AsRef<str>,
    ) -> Result<KeyspaceDescription, Error> {
        self.with_current(|snapshot| {
            let entry = &snapshot.keyspaces()[snapshot.find_keyspace(keyspace.as_ref())?];
            Ok(KeyspaceDescription {
                name: entry.name,
                key: entry.rule.key_type(),
                algorithm: entry.rule.algorithm_name(),
                shards: entry.rule.shards().to_vec(),
                fingerprint: entry.fingerprint,
                migrations: entry.migrations.clone(),
            })
        })
    }

    /// The sharded tables of a keyspace, sorted by name.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownKeyspace`].
    pub fn tables(&self, keyspace: impl AsRef<str>) -> Result<Vec<TableDescription>, Error> {
        self.with_current(|snapshot| {
            let entry = &snapshot.keyspaces()[snapshot.find_keyspace(keyspace.as_ref())?];
            Ok(entry
                .tables
                .iter()
                .map(|table| TableDescription {
                    name: table.name.clone(),
                    key_column: table.key_column.clone(),
                    count: table.count,
                    by_rule: table.by_rule,
                    pattern: table.pattern.text(),
                })
                .collect())
        })
    }

    /// The migration folders of a shard: its own, and those of every keyspace it is in, sorted and
    /// each once. `{backend}` in them is not replaced.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownShard`].
    pub fn migrations(&self, shard: impl AsRef<str>) -> Result<Vec<String>, Error> {
        self.with_current(|snapshot| {
            let shard = snapshot.shard(snapshot.find(shard.as_ref())?);
            let of_keyspaces = snapshot
                .keyspaces()
                .iter()
                .filter(|keyspace| keyspace.rule.shards().contains(&shard.name))
                .flat_map(|keyspace| &keyspace.migrations);
            let mut folders: Vec<String> = shard
                .migrations
                .iter()
                .chain(of_keyspaces)
                .cloned()
                .collect();
            folders.sort();
            folders.dedup();
            Ok(folders)
        })
    }

    /// What is doubtful in the description, though not wrong: a hash keyspace whose map is not
    /// written down, a database shared by several shards.
    #[must_use]
    pub fn warnings(&self) -> Vec<ConfigProblem> {
        self.with_current(|snapshot| {
            snapshot
                .warnings
                .iter()
                .map(|problem| problem.clone().at(|_| String::new()))
                .collect()
        })
    }

    /// Where a key's rows live.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownKeyspace`], [`Error::NullShardKey`], [`Error::KeyType`],
    /// [`Error::NotCovered`].
    pub fn locate<K>(&self, keyspace: impl AsRef<str>, key: &K) -> Result<Placement, Error>
    where
        K: ToShardKey + ?Sized,
    {
        self.with_current(|snapshot| {
            snapshot.keyspaces()[snapshot.find_keyspace(keyspace.as_ref())?].locate(key)
        })
    }

    /// Refuses a key whose rows belong to another shard than the one at hand.
    #[cfg(any(feature = "r2d2", feature = "bb8"))]
    pub(crate) fn ensure_owner<K>(
        &self,
        keyspace: &str,
        key: &K,
        bound: ShardName,
    ) -> Result<(), Error>
    where
        K: ToShardKey + ?Sized,
    {
        self.with_current(|snapshot| {
            let keyspace = &snapshot.keyspaces()[snapshot.find_keyspace(keyspace)?];
            let owner = keyspace.locate(key)?.shard();
            if owner == bound {
                return Ok(());
            }
            Err(Error::WrongShard {
                keyspace: keyspace.name,
                owner,
                bound,
            })
        })
    }

    /// Sorts items by the shard of their key: order is kept, and an item whose key has no shard
    /// comes back with its error.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownKeyspace`].
    pub fn group_by_shard<T, K>(
        &self,
        keyspace: impl AsRef<str>,
        items: impl IntoIterator<Item = T>,
        key: impl FnMut(&T) -> K,
    ) -> Result<Grouped<T>, Error>
    where
        K: ToShardKey,
    {
        self.with_current(|snapshot| {
            let entry = &snapshot.keyspaces()[snapshot.find_keyspace(keyspace.as_ref())?];
            Ok(entry.group(items, key))
        })
    }

    /// Which shard owns which hash buckets, complete and in order; `None` for a rule without buckets.
    /// Written down as the keyspace's `map`, it keeps every row where it is when shards are added.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownKeyspace`].
    pub fn bucket_map(&self, keyspace: impl AsRef<str>) -> Result<Option<BucketMap>, Error> {
        self.with_current(|snapshot| {
            let entry = &snapshot.keyspaces()[snapshot.find_keyspace(keyspace.as_ref())?];
            Ok(entry.rule.effective_map())
        })
    }

    /// The fingerprint of a keyspace's rule, map and tables: equal fingerprints place every key
    /// alike.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownKeyspace`].
    pub fn fingerprint(&self, keyspace: impl AsRef<str>) -> Result<Fingerprint, Error> {
        self.with_current(|snapshot| {
            Ok(snapshot.keyspaces()[snapshot.find_keyspace(keyspace.as_ref())?].fingerprint)
        })
    }

    /// Makes a route to a shard.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownShard`].
    pub fn route(&self, shard: impl AsRef<str>) -> Result<Route, Error> {
        let at = self.with_current(|snapshot| snapshot.locate(shard.as_ref()))?;
        Ok(Route::new(self.clone(), at))
    }

    /// Makes the route to the shard of a key, and to its physical tables. No I/O.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownKeyspace`], and those of [`locate`](Self::locate).
    pub fn route_for<K>(&self, keyspace: impl AsRef<str>, key: &K) -> Result<Route, Error>
    where
        K: ToShardKey + ?Sized,
    {
        let at = self.with_current(|snapshot| {
            let keyspace = &snapshot.keyspaces()[snapshot.find_keyspace(keyspace.as_ref())?];
            snapshot.locate_placement(keyspace, keyspace.locate(key)?)
        })?;
        Ok(Route::new(self.clone(), at))
    }

    /// The route of this topology that is in force in the calling scope, if there is one.
    ///
    /// For code that hands it on in another form: its text goes into the header of a message.
    ///
    /// ```
    /// # use diesel_sharded::{Error, Topology};
    /// # fn main() -> Result<(), Error> {
    /// let topology = Topology::builder().shard("a", "a.db").build()?;
    /// assert!(topology.route_in_force().is_none());
    /// topology.route("a")?.run(|| {
    ///     let header = topology.route_in_force().map(|route| route.to_string());
    ///     assert_eq!(header.as_deref(), Some("v1;shard=a"));
    ///     Ok(())
    /// })
    /// # }
    /// ```
    #[must_use]
    pub fn route_in_force(&self) -> Option<Route> {
        let at = crate::route::stack::top(self.id())?;
        Some(Route::new(self.clone(), at))
    }

    /// Reads a route's text form and checks it against the topology of today.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidRoute`] for a text that is not a route this release can honour,
    /// [`Error::UnknownShard`] for one whose shard is gone.
    pub fn parse_route(&self, text: &str) -> Result<Route, Error> {
        crate::route::parse(self, text)
    }
}
