//! Reading the current snapshot at the cost of a comparison.
//!
//! An atomic pointer that may be swapped costs two atomic read-modify-writes per look, which is more
//! than the rest of a route. So each thread keeps the snapshot it saw last and compares its epoch.
//! What it keeps is at most [`KEPT`] snapshots, each until the thread looks again after a change.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;
use smallvec::SmallVec;

use super::TopologyId;
use super::snapshot::Snapshot;

/// Topologies that one thread remembers; a thread that works with more of them pays the swap.
const KEPT: usize = 4;

type Seen = SmallVec<[(TopologyId, Arc<Snapshot>); 1]>;

thread_local! {
    static SEEN: RefCell<Seen> = const { RefCell::new(SmallVec::new_const()) };
}

/// The current snapshot of a topology.
pub(super) struct Current {
    topology: TopologyId,
    epoch: AtomicU64,
    snapshot: ArcSwap<Snapshot>,
}

impl Current {
    pub(super) fn new(topology: TopologyId, snapshot: Snapshot) -> Self {
        Self {
            topology,
            epoch: AtomicU64::new(snapshot.epoch),
            snapshot: ArcSwap::from_pointee(snapshot),
        }
    }

    /// Looks at the current snapshot. `f` may look at topologies itself.
    #[inline]
    pub(super) fn with<T>(&self, f: impl FnOnce(&Snapshot) -> T) -> T {
        let epoch = self.epoch.load(Ordering::Acquire);
        let mut f = Some(f);
        let known = SEEN.try_with(|seen| {
            let seen = seen.try_borrow().ok()?;
            let (_, snapshot) = seen.iter().find(|(topology, snapshot)| {
                *topology == self.topology && snapshot.epoch == epoch
            })?;
            f.take().map(|f| f(snapshot))
        });
        match (known, f) {
            (Ok(Some(answer)), _) => answer,
            (_, Some(f)) => f(&self.look_up()),
            (_, None) => unreachable!("the closure is taken only to answer"),
        }
    }

    #[cold]
    fn look_up(&self) -> Arc<Snapshot> {
        let snapshot = self.snapshot.load_full();
        let _ = SEEN.try_with(|seen| {
            // Busy only inside another look, which then simply does not remember this one.
            if let Ok(mut seen) = seen.try_borrow_mut() {
                seen.retain(|(topology, _)| *topology != self.topology);
                if seen.len() >= KEPT {
                    seen.remove(0);
                }
                seen.push((self.topology, Arc::clone(&snapshot)));
            }
        });
        snapshot
    }

    /// Puts the next snapshot in place. Whoever looks from now on sees it.
    #[cfg(any(feature = "r2d2", feature = "bb8"))]
    pub(super) fn set(&self, snapshot: Arc<Snapshot>) {
        let epoch = snapshot.epoch;
        self.snapshot.store(snapshot);
        // Last, so that a thread that sees the new epoch finds the new snapshot.
        self.epoch.store(epoch, Ordering::Release);
    }

    /// The number of the current snapshot.
    #[inline]
    pub(super) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// The current snapshot, to keep.
    #[cfg(any(feature = "r2d2", feature = "bb8"))]
    pub(super) fn get(&self) -> Arc<Snapshot> {
        self.snapshot.load_full()
    }
}
