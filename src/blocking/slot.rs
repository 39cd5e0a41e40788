//! One physical connection and what is known about its state.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use diesel::connection::{
    CacheSize, DynInstrumentation, Instrumentation, TransactionManager, TransactionManagerStatus,
};
use diesel::result::Error as DieselError;

use super::backend::NodeConnection;
use super::node::OnReturn;
use crate::driver::{Flags, Noter, Notes, Rewriter, Room, TransactionProbe, Watch, session};
use crate::name::{Role, ShardName};
use crate::telemetry::{HealthCheck, NodeMeters};

/// A physical connection of a node's pool.
pub(crate) struct Slot<C: NodeConnection> {
    pub(crate) conn: C,
    pub(crate) notes: Notes,
    last_used: Instant,
    /// How many connections of the node had failed when this one was last known to be well.
    failures_seen: u64,
    /// The MySQL database that a session which somebody may have moved is sent back to.
    home: Option<Box<str>>,
    /// The last user has set an instrumentation, which is not the next one's.
    instrumented: bool,
    /// Puts physical table names into statements.
    pub(crate) tables: Rewriter,
    /// The session has said that it reads texts as the rewriter does.
    reads_as_we_do: bool,
    /// Given back when the slot goes, after the connection has been closed.
    _room: Room,
}

impl<C: NodeConnection> Slot<C> {
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
        let failures_seen = room.health().failures();
        Self {
            notes: Notes {
                flags: Flags::new(),
                kind: conn.kind(),
                shard,
                role,
                health: Arc::clone(room.health()),
            },
            conn,
            last_used: Instant::now(),
            failures_seen,
            home,
            instrumented: false,
            tables: Rewriter::default(),
            reads_as_we_do: false,
            _room: room,
        }
    }

    /// The health check at checkout: skipped while the connection was in use a moment ago, came
    /// back well, and no connection of its node has failed since.
    pub(crate) fn check_alive(
        &mut self,
        bypass: std::time::Duration,
        meters: &NodeMeters,
    ) -> Result<(), DieselError> {
        let failures = self.notes.health.failures();
        // The last use counts from its checkout: reading the clock again at each return would cost
        // more than the check that it saves after a use longer than the window.
        let (now, last) = (Instant::now(), self.last_used);
        self.last_used = now;
        if !self.notes.flags.any(Flags::FAILED)
            && self.failures_seen == failures
            && now.duration_since(last) < bypass
        {
            meters.health_check(HealthCheck::Bypassed);
            return Ok(());
        }
        match self.muted(|conn| conn.ping()) {
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
        self.noter().failed(error)
    }

    fn noter(&self) -> Noter<'_> {
        Noter(&self.notes)
    }

    /// What a cursor needs to take note of errors while the connection is borrowed.
    pub(crate) fn split(&mut self) -> (&mut C, Noter<'_>) {
        (&mut self.conn, Noter(&self.notes))
    }

    /// Puts the connection into the state in which the pool may have it.
    ///
    /// Answers `false` when it must be closed instead. On the good path this asks nobody: a clean
    /// connection is known to be clean.
    pub(crate) fn settle(&mut self, reset: bool, on_return: Option<&OnReturn<C>>) -> bool {
        if self.notes.flags.any(Flags::RETIRE | Flags::LOST) {
            return false;
        }
        let test_transaction =
            match C::TransactionManager::transaction_manager_status_mut(&mut self.conn) {
                TransactionManagerStatus::InError => return false,
                TransactionManagerStatus::Valid(valid) => match &valid.in_transaction {
                    None => false,
                    Some(open) => {
                        if !open.test_transaction || open.transaction_depth.get() > 1 {
                            return false;
                        }
                        true
                    }
                },
            };
        if (self.notes.flags.any(Flags::DIRTY) || std::thread::panicking())
            && !self.clean(test_transaction)
        {
            return false;
        }
        if self.notes.flags.any(Flags::CACHE_CHANGED) {
            self.conn
                .set_prepared_statement_cache_size(CacheSize::Unbounded);
            self.tables.forget_prepared();
        }
        // Who used the raw connection may have set one there.
        if self.instrumented || self.watch().is_none() {
            self.swap_instrumentation(DynInstrumentation::default_instrumentation());
            self.instrumented = false;
        }
        if !self.forget_session(reset, on_return) {
            return false;
        }
        self.notes
            .flags
            .clear(!(Flags::FAILED | Flags::SHARD_READ_ONLY));
        true
    }

    /// Takes back what the last user has set in the session, where the application asked for it.
    fn forget_session(&mut self, reset: bool, on_return: Option<&OnReturn<C>>) -> bool {
        if !reset && on_return.is_none() {
            return true;
        }
        // What is reset here may include that the shard is read-only; the next checkout says it anew.
        if self.set_shard_read_only(false).is_err() {
            return false;
        }
        let dirty = self.notes.flags.any(Flags::DIRTY);
        // A panic must not pass through r2d2, which would count the connection for ever.
        let forgotten = catch_unwind(AssertUnwindSafe(|| {
            (!reset
                || self
                    .muted(|conn| conn.reset_session(dirty))
                    .unwrap_or(false))
                && on_return.is_none_or(|f| self.muted(|conn| f(conn)).is_ok())
        }));
        forgotten.unwrap_or(false)
    }

    /// Tells the session whether it may write, where it does not know yet.
    pub(crate) fn set_shard_read_only(&mut self, read_only: bool) -> Result<(), DieselError> {
        if self.notes.flags.any(Flags::SHARD_READ_ONLY) == read_only {
            return Ok(());
        }
        let sql = session::read_only(self.notes.kind, read_only);
        let result = self.muted(|conn| conn.batch_execute(sql));
        match &result {
            Ok(()) if read_only => self.notes.flags.set(Flags::SHARD_READ_ONLY),
            Ok(()) => self.notes.flags.clear(Flags::SHARD_READ_ONLY),
            // A session that knows half of it is of no use to anybody.
            Err(_) => self.notes.flags.set(Flags::RETIRE),
        }
        result
    }

    /// Asks the session whether it reads texts as the rewriter does, where it has not been asked yet.
    /// Answers what differs; the connection is closed then.
    pub(crate) fn unfit_settings(&mut self) -> Result<Option<String>, DieselError> {
        if self.reads_as_we_do {
            return Ok(None);
        }
        let said = self.muted(NodeConnection::unfit_settings);
        match &said {
            Ok(None) => self.reads_as_we_do = true,
            Ok(Some(_)) | Err(_) => self.notes.flags.set(Flags::RETIRE),
        }
        said
    }

    /// Whether the test transaction of the connection is still there, as far as can be told.
    pub(crate) fn is_in_test_transaction(&mut self) -> bool {
        let probed = self.probe();
        let believed = match C::TransactionManager::transaction_manager_status_mut(&mut self.conn) {
            TransactionManagerStatus::Valid(valid) => valid.in_transaction.is_some(),
            TransactionManagerStatus::InError => false,
        };
        believed
            && !self.notes.flags.any(Flags::ENDED_BY_HAND)
            && matches!(
                probed,
                TransactionProbe::Open | TransactionProbe::Failed | TransactionProbe::Unknown
            )
    }

    /// Makes sure that a dirty connection has no transaction open, or only its test transaction.
    fn clean(&mut self, test_transaction: bool) -> bool {
        match self.probe() {
            TransactionProbe::Idle => !test_transaction,
            TransactionProbe::Open => test_transaction,
            TransactionProbe::Failed | TransactionProbe::Broken => false,
            TransactionProbe::Unknown if test_transaction => true,
            TransactionProbe::Unknown => {
                let sql = session::clean_mysql(self.home.as_deref());
                let cleaned = self.muted(|conn| conn.batch_execute(&sql)).is_ok();
                if cleaned {
                    // It answered, which is all that a health check asks.
                    self.notes.flags.clear(Flags::FAILED);
                }
                cleaned
            }
        }
    }

    /// The local transaction probe, unseen by the user's instrumentation.
    pub(crate) fn probe(&mut self) -> TransactionProbe {
        self.notes.flags.clear(Flags::UNPROBED);
        self.muted(NodeConnection::probe)
    }

    /// Runs something of our own without telling the user's instrumentation.
    pub(crate) fn muted<T>(&mut self, f: impl FnOnce(&mut C) -> T) -> T {
        self.mute(true);
        let answer = f(&mut self.conn);
        self.mute(false);
        answer
    }

    fn mute(&mut self, muted: bool) {
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
