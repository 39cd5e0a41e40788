//! Keyspaces: their shards and their rule.

use std::collections::{BTreeSet, HashMap};

use super::super::snapshot::{KeyspaceEntry, Table};
use super::super::spec::KeyspaceConfig;
use super::super::url::UrlKind;
use super::names;
use super::tables::{self, Declared};
use super::{Findings, key_of, unknown};
use crate::algorithm::{AlgorithmSpec, Rule, TableNames};
use crate::name::KeyspaceName;

/// `kinds` has the backend of each shard.
pub(super) fn check(
    keyspaces: &[(String, KeyspaceConfig)],
    shards: &[&str],
    kinds: &HashMap<&str, Option<UrlKind>>,
    findings: &mut Findings,
) -> Vec<KeyspaceEntry> {
    let mut rules: Vec<Option<Rule>> = Vec::with_capacity(keyspaces.len());
    // By keyspace.
    let mut declared: Vec<Vec<Declared<'_>>> = Vec::with_capacity(keyspaces.len());
    for (name, config) in keyspaces {
        let key = key_of("keyspaces", name);
        let listed: BTreeSet<&String> = config.rule.shards.iter().collect();
        for shard in listed {
            if !shards.contains(&shard.as_str()) {
                findings.problem(format!("{key}.shards"), unknown("shard", shard, shards));
            }
        }
        let without_map = match &config.rule.algorithm {
            AlgorithmSpec::Hash { map: None, .. } => {
                Some("its list of shards decides which buckets each owns")
            }
            AlgorithmSpec::Date(date) if date.map.is_none() => {
                Some("its shards take the periods in turn")
            }
            _ => None,
        };
        if let Some(so) = without_map {
            findings.warning(
                format!("{key}.algorithm"),
                format!(
                    "keyspace {name} has no written map, so {so}, and a shard that is added moves rows: write the map down"
                ),
            );
        }
        let tables = tables::check(name, config, findings);
        match Rule::build(&config.rule) {
            Ok(rule) => {
                for warning in rule.warnings(jiff::Timestamp::now()) {
                    findings.warning(
                        format!("{key}.{}", warning.key),
                        format!("keyspace {name}: {}", warning.message),
                    );
                }
                for table in &tables {
                    tables::check_parts(table, &rule, findings);
                }
                rules.push(Some(rule));
            }
            Err(problems) => {
                for problem in problems {
                    findings.problem(format!("{key}.{}", problem.key), problem.message);
                }
                rules.push(None);
            }
        }
        declared.push(tables);
    }
    let rule_of: Vec<Option<&Rule>> = std::iter::zip(&declared, &rules)
        .flat_map(|(tables, rule)| tables.iter().map(|_| rule.as_ref()))
        .collect();
    let counts: Vec<usize> = declared.iter().map(Vec::len).collect();
    let declared: Vec<Declared<'_>> = declared.into_iter().flatten().collect();
    names::check(&declared, &rule_of, kinds, findings);
    let mut declared = declared.into_iter();
    let mut entries = Vec::with_capacity(keyspaces.len());
    for (((name, config), rule), count) in keyspaces.iter().zip(rules).zip(counts) {
        let tables = declared.by_ref().take(count).map(|one| one.table).collect();
        // Where a rule is missing, nothing comes of the description.
        if let Some(rule) = rule {
            entries.push(entry(name, config, rule, tables));
        }
    }
    entries
}

fn entry(name: &str, config: &KeyspaceConfig, rule: Rule, mut tables: Vec<Table>) -> KeyspaceEntry {
    tables.sort_by(|a, b| a.name.cmp(&b.name));
    let parts: Vec<(&str, &str, u32)> = tables
        .iter()
        .map(|table| {
            // In a fingerprint 0 parts are those that the rule names.
            let count = if table.by_rule { 0 } else { table.count };
            (table.name.as_str(), table.key_column.as_str(), count)
        })
        .collect();
    let unusual = tables.iter().filter(|table| !table.has_usual_names());
    let names = TableNames {
        patterns: unusual
            .map(|table| (table.name.as_str(), table.pattern.text()))
            .collect(),
        by_position: tables.iter().any(|table| table.pattern.is_global()),
    };
    KeyspaceEntry {
        name: KeyspaceName::intern(name),
        fingerprint: rule.fingerprint_named(&parts, &names),
        rule,
        has_tables: tables.iter().any(Table::is_physical),
        tables,
        migrations: config.migrations.clone(),
    }
}
