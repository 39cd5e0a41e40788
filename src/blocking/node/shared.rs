//! What a node and its r2d2 pool share: how to connect, and what is known of the node's health.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use super::connect::{self, Connector};
use super::lock;
use super::threads::Threads;
use crate::blocking::backend::NodeConnection;
use crate::blocking::identity;
use crate::blocking::slot::Slot;
use crate::driver::{NodeHealth, Room};
use crate::error::Error;
use crate::name::{Role, ShardName, WorkloadName};
use crate::replica::{Circuit, Failure, Opened, connect_cause};
use crate::route::stack::NodeId;
use crate::telemetry::NodeMeters;
use crate::topology::{NodeSpec, PoolSettings, Snapshot, Topology, UrlKind};

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
    pub(super) id: NodeId,
    pub(super) topology: Topology,
    pub(super) spec: NodeSpec,
    /// The workload class whose pool this is; `None` for the ordinary one.
    pub(super) class: Option<WorkloadName>,
    /// The settings of this pool.
    pub(super) settings: PoolSettings,
    pub(super) kind: UrlKind,
    pub(super) options: Options<C>,
    pub(super) health: Arc<NodeHealth>,
    pub(super) meters: NodeMeters,
    pub(super) circuit: Mutex<Circuit>,
    /// Connections made and on their way into the pool.
    pub(super) ready: Mutex<Vec<Box<Slot<C>>>>,
    /// Connect attempts that have outlived their deadline and still hang.
    pub(super) stuck: Arc<AtomicUsize>,
    pub(super) filling: AtomicBool,
    /// What the database is compared with; of the state of the topology that the node belongs to, which
    /// is not in force yet while the node proves itself.
    expected: Mutex<Arc<Snapshot>>,
    /// The database has said that it is this shard's, or has said nothing.
    verified: AtomicBool,
    /// The topology has no such node any more: connections are closed as they come back.
    pub(super) retired: AtomicBool,
    pub(super) threads: Arc<Threads>,
    pub(super) waiters: AtomicUsize,
    /// How often something has changed that a waiter may want to know.
    pub(super) changes: Mutex<u64>,
    pub(super) changed: Condvar,
}

impl<C: NodeConnection> Shared<C> {
    pub(super) fn new(
        topology: Topology,
        expected: Arc<Snapshot>,
        spec: NodeSpec,
        class: Option<WorkloadName>,
        options: Options<C>,
        threads: Arc<Threads>,
    ) -> Self {
        let mut settings = class
            .and_then(|class| spec.classes.iter().find(|(name, _)| *name == class))
            .map_or(&spec.pool, |(_, settings)| settings)
            .clone();
        if options.test_transactions {
            settings.max_size = 1;
            settings.min_idle = 0;
            settings.idle_timeout = None;
            settings.max_lifetime = None;
        }
        Self {
            id: NodeId::next(),
            topology,
            kind: spec.url.kind().unwrap_or(UrlKind::Sqlite),
            meters: NodeMeters::new(spec.shard, spec.role, class),
            spec,
            class,
            settings,
            options,
            health: Arc::default(),
            circuit: Mutex::default(),
            ready: Mutex::default(),
            stuck: Arc::default(),
            filling: AtomicBool::new(false),
            expected: Mutex::new(expected),
            verified: AtomicBool::new(false),
            retired: AtomicBool::new(false),
            threads,
            waiters: AtomicUsize::new(0),
            changes: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    /// The topology has changed around the node: the next connection compares anew.
    pub(super) fn expect(&self, snapshot: &Arc<Snapshot>) {
        *lock(&self.expected) = Arc::clone(snapshot);
        self.verified.store(false, Ordering::Release);
    }

    pub(super) fn shard(&self) -> ShardName {
        self.spec.shard
    }

    pub(super) fn role(&self) -> Role {
        self.spec.role
    }

    pub(super) fn is_retired(&self) -> bool {
        self.retired.load(Ordering::Acquire)
    }

    /// Room for one more connection, where there is some.
    pub(super) fn room(&self) -> Option<Room> {
        Room::take(&self.health, self.settings.max_size)
    }

    /// One attempt to connect, bounded by `connect_timeout`, on behalf of a caller.
    pub(super) fn connect(self: &Arc<Self>, room: Room) -> Result<Box<Slot<C>>, Error> {
        match self.attempt(room) {
            Ok(slot) => Ok(slot),
            Err(Refused::Identity(error)) => Err(error),
            Err(Refused::Node(failure)) => {
                let error = self.unavailable(&failure);
                let opened = lock(&self.circuit).failed(Instant::now(), failure.clone());
                if let Opened::Now { probe_in } = opened {
                    self.meters.circuit_opened(failure.cause);
                    self.probe_in(probe_in);
                }
                Err(error)
            }
        }
    }

    fn attempt(&self, room: Room) -> Result<Box<Slot<C>>, Refused> {
        let conn = connect::establish(self).map_err(|(cause, text)| {
            self.meters.connect_failed(cause);
            Refused::Node(Failure {
                cause,
                message: Arc::from(text),
            })
        })?;
        // An own connect function may have chosen another database than the URL's.
        let home = self.spec.url.mysql_database().map(Box::from);
        let home = home.filter(|_| self.options.connector.is_none());
        let mut slot = Box::new(Slot::new(conn, room, self.shard(), self.role(), home));
        self.prepare(&mut slot)?;
        if lock(&self.circuit).succeeded() {
            self.meters.circuit_closed();
        }
        Ok(slot)
    }

    /// What a fresh connection goes through before anybody gets it.
    fn prepare(&self, slot: &mut Slot<C>) -> Result<(), Refused> {
        let failed = |error: diesel::result::Error| {
            let text = self.spec.url.scrub(&error.to_string());
            Refused::Node(Failure {
                cause: connect_cause(&text),
                message: Arc::from(text),
            })
        };
        if !self.verified.load(Ordering::Acquire) {
            let rows = slot.muted(NodeConnection::read_identity).map_err(failed)?;
            let expected = Arc::clone(&lock(&self.expected));
            identity::compare(&expected, self.shard(), &rows).map_err(Refused::Identity)?;
            self.verified.store(true, Ordering::Release);
        }
        if self.options.test_transactions {
            slot.conn.begin_test_transaction().map_err(failed)?;
        }
        Ok(())
    }

    #[cold]
    pub(super) fn unavailable(&self, failure: &Failure) -> Error {
        Error::Unavailable {
            shard: self.shard(),
            role: self.role(),
            cause: failure.cause,
            source: Some(failure.message.to_string().into()),
        }
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
        if self.is_retired() || lock(&self.circuit).failure().is_none() {
            return;
        }
        let patience = PATIENCE.min(self.settings.connect_timeout);
        let room = connect::greets(&self.spec, self.kind, patience)
            .then(|| self.room())
            .flatten();
        let failure = match room.map(|room| self.attempt(room)) {
            None => None,
            Some(Ok(slot)) => {
                if !self.is_retired() {
                    lock(&self.ready).push(slot);
                }
                self.wake(Condvar::notify_all);
                return;
            }
            Some(Err(Refused::Node(failure))) => Some(failure),
            Some(Err(Refused::Identity(_))) => {
                // It answers; that it is the wrong one is told to each caller.
                if lock(&self.circuit).succeeded() {
                    self.meters.circuit_closed();
                }
                return;
            }
        };
        let next = lock(&self.circuit).probe_failed(Instant::now(), failure);
        if let Some(pause) = next {
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
        let healthy = lock(&self.circuit).failure().is_none();
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
        if self.waiters.load(Ordering::SeqCst) > 0 {
            self.wake(Condvar::notify_one);
        }
    }

    #[cold]
    pub(super) fn wake(&self, notify: impl FnOnce(&Condvar)) {
        *lock(&self.changes) += 1;
        notify(&self.changed);
    }
}

/// Why a connect came to nothing.
enum Refused {
    /// The node cannot be used at all.
    Node(Failure),
    /// The node works, but it is not what the configuration takes it for.
    Identity(Error),
}
