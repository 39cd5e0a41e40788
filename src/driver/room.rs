//! How many physical connections a node has, and how many of them turned out to be dead.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// What all connections of a node share.
#[derive(Debug, Default)]
pub(crate) struct NodeHealth {
    failures: AtomicU64,
    /// Connections that exist, wherever they are, and attempts to make one.
    taken: AtomicU32,
}

impl NodeHealth {
    pub(crate) fn failures(&self) -> u64 {
        self.failures.load(Ordering::Acquire)
    }

    /// A connection of the node turned out to be dead: the others are checked before use.
    pub(crate) fn connection_failed(&self) {
        self.failures.fetch_add(1, Ordering::AcqRel);
    }

    /// Connections that exist, and attempts to make one.
    pub(crate) fn taken(&self) -> u32 {
        self.taken.load(Ordering::Acquire)
    }
}

/// Room for one physical connection, from before it is made until it is closed.
#[derive(Debug)]
pub(crate) struct Room {
    health: Arc<NodeHealth>,
}

impl Room {
    /// Takes room, where the node's pool has some left.
    pub(crate) fn take(health: &Arc<NodeHealth>, max_size: u32) -> Option<Self> {
        health
            .taken
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |taken| {
                (taken < max_size).then_some(taken + 1)
            })
            .ok()?;
        Some(Self {
            health: Arc::clone(health),
        })
    }

    #[cfg(feature = "r2d2")]
    pub(crate) fn health(&self) -> &Arc<NodeHealth> {
        &self.health
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.health.taken.fetch_sub(1, Ordering::AcqRel);
    }
}
