use std::sync::Arc;

use tokio::sync::Notify;

use crate::driver::{self, NodeHealth};

/// Room for one physical connection, from before it is made until it is closed; whoever waits for
/// room looks again when it is given back.
#[derive(Debug)]
pub(crate) struct Room {
    /// `None` only while it is given back.
    room: Option<driver::Room>,
    health: Arc<NodeHealth>,
    changed: Arc<Notify>,
}

impl Room {
    pub(super) fn take(
        health: &Arc<NodeHealth>,
        max_size: u32,
        changed: &Arc<Notify>,
    ) -> Option<Self> {
        Some(Self {
            room: Some(driver::Room::take(health, max_size)?),
            health: Arc::clone(health),
            changed: Arc::clone(changed),
        })
    }

    pub(crate) fn health(&self) -> &Arc<NodeHealth> {
        &self.health
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        drop(self.room.take());
        self.changed.notify_waiters();
    }
}
