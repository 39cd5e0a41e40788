//! From a shard key to its shard, by the topology as it is now.

use std::sync::Arc;

use crate::algorithm::{Explanation, Placement};
use crate::error::Error;
use crate::key::{HasShardKey, ToShardKey, check_keyspace};
use crate::name::KeyspaceName;
use crate::route::{Located, Route};
use crate::topology::{Grouped, KeyspaceEntry, Refused, Snapshot, Topology};

/// A keyspace of a topology, found once and followed through its changes.
#[derive(Clone, Debug)]
pub(crate) struct KeyspaceRef {
    topology: Topology,
    name: KeyspaceName,
    /// Where the keyspace was when it was looked up; a hint, checked at each use.
    index: usize,
    /// The topology as it was then: as long as it is, nothing has to be looked up.
    seen: Arc<Snapshot>,
}

/// What `group_by_placement` answers: nothing is dropped.
#[derive(Debug)]
#[non_exhaustive]
pub struct GroupedByPlacement<T> {
    /// The items of each physical table in the order they came, with the route to it, sorted by shard
    /// and number.
    pub by_placement: Vec<(Route, Vec<T>)>,
    /// The items whose key has no placement, in the order they came.
    pub refused: Vec<Refused<T>>,
}

impl KeyspaceRef {
    pub(crate) fn find(topology: &Topology, name: &str) -> Result<Self, Error> {
        let seen = topology.snapshot();
        let index = seen.find_keyspace(name)?;
        Ok(Self {
            topology: topology.clone(),
            name: seen.keyspaces()[index].name,
            index,
            seen,
        })
    }

    pub(crate) fn name(&self) -> KeyspaceName {
        self.name
    }

    #[inline]
    fn entry<'s>(&self, snapshot: &'s Snapshot) -> Result<&'s KeyspaceEntry, Error> {
        match snapshot.keyspaces().get(self.index) {
            Some(entry) if entry.name == self.name => Ok(entry),
            _ => Ok(&snapshot.keyspaces()[snapshot.find_keyspace(self.name.as_str())?]),
        }
    }

    pub(crate) fn topology(&self) -> &Topology {
        &self.topology
    }

    pub(crate) fn with_entry<T>(
        &self,
        f: impl FnOnce(&Snapshot, &KeyspaceEntry) -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.topology
            .with_current(|snapshot| f(snapshot, self.entry(snapshot)?))
    }

    pub(crate) fn look<T>(&self, f: impl FnOnce(&KeyspaceEntry) -> T) -> Result<T, Error> {
        self.topology
            .with_current(|snapshot| self.entry(snapshot).map(f))
    }

    #[inline]
    pub(crate) fn locate<K: ToShardKey + ?Sized>(&self, key: &K) -> Result<Placement, Error> {
        if self.seen.epoch == self.topology.epoch() {
            // The index was found in this very snapshot.
            if let Some(entry) = self.seen.keyspaces().get(self.index) {
                return entry.locate(key);
            }
        }
        self.topology
            .with_current(|snapshot| self.entry(snapshot)?.locate(key))
    }

    #[inline]
    pub(crate) fn located<K: ToShardKey + ?Sized>(&self, key: &K) -> Result<Located, Error> {
        self.topology.with_current(|snapshot| {
            let entry = self.entry(snapshot)?;
            snapshot.locate_placement(entry, entry.locate(key)?)
        })
    }

    pub(crate) fn explain<K: ToShardKey + ?Sized>(&self, key: &K) -> Result<Explanation, Error> {
        self.topology
            .with_current(|snapshot| self.entry(snapshot)?.explain(snapshot, key))
    }

    pub(crate) fn route<K: ToShardKey + ?Sized>(&self, key: &K) -> Result<Route, Error> {
        Ok(Route::new(self.topology.clone(), self.located(key)?))
    }

    /// The route to the shard of a value that knows its own key.
    pub(crate) fn route_of<V: HasShardKey + ?Sized>(&self, value: &V) -> Result<Route, Error> {
        check_keyspace::<V>(self.name)?;
        self.route(&value.shard_key())
    }

    /// [`group`](Self::group) by the keys that the values know.
    pub(crate) fn group_rows<V: HasShardKey>(
        &self,
        values: impl IntoIterator<Item = V>,
    ) -> Result<Grouped<V>, Error> {
        check_keyspace::<V>(self.name)?;
        self.group(values, |value| value.shard_key().into_owned())
    }

    pub(crate) fn group<T, K: ToShardKey>(
        &self,
        items: impl IntoIterator<Item = T>,
        key: impl FnMut(&T) -> K,
    ) -> Result<Grouped<T>, Error> {
        Ok(self.entry(&self.topology.snapshot())?.group(items, key))
    }

    pub(crate) fn group_by_placement<T, K: ToShardKey>(
        &self,
        items: impl IntoIterator<Item = T>,
        key: impl FnMut(&T) -> K,
    ) -> Result<GroupedByPlacement<T>, Error> {
        let snapshot = self.topology.snapshot();
        let entry = self.entry(&snapshot)?;
        let mut by_placement = Vec::new();
        let (groups, refused) = entry.group_by_placement(items, key);
        for (placement, items) in groups {
            let at = snapshot.locate_placement(entry, placement)?;
            by_placement.push((Route::new(self.topology.clone(), at), items));
        }
        Ok(GroupedByPlacement {
            by_placement,
            refused,
        })
    }
}
