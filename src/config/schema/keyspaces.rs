//! Keyspaces: shards, keys, algorithm and tables.

use figment::value::{Dict, Value};

use super::super::reader::{Reader, Table};
use super::algorithm::algorithm;
use super::no_hint;
use crate::algorithm::{Normalize, RuleSpec};
use crate::key::{CompositeType, KeyType};
use crate::topology::{KeyspaceConfig, MAX_PARTS, TableConfig, key_of};

const KEYSPACE: &[&str] = &[
    "shards",
    "key",
    "normalize",
    "algorithm",
    "tables",
    "migrations",
];
const TABLE: &[&str] = &["key_column", "count", "by_rule", "pattern"];

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
    let key = key_type(reader, table);
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
    (config.tables, config.patterns) = tables(reader, table);
    config.migrations = reader.text_or_texts(table, "migrations");
    config
}

/// The type of the keys: a word, or a list of words for a composite one. `None` where nobody knows.
fn key_type(reader: &mut Reader<'_>, table: Table<'_>) -> Option<KeyType> {
    let word = |reader: &mut Reader<'_>, key: String, word: &str| match word.parse() {
        Ok(key) => Some(key),
        Err(error) => {
            let error: crate::key::ParseWordError = error;
            reader.problem(key, error.to_string());
            None
        }
    };
    match table.dict.get("key") {
        None => Some(KeyType::default()),
        Some(Value::Array(..)) => {
            let words = reader.texts(table, "key")?;
            let key = table.key("key");
            let parts = words.iter().map(|part| word(reader, key.clone(), part));
            let parts = parts.collect::<Option<Vec<KeyType>>>()?;
            let found = CompositeType::new(parts);
            if found.is_none() {
                reader.problem(key, "a composite key has two to eight parts");
            }
            found.map(KeyType::Composite)
        }
        Some(_) => {
            let text = reader.text(table, "key")?;
            word(reader, table.key("key"), &text)
        }
    }
}

/// The patterns of table names, by table.
type Patterns = Vec<(String, String)>;

/// The tables, and the patterns of those that have one.
fn tables(reader: &mut Reader<'_>, keyspace: Table<'_>) -> (Vec<(String, TableConfig)>, Patterns) {
    let Some(value) = keyspace.dict.get("tables") else {
        return (Vec::new(), Vec::new());
    };
    let path = keyspace.key("tables");
    let mut tables = Vec::new();
    let mut patterns = Vec::new();
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
        let expected = format!("a table has 1 to {MAX_PARTS} parts on each shard");
        let count = reader.number_or(table, "count", &expected).unwrap_or(1);
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
            if let Some(pattern) = reader.text(table, "pattern") {
                patterns.push((name.clone(), pattern));
            }
        }
    }
    (tables, patterns)
}
