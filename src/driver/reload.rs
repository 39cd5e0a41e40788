//! What a change of the topology may not do, and what it does.

use std::sync::Arc;

use super::node_set::{NodeSet, PoolNode};
use crate::error::{ConfigErrors, ConfigProblem, Error};
use crate::name::{Role, ShardName};
#[cfg(feature = "bb8")]
use crate::topology::DatabaseUrl;
use crate::topology::{ShardState, Snapshot, Startup, UrlKind};

/// A node that `C` cannot talk to is a mistake of the configuration, found before any checkout.
pub(crate) fn refuse_foreign_urls<C>(
    snapshot: &Snapshot,
    accepts: impl Fn(UrlKind) -> bool,
) -> Result<(), Error> {
    let problems: Vec<_> = snapshot
        .shards()
        .iter()
        .filter(|shard| !shard.primary.url.kind().is_some_and(&accepts))
        .map(|shard| ConfigProblem {
            origin: String::new(),
            key: format!("shards.{}.url", shard.name),
            message: format!(
                "{} does not connect to this kind of url ({})",
                std::any::type_name::<C>(),
                shard.primary.url
            ),
        })
        .collect();
    if problems.is_empty() {
        Ok(())
    } else {
        Err(Error::Config(ConfigErrors(problems)))
    }
}

/// A URL that the driver cannot honour in full is a mistake of the configuration too.
#[cfg(feature = "bb8")]
pub(crate) fn refuse_unusable_urls(
    snapshot: &Snapshot,
    problems_of: impl Fn(&DatabaseUrl) -> Vec<String>,
) -> Result<(), Error> {
    let problems: Vec<_> = snapshot
        .shards()
        .iter()
        .flat_map(|shard| {
            let problems = problems_of(&shard.primary.url).into_iter();
            problems.map(|message| ConfigProblem {
                origin: String::new(),
                key: format!("shards.{}.url", shard.name),
                message,
            })
        })
        .collect();
    if problems.is_empty() {
        Ok(())
    } else {
        Err(Error::Config(ConfigErrors(problems)))
    }
}

/// Rows stay where they are when a rule changes, so a changed rule finds them no more.
pub(crate) fn refuse_changed_placement(current: &Snapshot, next: &Snapshot) -> Result<(), Error> {
    for keyspace in next.keyspaces() {
        let before = current
            .find_keyspace(keyspace.name.as_str())
            .map(|index| &current.keyspaces()[index]);
        if let Ok(before) = before
            && before.fingerprint != keyspace.fingerprint
            && !next.accept_placement.contains(&keyspace.name)
        {
            return Err(Error::PlacementChanged {
                keyspace: keyspace.name,
                shard: None,
                configured: keyspace.fingerprint.to_string(),
                recorded: before.fingerprint.to_string(),
            });
        }
    }
    Ok(())
}

/// The nodes that must connect before a change is made: those that replace others, and new ones
/// where the topology says so.
pub(crate) fn to_prove<N: PoolNode>(next: &NodeSet<N>, before: &NodeSet<N>) -> Vec<Arc<N>> {
    let known = |shard: ShardName| before.snapshot.find(shard.as_str()).is_ok();
    let all_needed = next.snapshot.startup == Startup::Require;
    let open = |node: &Arc<N>| {
        next.pools()
            .any(|(other, state)| Arc::ptr_eq(other, node) && state != ShardState::Offline)
    };
    let mut nodes = next.without(before);
    nodes.retain(|node| {
        let state = node.state();
        state.class.is_none() && open(node) && (all_needed || known(state.shard()))
    });
    nodes
}

/// What one set of nodes has that another had not.
pub(crate) struct Changes<N> {
    pub(crate) epoch: u64,
    pub(crate) added: Vec<ShardName>,
    pub(crate) removed: Vec<ShardName>,
    pub(crate) replaced: Vec<ShardName>,
    pub(crate) retired: Vec<Arc<N>>,
}

impl<N: PoolNode> Changes<N> {
    pub(crate) fn between(before: &NodeSet<N>, after: &NodeSet<N>) -> Self {
        let (old, new) = (before.snapshot.names(), after.snapshot.names());
        let retired = before.without(after);
        let mut replaced: Vec<ShardName> = retired
            .iter()
            .map(|node| node.state())
            .filter(|node| node.role() == Role::Primary && new.contains(&node.shard()))
            .map(|node| node.shard())
            .collect();
        replaced.sort();
        replaced.dedup();
        let without = |these: &[ShardName], others: &[ShardName]| {
            these
                .iter()
                .filter(|name| !others.contains(name))
                .copied()
                .collect()
        };
        Self {
            epoch: after.snapshot.epoch,
            added: without(&new, &old),
            removed: without(&old, &new),
            replaced,
            retired,
        }
    }
}

/// The shards of nodes that still have connections.
pub(crate) fn busy<N: PoolNode>(nodes: &[Arc<N>]) -> Vec<ShardName> {
    let mut busy: Vec<ShardName> = nodes
        .iter()
        .filter(|node| node.counts().0 > 0)
        .map(|node| node.state().shard())
        .collect();
    busy.sort();
    busy.dedup();
    busy
}
