//! What the databases really look like.

use std::collections::HashMap;
use std::sync::Arc;

use serde::Serialize;
use sha2::{Digest, Sha256};

use super::alike::{Anatomy, TableDifference, compare};
use super::check::{each, lookers};
use super::migrator::{Migrator, Target};
use super::options::Options;
use super::report::Failure;
use super::session::{Session, bookkeeping};
use super::source::hex;
use crate::error::Error;
use crate::name::ShardName;

/// The real schema of each database, compared.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct SchemaReport {
    /// One entry for each database, sorted by the name of its first shard.
    pub shards: Vec<ShardSchema>,
}

impl SchemaReport {
    /// Whether every database could be read, and those that have the same migrations look the same.
    #[must_use]
    pub fn agrees(&self) -> bool {
        self.shards.iter().all(|shard| {
            shard.failures.is_empty()
                && shard.missing.is_empty()
                && shard.extra.is_empty()
                && shard.tables.is_empty()
        })
    }
}

/// The real schema of one database.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct ShardSchema {
    /// The shard; where several share the database, the first by name.
    pub shard: ShardName,
    /// The other shards on the same database.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<ShardName>,
    /// SHA-256 over everything that makes up the schema, in hexadecimal; what this crate and Diesel
    /// keep for themselves has no part in it. Empty where the database could not be read.
    pub fingerprint: String,
    /// The shard this one was compared with: of the databases with the same migrations, one that
    /// looks as most of them do.
    pub reference: ShardName,
    /// What the reference has and this database has not, one line for each thing.
    pub missing: Vec<String>,
    /// What this database has and the reference has not.
    pub extra: Vec<String>,
    /// Physical tables that are not there, or do not look as most parts of the same table do, on all
    /// databases with the same migrations. What is about such tables is here and not in the two lists above.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tables: Vec<TableDifference>,
    /// Why the database could not be read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<Failure>,
}

impl Migrator {
    /// Reads the real schema of each chosen database and compares those that have the same
    /// migrations; what somebody changed by hand is found here and nowhere else.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownShard`] for a name in the options, [`Error::Config`] for a database whose backend
    /// was not compiled in.
    pub fn schema(&self, options: &Options) -> Result<SchemaReport, Error> {
        let targets = self.chosen(options)?;
        let read = each(&targets, lookers(options), |target| anatomy(target));
        let mut shards: Vec<ShardSchema> = targets
            .iter()
            .zip(&read)
            .map(|(target, read)| ShardSchema {
                shard: target.shard(),
                also: target.also().to_vec(),
                fingerprint: read.as_ref().map_or_else(|_| String::new(), fingerprint),
                reference: target.shard(),
                missing: Vec::new(),
                extra: Vec::new(),
                tables: Vec::new(),
                failures: read.as_ref().err().cloned().into_iter().collect(),
            })
            .collect();
        for (at, tables) in differing(&targets, &read) {
            shards[at].tables = tables;
        }
        for at in 0..targets.len() {
            let Ok(own) = &read[at] else {
                continue;
            };
            let alike: Vec<usize> = (0..targets.len())
                .filter(|other| {
                    Arc::ptr_eq(&targets[at].sources, &targets[*other].sources)
                        && read[*other].is_ok()
                })
                .collect();
            let Some(reference) = most_common(&alike, &shards) else {
                continue;
            };
            let Ok(model) = &read[reference] else {
                continue;
            };
            shards[at].reference = shards[reference].shard;
            shards[at].missing = without(&model.rest, &own.rest);
            shards[at].extra = without(&own.rest, &model.rest);
        }
        Ok(SchemaReport { shards })
    }
}

/// The first of those that look as most do.
fn most_common(alike: &[usize], shards: &[ShardSchema]) -> Option<usize> {
    let mut counts: HashMap<&str, usize> = HashMap::new();
    for at in alike {
        *counts.entry(&shards[*at].fingerprint).or_default() += 1;
    }
    let most = counts.values().max()?;
    alike
        .iter()
        .copied()
        .find(|at| counts.get(shards[*at].fingerprint.as_str()) == Some(most))
}

/// The lines of one sorted list that another has not.
fn without(lines: &[String], others: &[String]) -> Vec<String> {
    lines
        .iter()
        .filter(|line| others.binary_search(line).is_err())
        .cloned()
        .collect()
}

fn fingerprint(schema: &Anatomy) -> String {
    let mut hash = Sha256::new();
    for line in schema.rest.iter().cloned().chain(schema.of_tables()) {
        hash.update(line.as_bytes());
        hash.update(b"\n");
    }
    hex(&hash.finalize())
}

/// Reads the schema of a database.
pub(super) fn anatomy(target: &Target) -> Result<Anatomy, Failure> {
    // Reading a database that is not there would make it.
    if target.file.as_ref().is_some_and(|file| !file.exists()) {
        return Ok(Anatomy::default());
    }
    let mut session = Session::open(&target.spec, target.kind)?;
    let lines = session
        .schema()
        .map_err(|error| bookkeeping("reading the schema", &error))?;
    let parts = target.parts(&mut session)?;
    Ok(Anatomy::of(lines, target.tables.as_deref(), &parts))
}

/// What the databases have to say of their physical tables: their positions, and what is different.
pub(super) fn differing(
    targets: &[&Target],
    read: &[Result<Anatomy, Failure>],
) -> Vec<(usize, Vec<TableDifference>)> {
    let mut found = Vec::new();
    for at in 0..targets.len() {
        let alike: Vec<usize> = (0..targets.len())
            .filter(|other| {
                Arc::ptr_eq(&targets[at].sources, &targets[*other].sources)
                    && targets[at].kind == targets[*other].kind
            })
            .collect();
        // Each group once, at its first.
        if alike.first() != Some(&at) {
            continue;
        }
        let (places, group): (Vec<usize>, Vec<&Anatomy>) = alike
            .iter()
            .filter_map(|at| Some((*at, read[*at].as_ref().ok()?)))
            .unzip();
        found.extend(places.into_iter().zip(compare(&group)));
    }
    found
}
