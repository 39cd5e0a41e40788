//! The schema: from a tree of values to the description that the builder makes too.

use std::ops::Range;

use figment::value::{Dict, Value};

use super::keys;
use super::reader::{Reader, Table};
use super::secret::url_with_password;
use crate::algorithm::{AlgorithmSpec, Normalize, RuleSpec};
use crate::key::KeyType;
use crate::topology::{
    BudgetConfig, KeyspaceConfig, PoolConfig, ReplicaConfig, ShardConfig, Startup, TableConfig,
    TopologySpec, key_of,
};

const ROOT: &[&str] = &[
    "default_shard",
    "startup",
    "shared_database",
    "pool",
    "budget",
    "shards",
    "keyspaces",
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
];
const BUDGET: &[&str] = &["connections_per_server", "instances", "headroom"];
const SHARD: &[&str] = &["url", "password", "replicas", "pool", "migrations"];
const REPLICA: &[&str] = &["url", "password", "weight", "pool"];
const KEYSPACE: &[&str] = &[
    "shards",
    "key",
    "normalize",
    "algorithm",
    "tables",
    "migrations",
];
const TABLE: &[&str] = &["key_column", "count"];

/// The number of buckets where none is said. It is as frozen as the hash itself.
const DEFAULT_BUCKETS: u32 = 4096;

fn no_hint(_: &str, _: &Value) -> Option<String> {
    None
}

/// What is often taken for a key of a shard or replica and is none.
fn node_hint(name: &str, value: &Value) -> Option<String> {
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
    let known = if path.is_empty() { ROOT } else { &ROOT[..ROOT.len() - 1] };
    reader.known(table, known, no_hint);
    let startup = match reader.text(table, "startup").as_deref() {
        None | Some("lazy") => Startup::Lazy,
        Some("require") => Startup::Require,
        Some(_) => {
            reader.problem(table.key("startup"), "is either \"lazy\" or \"require\"");
            Startup::Lazy
        }
    };
    let mut shards = Vec::new();
    let mut keyspaces = Vec::new();
    if let Some(value) = dict.get("shards") {
        let path = table.key("shards");
        for (name, value) in reader.entries(&path, value) {
            shards.push((name.clone(), shard(reader, &key_of(&path, name), name, value)));
        }
    }
    if let Some(value) = dict.get("keyspaces") {
        let path = table.key("keyspaces");
        for (name, value) in reader.entries(&path, value) {
            keyspaces.push((name.clone(), keyspace(reader, &key_of(&path, name), value)));
        }
    }
    TopologySpec {
        default_shard: reader.text(table, "default_shard"),
        startup,
        shared_database: reader.boolean(table, "shared_database").unwrap_or(false),
        pool: pool(reader, table),
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
    let table = Table { path: &path, dict };
    reader.known(table, POOL, no_hint);
    PoolConfig {
        max_size: reader.number(table, "max_size"),
        min_idle: reader.number(table, "min_idle"),
        connection_timeout: reader.duration(table, "connection_timeout"),
        connect_timeout: reader.duration(table, "connect_timeout"),
        idle_timeout: reader.duration_or_never(table, "idle_timeout"),
        max_lifetime: reader.duration_or_never(table, "max_lifetime"),
        alive_bypass: reader.duration(table, "alive_bypass"),
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
    Some(BudgetConfig {
        connections_per_server: connections_per_server?,
        instances: instances.unwrap_or(1),
        headroom: headroom.unwrap_or(1.0),
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
    let url = if only_tables || !matches!(value, Value::Dict(..) | Value::Empty(..)) {
        String::new().into()
    } else {
        url_with_password(reader, table, &label)
    };
    let mut config = ShardConfig::new(url).pool(pool(reader, table));
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
    let mut config = ReplicaConfig::new(url_with_password(reader, table, label));
    config.pool = pool(reader, table);
    config.weight = reader.number(table, "weight").unwrap_or(1);
    Some(config)
}

fn keyspace(reader: &mut Reader<'_>, path: &str, value: &Value) -> KeyspaceConfig {
    let empty = Dict::new();
    let dict = match value {
        Value::Dict(_, dict) => dict,
        Value::Empty(..) => &empty,
        _ => {
            reader.problem(path, "a table is expected here: { shards = [\"..\"] }");
            &empty
        }
    };
    let table = Table { path, dict };
    reader.known(table, KEYSPACE, no_hint);
    if !dict.contains_key("shards") {
        reader.missing(table.key("shards"), "is missing: list the shards of the keyspace");
    }
    let shards = reader.texts(table, "shards").unwrap_or_default();
    let key = match reader.text(table, "key").map(|word| word.parse::<KeyType>()) {
        None => KeyType::default(),
        Some(Ok(key)) => key,
        Some(Err(error)) => {
            reader.problem(table.key("key"), error.to_string());
            KeyType::default()
        }
    };
    let mut normalize = Vec::new();
    for word in reader.text_or_texts(table, "normalize") {
        match word.parse::<Normalize>() {
            Ok(step) => normalize.push(step),
            Err(error) => reader.problem(table.key("normalize"), error.to_string()),
        }
    }
    let algorithm = algorithm(reader, table, key);
    let rule = RuleSpec::new(shards, algorithm).key(key).normalize(normalize);
    let mut config = KeyspaceConfig::new(rule);
    config.tables = tables(reader, table);
    config.migrations = reader.text_or_texts(table, "migrations");
    config
}

fn algorithm(reader: &mut Reader<'_>, keyspace: Table<'_>, key: KeyType) -> AlgorithmSpec {
    let fallback = AlgorithmSpec::Hash {
        buckets: DEFAULT_BUCKETS,
        map: None,
    };
    let path = keyspace.key("algorithm");
    let dict = match keyspace.dict.get("algorithm") {
        None => return fallback,
        Some(Value::Dict(_, dict)) => dict,
        Some(_) => {
            reader.problem(path, "a table is expected here: { kind = \"hash\", buckets = 4096 }");
            return fallback;
        }
    };
    let Some(kind) = dict.get("kind") else {
        reader.missing(
            format!("{path}.kind"),
            "is missing: say \"hash\", \"modulo\" or \"list\"",
        );
        return fallback;
    };
    // An upper layer that names a kind means its own algorithm: what lower layers said about theirs
    // is gone with it.
    let dict: Dict = dict
        .iter()
        .filter(|(_, value)| value.tag() >= kind.tag())
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    let table = Table {
        path: &path,
        dict: &dict,
    };
    match reader.text(table, "kind").as_deref() {
        Some("hash") => {
            reader.known(table, &["kind", "buckets", "map"], no_hint);
            AlgorithmSpec::Hash {
                buckets: reader.number(table, "buckets").unwrap_or(DEFAULT_BUCKETS),
                map: map(reader, table),
            }
        }
        Some("modulo") => {
            reader.known(table, &["kind", "count"], no_hint);
            if !dict.contains_key("count") {
                reader.missing(
                    table.key("count"),
                    "is missing: say the number of shards, which it must equal",
                );
            }
            AlgorithmSpec::Modulo {
                count: reader.number(table, "count").unwrap_or(0),
            }
        }
        Some("list") => {
            reader.known(table, &["kind", "values"], no_hint);
            AlgorithmSpec::List {
                values: values(reader, table, key),
            }
        }
        Some(other) => {
            reader.problem(
                table.key("kind"),
                format!("unknown algorithm {other:?}: use \"hash\", \"modulo\" or \"list\""),
            );
            fallback
        }
        None => fallback,
    }
}

fn map(reader: &mut Reader<'_>, algorithm: Table<'_>) -> Option<Vec<(Range<u32>, String)>> {
    const FORM: &str = "[{ shard = \"a\", buckets = \"0..1024\" }, ..]";
    let path = algorithm.key("map");
    let Value::Array(_, items) = algorithm.dict.get("map")? else {
        reader.problem(path, format!("a list of tables is expected here: {FORM}"));
        return None;
    };
    let mut ranges = Vec::with_capacity(items.len());
    for (i, item) in items.iter().enumerate() {
        let path = format!("{path}.{i}");
        let Value::Dict(_, dict) = item else {
            reader.problem(path, format!("a table is expected here: {FORM}"));
            continue;
        };
        let table = Table { path: &path, dict };
        reader.known(table, &["shard", "buckets"], no_hint);
        for name in ["shard", "buckets"] {
            if !dict.contains_key(name) {
                reader.missing(table.key(name), format!("is missing: {FORM}"));
            }
        }
        let shard = reader.text(table, "shard");
        let Some(text) = reader.text(table, "buckets") else {
            continue;
        };
        match (bucket_range(&text), shard) {
            (Some(range), Some(shard)) => ranges.push((range, shard)),
            (Some(_), None) => {}
            (None, _) => reader.problem(
                table.key("buckets"),
                "a range is expected here, without its end: \"0..1024\" are the buckets 0 to 1023",
            ),
        }
    }
    Some(ranges)
}

fn bucket_range(text: &str) -> Option<Range<u32>> {
    let (start, end) = text.split_once("..")?;
    let number = |text: &str| {
        let text = text.trim();
        let digits = text.bytes().all(|byte| byte.is_ascii_digit());
        digits.then(|| text.parse().ok()).flatten()
    };
    Some(number(start)?..number(end)?)
}

fn values(
    reader: &mut Reader<'_>,
    algorithm: Table<'_>,
    key: KeyType,
) -> Vec<(String, Vec<crate::key::ShardKey<'static>>)> {
    let path = algorithm.key("values");
    let Some(value) = algorithm.dict.get("values") else {
        reader.missing(path, "is missing: { a = [\"DE\", \"AT\"], .. }");
        return Vec::new();
    };
    let mut values = Vec::new();
    for (shard, value) in reader.entries(&path, value) {
        let path = key_of(&path, shard);
        let Value::Array(_, items) = value else {
            reader.problem(path, "a list of keys is expected here");
            continue;
        };
        let mut listed = Vec::with_capacity(items.len());
        for (i, item) in items.iter().enumerate() {
            match keys::parse(item, key) {
                Ok(key) => listed.push(key),
                Err(expected) => reader.problem(format!("{path}.{i}"), expected),
            }
        }
        values.push((shard.clone(), listed));
    }
    values
}

fn tables(reader: &mut Reader<'_>, keyspace: Table<'_>) -> Vec<(String, TableConfig)> {
    let Some(value) = keyspace.dict.get("tables") else {
        return Vec::new();
    };
    let path = keyspace.key("tables");
    let mut tables = Vec::new();
    for (name, value) in reader.entries(&path, value) {
        let path = key_of(&path, name);
        let Value::Dict(_, dict) = value else {
            reader.problem(path, "a table is expected here: { key_column = \"..\", count = 8 }");
            continue;
        };
        let table = Table { path: &path, dict };
        reader.known(table, TABLE, no_hint);
        if !dict.contains_key("key_column") {
            reader.missing(
                table.key("key_column"),
                "is missing: name the column that holds the shard key",
            );
        }
        let key_column = reader.text(table, "key_column");
        let count = reader.number(table, "count").unwrap_or(1);
        if let Some(key_column) = key_column {
            tables.push((name.clone(), TableConfig { key_column, count }));
        }
    }
    tables
}
