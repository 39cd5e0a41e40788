//! The tables that the flights are in: one on each shard, or several.

use diesel_sharded::ShardName;
use diesel_sharded::blocking::{Keyspace, ShardedConnection, ShardedConnectionManager};

use super::queries::FlightQueries;
use crate::{Result, UNKEYED};

/// A physical table: its shard, and its number where the shard has several.
#[derive(Clone, Copy)]
pub(crate) struct Part {
    pub(crate) shard: ShardName,
    number: Option<u32>,
}

impl std::fmt::Display for Part {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text = match self.number {
            Some(number) => format!("{} table {number}", self.shard),
            None => self.shard.to_string(),
        };
        f.pad(&text)
    }
}

/// Into how many tables each shard of the keyspace splits the flights.
pub(crate) fn count<C: FlightQueries>(planes: &Keyspace<C>) -> Result<u32> {
    let numbers = planes.table_places("flights")?;
    let last = numbers.iter().map(|place| place.number).max();
    Ok(last.map_or(1, |last| last + 1))
}

/// The table of a plane.
pub(crate) fn of_plane<C: FlightQueries>(planes: &Keyspace<C>, plane: &str) -> Result<Part> {
    let (place, count) = (planes.locate(plane)?, count(planes)?);
    Ok(Part {
        shard: place.shard(),
        number: (count > 1).then(|| place.table_number(count)),
    })
}

/// Asks each table of the keyspace in turn. The queries name `flights`, whatever its tables are called.
pub(crate) fn each<C: FlightQueries, T>(
    planes: &Keyspace<C>,
    mut ask: impl FnMut(&mut ShardedConnection<C>, Part) -> Result<T>,
) -> Result<Vec<(Part, T)>> {
    let split = count(planes)? > 1;
    let part = |shard, number| Part {
        shard,
        number: split.then_some(number),
    };
    let answers = planes.for_each_table("flights", |conn, place| {
        ask(conn, part(place.shard, place.number))
    })?;
    answers
        .into_iter()
        .map(|each| {
            let part = part(each.place.shard, each.place.number);
            each.result
                .map(|answer| (part, answer))
                .map_err(|error| format!("{part}: {error}").into())
        })
        .collect()
}

/// The same, and then the shard of the flights that have no plane, which is in no keyspace.
pub(crate) fn all<C: FlightQueries, T>(
    shards: &ShardedConnectionManager<C>,
    planes: &Keyspace<C>,
    mut ask: impl FnMut(&mut ShardedConnection<C>, Part) -> Result<T>,
) -> Result<Vec<(Part, T)>> {
    let mut answers = each(planes, &mut ask)?;
    let part = Part {
        shard: shards.route(UNKEYED)?.shard(),
        number: None,
    };
    // By name: no route is needed, and none is in the way.
    let answer = ask(&mut shards.get_on(UNKEYED)?, part)?;
    answers.push((part, answer));
    Ok(answers)
}
