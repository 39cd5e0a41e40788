//! One node: a bb8 pool of one physical database, and around it what bb8 does not do.
//!
//! bb8 connects in tasks that forget why they failed, lets newcomers pass those who wait, and holds
//! every caller of a dead server for the whole timeout. Here bb8 keeps the connections (idle ones, their
//! age, how many there may be), and the node makes them and says whose turn it is: callers take fair
//! permits, each connect runs in a task of its own that a caller who goes away does not take along,
//! the typed cause of a failure comes back at once, opens the node's
//! [circuit](crate::replica::Circuit), and a probe in the background closes it again.

mod connect;
mod pool;
mod room;
mod shared;
#[cfg(all(test, feature = "async-sqlite"))]
mod tests;

use std::fmt;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Instant;

use arc_swap::ArcSwapOption;
use futures_util::FutureExt;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio::time::Sleep;

use super::backend::AsyncNodeConnection;
use crate::driver::node::{NodeState, Waiter};
use crate::driver::node_set::PoolNode;
use crate::error::{Error, UnavailableCause};
use crate::name::{Role, ShardName, WorkloadName};
use crate::route::stack::{self, NodeId};
use crate::telemetry::NodeMeters;
use crate::topology::{NodeSpec, Snapshot, Topology};

pub(crate) use pool::Lease;
use pool::{Built, Permit, Pooled};
pub(crate) use room::Room;
pub(crate) use shared::Options;
use shared::Shared;

/// One physical database and one of its pools.
pub(crate) struct Node<C: AsyncNodeConnection> {
    shared: Arc<Shared<C>>,
    /// Built by the first checkout, in its runtime; taken away when that runtime ends.
    built: Arc<ArcSwapOption<Built<C>>>,
}

/// What a quick look at the pool has found.
pub(crate) enum Found<C: AsyncNodeConnection> {
    Well(Lease<C>),
    /// It has to be asked whether it is alive.
    Doubtful(Lease<C>),
    Nothing,
}

impl<C: AsyncNodeConnection> Found<C> {
    pub(crate) fn into_doubtful(self) -> Self {
        match self {
            Self::Well(lease) => Self::Doubtful(lease),
            found => found,
        }
    }
}

/// What has ended a pause of a caller who holds a permit and seeks a connection.
enum Woken {
    Connected(Result<(), Error>),
    Changed,
    TooLate,
}

impl<C: AsyncNodeConnection> Node<C> {
    pub(crate) fn new(
        topology: &Topology,
        expected: &Arc<Snapshot>,
        spec: &NodeSpec,
        class: Option<WorkloadName>,
        options: &Options<C>,
    ) -> Self {
        let state = NodeState::new(
            topology.clone(),
            Arc::clone(expected),
            spec.clone(),
            class,
            options.test_transactions,
        );
        let built: Arc<ArcSwapOption<Built<C>>> = Arc::default();
        let shared = Shared::new(state, options.clone(), Arc::downgrade(&built));
        Self {
            shared: Arc::new(shared),
            built,
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

    /// Takes a connection out of the pool if that can be done without waiting.
    #[inline]
    pub(crate) fn try_checkout(self: &Arc<Self>) -> Found<C> {
        let built = self.built.load();
        let Some(built) = &*built else {
            return Found::Nothing;
        };
        // A connection is of no use where there is no runtime; the slow way says it. A task has one, and its
        // id is cheaper to get than the handle.
        if tokio::task::try_id().is_none() && Handle::try_current().is_err() {
            return Found::Nothing;
        }
        let Some(permit) = Permit::try_take(self) else {
            return Found::Nothing;
        };
        match built.try_get() {
            Some(pooled) => self.look_at(pooled, permit),
            None => Found::Nothing,
        }
    }

    #[inline]
    fn look_at(&self, pooled: Pooled<C>, permit: Permit<C>) -> Found<C> {
        let state = self.state();
        let mut lease = Lease::new(pooled, permit);
        let bypass = state.settings.alive_bypass;
        if lease.slot_mut().alive_by_bypass(bypass, &state.meters) {
            Found::Well(lease)
        } else {
            Found::Doubtful(lease)
        }
    }

    /// Takes a connection out of the pool, or makes one, or waits for one. `Ok(None)`: the topology
    /// has no such node any more.
    ///
    /// # Cancellation
    ///
    /// May be dropped at any point: a connection that was being made or asked goes to the pool, or is
    /// closed.
    pub(crate) async fn checkout(self: &Arc<Self>) -> Result<Option<Lease<C>>, Error> {
        match self.try_checkout() {
            Found::Well(lease) => Ok(Some(lease)),
            found => self.checkout_slow(found).await,
        }
    }

    /// The way of a caller who has to wait for something.
    pub(crate) async fn checkout_slow(
        self: &Arc<Self>,
        found: Found<C>,
    ) -> Result<Option<Lease<C>>, Error> {
        let (shared, state) = (&self.shared, self.state());
        let runtime = Handle::try_current().map_err(|_| no_runtime(state))?;
        let start = Instant::now();
        let held = stack::held(state.topology.id());
        let _waiter = Waiter::new(state);
        let mut deadline = pin!(tokio::time::sleep(state.settings.connection_timeout));

        let mut permit = None;
        if let Found::Doubtful(lease) = found {
            match self.ask(lease, deadline.as_mut()).await {
                Ok(lease) => return Ok(Some(lease)),
                // The topology may have changed since it was found.
                Err(kept) => permit = kept.filter(|permit| permit.is_of(self)),
            }
        }
        let mut permit = match permit {
            Some(permit) => permit,
            None => {
                if !shared.is_retired() {
                    state.refuse_deadlock(&held)?;
                }
                let turn = pin!(Permit::take(self));
                match before(deadline.as_mut(), turn).await {
                    Some(Some(permit)) => permit,
                    Some(None) => return Ok(None),
                    None => return Err(state.exhausted(start, &held)),
                }
            }
        };

        let _seeker = Seeker::new(&shared.seekers);
        let mut refused = None;
        let mut connecting: Option<JoinHandle<Result<(), Error>>> = None;
        // Every turn hands out a connection, has one made, or sleeps until something changes. What
        // changes after `changed` was enabled makes the sleep end before it begins.
        loop {
            let mut changed = pin!(shared.changed.notified());
            changed.as_mut().enable();
            if shared.is_retired() {
                return Ok(None);
            }
            if let Some(pooled) = self.built(&runtime).try_get() {
                let lease = match self.look_at(pooled, permit) {
                    Found::Doubtful(lease) => match self.ask(lease, deadline.as_mut()).await {
                        Ok(lease) => lease,
                        Err(Some(kept)) => {
                            permit = kept;
                            continue;
                        }
                        Err(None) => return Ok(None),
                    },
                    Found::Well(lease) => lease,
                    Found::Nothing => unreachable!("a connection was found"),
                };
                state.meters.waited(start.elapsed());
                return Ok(Some(lease));
            }
            // Room that is taken and given back would wake everybody, so it is looked for first.
            if connecting.is_none() && shared.has_room() {
                match state.refuses_connects() {
                    None => {
                        connecting = shared
                            .room()
                            .map(|room| tokio::spawn(Arc::clone(shared).connect(room)));
                    }
                    // Where no connection is left, nothing can come back to wait for.
                    Some(error) if self.counts().0 == 0 => return Err(error),
                    Some(error) => refused = Some(error),
                }
            }
            let woken = poll_fn(|cx| {
                if let Some(task) = &mut connecting
                    && let Poll::Ready(made) = task.poll_unpin(cx)
                {
                    // A task that was ended with its runtime has made nothing.
                    return Poll::Ready(Woken::Connected(made.unwrap_or(Ok(()))));
                }
                if changed.as_mut().poll(cx).is_ready() {
                    return Poll::Ready(Woken::Changed);
                }
                deadline.as_mut().poll(cx).map(|()| Woken::TooLate)
            });
            match woken.await {
                Woken::Connected(made) => {
                    connecting = None;
                    match made {
                        Ok(()) => {}
                        // That a node is somebody else's does not change by waiting.
                        Err(error) if self.counts().0 == 0 || !is_outage(&error) => {
                            return Err(error);
                        }
                        Err(error) => refused = Some(error),
                    }
                }
                Woken::Changed => {}
                Woken::TooLate => {
                    return Err(refused.unwrap_or_else(|| state.exhausted(start, &held)));
                }
            }
        }
    }

    /// Asks a connection whether it is alive. One that is not, or does not say, is closed; the permit
    /// comes back.
    async fn ask(
        &self,
        mut lease: Lease<C>,
        deadline: std::pin::Pin<&mut Sleep>,
    ) -> Result<Lease<C>, Option<Permit<C>>> {
        let state = self.state();
        let patience = state.settings.connect_timeout;
        let meters = &state.meters;
        let asked = tokio::time::timeout(patience, lease.slot_mut().check_alive(meters));
        let answer = before(deadline, pin!(asked)).await;
        match answer {
            Some(Ok(Ok(()))) => Ok(lease),
            Some(Ok(Err(_))) => Err(lease.close()),
            Some(Err(_)) | None => {
                state.health.connection_failed();
                Err(lease.close())
            }
        }
    }

    /// The pool, in the runtime of the caller where there is none yet.
    fn built(&self, runtime: &Handle) -> Arc<Built<C>> {
        if let Some(built) = self.built.load_full() {
            return built;
        }
        let new = Arc::new(Built::new(self, runtime.clone()));
        let none: Option<Arc<Built<C>>> = None;
        let before = self.built.compare_and_swap(&none, Some(Arc::clone(&new)));
        match &*before {
            Some(built) => Arc::clone(built),
            None => new,
        }
    }

    /// Gives a connection back to the pool, which keeps it or closes it.
    #[inline]
    fn put_back(&self, pooled: Pooled<C>) {
        let shared = &self.shared;
        // bb8 starts a task for each connection that is to be had ahead of need.
        let _runtime = (shared.min_idle() > 0).then(|| shared.runtime());
        let _entered = _runtime
            .as_ref()
            .and_then(|r| r.as_ref().map(Handle::enter));
        let built = self.built.load();
        let back = match &*built {
            Some(built) => built.keep(pooled),
            None => Some(pooled),
        };
        drop(back);
        if shared.is_retired() {
            // It may have come back before it could know.
            self.sweep();
        }
        if shared.seekers.load(Ordering::SeqCst) > 0 {
            shared.changed.notify_waiters();
        }
    }

    /// Closes what lies idle in a pool that is out of service.
    pub(crate) fn sweep(&self) {
        if let Some(built) = self.built.load_full() {
            let _entered = built.handle.enter();
            while let Some(pooled) = built.try_get() {
                drop(pooled);
            }
        }
    }
}

impl<C: AsyncNodeConnection> PoolNode for Node<C> {
    #[inline]
    fn state(&self) -> &NodeState {
        &self.shared.state
    }

    fn counts(&self) -> (u32, u32) {
        self.built
            .load()
            .as_ref()
            .map_or((0, 0), |built| built.counts())
    }

    fn retire(&self) {
        self.state().retire();
        self.shared.permits.close();
        self.sweep();
        self.state().tell_retired();
        self.shared.changed.notify_waiters();
    }
}

impl<C: AsyncNodeConnection> fmt::Debug for Node<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Node")
            .field("shard", &self.shard())
            .field("role", &self.role())
            .field("class", &self.class())
            .field("url", &self.state().spec.url)
            .finish_non_exhaustive()
    }
}

/// A caller that holds a permit and has no connection, as long as that is so.
struct Seeker<'a>(&'a AtomicUsize);

impl<'a> Seeker<'a> {
    fn new(seekers: &'a AtomicUsize) -> Self {
        seekers.fetch_add(1, Ordering::SeqCst);
        Self(seekers)
    }
}

impl Drop for Seeker<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// What a future answers before a deadline.
async fn before<T>(
    mut deadline: std::pin::Pin<&mut Sleep>,
    mut future: std::pin::Pin<&mut impl Future<Output = T>>,
) -> Option<T> {
    poll_fn(|cx| match future.as_mut().poll(cx) {
        Poll::Ready(answer) => Poll::Ready(Some(answer)),
        Poll::Pending => deadline.as_mut().poll(cx).map(|()| None),
    })
    .await
}

fn is_outage(error: &Error) -> bool {
    matches!(error, Error::Unavailable { cause, .. } if *cause != UnavailableCause::Settings)
}

#[cold]
fn no_runtime(state: &NodeState) -> Error {
    Error::Unavailable {
        shard: state.shard(),
        role: state.role(),
        cause: UnavailableCause::Other,
        source: Some("there is no tokio runtime here: call this inside one".into()),
    }
}
