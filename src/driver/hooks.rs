//! What is to be done once a transaction is committed.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};

use crate::name::ShardName;
use crate::telemetry;

/// Something to do after the commit, and the level it was asked for on.
pub(crate) struct Hook {
    depth: u32,
    run: Box<dyn FnOnce() + Send>,
}

/// What a connection has to do after its commit.
///
/// The lock is never waited for; it lets a connection be shared between pipelined statements.
#[derive(Default)]
pub(crate) struct Hooks(Mutex<Vec<Hook>>);

impl Hooks {
    fn list(&mut self) -> &mut Vec<Hook> {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps what is asked for on a level of a transaction; outside of one it is done at once.
    pub(crate) fn add(
        &mut self,
        depth: u32,
        shard: Option<ShardName>,
        f: impl FnOnce() + Send + 'static,
    ) {
        let hook = Hook {
            depth,
            run: Box::new(f),
        };
        match shard {
            // Bound to no shard, so in no transaction either.
            None => (hook.run)(),
            Some(shard) if depth == 0 => run_hooks(shard, vec![hook]),
            Some(_) => self.list().push(hook),
        }
    }

    /// A level was committed: its hooks are now its parent's, or due.
    pub(crate) fn committed(&mut self, depth: u32) {
        for hook in self.list() {
            hook.depth = hook.depth.min(depth - 1);
        }
    }

    /// A level was rolled back, and what was asked for in it is void.
    pub(crate) fn rolled_back(&mut self, depth: u32) {
        self.list().retain(|hook| hook.depth < depth);
    }

    pub(crate) fn take_committed(&mut self) -> Vec<Hook> {
        let mut hooks = std::mem::take(self.list());
        hooks.retain(|hook| hook.depth == 0);
        hooks
    }

    pub(crate) fn clear(&mut self) {
        self.list().clear();
    }
}

/// Runs hooks whose transaction on this shard is committed.
pub(crate) fn run_hooks(shard: ShardName, hooks: Vec<Hook>) {
    for hook in hooks {
        if catch_unwind(AssertUnwindSafe(hook.run)).is_err() {
            telemetry::hook_panicked(shard);
        }
    }
}
