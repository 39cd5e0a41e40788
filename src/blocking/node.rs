//! One node: an r2d2 pool of one physical database, and around it what r2d2 does not do.
//!
//! r2d2 connects on its own threads, keeps the last error as a text only, and retries a dead server
//! for as long as the caller waits. Here the caller that needs a connection makes it, on its own
//! time, and hands it over to the pool: so it gets the typed cause at once, no node can hold up
//! another one's connects, and the number of background threads does not grow with the nodes. A
//! failed connect opens the node's [circuit](crate::replica::Circuit).

use std::fmt;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use diesel::{ConnectionError, ConnectionResult};
use scheduled_thread_pool::ScheduledThreadPool;

use super::backend::NodeConnection;
use super::slot::Slot;
use crate::error::{Error, UnavailableCause};
use crate::name::{Role, ShardName};
use crate::replica::{Circuit, Verdict, connect_cause};
use crate::route::stack;
use crate::telemetry;
use crate::topology::{DatabaseUrl, NodeSpec, Topology, UrlKind};

/// How a node is told to an own connect function
/// ([`connect_with`](super::ManagerBuilder::connect_with)).
#[derive(Clone, Copy, Debug)]
pub struct NodeInfo<'a> {
    spec: &'a NodeSpec,
}

impl NodeInfo<'_> {
    /// The shard of the node.
    #[must_use]
    pub fn shard(&self) -> ShardName {
        self.spec.shard
    }

    /// The node's role in its shard.
    #[must_use]
    pub fn role(&self) -> Role {
        self.spec.role
    }

    /// The URL of the node; [`expose`](DatabaseUrl::expose) gives the text with its password.
    #[must_use]
    pub fn url(&self) -> &DatabaseUrl {
        &self.spec.url
    }
}

/// An application's own way to connect.
pub(crate) type Connector<C> = dyn Fn(NodeInfo<'_>) -> ConnectionResult<C> + Send + Sync;

/// The threads of a manager: a fixed number, whatever the number of nodes.
pub(crate) struct Threads {
    /// Moves connections into pools and reaps idle ones; nothing here waits for a server.
    pool: Arc<ScheduledThreadPool>,
    /// Opens idle connections ahead of need (`min_idle`); waits for servers.
    filler: Arc<ScheduledThreadPool>,
}

impl Threads {
    pub(crate) fn new() -> Self {
        let named = |name: &str, threads| {
            Arc::new(
                ScheduledThreadPool::builder()
                    .num_threads(threads)
                    .thread_name_pattern(name)
                    .build(),
            )
        };
        Self {
            pool: named("diesel-sharded-pool-{}", 2),
            filler: named("diesel-sharded-fill-{}", 1),
        }
    }

    pub(crate) fn pool(&self) -> Arc<ScheduledThreadPool> {
        Arc::clone(&self.pool)
    }
}

impl fmt::Debug for Threads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Threads").finish_non_exhaustive()
    }
}

/// What all connections of a node share.
#[derive(Debug, Default)]
pub(crate) struct NodeHealth {
    failures: AtomicU64,
    /// Connections being made, or made and not yet handed out for the first time. Whoever counts
    /// the pool's connections adds these, so that callers together never exceed `max_size`.
    coming: AtomicU32,
}

impl NodeHealth {
    pub(crate) fn failures(&self) -> u64 {
        self.failures.load(Ordering::Acquire)
    }

    /// A connection of the node turned out to be dead: the others are checked before use.
    pub(crate) fn connection_failed(&self) {
        self.failures.fetch_add(1, Ordering::AcqRel);
    }

    pub(crate) fn arrived(&self) {
        self.coming.fetch_sub(1, Ordering::AcqRel);
    }
}

/// One physical database and its pool.
pub(crate) struct Node<C: NodeConnection> {
    pub(crate) topology: Topology,
    shared: Arc<Shared<C>>,
    pool: OnceLock<r2d2::Pool<NodeManager<C>>>,
    threads: Arc<Threads>,
    waiters: AtomicUsize,
    /// How often something has changed that a waiter may want to know.
    changes: Mutex<u64>,
    changed: Condvar,
}

/// See [`Node::plan`].
enum Plan {
    /// Make a connection; it is counted already.
    Connect,
    /// A made connection waits to be taken into the pool.
    TakeMade,
    /// The circuit is open.
    FailFast(Error),
    /// The pool is as large as it may be.
    Wait,
}

/// The part of a node that its r2d2 pool knows too.
struct Shared<C: NodeConnection> {
    spec: NodeSpec,
    kind: UrlKind,
    connector: Option<Arc<Connector<C>>>,
    health: Arc<NodeHealth>,
    circuit: Mutex<Circuit>,
    /// Connections made by callers, on their way into the pool.
    ready: Mutex<Vec<Slot<C>>>,
    /// Connect attempts that have outlived their deadline and still hang.
    stuck: Arc<AtomicUsize>,
    filling: std::sync::atomic::AtomicBool,
    threads: Arc<Threads>,
}

impl<C: NodeConnection> Node<C> {
    pub(crate) fn new(
        topology: Topology,
        spec: NodeSpec,
        connector: Option<Arc<Connector<C>>>,
        threads: Arc<Threads>,
    ) -> Self {
        let kind = spec.url.kind().unwrap_or(UrlKind::Sqlite);
        Self {
            topology,
            shared: Arc::new(Shared {
                kind,
                spec,
                connector,
                health: Arc::default(),
                circuit: Mutex::default(),
                ready: Mutex::default(),
                stuck: Arc::default(),
                filling: false.into(),
                threads: Arc::clone(&threads),
            }),
            pool: OnceLock::new(),
            threads,
            waiters: AtomicUsize::new(0),
            changes: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    pub(crate) fn shard(&self) -> ShardName {
        self.shared.spec.shard
    }

    pub(crate) fn role(&self) -> Role {
        self.shared.spec.role
    }

    pub(crate) fn spec(&self) -> &NodeSpec {
        &self.shared.spec
    }

    /// Open connections, idle ones among them, and callers that wait for one.
    pub(crate) fn counts(&self) -> (u32, u32, usize) {
        let (connections, idle) = self.pool.get().map_or((0, 0), |pool| {
            let state = pool.state();
            (state.connections, state.idle_connections)
        });
        (connections, idle, self.waiters.load(Ordering::Relaxed))
    }

    /// What the last failed connect said, while the node is taken to be down.
    pub(crate) fn down(&self) -> Option<UnavailableCause> {
        lock(&self.shared.circuit)
            .failure()
            .map(|failure| failure.cause)
    }

    /// Takes a connection out of the pool, or makes one, or waits for one.
    #[inline]
    pub(crate) fn checkout(self: &Arc<Self>) -> Result<Lease<C>, Error> {
        match self.try_checkout() {
            Some(lease) => Ok(lease),
            None => self.checkout_slow(),
        }
    }

    #[inline]
    fn try_checkout(self: &Arc<Self>) -> Option<Lease<C>> {
        let pooled = self.pool.get()?.try_get()?;
        Some(Lease {
            pooled: Some(pooled),
            node: Arc::clone(self),
        })
    }

    #[cold]
    fn checkout_slow(self: &Arc<Self>) -> Result<Lease<C>, Error> {
        let spec = &self.shared.spec;
        let (size, start) = (spec.pool.max_size, Instant::now());
        let deadline = start + spec.pool.connection_timeout;
        let held = stack::held(self.topology.id());
        let _waiter = Waiter::new(&self.waiters);

        // Every turn hands out a connection, makes one, or sleeps until something changes. What
        // changes after `seen` was read makes the sleep end before it begins.
        loop {
            let seen = *lock(&self.changes);
            if let Some(lease) = self.try_checkout() {
                return Ok(lease);
            }
            if held.iter().filter(|shard| **shard == spec.shard).count() >= size as usize {
                return Err(Error::WouldDeadlock {
                    shard: spec.shard,
                    role: spec.role,
                    size,
                });
            }
            let mut refused = None;
            match self.plan() {
                Plan::Connect => match self.connect() {
                    Ok(()) => {
                        if let Some(lease) = self.take_made(deadline) {
                            return Ok(lease);
                        }
                    }
                    // Where no connection is left, nothing can come back to wait for.
                    Err(error) if self.pooled() == 0 => return Err(error),
                    Err(error) => refused = Some(error),
                },
                Plan::TakeMade => {
                    if let Some(lease) = self.take_made(deadline) {
                        return Ok(lease);
                    }
                }
                Plan::FailFast(error) if self.pooled() == 0 => return Err(error),
                Plan::FailFast(error) => refused = Some(error),
                Plan::Wait => {}
            }
            let now = Instant::now();
            if now >= deadline {
                return Err(refused.unwrap_or_else(|| self.exhausted(start, held)));
            }
            let changes = lock(&self.changes);
            if *changes == seen {
                let nap = (deadline - now).min(self.longest_nap());
                drop(
                    self.changed
                        .wait_timeout(changes, nap)
                        .unwrap_or_else(PoisonError::into_inner),
                );
            }
        }
    }

    /// What a caller who found no idle connection does next. A planned connect is counted here, so
    /// that callers together never exceed `max_size`.
    fn plan(&self) -> Plan {
        let _one_at_a_time = lock(&self.changes);
        if !lock(&self.shared.ready).is_empty() {
            return Plan::TakeMade;
        }
        let coming = &self.shared.health.coming;
        if self.pooled() + coming.load(Ordering::Acquire) >= self.shared.spec.pool.max_size {
            return Plan::Wait;
        }
        match lock(&self.shared.circuit).ask(Instant::now()) {
            Verdict::Try => {
                coming.fetch_add(1, Ordering::AcqRel);
                Plan::Connect
            }
            Verdict::FailFast(failure) => {
                Plan::FailFast(self.shared.unavailable(failure.cause, &failure.message))
            }
        }
    }

    /// A bound for one sleep. Returned connections wake sleepers; this covers what does not: a
    /// connection that r2d2 itself moves into the pool, and a circuit whose pause is over.
    fn longest_nap(&self) -> Duration {
        if self.shared.health.coming.load(Ordering::Acquire) > 0 {
            Duration::from_millis(2)
        } else {
            Duration::from_millis(50)
        }
    }

    /// The connections the pool has, in use or idle.
    fn pooled(&self) -> u32 {
        self.pool.get().map_or(0, |pool| pool.state().connections)
    }

    /// Connects on the caller's thread. The plan has counted the connection as coming.
    fn connect(&self) -> Result<(), Error> {
        match self.shared.connect() {
            Ok(slot) => {
                lock(&self.shared.ready).push(slot);
                Ok(())
            }
            Err(error) => {
                self.shared.health.arrived();
                self.wake(Condvar::notify_all);
                Err(error)
            }
        }
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
        Some(Lease {
            pooled: Some(pooled),
            node: Arc::clone(self),
        })
    }

    fn build_pool(&self) -> r2d2::Pool<NodeManager<C>> {
        let settings = &self.shared.spec.pool;
        r2d2::Pool::builder()
            .max_size(settings.max_size)
            .min_idle(Some(settings.min_idle.min(settings.max_size)))
            .test_on_check_out(true)
            .idle_timeout(settings.idle_timeout)
            .max_lifetime(settings.max_lifetime)
            // Only r2d2's pause between refills is derived from this; callers wait with us.
            .connection_timeout(Duration::from_millis(400))
            .error_handler(Box::new(r2d2::NopErrorHandler))
            .thread_pool(self.threads.pool())
            .build_unchecked(NodeManager {
                shared: Arc::clone(&self.shared),
            })
    }

    #[cold]
    fn exhausted(&self, start: Instant, held: Vec<ShardName>) -> Error {
        Error::PoolExhausted {
            shard: self.shard(),
            role: self.role(),
            size: self.shared.spec.pool.max_size,
            waited: start.elapsed(),
            held,
        }
    }

    /// Something came back, or there is room again: one waiter looks.
    #[inline]
    fn wake_one(&self) {
        if self.waiters.load(Ordering::SeqCst) > 0 {
            self.wake(Condvar::notify_one);
        }
    }

    #[cold]
    fn wake(&self, notify: impl FnOnce(&Condvar)) {
        *lock(&self.changes) += 1;
        notify(&self.changed);
    }
}

impl<C: NodeConnection> fmt::Debug for Node<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Node")
            .field("shard", &self.shard())
            .field("role", &self.role())
            .field("url", &self.shared.spec.url)
            .finish_non_exhaustive()
    }
}

struct Waiter<'a>(&'a AtomicUsize);

impl<'a> Waiter<'a> {
    fn new(waiters: &'a AtomicUsize) -> Self {
        waiters.fetch_add(1, Ordering::SeqCst);
        Self(waiters)
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl<C: NodeConnection> Shared<C> {
    /// One attempt to connect, bounded by `connect_timeout`; opens or closes the circuit.
    fn connect(&self) -> Result<Slot<C>, Error> {
        match self.establish() {
            Ok(conn) => {
                lock(&self.circuit).succeeded();
                Ok(Slot::new(conn, Arc::clone(&self.health), self.spec.role))
            }
            Err((cause, text)) => {
                let text = self.spec.url.scrub(&text);
                lock(&self.circuit).failed(Instant::now(), cause, &text);
                telemetry::connect_failed(self.spec.shard, self.spec.role, cause);
                Err(self.unavailable(cause, &text))
            }
        }
    }

    fn establish(&self) -> Result<C, (UnavailableCause, String)> {
        if self.kind == UrlKind::Sqlite {
            return establish(&self.connector, &self.spec, self.kind).map_err(sorted);
        }
        let timeout = self.spec.pool.connect_timeout;
        if self.stuck.load(Ordering::Acquire) > 0 && !greets(&self.spec, self.kind, timeout) {
            return Err((
                UnavailableCause::Timeout,
                "an earlier attempt still hangs, and the host says nothing".to_owned(),
            ));
        }
        // No client library bounds every part of a connect (name resolution, TLS, a server that
        // accepts and says nothing), so the attempt has a thread of its own and we have a clock.
        let (answer, attempt) = mpsc::sync_channel(1);
        let (connector, spec, kind) = (self.connector.clone(), self.spec.clone(), self.kind);
        let stuck = Arc::clone(&self.stuck);
        let spawned = std::thread::Builder::new()
            .name("diesel-sharded-connect".to_owned())
            .spawn(move || {
                let result = establish(&connector, &spec, kind);
                // The receiver is gone once its deadline has passed; it has counted us as stuck.
                if answer.send(result).is_err() {
                    stuck.fetch_sub(1, Ordering::AcqRel);
                }
            });
        if let Err(error) = spawned {
            return Err((UnavailableCause::Other, error.to_string()));
        }
        match attempt.recv_timeout(timeout) {
            Ok(result) => result.map_err(sorted),
            Err(mpsc::RecvTimeoutError::Timeout) => {
                self.stuck.fetch_add(1, Ordering::AcqRel);
                // It may have answered in this very moment.
                match attempt.try_recv() {
                    Ok(result) => {
                        self.stuck.fetch_sub(1, Ordering::AcqRel);
                        result.map_err(sorted)
                    }
                    Err(_) => Err((
                        UnavailableCause::Timeout,
                        format!("no answer within {timeout:?}"),
                    )),
                }
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => Err((
                UnavailableCause::Other,
                "the connect function panicked".to_owned(),
            )),
        }
    }

    #[cold]
    fn unavailable(&self, cause: UnavailableCause, text: &str) -> Error {
        Error::Unavailable {
            shard: self.spec.shard,
            role: self.spec.role,
            cause,
            source: Some(text.into()),
        }
    }

    /// Opens one idle connection ahead of need; runs on the filler thread.
    fn fill(&self) {
        let healthy = lock(&self.circuit).failure().is_none();
        if healthy {
            self.health.coming.fetch_add(1, Ordering::AcqRel);
            match self.connect() {
                Ok(slot) => lock(&self.ready).push(slot),
                Err(_) => self.health.arrived(),
            }
        }
        self.filling.store(false, Ordering::Release);
    }
}

fn establish<C: NodeConnection>(
    connector: &Option<Arc<Connector<C>>>,
    spec: &NodeSpec,
    kind: UrlKind,
) -> ConnectionResult<C> {
    match connector {
        Some(connector) => connector(NodeInfo { spec }),
        None => C::connect(kind, &spec.url.connect_url(spec.pool.connect_timeout)),
    }
}

fn sorted(error: ConnectionError) -> (UnavailableCause, String) {
    let text = error.to_string();
    let cause = match error {
        ConnectionError::BadConnection(_) | ConnectionError::CouldntSetupConfiguration(_) => {
            connect_cause(&text)
        }
        _ => UnavailableCause::Other,
    };
    (cause, text)
}

/// Whether a server at the node's address says something. Asked only while an earlier attempt hangs.
fn greets(spec: &NodeSpec, kind: UrlKind, timeout: Duration) -> bool {
    use std::io::{Read, Write};
    use std::net::{TcpStream, ToSocketAddrs};

    /// PostgreSQL waits for the client; this asks it whether it speaks TLS, which every server
    /// answers with one byte (protocol documentation, "SSLRequest").
    const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 47];

    let servers = spec.url.servers();
    servers.is_empty()
        || servers.iter().any(|server| {
            let Some(port) = server.port.filter(|_| !server.host.starts_with('/')) else {
                return true;
            };
            let Ok(addresses) = (server.host.as_str(), port).to_socket_addrs() else {
                return false;
            };
            addresses.into_iter().any(|address| {
                let Ok(mut stream) = TcpStream::connect_timeout(&address, timeout) else {
                    return false;
                };
                let asked = kind != UrlKind::Postgres || stream.write_all(&SSL_REQUEST).is_ok();
                let mut greeting = [0];
                asked
                    && stream.set_read_timeout(Some(timeout)).is_ok()
                    && matches!(stream.read(&mut greeting), Ok(read) if read > 0)
            })
        })
}

/// What r2d2 knows of a node.
pub(crate) struct NodeManager<C: NodeConnection> {
    shared: Arc<Shared<C>>,
}

impl<C: NodeConnection> r2d2::ManageConnection for NodeManager<C> {
    type Connection = Slot<C>;
    type Error = diesel::r2d2::Error;

    /// Runs on the manager's pool threads and therefore never waits for a server.
    fn connect(&self) -> Result<Slot<C>, Self::Error> {
        if let Some(slot) = lock(&self.shared.ready).pop() {
            return Ok(slot);
        }
        // r2d2 wants an idle connection that no caller has made. It asks again in a while.
        if !self.shared.filling.swap(true, Ordering::AcqRel) {
            let shared = Arc::downgrade(&self.shared);
            self.shared.threads.filler.execute(move || {
                if let Some(shared) = shared.upgrade() {
                    shared.fill();
                }
            });
        }
        Err(diesel::r2d2::Error::ConnectionError(
            ConnectionError::BadConnection("not yet".to_owned()),
        ))
    }

    fn is_valid(&self, slot: &mut Slot<C>) -> Result<(), Self::Error> {
        slot.check_alive(self.shared.spec.pool.alive_bypass)
            .map_err(diesel::r2d2::Error::QueryError)
    }

    fn has_broken(&self, slot: &mut Slot<C>) -> bool {
        let keep = slot.settle();
        if !keep {
            telemetry::closed_dirty(self.shared.spec.shard, self.shared.spec.role);
        }
        !keep
    }
}

/// A connection out of a node's pool; going out of scope gives it back.
pub(crate) struct Lease<C: NodeConnection> {
    /// `None` only while it is being given back.
    pooled: Option<r2d2::PooledConnection<NodeManager<C>>>,
    node: Arc<Node<C>>,
}

impl<C: NodeConnection> Lease<C> {
    #[inline]
    pub(crate) fn node(&self) -> &Arc<Node<C>> {
        &self.node
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
}

impl<C: NodeConnection> Drop for Lease<C> {
    fn drop(&mut self) {
        drop(self.pooled.take());
        self.node.wake_one();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
