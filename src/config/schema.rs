//! The schema: from a tree of values to the description that the builder makes too.

mod algorithm;
mod keyspaces;

use figment::value::{Dict, Value};

use super::reader::{Reader, Table};
use super::secret::url_and_command;
use crate::topology::{
    BudgetConfig, PoolConfig, ReplicaConfig, ShardConfig, ShardState, Startup, TopologySpec, key_of,
};

const ROOT: &[&str] = &[
    "default_shard",
    "startup",
    "shared_database",
    "pool",
    "pools",
    "budget",
    "shards",
    "keyspaces",
    "accept_placement",
    "profiles",
];
const POOL: &[&str] = &[
    "max_size",
    "min_idle",
    "connection_timeout",
    "connect_timeout",
    "idle_timeout",
    "max_lifetime",
    "alive_bypass",
    "table_statements",
];
const BUDGET: &[&str] = &["connections_per_server", "instances", "headroom"];
const SHARD: &[&str] = &["url", "password", "state", "replicas", "pool", "migrations"];
const REPLICA: &[&str] = &["url", "password", "weight", "pool"];

fn no_hint(_: &str, _: &Value) -> Option<String> {
    None
}

/// What is often taken for a setting of a pool and is none.
fn pool_hint(name: &str, value: &Value) -> Option<String> {
    matches!(value, Value::Dict(..))
        .then(|| format!("if this is a workload class, it belongs into `[pools.{name}]`"))
}

/// What is often taken for a key of a shard or replica and is none.
fn node_hint(name: &str, value: &Value) -> Option<String> {
    if name == "pools" {
        return Some(
            "a workload class has one size for all nodes, in `[pools.NAME]`, beside `[pool]`"
                .to_owned(),
        );
    }
    if POOL.contains(&name) {
        return Some(format!("it belongs into `pool`: pool = {{ {name} = .. }}"));
    }
    matches!(value, Value::Dict(..)).then(|| {
        format!(
            "a dot in a key begins a new level, unless the key is quoted; shard names have no dots, so write `[shards.NAME-{name}]` if this was to be a shard"
        )
    })
}

/// Reads a whole configuration, or one profile of it.
pub(super) fn root(reader: &mut Reader<'_>, path: &str, dict: &Dict) -> TopologySpec {
    let table = Table { path, dict };
    let known = if path.is_empty() {
        ROOT
    } else {
        &ROOT[..ROOT.len() - 1]
    };
    reader.known(table, known, no_hint);
    let startup = match reader.text(table, "startup").as_deref() {
        None | Some("lazy") => Startup::Lazy,
        Some("require") => Startup::Require,
        Some(_) => {
            reader.problem(table.key("startup"), "is either \"lazy\" or \"require\"");
            Startup::Lazy
        }
    };
    let mut pools = Vec::new();
    let mut shards = Vec::new();
    let mut keyspaces = Vec::new();
    if let Some(value) = dict.get("pools") {
        let path = table.key("pools");
        for (name, value) in reader.entries(&path, value) {
            let path = key_of(&path, name);
            match value {
                Value::Dict(_, dict) => {
                    pools.push((
                        name.clone(),
                        pool_settings(reader, Table { path: &path, dict }),
                    ));
                }
                _ if POOL.contains(&name.as_str()) => reader.problem(
                    path,
                    "a table is expected here: what is said for every node stands in `[pool]`",
                ),
                _ => reader.problem(path, "a table is expected here: { max_size = 5 }"),
            }
        }
    }
    if let Some(value) = dict.get("shards") {
        let path = table.key("shards");
        for (name, value) in reader.entries(&path, value) {
            shards.push((
                name.clone(),
                shard(reader, &key_of(&path, name), name, value),
            ));
        }
    }
    if let Some(value) = dict.get("keyspaces") {
        let path = table.key("keyspaces");
        for (name, value) in reader.entries(&path, value) {
            keyspaces.push((
                name.clone(),
                keyspaces::keyspace(reader, &key_of(&path, name), value),
            ));
        }
    }
    TopologySpec {
        default_shard: reader.text(table, "default_shard"),
        startup,
        shared_database: reader.boolean(table, "shared_database").unwrap_or(false),
        pool: pool(reader, table),
        pools,
        accept_placement: reader.text_or_texts(table, "accept_placement"),
        budget: budget(reader, table),
        shards,
        keyspaces,
    }
}

/// Reads a table at a key, if it is there and is one.
fn subtable<'v>(reader: &mut Reader<'_>, table: Table<'v>, name: &str) -> Option<&'v Dict> {
    match table.dict.get(name)? {
        Value::Dict(_, dict) => Some(dict),
        Value::Empty(..) => None,
        _ => {
            reader.problem(table.key(name), "a table is expected here");
            None
        }
    }
}

fn pool(reader: &mut Reader<'_>, parent: Table<'_>) -> PoolConfig {
    let Some(dict) = subtable(reader, parent, "pool") else {
        return PoolConfig::new();
    };
    let path = parent.key("pool");
    pool_settings(reader, Table { path: &path, dict })
}

fn pool_settings(reader: &mut Reader<'_>, table: Table<'_>) -> PoolConfig {
    reader.known(table, POOL, pool_hint);
    PoolConfig {
        max_size: reader.number(table, "max_size"),
        min_idle: reader.number(table, "min_idle"),
        connection_timeout: reader.duration(table, "connection_timeout"),
        connect_timeout: reader.duration(table, "connect_timeout"),
        idle_timeout: reader.duration_or_never(table, "idle_timeout"),
        max_lifetime: reader.duration_or_never(table, "max_lifetime"),
        alive_bypass: reader.duration(table, "alive_bypass"),
        table_statements: reader.number(table, "table_statements"),
    }
}

fn budget(reader: &mut Reader<'_>, parent: Table<'_>) -> Option<BudgetConfig> {
    let dict = subtable(reader, parent, "budget")?;
    let path = parent.key("budget");
    let table = Table { path: &path, dict };
    reader.known(table, BUDGET, no_hint);
    if !dict.contains_key("connections_per_server") {
        reader.missing(
            table.key("connections_per_server"),
            "is missing: say how many connections one server takes",
        );
    }
    let connections_per_server = reader.number(table, "connections_per_server");
    let instances = reader.number(table, "instances");
    let headroom = reader.fraction(table, "headroom");
    let unless_unreadable = |name: &str| !dict.contains_key(name);
    Some(BudgetConfig {
        connections_per_server: connections_per_server?,
        instances: instances.or_else(|| unless_unreadable("instances").then_some(1))?,
        headroom: headroom.or_else(|| unless_unreadable("headroom").then_some(1.0))?,
    })
}

fn shard(reader: &mut Reader<'_>, path: &str, name: &str, value: &Value) -> ShardConfig {
    let empty = Dict::new();
    let dict = match value {
        Value::Dict(_, dict) => dict,
        Value::Empty(..) => &empty,
        _ => {
            reader.problem(path, "a table is expected here: { url = \"..\" }");
            &empty
        }
    };
    let table = Table { path, dict };
    let label = format!("shard {name}");
    reader.known(table, SHARD, node_hint);
    // `[shards.eu.west]` makes a shard `eu` that has nothing else: one mistake, one message.
    let only_tables = !dict.is_empty()
        && dict
            .iter()
            .all(|(key, value)| !SHARD.contains(&key.as_str()) && matches!(value, Value::Dict(..)));
    if only_tables {
        reader.unreadable.push(table.key("url"));
    }
    let (url, command) = if only_tables || !matches!(value, Value::Dict(..) | Value::Empty(..)) {
        (String::new().into(), None)
    } else {
        url_and_command(reader, table, &label)
    };
    let mut config = ShardConfig::new(url).pool(pool(reader, table));
    config.password_command = command;
    config.state = state(reader, table);
    config.migrations = reader.text_or_texts(table, "migrations");
    match dict.get("replicas") {
        None | Some(Value::Empty(..)) => {}
        Some(Value::Array(_, items)) => {
            for (i, item) in items.iter().enumerate() {
                let path = format!("{path}.replicas.{i}");
                let label = format!("replica {} of {label}", i + 1);
                config.replicas.extend(replica(reader, &path, &label, item));
            }
        }
        Some(_) => reader.problem(
            table.key("replicas"),
            "a list of tables is expected here: [{ url = \"..\" }]",
        ),
    }
    config
}

fn state(reader: &mut Reader<'_>, shard: Table<'_>) -> ShardState {
    let Some(word) = reader.text(shard, "state") else {
        return ShardState::Open;
    };
    let states = [ShardState::Open, ShardState::ReadOnly, ShardState::Offline];
    match states.into_iter().find(|state| state.as_str() == word) {
        Some(state) => state,
        None => {
            reader.problem(
                shard.key("state"),
                "is \"open\", \"read-only\" or \"offline\"",
            );
            ShardState::Open
        }
    }
}

fn replica(
    reader: &mut Reader<'_>,
    path: &str,
    label: &str,
    value: &Value,
) -> Option<ReplicaConfig> {
    let Value::Dict(_, dict) = value else {
        reader.problem(path, "a table is expected here: { url = \"..\" }");
        return None;
    };
    let table = Table { path, dict };
    reader.known(table, REPLICA, node_hint);
    let (url, command) = url_and_command(reader, table, label);
    let mut config = ReplicaConfig::new(url);
    config.password_command = command;
    config.pool = pool(reader, table);
    config.weight = reader.number(table, "weight").unwrap_or(1);
    Some(config)
}
