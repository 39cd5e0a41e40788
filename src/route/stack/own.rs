//! Stacks that are not the thread's: of futures, which take theirs along, and of captured scopes.

use std::marker::PhantomData;

use smallvec::SmallVec;

use super::entries::{Stack, Token};
use super::thread::{Layer, Thread};
use super::{Kind, Located, STACK, may_enter, thread_is_ending, with};
#[cfg(feature = "bb8")]
use super::{NodeId, may_check_out};
use crate::error::Error;
use crate::topology::TopologyId;

/// The topmost entry of each topology, as [`capture`] found it.
pub(crate) type Captured = SmallVec<[(TopologyId, Located); 1]>;

/// A stack that is in force only while it is entered, on whichever thread that is.
///
/// Entering it moves one pointer: the stack that was in force lies beneath it, and of that one only
/// pins and barriers are still seen.
#[derive(Debug)]
pub(crate) struct OwnStack {
    /// `None` only while it lies in a thread.
    layer: Option<Box<Layer>>,
}

impl OwnStack {
    /// A stack with these routes, of which the first is the topmost.
    pub(crate) fn of(routes: &[(TopologyId, Located)]) -> Self {
        let mut stack = Stack::EMPTY;
        for (topology, at) in routes.iter().rev() {
            stack.push(*topology, Token::LASTING, Kind::Route(*at));
        }
        Self {
            layer: Some(Layer::new(stack)),
        }
    }

    /// What is in force here, with one more entry on top of it.
    #[cfg(any(feature = "bb8", feature = "macros"))]
    fn extended(thread: &Thread, topology: TopologyId, mut kind: Kind) -> Self {
        if let Kind::Route(at) | Kind::Pin(at, _) = &mut kind {
            thread.inherit(topology, at);
        }
        let mut own = Self::of(&captured(thread));
        if let Some(layer) = &mut own.layer {
            layer.stack.push(topology, Token::LASTING, kind);
        }
        own
    }

    /// Puts the stack in force until the guard goes.
    #[inline]
    pub(crate) fn enter(&mut self) -> Inside<'_> {
        // While a thread ends its stack may be gone; then this one stays where it is.
        let _ = STACK.try_with(|thread| {
            if let Some(layer) = self.layer.take() {
                thread.borrow_mut().enter(layer);
            }
        });
        Inside {
            own: self,
            _not_send: PhantomData,
        }
    }
}

/// Keeps an [`OwnStack`] in force.
#[derive(Debug)]
pub(crate) struct Inside<'a> {
    own: &'a mut OwnStack,
    _not_send: PhantomData<*const ()>,
}

impl Drop for Inside<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.own.layer.is_none() {
            let layer = STACK.try_with(|thread| thread.borrow_mut().leave());
            self.own.layer = layer.ok().flatten();
        }
    }
}

/// The topmost entry of each topology, the topmost of all first, without the pins' hold.
pub(crate) fn capture() -> Captured {
    with(|thread| captured(thread)).unwrap_or_default()
}

fn captured(thread: &Thread) -> Captured {
    let mut topmost = Captured::new();
    let mut seen: SmallVec<[TopologyId; 2]> = SmallVec::new();
    for entry in thread.entries() {
        if seen.contains(&entry.topology) {
            continue;
        }
        seen.push(entry.topology);
        if let Some(at) = entry.kind.located() {
            topmost.push((entry.topology, at));
        }
    }
    topmost
}

/// A stack of these routes alone, for a scope that starts here.
///
/// # Errors
///
/// [`Error::PinnedElsewhere`] when a pin of the calling scope holds it on another shard.
pub(crate) fn replacing(routes: &[(TopologyId, Located)]) -> Result<OwnStack, Error> {
    with(|thread| {
        routes
            .iter()
            .try_for_each(|(topology, at)| may_enter(thread, *topology, at.shard))
    })
    .unwrap_or_else(|| Err(thread_is_ending()))?;
    Ok(OwnStack::of(routes))
}

/// What is in force here, with a route on top: for `on` in its async form.
///
/// # Errors
///
/// [`Error::PinnedElsewhere`] when a pin of the calling scope holds it on another shard.
#[cfg(any(feature = "bb8", feature = "macros"))]
pub(crate) fn with_route(topology: TopologyId, at: Located) -> Result<OwnStack, Error> {
    with(|thread| {
        may_enter(thread, topology, at.shard)?;
        Ok(OwnStack::extended(thread, topology, Kind::Route(at)))
    })
    .unwrap_or_else(|| Err(thread_is_ending()))
}

/// What is in force here, with a pin on top: for `transaction_on` in its async form.
///
/// # Errors
///
/// [`Error::AlreadyInTransaction`] and [`Error::PinnedElsewhere`] when the calling scope is pinned.
#[cfg(feature = "bb8")]
pub(crate) fn with_pin(topology: TopologyId, at: Located, node: NodeId) -> Result<OwnStack, Error> {
    with(|thread| {
        may_check_out(thread, topology, at.shard)?;
        Ok(OwnStack::extended(
            thread,
            topology,
            Kind::Pin(at, Some(node)),
        ))
    })
    .unwrap_or_else(|| Err(thread_is_ending()))
}

/// What is in force here, without any route or pin of this topology: for `independent` in its async
/// form.
#[cfg(feature = "bb8")]
pub(crate) fn with_barrier(topology: TopologyId) -> OwnStack {
    with(|thread| OwnStack::extended(thread, topology, Kind::Barrier))
        .unwrap_or_else(|| OwnStack::of(&[]))
}
