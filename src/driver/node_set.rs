//! The nodes of one snapshot, in its order.

use std::sync::Arc;

use super::node::NodeState;
use crate::error::Error;
use crate::name::WorkloadName;
use crate::rewrite::TableSet;
use crate::route::Located;
use crate::topology::{NodeSpec, ShardState, Snapshot};

/// A node of a driver: what both drivers know of it, and its pool.
pub(crate) trait PoolNode {
    fn state(&self) -> &NodeState;

    /// Open connections, and the idle ones among them.
    fn counts(&self) -> (u32, u32);

    /// Takes the node out of service: idle connections are closed now, those in use when they come
    /// back, and whoever waits is sent to look again.
    fn retire(&self);
}

pub(crate) type Nodes<N> = arc_swap::Guard<Arc<NodeSet<N>>>;

pub(crate) struct NodeSet<N> {
    pub(crate) snapshot: Arc<Snapshot>,
    shards: Vec<ShardNodes<N>>,
}

/// The pools of one shard's primary.
pub(crate) struct ShardNodes<N> {
    primary: Arc<N>,
    /// The second pools of the workload classes.
    classes: Vec<Arc<N>>,
    pub(crate) state: ShardState,
    /// Its tables with physical names, if it has any.
    pub(crate) tables: Option<Arc<TableSet>>,
}

impl<N: PoolNode> ShardNodes<N> {
    /// The pool of a workload class.
    #[inline]
    pub(crate) fn pool(&self, class: Option<WorkloadName>) -> Result<&Arc<N>, Error> {
        match class {
            None => Ok(&self.primary),
            Some(class) => self
                .classes
                .iter()
                .find(|node| node.state().class == Some(class))
                .ok_or_else(|| Error::UnknownWorkload {
                    workload: class.to_string(),
                    known: self
                        .classes
                        .iter()
                        .filter_map(|node| node.state().class)
                        .collect(),
                }),
        }
    }

    fn pools(&self) -> impl Iterator<Item = &Arc<N>> {
        std::iter::once(&self.primary).chain(&self.classes)
    }
}

impl<N: PoolNode> NodeSet<N> {
    /// Makes the nodes of a snapshot; those that have not changed are taken over from `old`.
    pub(crate) fn new(
        snapshot: Arc<Snapshot>,
        old: Option<&Self>,
        make: impl Fn(&Arc<Snapshot>, &NodeSpec, Option<WorkloadName>) -> N,
    ) -> Self {
        let shards = snapshot
            .shards()
            .iter()
            .map(|shard| {
                let kept = old.and_then(|old| {
                    let index = old.snapshot.find(shard.name.as_str()).ok()?;
                    let nodes = &old.shards[index.get()];
                    (nodes.primary.state().spec == shard.primary).then_some(nodes)
                });
                let make = |class| Arc::new(make(&snapshot, &shard.primary, class));
                match kept {
                    Some(nodes) => ShardNodes {
                        primary: Arc::clone(&nodes.primary),
                        classes: nodes.classes.clone(),
                        state: shard.state,
                        tables: shard.tables.clone(),
                    },
                    None => ShardNodes {
                        primary: make(None),
                        classes: shard
                            .primary
                            .classes
                            .iter()
                            .map(|(class, _)| make(Some(*class)))
                            .collect(),
                        state: shard.state,
                        tables: shard.tables.clone(),
                    },
                }
            })
            .collect();
        Self { snapshot, shards }
    }

    #[inline]
    pub(crate) fn shard(&self, at: Located) -> Result<&ShardNodes<N>, Error> {
        let index = self.snapshot.relocate(at)?;
        Ok(&self.shards[index.get()])
    }

    /// Why a shard cannot be worked on, as far as that is known without asking it: it is offline, or
    /// its node is down and no connection is left.
    #[cfg(any(feature = "tower", feature = "actix"))]
    pub(crate) fn unavailable(&self, at: Located) -> Option<Error> {
        let shard = self.shard(at).ok()?;
        if shard.state == ShardState::Offline {
            return Some(Error::ShardOffline { shard: at.shard });
        }
        let node = shard.pool(at.class).ok()?;
        node.state()
            .refuses()
            .filter(|_| matches!(node.counts(), (0, _)))
    }

    /// Every pool, and the state of its shard.
    pub(crate) fn pools(&self) -> impl Iterator<Item = (&Arc<N>, ShardState)> {
        self.shards
            .iter()
            .flat_map(|shard| shard.pools().map(|node| (node, shard.state)))
    }

    /// The pools that another set does not have.
    pub(crate) fn without(&self, other: &Self) -> Vec<Arc<N>> {
        self.pools()
            .map(|(node, _)| node)
            .filter(|node| !other.pools().any(|(kept, _)| Arc::ptr_eq(kept, node)))
            .map(Arc::clone)
            .collect()
    }

    /// Tells the nodes that were taken over from another set what their databases are to say now.
    pub(crate) fn expect(&self, before: &Self) {
        for (node, _) in self.pools() {
            if before.pools().any(|(old, _)| Arc::ptr_eq(old, node)) {
                node.state().expect(&self.snapshot);
            }
        }
    }

    /// The primaries that take work.
    pub(crate) fn open_primaries(&self) -> impl Iterator<Item = &Arc<N>> {
        self.shards
            .iter()
            .filter(|shard| shard.state != ShardState::Offline)
            .map(|shard| &shard.primary)
    }
}
