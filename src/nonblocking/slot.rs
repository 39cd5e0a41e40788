//! One physical connection and what is known about its state.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use diesel::QueryResult;
use diesel::connection::{
    CacheSize, DynInstrumentation, Instrumentation, TransactionManagerStatus,
};
use diesel::result::Error as DieselError;
use diesel_async::TransactionManager;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use super::backend::{AsyncNodeConnection, CommitRefused};
use super::flight::InFlight;
use super::node::Room;
use crate::driver::{
    Flags, IdentityRow, NodeHealth, Noter, Notes, Rewriter, TransactionProbe, Watch,
    believed_depth, session,
};
use crate::name::{Role, ShardName};
use crate::telemetry::{HealthCheck, NodeMeters};
use crate::topology::UrlKind;

/// What the application does with a connection that goes back.
pub(crate) type OnReturn<C> =
    dyn for<'a> Fn(&'a mut C) -> BoxFuture<'a, QueryResult<()>> + Send + Sync;

/// Does something with the transaction, and takes note of what becomes of it.
macro_rules! noted {
    ($slot:expr, $call:expr) => {{
        $slot.ready_to_manage()?;
        let flight = InFlight::new::<C>(&$slot.notes);
        let answer = $call.await;
        flight.landed();
        answer.map_err(|error| $slot.failed(error))
    }};
}

/// A physical connection of a node's pool.
pub(crate) struct Slot<C: AsyncNodeConnection> {
    pub(crate) conn: C,
    pub(crate) notes: Notes,
    born: Instant,
    last_used: Instant,
    /// The pool it lives in, by its number; 0 before it has got there.
    pub(crate) pool: u64,
    /// How many connections of the node had failed when this one was last known to be well.
    failures_seen: u64,
    /// The MySQL database that a session which somebody may have moved is sent back to.
    home: Option<Box<str>>,
    /// The last user has set an instrumentation, which is not the next one's.
    instrumented: bool,
    /// Puts physical table names into statements; never waited for.
    pub(crate) tables: Mutex<Rewriter>,
    /// The session has said that it reads texts as the rewriter does.
    reads_as_we_do: bool,
    /// Given back when the slot goes, after the connection has been closed.
    _room: Room,
}

impl<C: AsyncNodeConnection> Slot<C> {
    /// The rewriter. Nobody holds it for longer than it takes to make one text.
    pub(crate) fn rewriter(&self) -> MutexGuard<'_, Rewriter> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The same, where nobody else can hold it: without locking.
    #[inline]
    pub(crate) fn rewriter_mut(&mut self) -> &mut Rewriter {
        self.tables
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn new(
        mut conn: C,
        room: Room,
        shard: ShardName,
        role: Role,
        home: Option<Box<str>>,
    ) -> Self {
        conn.set_instrumentation(Watch {
            user: DynInstrumentation::default_instrumentation(),
            muted: false,
        });
        let health: &Arc<NodeHealth> = room.health();
        let failures_seen = health.failures();
        let now = Instant::now();
        Self {
            notes: Notes {
                flags: Flags::new(),
                kind: conn.kind(),
                shard,
                role,
                health: Arc::clone(health),
            },
            conn,
            born: now,
            last_used: now,
            pool: 0,
            failures_seen,
            home,
            instrumented: false,
            tables: Mutex::default(),
            reads_as_we_do: false,
            _room: room,
        }
    }

    /// Whether the connection may be used without asking it: it was in use a moment ago, came back
    /// well, and no connection of its node has failed since.
    #[inline]
    pub(crate) fn alive_by_bypass(&mut self, bypass: Duration, meters: &NodeMeters) -> bool {
        // The last use counts from its checkout: reading the clock again at each return would cost
        // more than the check that it saves after a use longer than the window.
        let (now, last) = (Instant::now(), self.last_used);
        self.last_used = now;
        let alive = !self.notes.flags.any(Flags::FAILED)
            && self.failures_seen == self.notes.health.failures()
            && now.duration_since(last) < bypass;
        if alive {
            meters.health_check(HealthCheck::Bypassed);
        }
        alive
    }

    /// Whether it had been open for longer than this when it was last checked out.
    #[inline]
    pub(crate) fn outlived(&self, max_lifetime: Option<Duration>) -> bool {
        max_lifetime.is_some_and(|most| self.last_used.duration_since(self.born) >= most)
    }

    /// The health check at checkout, where [`alive_by_bypass`](Self::alive_by_bypass) does not save it.
    ///
    /// # Cancellation
    ///
    /// Dropped half-way, the connection is asked again before anybody gets it.
    pub(crate) async fn check_alive(&mut self, meters: &NodeMeters) -> QueryResult<()> {
        let failures = self.notes.health.failures();
        self.mute(true);
        let flight = InFlight::new::<C>(&self.notes);
        let answer = self.conn.ping().await;
        flight.landed();
        self.mute(false);
        match answer {
            Ok(()) => {
                meters.health_check(HealthCheck::Ok);
                self.notes.flags.clear(Flags::FAILED);
                self.failures_seen = failures;
                Ok(())
            }
            Err(error) => {
                meters.health_check(HealthCheck::Failed);
                self.notes.health.connection_failed();
                Err(error)
            }
        }
    }

    /// Takes note of the error of a statement, and gives it its name where it is ours.
    #[cold]
    pub(crate) fn failed(&self, error: DieselError) -> DieselError {
        Noter(&self.notes).failed(error)
    }

    pub(crate) fn status(&mut self) -> &mut TransactionManagerStatus {
        C::TransactionManager::transaction_manager_status_mut(&mut self.conn)
    }

    /// What the pool does with the connection as it comes back: keep it, or close it. `None`: that is
    /// not known without asking; [`settle`](Self::settle) does, in a task of its own.
    ///
    /// `asks`: the application has something done to each connection that comes back.
    pub(crate) fn settled(&mut self, asks: bool) -> Option<bool> {
        let flags = &self.notes.flags;
        if flags.any(Flags::RETIRE | Flags::LOST | Flags::UNUSABLE) {
            return Some(false);
        }
        // Before Diesel is asked: after a panic it may not be able to answer.
        if asks || flags.any(Flags::DIRTY | Flags::INTERRUPTED) || std::thread::panicking() {
            return None;
        }
        match self.status() {
            TransactionManagerStatus::InError => return Some(false),
            TransactionManagerStatus::Valid(valid) => {
                if let Some(open) = &valid.in_transaction
                    && !(open.test_transaction && open.transaction_depth.get() == 1)
                {
                    return None;
                }
            }
        }
        self.tidy();
        Some(true)
    }

    /// Puts the connection into the state in which the pool may have it; `false`: close it instead.
    ///
    /// # Cancellation
    ///
    /// Dropped half-way, nothing is known: close the connection.
    pub(crate) async fn settle(&mut self, reset: bool, on_return: Option<&OnReturn<C>>) -> bool {
        if self
            .notes
            .flags
            .any(Flags::RETIRE | Flags::LOST | Flags::UNUSABLE)
        {
            return false;
        }
        self.mute(true);
        let settled = self.clean().await && self.forget_session(reset, on_return).await;
        self.mute(false);
        if settled {
            self.tidy();
        }
        settled
    }

    /// Makes sure that no transaction is open, or only the test transaction.
    async fn clean(&mut self) -> bool {
        if self.notes.flags.any(Flags::DIRTY) && !self.recover().await {
            return false;
        }
        let test_transaction = match self.status() {
            TransactionManagerStatus::InError => return false,
            TransactionManagerStatus::Valid(valid) => valid
                .in_transaction
                .as_ref()
                .is_some_and(|open| open.test_transaction),
        };
        if test_transaction {
            // Savepoints whose future was dropped; the ground beneath them stays.
            while believed_depth(self.status()) > 1 {
                if self.roll_back().await.is_err() {
                    return false;
                }
            }
            return self.is_in_test_transaction().await;
        }
        let home = self.home.as_deref();
        let cleaned = self.conn.close_transactions(home).await.is_ok();
        if cleaned {
            // It answered, which is all that a health check asks.
            self.notes.flags.clear(Flags::FAILED);
        }
        cleaned
    }

    /// Begins a transaction, or a savepoint where one is open.
    pub(crate) async fn begin(&mut self) -> QueryResult<()> {
        noted!(
            self,
            C::TransactionManager::begin_transaction(&mut self.conn)
        )
    }

    /// Begins a transaction by this statement.
    pub(crate) async fn begin_with(&mut self, sql: &str) -> QueryResult<()> {
        noted!(self, self.conn.begin_with(sql))
    }

    /// Commits the innermost level that Diesel knows of.
    pub(crate) async fn commit(&mut self) -> QueryResult<()> {
        noted!(
            self,
            C::TransactionManager::commit_transaction(&mut self.conn)
        )
    }

    /// Rolls back the innermost level that Diesel knows of.
    pub(crate) async fn roll_back(&mut self) -> QueryResult<()> {
        noted!(
            self,
            C::TransactionManager::rollback_transaction(&mut self.conn)
        )
    }

    /// Commits the outermost transaction, where it is doubtful that it can be.
    pub(crate) async fn commit_doubtful(&mut self) -> Result<(), CommitRefused> {
        self.ready_to_manage().map_err(CommitRefused::Failed)?;
        let flight = InFlight::new::<C>(&self.notes);
        let committed = self.conn.commit_doubtful().await;
        flight.landed();
        self.notes.flags.clear(Flags::UNPROBED);
        committed.map_err(|refused| match refused {
            CommitRefused::Failed(error) => CommitRefused::Failed(self.failed(error)),
            because => because,
        })
    }

    /// Tells the session whether its transaction may write, where the backend has no other way.
    pub(crate) async fn query_only(&mut self, query_only: bool) -> QueryResult<()> {
        self.mute(true);
        let sql = session::read_only(self.notes.kind, query_only);
        let told = noted!(self, self.conn.batch_execute(sql));
        self.mute(false);
        told
    }

    /// After an interruption diesel-async's manager would refuse to go on, or panic.
    fn ready_to_manage(&mut self) -> QueryResult<()> {
        if self.notes.flags.any(Flags::UNUSABLE) {
            self.status().set_in_error();
            return Err(DieselError::BrokenTransactionManager);
        }
        if self.notes.flags.any(Flags::INTERRUPTED) {
            self.conn.forget_interruption();
        }
        Ok(())
    }

    /// Makes the connection able to answer after a panic.
    pub(crate) async fn recover(&mut self) -> bool {
        self.conn.recover().await.is_ok()
    }

    /// Takes back what the last user has set in the session, where the application asked for it.
    async fn forget_session(&mut self, reset: bool, on_return: Option<&OnReturn<C>>) -> bool {
        if !reset && on_return.is_none() {
            return true;
        }
        // What is reset here may include that the shard is read-only; the next checkout says it anew.
        if self.set_shard_read_only(false).await.is_err() {
            return false;
        }
        self.mute(true);
        let dirty = self.notes.flags.any(Flags::DIRTY | Flags::SESSION_SET);
        if reset && !matches!(self.conn.reset_session(dirty).await, Ok(true)) {
            return false;
        }
        match on_return {
            None => true,
            Some(f) => {
                let done = std::panic::AssertUnwindSafe(f(&mut self.conn)).catch_unwind();
                matches!(done.await, Ok(Ok(())))
            }
        }
    }

    /// What is left to be done locally before the next user.
    fn tidy(&mut self) {
        if self.notes.flags.any(Flags::CACHE_CHANGED) {
            self.conn
                .set_prepared_statement_cache_size(CacheSize::Unbounded);
            self.rewriter().forget_prepared();
        }
        // Who used the raw connection may have set one there.
        if self.instrumented || self.watch().is_none() {
            self.swap_instrumentation(DynInstrumentation::default_instrumentation());
            self.instrumented = false;
        }
        self.notes
            .flags
            .clear(!(Flags::FAILED | Flags::SHARD_READ_ONLY));
    }

    /// Tells the session whether it may write, where it does not know yet.
    ///
    /// # Cancellation
    ///
    /// Dropped half-way, the connection is closed when it comes back.
    pub(crate) async fn set_shard_read_only(&mut self, read_only: bool) -> QueryResult<()> {
        if self.notes.flags.any(Flags::SHARD_READ_ONLY) == read_only {
            return Ok(());
        }
        let sql = session::read_only(self.notes.kind, read_only);
        // A session that knows half of it is of no use to anybody.
        self.notes.flags.set(Flags::RETIRE);
        self.mute(true);
        let result = self.conn.batch_execute(sql).await;
        self.mute(false);
        if result.is_ok() {
            self.notes.flags.clear(Flags::RETIRE);
            if read_only {
                self.notes.flags.set(Flags::SHARD_READ_ONLY);
            } else {
                self.notes.flags.clear(Flags::SHARD_READ_ONLY);
            }
        }
        result
    }

    /// Whether a session of a shard with sharded tables has yet to say how it reads texts.
    #[inline]
    pub(crate) fn is_unread(&self) -> bool {
        !self.reads_as_we_do
    }

    /// Asks the session whether it reads texts as the rewriter does, where it has not been asked yet.
    /// Answers what differs; the connection is closed then.
    ///
    /// # Cancellation
    ///
    /// Dropped half-way, the connection is closed when it comes back.
    pub(crate) async fn unfit_settings(&mut self) -> QueryResult<Option<String>> {
        if self.reads_as_we_do {
            return Ok(None);
        }
        self.notes.flags.set(Flags::RETIRE);
        self.mute(true);
        let said = self.conn.unfit_settings().await;
        self.mute(false);
        if let Ok(None) = said {
            self.notes.flags.clear(Flags::RETIRE);
            self.reads_as_we_do = true;
        }
        said
    }

    /// Opens the test transaction that the connection is to live in.
    pub(crate) async fn begin_test_transaction(&mut self) -> QueryResult<()> {
        self.conn.begin_test_transaction().await
    }

    /// Whether the test transaction of the connection is still there, as far as can be told.
    pub(crate) async fn is_in_test_transaction(&mut self) -> bool {
        if self
            .notes
            .flags
            .any(Flags::ENDED_BY_HAND | Flags::LOST | Flags::UNUSABLE)
        {
            return false;
        }
        let doubtful = self.notes.flags.any(Flags::DIRTY | Flags::INTERRUPTED);
        let there = !doubtful
            || matches!(
                self.probe().await,
                TransactionProbe::Open | TransactionProbe::Unknown
            );
        there && believed_depth(self.status()) > 0
    }

    /// Finds out at once whether the open transaction is still there, where that is doubtful and the
    /// client library knows.
    #[inline]
    pub(crate) fn look_again(&mut self) {
        if self.notes.kind == UrlKind::Sqlite && self.notes.flags.any(Flags::UNPROBED) {
            match self.conn.probe_here() {
                Some(TransactionProbe::Broken) => self.notes.flags.set(Flags::LOST),
                _ => self.notes.flags.clear(Flags::UNPROBED),
            }
        }
    }

    /// Asks whether a transaction is open, unseen by the user's instrumentation.
    ///
    /// # Cancellation
    ///
    /// Dropped half-way, the connection stays doubtful.
    pub(crate) async fn probe(&mut self) -> TransactionProbe {
        self.mute(true);
        let flight = InFlight::new::<C>(&self.notes);
        let probed = self.conn.probe().await;
        flight.landed();
        self.mute(false);
        if probed == TransactionProbe::Broken {
            self.notes.flags.set(Flags::LOST);
        } else {
            self.notes.flags.clear(Flags::UNPROBED);
        }
        probed
    }

    /// Reads what the database says of itself.
    pub(crate) async fn read_identity(&mut self) -> QueryResult<Vec<IdentityRow>> {
        self.mute(true);
        let rows = self.conn.read_identity().await;
        self.mute(false);
        rows
    }

    /// Writes what the database is to say of itself.
    pub(crate) async fn write_identity(&mut self, rows: &[IdentityRow]) -> QueryResult<()> {
        self.notes.flags.set(Flags::DIRTY);
        self.mute(true);
        let written = self.conn.write_identity(rows).await;
        self.mute(false);
        written
    }

    /// Keeps what the crate says for itself from the user's instrumentation. A future that is dropped
    /// in between leaves it muted until the connection is settled.
    pub(crate) fn mute(&mut self, muted: bool) {
        if let Some(watch) = self.watch() {
            watch.muted = muted;
        }
    }

    /// The instrumentation installed at connect; `None` if a raw user has replaced it.
    fn watch(&mut self) -> Option<&mut Watch> {
        self.conn.instrumentation().downcast_mut::<Watch>()
    }

    /// Exchanges the user's instrumentation for the time of one checkout.
    pub(crate) fn swap_instrumentation(&mut self, new: DynInstrumentation) -> DynInstrumentation {
        self.instrumented = true;
        match self.watch() {
            Some(watch) => std::mem::replace(&mut watch.user, new),
            None => {
                self.conn.set_instrumentation(Watch {
                    user: new,
                    muted: false,
                });
                DynInstrumentation::none()
            }
        }
    }

    /// The user's instrumentation, as Diesel wants to see it.
    pub(crate) fn instrumentation(&mut self) -> &mut dyn Instrumentation {
        // Asked twice, because the borrow of a found watch would last for the fallback too.
        if self.watch().is_none() {
            return self.conn.instrumentation();
        }
        let instrumentation = self.conn.instrumentation();
        match instrumentation.downcast_mut::<Watch>() {
            Some(watch) => &mut *watch.user,
            None => unreachable!("the watch was there a moment ago"),
        }
    }
}
