//! From a rule's answers to what they mean in a topology: tables, nodes, ranges of keys.

use std::collections::BTreeSet;
use std::ops::RangeBounds;

use super::Topology;
use super::snapshot::{KeyspaceEntry, Snapshot, Table};
use crate::algorithm::{BoundError, Explanation, KeyRange, Placement, Reach, Spreads};
use crate::error::Error;
use crate::key::ToShardKey;
use crate::name::ShardName;

/// A shard that can hold rows of a range of keys, and the tables that can.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RangeTarget {
    /// The shard.
    pub shard: ShardName,
    /// The physical tables, of every table of the keyspace, in the order of the logical names and
    /// then of their parts.
    pub tables: Vec<String>,
}

impl Table {
    /// The physical table that holds the rows of a placement.
    pub(crate) fn physical(&self, rule: &crate::algorithm::Rule, placement: Placement) -> String {
        if self.by_rule
            && let Some(suffix) = rule.suffix(placement.spread())
        {
            return format!("{}_{suffix}", self.name);
        }
        match self.count {
            0 | 1 => self.name.clone(),
            count => self.part(placement.table_number(count)),
        }
    }

    /// Every physical table that a shard can have, whichever the rule fills.
    #[cfg(feature = "r2d2")]
    pub(crate) fn every_part(&self, rule: &crate::algorithm::Rule) -> Vec<String> {
        if !self.by_rule {
            return self.parts(rule, &Spreads::All);
        }
        let every = rule.reach(&KeyRange::full(rule.key_type())).into_iter();
        let every: BTreeSet<String> = every
            .flat_map(|reach| self.parts(rule, &reach.spreads))
            .collect();
        every.into_iter().collect()
    }

    fn part(&self, number: u32) -> String {
        format!("{}_{number}", self.name)
    }

    /// The physical tables of one shard that can have one of these spreads.
    fn parts(&self, rule: &crate::algorithm::Rule, spreads: &Spreads) -> Vec<String> {
        match spreads {
            Spreads::These(spreads) if self.by_rule => {
                let suffixes: Vec<String> =
                    spreads.iter().filter_map(|s| rule.suffix(*s)).collect();
                let mut seen = BTreeSet::new();
                let new = suffixes.into_iter().filter(|s| seen.insert(s.clone()));
                new.map(|suffix| format!("{}_{suffix}", self.name))
                    .collect()
            }
            _ if self.count <= 1 => vec![self.name.clone()],
            Spreads::All => (0..self.count).map(|number| self.part(number)).collect(),
            Spreads::These(spreads) => {
                let numbers: BTreeSet<u32> = spreads
                    .iter()
                    // The remainder of a division by a u32 fits a u32.
                    .map(|spread| (spread % u64::from(self.count)) as u32)
                    .collect();
                numbers
                    .into_iter()
                    .map(|number| self.part(number))
                    .collect()
            }
        }
    }
}

impl KeyspaceEntry {
    /// The physical table of each of the keyspace's tables, for a placement.
    pub(crate) fn tables_of(&self, placement: Placement) -> Vec<(String, String)> {
        let tables = self.tables.iter();
        tables
            .map(|table| (table.name.clone(), table.physical(&self.rule, placement)))
            .collect()
    }

    pub(crate) fn locate_range<K: ToShardKey>(
        &self,
        bounds: &impl RangeBounds<K>,
    ) -> Result<Vec<RangeTarget>, Error> {
        let range = KeyRange::new(bounds, self.rule.key_type());
        let range = range.map_err(|error| match error {
            BoundError::NoValue(reason) => self.rule.no_value(reason).into_error(self.name),
            BoundError::Type(found) => Error::KeyType {
                keyspace: self.name,
                expected: self.rule.key_type().as_str(),
                found: found.as_str(),
            },
        })?;
        let reach = range.map_or_else(Vec::new, |range| self.rule.reach(&range));
        Ok(self.targets(reach))
    }

    fn targets(&self, reach: Vec<Reach>) -> Vec<RangeTarget> {
        let mut targets: Vec<RangeTarget> = reach
            .into_iter()
            .map(|reach| RangeTarget {
                shard: reach.shard,
                tables: self
                    .tables
                    .iter()
                    .flat_map(|table| table.parts(&self.rule, &reach.spreads))
                    .collect(),
            })
            .collect();
        targets.sort_by_key(|target| target.shard);
        targets
    }

    /// Every table that each shard of the keyspace has.
    pub(crate) fn all_targets(&self) -> Vec<RangeTarget> {
        self.targets(self.rule.reach(&KeyRange::full(self.rule.key_type())))
    }

    pub(crate) fn explain<K: ToShardKey + ?Sized>(
        &self,
        snapshot: &Snapshot,
        key: &K,
    ) -> Result<Explanation, Error> {
        let key = key.to_shard_key();
        let placement = self.locate(&key)?;
        let explained = self.rule.explain(&key);
        let mut explained = explained.map_err(|error| error.into_error(self.name))?;
        explained.keyspace = self.name.to_string();
        explained.fingerprint = self.fingerprint.to_string();
        explained.tables = self.tables_of(placement);
        let shard = snapshot.shard(snapshot.find(placement.shard().as_str())?);
        explained.node = shard.primary.url.to_string();
        explained.state = shard.state.as_str();
        Ok(explained)
    }
}

impl Topology {
    /// How a key comes to its place, step by step: the sibling of [`locate`](Self::locate), for
    /// tools and debug pages.
    ///
    /// # Errors
    ///
    /// Those of [`locate`](Self::locate).
    pub fn explain<K>(&self, keyspace: impl AsRef<str>, key: &K) -> Result<Explanation, Error>
    where
        K: ToShardKey + ?Sized,
    {
        self.with_current(|snapshot| {
            let entry = &snapshot.keyspaces()[snapshot.find_keyspace(keyspace.as_ref())?];
            entry.explain(snapshot, key)
        })
    }

    /// The shards and tables that can hold rows with a key in a range, sorted by shard.
    ///
    /// See [`Keyspace::locate_range`](crate::blocking::Keyspace::locate_range), which is the same for
    /// one keyspace.
    ///
    /// ```
    /// use diesel_sharded::{DateSpec, KeyType, KeyspaceConfig, RuleSpec, ShardKey, Topology};
    ///
    /// let months = DateSpec::monthly().from("2023-11").until("2024-02");
    /// let rule = RuleSpec::date(["a"], months).key(KeyType::Date);
    /// let topology = Topology::builder()
    ///     .shard("a", "a.sqlite")
    ///     .keyspace("events", KeyspaceConfig::new(rule).table_by_rule("event", "day"))
    ///     .build()?;
    /// let day = |text| KeyType::Date.parse_key(text).unwrap();
    /// let found = topology.locate_range("events", day("2023-12-31")..day("2024-01-01"))?;
    /// assert_eq!(found[0].tables, ["event_202312"]);
    /// let all = topology.locate_range::<ShardKey>("events", ..)?;
    /// assert_eq!(all[0].tables, ["event_202311", "event_202312", "event_202401"]);
    /// # Ok::<(), diesel_sharded::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::UnknownKeyspace`]; [`Error::NullShardKey`] and [`Error::KeyType`] for a bound that is
    /// no key of the keyspace.
    pub fn locate_range<K: ToShardKey>(
        &self,
        keyspace: impl AsRef<str>,
        bounds: impl RangeBounds<K>,
    ) -> Result<Vec<RangeTarget>, Error> {
        self.with_current(|snapshot| {
            let entry = &snapshot.keyspaces()[snapshot.find_keyspace(keyspace.as_ref())?];
            entry.locate_range(&bounds)
        })
    }

    /// Every physical table of a keyspace, by shard: those that its rows can be in.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownKeyspace`].
    pub fn physical_tables(&self, keyspace: impl AsRef<str>) -> Result<Vec<RangeTarget>, Error> {
        self.with_current(|snapshot| {
            let entry = &snapshot.keyspaces()[snapshot.find_keyspace(keyspace.as_ref())?];
            Ok(entry.all_targets())
        })
    }

    /// The physical table of each of a keyspace's tables, for a placement that
    /// [`locate`](Self::locate) gave: logical and physical name.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownKeyspace`].
    pub fn tables_for(
        &self,
        keyspace: impl AsRef<str>,
        placement: Placement,
    ) -> Result<Vec<(String, String)>, Error> {
        self.with_current(|snapshot| {
            let entry = &snapshot.keyspaces()[snapshot.find_keyspace(keyspace.as_ref())?];
            Ok(entry.tables_of(placement))
        })
    }
}
