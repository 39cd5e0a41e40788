//! The route stack: thread-local, one for all topologies of the process.
//!
//! An entry is a plain value, so pushing one neither allocates nor counts a reference. Entries of
//! several topologies lie in one stack; every question is asked for one topology and sees only its
//! entries. A [`Barrier`](Kind::Barrier) hides what lies beneath it from its own topology.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};

use smallvec::SmallVec;

use crate::error::Error;
use crate::name::{ShardName, WorkloadName};
use crate::topology::{ShardIndex, TopologyId};

/// Depth that fits without an allocation; deeper nesting is rare and still works.
const INLINE: usize = 4;

thread_local! {
    static STACK: RefCell<Stack> = const { RefCell::new(Stack::EMPTY) };
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
    /// Work is to go to this shard, and a transaction is open there in this scope, on a connection of
    /// this node.
    Pin(Located, NodeId),
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
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    topology: TopologyId,
    token: Token,
    kind: Kind,
}

/// Names one entry of one thread's stack, for ever.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Token(u64);

#[derive(Debug)]
struct Stack {
    entries: SmallVec<[Entry; INLINE]>,
    next: u64,
    /// How many entries name a workload class, so that the rest need not look for one.
    classed: u32,
    /// How many entries are pins, so that a stack without one is not searched for one.
    pins: u32,
    /// The stack that this one replaces for a while; a guard of it may still be dropped.
    outer: Option<Box<Stack>>,
}

impl Stack {
    const EMPTY: Self = Self {
        entries: SmallVec::new_const(),
        next: 0,
        classed: 0,
        pins: 0,
        outer: None,
    };

    #[inline]
    fn push(&mut self, topology: TopologyId, mut kind: Kind) -> Token {
        if let Kind::Route(at) | Kind::Pin(at, _) = &mut kind {
            self.inherit(topology, at);
        }
        self.count(kind, 1);
        let token = Token(self.next);
        self.next += 1;
        self.entries.push(Entry {
            topology,
            token,
            kind,
        });
        token
    }

    #[inline]
    fn count(&mut self, kind: Kind, step: i32) {
        if kind.has_class() {
            self.classed = self.classed.wrapping_add_signed(step);
        }
        if matches!(kind, Kind::Pin(..)) {
            self.pins = self.pins.wrapping_add_signed(step);
        }
    }

    /// What an entry, or a checkout by name, takes from the entry beneath it.
    #[inline]
    fn inherit(&self, topology: TopologyId, at: &mut Located) {
        if at.class.is_none() && self.classed > 0 {
            at.class = self.top(topology).and_then(|beneath| beneath.class);
        }
    }

    #[inline]
    fn remove(&mut self, token: Token) {
        // Nearly always the topmost entry, of a stack that has never been deep.
        match self.entries.last() {
            Some(last) if last.token == token && !self.entries.spilled() => {
                let kind = last.kind;
                self.entries.pop();
                self.count(kind, -1);
            }
            _ => self.remove_from_below(token),
        }
    }

    #[cold]
    fn remove_from_below(&mut self, token: Token) {
        if let Some(at) = self.entries.iter().rposition(|entry| entry.token == token) {
            let entry = self.entries.remove(at);
            self.count(entry.kind, -1);
            if self.entries.is_empty() && self.entries.spilled() {
                self.entries = SmallVec::new();
            }
        } else if let Some(outer) = &mut self.outer {
            outer.remove(token);
        }
    }

    /// What a scope of this topology sees, topmost first: everything above its last barrier.
    fn visible(&self, topology: TopologyId) -> impl Iterator<Item = &Entry> {
        self.entries
            .iter()
            .rev()
            .filter(move |entry| entry.topology == topology)
            .take_while(|entry| !matches!(entry.kind, Kind::Barrier))
    }

    fn top(&self, topology: TopologyId) -> Option<Located> {
        self.visible(topology).find_map(|entry| match entry.kind {
            Kind::Route(at) | Kind::Pin(at, _) => Some(at),
            Kind::Barrier => None,
        })
    }

    #[inline]
    fn pin(&self, topology: TopologyId) -> Option<ShardName> {
        if self.pins == 0 {
            return None;
        }
        self.visible(topology).find_map(|entry| match entry.kind {
            Kind::Pin(at, _) => Some(at.shard),
            Kind::Route(_) | Kind::Barrier => None,
        })
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
        let _ = STACK.try_with(|stack| stack.borrow_mut().remove(self.token));
    }
}

/// Pushes a route, unless a pin of the topology holds the scope on another shard.
#[inline]
pub(crate) fn enter(topology: TopologyId, at: Located) -> Result<Scope, Error> {
    let entered = with(|stack| {
        if !stack.entries.is_empty()
            && let Some(pinned) = stack.pin(topology)
            && pinned != at.shard
        {
            return Err(pinned);
        }
        Ok(Scope::new(stack.push(topology, Kind::Route(at))))
    });
    match entered {
        Some(Ok(scope)) => Ok(scope),
        Some(Err(pinned)) => Err(pinned_elsewhere(pinned, at.shard)),
        None => Err(thread_is_ending()),
    }
}

#[cold]
fn pinned_elsewhere(pinned: ShardName, wanted: ShardName) -> Error {
    Error::PinnedElsewhere { pinned, wanted }
}

/// Pushes a route that is pinned, unless the scope is pinned already.
pub(crate) fn pin(topology: TopologyId, at: Located, node: NodeId) -> Result<Scope, Error> {
    with(|stack| {
        may_check_out(stack, topology, at.shard)?;
        Ok(Scope::new(stack.push(topology, Kind::Pin(at, node))))
    })
    .unwrap_or_else(|| Err(thread_is_ending()))
}

/// Hides all routes and pins of the topology until the scope ends.
pub(crate) fn barrier(topology: TopologyId) -> Option<Scope> {
    with(|stack| Scope::new(stack.push(topology, Kind::Barrier)))
}

/// Whether the scope may take a connection of this shard: not while it is pinned. Answers where the
/// connection is to come from, the inherited workload class included.
pub(crate) fn admit(topology: TopologyId, mut at: Located) -> Result<Located, Error> {
    with(|stack| {
        if stack.entries.is_empty() {
            return Ok(at);
        }
        may_check_out(stack, topology, at.shard)?;
        stack.inherit(topology, &mut at);
        Ok(at)
    })
    .unwrap_or(Ok(at))
}

/// Whether a transaction of its own may begin on a connection of this shard: not while the scope is
/// pinned.
pub(crate) fn may_begin(topology: TopologyId, shard: ShardName) -> Result<(), Error> {
    with(|stack| may_check_out(stack, topology, shard)).unwrap_or(Ok(()))
}

fn may_check_out(stack: &Stack, topology: TopologyId, wanted: ShardName) -> Result<(), Error> {
    match stack.pin(topology) {
        None => Ok(()),
        Some(shard) if shard == wanted => Err(Error::AlreadyInTransaction { shard }),
        Some(pinned) => Err(Error::PinnedElsewhere { pinned, wanted }),
    }
}

/// The topmost route of the topology.
#[inline]
pub(crate) fn top(topology: TopologyId) -> Option<Located> {
    with(|stack| {
        if stack.entries.is_empty() {
            None
        } else {
            stack.top(topology)
        }
    })
    .flatten()
}

/// The shards whose transactions the thread has open in this topology, with the node of each,
/// barriers or not; a shard comes once for each of its transactions.
pub(crate) fn held(topology: TopologyId) -> Vec<(ShardName, NodeId)> {
    with(|stack| {
        stack
            .entries
            .iter()
            .filter(|entry| entry.topology == topology)
            .filter_map(|entry| match entry.kind {
                Kind::Pin(at, node) => Some((at.shard, node)),
                Kind::Route(_) | Kind::Barrier => None,
            })
            .collect()
    })
    .unwrap_or_default()
}

/// The topmost entry of each topology, without the pins' hold.
pub(crate) fn capture() -> SmallVec<[(TopologyId, Located); 1]> {
    with(|stack| {
        let mut topmost: SmallVec<[(TopologyId, Located); 1]> = SmallVec::new();
        let mut seen: SmallVec<[TopologyId; 2]> = SmallVec::new();
        for entry in stack.entries.iter().rev() {
            if seen.contains(&entry.topology) {
                continue;
            }
            seen.push(entry.topology);
            if let Kind::Route(at) | Kind::Pin(at, _) = entry.kind {
                topmost.push((entry.topology, at));
            }
        }
        topmost
    })
    .unwrap_or_default()
}

/// Puts the stack back that was replaced, when this goes.
#[derive(Debug)]
pub(crate) struct Replaced {
    _not_send: std::marker::PhantomData<*const ()>,
}

/// Replaces the thread's stack by its pins with these routes on top of them.
///
/// # Errors
///
/// [`Error::PinnedElsewhere`] when a pin holds the scope on another shard; the stack is untouched.
pub(crate) fn replace(routes: &[(TopologyId, Located)]) -> Result<Replaced, Error> {
    with(|stack| {
        let mut inner = Stack {
            entries: SmallVec::new(),
            // Tokens stay unique in the thread, so that a guard of the outer stack that is dropped
            // in here removes its own entry and no other.
            next: stack.next,
            classed: 0,
            pins: 0,
            outer: None,
        };
        for entry in &stack.entries {
            // A pin beneath a barrier is hidden, here as there.
            if matches!(entry.kind, Kind::Pin(..) | Kind::Barrier) {
                inner.push(entry.topology, entry.kind);
            }
        }
        for (topology, at) in routes {
            match inner.pin(*topology) {
                Some(pinned) if pinned != at.shard => {
                    return Err(Error::PinnedElsewhere {
                        pinned,
                        wanted: at.shard,
                    });
                }
                _ => {
                    inner.push(*topology, Kind::Route(*at));
                }
            }
        }
        let outer = std::mem::replace(stack, inner);
        stack.outer = Some(Box::new(outer));
        Ok(Replaced {
            _not_send: std::marker::PhantomData,
        })
    })
    .unwrap_or_else(|| Err(thread_is_ending()))
}

impl Drop for Replaced {
    fn drop(&mut self) {
        let _ = STACK.try_with(|stack| {
            let mut stack = stack.borrow_mut();
            if let Some(mut outer) = stack.outer.take() {
                outer.next = stack.next;
                *stack = *outer;
            }
        });
    }
}

/// Whether no route of any topology is in force in this thread.
#[inline]
pub(crate) fn is_empty() -> bool {
    with(|stack| stack.entries.is_empty()).unwrap_or(true)
}

/// How many entries the thread's stack holds, of all topologies.
pub(crate) fn depth() -> usize {
    with(|stack| stack.entries.len()).unwrap_or(0)
}

/// `None` once the thread is ending and its stack is gone.
#[inline]
fn with<T>(f: impl FnOnce(&mut Stack) -> T) -> Option<T> {
    STACK.try_with(|stack| f(&mut stack.borrow_mut())).ok()
}

#[cold]
fn thread_is_ending() -> Error {
    Error::NoRoute { known: Vec::new() }
}
