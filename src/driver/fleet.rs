//! The nodes that a manager works with, kept in step with its topology.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;

use super::node_set::{NodeSet, Nodes, PoolNode};
use super::status::{NodeStatus, Status};
use crate::error::Error;
use crate::route::{Located, stack};
use crate::telemetry::{self, Reason};
use crate::topology::{Snapshot, Topology};

/// A topology and the nodes of its present state.
pub(crate) struct Fleet<N> {
    topology: Topology,
    nodes: ArcSwap<NodeSet<N>>,
    fallbacks: AtomicU64,
}

impl<N: PoolNode> Fleet<N> {
    pub(crate) fn new(topology: Topology, nodes: NodeSet<N>) -> Self {
        Self {
            topology,
            nodes: ArcSwap::from_pointee(nodes),
            fallbacks: AtomicU64::new(0),
        }
    }

    #[inline]
    pub(crate) fn topology(&self) -> &Topology {
        &self.topology
    }

    /// The nodes as they are, which may be those of an earlier state of the topology.
    #[inline]
    pub(crate) fn load(&self) -> Nodes<N> {
        self.nodes.load()
    }

    /// The nodes, where they are those of the topology as it is now.
    #[inline]
    pub(crate) fn current(&self) -> Option<Nodes<N>> {
        let nodes = self.nodes.load();
        (nodes.snapshot.epoch == self.topology.epoch()).then_some(nodes)
    }

    /// Catches up with a topology that somebody else has changed.
    pub(crate) fn follow(
        &self,
        snapshot: &Arc<Snapshot>,
        make: impl Fn(&NodeSet<N>) -> NodeSet<N>,
    ) {
        let before = self.nodes.rcu(|current| {
            if current.snapshot.epoch < snapshot.epoch {
                Arc::new(make(current))
            } else {
                Arc::clone(current)
            }
        });
        let after = self.nodes.load();
        after.expect(&before);
        for node in before.without(&after) {
            node.retire();
        }
    }

    /// Puts the nodes of a change in place, and retires those that are gone with it.
    pub(crate) fn put(&self, after: NodeSet<N>, before: &NodeSet<N>, retired: &[Arc<N>]) {
        after.expect(before);
        let after = Arc::new(after);
        self.nodes.rcu(|current| {
            // Somebody may have changed the topology once more meanwhile, and followed it.
            if current.snapshot.epoch < after.snapshot.epoch {
                Arc::clone(&after)
            } else {
                Arc::clone(current)
            }
        });
        for node in retired {
            node.retire();
        }
    }

    /// Where a checkout goes that names no shard.
    pub(crate) fn route_in_force(&self, nodes: &NodeSet<N>) -> Result<(Located, Reason), Error> {
        if let Some(at) = stack::top(self.topology.id()) {
            return Ok((at, Reason::Route));
        }
        match nodes.snapshot.default_shard {
            Some(index) => {
                let at = nodes.snapshot.located(index);
                self.fallbacks.fetch_add(1, Ordering::Relaxed);
                telemetry::fell_to_default(at.shard);
                Ok((at, Reason::Default))
            }
            None => Err(Error::NoRoute {
                known: nodes.snapshot.names(),
            }),
        }
    }

    pub(crate) fn status(&self) -> Status {
        let nodes = self.nodes.load();
        Status {
            epoch: nodes.snapshot.epoch,
            default_fallbacks: self.fallbacks.load(Ordering::Relaxed),
            nodes: nodes
                .pools()
                .map(|(node, state)| NodeStatus::of(&**node, state))
                .collect(),
        }
    }
}
