//! One node: an r2d2 pool of one physical database, and around it what r2d2 does not do.
//!
//! r2d2 connects on its own threads, keeps the last error as a text only, and retries a dead server
//! for as long as the caller waits. Here the caller that needs a connection makes it, on its own
//! time, and hands it over to the pool: so it gets the typed cause at once, no node can hold up
//! another one's connects, and the number of background threads does not grow with the nodes. A
//! failed connect opens the node's [circuit](crate::replica::Circuit), and a probe in the background
//! closes it again.

mod connect;
mod pool;
mod shared;
mod threads;

use std::fmt;
use std::sync::{Arc, Condvar, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use super::backend::NodeConnection;
use crate::driver::node::{NodeState, Waiter, lock};
use crate::driver::node_set::PoolNode;
use crate::driver::{Flags, Room};
use crate::error::Error;
use crate::name::{Role, ShardName, WorkloadName};
use crate::route::stack::{self, NodeId};
use crate::telemetry::NodeMeters;
use crate::topology::{NodeSpec, Snapshot, Topology};

pub(crate) use connect::once as connect_once;
pub(crate) use pool::Lease;
use pool::NodeManager;
use shared::Shared;
pub(crate) use shared::{OnReturn, Options};
pub(crate) use threads::Threads;

/// One physical database and one of its pools.
pub(crate) struct Node<C: NodeConnection> {
    shared: Arc<Shared<C>>,
    pool: OnceLock<r2d2::Pool<NodeManager<C>>>,
}

/// See [`Node::plan`].
enum Plan {
    /// Make a connection in the room that was taken for it.
    Connect(Room),
    /// A made connection waits to be taken into the pool.
    TakeMade,
    /// The circuit is open.
    FailFast(Error),
    /// The pool is as large as it may be.
    Wait,
}

impl<C: NodeConnection> Node<C> {
    pub(crate) fn new(
        topology: &Topology,
        expected: &Arc<Snapshot>,
        spec: &NodeSpec,
        class: Option<WorkloadName>,
        options: &Options<C>,
        threads: &Arc<Threads>,
    ) -> Self {
        let state = NodeState::new(
            topology.clone(),
            Arc::clone(expected),
            spec.clone(),
            class,
            options.test_transactions,
        );
        let shared = Shared::new(state, options.clone(), Arc::clone(threads));
        Self {
            shared: Arc::new(shared),
            pool: OnceLock::new(),
        }
    }

    pub(crate) fn topology(&self) -> &Topology {
        &self.state().topology
    }

    pub(crate) fn id(&self) -> NodeId {
        self.state().id
    }

    pub(crate) fn shard(&self) -> ShardName {
        self.state().shard()
    }

    pub(crate) fn role(&self) -> Role {
        self.state().role()
    }

    pub(crate) fn class(&self) -> Option<WorkloadName> {
        self.state().class
    }

    pub(crate) fn meters(&self) -> &NodeMeters {
        &self.state().meters
    }

    /// Takes a connection out of the pool, or makes one, or waits for one. `Ok(None)`: the topology
    /// has no such node any more.
    #[inline]
    pub(crate) fn checkout(self: &Arc<Self>) -> Result<Option<Lease<C>>, Error> {
        match self.try_checkout() {
            Some(lease) => Ok(Some(lease)),
            None => self.checkout_slow(),
        }
    }

    #[inline]
    fn try_checkout(self: &Arc<Self>) -> Option<Lease<C>> {
        let pooled = self.pool.get()?.try_get()?;
        Some(Lease::new(self, pooled))
    }

    #[cold]
    fn checkout_slow(self: &Arc<Self>) -> Result<Option<Lease<C>>, Error> {
        let (shared, state) = (&self.shared, self.state());
        let start = Instant::now();
        let deadline = start + state.settings.connection_timeout;
        let held = stack::held(state.topology.id());
        let _waiter = Waiter::new(state);

        let mut refused = None;
        // Every turn hands out a connection, makes one, or sleeps until something changes. What
        // changes after `seen` was read makes the sleep end before it begins.
        loop {
            let seen = *lock(&shared.changes);
            if shared.is_retired() {
                return Ok(None);
            }
            if let Some(lease) = self.try_checkout() {
                state.meters.waited(start.elapsed());
                return Ok(Some(lease));
            }
            state.refuse_deadlock(&held)?;
            match self.plan() {
                Plan::Connect(room) => match self.connect(room) {
                    Ok(()) => {
                        if let Some(lease) = self.take_made(deadline) {
                            return Ok(Some(lease));
                        }
                    }
                    // Where no connection is left, nothing can come back to wait for.
                    Err(error) if self.pooled() == 0 => return Err(error),
                    Err(error) => refused = Some(error),
                },
                Plan::TakeMade => {
                    if let Some(lease) = self.take_made(deadline) {
                        return Ok(Some(lease));
                    }
                }
                Plan::FailFast(error) if self.pooled() == 0 => return Err(error),
                Plan::FailFast(error) => refused = Some(error),
                Plan::Wait => {}
            }
            let now = Instant::now();
            if now >= deadline {
                return Err(refused.unwrap_or_else(|| state.exhausted(start, &held)));
            }
            let changes = lock(&shared.changes);
            if *changes == seen {
                let nap = (deadline - now).min(self.longest_nap());
                drop(
                    shared
                        .changed
                        .wait_timeout(changes, nap)
                        .unwrap_or_else(PoisonError::into_inner),
                );
            }
        }
    }

    /// What a caller who found no idle connection does next.
    fn plan(&self) -> Plan {
        let shared = &self.shared;
        if !lock(&shared.ready).is_empty() {
            return Plan::TakeMade;
        }
        let Some(room) = shared.room() else {
            return Plan::Wait;
        };
        match self.state().refuses_connects() {
            None => Plan::Connect(room),
            Some(error) => Plan::FailFast(error),
        }
    }

    /// A bound for one sleep. Returned connections wake sleepers; this covers what does not: a
    /// connection that r2d2 itself moves into the pool.
    fn longest_nap(&self) -> Duration {
        if self.shared.state.health.taken() > self.pooled() {
            Duration::from_millis(2)
        } else {
            Duration::from_millis(50)
        }
    }

    /// The connections the pool has, in use or idle.
    fn pooled(&self) -> u32 {
        self.pool.get().map_or(0, |pool| pool.state().connections)
    }

    /// Connects on the caller's thread.
    fn connect(&self, room: Room) -> Result<(), Error> {
        let made = self.shared.connect(room);
        if made.is_err() {
            self.shared.wake(Condvar::notify_all);
        }
        lock(&self.shared.ready).push(made?);
        if self.shared.is_retired() {
            self.sweep();
        }
        Ok(())
    }

    /// Lets r2d2 take the connections that were made, and takes one from r2d2.
    ///
    /// r2d2 asks its manager for them on a thread of ours that never waits. Its own wait is cut
    /// short, so that a lost race is seen soon.
    fn take_made(self: &Arc<Self>, deadline: Instant) -> Option<Lease<C>> {
        let pool = self.pool.get_or_init(|| self.build_pool());
        let patience = deadline
            .saturating_duration_since(Instant::now())
            .clamp(Duration::from_millis(1), Duration::from_millis(50));
        let pooled = pool.get_timeout(patience).ok()?;
        Some(Lease::new(self, pooled))
    }

    fn build_pool(&self) -> r2d2::Pool<NodeManager<C>> {
        let settings = &self.state().settings;
        r2d2::Pool::builder()
            .max_size(settings.max_size)
            .min_idle(Some(settings.min_idle.min(settings.max_size)))
            .test_on_check_out(true)
            .idle_timeout(settings.idle_timeout)
            .max_lifetime(settings.max_lifetime)
            // Only r2d2's pause between refills is derived from this; callers wait with us.
            .connection_timeout(Duration::from_millis(400))
            .error_handler(Box::new(r2d2::NopErrorHandler))
            .thread_pool(self.shared.threads.pool())
            .build_unchecked(NodeManager {
                shared: Arc::clone(&self.shared),
            })
    }

    /// Closes what lies idle in a pool that is out of service.
    pub(crate) fn sweep(&self) {
        lock(&self.shared.ready).clear();
        if let Some(pool) = self.pool.get() {
            while let Some(pooled) = pool.try_get() {
                pooled.notes.flags.set(Flags::RETIRE);
            }
        }
    }

    /// A connection has come back.
    #[inline]
    fn returned(&self) {
        if self.shared.is_retired() {
            // It may have come back before it could know.
            self.sweep();
        }
        self.shared.wake_one();
    }
}

impl<C: NodeConnection> PoolNode for Node<C> {
    #[inline]
    fn state(&self) -> &NodeState {
        &self.shared.state
    }

    fn counts(&self) -> (u32, u32) {
        self.pool.get().map_or((0, 0), |pool| {
            let state = pool.state();
            (state.connections, state.idle_connections)
        })
    }

    fn retire(&self) {
        self.state().retire();
        self.sweep();
        self.state().tell_retired();
        self.shared.wake(Condvar::notify_all);
    }
}

impl<C: NodeConnection> Drop for Node<C> {
    /// r2d2's threads may hold the pool for a moment longer than anybody else; what lies idle in it is
    /// closed by the time the manager is gone.
    fn drop(&mut self) {
        self.state().retire();
        self.sweep();
    }
}

impl<C: NodeConnection> fmt::Debug for Node<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Node")
            .field("shard", &self.shard())
            .field("role", &self.role())
            .field("class", &self.class())
            .field("url", &self.state().spec.url)
            .finish_non_exhaustive()
    }
}
