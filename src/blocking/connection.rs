//! The connection an application works with: a Diesel connection that belongs to one shard.

use std::fmt;
use std::ops::{Deref, DerefMut};

use diesel::QueryResult;
use diesel::connection::{
    CacheSize, DynInstrumentation, TransactionManager, TransactionManagerStatus,
};
use diesel::result::Error as DieselError;

use super::backend::NodeConnection;
use super::manager::ShardedConnectionManager;
use super::node::Lease;
use super::slot::Slot;
use crate::driver::{
    Denied, Flags, Hooks, OwnTables, ShardedTmState, TransactionProbe, open_depth, panic_of_deref,
    raw_under_table_route,
};
use crate::error::{Error, RollbackReason};
use crate::key::ToShardKey;
use crate::name::{Role, ShardName};
use crate::rewrite::TableNumbers;
use crate::route::{Located, stack};
use crate::telemetry::{self, Reason};
use crate::topology::{Topology, TopologyId, UrlKind};

/// A Diesel connection to one shard, out of the pool of one of its nodes.
///
/// It belongs to its shard from checkout until it is returned; it never moves. Diesel's whole
/// interface works on it, and where a function wants the backend's own connection
/// (`&mut PgConnection`), a `&mut ShardedConnection<PgConnection>` is accepted too, because it
/// dereferences to it.
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
/// - in a transaction that is gone, because the server or a hand-written `COMMIT` ended it, further
///   statements are refused ([`Error::RolledBack`]).
///
/// Nothing is sent in any of these cases.
pub struct ShardedConnection<C: NodeConnection> {
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
pub(super) struct Handle<C: NodeConnection> {
    pub(super) manager: ShardedConnectionManager<C>,
    /// A binding that failed where no error could be given; the first statement gives it.
    pub(super) failed: Option<Error>,
    /// Where it belongs, once that is known, bound or not.
    pub(super) target: Option<(Located, Reason)>,
    pub(super) instrumentation: DynInstrumentation,
    pub(super) cache_size: Option<CacheSize>,
    /// The pool has not handed it out yet.
    pub(super) fresh: bool,
}

impl<C: NodeConnection> ShardedConnection<C> {
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

    pub(super) fn unbound(manager: ShardedConnectionManager<C>) -> Self {
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
                instrumentation: DynInstrumentation::default_instrumentation(),
                cache_size: None,
                fresh: true,
            })),
        }
    }

    /// The shard this connection belongs to; `None` only for a connection out of an outer pool that
    /// no statement has bound yet.
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
    /// answer. An unbound connection is bound first, as by a statement.
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

    /// The physical connection, after the same check as before a statement.
    ///
    /// What runs on it is not seen by this crate, so the connection is looked at more closely when
    /// it goes back to its pool. Table names are not rewritten there, so it is out of reach while the
    /// route in force means physical tables: enter a route without them first (`on(shard, ..)`).
    ///
    /// # Errors
    ///
    /// Those of a statement that may not run; see [the checks](Self#checks).
    /// [`Error::Unrewritable`] under a route that means physical tables, and on a connection of a key;
    /// [`Error::TableMismatch`] on such a one under a route to another key of its keyspace, entered since.
    pub fn inner(&mut self) -> QueryResult<&mut C> {
        Ok(self.raw()?)
    }

    /// Binds the connection if it is unbound, and checks that a statement may run on it.
    #[inline]
    pub(super) fn ready(&mut self) -> Result<&mut Slot<C>, Error> {
        Ok(self.ready_with_tables()?.slot)
    }

    /// Like [`ready`](Self::ready), and answers which physical tables are meant.
    #[inline]
    pub(super) fn ready_with_tables(&mut self) -> Result<Ready<'_, C>, Error> {
        // A bound connection outside of any transaction and any route: nothing can be wrong.
        let mut numbers = self.tables.as_ref().map(OwnTables::numbers);
        if self.lease.is_none() || self.tm.depth() > 0 || !stack::is_empty() {
            numbers = self.make_ready()?;
        }
        match &mut self.lease {
            Some(lease) => {
                let (slot, node) = lease.split();
                Ok(Ready {
                    slot,
                    meant: Meant {
                        numbers,
                        topology: node.topology(),
                        own: self.tables.as_ref(),
                    },
                })
            }
            None => unreachable!("binding answers an error or binds"),
        }
    }

    /// Answers the table numbers that are meant: the connection's own, as far as the route lets them, or
    /// those of the route, where it is one to this connection's shard.
    fn make_ready(&mut self) -> Result<Option<TableNumbers>, Error> {
        if self.lease.is_none() {
            self.bind_for_statement()?;
        }
        let Some(lease) = &mut self.lease else {
            unreachable!("binding answers an error or binds");
        };
        let mut numbers = None;
        let top = stack::top(self.topology);
        if let Some(at) = top {
            let bound = lease.node().shard();
            if at.shard == bound {
                numbers = at.tables;
            } else if self.by_stack || open_depth(status(lease.slot_mut())) > 0 {
                let error = Error::RouteMismatch {
                    bound,
                    routed: at.shard,
                };
                telemetry::refused(&error);
                return Err(error);
            }
        }
        if let Some(own) = &self.tables {
            numbers = own.under(top);
        }
        if self.tm.depth() > 0
            && let Some(reason) = lost(&mut self.tm, lease.slot_mut())
        {
            return Err(Error::RolledBack {
                shard: lease.node().shard(),
                reason,
                source: None,
            });
        }
        Ok(numbers)
    }

    /// Why the transaction of this scope is gone, if it is.
    pub(super) fn lost(&mut self) -> Option<RollbackReason> {
        lost(&mut self.tm, self.lease.as_mut()?.slot_mut())
    }

    /// The depth Diesel believes in, without a test transaction.
    pub(super) fn open_depth(&mut self) -> u32 {
        self.lease
            .as_mut()
            .map_or(0, |lease| open_depth(status(lease.slot_mut())))
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

    fn raw(&mut self) -> Result<&mut C, Error> {
        let Ready { slot, meant } = self.ready_with_tables()?;
        if slot.tables.is_needed() {
            meant.check_raw(slot.notes.shard)?;
        }
        slot.notes.flags.set(Flags::DIRTY | Flags::UNPROBED);
        Ok(&mut slot.conn)
    }
}

/// A connection that a statement may run on.
pub(super) struct Ready<'a, C: NodeConnection> {
    pub(super) slot: &'a mut Slot<C>,
    pub(super) meant: Meant<'a>,
}

/// The physical tables that a statement means.
#[derive(Clone, Copy)]
pub(super) struct Meant<'a> {
    pub(super) numbers: Option<TableNumbers>,
    pub(super) topology: &'a Topology,
    /// Those of the connection, whatever the route makes of them.
    own: Option<&'a OwnTables>,
}

impl Meant<'_> {
    /// Why there are no numbers, where the route in force means other tables than the connection's own.
    fn denied(&self) -> Option<Denied> {
        self.own?.denied(stack::top(self.topology.id()))
    }

    /// The error of a statement that was made for these tables, with the reason why it has none.
    #[cold]
    pub(super) fn explain(&self, shard: ShardName, error: DieselError) -> DieselError {
        match self.denied() {
            Some(denied) => denied.explain(shard, error),
            None => error,
        }
    }

    /// Refuses the raw connection where physical tables are meant, or others than the connection's own.
    fn check_raw(&self, shard: ShardName) -> Result<(), Error> {
        if self.numbers.is_some() {
            return Err(raw_under_table_route(shard));
        }
        self.denied()
            .map_or(Ok(()), |denied| Err(denied.told(shard)))
    }
}

fn status<C: NodeConnection>(slot: &mut Slot<C>) -> &mut TransactionManagerStatus {
    C::TransactionManager::transaction_manager_status_mut(&mut slot.conn)
}

/// Finds out whether the transaction that our bookkeeping has open is still there.
fn lost<C: NodeConnection>(tm: &mut ShardedTmState, slot: &mut Slot<C>) -> Option<RollbackReason> {
    // SQLite tells Diesel that it has left a transaction only when it is asked.
    if slot.notes.kind == UrlKind::Sqlite
        && slot.notes.flags.any(Flags::UNPROBED)
        && tm.lost.is_none()
        && slot.probe() == TransactionProbe::Broken
    {
        slot.notes.flags.set(Flags::LOST);
    }
    let status = C::TransactionManager::transaction_manager_status_mut(&mut slot.conn);
    tm.lost(&slot.notes, status)
}

impl<C: NodeConnection> Deref for ShardedConnection<C> {
    type Target = C;

    /// The physical connection, after the same check as before a statement.
    ///
    /// # Panics
    ///
    /// With the text of the error that a statement would have answered; [`inner`](Self::inner) is
    /// the form that returns it. A connection out of an outer pool that is not bound yet panics
    /// too: binding needs `&mut`.
    fn deref(&self) -> &C {
        let Some(lease) = &self.lease else {
            panic!("this connection is not bound to a shard yet: use it mutably first");
        };
        let watched = self.by_stack || self.tm.depth() > 0;
        let top = stack::top(self.topology);
        let bound = lease.node().shard();
        let meant = Meant {
            numbers: match &self.tables {
                Some(own) => own.under(top),
                None => top.filter(|at| at.shard == bound).and_then(|at| at.tables),
            },
            topology: lease.node().topology(),
            own: self.tables.as_ref(),
        };
        if lease.slot().tables.is_needed()
            && let Err(error) = meant.check_raw(bound)
        {
            panic!("{}", panic_of_deref(&error));
        }
        if let (Some(at), true) = (top, watched)
            && at.shard != bound
        {
            panic!(
                "{}",
                Error::RouteMismatch {
                    bound,
                    routed: at.shard
                }
            );
        }
        &lease.slot().conn
    }
}

impl<C: NodeConnection> DerefMut for ShardedConnection<C> {
    /// The physical connection, after the same check as before a statement.
    ///
    /// # Panics
    ///
    /// With the text of the error that a statement would have answered; [`inner`](Self::inner) is
    /// the form that returns it.
    fn deref_mut(&mut self) -> &mut C {
        match self.raw() {
            Ok(conn) => conn,
            Err(error) => panic!("{}", panic_of_deref(&error)),
        }
    }
}

impl<C: NodeConnection> fmt::Debug for ShardedConnection<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ShardedConnection")
            .field("shard", &self.shard())
            .field("role", &self.role())
            .finish_non_exhaustive()
    }
}

impl<C: NodeConnection> Drop for ShardedConnection<C> {
    fn drop(&mut self) {
        if self.tm.depth() > 0 {
            // Whatever became of it, a scope that did not end well leaves nothing to reuse.
            self.retire();
        }
    }
}
