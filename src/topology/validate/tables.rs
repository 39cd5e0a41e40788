//! Tables, each for itself: its parts, and how they are to be named.

use std::collections::HashMap;

use super::super::snapshot::Table;
use super::super::spec::{KeyspaceConfig, TableConfig};
use super::{Findings, key_of, unknown};
use crate::algorithm::Rule;
use crate::rewrite::Pattern;

/// The longest identifier that PostgreSQL keeps whole, in bytes; SQLite would take any.
pub(super) const MAX_IDENTIFIER: usize = 63;

/// More parts than this on one shard are a slip.
pub(crate) const MAX_PARTS: u32 = 1 << 16;

/// A table of some keyspace, with its place in the description.
#[derive(Debug)]
pub(super) struct Declared<'s> {
    /// The key of the table.
    pub(super) key: String,
    pub(super) keyspace: &'s str,
    pub(super) shards: &'s [String],
    pub(super) table: Table,
    /// The key of what its names follow from.
    pub(super) named_by: String,
}

/// Whether a name needs no quotes in any database.
pub(super) fn is_identifier(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$'))
}

/// Checks each table of a keyspace for itself. What comes back can be compared with others.
pub(super) fn check<'s>(
    keyspace: &'s str,
    config: &'s KeyspaceConfig,
    findings: &mut Findings,
) -> Vec<Declared<'s>> {
    let tables_key = format!("{}.tables", key_of("keyspaces", keyspace));
    let names: Vec<&str> = config.tables.iter().map(|(name, _)| &**name).collect();
    let mut patterns: HashMap<&str, &str> = HashMap::new();
    for (table, pattern) in &config.patterns {
        let key = format!("{}.pattern", key_of(&tables_key, table));
        if !names.contains(&table.as_str()) {
            findings.problem(key, unknown("table", table, &names));
        } else if patterns.insert(table, pattern).is_some() {
            findings.problem(key, format!("table {table} has a pattern already"));
        }
    }
    let mut declared: Vec<Declared<'_>> = Vec::new();
    for (name, settings) in &config.tables {
        let key = key_of(&tables_key, name);
        if declared.iter().any(|other| other.table.name == *name) {
            findings.problem(&key, format!("table {name} is declared more than once"));
            continue;
        }
        let is_sound = check_table(&key, name, settings, findings);
        let pattern = patterns.get(name.as_str()).copied();
        let named_by = match pattern {
            Some(_) => format!("{key}.pattern"),
            None => key.clone(),
        };
        let Some(table) = named(&key, name, settings, pattern, findings) else {
            continue;
        };
        if is_sound {
            declared.push(Declared {
                key,
                keyspace,
                shards: &config.rule.shards,
                table,
                named_by,
            });
        }
    }
    declared
}

/// Whether anything can be said about the names of the table's parts.
fn check_table(key: &str, name: &str, table: &TableConfig, findings: &mut Findings) -> bool {
    let parts: Vec<&str> = name.split('.').collect();
    let mut is_sound = true;
    if parts.len() > 2 || !parts.iter().all(|part| is_identifier(part)) {
        findings.problem(
            key,
            format!(
                "{name:?} is no name for a table: use letters, digits, `_` and `$`, begin with a letter or `_`, and put at most a schema before it (`shop.orders`)"
            ),
        );
        is_sound = false;
    }
    if table.count == 0 || table.count > MAX_PARTS {
        findings.problem(
            format!("{key}.count"),
            format!(
                "a table has 1 to {MAX_PARTS} parts on each shard, and not {}",
                table.count
            ),
        );
        is_sound = false;
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
    is_sound
}

/// The table with its pattern; `None` where it cannot be named.
fn named(
    key: &str,
    name: &str,
    settings: &TableConfig,
    written: Option<&str>,
    findings: &mut Findings,
) -> Option<Table> {
    let mut by_rule = settings.by_rule;
    let Some(written) = written else {
        return Some(Table {
            name: name.to_owned(),
            key_column: settings.key_column.clone(),
            count: settings.count,
            by_rule,
            pattern: Pattern::usual(by_rule || settings.count > 1),
        });
    };
    let pattern_key = format!("{key}.pattern");
    let mut is_sound = true;
    let mut refuse = |message: String| {
        findings.problem(&pattern_key, message);
        is_sound = false;
    };
    let pattern = match Pattern::parse(written) {
        Ok(pattern) => pattern,
        Err(message) => {
            refuse(message);
            return None;
        }
    };
    if pattern.is_dated() {
        by_rule = true;
        if settings.count > 1 {
            refuse(format!(
                "{{date}} is for tables of which the rule names the parts, and this one has {}: write {{table}}, or take the count out",
                settings.count
            ));
        }
        if pattern.is_numbered() {
            refuse("{date} stands in the place of a number: write one of them".to_owned());
        }
    }
    if by_rule {
        if pattern.is_global() {
            refuse("the rule names the parts of this table, so they have no numbers: write {table} for what the rule calls them".to_owned());
        } else if pattern.has_width() {
            refuse("the rule says how the parts of this table are written: write {table} without a width".to_owned());
        } else if !pattern.is_numbered() && !pattern.is_dated() {
            refuse(format!(
                "it gives all parts one name: write {{table}} for what the rule calls a part, as in {written}_{{table}}"
            ));
        }
    } else if settings.count > 1 && !pattern.is_numbered() {
        refuse(format!(
            "it gives all {} parts one name: write {{table}} for the number of a part, as in {written}_{{table}}",
            settings.count
        ));
    }
    is_sound.then(|| Table {
        name: name.to_owned(),
        key_column: settings.key_column.clone(),
        count: settings.count,
        by_rule,
        pattern,
    })
}

/// Whether the rule and a table agree on the parts that the table has.
pub(super) fn check_parts(declared: &Declared<'_>, rule: &Rule, findings: &mut Findings) {
    let kind = rule.algorithm_name();
    let Declared { key, table, .. } = declared;
    if table.by_rule {
        if rule.longest_suffix().is_none() {
            findings.problem(
                if table.pattern.is_dated() {
                    format!("{key}.pattern")
                } else {
                    format!("{key}.by_rule")
                },
                format!(
                    "a rule of the kind `{kind}` names no tables here: say a `count`{}, or leave both out for a table that is not split",
                    if table.pattern.is_dated() {
                        " and write {table}"
                    } else {
                        ""
                    }
                ),
            );
        } else if table.pattern.is_dated() && !rule.names_dates() {
            findings.problem(
                format!("{key}.pattern"),
                format!(
                    "the parts that this `{kind}` rule names are not named by dates: write {{table}}"
                ),
            );
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
