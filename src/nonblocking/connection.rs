//! The connection an application works with: a diesel-async connection that belongs to one shard.

use std::fmt;
use std::sync::Mutex;

use diesel::QueryResult;
use diesel::connection::{CacheSize, DynInstrumentation};
use diesel::result::Error as DieselError;
use diesel_async::TransactionManager;

use super::backend::AsyncNodeConnection;
use super::first_poll::MadeUnder;
use super::manager::AsyncShardedConnectionManager;
use super::node::Lease;
use super::outer::again;
use super::slot::Slot;
use crate::driver::{
    Denied, Flags, Hooks, OwnTables, ShardedTmState, open_depth, raw_under_table_route,
};
use crate::error::{Error, RollbackReason};
use crate::key::ToShardKey;
use crate::name::{Role, ShardName};
use crate::rewrite::TableNumbers;
use crate::route::{Located, stack};
use crate::telemetry::{self, Reason};
use crate::topology::{Topology, TopologyId};

/// A diesel-async connection to one shard, out of the pool of one of its nodes.
///
/// It belongs to its shard from checkout until it is returned; it never moves. All of diesel-async
/// works on it: `load`, `execute`, `returning`, streams, savepoints and, on PostgreSQL, pipelining on
/// `&conn`. Where a function wants the backend's own connection (`&mut AsyncPgConnection`), give it
/// [`inner`](Self::inner).
///
/// # Checks
///
/// Each statement first looks at the route stack, which costs a few nanoseconds:
///
/// - a connection that was bound by the stack refuses to work while the topmost route names another
///   shard ([`Error::RouteMismatch`]); one that was asked for by name refuses only while a
///   transaction is open on it;
/// - one that was asked for by key ([`Keyspace::get`](super::Keyspace::get)) refuses statements over sharded
///   tables of its keyspace while a route entered since means others of them
///   ([`Error::TableMismatch`]);
/// - in a transaction that is gone, because the server, a hand-written `COMMIT` or a cancelled future
///   ended it, further statements are refused ([`Error::RolledBack`]).
///
/// Nothing is sent in any of these cases. The look is taken where the statement is made (`.load(conn)`), and once
/// more where its future is first polled: a route in force there that names another shard is
/// [`Error::RouteMismatch`] as above, and one that means other sharded tables than those the statement was
/// made for is [`Error::TableMismatch`]. So put the call into the future that has the route:
/// `async { query.load(&mut conn).await }.with_route(route)`.
///
/// # Cancellation
///
/// Any future of this connection may be dropped at any point. What had been sent by then may have
/// happened or not, as with any client; a transaction whose future is dropped is rolled back, and
/// nobody else gets the connection before it is known to be clean. A MySQL connection whose statement
/// was dropped half-way refuses further ones and is closed; the others can be used on.
pub struct AsyncShardedConnection<C: AsyncNodeConnection> {
    pub(super) topology: TopologyId,
    pub(super) lease: Option<Lease<C>>,
    pub(super) by_stack: bool,
    /// The tables of the key that it was asked for by.
    pub(super) tables: Option<OwnTables>,
    /// This is the connection of the `transaction_on` that pins the scope.
    pub(super) owns_pin: bool,
    pub(super) tm: ShardedTmState,
    /// What is to be done after the commit.
    pub(super) hooks: Hooks,
    /// What a handle of an outer pool keeps while it is bound to nothing.
    pub(super) handle: Option<Box<Handle<C>>>,
}

/// The part of a connection that only handles of an outer pool have.
pub(super) struct Handle<C: AsyncNodeConnection> {
    pub(super) manager: AsyncShardedConnectionManager<C>,
    /// A binding that failed where no error could be given; the first statement gives it.
    pub(super) failed: Option<Error>,
    /// Where it belongs, once that is known, bound or not.
    pub(super) target: Option<(Located, Reason)>,
    /// Never waited for; it makes the connection `Sync`, which pipelining needs.
    pub(super) instrumentation: Mutex<DynInstrumentation>,
    pub(super) cache_size: Option<CacheSize>,
    /// The pool has not handed it out yet.
    pub(super) fresh: bool,
}

impl<C: AsyncNodeConnection> AsyncShardedConnection<C> {
    pub(super) fn bound(topology: TopologyId, lease: Lease<C>, by_stack: bool) -> Self {
        Self {
            topology,
            lease: Some(lease),
            by_stack,
            tables: None,
            owns_pin: false,
            tm: ShardedTmState::default(),
            hooks: Hooks::default(),
            handle: None,
        }
    }

    pub(super) fn unbound(manager: AsyncShardedConnectionManager<C>) -> Self {
        Self {
            topology: manager.topology().id(),
            lease: None,
            by_stack: true,
            tables: None,
            owns_pin: false,
            tm: ShardedTmState::default(),
            hooks: Hooks::default(),
            handle: Some(Box::new(Handle {
                manager,
                failed: None,
                target: None,
                instrumentation: Mutex::new(DynInstrumentation::default_instrumentation()),
                cache_size: None,
                fresh: true,
            })),
        }
    }

    /// The shard this connection belongs to; `None` only for a connection out of an outer pool that
    /// was checked out under no route and with no default.
    #[must_use]
    pub fn shard(&self) -> Option<ShardName> {
        self.lease.as_ref().map(|lease| lease.node().shard())
    }

    /// The role of the node this connection talks to; `None` while [`shard`](Self::shard) is.
    #[must_use]
    pub fn role(&self) -> Option<Role> {
        self.lease.as_ref().map(|lease| lease.node().role())
    }

    /// Checks that a key of a keyspace belongs to this connection's shard, for code that wants to
    /// be sure before it writes.
    ///
    /// # Errors
    ///
    /// [`Error::WrongShard`] when it belongs elsewhere, and everything that locating a key can
    /// answer.
    pub fn ensure_owns<K>(&mut self, keyspace: &str, key: &K) -> Result<(), Error>
    where
        K: ToShardKey + ?Sized,
    {
        self.ready()?;
        let Some(lease) = &self.lease else {
            unreachable!("a ready connection is bound");
        };
        let node = lease.node();
        node.topology().ensure_owner(keyspace, key, node.shard())
    }

    /// The physical connection, after the same check as before a statement: for `LISTEN` and its
    /// stream of notifications, cancel tokens, functions written for the backend's own type.
    ///
    /// What runs on it is not seen by this crate, so the connection is looked at more closely before
    /// a commit and when it goes back to its pool. Table names are not rewritten there, so it is out of
    /// reach while the route in force means physical tables: enter a route without them first
    /// (`on(shard, ..)`).
    ///
    /// # Errors
    ///
    /// Those of a statement that may not run; see [the checks](Self#checks).
    /// [`Error::Unrewritable`] under a route that means physical tables, and on a connection of a key;
    /// [`Error::TableMismatch`] on such a one under a route to another key of its keyspace, entered since.
    pub fn inner(&mut self) -> QueryResult<&mut C> {
        let tables = self.table_route();
        let slot = self.ready()?;
        if slot.rewriter().is_needed() {
            tables.check_raw(slot.notes.shard)?;
        }
        slot.notes.flags.set(Flags::DIRTY | Flags::UNPROBED);
        Ok(&mut slot.conn)
    }

    /// Checks that a statement may run on the connection.
    #[inline]
    pub(super) fn ready(&mut self) -> Result<&mut Slot<C>, Error> {
        // A bound connection outside of any transaction and any route: nothing can be wrong.
        if self.lease.is_none() || self.tm.depth() > 0 || !stack::is_empty() {
            self.check()?;
        }
        let Some(lease) = &mut self.lease else {
            unreachable!("the check answers an error for what is not bound");
        };
        let slot = lease.slot_mut();
        if slot.notes.flags.any(Flags::UNUSABLE) {
            return Err(interrupted(slot.notes.shard));
        }
        Ok(slot)
    }

    #[cold]
    fn check(&mut self) -> Result<(), Error> {
        let Some(lease) = &mut self.lease else {
            return Err(self.why_unbound());
        };
        let (bound, slot) = (lease.node().shard(), lease.slot_mut());
        let open = self.by_stack || self.tm.depth() > 0 || open_depth(slot.status()) > 0;
        check_route(self.topology, bound, open)?;
        if self.tm.depth() > 0
            && let Some(reason) = lost(&mut self.tm, slot)
        {
            return Err(Error::RolledBack {
                shard: bound,
                reason,
                source: None,
            });
        }
        Ok(())
    }

    /// Like [`ready`](Self::ready) for a shared connection, whose statements are pipelined.
    #[cfg(feature = "async-postgres")]
    pub(super) fn ready_shared(&self) -> Result<&Slot<C>, Error> {
        let Some(lease) = &self.lease else {
            return Err(self.why_unbound());
        };
        let (bound, slot) = (lease.node().shard(), lease.slot());
        let flags = &slot.notes.flags;
        if !stack::is_empty() {
            check_route(self.topology, bound, self.by_stack || self.tm.depth() > 0)?;
        }
        if self.tm.depth() > 0
            && let Some(reason) = self.tm.known_lost(flags)
        {
            return Err(Error::RolledBack {
                shard: bound,
                reason,
                source: None,
            });
        }
        if flags.any(Flags::UNUSABLE) {
            return Err(interrupted(bound));
        }
        Ok(slot)
    }

    /// Which physical tables are meant.
    pub(super) fn table_route(&self) -> TableRoute {
        let top = stack::top(self.topology);
        let numbers = match &self.tables {
            Some(own) => own.under(top),
            None => top.and_then(|at| at.tables.filter(|_| Some(at.shard) == self.shard())),
        };
        TableRoute {
            numbers,
            denied: self.tables.as_ref().and_then(|own| own.denied(top)),
            topology: numbers
                .and(self.lease.as_ref())
                .map(|lease| lease.node().topology().clone()),
        }
    }

    /// What it takes to make a statement: its tables, what to look at again where it is first polled, and
    /// where it goes, unless it may not run.
    pub(super) fn start_statement(
        &mut self,
    ) -> (TableRoute, MadeUnder<'_>, Result<&mut Slot<C>, Error>) {
        let tables = self.table_route();
        let ready = self.ready().map(drop);
        let watched = self.by_stack || self.tm.depth() > 0;
        let (bound, own) = (self.shard(), self.tables.as_ref());
        let under = MadeUnder::new(self.topology, bound, watched, own, tables.numbers);
        let slot = ready.map(|()| match &mut self.lease {
            Some(lease) => lease.slot_mut(),
            None => unreachable!("a ready connection is bound"),
        });
        (tables, under, slot)
    }

    /// [`start_statement`](Self::start_statement) for a shared connection.
    #[cfg(feature = "async-postgres")]
    pub(super) fn start_shared(&self) -> (TableRoute, MadeUnder<'_>, Result<&Slot<C>, Error>) {
        let tables = self.table_route();
        let watched = self.by_stack || self.tm.depth() > 0;
        let (bound, own) = (self.shard(), self.tables.as_ref());
        let under = MadeUnder::new(self.topology, bound, watched, own, tables.numbers);
        (tables, under, self.ready_shared())
    }

    /// Why a handle of an outer pool is bound to nothing: each statement says it until the next
    /// checkout.
    fn why_unbound(&self) -> Error {
        let failed = self
            .handle
            .as_ref()
            .and_then(|handle| handle.failed.as_ref());
        failed.map_or_else(|| self.no_route(), again)
    }

    fn no_route(&self) -> Error {
        Error::NoRoute {
            known: self
                .handle
                .as_ref()
                .map(|handle| handle.manager.shards())
                .unwrap_or_default(),
        }
    }

    /// Why the transaction of this scope is gone, if it is.
    pub(super) fn lost(&mut self) -> Option<RollbackReason> {
        lost(&mut self.tm, self.lease.as_mut()?.slot_mut())
    }

    /// The depth Diesel believes in, without a test transaction.
    pub(super) fn open_depth(&mut self) -> u32 {
        self.slot_mut().map_or(0, |slot| open_depth(slot.status()))
    }

    pub(super) fn slot_mut(&mut self) -> Option<&mut Slot<C>> {
        self.lease.as_mut().map(Lease::slot_mut)
    }

    pub(super) fn rolled_back(&self, reason: RollbackReason, source: Option<DieselError>) -> Error {
        match self.shard() {
            Some(shard) => Error::RolledBack {
                shard,
                reason,
                source: source.map(Into::into),
            },
            None => unreachable!("an unbound connection has no transaction"),
        }
    }

    /// Has the connection closed when it comes back.
    pub(super) fn retire(&mut self) {
        if let Some(slot) = self.slot_mut() {
            slot.notes.flags.set(Flags::RETIRE);
        }
    }

    /// The future of a transaction was dropped: what is open is rolled back before anybody else gets
    /// the connection, and nothing more is sent in it.
    pub(super) fn abandon(&mut self) {
        self.tm.lost.get_or_insert(RollbackReason::Cancelled);
        if let Some(slot) = self.slot_mut() {
            slot.notes.interrupted(true);
        }
    }
}

/// The physical tables that a statement means, and where their keys are placed.
pub(super) struct TableRoute {
    pub(super) numbers: Option<TableNumbers>,
    /// There where the numbers are.
    pub(super) topology: Option<Topology>,
    /// Why there are none, where the route in force means other tables than the connection's own.
    denied: Option<Denied>,
}

impl TableRoute {
    /// The error of a statement that was made for these tables, with the reason why it has none.
    #[cold]
    pub(super) fn explain(&self, shard: ShardName, error: DieselError) -> DieselError {
        match self.denied {
            Some(denied) => denied.explain(shard, error),
            None => error,
        }
    }

    /// Refuses the raw connection where physical tables are meant, or others than the connection's own.
    fn check_raw(&self, shard: ShardName) -> Result<(), Error> {
        if self.numbers.is_some() {
            return Err(raw_under_table_route(shard));
        }
        self.denied.map_or(Ok(()), |denied| Err(denied.told(shard)))
    }
}

fn check_route(topology: TopologyId, bound: ShardName, watched: bool) -> Result<(), Error> {
    if let Some(at) = stack::top(topology)
        && at.shard != bound
        && watched
    {
        let error = Error::RouteMismatch {
            bound,
            routed: at.shard,
        };
        telemetry::refused(&error);
        return Err(error);
    }
    Ok(())
}

#[cold]
fn interrupted(shard: ShardName) -> Error {
    Error::RolledBack {
        shard,
        reason: RollbackReason::Cancelled,
        source: None,
    }
}

fn lost<C: AsyncNodeConnection>(
    tm: &mut ShardedTmState,
    slot: &mut Slot<C>,
) -> Option<RollbackReason> {
    if let Some(reason) = tm.known_lost(&slot.notes.flags) {
        tm.lost = Some(reason);
        return tm.lost;
    }
    slot.look_again();
    let status = C::TransactionManager::transaction_manager_status_mut(&mut slot.conn);
    tm.lost(&slot.notes, status)
}

impl<C: AsyncNodeConnection> fmt::Debug for AsyncShardedConnection<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AsyncShardedConnection")
            .field("shard", &self.shard())
            .field("role", &self.role())
            .finish_non_exhaustive()
    }
}

impl<C: AsyncNodeConnection> Drop for AsyncShardedConnection<C> {
    fn drop(&mut self) {
        if self.tm.depth() > 0 {
            // Whatever became of it, a scope that did not end well is rolled back first.
            self.abandon();
        }
    }
}
