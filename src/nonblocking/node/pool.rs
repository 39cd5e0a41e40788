//! The bb8 side of a node: its manager, and the connection a caller holds.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use futures_util::FutureExt;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::Node;
use super::shared::Shared;
use crate::driver::Flags;
use crate::driver::node::lock;
use crate::nonblocking::backend::AsyncNodeConnection;
use crate::nonblocking::slot::Slot;

/// Nobody is to get a connection of which one of these is known.
const GONE: u16 = Flags::RETIRE | Flags::LOST | Flags::UNUSABLE;

/// What bb8 knows of a node.
pub(super) struct NodeManager<C: AsyncNodeConnection> {
    shared: Arc<Shared<C>>,
}

/// bb8 has asked for a connection; the node makes them itself and adds them to the pool.
#[derive(Debug)]
pub(super) struct MadeElsewhere;

impl<C: AsyncNodeConnection> bb8::ManageConnection for NodeManager<C> {
    /// Boxed, because bb8 moves it several times between its pool and the caller.
    type Connection = Box<Slot<C>>;
    type Error = MadeElsewhere;

    /// Never connects: bb8 would forget the cause of a failure, and count an attempt whose task has
    /// ended with its runtime for ever. It asks because somebody has found no idle connection, who
    /// sees to it, or because fewer than `min_idle` are left.
    async fn connect(&self) -> Result<Box<Slot<C>>, MadeElsewhere> {
        if self.shared.min_idle() > 0 {
            self.shared.fill_later();
        }
        Err(MadeElsewhere)
    }

    /// Not asked: the node checks a connection itself, since an error here would make bb8 try the next
    /// one until its timeout.
    async fn is_valid(&self, _: &mut Box<Slot<C>>) -> Result<(), MadeElsewhere> {
        Ok(())
    }

    fn has_broken(&self, slot: &mut Box<Slot<C>>) -> bool {
        let broken = self.shared.is_retired() || slot.notes.flags.any(GONE);
        if broken {
            self.shared.state.meters.connection_closed();
        }
        broken
    }
}

/// The connection that came back last. It is the next one to be handed out, and bb8, which takes it to
/// be in use until then, is not asked: its clock readings, timers and notices are most of a checkout.
struct Last<C: AsyncNodeConnection> {
    pooled: Option<Pooled<C>>,
    /// It has lain here when it was last looked at.
    seen: bool,
}

/// The pool of a node, and the runtime it lives in.
pub(super) struct Built<C: AsyncNodeConnection> {
    pub(super) pool: bb8::Pool<NodeManager<C>>,
    pub(super) handle: Handle,
    /// Its number in the process.
    pub(super) id: u64,
    last: Mutex<Last<C>>,
    max_lifetime: Option<Duration>,
    min_idle: u32,
    /// Ends the watch over the runtime.
    _alive: oneshot::Sender<()>,
}

impl<C: AsyncNodeConnection> Built<C> {
    /// Builds the pool in the runtime of the caller.
    pub(super) fn new(node: &Node<C>, handle: Handle) -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(1);
        /// bb8's own clock must never be the first to run out.
        const FOREVER: Duration = Duration::from_secs(365 * 24 * 60 * 60);

        let settings = &node.shared.state.settings;
        let pool = bb8::Pool::builder()
            .max_size(settings.max_size)
            .min_idle(node.shared.min_idle())
            .test_on_check_out(false)
            .retry_connection(false)
            .idle_timeout(settings.idle_timeout)
            .max_lifetime(settings.max_lifetime)
            .connection_timeout(FOREVER)
            // As r2d2 does: the connection that was in use last is the least likely to be dead.
            .queue_strategy(bb8::QueueStrategy::Lifo)
            .build_unchecked(NodeManager {
                shared: Arc::clone(&node.shared),
            });
        node.shared.built_in(&handle);
        let (alive, ended) = oneshot::channel::<()>();
        let watch = RuntimeWatch {
            built: Arc::downgrade(&node.built),
            runtime: handle.id(),
        };
        handle.spawn(async move {
            let mut ended = ended;
            while tokio::time::timeout(LOOK_EVERY, &mut ended).await.is_err() {
                watch.age();
            }
            watch.disarm();
        });
        Self {
            pool,
            handle,
            id: NUMBER.fetch_add(1, Ordering::Relaxed),
            last: Mutex::new(Last {
                pooled: None,
                seen: false,
            }),
            max_lifetime: settings.max_lifetime,
            min_idle: node.shared.min_idle(),
            _alive: alive,
        }
    }

    /// An idle connection, if there is one. Needs a runtime around it.
    #[inline]
    pub(super) fn try_get(&self) -> Option<Pooled<C>> {
        let last = lock(&self.last).pooled.take();
        last.or_else(|| self.pool.get_owned().now_or_never()?.ok())
    }

    /// Keeps a connection that comes back; answers one that bb8 is to keep, or to close.
    #[inline]
    pub(super) fn keep(&self, pooled: Pooled<C>) -> Option<Pooled<C>> {
        let of_another = pooled.pool != self.id;
        if of_another || pooled.notes.flags.any(GONE) || pooled.outlived(self.max_lifetime) {
            return Some(pooled);
        }
        let mut last = lock(&self.last);
        last.seen = false;
        last.pooled.replace(pooled)
    }

    /// Gives the connection that came back last to bb8, which closes what lies idle for too long, if
    /// it has lain here since the last time.
    fn age(&self) {
        let mut last = lock(&self.last);
        if !std::mem::replace(&mut last.seen, true) {
            return;
        }
        let aged = last.pooled.take();
        drop(last);
        drop(aged);
    }

    /// How many connections there are, and how many of them are idle.
    pub(super) fn counts(&self) -> (u32, u32) {
        let kept = u32::from(lock(&self.last).pooled.is_some());
        let state = self.pool.state();
        (state.connections, state.idle_connections + kept)
    }
}

impl<C: AsyncNodeConnection> Drop for Built<C> {
    fn drop(&mut self) {
        let Some(last) = lock(&self.last).pooled.take() else {
            return;
        };
        if self.min_idle == 0 {
            return drop(last);
        }
        // bb8 may start a task then, and none can be started where a thread is ending.
        match Handle::try_current() {
            Err(error) if error.is_thread_local_destroyed() => std::mem::forget(last),
            _ => {
                let _entered = self.handle.enter();
                drop(last);
            }
        }
    }
}

/// A pool is of no use once its runtime has ended, and with it the tasks that its connections need:
/// then the next checkout builds another one. That matters where each test has a runtime of its own.
struct RuntimeWatch<C: AsyncNodeConnection> {
    built: Weak<ArcSwapOption<Built<C>>>,
    runtime: tokio::runtime::Id,
}

/// How often the pool is looked at.
pub(super) const LOOK_EVERY: Duration = Duration::from_secs(15);

impl<C: AsyncNodeConnection> RuntimeWatch<C> {
    fn age(&self) {
        let built = self.built.upgrade().and_then(|built| built.load_full());
        if let Some(built) = built
            && built.handle.id() == self.runtime
        {
            built.age();
        }
    }

    /// The pool is gone before its runtime.
    fn disarm(mut self) {
        self.built = Weak::new();
    }
}

impl<C: AsyncNodeConnection> Drop for RuntimeWatch<C> {
    fn drop(&mut self) {
        if let Some(built) = self.built.upgrade() {
            let runtime = self.runtime;
            built.rcu(|current| match current {
                Some(of_another) if of_another.handle.id() != runtime => current.clone(),
                _ => None,
            });
        }
    }
}

pub(super) type Pooled<C> = bb8::PooledConnection<'static, NodeManager<C>>;

/// Permission to hold one connection of a node; given back when it goes.
pub(super) struct Permit<C: AsyncNodeConnection> {
    node: Arc<Node<C>>,
}

impl<C: AsyncNodeConnection> Permit<C> {
    #[inline]
    pub(super) fn try_take(node: &Arc<Node<C>>) -> Option<Self> {
        node.shared.permits.try_acquire().ok()?.forget();
        Some(Self {
            node: Arc::clone(node),
        })
    }

    pub(super) fn is_of(&self, node: &Arc<Node<C>>) -> bool {
        Arc::ptr_eq(&self.node, node)
    }

    /// Waits for its turn. `None`: the node is out of service.
    pub(super) async fn take(node: &Arc<Node<C>>) -> Option<Self> {
        node.shared.permits.acquire().await.ok()?.forget();
        Some(Self {
            node: Arc::clone(node),
        })
    }
}

impl<C: AsyncNodeConnection> Drop for Permit<C> {
    #[inline]
    fn drop(&mut self) {
        self.node.shared.permits.add_permits(1);
    }
}

/// A connection out of a node's pool; going out of scope gives it back.
pub(crate) struct Lease<C: AsyncNodeConnection> {
    /// Both are `None` only while they are being given back.
    pooled: Option<Pooled<C>>,
    permit: Option<Permit<C>>,
}

impl<C: AsyncNodeConnection> Lease<C> {
    #[inline]
    pub(super) fn new(pooled: Pooled<C>, permit: Permit<C>) -> Self {
        Self {
            pooled: Some(pooled),
            permit: Some(permit),
        }
    }

    #[inline]
    pub(crate) fn node(&self) -> &Arc<Node<C>> {
        match &self.permit {
            Some(permit) => &permit.node,
            None => unreachable!("a lease holds its permit until it is dropped"),
        }
    }

    #[inline]
    pub(crate) fn slot(&self) -> &Slot<C> {
        match &self.pooled {
            Some(pooled) => pooled,
            None => unreachable!("a lease holds its connection until it is dropped"),
        }
    }

    #[inline]
    pub(crate) fn slot_mut(&mut self) -> &mut Slot<C> {
        match &mut self.pooled {
            Some(pooled) => pooled,
            None => unreachable!("a lease holds its connection until it is dropped"),
        }
    }

    /// Closes the connection and keeps the permit, to look for another one with it.
    pub(super) fn close(mut self) -> Option<Permit<C>> {
        self.slot().notes.flags.set(Flags::RETIRE);
        let permit = self.permit.take();
        if let (Some(pooled), Some(permit)) = (self.pooled.take(), &permit) {
            permit.node.put_back(pooled);
        }
        permit
    }
}

impl<C: AsyncNodeConnection> Drop for Lease<C> {
    fn drop(&mut self) {
        let (Some(mut pooled), Some(permit)) = (self.pooled.take(), self.permit.take()) else {
            return;
        };
        let shared = &permit.node.shared;
        match pooled.settled(shared.options.asks()) {
            Some(keep) => {
                if !keep {
                    pooled.notes.flags.set(Flags::RETIRE);
                }
                permit.node.put_back(pooled);
            }
            None => Unsettled::new(pooled, permit).settle_later(),
        }
    }
}

/// A connection that has to be asked before anybody gets it. What becomes of it is not known until it
/// has answered, so it is closed when this goes before.
struct Unsettled<C: AsyncNodeConnection> {
    pooled: Option<Pooled<C>>,
    permit: Permit<C>,
}

impl<C: AsyncNodeConnection> Unsettled<C> {
    fn new(pooled: Pooled<C>, permit: Permit<C>) -> Self {
        Self {
            pooled: Some(pooled),
            permit,
        }
    }

    /// At once, in a task of its own: never left to the next checkout.
    fn settle_later(self) {
        if let Some(runtime) = self.permit.node.shared.runtime() {
            runtime.spawn(self.settle());
        }
    }

    async fn settle(mut self) {
        let shared = &self.permit.node.shared;
        let Some(slot) = &mut self.pooled else {
            return;
        };
        let options = &shared.options;
        let settling = async {
            let test = options.test_transactions;
            if test && !slot.is_in_test_transaction().await {
                shared.state.meters.test_transaction_ended();
                return false;
            }
            let on_return = options.on_return.as_deref();
            slot.settle(options.reset_sessions, on_return).await
        };
        // A session that says nothing is given up like a host that does.
        let patience = shared.state.settings.connect_timeout;
        let settled = matches!(tokio::time::timeout(patience, settling).await, Ok(true));
        if settled && let Some(pooled) = self.pooled.take() {
            self.permit.node.put_back(pooled);
        }
    }
}

impl<C: AsyncNodeConnection> Drop for Unsettled<C> {
    fn drop(&mut self) {
        if let Some(pooled) = self.pooled.take() {
            pooled.notes.flags.set(Flags::RETIRE);
            self.permit.node.put_back(pooled);
        }
    }
}
