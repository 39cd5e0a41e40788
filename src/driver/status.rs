//! What an operator can ask a manager.

use std::sync::atomic::Ordering;

use super::node_set::PoolNode;
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
    /// Prepared statements over sharded tables that its open connections keep, all together.
    pub table_statements: usize,
    /// Bytes of texts and templates over sharded tables that its open connections keep.
    pub table_text_bytes: usize,
    /// Why the node is taken to be down, if it is.
    pub down: Option<UnavailableCause>,
}

impl NodeStatus {
    pub(crate) fn of(node: &impl PoolNode, shard_state: ShardState) -> Self {
        let state = node.state();
        let (connections, idle) = node.counts();
        let waiting = state.waiters.load(Ordering::Relaxed);
        let (table_statements, table_text_bytes) = state.table_texts.read();
        state.meters.pool_state(connections, idle, waiting);
        Self {
            shard: state.shard(),
            role: state.role(),
            class: state.class,
            state: shard_state,
            connections,
            idle,
            max_size: state.settings.max_size,
            waiting,
            table_statements,
            table_text_bytes,
            down: state.down(),
        }
    }
}
