//! One immutable state of a topology.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;
use std::time::Duration;

use super::password::PasswordCommand;
use super::spec::{ShardState, Startup};
use super::tables;
use super::url::DatabaseUrl;
use super::validate::Problem;
use crate::algorithm::{Fingerprint, Placement, Rule};
use crate::error::Error;
use crate::key::{ShardKey, ToShardKey};
use crate::name::{KeyspaceName, Role, ShardName, WorkloadName};
use crate::rewrite::{Pattern, PlacedBy, TableSet};

/// How much of an unknown name is repeated in an error.
const LONGEST_SHOWN: usize = 128;

/// The place of a shard in one snapshot; meaningless in any other.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Hash)]
pub(crate) struct ShardIndex(u32);

impl ShardIndex {
    pub(crate) fn get(self) -> usize {
        self.0 as usize
    }
}

/// Hashes a name in one go; the standard hasher takes longer than all the rest of a lookup. Names
/// come from configuration, so nobody can choose them to collide.
#[derive(Debug, Default)]
pub(crate) struct NameHasher(u64);

impl Hasher for NameHasher {
    fn write(&mut self, bytes: &[u8]) {
        self.0 = xxhash_rust::xxh3::xxh3_64_with_seed(bytes, self.0);
    }

    /// `str` ends itself with one byte, which tells nothing here.
    fn write_u8(&mut self, _: u8) {}

    fn finish(&self) -> u64 {
        self.0
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    pub(crate) epoch: u64,
    /// Sorted by name.
    shards: Vec<Shard>,
    index: HashMap<&'static str, ShardIndex, BuildHasherDefault<NameHasher>>,
    pub(crate) default_shard: Option<ShardIndex>,
    pub(crate) startup: Startup,
    /// Sorted by name.
    keyspaces: Vec<KeyspaceEntry>,
    /// The workload classes, sorted.
    pub(crate) workloads: Vec<WorkloadName>,
    /// Keyspaces whose rule may differ from what their data was placed by.
    pub(crate) accept_placement: Vec<KeyspaceName>,
    /// Several shards may be one database.
    pub(crate) shared_database: bool,
    /// What is doubtful, though not wrong, in the description.
    pub(crate) warnings: Vec<Problem>,
}

#[derive(Clone, Debug)]
pub(crate) struct Shard {
    pub(crate) name: ShardName,
    pub(crate) primary: NodeSpec,
    pub(crate) replicas: Vec<NodeSpec>,
    pub(crate) migrations: Vec<String>,
    pub(crate) state: ShardState,
    /// Its tables with physical names, if it has any.
    pub(crate) tables: Option<Arc<TableSet>>,
}

/// One physical database and how to pool connections to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NodeSpec {
    pub(crate) shard: ShardName,
    pub(crate) role: Role,
    pub(crate) url: DatabaseUrl,
    pub(crate) pool: PoolSettings,
    /// The second pools of the workload classes, sorted by name.
    pub(crate) classes: Vec<(WorkloadName, PoolSettings)>,
    /// A program that prints the password; run at each connect.
    pub(crate) password_command: Option<PasswordCommand>,
    pub(crate) weight: u32,
}

/// [`PoolConfig`](super::PoolConfig) with every level merged and every default filled in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PoolSettings {
    pub(crate) max_size: u32,
    pub(crate) min_idle: u32,
    pub(crate) connection_timeout: Duration,
    pub(crate) connect_timeout: Duration,
    pub(crate) idle_timeout: Option<Duration>,
    pub(crate) max_lifetime: Option<Duration>,
    pub(crate) alive_bypass: Duration,
    pub(crate) table_statements: u32,
}

#[derive(Clone, Debug)]
pub(crate) struct KeyspaceEntry {
    pub(crate) name: KeyspaceName,
    pub(crate) rule: Rule,
    /// Sorted by name.
    pub(crate) tables: Vec<Table>,
    /// Whether any of them has another name in the databases than in the code.
    pub(crate) has_tables: bool,
    pub(crate) fingerprint: Fingerprint,
    pub(crate) migrations: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Table {
    pub(crate) name: String,
    pub(crate) key_column: String,
    pub(crate) count: u32,
    /// The rule names the physical tables; the count is 1 then.
    pub(crate) by_rule: bool,
    /// How the physical tables are named.
    pub(crate) pattern: Pattern,
}

impl Table {
    /// Whether it has other names in the databases than in the code.
    pub(crate) fn is_physical(&self) -> bool {
        self.by_rule || !self.pattern.is_plain()
    }

    /// Whether its physical tables are named as they are where no pattern is configured.
    pub(crate) fn has_usual_names(&self) -> bool {
        self.pattern.is_usual(self.by_rule || self.count > 1)
    }

    /// Its schema and its name.
    pub(crate) fn split_name(&self) -> (Option<&str>, &str) {
        match self.name.split_once('.') {
            Some((schema, name)) => (Some(schema), name),
            None => (None, &self.name),
        }
    }
}

impl Snapshot {
    /// Puts checked parts together. Shard and keyspace names are unique; `default_shard` exists.
    pub(crate) fn new(
        epoch: u64,
        mut shards: Vec<Shard>,
        default_shard: Option<ShardName>,
        startup: Startup,
        mut keyspaces: Vec<KeyspaceEntry>,
    ) -> Self {
        shards.sort_by_key(|shard| shard.name);
        keyspaces.sort_by_key(|keyspace| keyspace.name);
        tables::assign(&mut shards, &keyspaces);
        let index: HashMap<_, _, BuildHasherDefault<NameHasher>> = (0u32..)
            .zip(&shards)
            .map(|(i, shard)| (shard.name.as_str(), ShardIndex(i)))
            .collect();
        let default_shard = default_shard.and_then(|name| index.get(name.as_str()).copied());
        Self {
            epoch,
            shards,
            index,
            default_shard,
            startup,
            keyspaces,
            workloads: Vec::new(),
            accept_placement: Vec::new(),
            shared_database: false,
            warnings: Vec::new(),
        }
    }

    pub(crate) fn with_warnings(mut self, warnings: Vec<Problem>) -> Self {
        self.warnings = warnings;
        self
    }

    pub(crate) fn shards(&self) -> &[Shard] {
        &self.shards
    }

    pub(crate) fn shard(&self, index: ShardIndex) -> &Shard {
        &self.shards[index.get()]
    }

    pub(crate) fn names(&self) -> Vec<ShardName> {
        self.shards.iter().map(|shard| shard.name).collect()
    }

    pub(crate) fn keyspaces(&self) -> &[KeyspaceEntry] {
        &self.keyspaces
    }

    pub(crate) fn keyspace_names(&self) -> Vec<KeyspaceName> {
        self.keyspaces
            .iter()
            .map(|keyspace| keyspace.name)
            .collect()
    }

    /// Finds a shard by what somebody typed.
    pub(crate) fn find(&self, name: &str) -> Result<ShardIndex, Error> {
        match self.index.get(name) {
            Some(index) => Ok(*index),
            None => Err(self.unknown_shard(name)),
        }
    }

    #[cold]
    fn unknown_shard(&self, name: &str) -> Error {
        let known = self.names();
        // The name may come from a stranger, and nobody's shard is called by a megabyte.
        let name: String = name.chars().take(LONGEST_SHOWN).collect();
        Error::UnknownShard {
            nearest: nearest(&name, known.iter().map(ShardName::as_str)).map(|i| known[i]),
            shard: name,
            known,
        }
    }

    /// Finds a workload class by what somebody typed.
    pub(crate) fn find_workload(&self, name: &str) -> Result<WorkloadName, Error> {
        self.workloads
            .iter()
            .copied()
            .find(|class| class.as_str() == name)
            .ok_or_else(|| Error::UnknownWorkload {
                workload: name.chars().take(LONGEST_SHOWN).collect(),
                known: self.workloads.clone(),
            })
    }

    /// Finds the place of a keyspace by what somebody typed.
    pub(crate) fn find_keyspace(&self, name: &str) -> Result<usize, Error> {
        self.keyspaces
            .binary_search_by(|keyspace| keyspace.name.as_str().cmp(name))
            .map_err(|_| {
                let known = self.keyspace_names();
                let name: String = name.chars().take(LONGEST_SHOWN).collect();
                Error::UnknownKeyspace {
                    nearest: nearest(&name, known.iter().map(KeyspaceName::as_str))
                        .map(|i| known[i]),
                    keyspace: name,
                    known,
                }
            })
    }
}

/// The position of the candidate that looks most like `wanted`, if one is near enough to be meant.
pub(crate) fn nearest<'a>(
    wanted: &str,
    candidates: impl Iterator<Item = &'a str>,
) -> Option<usize> {
    let wanted = wanted.trim().to_ascii_lowercase();
    candidates
        .map(|candidate| strsim::jaro_winkler(&wanted, &candidate.to_ascii_lowercase()))
        .enumerate()
        .filter(|(_, likeness)| *likeness >= 0.75)
        .max_by(|a, b| a.1.total_cmp(&b.1).then(b.0.cmp(&a.0)))
        .map(|(i, _)| i)
}

impl KeyspaceEntry {
    /// Of routes that are made now.
    #[inline]
    pub(crate) fn placed_by(&self) -> PlacedBy {
        PlacedBy(self.fingerprint.half())
    }

    /// The placement of a key by the keyspace's rule.
    #[inline]
    pub(crate) fn locate<K: ToShardKey + ?Sized>(&self, key: &K) -> Result<Placement, Error> {
        let key = key.to_shard_key();
        match self.rule.find(&key) {
            Some(placement) => Ok(placement),
            None => self.locate_with_care(&key),
        }
    }

    /// For keys that are normalized first, and those that have no placement and get to know why.
    #[inline(never)]
    fn locate_with_care(&self, key: &ShardKey<'_>) -> Result<Placement, Error> {
        self.rule
            .place(key)
            .map_err(|error| error.into_error(self.name))
    }
}
