//! Keyspaces: shards, keys, algorithm and tables.

use std::ops::Range;

use figment::value::{Dict, Value};

use super::super::keys;
use super::super::reader::{Reader, Table};
use super::no_hint;
use crate::algorithm::{AlgorithmSpec, Normalize, RuleSpec};
use crate::key::{KeyType, ShardKey};
use crate::topology::{KeyspaceConfig, TableConfig, key_of};

const KEYSPACE: &[&str] = &[
    "shards",
    "key",
    "normalize",
    "algorithm",
    "tables",
    "migrations",
];
const TABLE: &[&str] = &["key_column", "count", "by_rule"];

/// The number of buckets where none is said. It is as frozen as the hash itself.
const DEFAULT_BUCKETS: u32 = 4096;

/// Reads one keyspace.
pub(super) fn keyspace(reader: &mut Reader<'_>, path: &str, value: &Value) -> KeyspaceConfig {
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
        reader.missing(
            table.key("shards"),
            "is missing: list the shards of the keyspace",
        );
    }
    let shards = reader.texts(table, "shards").unwrap_or_default();
    let key = match reader
        .text(table, "key")
        .map(|word| word.parse::<KeyType>())
    {
        None if dict.contains_key("key") => None,
        None => Some(KeyType::default()),
        Some(Ok(key)) => Some(key),
        Some(Err(error)) => {
            reader.problem(table.key("key"), error.to_string());
            None
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
    let rule = RuleSpec::new(shards, algorithm)
        .key(key.unwrap_or_default())
        .normalize(normalize);
    let mut config = KeyspaceConfig::new(rule);
    config.tables = tables(reader, table);
    config.migrations = reader.text_or_texts(table, "migrations");
    config
}

/// `key` is `None` where nobody knows the type of the keys.
fn algorithm(reader: &mut Reader<'_>, keyspace: Table<'_>, key: Option<KeyType>) -> AlgorithmSpec {
    let fallback = AlgorithmSpec::Hash {
        buckets: DEFAULT_BUCKETS,
        map: None,
    };
    let path = keyspace.key("algorithm");
    let dict = match keyspace.dict.get("algorithm") {
        None => return fallback,
        Some(Value::Dict(_, dict)) => dict,
        Some(_) => {
            reader.problem(
                path,
                "a table is expected here: { kind = \"hash\", buckets = 4096 }",
            );
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
    key: Option<KeyType>,
) -> Vec<(String, Vec<ShardKey<'static>>)> {
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
            let Some(key) = key else { break };
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
            reader.problem(
                path,
                "a table is expected here: { key_column = \"..\", count = 8 }",
            );
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
            let by_rule = reader.boolean(table, "by_rule").unwrap_or(false);
            if by_rule && dict.contains_key("count") {
                reader.problem(
                    table.key("count"),
                    "the rule names the parts of this table: take the count out",
                );
            }
            let settings = TableConfig {
                key_column,
                count,
                by_rule,
            };
            tables.push((name.clone(), settings));
        }
    }
    tables
}
