//! Algorithms and their parameters.

mod compat;
mod date;

use std::ops::Range;

use figment::value::{Dict, Value};

use super::super::keys;
use super::super::reader::{Reader, Table};
use super::no_hint;
use crate::algorithm::{AlgorithmOptions, AlgorithmSpec, CustomSpec, DEFAULT_POINTS, RangeSpec};
use crate::key::{KeyType, ShardKey};
use crate::topology::key_of;

/// The number of buckets where none is said. It is as frozen as the hash itself.
const DEFAULT_BUCKETS: u32 = 4096;

const KINDS: [&str; 9] = [
    "hash", "modulo", "list", "jump", "ring", "range", "date", "compat", "custom",
];

/// The kinds, as messages list them.
fn kinds() -> String {
    let (last, rest) = KINDS.split_last().unwrap_or((&"", &[]));
    let rest: Vec<String> = rest.iter().map(|kind| format!("{kind:?}")).collect();
    format!("{} or {last:?}", rest.join(", "))
}

/// `key` is `None` where nobody knows the type of the keys.
pub(super) fn algorithm(
    reader: &mut Reader<'_>,
    keyspace: Table<'_>,
    key: Option<KeyType>,
) -> AlgorithmSpec {
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
            format!("is missing: say {}", kinds()),
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
        Some("jump") => {
            reader.known(table, &["kind"], no_hint);
            AlgorithmSpec::Jump
        }
        Some("ring") => {
            reader.known(table, &["kind", "points", "weights"], no_hint);
            AlgorithmSpec::Ring {
                points: reader.number(table, "points").unwrap_or(DEFAULT_POINTS),
                weights: weights(reader, table),
            }
        }
        Some("range") => {
            reader.known(table, &["kind", "ranges"], no_hint);
            AlgorithmSpec::Range {
                ranges: ranges(reader, table, key),
            }
        }
        Some("date") => AlgorithmSpec::Date(date::date(reader, table)),
        Some("compat") => match compat::compat(reader, table) {
            Some(compat) => AlgorithmSpec::Compat(compat),
            None => fallback,
        },
        Some("custom") => custom(reader, table).map_or(fallback, AlgorithmSpec::Custom),
        Some(other) => {
            reader.problem(
                table.key("kind"),
                format!("unknown algorithm {other:?}: use {}", kinds()),
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

fn weights(reader: &mut Reader<'_>, algorithm: Table<'_>) -> Vec<(String, u32)> {
    let Some(value) = algorithm.dict.get("weights") else {
        return Vec::new();
    };
    let path = algorithm.key("weights");
    let names: Vec<String> = reader
        .entries(&path, value)
        .into_iter()
        .map(|(name, _)| name.clone())
        .collect();
    let Value::Dict(_, dict) = value else {
        return Vec::new();
    };
    let table = Table { path: &path, dict };
    let weights = names.into_iter();
    weights
        .filter_map(|name| Some((name.clone(), reader.number(table, &name)?)))
        .collect()
}

/// The tables of a list at a key, with the path of each.
fn rows<'v>(
    reader: &mut Reader<'_>,
    table: Table<'v>,
    name: &str,
    form: &str,
) -> Vec<(String, &'v Dict)> {
    let path = table.key(name);
    let Some(value) = table.dict.get(name) else {
        return Vec::new();
    };
    let Value::Array(_, items) = value else {
        reader.problem(path, format!("a list of tables is expected here: {form}"));
        return Vec::new();
    };
    let mut rows = Vec::with_capacity(items.len());
    for (i, item) in items.iter().enumerate() {
        let path = format!("{path}.{i}");
        match item {
            Value::Dict(_, dict) => rows.push((path, dict)),
            _ => reader.problem(path, format!("a table is expected here: {form}")),
        }
    }
    rows
}

/// Reports the names that a table has to have and has not.
fn required(reader: &mut Reader<'_>, table: Table<'_>, names: &[&str], form: &str) {
    for name in names {
        if !table.dict.contains_key(*name) {
            reader.missing(table.key(name), format!("is missing: {form}"));
        }
    }
}

/// A whole number of any size.
fn integer(reader: &mut Reader<'_>, table: Table<'_>, name: &str) -> Option<i128> {
    match keys::parse(table.dict.get(name)?, KeyType::Integer) {
        Ok(ShardKey::Integer(number)) => Some(number),
        _ => {
            reader.problem(table.key(name), "a whole number is expected here");
            None
        }
    }
}

fn ranges(reader: &mut Reader<'_>, algorithm: Table<'_>, key: Option<KeyType>) -> Vec<RangeSpec> {
    const FORM: &str = "[{ shard = \"a\", until = 100 }, { shard = \"b\", from = 100 }]";
    required(reader, algorithm, &["ranges"], FORM);
    let mut ranges = Vec::new();
    for (path, dict) in rows(reader, algorithm, "ranges", FORM) {
        let table = Table { path: &path, dict };
        reader.known(table, &["shard", "from", "until"], no_hint);
        required(reader, table, &["shard"], FORM);
        let bound = |reader: &mut Reader<'_>, name: &str| {
            let value = dict.get(name)?;
            match keys::parse(value, key?) {
                Ok(key) => Some(key),
                Err(expected) => {
                    reader.problem(table.key(name), expected);
                    None
                }
            }
        };
        let (from, until) = (bound(reader, "from"), bound(reader, "until"));
        // One that could not be read must not become an open end.
        let read = |name: &str, bound: &Option<_>| bound.is_some() || !dict.contains_key(name);
        if let Some(shard) = reader.text(table, "shard")
            && read("from", &from)
            && read("until", &until)
        {
            ranges.push(RangeSpec { shard, from, until });
        }
    }
    ranges
}

fn custom(reader: &mut Reader<'_>, algorithm: Table<'_>) -> Option<CustomSpec> {
    reader.known(algorithm, &["kind", "name", "options"], no_hint);
    required(
        reader,
        algorithm,
        &["name"],
        "name the algorithm, as the program that loads this knows it",
    );
    let name = reader.text(algorithm, "name")?;
    let mut options = AlgorithmOptions::new();
    if let Some(value) = algorithm.dict.get("options") {
        let path = algorithm.key("options");
        for (name, value) in reader.entries(&path, value) {
            let key = key_of(&path, name);
            if let Some(text) = reader.text_of(&key, value) {
                options.insert(name.clone(), text);
            }
        }
    }
    match reader.algorithms.make(&name, &options) {
        Ok(algorithm) => Some(CustomSpec {
            name,
            options,
            algorithm,
        }),
        Err(message) => {
            reader.problem(algorithm.key("name"), message);
            None
        }
    }
}
