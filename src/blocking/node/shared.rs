//! What a node and its r2d2 pool share: how to connect, and what is known of the node's health.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use super::connect::{self, Connector};
use super::threads::Threads;
use crate::blocking::backend::NodeConnection;
use crate::blocking::slot::Slot;
use crate::driver::Room;
use crate::driver::node::{NodeState, Refused, lock};
use crate::error::Error;

/// How the application wants physical connections to be treated.
pub(crate) struct Options<C: NodeConnection> {
    pub(crate) connector: Option<Arc<Connector<C>>>,
    /// Runs when a connection goes back; an error closes it.
    pub(crate) on_return: Option<Arc<OnReturn<C>>>,
    /// Session state is reset when a connection goes back.
    pub(crate) reset_sessions: bool,
    /// Every connection lives in a test transaction.
    pub(crate) test_transactions: bool,
}

pub(crate) type OnReturn<C> = dyn Fn(&mut C) -> diesel::QueryResult<()> + Send + Sync;

impl<C: NodeConnection> Default for Options<C> {
    fn default() -> Self {
        Self {
            connector: None,
            on_return: None,
            reset_sessions: false,
            test_transactions: false,
        }
    }
}

impl<C: NodeConnection> Clone for Options<C> {
    fn clone(&self) -> Self {
        Self {
            connector: self.connector.clone(),
            on_return: self.on_return.clone(),
            ..*self
        }
    }
}

/// The part of a node that its r2d2 pool knows too.
pub(super) struct Shared<C: NodeConnection> {
    pub(super) state: NodeState,
    pub(super) options: Options<C>,
    /// Connections made and on their way into the pool.
    pub(super) ready: Mutex<Vec<Box<Slot<C>>>>,
    /// Connect attempts that have outlived their deadline and still hang.
    pub(super) stuck: Arc<AtomicUsize>,
    pub(super) filling: AtomicBool,
    pub(super) threads: Arc<Threads>,
    /// How often something has changed that a waiter may want to know.
    pub(super) changes: Mutex<u64>,
    pub(super) changed: Condvar,
}

impl<C: NodeConnection> Shared<C> {
    pub(super) fn new(state: NodeState, options: Options<C>, threads: Arc<Threads>) -> Self {
        Self {
            state,
            options,
            ready: Mutex::default(),
            stuck: Arc::default(),
            filling: AtomicBool::new(false),
            threads,
            changes: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    pub(super) fn is_retired(&self) -> bool {
        self.state.is_retired()
    }

    /// Room for one more connection, where there is some.
    pub(super) fn room(&self) -> Option<Room> {
        Room::take(&self.state.health, self.state.settings.max_size)
    }

    /// One attempt to connect, bounded by `connect_timeout`, on behalf of a caller.
    pub(super) fn connect(self: &Arc<Self>, room: Room) -> Result<Box<Slot<C>>, Error> {
        self.attempt(room).map_err(|refused| {
            let (error, probe_in) = self.state.connect_failed(refused);
            if let Some(pause) = probe_in {
                self.probe_in(pause);
            }
            error
        })
    }

    fn attempt(&self, room: Room) -> Result<Box<Slot<C>>, Refused> {
        let state = &self.state;
        let conn = connect::establish(self).map_err(|failed| state.unconnected(failed))?;
        let home = state.home(self.options.connector.is_some());
        let mut slot = Box::new(Slot::new(conn, room, state.shard(), state.role(), home));
        slot.tables
            .set_up(state.settings.table_statements, &state.table_texts);
        self.prepare(&mut slot)?;
        state.connected();
        Ok(slot)
    }

    /// What a fresh connection goes through before anybody gets it.
    fn prepare(&self, slot: &mut Slot<C>) -> Result<(), Refused> {
        let failed = |error| self.state.unprepared(&error);
        if self.state.is_unverified() {
            let rows = slot.muted(NodeConnection::read_identity).map_err(failed)?;
            self.state.verify(&rows)?;
        }
        if self.state.has_tables() {
            let unfit = slot.unfit_settings().map_err(failed)?;
            self.state.reads_as_we_do(unfit)?;
        }
        if self.options.test_transactions {
            slot.conn.begin_test_transaction().map_err(failed)?;
        }
        Ok(())
    }

    /// Looks after a while whether the node is back.
    fn probe_in(self: &Arc<Self>, pause: Duration) {
        let shared = Arc::downgrade(self);
        self.threads.later(pause, move || {
            if let Some(shared) = shared.upgrade() {
                shared.probe();
            }
        });
    }

    /// Runs on the thread that may wait: a host that says nothing is asked with a short patience,
    /// so that it does not keep the others' probes waiting.
    fn probe(self: &Arc<Self>) {
        const PATIENCE: Duration = Duration::from_millis(500);
        let state = &self.state;
        if self.is_retired() || state.down().is_none() {
            return;
        }
        let patience = PATIENCE.min(state.settings.connect_timeout);
        let room = connect::greets(&state.spec, state.kind, patience)
            .then(|| self.room())
            .flatten();
        let refused = match room.map(|room| self.attempt(room)) {
            Some(Ok(slot)) => {
                if !self.is_retired() {
                    lock(&self.ready).push(slot);
                }
                self.wake(Condvar::notify_all);
                return;
            }
            Some(Err(refused)) => Some(refused),
            None => None,
        };
        if let Some(pause) = state.probe_failed(refused) {
            self.probe_in(pause);
        }
    }

    /// Opens one idle connection ahead of need, on the thread that may wait.
    pub(super) fn fill_later(self: &Arc<Self>) {
        if self.is_retired() || self.filling.swap(true, Ordering::AcqRel) {
            return;
        }
        let shared = Arc::downgrade(self);
        self.threads.later(Duration::ZERO, move || {
            if let Some(shared) = shared.upgrade() {
                shared.fill();
            }
        });
    }

    fn fill(self: &Arc<Self>) {
        let healthy = self.state.down().is_none();
        if let Some(room) = healthy.then(|| self.room()).flatten()
            && let Ok(slot) = self.connect(room)
        {
            lock(&self.ready).push(slot);
        }
        self.filling.store(false, Ordering::Release);
    }

    /// Something came back, or there is room again: one waiter looks.
    #[inline]
    pub(super) fn wake_one(&self) {
        if self.state.waiters.load(Ordering::SeqCst) > 0 {
            self.wake(Condvar::notify_one);
        }
    }

    #[cold]
    pub(super) fn wake(&self, notify: impl FnOnce(&Condvar)) {
        *lock(&self.changes) += 1;
        notify(&self.changed);
    }
}
