//! From a rule's answers to what they mean in a topology: tables, nodes, ranges of keys.

use std::collections::BTreeSet;
use std::ops::RangeBounds;

use super::Topology;
use super::snapshot::{KeyspaceEntry, Snapshot, Table};
use crate::algorithm::{BoundError, Explanation, KeyRange, Placement, Reach, Rule, Spreads};
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

/// The names of physical tables: everything that makes or recognizes one asks here.
impl Table {
    /// The physical table with a number, without its schema; `position` is that of its shard in the list
    /// of the keyspace.
    pub(crate) fn part_name(&self, position: usize, number: u32) -> String {
        let (_, name) = self.split_name();
        self.pattern.numbered(name, number, position, self.count)
    }

    /// The same with the schema that the table was configured with.
    pub(crate) fn part(&self, position: usize, number: u32) -> String {
        self.in_schema(self.part_name(position, number))
    }

    /// The physical table of a spread, where the rule names the parts.
    pub(crate) fn part_by_rule(&self, rule: &Rule, spread: u64) -> Option<String> {
        let (_, name) = self.split_name();
        let part = rule.suffix(spread)?;
        Some(self.in_schema(self.pattern.by_rule(name, &part)))
    }

    /// What stands before and behind the rule's part in the name of a physical table.
    #[cfg(feature = "r2d2")]
    pub(crate) fn around_part(&self) -> (String, String) {
        // A character that no name has.
        const PART: &str = "\u{1}";
        let (_, name) = self.split_name();
        let whole = self.pattern.by_rule(name, PART);
        match whole.split_once(PART) {
            Some((before, behind)) => (before.to_owned(), behind.to_owned()),
            None => (whole, String::new()),
        }
    }

    fn in_schema(&self, name: String) -> String {
        match self.split_name() {
            (Some(schema), _) => format!("{schema}.{name}"),
            (None, _) => name,
        }
    }

    /// The physical table that holds the rows of a placement.
    pub(crate) fn physical(&self, rule: &Rule, placement: Placement) -> String {
        if self.by_rule
            && let Some(part) = self.part_by_rule(rule, placement.spread())
        {
            return part;
        }
        let position = if self.pattern.is_global() {
            rule.position(placement.shard()).unwrap_or_default()
        } else {
            0
        };
        self.part(position, placement.table_number(self.count))
    }

    /// Every physical table that a shard can have, whichever the rule fills, each with its number where it
    /// has one.
    pub(crate) fn every_part(&self, rule: &Rule, position: usize) -> Vec<(Option<u32>, String)> {
        if !self.by_rule {
            let numbers = 0..self.count;
            return numbers
                .map(|number| (Some(number), self.part(position, number)))
                .collect();
        }
        let every = rule.reach(&KeyRange::full(rule.key_type())).into_iter();
        let every: BTreeSet<String> = every
            .flat_map(|reach| self.parts(rule, position, &reach.spreads))
            .collect();
        every.into_iter().map(|part| (None, part)).collect()
    }

    /// The physical tables of one shard that can have one of these spreads.
    fn parts(&self, rule: &Rule, position: usize, spreads: &Spreads) -> Vec<String> {
        match spreads {
            Spreads::These(spreads) if self.by_rule => {
                let mut seen = BTreeSet::new();
                spreads
                    .iter()
                    .filter_map(|spread| self.part_by_rule(rule, *spread))
                    .filter(|part| seen.insert(part.clone()))
                    .collect()
            }
            Spreads::All => (0..self.count)
                .map(|number| self.part(position, number))
                .collect(),
            Spreads::These(spreads) => {
                let numbers: BTreeSet<u32> = spreads
                    .iter()
                    // The remainder of a division by a u32 fits a u32.
                    .map(|spread| (spread % u64::from(self.count.max(1))) as u32)
                    .collect();
                numbers
                    .into_iter()
                    .map(|number| self.part(position, number))
                    .collect()
            }
        }
    }
}

impl KeyspaceEntry {
    /// Whether this program can place keys; an error where the rule is a custom algorithm that it does
    /// not know.
    pub(crate) fn can_place(&self) -> Result<(), Error> {
        let Some(name) = self.rule.unknown_algorithm() else {
            return Ok(());
        };
        let message = format!(
            "its algorithm is the custom one {name:?}, which this program does not know, so it can place no key: use the library in a program that registers the algorithm"
        );
        Err(crate::error::ConfigErrors::one("keyspaces", self.name.as_str(), message).into())
    }

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
            .map(|reach| {
                let position = self.rule.position(reach.shard).unwrap_or_default();
                let tables = self.tables.iter();
                RangeTarget {
                    shard: reach.shard,
                    tables: tables
                        .flat_map(|table| table.parts(&self.rule, position, &reach.spreads))
                        .collect(),
                }
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
