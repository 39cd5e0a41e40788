//! Physical tables by their number: for jobs that go through all of them.

use super::keyspace::KeyspaceRef;
use crate::error::Error;
use crate::name::ShardName;
use crate::rewrite::{TableNumbers, Which};
use crate::route::{Located, Route};
use crate::topology::{KeyspaceEntry, Snapshot};

/// One physical table of a keyspace: on which shard, and its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub struct TablePlace {
    /// The shard.
    pub shard: ShardName,
    /// The number of the table, from 0.
    pub number: u32,
}

/// What came of one physical table in `for_each_table`.
#[derive(Debug)]
#[non_exhaustive]
pub struct TableResult<T, E> {
    /// The table.
    pub place: TablePlace,
    /// What the closure answered, or why it was not run.
    pub result: Result<T, E>,
}

impl<T, E> TableResult<T, E> {
    pub(crate) fn new(place: TablePlace, result: Result<T, E>) -> Self {
        Self { place, result }
    }
}

/// A physical table, and where work on it goes.
#[cfg(feature = "bb8")]
pub(crate) type LocatedTable = (TablePlace, Result<Located, Error>);

impl KeyspaceRef {
    /// The route to the tables with a number; without the name of a table, of the one count that the
    /// keyspace has.
    pub(crate) fn table_route(
        &self,
        table: Option<&str>,
        shard: &str,
        number: u32,
    ) -> Result<Route, Error> {
        let at = self.table_at(table, shard, number)?;
        Ok(Route::new(self.topology().clone(), at))
    }

    pub(crate) fn table_at(
        &self,
        table: Option<&str>,
        shard: &str,
        number: u32,
    ) -> Result<Located, Error> {
        self.with_entry(|snapshot, entry| {
            let count =
                count(entry, table).map_err(|reason| unknown_table(entry, number, reason))?;
            at(snapshot, entry, shard, number, count)
        })
    }

    /// The same with the route to each.
    #[cfg(feature = "bb8")]
    pub(crate) fn located_tables(&self, table: &str) -> Result<Vec<LocatedTable>, Error> {
        let places = self.table_places(table)?.into_iter();
        let at = |place: TablePlace| self.table_at(Some(table), place.shard.as_str(), place.number);
        Ok(places.map(|place| (place, at(place))).collect())
    }

    /// All physical tables of a logical one, by shard and number.
    pub(crate) fn table_places(&self, table: &str) -> Result<Vec<TablePlace>, Error> {
        self.with_entry(|_, entry| {
            let count =
                count(entry, Some(table)).map_err(|reason| unknown_table(entry, 0, reason))?;
            let mut shards = entry.rule.shards().to_vec();
            shards.sort();
            shards.dedup();
            Ok(shards
                .into_iter()
                .flat_map(|shard| (0..count).map(move |number| TablePlace { shard, number }))
                .collect())
        })
    }
}

fn at(
    snapshot: &Snapshot,
    entry: &KeyspaceEntry,
    shard: &str,
    number: u32,
    count: u32,
) -> Result<Located, Error> {
    let mut at = snapshot.locate(shard)?;
    if !entry.rule.shards().contains(&at.shard) {
        return Err(unknown_table(
            entry,
            number,
            format!("shard {} is not one of its shards", at.shard),
        ));
    }
    if number >= count {
        return Err(unknown_table(
            entry,
            number,
            format!("there are {count}, numbered from 0"),
        ));
    }
    at.tables = entry.has_tables.then_some(TableNumbers {
        keyspace: entry.name,
        which: Which::Number { number, count },
        placed_by: entry.placed_by(),
    });
    Ok(at)
}

/// Into how many a table is split; without a name, every table that is split at all.
fn count(entry: &KeyspaceEntry, table: Option<&str>) -> Result<u32, String> {
    if let Some(name) = table {
        return match entry.tables.iter().find(|table| table.name == name) {
            Some(table) if table.by_rule => Err(format!(
                "the parts of {name} are named by the rule and have no numbers: go by key"
            )),
            Some(table) => Ok(table.count),
            None => Err(format!("it has no table {name}")),
        };
    }
    let mut counts: Vec<u32> = entry
        .tables
        .iter()
        .filter(|table| table.is_physical() && !table.by_rule)
        .map(|table| table.count)
        .collect();
    counts.sort_unstable();
    counts.dedup();
    match counts.as_slice() {
        [] => Err("none of its tables is split".to_owned()),
        [count] => Ok(*count),
        counts => Err(format!(
            "its tables are split into {counts:?}, so a number alone means nothing: use on_table_of and name the table"
        )),
    }
}

fn unknown_table(entry: &KeyspaceEntry, number: u32, reason: String) -> Error {
    Error::UnknownTable {
        keyspace: entry.name,
        number,
        reason,
    }
}
