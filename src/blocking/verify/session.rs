//! A connection that only looks.

use std::collections::{BTreeMap, HashMap};

use super::super::backend::NodeConnection;
use super::super::direct::connect_existing;
use super::pages::{self, Pace};
use crate::driver::verify::sql::{self, Column, Stored};
use crate::driver::verify::{Outside, Plan, ScannedKey, TableJob, VerifyOptions};
use crate::error::Error;
use crate::key::ShardKey;
use crate::name::{Role, ShardName};
use crate::topology::{NodeDescription, Topology, UrlKind};

/// The primary node of each shard.
pub(super) fn primaries(topology: &Topology) -> BTreeMap<ShardName, NodeDescription> {
    let nodes = topology.nodes().into_iter();
    let primaries = nodes.filter(|node| node.role == Role::Primary);
    primaries.map(|node| (node.shard, node)).collect()
}

/// A connection of a shard that refuses to write.
pub(super) struct Session<C> {
    conn: C,
    pub(super) kind: UrlKind,
    shard: ShardName,
}

impl<C: NodeConnection> Session<C> {
    pub(super) fn open(
        nodes: &BTreeMap<ShardName, NodeDescription>,
        shard: ShardName,
    ) -> Result<Self, Error> {
        let Some(node) = nodes.get(&shard) else {
            return Err(Error::UnknownShard {
                shard: shard.to_string(),
                known: nodes.keys().copied().collect(),
                nearest: None,
            });
        };
        let mut conn: C = connect_existing(node.spec())?;
        let kind = conn.kind();
        let session = |conn: &mut C| conn.batch_execute(sql::read_only(kind));
        session(&mut conn).map_err(|source| Error::Database {
            shard: Some(shard),
            source,
        })?;
        Ok(Self { conn, kind, shard })
    }

    pub(super) fn scan(
        &mut self,
        text: &str,
        numbers: bool,
        each: &mut dyn FnMut(ScannedKey<'_>),
    ) -> Result<(), Error> {
        let scanned = self.conn.scan_keys(text, numbers, each);
        scanned.map_err(|source| Error::Database {
            shard: Some(self.shard),
            source,
        })
    }

    pub(super) fn number(&mut self, text: &str) -> Result<u64, Error> {
        let mut found = 0;
        self.scan(text, true, &mut |key| {
            if let ScannedKey::Number(number) = key {
                found = u64::try_from(number).unwrap_or(0);
            }
        })?;
        Ok(found)
    }

    pub(super) fn is_there(&mut self, table: &str) -> Result<bool, Error> {
        let text = sql::exists(self.kind, table);
        Ok(self.number(&text)? > 0)
    }

    /// The key column of a table, with what it keeps.
    pub(super) fn column<'a>(
        &mut self,
        plan: &Plan,
        job: &'a TableJob,
    ) -> Result<Column<'a>, Error> {
        let stored = match sql::stored(self.kind, (&job.physical, &job.key_column)) {
            Some(text) => Stored::of(self.number(&text)?),
            None => Stored::Any,
        };
        Ok(Column::new(self.kind, plan.key, stored, job))
    }

    /// How many rows of a table, which is there, have each of these keys, as the rule takes keys.
    ///
    /// The database is asked for them where its answer is that of the whole run; otherwise the whole
    /// column is read once.
    pub(super) fn rows_with_keys(
        &mut self,
        plan: &Plan,
        job: &TableJob,
        keys: &[ShardKey<'_>],
        (options, pace): (&VerifyOptions, &mut Pace),
    ) -> Result<Vec<u64>, Error> {
        let column = self.column(plan, job)?;
        let rule = &plan.keyspace.rule;
        let texts: HashMap<String, usize> = keys
            .iter()
            .enumerate()
            .map(|(at, key)| (rule.normalized(key).to_string(), at))
            .collect();
        let mut rows = vec![0; keys.len()];
        let each = |rows: &mut Vec<u64>, scanned: ScannedKey<'_>| {
            let key = plan.key_of(scanned);
            let at = key.and_then(|key| texts.get(&key.to_string()));
            if let Some(rows) = at.and_then(|at| rows.get_mut(*at)) {
                *rows += 1;
            }
        };
        let asked = keys.iter().map(|key| column.candidates(key, rule.folds()));
        let Some(asked) = asked.collect::<Option<Vec<String>>>() else {
            let pace = (options, pace);
            pages::read(self, &column, None, pace, &mut rows, each, |_, _, _| {})?;
            return Ok(rows);
        };
        for text in asked {
            self.scan(&text, column.as_numbers(), &mut |key| each(&mut rows, key))?;
        }
        Ok(rows)
    }

    /// The tables that have a name of the rule and no place in it.
    pub(super) fn outside(&mut self, outside: &[Outside]) -> Result<Vec<TableJob>, Error> {
        let mut found = Vec::new();
        for tables in outside {
            let text = sql::tables(self.kind, &tables.like.physical);
            self.scan(&text, false, &mut |name| {
                if let ScannedKey::Text(name) = name {
                    found.extend(tables.job(name.get(1..).unwrap_or_default()));
                }
            })?;
        }
        found.sort_by(|a, b| a.physical.cmp(&b.physical));
        Ok(found)
    }
}

/// An error and its cause in one line, for the report.
pub(super) fn told(error: &Error) -> String {
    let mut text = error.to_string();
    let mut next = std::error::Error::source(error);
    while let Some(cause) = next {
        let said = cause.to_string();
        if !text.contains(&said) {
            text = format!("{text}: {said}");
        }
        next = cause.source();
    }
    text
}
