//! What is to be done once a transaction is committed.

use super::backend::AsyncNodeConnection;
use super::connection::AsyncShardedConnection;
use crate::driver::{Hook, run_hooks};

impl<C: AsyncNodeConnection> AsyncShardedConnection<C> {
    /// Runs a closure once the surrounding transaction is committed: a wake-up, a message, a cache to
    /// be emptied.
    ///
    /// It runs once, after the `COMMIT`, and under `transaction_on` after the pin is left and the
    /// connection is back in its pool, so it may use the shards as code after the call may. It does
    /// not run when the transaction, or the savepoint it was asked for in, is rolled back or its
    /// future dropped before the `COMMIT` is answered. Outside of a transaction it runs at once. A
    /// panic in it is logged and goes no further: what is committed is committed.
    ///
    /// It must not wait; for work that does, spawn a task in it.
    ///
    /// ```
    /// # #[cfg(feature = "async-sqlite")]
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), diesel_sharded::Error> {
    /// # use diesel_async::sync_connection_wrapper::SyncConnectionWrapper;
    /// # use diesel_sharded::nonblocking::AsyncShardedConnectionManager;
    /// # let dir = tempfile::tempdir().expect("a temporary folder");
    /// # let shards = AsyncShardedConnectionManager::<SyncConnectionWrapper<diesel::SqliteConnection>>::builder()
    /// #     .shard("order-0", dir.path().join("o").display().to_string()).build().await?;
    /// let (sender, receiver) = std::sync::mpsc::channel();
    /// shards.transaction_on("order-0", async |conn| {
    ///     conn.after_commit(move || drop(sender.send("committed")));
    ///     Ok::<_, diesel_sharded::Error>(())
    /// }).await?;
    /// assert_eq!(receiver.recv(), Ok("committed"));
    /// # Ok(())
    /// # }
    /// # #[cfg(not(feature = "async-sqlite"))] fn main() {}
    /// ```
    pub fn after_commit(&mut self, f: impl FnOnce() + Send + 'static) {
        let (depth, shard) = (self.tm.depth(), self.shard());
        self.hooks.add(depth, shard, f);
    }

    pub(super) fn hooks_of_committed(&mut self, depth: u32) {
        self.hooks.committed(depth);
        if depth == 1
            && !self.owns_pin
            && let Some(shard) = self.shard()
        {
            run_hooks(shard, self.hooks.take_committed());
        }
    }

    pub(super) fn hooks_of_rolled_back(&mut self, depth: u32) {
        self.hooks.rolled_back(depth);
    }

    pub(super) fn take_committed_hooks(&mut self) -> Vec<Hook> {
        self.hooks.take_committed()
    }
}
