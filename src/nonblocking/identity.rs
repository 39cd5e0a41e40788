//! Writing down whose data each database holds.

use super::backend::AsyncNodeConnection;
use super::manager::AsyncShardedConnectionManager;
use crate::driver::identity::rows_for;
use crate::error::Error;

impl<C: AsyncNodeConnection> AsyncShardedConnectionManager<C> {
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
    pub async fn write_identity(&self) -> Result<(), Error> {
        for shard in self.shards() {
            let snapshot = self.topology().snapshot();
            let rows = rows_for(&snapshot, shard);
            let mut conn = self.independent(async || self.get_on(shard).await).await?;
            conn.ready()?
                .write_identity(&rows)
                .await
                .map_err(|source| Error::Database {
                    shard: Some(shard),
                    source,
                })?;
        }
        Ok(())
    }
}
