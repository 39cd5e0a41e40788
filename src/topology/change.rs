//! Changing a topology: one change at a time, checked before anybody works by it.

use std::cell::Cell;
use std::sync::{Arc, PoisonError};

use super::{Topology, TopologySpec, checked};
use crate::error::{ConfigErrors, ConfigProblem, Error};
use crate::topology::Snapshot;

/// The turn to change a topology; nobody else has it meanwhile. It may be kept across an `await`.
pub(crate) struct Turn {
    topology: Topology,
}

/// A change that is checked, and not in place yet.
pub(crate) struct Draft {
    spec: TopologySpec,
    pub(crate) current: Arc<Snapshot>,
    pub(crate) next: Arc<Snapshot>,
}

thread_local! {
    static CHANGING: Cell<bool> = const { Cell::new(false) };
}

/// A change that this thread is in the middle of. Another one inside it, by the closure that edits or
/// by an own connect function, would wait for itself.
pub(crate) struct Changing;

impl Changing {
    pub(crate) fn begin() -> Result<Self, Error> {
        if CHANGING.replace(true) {
            return Err(ConfigErrors(vec![ConfigProblem {
                origin: String::new(),
                key: String::new(),
                message: "a topology cannot be changed from inside a change of a topology: do it after the call has returned".to_owned(),
            }])
            .into());
        }
        Ok(Self)
    }
}

impl Drop for Changing {
    fn drop(&mut self) {
        CHANGING.set(false);
    }
}

impl Topology {
    /// Takes the turn, if nobody has it.
    #[cfg(feature = "bb8")]
    pub(crate) fn try_turn(&self) -> Option<Turn> {
        let mut taken = self
            .inner
            .turn
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        (!std::mem::replace(&mut *taken, true)).then(|| Turn {
            topology: self.clone(),
        })
    }

    /// Takes the turn, once nobody has it.
    #[cfg(feature = "r2d2")]
    pub(crate) fn turn(&self) -> Turn {
        let taken = self
            .inner
            .turn
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let mut taken = self
            .inner
            .turn_ended
            .wait_while(taken, |taken| *taken)
            .unwrap_or_else(PoisonError::into_inner);
        *taken = true;
        Turn {
            topology: self.clone(),
        }
    }
}

impl Turn {
    /// Makes the next snapshot of a changed description.
    pub(crate) fn draft(
        &self,
        edit: impl FnOnce(&TopologySpec) -> TopologySpec,
        origin: impl Fn(&str) -> String,
    ) -> Result<Draft, Error> {
        let inner = &self.topology.inner;
        let before = inner
            .spec
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let spec = edit(&before);
        let current = self.topology.snapshot();
        let mut next = checked(&spec, origin)?;
        next.epoch = current.epoch + 1;
        Ok(Draft {
            spec,
            current,
            next: Arc::new(next),
        })
    }

    /// Puts a change in place.
    pub(crate) fn put(&self, draft: Draft) {
        let inner = &self.topology.inner;
        inner.current.set(draft.next);
        *inner.spec.lock().unwrap_or_else(PoisonError::into_inner) = draft.spec;
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let inner = &self.topology.inner;
        *inner.turn.lock().unwrap_or_else(PoisonError::into_inner) = false;
        inner.turn_ended.notify_one();
    }
}
