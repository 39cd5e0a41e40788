//! The route stack: thread-local, one for all topologies of the process.
//!
//! An entry is a plain value, so pushing one neither allocates nor counts a reference. Entries of
//! several topologies lie in one stack; every question is asked for one topology and sees only its
//! entries. A [`Barrier`](Kind::Barrier) hides what lies beneath it from its own topology.
//!
//! A future that has its own stack ([`OwnStack`]) puts it in force at each poll and takes it out after
//! it; of the stacks beneath only the pins are seen meanwhile.

mod entries;
mod own;
mod thread;

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::Error;
use crate::name::{ShardName, WorkloadName};
use crate::rewrite::TableNumbers;
use crate::topology::{ShardIndex, TopologyId};
use entries::Token;
use thread::Thread;

#[cfg(any(feature = "bb8", feature = "macros"))]
pub(crate) use own::with_route;
pub(crate) use own::{Captured, OwnStack, capture, replacing};
#[cfg(feature = "bb8")]
pub(crate) use own::{with_barrier, with_pin};

thread_local! {
    static STACK: RefCell<Thread> = const { RefCell::new(Thread::EMPTY) };
}

/// A shard together with where the snapshot of one epoch has it, so that a checkout of the same
/// epoch need not look the name up again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Located {
    pub(crate) shard: ShardName,
    pub(crate) index: ShardIndex,
    pub(crate) epoch: u64,
    /// The workload class; an entry that names none takes that of the entry beneath it.
    pub(crate) class: Option<WorkloadName>,
    /// Which physical tables are meant; never taken from the entry beneath.
    pub(crate) tables: Option<TableNumbers>,
}

/// Tells the pools of all nodes apart for the life of the process; one that replaces another is
/// another.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct NodeId(u64);

impl NodeId {
    pub(crate) fn next() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    /// Work is to go to this shard.
    Route(Located),
    /// Work is to go to this shard and no other, and a transaction is open there in this scope, on a
    /// connection of this node. Without a node none is open: a migration is under way there.
    Pin(Located, Option<NodeId>),
    /// The topology starts anew here: no outer route, no outer pin.
    Barrier,
}

impl Kind {
    fn has_class(self) -> bool {
        match self {
            Self::Route(at) | Self::Pin(at, _) => at.class.is_some(),
            Self::Barrier => false,
        }
    }

    /// Where work goes by this entry.
    #[inline]
    fn located(self) -> Option<Located> {
        match self {
            Self::Route(at) | Self::Pin(at, _) => Some(at),
            Self::Barrier => None,
        }
    }
}

/// Removes its entry when it goes, wherever the entry lies by then.
#[derive(Debug)]
pub(crate) struct Scope {
    token: Token,
    /// The entry is in the stack of the thread that made the scope.
    _not_send: std::marker::PhantomData<*const ()>,
}

impl Scope {
    fn new(token: Token) -> Self {
        Self {
            token,
            _not_send: std::marker::PhantomData,
        }
    }
}

impl Drop for Scope {
    #[inline]
    fn drop(&mut self) {
        // While a thread ends its stack may be gone before a connection that lives in another
        // thread-local; then there is nothing left to remove.
        let _ = STACK.try_with(|thread| thread.borrow_mut().remove(self.token));
    }
}

/// Pushes a route, unless a pin of the topology holds the scope on another shard.
#[inline]
pub(crate) fn enter(topology: TopologyId, at: Located) -> Result<Scope, Error> {
    let entered = with(|thread| match thread.pin(topology) {
        Some((pinned, _)) if pinned != at.shard => Err(pinned),
        _ => Ok(Scope::new(thread.push(topology, Kind::Route(at)))),
    });
    match entered {
        Some(Ok(scope)) => Ok(scope),
        Some(Err(pinned)) => Err(pinned_elsewhere(pinned, at.shard)),
        None => Err(thread_is_ending()),
    }
}

/// Whether a route to this shard may be entered: not while the scope is pinned to another.
fn may_enter(thread: &Thread, topology: TopologyId, wanted: ShardName) -> Result<(), Error> {
    match thread.pin(topology) {
        Some((pinned, _)) if pinned != wanted => Err(pinned_elsewhere(pinned, wanted)),
        _ => Ok(()),
    }
}

#[cold]
fn pinned_elsewhere(pinned: ShardName, wanted: ShardName) -> Error {
    Error::PinnedElsewhere { pinned, wanted }
}

/// Pushes a route that is pinned, unless the scope is pinned already.
#[cfg(feature = "r2d2")]
pub(crate) fn pin(topology: TopologyId, at: Located, node: NodeId) -> Result<Scope, Error> {
    with(|thread| {
        may_check_out(thread, topology, at.shard)?;
        Ok(Scope::new(thread.push(topology, Kind::Pin(at, Some(node)))))
    })
    .unwrap_or_else(|| Err(thread_is_ending()))
}

/// Pushes a route that keeps the scope on its shard although no transaction is open there.
#[cfg(all(feature = "migrations", feature = "r2d2"))]
pub(crate) fn confine(topology: TopologyId, at: Located) -> Result<Scope, Error> {
    with(|thread| {
        may_check_out(thread, topology, at.shard)?;
        Ok(Scope::new(thread.push(topology, Kind::Pin(at, None))))
    })
    .unwrap_or_else(|| Err(thread_is_ending()))
}

/// Hides all routes and pins of the topology until the scope ends.
#[cfg(feature = "r2d2")]
pub(crate) fn barrier(topology: TopologyId) -> Option<Scope> {
    with(|thread| Scope::new(thread.push(topology, Kind::Barrier)))
}

/// Whether the scope may take a connection of this shard: not while it is pinned. Answers where the
/// connection is to come from, the inherited workload class included.
pub(crate) fn admit(topology: TopologyId, mut at: Located) -> Result<Located, Error> {
    with(|thread| {
        if thread.is_empty() {
            return Ok(at);
        }
        may_check_out(thread, topology, at.shard)?;
        thread.inherit(topology, &mut at);
        Ok(at)
    })
    .unwrap_or(Ok(at))
}

/// Whether a transaction of its own may begin on a connection of this shard: not while the scope is
/// pinned.
pub(crate) fn may_begin(topology: TopologyId, shard: ShardName) -> Result<(), Error> {
    with(|thread| may_check_out(thread, topology, shard)).unwrap_or(Ok(()))
}

fn may_check_out(thread: &Thread, topology: TopologyId, wanted: ShardName) -> Result<(), Error> {
    match thread.pin(topology) {
        None => Ok(()),
        Some((shard, true)) if shard == wanted => Err(Error::AlreadyInTransaction { shard }),
        Some((shard, false)) if shard == wanted => Ok(()),
        Some((pinned, _)) => Err(Error::PinnedElsewhere { pinned, wanted }),
    }
}

/// The topmost route of the topology.
#[inline]
pub(crate) fn top(topology: TopologyId) -> Option<Located> {
    with(|thread| thread.top(topology)).flatten()
}

/// The shards whose transactions the thread has open in this topology, with the node of each,
/// barriers or not; a shard comes once for each of its transactions.
pub(crate) fn held(topology: TopologyId) -> Vec<(ShardName, NodeId)> {
    with(|thread| {
        thread
            .entries()
            .filter(|entry| entry.topology == topology)
            .filter_map(|entry| match entry.kind {
                Kind::Pin(at, node) => node.map(|node| (at.shard, node)),
                Kind::Route(_) | Kind::Barrier => None,
            })
            .collect()
    })
    .unwrap_or_default()
}

/// Whether no route of any topology is in force in this thread.
#[inline]
pub(crate) fn is_empty() -> bool {
    with(|thread| thread.is_empty()).unwrap_or(true)
}

/// How many entries the thread's stack holds, of all topologies.
pub(crate) fn depth() -> usize {
    with(|thread| thread.depth()).unwrap_or(0)
}

/// `None` once the thread is ending and its stack is gone.
#[inline]
fn with<T>(f: impl FnOnce(&mut Thread) -> T) -> Option<T> {
    STACK.try_with(|thread| f(&mut thread.borrow_mut())).ok()
}

#[cold]
fn thread_is_ending() -> Error {
    Error::NoRoute { known: Vec::new() }
}
