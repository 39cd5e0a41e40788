//! What a node, its bb8 pool and its tasks share: how to connect, and what is known of the node's
//! health.

use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use futures_util::FutureExt;
use tokio::runtime::Handle;
use tokio::sync::{Notify, Semaphore};

use super::connect::{self, Connector};
use super::pool::Built;
use super::room::Room;
use crate::driver::connect::{panicked, too_late};
use crate::driver::node::{NodeState, Refused, lock};
use crate::error::Error;
use crate::nonblocking::backend::AsyncNodeConnection;
use crate::nonblocking::slot::{OnReturn, Slot};

/// How the application wants physical connections to be treated.
pub(crate) struct Options<C: AsyncNodeConnection> {
    pub(crate) connector: Option<Arc<Connector<C>>>,
    /// Runs when a connection goes back; an error closes it.
    pub(crate) on_return: Option<Arc<OnReturn<C>>>,
    /// Session state is reset when a connection goes back.
    pub(crate) reset_sessions: bool,
    /// Every connection lives in a test transaction.
    pub(crate) test_transactions: bool,
}

impl<C: AsyncNodeConnection> Options<C> {
    /// Whether something is to be done with every connection that comes back.
    #[inline]
    pub(super) fn asks(&self) -> bool {
        self.reset_sessions || self.on_return.is_some() || self.test_transactions
    }
}

impl<C: AsyncNodeConnection> Default for Options<C> {
    fn default() -> Self {
        Self {
            connector: None,
            on_return: None,
            reset_sessions: false,
            test_transactions: false,
        }
    }
}

impl<C: AsyncNodeConnection> Clone for Options<C> {
    fn clone(&self) -> Self {
        Self {
            connector: self.connector.clone(),
            on_return: self.on_return.clone(),
            ..*self
        }
    }
}

/// The part of a node that its bb8 pool and its tasks know too.
pub(super) struct Shared<C: AsyncNodeConnection> {
    pub(super) state: NodeState,
    pub(super) options: Options<C>,
    /// One permit per connection that may be out, handed on in the order of asking: bb8's own queue
    /// lets newcomers pass those who wait. Closed when the node is out of service.
    pub(super) permits: Semaphore,
    /// Callers that hold a permit and have no connection yet.
    pub(super) seekers: AtomicUsize,
    /// Told whenever something happens that such a caller may want to know.
    pub(super) changed: Arc<Notify>,
    filling: AtomicBool,
    /// The pool; the node owns it, since the pool's manager owns this.
    built: Weak<ArcSwapOption<Built<C>>>,
    /// The runtime that the pool was last built in.
    runtime: Mutex<Option<Handle>>,
}

impl<C: AsyncNodeConnection> Shared<C> {
    pub(super) fn new(
        state: NodeState,
        options: Options<C>,
        built: Weak<ArcSwapOption<Built<C>>>,
    ) -> Self {
        let permits = (state.settings.max_size as usize).min(Semaphore::MAX_PERMITS);
        Self {
            state,
            options,
            permits: Semaphore::new(permits),
            seekers: AtomicUsize::new(0),
            changed: Arc::default(),
            filling: AtomicBool::new(false),
            built,
            runtime: Mutex::default(),
        }
    }

    /// The pool, while there is one.
    pub(super) fn built(&self) -> Option<Arc<Built<C>>> {
        self.built.upgrade()?.load_full()
    }

    pub(super) fn built_in(&self, runtime: &Handle) {
        *lock(&self.runtime) = Some(runtime.clone());
    }

    /// A runtime for what cannot wait: the caller's, or else the pool's, which may have ended.
    pub(super) fn runtime(&self) -> Option<Handle> {
        Handle::try_current()
            .ok()
            .or_else(|| lock(&self.runtime).clone())
    }

    pub(super) fn is_retired(&self) -> bool {
        self.state.is_retired()
    }

    pub(super) fn has_room(&self) -> bool {
        self.state.health.taken() < self.state.settings.max_size
    }

    /// Room for one more connection, where there is some.
    pub(super) fn room(&self) -> Option<Room> {
        Room::take(
            &self.state.health,
            self.state.settings.max_size,
            &self.changed,
        )
    }

    /// One attempt to connect, bounded by `connect_timeout`, on behalf of a caller; what it makes goes
    /// into the pool. Run in a task of its own, so that a caller who goes away has not asked in vain.
    pub(super) async fn connect(self: Arc<Self>, room: Room) -> Result<(), Error> {
        let made = match self.attempt(room).await {
            Ok(slot) => {
                self.hand_over(slot).await;
                Ok(())
            }
            Err(refused) => {
                let (error, probe_in) = self.state.connect_failed(refused);
                if let Some(pause) = probe_in {
                    tokio::spawn(Self::probes(Arc::downgrade(&self), pause));
                }
                Err(error)
            }
        };
        self.changed.notify_waiters();
        made
    }

    /// A panic must not get out of here: whoever waits for the attempt would learn nothing.
    async fn attempt(&self, room: Room) -> Result<Box<Slot<C>>, Refused> {
        let attempt = AssertUnwindSafe(self.try_connect(room)).catch_unwind();
        match attempt.await {
            Ok(made) => made,
            Err(_) => Err(self.state.unconnected(panicked())),
        }
    }

    async fn try_connect(&self, room: Room) -> Result<Box<Slot<C>>, Refused> {
        let state = &self.state;
        let conn = connect::establish(self)
            .await
            .map_err(|failed| state.unconnected(failed))?;
        let home = state.home(self.options.connector.is_some());
        let mut slot = Box::new(Slot::new(conn, room, state.shard(), state.role(), home));
        slot.rewriter_mut()
            .set_up(state.settings.table_statements, &state.table_texts);
        let timeout = state.settings.connect_timeout;
        match tokio::time::timeout(timeout, self.prepare(&mut slot)).await {
            Ok(prepared) => prepared?,
            Err(_) => return Err(state.unconnected(too_late(timeout))),
        }
        state.connected();
        Ok(slot)
    }

    /// What a fresh connection goes through before anybody gets it.
    async fn prepare(&self, slot: &mut Slot<C>) -> Result<(), Refused> {
        let failed = |error| self.state.unprepared(&error);
        if self.state.is_unverified() {
            let rows = slot.read_identity().await.map_err(failed)?;
            self.state.verify(&rows)?;
        }
        if self.state.has_tables() {
            let unfit = slot.unfit_settings().await.map_err(failed)?;
            self.state.reads_as_we_do(unfit)?;
        }
        if self.options.test_transactions {
            slot.begin_test_transaction().await.map_err(failed)?;
        }
        Ok(())
    }

    /// Gives a new connection to the pool, if there is still one.
    async fn hand_over(&self, mut slot: Box<Slot<C>>) {
        while let Some(built) = self.built().filter(|_| !self.is_retired()) {
            slot.pool = built.id;
            slot = match built.pool.add(slot) {
                Ok(()) => return,
                // A connection that bb8 has asked its manager for is on its way to being refused: the
                // place is free as soon as that task has run.
                Err(bb8::AddError::NoCapacity(slot)) => slot,
                Err(bb8::AddError::Broken(_)) => return,
            };
            tokio::task::yield_now().await;
        }
    }

    /// Looks now and then whether a node that was down is back. It does not keep the node.
    async fn probes(shared: Weak<Self>, mut pause: Duration) {
        loop {
            tokio::time::sleep(pause).await;
            let Some(shared) = shared.upgrade().filter(|shared| shared.built().is_some()) else {
                return;
            };
            match shared.probe().await {
                Some(next) => pause = next,
                None => return,
            }
        }
    }

    /// Answers the pause to the next probe, if there is to be one.
    async fn probe(&self) -> Option<Duration> {
        if self.is_retired() || self.state.down().is_none() {
            return None;
        }
        let refused = match self.room() {
            Some(room) => match self.attempt(room).await {
                Ok(slot) => {
                    self.hand_over(slot).await;
                    self.changed.notify_waiters();
                    return None;
                }
                Err(refused) => Some(refused),
            },
            None => None,
        };
        let pause = self.state.probe_failed(refused);
        if pause.is_none() {
            self.changed.notify_waiters();
        }
        pause
    }

    /// Opens idle connections ahead of need (`min_idle`).
    pub(super) fn fill_later(self: &Arc<Self>) {
        let Some(built) = self.built() else {
            return;
        };
        if self.is_retired()
            || self.state.down().is_some()
            || self.filling.swap(true, Ordering::AcqRel)
        {
            return;
        }
        let filling = Filling(Arc::clone(self));
        let handle = built.handle.clone();
        handle.spawn(async move {
            let shared = &filling.0;
            while built.counts().1 < shared.min_idle()
                && !shared.is_retired()
                && let Some(room) = shared.room()
                && Arc::clone(shared).connect(room).await.is_ok()
            {}
        });
    }

    pub(super) fn min_idle(&self) -> u32 {
        let settings = &self.state.settings;
        settings.min_idle.min(settings.max_size)
    }
}

/// Idle connections are being opened, by a task that may end with its runtime.
struct Filling<C: AsyncNodeConnection>(Arc<Shared<C>>);

impl<C: AsyncNodeConnection> Drop for Filling<C> {
    fn drop(&mut self) {
        self.0.filling.store(false, Ordering::Release);
    }
}
