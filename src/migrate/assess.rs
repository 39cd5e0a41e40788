//! Decides from what is recorded in a database what is to run there, and what stands against it.
//! Pure: nothing here talks to a database.

use std::sync::Arc;

use super::apply::NO_WAY_BACK;
use super::event::Direction;
use super::migrator::Target;
use super::options::Options;
use super::plan::{Action, Step, Steps};
use super::report::{Failure, FailureKind};
use super::session::Books;
use super::source::{Body, Migration, MigrationSet};
use super::status::{Dirty, VersionState, VersionStatus};
use crate::name::ShardName;

/// One migration of a set, in one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Task {
    /// Its place in the set.
    pub(super) at: usize,
    pub(super) direction: Direction,
}

/// What is to run on one database, and what stands against it.
#[derive(Debug, Default)]
pub(super) struct Assessment {
    pub(super) tasks: Vec<Task>,
    pub(super) failures: Vec<Failure>,
}

/// What `action` means for a database.
pub(super) fn assess(
    action: Action,
    target: &Target,
    set: &MigrationSet,
    books: &Books,
    options: &Options,
) -> Assessment {
    let shard = target.shard();
    let mut assessment = Assessment {
        tasks: Vec::new(),
        failures: books
            .progress
            .iter()
            .map(|progress| Dirty::of(target, set.get(&progress.version), progress).failure(shard))
            .collect(),
    };
    match action {
        Action::Run => run(shard, set, books, options, &mut assessment),
        Action::Revert(steps) => revert(steps, shard, set, books, &mut assessment),
        Action::Redo(steps) => {
            revert(steps, shard, set, books, &mut assessment);
            let again: Vec<Task> = assessment
                .tasks
                .iter()
                .rev()
                .map(|task| Task {
                    direction: Direction::Up,
                    ..*task
                })
                .collect();
            assessment.tasks.extend(again);
        }
    }
    assessment
}

fn run(
    shard: ShardName,
    set: &MigrationSet,
    books: &Books,
    options: &Options,
    assessment: &mut Assessment,
) {
    let failures = &mut assessment.failures;
    if !options.allow_unknown {
        for version in unknown(set, books) {
            let mut failure = no_source(shard, version, "it is applied here");
            failure.message += "; or allow unknown versions";
            failures.push(failure);
        }
    }
    let newest = newest_known(set, books);
    for (at, migration) in set.migrations.iter().enumerate() {
        match state(migration, books, newest) {
            VersionState::Edited if !options.allow_edited => failures.push(
                Failure::new(
                    FailureKind::Edited,
                    format!(
                        "its up.sql is not the one that was applied here: restore the text and write a new migration, or, if the change has no effect, run `diesel-sharded migration repair {shard} {} --mark applied`, or allow edited migrations",
                        migration.version
                    ),
                )
                .of_version(&migration.version),
            ),
            VersionState::Diverged if !options.allow_out_of_order => failures.push(
                Failure::new(
                    FailureKind::OutOfOrder,
                    format!(
                        "it is missing here although the newer {} is applied: allow out-of-order migrations to apply it now",
                        newest.unwrap_or_default()
                    ),
                )
                .of_version(&migration.version),
            ),
            VersionState::Pending | VersionState::Diverged => assessment.tasks.push(Task {
                at,
                direction: Direction::Up,
            }),
            _ => {}
        }
    }
}

fn revert(
    steps: Steps,
    shard: ShardName,
    set: &MigrationSet,
    books: &Books,
    assessment: &mut Assessment,
) {
    let count = match steps {
        Steps::Last(count) => count,
        Steps::All => usize::MAX,
    };
    for version in books.applied.keys().rev().take(count) {
        let known = set
            .migrations
            .binary_search_by(|migration| (*migration.version).cmp(version));
        let refused = match known {
            Ok(at) if set.migrations[at].is_revertible() => {
                assessment.tasks.push(Task {
                    at,
                    direction: Direction::Down,
                });
                continue;
            }
            Ok(at) => Failure::new(
                FailureKind::NotRevertible,
                match &set.migrations[at].body {
                    Body::Sql { .. } => NO_WAY_BACK,
                    Body::Code(_) => "its code has no way back, so it cannot be reverted",
                },
            ),
            Err(_) => no_source(shard, version, "it is to be reverted"),
        };
        assessment
            .failures
            .push(refused.of_version(&version.as_str().into()));
    }
}

/// A version that a database knows and no source.
pub(super) fn no_source(shard: ShardName, version: &str, what: &str) -> Failure {
    Failure::new(
        FailureKind::Unknown,
        format!(
            "{what}, but no source has it (a newer release, or its folder was removed): restore its folder, or, if it is gone for good, undo by hand what it did and run `diesel-sharded migration repair {shard} {version} --mark reverted`"
        ),
    )
    .of_version(&version.into())
}

/// Applied versions that no source knows.
fn unknown<'b>(set: &'b MigrationSet, books: &'b Books) -> impl Iterator<Item = &'b str> {
    books
        .applied
        .keys()
        .map(String::as_str)
        .filter(|version| set.get(version).is_none())
}

fn newest_known<'b>(set: &MigrationSet, books: &'b Books) -> Option<&'b str> {
    books
        .applied
        .keys()
        .rev()
        .map(String::as_str)
        .find(|version| set.get(version).is_some())
}

fn state(migration: &Migration, books: &Books, newest: Option<&str>) -> VersionState {
    match books.applied.get(&*migration.version) {
        Some(applied) => {
            // What somebody else applied has no checksum, and code has none either.
            let edited = match (&applied.checksum, migration.checksum()) {
                (Some(then), Some(now)) => then != now,
                _ => false,
            };
            if edited {
                VersionState::Edited
            } else {
                VersionState::Applied
            }
        }
        None if newest.is_some_and(|newest| *newest > *migration.version) => VersionState::Diverged,
        None => VersionState::Pending,
    }
}

/// The row of a status matrix. `running`: another runner is in the middle of what has begun here.
pub(super) fn row(set: &MigrationSet, books: &Books, running: bool) -> Vec<VersionStatus> {
    let newest = newest_known(set, books);
    let remembered = |version: &str| {
        let applied = books.applied.get(version)?;
        applied.name.as_deref().map(Into::into)
    };
    let mut versions: Vec<VersionStatus> = set
        .migrations
        .iter()
        .map(|migration| VersionStatus {
            version: Arc::clone(&migration.version),
            name: Some(Arc::clone(&migration.name)),
            state: state(migration, books, newest),
        })
        .chain(unknown(set, books).map(|version| VersionStatus {
            name: remembered(version),
            version: version.into(),
            state: VersionState::Unknown,
        }))
        .collect();
    for progress in &books.progress {
        let state = if progress.doubt.is_some() {
            VersionState::InDoubt
        } else if running {
            VersionState::Running
        } else {
            VersionState::Dirty
        };
        match versions
            .iter_mut()
            .find(|entry| *entry.version == *progress.version)
        {
            Some(entry) => entry.state = state,
            None => versions.push(VersionStatus {
                name: remembered(&progress.version),
                version: progress.version.as_str().into(),
                state,
            }),
        }
    }
    versions.sort_by(|a, b| a.version.cmp(&b.version));
    versions
}

/// A step as a plan shows it.
pub(super) fn step(set: &MigrationSet, task: Task) -> Step {
    let migration = &set.migrations[task.at];
    let (in_transaction, sql) = match (&migration.body, task.direction) {
        (Body::Sql { up: script, .. }, Direction::Up)
        | (
            Body::Sql {
                down: Some(script), ..
            },
            Direction::Down,
        ) => (
            script.in_transaction,
            match &script.statements {
                Some(statements) => statements
                    .iter()
                    .map(|statement| Arc::clone(&statement.text))
                    .collect(),
                None => vec![Arc::clone(&script.text)],
            },
        ),
        (Body::Sql { down: None, .. }, Direction::Down) => (true, Vec::new()),
        (Body::Code(code), _) => (code.run_in_transaction(), Vec::new()),
    };
    Step {
        version: Arc::clone(&migration.version),
        name: Arc::clone(&migration.name),
        direction: task.direction,
        in_transaction,
        sql,
    }
}
