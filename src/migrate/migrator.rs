//! The databases of a topology, and the migrations that belong on each.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::options::Options;
use super::parts;
use super::source::{Keyed, MigrationSet, Source};
use super::templates;
use crate::blocking::missing_backend;
use crate::config::Config;
use crate::driver::IdentityRow;
use crate::error::{ConfigErrors, ConfigProblem, Error};
use crate::name::{KeyspaceName, ShardName};
use crate::rewrite::TableSet;
use crate::topology::{DatabaseUrl, NodeSpec, ShardState, Snapshot, Topology, UrlKind, key_of};

/// Migrates every database of a topology.
///
/// Cheap to clone. It works by the state of the topology at the time it was made: after a reload,
/// make another one. It opens connections of its own, to primaries only; the pools of a manager have
/// no part in it.
#[derive(Clone)]
pub struct Migrator {
    pub(super) inner: Arc<Inner>,
}

pub(super) struct Inner {
    pub(super) topology: Topology,
    pub(super) snapshot: Arc<Snapshot>,
    /// Sorted by the name of the first shard.
    pub(super) targets: Vec<Target>,
}

/// One database.
pub(super) struct Target {
    /// Sorted; more than one where shards share the database.
    pub(super) shards: Vec<ShardName>,
    pub(super) keyspaces: Vec<KeyspaceName>,
    pub(super) spec: NodeSpec,
    pub(super) kind: UrlKind,
    /// The file, for a SQLite database that is one.
    pub(super) file: Option<PathBuf>,
    pub(super) state: ShardState,
    /// Its migrations as they were written; shared by all databases with the same sources.
    pub(super) sources: Arc<MigrationSet>,
    /// The same for the tables of its shards.
    pub(super) set: Arc<MigrationSet>,
    /// The sharded tables of its shards.
    pub(super) tables: Option<Arc<TableSet>>,
    /// Whose data the database is to say it holds.
    pub(super) identity: Vec<IdentityRow>,
}

impl Target {
    /// The shard that stands for the database in reports.
    pub(super) fn shard(&self) -> ShardName {
        self.shards[0]
    }

    /// The other shards on it.
    pub(super) fn also(&self) -> &[ShardName] {
        &self.shards[1..]
    }
}

/// One database that a [`Migrator`] works on.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Database {
    /// The shard; where several share the database, the first by name.
    pub shard: ShardName,
    /// The other shards on the same database.
    pub also: Vec<ShardName>,
    /// The keyspaces of all these shards, sorted.
    pub keyspaces: Vec<KeyspaceName>,
    /// Where it is; prints without its password.
    pub url: DatabaseUrl,
    /// The backend.
    pub kind: UrlKind,
    /// The folders its migrations come from, as they were found.
    pub folders: Vec<PathBuf>,
    /// The versions that belong there, oldest first, with the names of their folders.
    pub migrations: Vec<(Arc<str>, Arc<str>)>,
}

impl Migrator {
    /// Starts a migrator for a topology. Its folders of migrations count; more sources can be added.
    ///
    /// Make it from the topology of the manager ([`topology`](crate::blocking::ShardedConnectionManager::topology))
    /// where migrations are written in Rust and use that manager.
    pub fn builder(topology: &Topology) -> MigratorBuilder {
        MigratorBuilder {
            topology: topology.clone(),
            bases: Vec::new(),
            origin: String::new(),
            everywhere: Vec::new(),
            of_keyspaces: Vec::new(),
            of_shards: Vec::new(),
        }
    }

    /// The migrator of a configuration, with a topology of its own. A relative folder of migrations
    /// is looked for beside the configuration's file, then in the current folder.
    ///
    /// # Errors
    ///
    /// [`Error::Config`] with everything that is wrong with the migrations: a folder that is not
    /// there, one without `up.sql`, a version that is there twice.
    pub fn from_config(config: &Config) -> Result<Self, Error> {
        let mut builder = Self::builder(&config.topology()?);
        if let Some(file) = config.path() {
            builder.origin = file.display().to_string();
            if let Some(folder) = file.parent() {
                builder = builder.base_folder(folder).base_folder("");
            }
        }
        builder.build()
    }

    /// The shards whose databases this program cannot work on, since their backend was not compiled in: one
    /// problem for each, which names the missing feature. Empty where all is well.
    #[must_use]
    pub fn missing_backends(topology: &Topology) -> Vec<ConfigProblem> {
        let snapshot = topology.snapshot();
        let primaries = snapshot.shards().iter().map(|shard| &shard.primary);
        primaries
            .filter_map(|spec| missing_backend(spec, spec.url.kind()?))
            .collect()
    }

    /// The databases, sorted by the name of their first shard.
    #[must_use]
    pub fn databases(&self) -> Vec<Database> {
        self.inner
            .targets
            .iter()
            .map(|target| Database {
                shard: target.shard(),
                also: target.also().to_vec(),
                keyspaces: target.keyspaces.clone(),
                url: target.spec.url.clone(),
                kind: target.kind,
                folders: target.set.folders.clone(),
                migrations: target
                    .set
                    .migrations
                    .iter()
                    .map(|one| (Arc::clone(&one.version), Arc::clone(&one.name)))
                    .collect(),
            })
            .collect()
    }

    /// The databases that the options choose: all of them such as this program can work on.
    pub(super) fn chosen(&self, options: &Options) -> Result<Vec<&Target>, Error> {
        let mut chosen: Vec<&Target> = self.inner.targets.iter().collect();
        if let Some(names) = &options.shards {
            let mut wanted = Vec::new();
            for name in names {
                let index = self.inner.snapshot.find(name)?;
                wanted.push(self.inner.snapshot.shard(index).name);
            }
            chosen.retain(|target| target.shards.iter().any(|shard| wanted.contains(shard)));
        }
        check_backends(&chosen)?;
        Ok(chosen)
    }

    /// The database of one shard.
    pub(super) fn target(&self, shard: &str) -> Result<&Target, Error> {
        let index = self.inner.snapshot.find(shard)?;
        let name = self.inner.snapshot.shard(index).name;
        let found = self
            .inner
            .targets
            .iter()
            .find(|target| target.shards.contains(&name));
        // Every shard of the snapshot has a target.
        let target = found.ok_or_else(|| Error::UnknownShard {
            shard: shard.to_owned(),
            known: self.inner.snapshot.names(),
            nearest: None,
        })?;
        check_backends(&[target])?;
        Ok(target)
    }
}

/// Refuses databases whose backend was not compiled in, all at once.
fn check_backends(targets: &[&Target]) -> Result<(), Error> {
    let missing: Vec<_> = targets
        .iter()
        .filter_map(|target| missing_backend(&target.spec, target.kind))
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(ConfigErrors(missing).into())
}

impl fmt::Debug for Migrator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Migrator")
            .field("topology", &self.inner.topology)
            .field("databases", &self.inner.targets.len())
            .finish()
    }
}

/// Describes a [`Migrator`].
#[must_use = "a builder does nothing until it is built"]
pub struct MigratorBuilder {
    topology: Topology,
    bases: Vec<PathBuf>,
    origin: String,
    everywhere: Vec<Source>,
    of_keyspaces: Vec<(String, Source)>,
    of_shards: Vec<(String, Source)>,
}

impl MigratorBuilder {
    /// Adds migrations that belong on every shard.
    pub fn source(mut self, source: Source) -> Self {
        self.everywhere.push(source);
        self
    }

    /// Adds migrations that belong on every shard of a keyspace.
    pub fn keyspace_source(mut self, keyspace: impl Into<String>, source: Source) -> Self {
        self.of_keyspaces.push((keyspace.into(), source));
        self
    }

    /// Adds migrations that belong on one shard.
    pub fn shard_source(mut self, shard: impl Into<String>, source: Source) -> Self {
        self.of_shards.push((shard.into(), source));
        self
    }

    /// Adds a folder in which relative folders of migrations are looked for; the first one that has
    /// it counts. Defaults to the current folder.
    pub fn base_folder(mut self, folder: impl AsRef<Path>) -> Self {
        self.bases.push(folder.as_ref().to_owned());
        self
    }

    /// Says where the sources were written down, for the messages about them: the name of a file.
    /// Defaults to nothing.
    pub fn origin(mut self, origin: impl Into<String>) -> Self {
        self.origin = origin.into();
        self
    }

    /// Reads all sources.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownShard`], [`Error::UnknownKeyspace`], and [`Error::Config`] with everything
    /// that is wrong with the migrations.
    pub fn build(self) -> Result<Migrator, Error> {
        let snapshot = self.topology.snapshot();
        let sources = self.sources(&snapshot)?;
        let mut groups: BTreeMap<ShardName, Vec<ShardName>> = BTreeMap::new();
        let mut first_on: HashMap<String, ShardName> = HashMap::new();
        for shard in snapshot.shards() {
            let first = match shard.primary.url.database_identity() {
                Some(identity) => *first_on.entry(identity).or_insert(shard.name),
                None => shard.name,
            };
            groups.entry(first).or_default().push(shard.name);
        }
        let mut loaded: HashMap<(UrlKind, Vec<usize>), Option<Arc<MigrationSet>>> = HashMap::new();
        // A folder that each shard names for itself is one all the same: what has one set is compared.
        let mut distinct: Vec<(UrlKind, Arc<MigrationSet>)> = Vec::new();
        let mut problems: Vec<ConfigProblem> = Vec::new();
        let mut targets = Vec::with_capacity(groups.len());
        for (first, shards) in groups {
            let shard = snapshot.shard(snapshot.find(first.as_str())?);
            // A topology has only URLs whose kind is known.
            let Some(kind) = shard.primary.url.kind() else {
                continue;
            };
            let own: Vec<usize> = sources
                .iter()
                .enumerate()
                .filter(|(_, (on, _))| on.iter().any(|shard| shards.contains(shard)))
                .map(|(at, _)| at)
                .collect();
            let set = loaded.entry((kind, own.clone())).or_insert_with(|| {
                let own: Vec<&Keyed> = own.iter().map(|at| &sources[*at].1).collect();
                MigrationSet::load(&own, kind, &self.bases)
                    .map(|set| {
                        let mut known = distinct.iter().filter(|(of, _)| *of == kind);
                        match known.find(|(_, one)| one.is_same(&set)) {
                            Some((_, one)) => Arc::clone(one),
                            None => {
                                let set = Arc::new(set);
                                distinct.push((kind, Arc::clone(&set)));
                                set
                            }
                        }
                    })
                    .map_err(|found| {
                        for (key, message) in found {
                            let problem = ConfigProblem {
                                origin: self.origin.clone(),
                                key,
                                message,
                            };
                            // Two sets may have a source in common.
                            if !problems.contains(&problem) {
                                problems.push(problem);
                            }
                        }
                    })
                    .ok()
            });
            let Some(sources) = set.clone() else {
                continue;
            };
            let tables = tables_of(&snapshot, &shards);
            let set = match &tables {
                None => Arc::clone(&sources),
                Some(tables) => {
                    let parts = parts::of(tables, &shards);
                    // Most shards have the same tables.
                    let same = targets.iter().rev().find(|other: &&Target| {
                        Arc::ptr_eq(&other.sources, &sources)
                            && parts.is_empty()
                            && other.tables.as_ref().is_some_and(|of| of.is_like(tables))
                    });
                    match same {
                        Some(other) => Arc::clone(&other.set),
                        None => templates::for_tables(&sources, tables, &parts, kind),
                    }
                }
            };
            targets.push(Target {
                keyspaces: snapshot
                    .keyspaces()
                    .iter()
                    .filter(|keyspace| {
                        keyspace
                            .rule
                            .shards()
                            .iter()
                            .any(|shard| shards.contains(shard))
                    })
                    .map(|keyspace| keyspace.name)
                    .collect(),
                identity: shards
                    .iter()
                    .flat_map(|shard| crate::driver::identity::rows_for(&snapshot, *shard))
                    .collect(),
                file: shard.primary.url.sqlite_file(),
                spec: shard.primary.clone(),
                state: strictest(&snapshot, &shards),
                kind,
                sources,
                set,
                tables,
                shards,
            });
        }
        if !problems.is_empty() {
            return Err(ConfigErrors(problems).into());
        }
        Ok(Migrator {
            inner: Arc::new(Inner {
                topology: self.topology,
                snapshot,
                targets,
            }),
        })
    }

    /// Every source, the shards it is for, and the key that names it.
    fn sources(&self, snapshot: &Snapshot) -> Result<Vec<(Vec<ShardName>, Keyed)>, Error> {
        let mut sources: Vec<(Vec<ShardName>, Keyed)> = Vec::new();
        let mut add = |on: Vec<ShardName>, key: String, source: Source| {
            sources.push((on, Keyed { key, source }));
        };
        for shard in snapshot.shards() {
            for folder in &shard.migrations {
                let key = format!("{}.migrations", key_of("shards", shard.name.as_str()));
                add(vec![shard.name], key, Source::folder(folder));
            }
        }
        for keyspace in snapshot.keyspaces() {
            for folder in &keyspace.migrations {
                let key = format!("{}.migrations", key_of("keyspaces", keyspace.name.as_str()));
                add(keyspace.rule.shards().to_vec(), key, Source::folder(folder));
            }
        }
        for source in &self.everywhere {
            add(snapshot.names(), "migrations".to_owned(), source.clone());
        }
        for (name, source) in &self.of_keyspaces {
            let keyspace = &snapshot.keyspaces()[snapshot.find_keyspace(name)?];
            let key = format!("{}.migrations", key_of("keyspaces", name));
            add(keyspace.rule.shards().to_vec(), key, source.clone());
        }
        for (name, source) in &self.of_shards {
            let shard = snapshot.shard(snapshot.find(name)?);
            let key = format!("{}.migrations", key_of("shards", name));
            add(vec![shard.name], key, source.clone());
        }
        Ok(sources)
    }
}

/// The sharded tables of all shards on a database.
fn tables_of(snapshot: &Snapshot, shards: &[ShardName]) -> Option<Arc<TableSet>> {
    let all = snapshot.shards().iter();
    let mut sets = all
        .filter(|shard| shards.contains(&shard.name))
        .filter_map(|shard| shard.tables.as_ref());
    let first = Arc::clone(sets.next()?);
    Some(sets.fold(first, |all, set| {
        if all.is_like(set) {
            all
        } else {
            Arc::new(all.with(set))
        }
    }))
}

/// What all shards on a database allow.
fn strictest(snapshot: &Snapshot, shards: &[ShardName]) -> ShardState {
    let states: Vec<ShardState> = snapshot
        .shards()
        .iter()
        .filter(|shard| shards.contains(&shard.name))
        .map(|shard| shard.state)
        .collect();
    [ShardState::Offline, ShardState::ReadOnly]
        .into_iter()
        .find(|state| states.contains(state))
        .unwrap_or(ShardState::Open)
}

impl fmt::Debug for MigratorBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MigratorBuilder")
            .field("topology", &self.topology)
            .field("bases", &self.bases)
            .field("everywhere", &self.everywhere)
            .field("of_keyspaces", &self.of_keyspaces)
            .field("of_shards", &self.of_shards)
            .finish_non_exhaustive()
    }
}
