//! Writing down whose data each database holds.

use diesel::result::Error as DieselError;

use super::backend::NodeConnection;
use super::manager::ShardedConnectionManager;
use crate::driver::Flags;
use crate::driver::identity::rows_for;
use crate::error::Error;

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
