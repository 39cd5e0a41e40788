//! The stacks that lie in one thread: its own, and above it those of the futures it is in the middle
//! of polling.

use std::iter;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};

use super::entries::{Entry, Stack, Token};
use super::{Kind, Located};
use crate::name::ShardName;
use crate::topology::TopologyId;

/// How many tokens a thread takes at once.
const BLOCK: u64 = 1 << 32;

/// How many removals of entries that could not be reached are remembered.
const MISSED: usize = 256;

#[derive(Debug)]
pub(super) struct Thread {
    /// The stack of what runs in this thread outside of any future that has its own.
    base: Stack,
    /// The stack of the innermost future that has its own and is being polled.
    inner: Option<Box<Layer>>,
    /// Entries whose guard went while their future was not being polled; they are removed when it is.
    missed: Vec<Token>,
    next: u64,
}

/// The stack of a future (or of a captured scope), and what lies beneath it while it is in force.
#[derive(Debug)]
pub(super) struct Layer {
    pub(super) stack: Stack,
    beneath: Option<Box<Layer>>,
}

impl Layer {
    pub(super) fn new(stack: Stack) -> Box<Self> {
        Box::new(Self {
            stack,
            beneath: None,
        })
    }
}

impl Thread {
    pub(super) const EMPTY: Self = Self {
        base: Stack::EMPTY,
        inner: None,
        missed: Vec::new(),
        next: 0,
    };

    /// The stack in force.
    #[inline]
    pub(super) fn stack(&self) -> &Stack {
        match &self.inner {
            None => &self.base,
            Some(layer) => &layer.stack,
        }
    }

    #[inline]
    fn stack_mut(&mut self) -> &mut Stack {
        match &mut self.inner {
            None => &mut self.base,
            Some(layer) => &mut layer.stack,
        }
    }

    /// Pushes an entry on the stack in force.
    #[inline]
    pub(super) fn push(&mut self, topology: TopologyId, mut kind: Kind) -> Token {
        if let Kind::Route(at) | Kind::Pin(at, _) = &mut kind {
            self.inherit(topology, at);
        }
        if self.next.is_multiple_of(BLOCK) {
            self.next = more_tokens();
        }
        let token = Token(self.next);
        self.next += 1;
        self.stack_mut().push(topology, token, kind);
        token
    }

    /// What an entry, or a checkout by name, takes from the entry beneath it.
    #[inline]
    pub(super) fn inherit(&self, topology: TopologyId, at: &mut Located) {
        if at.class.is_none() && (self.stack().has_classes() || self.inner.is_some()) {
            at.class = self.top(topology).and_then(|beneath| beneath.class);
        }
    }

    /// Removes an entry, wherever it lies by now.
    #[inline]
    pub(super) fn remove(&mut self, token: Token) {
        if !self.stack_mut().remove(token) {
            self.remove_elsewhere(token);
        }
    }

    #[cold]
    fn remove_elsewhere(&mut self, token: Token) {
        let mut layer = self.inner.as_deref_mut();
        while let Some(Layer { stack, beneath }) = layer {
            if stack.remove(token) {
                return;
            }
            layer = beneath.as_deref_mut();
        }
        if self.base.remove(token) {
            return;
        }
        // The guard was moved out of its future. The memory is bounded: what is not claimed belongs
        // to a future that is gone.
        if self.missed.len() == MISSED {
            self.missed.remove(0);
        }
        self.missed.push(token);
    }

    /// Puts a stack in force.
    #[inline]
    pub(super) fn enter(&mut self, mut layer: Box<Layer>) {
        if !self.missed.is_empty() {
            self.missed.retain(|token| !layer.stack.remove(*token));
        }
        layer.beneath = self.inner.take();
        self.inner = Some(layer);
    }

    /// Takes the stack in force out; what was beneath it is in force again.
    #[inline]
    pub(super) fn leave(&mut self) -> Option<Box<Layer>> {
        let mut layer = self.inner.take()?;
        self.inner = layer.beneath.take();
        Some(layer)
    }

    /// The stacks, the one in force first.
    fn stacks(&self) -> impl Iterator<Item = &Stack> {
        iter::successors(self.inner.as_deref(), |layer| layer.beneath.as_deref())
            .map(|layer| &layer.stack)
            .chain([&self.base])
    }

    /// Looks at what a scope of this topology sees, topmost first: the stack in force, beneath it the
    /// pins of the stacks around it, all of it down to the last barrier.
    #[inline]
    fn find<T>(&self, topology: TopologyId, pick: impl Fn(Kind) -> Option<T>) -> Option<T> {
        match self.stack().find(topology, &pick) {
            ControlFlow::Break(found) => found,
            ControlFlow::Continue(()) if self.inner.is_none() => None,
            ControlFlow::Continue(()) => self.find_beneath(topology, pick),
        }
    }

    fn find_beneath<T>(&self, topology: TopologyId, pick: impl Fn(Kind) -> Option<T>) -> Option<T> {
        for stack in self.stacks().skip(1).filter(|stack| stack.holds()) {
            let found = stack.find(topology, |kind| match kind {
                Kind::Route(_) => None,
                Kind::Pin(..) | Kind::Barrier => pick(kind),
            });
            if let ControlFlow::Break(found) = found {
                return found;
            }
        }
        None
    }

    #[inline]
    pub(super) fn top(&self, topology: TopologyId) -> Option<Located> {
        self.find(topology, Kind::located)
    }

    /// The shard of the topmost pin, and whether a transaction is open there.
    #[inline]
    pub(super) fn pin(&self, topology: TopologyId) -> Option<(ShardName, bool)> {
        if self.inner.is_none() && !self.base.holds() {
            return None;
        }
        self.find(topology, |kind| match kind {
            Kind::Pin(at, node) => Some((at.shard, node.is_some())),
            Kind::Route(_) | Kind::Barrier => None,
        })
    }

    /// All entries that count, topmost first, barriers included.
    pub(super) fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.stacks().enumerate().flat_map(|(depth, stack)| {
            let entries = stack.entries.iter().rev();
            entries.filter(move |entry| depth == 0 || !matches!(entry.kind, Kind::Route(_)))
        })
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.stack().entries.is_empty() && (self.inner.is_none() || self.depth() == 0)
    }

    pub(super) fn depth(&self) -> usize {
        let beneath: usize = self.stacks().skip(1).map(Stack::holding).sum();
        self.stack().entries.len() + beneath
    }
}

#[cold]
fn more_tokens() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(BLOCK);
    // The first of each block is left out: it is how a thread sees that it needs another.
    NEXT.fetch_add(BLOCK, Ordering::Relaxed) + 1
}
