//! Where the rows with one key are.

use std::collections::BTreeSet;

use super::super::backend::NodeConnection;
use super::pages::Pace;
use super::session::{Session, primaries, told};
use crate::driver::verify::{Finding, KeyPlaces, Plan, RowsFound, TableJob, VerifyOptions};
use crate::error::Error;
use crate::key::{ShardKey, ToShardKey};
use crate::topology::Topology;

/// Where the rows with one key really are, on any shard of the keyspace and in any of its tables,
/// beside where they belong. Nothing is written. A key for which the rule has no place is looked for
/// all the same, also in tables outside of the rule's plan.
///
/// Rows have the key where [`verify`](super::verify) would say so, whichever way a row spells it. The
/// database is asked for the key where it cannot be spelt in two ways: whole numbers, texts without
/// [`normalize`](crate::RuleSpec::normalize), bytes, and columns of the database's own types for
/// days, instants and UUIDs. Otherwise, and on SQLite for all but whole numbers and texts, the whole
/// column is read.
///
/// # Errors
///
/// Those of [`locate`](Topology::locate), except [`Error::NotCovered`], and of
/// [`verify`](super::verify).
pub fn find_key<C: NodeConnection>(
    topology: &Topology,
    keyspace: &str,
    key: &ShardKey<'_>,
    options: &VerifyOptions,
) -> Result<KeyPlaces, Error> {
    let plan = Plan::new(topology, keyspace, options)?;
    let (home, nowhere) = match plan.keyspace.locate(key) {
        Ok(placement) => (Some(placement), None),
        Err(error @ Error::NotCovered { .. }) => (None, Some(error.to_string())),
        Err(error) => return Err(error),
    };
    let tables = home
        .map(|home| plan.keyspace.tables_of(home))
        .unwrap_or_default();
    let is_home = |job: &TableJob| {
        home.is_some_and(|home| home.shard() == job.shard)
            && tables.iter().any(|(_, physical)| *physical == job.physical)
    };
    let nodes = primaries(topology);
    let mut places = KeyPlaces {
        key: key.to_shard_key().to_string(),
        home: home.map(|home| home.shard()),
        home_tables: {
            let tables = std::iter::zip(&plan.keyspace.tables, &tables);
            let wanted = tables.filter(|(table, _)| {
                options
                    .table
                    .as_ref()
                    .is_none_or(|name| table.name == *name)
            });
            wanted.map(|(_, (_, physical))| physical.clone()).collect()
        },
        nowhere,
        found: Vec::new(),
        missing: Vec::new(),
        failed: Vec::new(),
    };
    let mut present = BTreeSet::new();
    for jobs in &plan.jobs {
        let Some(first) = jobs.first() else { continue };
        let asked = Session::<C>::open(&nodes, first.shard).and_then(|mut session| {
            let mut pace = Pace::new(options);
            let outside = plan.outside.get(&first.shard);
            let outside = session.outside(outside.map_or(&[], Vec::as_slice))?;
            for job in jobs.iter().chain(&outside) {
                if !session.is_there(&job.physical)? {
                    if job.expected {
                        places.missing.push(Finding::missing_table(job));
                    }
                    continue;
                }
                present.insert(job.logical);
                let pace = (options, &mut pace);
                let rows = session.rows_with_keys(&plan, job, std::slice::from_ref(key), pace)?;
                let rows = rows.iter().sum();
                if rows > 0 {
                    places.found.push(RowsFound {
                        shard: job.shard,
                        table: job.physical.clone(),
                        rows,
                        at_home: is_home(job),
                    });
                }
            }
            Ok(())
        });
        if let Err(error) = asked {
            places.failed.push((first.shard.to_string(), told(&error)));
        }
    }
    if places.failed.is_empty() {
        places
            .missing
            .extend(plan.without_table(|logical| present.contains(&logical)));
    }
    Ok(places)
}
