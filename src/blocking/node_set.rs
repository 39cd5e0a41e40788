//! The nodes of one snapshot, in its order.

use std::sync::Arc;

use super::backend::NodeConnection;
use super::node::{Node, Options, Threads};
use crate::error::Error;
use crate::name::WorkloadName;
use crate::route::Located;
use crate::topology::{ShardState, Snapshot, Topology};

pub(super) type Nodes<C> = arc_swap::Guard<Arc<NodeSet<C>>>;

pub(super) struct NodeSet<C: NodeConnection> {
    pub(super) snapshot: Arc<Snapshot>,
    shards: Vec<ShardNodes<C>>,
}

/// The pools of one shard's primary.
pub(super) struct ShardNodes<C: NodeConnection> {
    primary: Arc<Node<C>>,
    /// The second pools of the workload classes.
    classes: Vec<Arc<Node<C>>>,
    pub(super) state: ShardState,
}

impl<C: NodeConnection> ShardNodes<C> {
    /// The pool of a workload class.
    #[inline]
    pub(super) fn pool(&self, class: Option<WorkloadName>) -> Result<&Arc<Node<C>>, Error> {
        match class {
            None => Ok(&self.primary),
            Some(class) => self
                .classes
                .iter()
                .find(|node| node.class() == Some(class))
                .ok_or_else(|| Error::UnknownWorkload {
                    workload: class.to_string(),
                    known: self
                        .classes
                        .iter()
                        .filter_map(|node| node.class())
                        .collect(),
                }),
        }
    }

    fn pools(&self) -> impl Iterator<Item = &Arc<Node<C>>> {
        std::iter::once(&self.primary).chain(&self.classes)
    }
}

impl<C: NodeConnection> NodeSet<C> {
    /// Makes the nodes of a snapshot; those that have not changed are taken over from `old`.
    pub(super) fn new(
        topology: &Topology,
        snapshot: Arc<Snapshot>,
        old: Option<&Self>,
        options: &Options<C>,
        threads: &Arc<Threads>,
    ) -> Self {
        let shards = snapshot
            .shards()
            .iter()
            .map(|shard| {
                let kept = old.and_then(|old| {
                    let index = old.snapshot.find(shard.name.as_str()).ok()?;
                    let nodes = &old.shards[index.get()];
                    (*nodes.primary.spec() == shard.primary).then_some(nodes)
                });
                let make = |class| {
                    Arc::new(Node::new(
                        topology.clone(),
                        Arc::clone(&snapshot),
                        shard.primary.clone(),
                        class,
                        options.clone(),
                        Arc::clone(threads),
                    ))
                };
                match kept {
                    Some(nodes) => ShardNodes {
                        primary: Arc::clone(&nodes.primary),
                        classes: nodes.classes.clone(),
                        state: shard.state,
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
                    },
                }
            })
            .collect();
        Self { snapshot, shards }
    }

    #[inline]
    pub(super) fn shard(&self, at: Located) -> Result<&ShardNodes<C>, Error> {
        let index = self.snapshot.relocate(at)?;
        Ok(&self.shards[index.get()])
    }

    /// Every pool, and the state of its shard.
    pub(super) fn pools(&self) -> impl Iterator<Item = (&Arc<Node<C>>, ShardState)> {
        self.shards
            .iter()
            .flat_map(|shard| shard.pools().map(|node| (node, shard.state)))
    }

    /// The pools that another set does not have.
    pub(super) fn without(&self, other: &Self) -> Vec<Arc<Node<C>>> {
        self.pools()
            .map(|(node, _)| node)
            .filter(|node| !other.pools().any(|(kept, _)| Arc::ptr_eq(kept, node)))
            .map(Arc::clone)
            .collect()
    }

    /// Tells the nodes that were taken over from another set what their databases are to say now.
    pub(super) fn expect(&self, before: &Self) {
        for (node, _) in self.pools() {
            if before.pools().any(|(old, _)| Arc::ptr_eq(old, node)) {
                node.expect(&self.snapshot);
            }
        }
    }

    /// Connects every primary once.
    pub(super) fn connect_all(&self) -> Result<(), Error> {
        for shard in &self.shards {
            if shard.state != ShardState::Offline {
                shard.primary.checkout()?;
            }
        }
        Ok(())
    }
}
