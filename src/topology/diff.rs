//! What a change of a keyspace's rule moves.

use std::collections::BTreeMap;
use std::fmt;

use super::Topology;
use super::snapshot::KeyspaceEntry;
use crate::algorithm::{Compared, counted, percent};
use crate::error::Error;
use crate::key::{KeyType, ShardKey, ToShardKey};

/// How many keys are generated where nobody gives any.
const GENERATED: u64 = 100_000;

/// What a change of a keyspace's rule moves from which shard to which.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
#[non_exhaustive]
pub struct PlacementDiff {
    /// The keyspace.
    pub keyspace: String,
    /// The fingerprints before and after; where they are equal, nothing moves.
    pub fingerprints: (String, String),
    /// Whether this holds for every key there can be, and not only for those of a sample.
    pub exact: bool,
    /// What was compared: `4096 buckets`, `3 ranges of keys`, `100000 generated keys` ..
    pub basis: String,
    /// How many of those; 0 where no key of the sample has a place in either rule, which says nothing of
    /// other keys.
    pub compared: u64,
    /// The share of what was compared that changes its shard, from 0 to 1; what has a place in one of the
    /// two rules alone is part of it.
    pub moved: f64,
    /// The share that stays on its shard and changes its table there; 0 where only owners were
    /// compared.
    pub changes_table: f64,
    /// How many keys of the sample, null ones too, have a place in neither rule; they are no part of
    /// what was compared.
    pub unplaced: u64,
    /// From where to where, the largest first.
    pub moves: Vec<Move>,
    /// Tables whose parts are others now.
    pub tables: Vec<String>,
}

/// Keys that go one way.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
#[non_exhaustive]
pub struct Move {
    /// The shard before; `None` where the old rule has no place for them.
    pub from: Option<String>,
    /// The shard after; `None` where the new rule has no place for them.
    pub to: Option<String>,
    /// How many of what was compared.
    pub count: u64,
    /// Their share of what was compared, from 0 to 1.
    pub share: f64,
    /// The first hundred of them: runs of buckets, ranges of keys, periods, keys of the sample.
    pub examples: Vec<String>,
}

impl fmt::Display for PlacementDiff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.compared == 0 {
            return write!(
                f,
                "keyspace {}: nothing was compared, since no key of the sample has a place in either rule: give keys of your own",
                self.keyspace
            );
        }
        let how = if self.exact { "exactly" } else { "measured" };
        write!(
            f,
            "keyspace {}: {} % of {} {}, {how}",
            self.keyspace,
            percent(self.moved),
            self.basis,
            if self
                .moves
                .iter()
                .any(|way| way.from.is_none() || way.to.is_none())
            {
                "move to another shard, or gain or lose their place"
            } else {
                "move to another shard"
            }
        )?;
        if self.changes_table > 0.0 {
            let share = percent(self.changes_table);
            write!(f, "; {share} % change their table on the same shard")?;
        }
        if self.unplaced > 0 {
            let keys = counted(self.unplaced, "key");
            write!(f, "; {keys} without a place in either rule")?;
        }
        let nowhere = "nowhere".to_owned();
        for way in &self.moves {
            write!(
                f,
                "\n  {} -> {}: {} ({} %)",
                way.from.as_ref().unwrap_or(&nowhere),
                way.to.as_ref().unwrap_or(&nowhere),
                way.count,
                percent(way.share)
            )?;
            let shown = way.examples.len().min(8);
            if shown > 0 {
                let more = if way.examples.len() > shown {
                    ", .."
                } else {
                    ""
                };
                write!(f, ": {}{more}", way.examples[..shown].join(", "))?;
            }
        }
        for table in &self.tables {
            write!(f, "\n  {table}")?;
        }
        Ok(())
    }
}

/// How many keys go from one shard to another, and the first of them.
type Ways = BTreeMap<(Option<String>, Option<String>), (u64, Vec<String>)>;

/// Compares two topologies' rules for one keyspace, key by key.
///
/// ```
/// use diesel_sharded::{KeyspaceConfig, PlacementSample, RuleSpec, Topology};
///
/// let fleet = |shards: &[&str]| {
///     let rule = RuleSpec::jump(shards.iter().copied());
///     shards
///         .iter()
///         .fold(Topology::builder(), |all, name| all.shard(*name, format!("{name}.sqlite")))
///         .keyspace("orders", KeyspaceConfig::new(rule))
///         .build()
/// };
/// let (old, new) = (fleet(&["a", "b", "c"])?, fleet(&["a", "b", "c", "d"])?);
/// let mut sample = PlacementSample::new(&old, &new, "orders")?;
/// for key in 0..10_000 {
///     sample.add(&key);
/// }
/// let diff = sample.finish();
/// assert!((0.23..0.27).contains(&diff.moved));
/// assert!(diff.moves.iter().all(|way| way.to.as_deref() == Some("d")));
/// # Ok::<(), diesel_sharded::Error>(())
/// ```
#[derive(Debug)]
pub struct PlacementSample {
    old: KeyspaceEntry,
    new: KeyspaceEntry,
    keys: u64,
    unplaced: u64,
    tables_changed: u64,
    ways: Ways,
}

impl PlacementSample {
    /// A comparison without any key yet.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownKeyspace`] where one of the two does not have it.
    pub fn new(old: &Topology, new: &Topology, keyspace: &str) -> Result<Self, Error> {
        Ok(Self {
            old: entry(old, keyspace)?,
            new: entry(new, keyspace)?,
            keys: 0,
            unplaced: 0,
            tables_changed: 0,
            ways: BTreeMap::new(),
        })
    }

    /// Adds a key.
    pub fn add<K: ToShardKey + ?Sized>(&mut self, key: &K) {
        const NAMED: usize = 100;
        let key = key.to_shard_key();
        let (old, new) = (self.old.locate(&key).ok(), self.new.locate(&key).ok());
        let shard = |placement: Option<crate::algorithm::Placement>| {
            placement.map(|placement| placement.shard())
        };
        let (from, to) = (shard(old), shard(new));
        if (from, to) == (None, None) {
            self.unplaced += 1;
            return;
        }
        self.keys += 1;
        if from == to {
            if let (Some(old), Some(new)) = (old, new)
                && self.old.tables_of(old) != self.new.tables_of(new)
            {
                self.tables_changed += 1;
            }
            return;
        }
        let way = (from.map(|s| s.to_string()), to.map(|s| s.to_string()));
        let (count, names) = self.ways.entry(way).or_default();
        *count += 1;
        if names.len() < NAMED {
            names.push(key.to_string());
        }
    }

    /// What the keys so far came to.
    #[must_use]
    pub fn finish(self) -> PlacementDiff {
        let basis = counted(self.keys, "key");
        self.into_diff(basis)
    }

    fn into_diff(self, basis: String) -> PlacementDiff {
        let total = self.keys.max(1) as f64;
        let mut diff = PlacementDiff::between(&self.old, &self.new);
        diff.basis = basis;
        diff.compared = self.keys;
        diff.unplaced = self.unplaced;
        diff.changes_table = self.tables_changed as f64 / total;
        for ((from, to), (count, examples)) in self.ways {
            diff.moves.push(Move {
                from,
                to,
                count,
                share: count as f64 / total,
                examples,
            });
        }
        diff.sum_up();
        diff
    }
}

impl PlacementDiff {
    fn between(old: &KeyspaceEntry, new: &KeyspaceEntry) -> Self {
        let mut tables = Vec::new();
        for table in &old.tables {
            match new.tables.iter().find(|other| other.name == table.name) {
                None => tables.push(format!("table {} is no longer declared", table.name)),
                Some(other) if other != table => {
                    let mut text = format!(
                        "table {}: {} part(s) by {} before, {} by {} after",
                        table.name, table.count, table.key_column, other.count, other.key_column
                    );
                    if table.pattern != other.pattern {
                        let (before, after) = (table.pattern.text(), other.pattern.text());
                        text += &format!("; named {before} before, {after} after");
                    }
                    tables.push(text);
                }
                Some(_) => {}
            }
        }
        for table in &new.tables {
            if !old.tables.iter().any(|other| other.name == table.name) {
                tables.push(format!("table {} is new", table.name));
            }
        }
        Self {
            keyspace: new.name.to_string(),
            fingerprints: (old.fingerprint.to_string(), new.fingerprint.to_string()),
            exact: false,
            basis: String::new(),
            compared: 0,
            moved: 0.0,
            changes_table: 0.0,
            unplaced: 0,
            moves: Vec::new(),
            tables,
        }
    }

    fn sum_up(&mut self) {
        self.moves.sort_by_key(|way| std::cmp::Reverse(way.count));
        // The sum of nothing is a negative zero.
        self.moved = self
            .moves
            .iter()
            .map(|way| way.share)
            .fold(0.0, |a, b| a + b);
    }

    fn exactly(old: &KeyspaceEntry, new: &KeyspaceEntry, compared: Compared) -> Self {
        let mut diff = Self::between(old, new);
        diff.exact = true;
        diff.compared = compared.parts;
        diff.basis = counted(compared.parts, compared.unit);
        match compared.note {
            Some(note) => diff.basis += &format!(" ({note})"),
            None if compared.even => {}
            None => diff.basis += " (which may hold any number of keys)",
        }
        let total = compared.parts.max(1) as f64;
        for ((from, to), (count, examples)) in compared.ways {
            if from != to {
                diff.moves.push(Move {
                    from: from.map(|shard| shard.to_string()),
                    to: to.map(|shard| shard.to_string()),
                    count,
                    share: count as f64 / total,
                    examples,
                });
            }
        }
        diff.sum_up();
        diff
    }
}

fn entry(topology: &Topology, keyspace: &str) -> Result<KeyspaceEntry, Error> {
    topology.with_current(|snapshot| {
        let entry = &snapshot.keyspaces()[snapshot.find_keyspace(keyspace)?];
        entry.can_place()?;
        Ok(entry.clone())
    })
}

impl Topology {
    /// What moves in a keyspace when this topology's rule gives way to another one's: exactly, by
    /// buckets, ranges or periods, where both rules are `hash`, `range` or `date` of one kind, and by
    /// listed keys where one is a `list`; else measured on 100,000 generated keys. With keys of your own, use [`PlacementSample`].
    ///
    /// # Errors
    ///
    /// [`Error::UnknownKeyspace`] where one of the two does not have it; [`Error::KeyType`] where the
    /// types of keys differ, so that no key can be in both.
    pub fn placement_diff(
        &self,
        new: &Self,
        keyspace: impl AsRef<str>,
    ) -> Result<PlacementDiff, Error> {
        let keyspace = keyspace.as_ref();
        let (old_entry, new_entry) = (entry(self, keyspace)?, entry(new, keyspace)?);
        if old_entry.rule.key_type() != new_entry.rule.key_type() {
            return Err(Error::KeyType {
                keyspace: new_entry.name,
                expected: new_entry.rule.key_type().as_str(),
                found: old_entry.rule.key_type().as_str(),
            });
        }
        if let Some(compared) = old_entry.rule.compare(&new_entry.rule) {
            return Ok(PlacementDiff::exactly(&old_entry, &new_entry, compared));
        }
        let mut sample = PlacementSample::new(self, new, keyspace)?;
        for number in 0..GENERATED {
            sample.add(&generated(new_entry.rule.key_type(), number));
        }
        let basis = counted(sample.keys, "generated key");
        Ok(sample.into_diff(basis))
    }
}

/// A key like those of an application: ids that count up, texts that hold one, any UUID.
fn generated(key: KeyType, number: u64) -> ShardKey<'static> {
    let mixed = xxhash_rust::xxh3::xxh3_128(&number.to_le_bytes());
    match key {
        KeyType::Integer => ShardKey::Integer(number.into()),
        KeyType::Text => ShardKey::Text(format!("user-{number}@example.org").into()),
        KeyType::Uuid => ShardKey::Uuid(mixed.to_be_bytes()),
        KeyType::Bytes => ShardKey::Bytes(mixed.to_be_bytes().to_vec().into()),
        // From 1990 on, 50 years.
        KeyType::Date => ShardKey::Date(7_305 + (number % 18_262) as i32),
        KeyType::Timestamp => ShardKey::Timestamp {
            micros: 631_152_000_000_000 + (mixed as u64 % 1_577_836_800) as i64 * 1_000_000,
            sub_micro_nanos: 0,
        },
        KeyType::Composite(parts) => {
            let parts = parts.parts();
            ShardKey::Composite(parts.map(|part| generated(part, number)).collect())
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{DateSpec, Every, KeyType, KeyspaceConfig, Normalize, RuleSpec, Topology};

    fn topology(keyspace: KeyspaceConfig) -> Topology {
        let shards = ["a", "b"].iter().fold(Topology::builder(), |all, name| {
            all.shard(*name, format!("{name}.sqlite"))
        });
        shards.keyspace("k", keyspace).build().expect("a topology")
    }

    #[test]
    fn lists_are_compared_by_what_is_listed_also_where_one_normalizes() {
        let list = |of_a: &str, of_b: &str| {
            let values = [("a", vec![of_a]), ("b", vec![of_b])];
            RuleSpec::list(values).key(KeyType::Text)
        };
        let old = topology(KeyspaceConfig::new(list("bob", "amy")));
        let lowered = list("amy", "bob").normalize([Normalize::Lowercase]);
        let diff = old.placement_diff(&topology(KeyspaceConfig::new(lowered)), "k");
        let diff = diff.expect("comparable");
        assert_eq!((diff.exact, diff.compared, diff.moved), (true, 2, 1.0));
        assert!(diff.basis.contains("not looked at"), "{diff}");
    }

    #[test]
    fn where_no_key_could_be_compared_nothing_is_said_of_any() {
        let by = |months: DateSpec| {
            let months = months.from("1900-01").until("1901-01");
            topology(KeyspaceConfig::new(
                RuleSpec::date(["a", "b"], months).key(KeyType::Date),
            ))
        };
        let old = by(DateSpec::new(Every::Month));
        let diff = old.placement_diff(&by(DateSpec::new(Every::Quarter)), "k");
        let diff = diff.expect("comparable");
        assert_eq!((diff.exact, diff.compared), (false, 0));
        assert!(diff.to_string().contains("nothing was compared"), "{diff}");
    }
}
