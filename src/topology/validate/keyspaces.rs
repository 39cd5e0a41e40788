//! Keyspaces: their shards, their rule, the names of their tables.

use std::collections::{BTreeSet, HashMap};

use super::super::snapshot::{KeyspaceEntry, Table};
use super::super::spec::{KeyspaceConfig, TableConfig};
use super::{Findings, key_of, unknown};
use crate::algorithm::{AlgorithmSpec, Rule};
use crate::name::KeyspaceName;

/// The longest identifier that every backend keeps whole: PostgreSQL's; MySQL has one byte more.
const MAX_IDENTIFIER: usize = 63;

/// A table of some keyspace, for comparing names across keyspaces.
#[derive(Debug)]
struct Declared<'s> {
    key: String,
    keyspace: &'s str,
    shards: &'s [String],
    name: &'s str,
    count: u32,
    by_rule: bool,
}

pub(super) fn check(
    keyspaces: &[(String, KeyspaceConfig)],
    shards: &[&str],
    findings: &mut Findings,
) -> Vec<KeyspaceEntry> {
    let mut entries = Vec::with_capacity(keyspaces.len());
    let mut declared: Vec<Declared<'_>> = Vec::new();
    for (name, config) in keyspaces {
        let key = key_of("keyspaces", name);
        let listed: BTreeSet<&String> = config.rule.shards.iter().collect();
        for shard in listed {
            if !shards.contains(&shard.as_str()) {
                findings.problem(format!("{key}.shards"), unknown("shard", shard, shards));
            }
        }
        if matches!(config.rule.algorithm, AlgorithmSpec::Hash { map: None, .. }) {
            findings.warning(
                format!("{key}.algorithm"),
                format!(
                    "keyspace {name} has no written map, so its list of shards decides which buckets each owns, and a shard that is added moves rows: write the map down"
                ),
            );
        }
        let mut seen = BTreeSet::new();
        for (table, settings) in &config.tables {
            let key = key_of(&format!("{key}.tables"), table);
            if !seen.insert(table.as_str()) {
                findings.problem(&key, format!("table {table} is declared more than once"));
                continue;
            }
            check_table(&key, table, settings, findings);
            declared.push(Declared {
                key,
                keyspace: name,
                shards: &config.rule.shards,
                name: table,
                count: settings.count,
                by_rule: settings.by_rule,
            });
        }
        match Rule::build(&config.rule) {
            Ok(rule) => {
                for warning in rule.warnings(jiff::Timestamp::now()) {
                    findings.warning(
                        format!("{key}.{}", warning.key),
                        format!("keyspace {name}: {}", warning.message),
                    );
                }
                for (table, settings) in &config.tables {
                    let key = key_of(&format!("{key}.tables"), table);
                    check_parts(&key, table, settings, &rule, findings);
                }
                entries.push(entry(name, config, rule));
            }
            Err(problems) => {
                for problem in problems {
                    findings.problem(format!("{key}.{}", problem.key), problem.message);
                }
            }
        }
    }
    check_clashes(&declared, findings);
    entries
}

fn entry(name: &str, config: &KeyspaceConfig, rule: Rule) -> KeyspaceEntry {
    let mut tables: Vec<Table> = config
        .tables
        .iter()
        .map(|(name, table)| Table {
            name: name.clone(),
            key_column: table.key_column.clone(),
            count: table.count,
            by_rule: table.by_rule,
        })
        .collect();
    tables.sort_by(|a, b| a.name.cmp(&b.name));
    let parts: Vec<(&str, &str, u32)> = tables
        .iter()
        .map(|table| {
            // In a fingerprint 0 parts are those that the rule names.
            let count = if table.by_rule { 0 } else { table.count };
            (table.name.as_str(), table.key_column.as_str(), count)
        })
        .collect();
    KeyspaceEntry {
        name: KeyspaceName::intern(name),
        fingerprint: rule.fingerprint(&parts),
        rule,
        has_tables: tables.iter().any(Table::is_physical),
        tables,
        migrations: config.migrations.clone(),
    }
}

fn is_identifier(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$'))
}

fn check_table(key: &str, name: &str, table: &TableConfig, findings: &mut Findings) {
    let parts: Vec<&str> = name.split('.').collect();
    if parts.len() > 2 || !parts.iter().all(|part| is_identifier(part)) {
        findings.problem(
            key,
            format!(
                "{name:?} is no name for a table: use letters, digits, `_` and `$`, begin with a letter or `_`, and put at most a schema before it (`shop.orders`)"
            ),
        );
    } else {
        let suffix = match table.count {
            0 | 1 => String::new(),
            count => format!("_{}", count - 1),
        };
        let last = parts.last().map_or(0, |part| part.len()) + suffix.len();
        let longest = parts
            .iter()
            .map(|part| part.len())
            .max()
            .unwrap_or(0)
            .max(last);
        if longest > MAX_IDENTIFIER {
            findings.problem(
                key,
                format!(
                    "the name {name}{suffix} is longer than {MAX_IDENTIFIER} bytes, and a database would cut it: choose a shorter name"
                ),
            );
        }
    }
    if table.count == 0 {
        findings.problem(
            format!("{key}.count"),
            "a table has at least one part: say 1 or more",
        );
    }
    if !is_identifier(&table.key_column) || table.key_column.len() > MAX_IDENTIFIER {
        findings.problem(
            format!("{key}.key_column"),
            format!(
                "{:?} is no name for a column: use up to {MAX_IDENTIFIER} letters, digits, `_` and `$`, and begin with a letter or `_`",
                table.key_column
            ),
        );
    }
}

/// Whether the rule and a table agree on the parts that the table has.
fn check_parts(key: &str, name: &str, table: &TableConfig, rule: &Rule, findings: &mut Findings) {
    let kind = rule.algorithm_name();
    if table.by_rule {
        match rule.longest_suffix() {
            None => findings.problem(
                format!("{key}.by_rule"),
                format!(
                    "a rule of the kind `{kind}` names no tables here: say a `count`, or leave both out for a table that is not split"
                ),
            ),
            Some(suffix) => {
                let longest = name.rsplit('.').next().map_or(0, str::len) + 1 + suffix.len();
                if longest > MAX_IDENTIFIER {
                    findings.problem(
                        key,
                        format!(
                            "the name {name}_{suffix} is longer than {MAX_IDENTIFIER} bytes, and a database would cut it: choose a shorter name"
                        ),
                    );
                }
            }
        }
    } else if let Some(count) = rule.table_count()
        && table.count > 1
        && table.count != count
    {
        let more = if count > 1 {
            format!("say {count}, or 1 for a table that is not split")
        } else {
            "leave it out".to_owned()
        };
        let by_rule = if rule.longest_suffix().is_some() {
            ", or `by_rule = true` for tables that the rule names"
        } else {
            ""
        };
        findings.problem(
            format!("{key}.count"),
            format!(
                "the table has {} parts, and this `{kind}` rule numbers {count}: {more}{by_rule}",
                table.count
            ),
        );
    }
}

/// Finds tables that would be one table in a database: with the same name, or where the number of
/// one makes the name of another. Names are compared case-blind, as most databases do.
fn check_clashes(declared: &[Declared<'_>], findings: &mut Findings) {
    let mut by_name: HashMap<String, Vec<&Declared<'_>>> = HashMap::new();
    for table in declared {
        by_name
            .entry(table.name.to_ascii_lowercase())
            .or_default()
            .push(table);
    }
    for table in declared {
        let name = table.name.to_ascii_lowercase();
        for other in by_name.get(&name).into_iter().flatten() {
            // Each pair once: the later one is told.
            if std::ptr::eq(*other, table) {
                break;
            }
            if meet(table, other) {
                findings.problem(
                    &table.key,
                    format!(
                        "table {} of keyspace {} is declared in keyspace {} too, and the two share a shard",
                        table.name, table.keyspace, other.keyspace
                    ),
                );
            }
        }
        let Some((stem, number)) = numbered(&name) else {
            continue;
        };
        for other in by_name.get(stem).into_iter().flatten() {
            if other.by_rule && meet(table, other) {
                findings.problem(
                    &table.key,
                    format!(
                        "table {} may have the name of a part of table {}, whose parts the rule names: rename one of them",
                        table.name, other.name
                    ),
                );
            }
            if other.count > 1 && number < other.count && meet(table, other) {
                findings.problem(
                    &table.key,
                    format!(
                        "table {} has the name of part {number} of table {}, which is split into {}: rename one of them",
                        table.name, other.name, other.count
                    ),
                );
            }
        }
    }
}

/// Whether two tables can be in one database.
fn meet(a: &Declared<'_>, b: &Declared<'_>) -> bool {
    a.keyspace == b.keyspace || a.shards.iter().any(|shard| b.shards.contains(shard))
}

/// Takes `orders_3` for `orders` and 3; a number with a leading zero is no number of a table.
fn numbered(name: &str) -> Option<(&str, u32)> {
    let (stem, digits) = name.rsplit_once('_')?;
    let number: u32 = digits.parse().ok()?;
    (number.to_string() == digits).then_some((stem, number))
}
