//! Configuration from files and the environment: one schema for TOML, YAML and JSON.

mod algorithms;
mod env;
mod keys;
mod loader;
mod origin;
mod reader;
mod schema;
mod secret;
mod source;
#[cfg(test)]
mod tests;

use std::fmt;
use std::path::{Path, PathBuf};

use figment::value::{Dict, Map};
use figment::{Figment, Metadata, Profile, Provider};

use crate::error::{ConfigProblem, Error};
use crate::topology::{Topology, TopologySpec};
pub use loader::ConfigLoader;
use origin::Origins;
pub use source::Format;

/// A checked configuration, read from a file and the environment.
///
/// A `Config` that exists is valid: loading runs every check, and reports every problem at once,
/// each with the file (or environment variable) and the key it is about. No error, and neither
/// `Debug` of this type, shows a password or a URL with one.
///
/// ```
/// use diesel_sharded::{Config, Format};
///
/// let config = Config::from_str(
///     r#"
///     default_shard = "order-0"
///
///     [pool]
///     max_size = 20
///     connection_timeout = "3s"
///
///     [shards.order-0]
///     url = "postgres://app_rw@db-0/orders"
///     password = "not in a file, please"
///
///     [shards.order-1]
///     url = "postgres://app_rw@db-1/orders"
///
///     [keyspaces.orders]
///     shards = ["order-0", "order-1"]
///     key = "integer"
///     algorithm = { kind = "hash", buckets = 4096 }
///     tables = { t_order = { key_column = "user_id", count = 8 } }
///     "#,
///     Format::Toml,
/// )?;
/// let topology = config.topology()?;
/// assert_eq!(topology.shards(), ["order-0", "order-1"]);
/// # Ok::<(), diesel_sharded::Error>(())
/// ```
///
/// # The schema
///
/// | key | value |
/// |---|---|
/// | `default_shard` | the shard of a checkout without a route; none by default |
/// | `startup` | `"lazy"` (default) or `"require"` |
/// | `shared_database` | `true` lets several shards be one database, for development |
/// | `pool` | `max_size`, `min_idle`, `connection_timeout`, `connect_timeout`, `idle_timeout`, `max_lifetime`, `alive_bypass`, `table_statements` for every node |
/// | `pools.NAME` | a workload class: the same keys, for a second pool of every node |
/// | `budget` | `connections_per_server`, `instances` (1), `headroom` (1.0) |
/// | `shards.NAME` | `url`, `password`, `state`, `pool`, `replicas` (each `url`, `password`, `weight`, `pool`), `migrations` |
/// | `keyspaces.NAME` | `shards`, `key` (`"integer"`), `normalize`, `algorithm`, `tables`, `migrations` |
/// | `accept_placement` | keyspaces whose rule may differ from what their data was placed by |
/// | `profiles.NAME` | all of the above, merged over the rest when the profile is chosen |
///
/// - A duration is text with its unit (`"500ms"`, `"3s"`, `"10m"`); `idle_timeout` and
///   `max_lifetime` also take `"never"` or `false`.
/// - `password` is the text itself, `{ env = "VARIABLE" }`, `{ file = "path" }` or `{ command =
///   ["program", "argument"] }`. A variable or file is read byte for byte, and refused if its text
///   ends with a line break, since that is nearly always the editor's and not the password's.
///   `{ none = true }` takes back the password of a lower layer.
/// - A password's `command` is run at each connect, and not at load, so that what it prints may
///   change. It is started as it is written, without a shell: nothing is split or expanded. What it
///   prints is the password, without one line break at its end; it must end with success. Neither
///   its arguments nor what it prints are ever shown.
/// - `state` is `"open"` (default), `"read-only"` or `"offline"`; another than `"open"` is a warning.
/// - `max_size` has to be said for a workload class, and its `min_idle` defaults to 0; what else it
///   leaves out comes from the ordinary settings of each node. The budget counts its pools too.
/// - `accept_placement` is the name of a keyspace or a list of names.
/// - `key` is a word, or a list of words for a composite key: `["text", "integer"]`.
/// - `algorithm` is one of these; it defaults to `hash` with 4096 buckets. One that names its `kind`
///   in a profile replaces the whole algorithm.
///   - `{ kind = "hash", buckets = 4096, map = [{ shard = "a", buckets = "0..1024" }, ..] }`
///   - `{ kind = "modulo", count = 4 }`
///   - `{ kind = "list", values = { a = ["DE", "AT"] } }`
///   - `{ kind = "jump" }`
///   - `{ kind = "ring", points = 160, weights = { a = 2 } }`
///   - `{ kind = "range", ranges = [{ shard = "a", until = 100 }, { shard = "b", from = 100 }] }`
///   - `{ kind = "date", every = "month", zone = "UTC", from = "2024-01", until = "2026-01" }`;
///     `every` is `year`, `quarter`, `month`, `week`, `day` or, with an `anchor`, `"10 days"`; a `map =
///     [{ shard = "a", from = "2024", until = "2025" }, ..]` takes the place of `from` and `until`;
///     `precision` (digits of the second) and `rounding` (`refuse`, `postgres`, `mysql`, `mariadb`)
///     are those of the key column.
///   - `{ kind = "compat", like = "postgres-hash", modulus = 4 }` and others: see docs/placement.md
///   - `{ kind = "custom", name = "..", options = { .. } }`
/// - `tables` are `{ NAME = { key_column = "..", count = 8 } }`; `count` defaults to 1. `by_rule =
///   true` instead of a `count` says that the rule names the physical tables. `pattern =
///   "{name}_{table:03}"` says how they are named: see docs/tables.md.
/// - `migrations` is a folder or a list of folders. A relative one is looked for beside the file, then in the current
///   folder; `{backend}` in it stands for `sqlite`, `postgres` or `mysql`.
/// - An unknown key is an error, and so is one that is given twice.
///
/// # The environment
///
/// `DIESEL_SHARDED_` and the path of a key, with `__` between its levels, overrides the file:
/// `DIESEL_SHARDED_POOL__MAX_SIZE=5`, `DIESEL_SHARDED_SHARDS__ORDER_0__PASSWORD=0123`,
/// `DIESEL_SHARDED_SHARDS__ORDER_0__REPLICAS__0__URL=..`. Names of shards, keyspaces, classes and tables are
/// found whatever their case and whether they have `-` or `_`. A variable cannot make a new shard,
/// keyspace or workload class: that is an error, and so is an unknown key. Values are text, taken as the key needs
/// them, and passwords are taken exactly as they are. An empty variable is an error, except for
/// `PASSWORD`, where it is the empty password.
///
/// `DIESEL_SHARDED_CONFIG` (the file), `DIESEL_SHARDED_PROFILE` (the profile) and what begins with
/// `DIESEL_SHARDED_TEST_` are no settings.
///
/// # In an application's own figment
///
/// [`from_figment`](Self::from_figment) reads the configuration out of a
/// [`Figment`], and `Config` is a [`Provider`] of its values as they were written, passwords
/// included where they were: do not print such a figment.
#[derive(Clone)]
pub struct Config {
    figment: Figment,
    origins: Origins,
    spec: TopologySpec,
    profile: Option<String>,
    /// The file it was read from.
    file: Option<PathBuf>,
    warnings: Vec<ConfigProblem>,
}

impl Config {
    /// Loads the file named by `DIESEL_SHARDED_CONFIG`, else `diesel-sharded.toml` from the current
    /// folder or the nearest one above that has it, with the environment over it.
    ///
    /// # Errors
    ///
    /// [`Error::Config`] with everything that is wrong; a missing file is wrong too.
    pub fn load() -> Result<Self, Error> {
        Self::loader().load()
    }

    /// Loads this file, with the environment over it. Its format follows from its extension:
    /// `.toml`, `.yaml`, `.yml` or `.json`.
    ///
    /// # Errors
    ///
    /// [`Error::Config`] with everything that is wrong; a missing file is wrong too.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self, Error> {
        Self::loader().file(path)
    }

    /// Reads a configuration from text, with the environment over it.
    ///
    /// # Errors
    ///
    /// [`Error::Config`] with everything that is wrong with it.
    pub fn from_str(text: &str, format: Format) -> Result<Self, Error> {
        Self::loader().text(text, format)
    }

    /// Reads a configuration out of an application's own figment, which is taken as it is: what
    /// overrides what is its business, so no `DIESEL_SHARDED_` variable is looked at. Take a part of
    /// one by [`Figment::focus`].
    ///
    /// ```
    /// use diesel_sharded::Config;
    /// use figment::Figment;
    ///
    /// let app = Figment::from(("databases.shards.a.url", "a.sqlite"));
    /// let config = Config::from_figment(app.focus("databases"))?;
    /// assert_eq!(config.topology()?.shards(), ["a"]);
    /// # Ok::<(), diesel_sharded::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Config`] with everything that is wrong with it.
    pub fn from_figment(figment: Figment) -> Result<Self, Error> {
        Self::loader().figment(figment)
    }

    /// A loader, to choose a profile or another environment first.
    pub fn loader() -> ConfigLoader {
        ConfigLoader::new()
    }

    /// Makes a new topology of the configuration.
    ///
    /// # Errors
    ///
    /// [`Error::Config`], where what was valid when it was loaded no longer is: a SQLite file may
    /// have become a link to another shard's.
    pub fn topology(&self) -> Result<Topology, Error> {
        Topology::from_spec(&self.spec, |key| self.origins.of(key))
    }

    /// The chosen profile, if any.
    #[must_use]
    pub fn profile(&self) -> Option<&str> {
        self.profile.as_deref()
    }

    /// The file it was read from, if it was read from one.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// What is doubtful, though not wrong: a keyspace without a written map, for example.
    #[must_use]
    pub fn warnings(&self) -> &[ConfigProblem] {
        &self.warnings
    }

    /// Where a key was set.
    #[cfg(any(feature = "r2d2", feature = "bb8"))]
    pub(crate) fn origin_of(&self, key: &str) -> String {
        self.origins.of(key)
    }

    /// What was asked for, as the builder would have been told it.
    #[cfg(any(test, feature = "r2d2", feature = "bb8"))]
    pub(crate) fn spec(&self) -> &TopologySpec {
        &self.spec
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = |names: Vec<&String>| {
            let mut names: Vec<String> = names.into_iter().cloned().collect();
            names.sort();
            names
        };
        f.debug_struct("Config")
            .field("profile", &self.profile)
            .field("path", &self.file)
            .field(
                "shards",
                &names(self.spec.shards.iter().map(|(name, _)| name).collect()),
            )
            .field(
                "keyspaces",
                &names(self.spec.keyspaces.iter().map(|(name, _)| name).collect()),
            )
            .field("warnings", &self.warnings)
            .finish_non_exhaustive()
    }
}

impl Provider for Config {
    fn metadata(&self) -> Metadata {
        Metadata::named("diesel-sharded configuration")
    }

    fn data(&self) -> Result<Map<Profile, Dict>, figment::Error> {
        let dict = loader::merged(&self.figment).map_err(|error| error.to_string())?;
        Ok(Profile::Default.collect(source::untagged(&dict)))
    }
}
