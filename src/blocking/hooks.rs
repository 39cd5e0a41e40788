//! What is to be done once a transaction is committed.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::backend::NodeConnection;
use super::connection::ShardedConnection;
use crate::name::ShardName;
use crate::telemetry;

/// Something to do after the commit, and the level it was asked for on.
pub(super) struct Hook {
    depth: u32,
    run: Box<dyn FnOnce() + Send>,
}

impl<C: NodeConnection> ShardedConnection<C> {
    /// Runs a closure once the surrounding transaction is committed: a wake-up, a message, a cache to
    /// be emptied.
    ///
    /// It runs once, after the `COMMIT`, and under `transaction_on` after the pin is left and the
    /// connection is back in its pool, so it may use the shards as code after the call may. It does
    /// not run when the transaction, or the savepoint it was asked for in, is rolled back. Outside of
    /// a transaction it runs at once. A panic in it is logged and goes no further: what is committed
    /// is committed.
    ///
    /// ```
    /// # #[cfg(feature = "sqlite")] fn main() -> Result<(), diesel_sharded::Error> {
    /// # use diesel_sharded::blocking::ShardedConnectionManager;
    /// # let dir = tempfile::tempdir().expect("a temporary folder");
    /// # let shards = ShardedConnectionManager::<diesel::SqliteConnection>::builder()
    /// #     .shard("order-0", dir.path().join("o").display().to_string()).build()?;
    /// let (sender, receiver) = std::sync::mpsc::channel();
    /// shards.transaction_on("order-0", |conn| {
    ///     conn.after_commit(move || drop(sender.send("committed")));
    ///     Ok::<_, diesel_sharded::Error>(())
    /// })?;
    /// assert_eq!(receiver.recv(), Ok("committed"));
    /// # Ok(())
    /// # }
    /// # #[cfg(not(feature = "sqlite"))] fn main() {}
    /// ```
    pub fn after_commit(&mut self, f: impl FnOnce() + Send + 'static) {
        let hook = Hook {
            depth: self.tm.depth(),
            run: Box::new(f),
        };
        if hook.depth > 0 {
            self.hooks.push(hook);
        } else if let Some(shard) = self.shard() {
            run(shard, vec![hook]);
        } else {
            (hook.run)();
        }
    }

    /// A level was committed: its hooks are now its parent's, or due.
    pub(super) fn hooks_of_committed(&mut self, depth: u32) {
        for hook in &mut self.hooks {
            hook.depth = hook.depth.min(depth - 1);
        }
        if depth == 1
            && !self.owns_pin
            && let Some(shard) = self.shard()
        {
            let due = self.take_committed_hooks();
            run(shard, due);
        }
    }

    /// A level was rolled back, and what was asked for in it is void.
    pub(super) fn hooks_of_rolled_back(&mut self, depth: u32) {
        self.hooks.retain(|hook| hook.depth < depth);
    }

    pub(super) fn take_committed_hooks(&mut self) -> Vec<Hook> {
        let mut hooks = std::mem::take(&mut self.hooks);
        hooks.retain(|hook| hook.depth == 0);
        hooks
    }
}

/// Runs hooks whose transaction on this shard is committed.
pub(super) fn run(shard: ShardName, hooks: Vec<Hook>) {
    for hook in hooks {
        if catch_unwind(AssertUnwindSafe(hook.run)).is_err() {
            telemetry::hook_panicked(shard);
        }
    }
}
