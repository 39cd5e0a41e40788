//! Whose data a database holds, by its own word.
//!
//! The table `diesel_sharded_identity` has one row per shard and keyspace: by which fingerprint, in
//! which epoch, the shard's rows were placed. A shard without keyspaces has one row whose keyspace
//! is empty. Where the table is there, a node's first connection reads it before anybody gets to
//! use the node; where it is not, the database says nothing and is taken at the configuration's
//! word.

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
pub(crate) fn compare(
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
pub(crate) fn rows_for(snapshot: &Snapshot, shard: ShardName) -> Vec<IdentityRow> {
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
