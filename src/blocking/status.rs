//! What an operator can ask a manager.

use std::sync::Arc;

use super::backend::NodeConnection;
use super::node::Node;
use crate::error::UnavailableCause;
use crate::name::{Role, ShardName, WorkloadName};
use crate::topology::ShardState;

/// The state of a manager at one moment.
#[derive(Clone, Debug, serde::Serialize)]
#[non_exhaustive]
pub struct Status {
    /// The epoch of the topology.
    pub epoch: u64,
    /// How many checkouts without a route went to the default shard.
    pub default_fallbacks: u64,
    /// One entry per pool, sorted by shard.
    pub nodes: Vec<NodeStatus>,
}

/// The state of one node's pool at one moment.
#[derive(Clone, Debug, serde::Serialize)]
#[non_exhaustive]
pub struct NodeStatus {
    /// The shard.
    pub shard: ShardName,
    /// The node's role in it.
    pub role: Role,
    /// The workload class whose pool this is; `None` for the ordinary one.
    pub class: Option<WorkloadName>,
    /// Whether the shard takes work.
    pub state: ShardState,
    /// Open connections, idle ones included.
    pub connections: u32,
    /// Open connections that nobody uses.
    pub idle: u32,
    /// The most connections the pool opens.
    pub max_size: u32,
    /// Callers that wait for a connection.
    pub waiting: usize,
    /// Why the node is taken to be down, if it is.
    pub down: Option<UnavailableCause>,
}

impl NodeStatus {
    pub(super) fn of<C: NodeConnection>(node: &Arc<Node<C>>, state: ShardState) -> Self {
        let (connections, idle, waiting) = node.counts();
        let class = node.class();
        node.meters().pool_state(connections, idle, waiting);
        Self {
            shard: node.shard(),
            role: node.role(),
            class,
            state,
            connections,
            idle,
            max_size: node.settings().max_size,
            waiting,
            down: node.down(),
        }
    }
}
