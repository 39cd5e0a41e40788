//! Changing the topology while it is in use.
//!
//! Order: the next snapshot is checked; nodes that replace others prove that they can connect; then
//! the snapshot is put in place and new work goes by it; then nodes that are gone are retired.
//! Whatever fails before the third step leaves everything as it was. Work that is under way stays on
//! its connection, wherever that leads, until it gives it back.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::Guard;
use futures_util::future::try_join_all;

use super::backend::AsyncNodeConnection;
use super::manager::AsyncShardedConnectionManager;
use super::node::Node;
use crate::driver::node_set::{NodeSet, Nodes};
use crate::driver::reload::{
    Changes, busy, refuse_changed_placement, refuse_foreign_urls, refuse_unusable_urls, to_prove,
};
use crate::error::Error;
use crate::name::ShardName;
use crate::telemetry;
use crate::topology::{Changing, ShardState, Snapshot, TopologyBuilder, TopologySpec, Turn};

/// The pause between two looks at something that nobody announces.
const A_MOMENT: Duration = Duration::from_millis(5);

/// What a reload has changed.
#[non_exhaustive]
pub struct Reloaded<C: AsyncNodeConnection> {
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

impl<C: AsyncNodeConnection> Reloaded<C> {
    /// Waits until the connections of removed and replaced nodes are closed, at most for `grace`.
    /// Answers the shards that still have some then; these are closed as they come back.
    ///
    /// New work does not wait for this, and neither need the caller.
    pub async fn drain(&self, grace: Duration) -> Vec<ShardName> {
        let deadline = Instant::now() + grace;
        loop {
            for node in &self.retired {
                node.sweep();
            }
            let busy = busy(&self.retired);
            if busy.is_empty() || Instant::now() >= deadline {
                return busy;
            }
            tokio::time::sleep(A_MOMENT).await;
        }
    }
}

impl<C: AsyncNodeConnection> AsyncShardedConnectionManager<C> {
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
    pub async fn reload(&self, config: &crate::config::Config) -> Result<Reloaded<C>, Error> {
        self.change(|_| config.spec().clone(), |key| config.origin_of(key))
            .await
    }

    /// Changes the topology in code: the closure gets its description as it is.
    ///
    /// ```
    /// # #[cfg(feature = "async-sqlite")]
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), diesel_sharded::Error> {
    /// # use diesel_async::sync_connection_wrapper::SyncConnectionWrapper;
    /// # use diesel_sharded::nonblocking::AsyncShardedConnectionManager;
    /// # use std::time::Duration;
    /// # let dir = tempfile::tempdir().expect("a temporary folder");
    /// # let file = |name: &str| dir.path().join(name).display().to_string();
    /// # let shards = AsyncShardedConnectionManager::<SyncConnectionWrapper<diesel::SqliteConnection>>::builder()
    /// #     .shard("order-0", file("0")).build().await?;
    /// let change = shards.reload_with(|topology| topology.shard("order-1", file("1"))).await?;
    /// assert_eq!(change.added.len(), 1);
    /// let change = shards.reload_with(|topology| topology.remove_shard("order-0")).await?;
    /// assert!(change.drain(Duration::from_secs(2)).await.is_empty());
    /// # Ok(())
    /// # }
    /// # #[cfg(not(feature = "async-sqlite"))] fn main() {}
    /// ```
    ///
    /// # Errors
    ///
    /// Those of `reload`.
    pub async fn reload_with(
        &self,
        edit: impl FnOnce(TopologyBuilder) -> TopologyBuilder + Send,
    ) -> Result<Reloaded<C>, Error> {
        self.change(
            |spec| edit(TopologyBuilder::from_spec(spec.clone())).into_spec(),
            |_| String::new(),
        )
        .await
    }

    /// Opens a shard, makes it read-only, or takes it offline.
    ///
    /// Checkouts from now on go by it; connections that are out stay as they are until they come
    /// back.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownShard`].
    pub fn set_shard_state(
        &self,
        shard: impl AsRef<str>,
        state: ShardState,
    ) -> impl Future<Output = Result<(), Error>> + Send {
        let located = self.locate(shard.as_ref());
        async move {
            let shard = located?.shard;
            self.reload_with(|topology| topology.shard_state(shard.as_str(), state))
                .await?;
            Ok(())
        }
    }

    async fn change(
        &self,
        edit: impl FnOnce(&TopologySpec) -> TopologySpec,
        origin: impl Fn(&str) -> String,
    ) -> Result<Reloaded<C>, Error> {
        let turn = self.turn().await?;
        let draft = {
            let _once = Changing::begin()?;
            turn.draft(edit, origin)?
        };
        refuse_changed_placement(&draft.current, &draft.next)?;
        refuse_foreign_urls::<C>(&draft.next, C::accepts)?;
        if self.inner.options.connector.is_none() {
            refuse_unusable_urls(&draft.next, C::url_problems)?;
        }
        let before = Guard::into_inner(self.nodes()?);
        // Made of the same snapshot that is put in place if all goes well.
        let after = self.set_of(&draft.next, &before);
        let to_prove = to_prove(&after, &before);
        try_join_all(to_prove.iter().map(Node::checkout)).await?;
        // From here on nothing waits, so nobody can stop it half-way.
        turn.put(draft);
        let changes = Changes::between(&before, &after);
        telemetry::reloaded(
            changes.epoch,
            changes.added.len(),
            changes.removed.len(),
            changes.replaced.len(),
        );
        self.inner.fleet.put(after, &before, &changes.retired);
        Ok(Reloaded {
            epoch: changes.epoch,
            added: changes.added,
            removed: changes.removed,
            replaced: changes.replaced,
            retired: changes.retired,
        })
    }

    /// Waits for the turn to change the topology, which a manager of the other driver may have.
    async fn turn(&self) -> Result<Turn, Error> {
        loop {
            // Inside of a change of this thread it would never come.
            drop(Changing::begin()?);
            match self.topology().try_turn() {
                Some(turn) => return Ok(turn),
                None => tokio::time::sleep(A_MOMENT).await,
            }
        }
    }

    fn set_of(&self, snapshot: &Arc<Snapshot>, old: &NodeSet<Node<C>>) -> NodeSet<Node<C>> {
        let inner = &self.inner;
        let topology = self.topology();
        NodeSet::new(Arc::clone(snapshot), Some(old), |snapshot, spec, class| {
            Node::new(topology, snapshot, spec, class, &inner.options)
        })
    }

    /// Catches up with a topology that somebody else has changed.
    #[cold]
    pub(super) fn follow(&self) -> Result<Nodes<Node<C>>, Error> {
        let fleet = &self.inner.fleet;
        let snapshot = self.topology().snapshot();
        refuse_foreign_urls::<C>(&snapshot, C::accepts)?;
        if self.inner.options.connector.is_none() {
            refuse_unusable_urls(&snapshot, C::url_problems)?;
        }
        fleet.follow(&snapshot, |old| self.set_of(&snapshot, old));
        Ok(fleet.load())
    }
}

impl<C: AsyncNodeConnection> fmt::Debug for Reloaded<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reloaded")
            .field("epoch", &self.epoch)
            .field("added", &self.added)
            .field("removed", &self.removed)
            .field("replaced", &self.replaced)
            .finish_non_exhaustive()
    }
}
