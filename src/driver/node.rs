//! What is known of one node and its pool, apart from the pool itself.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use diesel::result::Error as DieselError;

use super::NodeHealth;
use super::connect::Failed;
use super::identity::{self, IdentityRow};
use super::kept_texts::TextMeter;
use super::text_settings;
use crate::error::{Error, UnavailableCause};
use crate::name::{Role, ShardName, WorkloadName};
use crate::replica::{Circuit, Failure, Opened, Verdict, connect_cause};
use crate::route::stack::NodeId;
use crate::telemetry::{self, NodeMeters};
use crate::topology::{NodeSpec, PoolSettings, Snapshot, Topology, UrlKind};

/// Why a connect came to nothing.
pub(crate) enum Refused {
    /// The node cannot be used at all.
    Node(Failure),
    /// The node works, but it is not what the configuration takes it for.
    Identity(Error),
}

/// One pool of one physical database, as far as both drivers see it alike.
pub(crate) struct NodeState {
    pub(crate) id: NodeId,
    pub(crate) topology: Topology,
    pub(crate) spec: NodeSpec,
    /// The workload class whose pool this is; `None` for the ordinary one.
    pub(crate) class: Option<WorkloadName>,
    /// The settings of this pool.
    pub(crate) settings: PoolSettings,
    pub(crate) kind: UrlKind,
    pub(crate) health: Arc<NodeHealth>,
    pub(crate) meters: NodeMeters,
    pub(crate) waiters: AtomicUsize,
    /// What its connections remember of statements over sharded tables.
    pub(crate) table_texts: Arc<TextMeter>,
    circuit: Mutex<Circuit>,
    /// What the database is compared with; of the state of the topology that the node belongs to, which
    /// is not in force yet while the node proves itself.
    expected: Mutex<Arc<Snapshot>>,
    /// The database has said that it is this shard's, or has said nothing.
    verified: AtomicBool,
    /// The topology has no such node any more: connections are closed as they come back.
    retired: AtomicBool,
}

impl NodeState {
    pub(crate) fn new(
        topology: Topology,
        expected: Arc<Snapshot>,
        spec: NodeSpec,
        class: Option<WorkloadName>,
        test_transactions: bool,
    ) -> Self {
        let mut settings = class
            .and_then(|class| spec.classes.iter().find(|(name, _)| *name == class))
            .map_or(&spec.pool, |(_, settings)| settings)
            .clone();
        if test_transactions {
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
            health: Arc::default(),
            waiters: AtomicUsize::new(0),
            table_texts: Arc::default(),
            circuit: Mutex::default(),
            expected: Mutex::new(expected),
            verified: AtomicBool::new(false),
            retired: AtomicBool::new(false),
        }
    }

    pub(crate) fn shard(&self) -> ShardName {
        self.spec.shard
    }

    pub(crate) fn role(&self) -> Role {
        self.spec.role
    }

    /// The topology has changed around the node: the next connection is compared with this state.
    pub(crate) fn expect(&self, snapshot: &Arc<Snapshot>) {
        *lock(&self.expected) = Arc::clone(snapshot);
        self.verified.store(false, Ordering::Release);
    }

    /// Whether the next connection has to read what the database says of itself.
    pub(crate) fn is_unverified(&self) -> bool {
        !self.verified.load(Ordering::Acquire)
    }

    /// The database has said what it is.
    pub(crate) fn verify(&self, rows: &[IdentityRow]) -> Result<(), Refused> {
        let expected = Arc::clone(&lock(&self.expected));
        identity::compare(&expected, self.shard(), rows).map_err(Refused::Identity)?;
        self.verified.store(true, Ordering::Release);
        Ok(())
    }

    /// Whether the shard has sharded tables, so that sessions have to read texts as we do.
    pub(crate) fn has_tables(&self) -> bool {
        let expected = lock(&self.expected);
        expected
            .find(self.shard().as_str())
            .is_ok_and(|at| expected.shards()[at.get()].tables.is_some())
    }

    /// A session has said by which settings it reads texts; `problem`: they are not those that we read by.
    pub(crate) fn reads_as_we_do(&self, problem: Option<String>) -> Result<(), Refused> {
        match problem {
            None => Ok(()),
            Some(problem) => {
                self.meters.connect_failed(UnavailableCause::Settings);
                Err(Refused::Identity(text_settings::unfit(
                    self.shard(),
                    self.role(),
                    problem,
                )))
            }
        }
    }

    /// The MySQL database that a session which somebody may have moved is sent back to.
    pub(crate) fn home(&self, own_connector: bool) -> Option<Box<str>> {
        // An own connect function may have chosen another database than the URL's.
        let home = self.spec.url.mysql_database().filter(|_| !own_connector);
        home.map(Box::from)
    }

    #[inline]
    pub(crate) fn is_retired(&self) -> bool {
        self.retired.load(Ordering::Acquire)
    }

    /// Takes the node out of service. What alarms look at must not keep its last word for ever.
    pub(crate) fn retire(&self) {
        self.retired.store(true, Ordering::Release);
    }

    /// Tells the meters that a node is out of service, once its idle connections are closed.
    pub(crate) fn tell_retired(&self) {
        self.connected();
        self.meters.pool_state(0, 0, 0);
    }

    /// Why nobody may connect now, if nobody may.
    pub(crate) fn refuses_connects(&self) -> Option<Error> {
        match lock(&self.circuit).ask(Instant::now()) {
            Verdict::Try => None,
            Verdict::FailFast(failure) => Some(self.unavailable(&failure)),
        }
    }

    /// What the last failed connect said, while the node is taken to be down.
    pub(crate) fn down(&self) -> Option<UnavailableCause> {
        lock(&self.circuit).failure().map(|failure| failure.cause)
    }

    /// What a caller who has to connect would be told, while the node is taken to be down.
    #[cfg(any(feature = "tower", feature = "actix"))]
    pub(crate) fn refuses(&self) -> Option<Error> {
        let circuit = lock(&self.circuit);
        circuit
            .peek(Instant::now())
            .map(|failure| self.unavailable(failure))
    }

    /// A connect has succeeded.
    pub(crate) fn connected(&self) {
        if lock(&self.circuit).succeeded() {
            self.meters.circuit_closed();
        }
    }

    /// A connect on behalf of a caller has failed. Answers what the caller is told, and after which
    /// pause somebody is to look whether the node is back.
    pub(crate) fn connect_failed(&self, refused: Refused) -> (Error, Option<Duration>) {
        match refused {
            Refused::Identity(error) => (error, None),
            Refused::Node(failure) => {
                let error = self.unavailable(&failure);
                let opened = lock(&self.circuit).failed(Instant::now(), failure.clone());
                let probe_in = match opened {
                    Opened::Now { probe_in } => {
                        self.meters.circuit_opened(failure.cause);
                        Some(probe_in)
                    }
                    Opened::Before => None,
                };
                (error, probe_in)
            }
        }
    }

    /// A probe has failed; `None` if it got no further than an unanswered greeting. Answers the pause
    /// to the next one, if there is to be one.
    pub(crate) fn probe_failed(&self, refused: Option<Refused>) -> Option<Duration> {
        let failure = match refused {
            None => None,
            Some(Refused::Node(failure)) => Some(failure),
            Some(Refused::Identity(_)) => {
                // It answers; that it is the wrong one is told to each caller.
                self.connected();
                return None;
            }
        };
        lock(&self.circuit).probe_failed(Instant::now(), failure)
    }

    /// An attempt to connect got no connection.
    pub(crate) fn unconnected(&self, (cause, text): Failed) -> Refused {
        self.meters.connect_failed(cause);
        Refused::Node(Failure {
            cause,
            message: Arc::from(text),
        })
    }

    /// A fresh connection could not be made ready.
    pub(crate) fn unprepared(&self, error: &DieselError) -> Refused {
        let text = self.spec.url.scrub(&error.to_string());
        Refused::Node(Failure {
            cause: connect_cause(&text),
            message: Arc::from(text),
        })
    }

    #[cold]
    fn unavailable(&self, failure: &Failure) -> Error {
        Error::Unavailable {
            shard: self.shard(),
            role: self.role(),
            cause: failure.cause,
            source: Some(failure.message.to_string().into()),
        }
    }

    /// Whether a scope that holds these connections would wait for itself.
    pub(crate) fn refuse_deadlock(&self, held: &[(ShardName, NodeId)]) -> Result<(), Error> {
        let size = self.settings.max_size;
        let own = held.iter().filter(|(_, node)| *node == self.id).count();
        if own < size as usize {
            return Ok(());
        }
        let error = Error::WouldDeadlock {
            shard: self.shard(),
            role: self.role(),
            size,
        };
        telemetry::refused(&error);
        Err(error)
    }

    #[cold]
    pub(crate) fn exhausted(&self, start: Instant, held: &[(ShardName, NodeId)]) -> Error {
        self.meters.exhausted();
        Error::PoolExhausted {
            shard: self.shard(),
            role: self.role(),
            size: self.settings.max_size,
            waited: start.elapsed(),
            held: held.iter().map(|(shard, _)| *shard).collect(),
        }
    }
}

/// A caller that waits for a connection, as long as it does.
pub(crate) struct Waiter<'a>(&'a AtomicUsize);

impl<'a> Waiter<'a> {
    pub(crate) fn new(state: &'a NodeState) -> Self {
        state.waiters.fetch_add(1, Ordering::SeqCst);
        Self(&state.waiters)
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
