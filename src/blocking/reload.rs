//! Changing the topology while it is in use.
//!
//! Order: the next snapshot is checked; nodes that replace others prove that they can connect; then
//! the snapshot is put in place and new work goes by it; then nodes that are gone are retired.
//! Whatever fails before the third step leaves everything as it was. Work that is under way stays on
//! its connection, wherever that leads, until it gives it back.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::backend::NodeConnection;
use super::manager::{ShardedConnectionManager, refuse_foreign_urls};
use super::node::Node;
use super::node_set::{NodeSet, Nodes};
use crate::error::Error;
use crate::name::{Role, ShardName};
use crate::telemetry;
use crate::topology::{ShardState, Snapshot, Startup, TopologyBuilder, TopologySpec};

/// What a reload has changed.
#[non_exhaustive]
pub struct Reloaded<C: NodeConnection> {
    /// The number of the new state of the topology.
    pub epoch: u64,
    /// Shards that were not there before.
    pub added: Vec<ShardName>,
    /// Shards that are gone.
    pub removed: Vec<ShardName>,
    /// Shards whose node or pool settings are others now.
    pub replaced: Vec<ShardName>,
    retired: Vec<Arc<Node<C>>>,
}

impl<C: NodeConnection> Reloaded<C> {
    /// Waits until the connections of removed and replaced nodes are closed, at most for `grace`.
    /// Answers the shards that still have some then; these are closed as they come back.
    ///
    /// New work does not wait for this, and neither need the caller.
    #[must_use]
    pub fn drain(&self, grace: Duration) -> Vec<ShardName> {
        let deadline = Instant::now() + grace;
        loop {
            for node in &self.retired {
                node.sweep();
            }
            let mut busy: Vec<ShardName> = self
                .retired
                .iter()
                .filter(|node| node.counts().0 > 0)
                .map(|node| node.shard())
                .collect();
            if busy.is_empty() || Instant::now() >= deadline {
                busy.sort();
                busy.dedup();
                return busy;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl<C: NodeConnection> ShardedConnectionManager<C> {
    /// Changes the topology to what a configuration says.
    ///
    /// New pools are opened first, old ones are drained: transactions that are running finish where
    /// they are. A replaced node must connect, or nothing changes. Other managers of the same
    /// topology follow at their next checkout.
    ///
    /// # Errors
    ///
    /// [`Error::Config`] with everything that is wrong, a keyspace whose shard would be gone
    /// included; [`Error::PlacementChanged`] where a keyspace's rule, map or tables would change
    /// without being accepted by name; what connecting a replaced node answers. Nothing has changed
    /// then.
    #[cfg(feature = "config")]
    pub fn reload(&self, config: &crate::config::Config) -> Result<Reloaded<C>, Error> {
        self.change(|_| config.spec().clone(), |key| config.origin_of(key))
    }

    /// Changes the topology in code: the closure gets its description as it is.
    ///
    /// ```
    /// # #[cfg(feature = "sqlite")] fn main() -> Result<(), diesel_sharded::Error> {
    /// # use diesel_sharded::blocking::ShardedConnectionManager;
    /// # use std::time::Duration;
    /// # let dir = tempfile::tempdir().expect("a temporary folder");
    /// # let file = |name: &str| dir.path().join(name).display().to_string();
    /// # let shards = ShardedConnectionManager::<diesel::SqliteConnection>::builder()
    /// #     .shard("order-0", file("0")).build()?;
    /// let change = shards.reload_with(|topology| topology.shard("order-1", file("1")))?;
    /// assert_eq!(change.added.len(), 1);
    /// let change = shards.reload_with(|topology| topology.remove_shard("order-0"))?;
    /// assert!(change.drain(Duration::from_secs(2)).is_empty());
    /// # Ok(())
    /// # }
    /// # #[cfg(not(feature = "sqlite"))] fn main() {}
    /// ```
    ///
    /// # Errors
    ///
    /// Those of `reload`.
    pub fn reload_with(
        &self,
        edit: impl FnOnce(TopologyBuilder) -> TopologyBuilder,
    ) -> Result<Reloaded<C>, Error> {
        self.change(
            |spec| edit(TopologyBuilder::from_spec(spec.clone())).into_spec(),
            |_| String::new(),
        )
    }

    /// Opens a shard, makes it read-only, or takes it offline.
    ///
    /// Checkouts from now on go by it; connections that are out stay as they are until they come
    /// back.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownShard`].
    pub fn set_shard_state(&self, shard: impl AsRef<str>, state: ShardState) -> Result<(), Error> {
        let shard = self.locate(shard.as_ref())?.shard;
        self.reload_with(|topology| topology.shard_state(shard.as_str(), state))?;
        Ok(())
    }

    fn change(
        &self,
        edit: impl FnOnce(&TopologySpec) -> TopologySpec,
        origin: impl Fn(&str) -> String,
    ) -> Result<Reloaded<C>, Error> {
        let inner = &self.inner;
        let before = self.nodes()?;
        let mut prepared = None;
        inner.topology.change(edit, origin, |current, next| {
            refuse_changed_placement(current, next)?;
            refuse_foreign_urls::<C>(next)?;
            // Made of the same snapshot that is put in place if all goes well.
            let next = Arc::new(next.clone());
            let set = self.set_of(Arc::clone(&next), &before);
            prove(&set, &before)?;
            prepared = Some(set);
            Ok(())
        })?;
        let Some(after) = prepared else {
            unreachable!("a change that was not refused was prepared");
        };
        let reloaded = compare(&before, &after);
        telemetry::reloaded(
            reloaded.epoch,
            reloaded.added.len(),
            reloaded.removed.len(),
            reloaded.replaced.len(),
        );
        after.expect(&before);
        let after = Arc::new(after);
        inner.nodes.rcu(|current| {
            // Somebody may have changed the topology once more meanwhile, and followed it.
            if current.snapshot.epoch < after.snapshot.epoch {
                Arc::clone(&after)
            } else {
                Arc::clone(current)
            }
        });
        for node in &reloaded.retired {
            node.retire();
        }
        Ok(reloaded)
    }

    fn set_of(&self, snapshot: Arc<Snapshot>, old: &NodeSet<C>) -> NodeSet<C> {
        let inner = &self.inner;
        NodeSet::new(
            &inner.topology,
            snapshot,
            Some(old),
            &inner.options,
            &inner.threads,
        )
    }

    /// Catches up with a topology that somebody else has changed.
    #[cold]
    pub(super) fn follow(&self) -> Result<Nodes<C>, Error> {
        let inner = &self.inner;
        let snapshot = inner.topology.snapshot();
        refuse_foreign_urls::<C>(&snapshot)?;
        let before = inner.nodes.rcu(|current| {
            if current.snapshot.epoch < snapshot.epoch {
                Arc::new(self.set_of(Arc::clone(&snapshot), current))
            } else {
                Arc::clone(current)
            }
        });
        let after = inner.nodes.load();
        after.expect(&before);
        for node in before.without(&after) {
            node.retire();
        }
        Ok(after)
    }
}

/// Rows stay where they are when a rule changes, so a changed rule finds them no more.
fn refuse_changed_placement(current: &Snapshot, next: &Snapshot) -> Result<(), Error> {
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

/// A node that replaces another must connect; a new one only where the topology says so.
fn prove<C: NodeConnection>(next: &NodeSet<C>, before: &NodeSet<C>) -> Result<(), Error> {
    let known = |shard: ShardName| before.snapshot.find(shard.as_str()).is_ok();
    for node in next.without(before) {
        let open = next
            .pools()
            .any(|(other, state)| Arc::ptr_eq(other, &node) && state != ShardState::Offline);
        let needed = known(node.shard()) || next.snapshot.startup == Startup::Require;
        if open && needed && node.class().is_none() {
            node.checkout()?;
        }
    }
    Ok(())
}

fn compare<C: NodeConnection>(before: &NodeSet<C>, after: &NodeSet<C>) -> Reloaded<C> {
    let (old, new) = (before.snapshot.names(), after.snapshot.names());
    let retired = before.without(after);
    let mut replaced: Vec<ShardName> = retired
        .iter()
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
    Reloaded {
        epoch: after.snapshot.epoch,
        added: without(&new, &old),
        removed: without(&old, &new),
        replaced,
        retired,
    }
}

impl<C: NodeConnection> fmt::Debug for Reloaded<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reloaded")
            .field("epoch", &self.epoch)
            .field("added", &self.added)
            .field("removed", &self.removed)
            .field("replaced", &self.replaced)
            .finish_non_exhaustive()
    }
}
