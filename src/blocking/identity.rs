//! Whose data a database holds, by its own word.
//!
//! The table `diesel_sharded_identity` has one row per shard and keyspace: by which fingerprint, in
//! which epoch, the shard's rows were placed. A shard without keyspaces has one row whose keyspace
//! is empty. Where the table is there, a node's first connection reads it before anybody gets to
//! use the node; where it is not, the database says nothing and is taken at the configuration's
//! word.

use diesel::result::Error as DieselError;

use super::backend::NodeConnection;
use super::manager::ShardedConnectionManager;
use crate::driver::Flags;
use crate::error::Error;
use crate::name::ShardName;
use crate::topology::Snapshot;

/// One row of `diesel_sharded_identity`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct IdentityRow {
    /// The shard whose data the database holds.
    pub shard: String,
    /// A keyspace of the shard; empty for a shard without keyspaces.
    pub keyspace: String,
    /// The fingerprint of the rule by which the keyspace's rows were placed; empty like `keyspace`.
    pub fingerprint: String,
    /// The epoch of the topology that wrote the row.
    pub epoch: i64,
}

/// Compares what a database says of itself with what the topology takes it for.
pub(super) fn compare(
    snapshot: &Snapshot,
    shard: ShardName,
    rows: &[IdentityRow],
) -> Result<(), Error> {
    // In development one database may be many shards', and says so of those it knows.
    if rows.is_empty() || snapshot.shared_database {
        return Ok(());
    }
    let own: Vec<&IdentityRow> = rows
        .iter()
        .filter(|row| shard == row.shard.as_str())
        .collect();
    if own.is_empty() {
        let mut found: Vec<String> = rows.iter().map(|row| row.shard.clone()).collect();
        found.sort();
        found.dedup();
        return Err(Error::WrongDatabase {
            expected: shard,
            found,
        });
    }
    for keyspace in snapshot.keyspaces() {
        if snapshot.accept_placement.contains(&keyspace.name) {
            continue;
        }
        let recorded = own
            .iter()
            .find(|row| keyspace.name == row.keyspace.as_str());
        if let Some(row) = recorded
            && row.fingerprint != keyspace.fingerprint.to_string()
        {
            return Err(Error::PlacementChanged {
                keyspace: keyspace.name,
                shard: Some(shard),
                configured: keyspace.fingerprint.to_string(),
                recorded: row.fingerprint.clone(),
            });
        }
    }
    Ok(())
}

/// What the database of a shard is to say.
pub(super) fn rows_for(snapshot: &Snapshot, shard: ShardName) -> Vec<IdentityRow> {
    let epoch = i64::try_from(snapshot.epoch).unwrap_or(i64::MAX);
    let mut rows: Vec<IdentityRow> = snapshot
        .keyspaces()
        .iter()
        .filter(|keyspace| keyspace.rule.shards().contains(&shard))
        .map(|keyspace| IdentityRow {
            shard: shard.to_string(),
            keyspace: keyspace.name.to_string(),
            fingerprint: keyspace.fingerprint.to_string(),
            epoch,
        })
        .collect();
    if rows.is_empty() {
        rows.push(IdentityRow {
            shard: shard.to_string(),
            keyspace: String::new(),
            fingerprint: String::new(),
            epoch,
        });
    }
    rows
}

impl<C: NodeConnection> ShardedConnectionManager<C> {
    /// Writes into each shard's database whose data it holds, and by which rules it was placed.
    ///
    /// From then on a URL that leads to another shard's database is [`Error::WrongDatabase`] at the
    /// node's first connection, and a changed rule [`Error::PlacementChanged`]. Call it once the
    /// shards have their data; call it again, with the change accepted by name in the configuration,
    /// after the data of a keyspace has been moved.
    ///
    /// # Errors
    ///
    /// What a checkout answers, and [`Error::Database`]. Shards are written in the order of their
    /// names; those before the one that failed are written.
    pub fn write_identity(&self) -> Result<(), Error> {
        for shard in self.shards() {
            let snapshot = self.topology().snapshot();
            let rows = rows_for(&snapshot, shard);
            let mut conn = self.independent(|| self.get_on(shard))?;
            let slot = conn.ready()?;
            slot.notes.flags.set(Flags::DIRTY);
            slot.muted(|conn| conn.write_identity(&rows))
                .map_err(|source: DieselError| Error::Database {
                    shard: Some(shard),
                    source,
                })?;
        }
        Ok(())
    }
}
