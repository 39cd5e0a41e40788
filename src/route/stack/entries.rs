//! What one stack holds: entries, and the questions that are asked of them.

use std::ops::ControlFlow;

use smallvec::SmallVec;

use super::Kind;
use crate::topology::TopologyId;

/// Depth that fits without an allocation; deeper nesting is rare and still works.
const INLINE: usize = 4;

/// Names one entry for ever, in the whole process: a future carries its entries to other threads.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Token(pub(super) u64);

impl Token {
    /// The token of entries that stay as long as their stack; no scope has it.
    pub(super) const LASTING: Self = Self(0);
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) topology: TopologyId,
    pub(super) token: Token,
    pub(super) kind: Kind,
}

#[derive(Debug)]
pub(super) struct Stack {
    pub(super) entries: SmallVec<[Entry; INLINE]>,
    /// How many entries name a workload class, so that the rest need not look for one.
    classed: u32,
    /// How many entries are pins or barriers, so that a stack without one is not searched for one.
    holding: u32,
}

impl Stack {
    pub(super) const EMPTY: Self = Self {
        entries: SmallVec::new_const(),
        classed: 0,
        holding: 0,
    };

    #[inline]
    pub(super) fn push(&mut self, topology: TopologyId, token: Token, kind: Kind) {
        self.count(kind, 1);
        self.entries.push(Entry {
            topology,
            token,
            kind,
        });
    }

    #[inline]
    fn count(&mut self, kind: Kind, step: i32) {
        if kind.has_class() {
            self.classed = self.classed.wrapping_add_signed(step);
        }
        if !matches!(kind, Kind::Route(_)) {
            self.holding = self.holding.wrapping_add_signed(step);
        }
    }

    /// Whether some entry names a workload class.
    #[inline]
    pub(super) fn has_classes(&self) -> bool {
        self.classed > 0
    }

    /// Whether some entry is a pin or a barrier.
    #[inline]
    pub(super) fn holds(&self) -> bool {
        self.holding > 0
    }

    /// How many entries are pins or barriers.
    pub(super) fn holding(&self) -> usize {
        self.holding as usize
    }

    /// Removes an entry; answers whether it was here.
    #[inline]
    pub(super) fn remove(&mut self, token: Token) -> bool {
        // Nearly always the topmost entry, of a stack that has never been deep.
        match self.entries.last() {
            Some(last) if last.token == token && !self.entries.spilled() => {
                let kind = last.kind;
                self.entries.pop();
                self.count(kind, -1);
                true
            }
            _ => self.remove_from_below(token),
        }
    }

    #[cold]
    fn remove_from_below(&mut self, token: Token) -> bool {
        let Some(at) = self.entries.iter().rposition(|entry| entry.token == token) else {
            return false;
        };
        let entry = self.entries.remove(at);
        self.count(entry.kind, -1);
        if self.entries.is_empty() && self.entries.spilled() {
            self.entries = SmallVec::new();
        }
        true
    }

    /// Looks at the entries of a topology, topmost first, until `pick` takes one or a barrier hides
    /// the rest; a barrier breaks with `None`.
    #[inline]
    pub(super) fn find<T>(
        &self,
        topology: TopologyId,
        pick: impl Fn(Kind) -> Option<T>,
    ) -> ControlFlow<Option<T>> {
        for entry in self.entries.iter().rev() {
            if entry.topology != topology {
                continue;
            }
            if matches!(entry.kind, Kind::Barrier) {
                return ControlFlow::Break(None);
            }
            if let Some(found) = pick(entry.kind) {
                return ControlFlow::Break(Some(found));
            }
        }
        ControlFlow::Continue(())
    }
}
