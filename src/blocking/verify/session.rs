//! A connection that only looks.

use std::collections::BTreeMap;

use super::super::backend::NodeConnection;
use super::super::direct::connect_existing;
use crate::driver::verify::{Plan, ScannedKey, TableJob, sql};
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

    /// How many rows of a table, which is there, have a key: by the equality of the database.
    pub(super) fn rows_with_key(
        &mut self,
        plan: &Plan,
        job: &TableJob,
        key: &ShardKey<'_>,
    ) -> Result<u64, Error> {
        let mut rows = 0;
        for raw in sql::forms(self.kind, key) {
            let text = sql::equal(self.kind, plan.key, (&job.physical, &job.key_column), &raw);
            self.scan(&text, sql::as_numbers(self.kind, plan.key), &mut |_| {
                rows += 1
            })?;
        }
        Ok(rows)
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
