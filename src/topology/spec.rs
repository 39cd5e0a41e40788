//! What somebody asked for, before it is checked: the common input of the builder and of the
//! configuration files. [`TopologySpec`] goes through ONE validation, in
//! [`validate`](super::validate).

use std::time::Duration;

use super::password::PasswordCommand;
use super::url::DatabaseUrl;

/// Sizes and times of the connection pool of one node; what is `None` comes from the level above
/// (the shard, then the topology, then the default).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct PoolConfig {
    pub(crate) max_size: Option<u32>,
    pub(crate) min_idle: Option<u32>,
    pub(crate) connection_timeout: Option<Duration>,
    pub(crate) connect_timeout: Option<Duration>,
    /// `Some(None)` says "never".
    pub(crate) idle_timeout: Option<Option<Duration>>,
    pub(crate) max_lifetime: Option<Option<Duration>>,
    pub(crate) alive_bypass: Option<Duration>,
    pub(crate) table_statements: Option<u32>,
}

impl PoolConfig {
    /// Settings that leave everything to the level above.
    pub fn new() -> Self {
        Self::default()
    }

    /// These settings, with what they leave open taken from the level above.
    pub(crate) fn or(self, above: &Self) -> Self {
        Self {
            max_size: self.max_size.or(above.max_size),
            min_idle: self.min_idle.or(above.min_idle),
            connection_timeout: self.connection_timeout.or(above.connection_timeout),
            connect_timeout: self.connect_timeout.or(above.connect_timeout),
            idle_timeout: self.idle_timeout.or(above.idle_timeout),
            max_lifetime: self.max_lifetime.or(above.max_lifetime),
            alive_bypass: self.alive_bypass.or(above.alive_bypass),
            table_statements: self.table_statements.or(above.table_statements),
        }
    }

    /// The most connections the pool opens. Defaults to 10; 1 for an in-memory SQLite database.
    pub fn max_size(mut self, connections: u32) -> Self {
        self.max_size = Some(connections);
        self
    }

    /// How many idle connections the pool keeps ready from the node's first use on. Defaults to 0.
    pub fn min_idle(mut self, connections: u32) -> Self {
        self.min_idle = Some(connections);
        self
    }

    /// How long a checkout waits for a free connection. Defaults to 30 seconds.
    pub fn connection_timeout(mut self, timeout: Duration) -> Self {
        self.connection_timeout = Some(timeout);
        self
    }

    /// How long one attempt to connect may take, on every backend. Defaults to 5 seconds.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = Some(timeout);
        self
    }

    /// How long a connection may lie idle before it is closed; `None` for ever. Defaults to 10
    /// minutes, for ever for an in-memory SQLite database.
    pub fn idle_timeout(mut self, timeout: Option<Duration>) -> Self {
        self.idle_timeout = Some(timeout);
        self
    }

    /// How old a connection may grow before it is closed when idle; `None` for ever. Defaults to 30
    /// minutes, for ever for an in-memory SQLite database.
    pub fn max_lifetime(mut self, lifetime: Option<Duration>) -> Self {
        self.max_lifetime = Some(lifetime);
        self
    }

    /// How long after its last use a healthy connection is handed out without a health check.
    /// Defaults to 500 milliseconds; zero checks at every checkout.
    pub fn alive_bypass(mut self, window: Duration) -> Self {
        self.alive_bypass = Some(window);
        self
    }

    /// How many prepared statements over sharded tables a connection keeps, each query counting once
    /// for each physical table it was used on; further ones are prepared for one use. Defaults to
    /// 256. Statements that name no sharded table are not counted.
    pub fn table_statements(mut self, statements: u32) -> Self {
        self.table_statements = Some(statements);
        self
    }
}

/// When the nodes of a topology are first connected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Startup {
    /// A node is connected at its first checkout, and one shard down is one shard down.
    #[default]
    Lazy,
    /// Building the manager connects every primary once and fails when one cannot be reached.
    Require,
}

/// Whether a shard takes work at the moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ShardState {
    /// Reads and writes.
    #[default]
    Open,
    /// Reads only: sessions are read-only, and a write is `ShardReadOnly`.
    ReadOnly,
    /// Nothing: every checkout is `ShardOffline`.
    Offline,
}

impl ShardState {
    /// The word used in configuration.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::ReadOnly => "read-only",
            Self::Offline => "offline",
        }
    }
}

impl serde::Serialize for ShardState {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// One shard: its primary, its replicas, its own pool settings.
#[derive(Clone, Debug)]
#[must_use]
pub struct ShardConfig {
    pub(crate) url: DatabaseUrl,
    pub(crate) replicas: Vec<ReplicaConfig>,
    pub(crate) pool: PoolConfig,
    /// Folders, in the order they were given.
    pub(crate) migrations: Vec<String>,
    pub(crate) state: ShardState,
    /// A program that prints the password; run at each connect.
    pub(crate) password_command: Option<PasswordCommand>,
}

/// One replica of a shard.
#[derive(Clone, Debug)]
#[must_use]
pub struct ReplicaConfig {
    pub(crate) url: DatabaseUrl,
    pub(crate) weight: u32,
    pub(crate) pool: PoolConfig,
    /// A program that prints the password; run at each connect.
    pub(crate) password_command: Option<PasswordCommand>,
}

impl ShardConfig {
    /// A shard whose primary is behind this URL.
    pub fn new(url: impl Into<DatabaseUrl>) -> Self {
        Self {
            url: url.into(),
            replicas: Vec::new(),
            pool: PoolConfig::new(),
            migrations: Vec::new(),
            state: ShardState::Open,
            password_command: None,
        }
    }

    /// Says whether the shard takes work. Defaults to [`ShardState::Open`].
    pub fn state(mut self, state: ShardState) -> Self {
        self.state = state;
        self
    }

    /// Overrides the topology's pool settings for the nodes of this shard.
    pub fn pool(mut self, pool: PoolConfig) -> Self {
        self.pool = pool;
        self
    }

    /// Adds a folder of migrations for this shard alone; `{backend}` in it stands for the backend.
    pub fn migrations(mut self, folder: impl Into<String>) -> Self {
        self.migrations.push(folder.into());
        self
    }

    /// Declares a replica. It counts in the connection budget; reads are not sent there yet.
    pub fn replica(mut self, replica: ReplicaConfig) -> Self {
        self.replicas.push(replica);
        self
    }
}

impl From<DatabaseUrl> for ShardConfig {
    fn from(url: DatabaseUrl) -> Self {
        Self::new(url)
    }
}

impl From<&str> for ShardConfig {
    fn from(url: &str) -> Self {
        Self::new(url)
    }
}

impl From<String> for ShardConfig {
    fn from(url: String) -> Self {
        Self::new(url)
    }
}

impl ReplicaConfig {
    /// A replica behind this URL, with weight 1.
    pub fn new(url: impl Into<DatabaseUrl>) -> Self {
        Self {
            url: url.into(),
            weight: 1,
            pool: PoolConfig::new(),
            password_command: None,
        }
    }

    /// The share of reads this replica takes among the replicas of its shard. Defaults to 1.
    pub fn weight(mut self, weight: u32) -> Self {
        self.weight = weight;
        self
    }

    /// Overrides the shard's pool settings for this node.
    pub fn pool(mut self, pool: PoolConfig) -> Self {
        self.pool = pool;
        self
    }
}

/// One keyspace: a set of shards and the rule that spreads rows over them.
#[derive(Clone, Debug)]
#[must_use]
pub struct KeyspaceConfig {
    pub(crate) rule: crate::algorithm::RuleSpec,
    pub(crate) tables: Vec<(String, TableConfig)>,
    /// Patterns of physical names, by table.
    pub(crate) patterns: Vec<(String, String)>,
    /// Folders, in the order they were given.
    pub(crate) migrations: Vec<String>,
}

/// One sharded table of a keyspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TableConfig {
    pub(crate) key_column: String,
    pub(crate) count: u32,
    /// The rule names the physical tables; the count is 1 then.
    pub(crate) by_rule: bool,
}

impl KeyspaceConfig {
    /// A keyspace that spreads rows by this rule.
    pub fn new(rule: crate::algorithm::RuleSpec) -> Self {
        Self {
            rule,
            tables: Vec::new(),
            patterns: Vec::new(),
            migrations: Vec::new(),
        }
    }

    /// Adds a folder of migrations for every shard of the keyspace; `{backend}` in it stands for
    /// the backend.
    pub fn migrations(mut self, folder: impl Into<String>) -> Self {
        self.migrations.push(folder.into());
        self
    }

    /// Declares a table of the keyspace: the column that holds its shard key, and into how many
    /// physical tables each shard splits it.
    pub fn table(mut self, name: &str, key_column: &str, count: u32) -> Self {
        self.tables.push((
            name.to_owned(),
            TableConfig {
                key_column: key_column.to_owned(),
                count,
                by_rule: false,
            },
        ));
        self
    }

    /// Declares a table whose physical tables are named by the rule: `orders_202402` by a
    /// [`date`](crate::RuleSpec::date) rule, `orders_003` or `orders_102008` by a
    /// [`compat`](crate::RuleSpec::compat) one.
    pub fn table_by_rule(mut self, name: &str, key_column: &str) -> Self {
        self.tables.push((
            name.to_owned(),
            TableConfig {
                key_column: key_column.to_owned(),
                count: 1,
                by_rule: true,
            },
        ));
        self
    }

    /// Says how the physical tables of a table are named. Defaults to `{name}_{table}`.
    ///
    /// In a pattern stand `{name}` for the table's name, `{table}` for its number on the shard (for what
    /// the rule calls the part, where the rule names the parts), `{global}` for its number in the
    /// keyspace, which is the position of the shard in the keyspace's list times the count plus its number
    /// on the shard, and `{date}` for the period of a date rule. Numbers may have a width: `{table:03}`
    /// is `007`. With `{global}` the order of the list matters, so it becomes part of the fingerprint.
    ///
    /// ```
    /// use diesel_sharded::{KeyspaceConfig, RuleSpec, Topology};
    ///
    /// let topology = Topology::builder()
    ///     .shard("a", "a.sqlite")
    ///     .shard("b", "b.sqlite")
    ///     .keyspace(
    ///         "orders",
    ///         KeyspaceConfig::new(RuleSpec::modulo(["a", "b"]))
    ///             .table("orders", "user_id", 2)
    ///             .table_pattern("orders", "t_{name}_{global:03}"),
    ///     )
    ///     .build()?;
    /// let tables = topology.physical_tables("orders")?;
    /// assert_eq!(tables[0].tables, ["t_orders_000", "t_orders_001"]);
    /// assert_eq!(tables[1].tables, ["t_orders_002", "t_orders_003"]);
    /// # Ok::<(), diesel_sharded::Error>(())
    /// ```
    pub fn table_pattern(mut self, name: &str, pattern: &str) -> Self {
        self.patterns.push((name.to_owned(), pattern.to_owned()));
        self
    }
}

/// How many connections all processes together may open to one server.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct BudgetConfig {
    pub(crate) connections_per_server: u32,
    pub(crate) instances: u32,
    pub(crate) headroom: f64,
}

/// A whole topology as somebody described it.
#[derive(Clone, Debug, Default)]
pub(crate) struct TopologySpec {
    pub(crate) default_shard: Option<String>,
    pub(crate) startup: Startup,
    pub(crate) shared_database: bool,
    pub(crate) pool: PoolConfig,
    /// Workload classes: the settings of a second pool per node.
    pub(crate) pools: Vec<(String, PoolConfig)>,
    /// Keyspaces whose rule may differ from what their data was placed by.
    pub(crate) accept_placement: Vec<String>,
    pub(crate) budget: Option<BudgetConfig>,
    pub(crate) shards: Vec<(String, ShardConfig)>,
    pub(crate) keyspaces: Vec<(String, KeyspaceConfig)>,
}
