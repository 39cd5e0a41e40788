//! The physical tables of each shard, from the keyspaces that are spread over it.

use std::sync::Arc;

use super::UrlKind;
use super::snapshot::{KeyspaceEntry, Shard, Table};
use crate::algorithm::Rule;
use crate::rewrite::{Dialect, Parts, ShardedTable, TableSet};

impl From<UrlKind> for Dialect {
    fn from(kind: UrlKind) -> Self {
        match kind {
            UrlKind::Sqlite => Self::Sqlite,
            UrlKind::Postgres => Self::Postgres,
            UrlKind::Mysql => Self::Mysql,
        }
    }
}

/// Gives each shard its table set; shards whose tables are alike share one.
pub(super) fn assign(shards: &mut [Shard], keyspaces: &[KeyspaceEntry]) {
    let mut made: Vec<Arc<TableSet>> = Vec::new();
    let with_tables: Vec<(&KeyspaceEntry, Arc<Rule>)> = keyspaces
        .iter()
        .filter(|keyspace| keyspace.has_tables)
        .map(|keyspace| (keyspace, Arc::new(keyspace.rule.clone())))
        .collect();
    for shard in shards {
        let Some(kind) = shard.primary.url.kind() else {
            continue;
        };
        let mut tables = Vec::new();
        for (keyspace, rule) in &with_tables {
            let mut listed = rule.shards().iter();
            if let Some(position) = listed.position(|listed| *listed == shard.name) {
                let physical = keyspace.tables.iter().filter(|table| table.is_physical());
                tables.extend(physical.map(|table| sharded(keyspace, rule, position, table)));
            }
        }
        if tables.is_empty() {
            continue;
        }
        let set = TableSet::new(kind.into(), shard.primary.url.mysql_database(), tables);
        let shared = made.iter().rev().find(|other| other.is_like(&set));
        shard.tables = Some(match shared {
            Some(shared) => Arc::clone(shared),
            None => {
                let set = Arc::new(set);
                made.push(Arc::clone(&set));
                set
            }
        });
    }
}

fn sharded(
    keyspace: &KeyspaceEntry,
    rule: &Arc<Rule>,
    position: usize,
    table: &Table,
) -> ShardedTable {
    let (schema, name) = table.split_name();
    ShardedTable {
        keyspace: keyspace.name,
        placed_by: keyspace.placed_by(),
        schema: schema.map(str::to_owned),
        name: name.to_owned(),
        key_column: table.key_column.clone(),
        parts: if table.by_rule {
            Parts::ByRule {
                rule: Arc::clone(rule),
                pattern: table.pattern.clone(),
            }
        } else {
            let names = (0..table.count).map(|number| table.part_name(position, number));
            Parts::Numbered(names.collect())
        },
    }
}
