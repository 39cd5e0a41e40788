//! What would run, and what stands against it.

use std::sync::Arc;

use serde::Serialize;

use super::check::only_unreachable;
use super::event::Direction;
use super::report::Failure;
use crate::name::ShardName;

/// What is asked of a fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Action {
    /// Apply what is pending, oldest first.
    Run,
    /// Revert each shard's last versions, newest first.
    Revert(Steps),
    /// Revert each shard's last versions, newest first, and apply the same again, oldest first.
    Redo(Steps),
}

/// How many versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Steps {
    /// The last so many.
    Last(usize),
    /// All that are applied.
    All,
}

/// What would run on each database.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Plan {
    /// One entry for each database, sorted by the name of its first shard.
    pub shards: Vec<ShardPlan>,
}

impl Plan {
    /// Whether nothing stands against it.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.shards.iter().all(|shard| shard.failures.is_empty())
    }

    /// Whether there is nothing to do.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.shards.iter().all(|shard| shard.steps.is_empty())
    }
}

/// What would run on one database.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct ShardPlan {
    /// The shard; where several share the database, the first by name.
    pub shard: ShardName,
    /// The other shards on the same database.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<ShardName>,
    /// What would run, in this order; nothing where the shard is refused.
    pub steps: Vec<Step>,
    /// What stands against it: with any of these, the shard is refused.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<Failure>,
    /// What is worth knowing and stops nothing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

impl ShardPlan {
    /// Whether it is refused, and only for being out of reach: [`Options::skip_unreachable`] leaves it out.
    ///
    /// [`Options::skip_unreachable`]: super::Options::skip_unreachable
    #[must_use]
    pub fn is_unreachable(&self) -> bool {
        only_unreachable(&self.failures)
    }
}

/// One migration in one direction.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Step {
    /// The migration's version.
    pub version: Arc<str>,
    /// The name of its folder.
    pub name: Arc<str>,
    /// Up or down.
    pub direction: Direction,
    /// Whether it runs in one transaction with its entry in the version table. Otherwise it is sent
    /// statement by statement, and stays half done where one of them fails.
    pub in_transaction: bool,
    /// Its statements; the whole text as one where it runs in a transaction; none where the
    /// migration is code.
    pub sql: Vec<Arc<str>>,
}
