//! How failures of shards are told, whichever command they come from.

use diesel_sharded::ShardName;
use diesel_sharded::migrate::{Failure, FailureKind};

use crate::output::{BAD, styled};

/// A failure in a few lines: what, the statement, and what the database said.
pub(super) fn failure_lines(shard: ShardName, failure: &Failure) -> Vec<String> {
    let version = match &failure.version {
        Some(version) => format!("migration {version}: "),
        None => String::new(),
    };
    let mut lines = vec![format!(
        "{}: shard {shard}: {version}{}",
        styled(BAD, "failed"),
        failure.message
    )];
    if let Some(statement) = &failure.statement {
        let text = statement
            .sql
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ");
        lines.push(format!(
            "    statement {} of {}: {text}",
            statement.number, statement.of
        ));
    }
    if let Some(said) = &failure.database {
        let text = said.split_whitespace().collect::<Vec<_>>().join(" ");
        lines.push(format!("    database: {text}"));
    }
    lines
}

/// The same of a shard that a run refuses, or would, with the option that lets it.
pub(super) fn refusal_lines(shard: ShardName, failure: &Failure) -> Vec<String> {
    let mut lines = failure_lines(shard, failure);
    if let Some(option) = option_for(failure.kind) {
        lines.push(format!(
            "    to go on all the same: {option} (or --keep-going, with the other shards only)"
        ));
    }
    lines
}

/// The option with which a run goes on in spite of it, where there is one.
fn option_for(kind: FailureKind) -> Option<&'static str> {
    match kind {
        FailureKind::Unreachable | FailureKind::Closed => Some("--skip-unreachable"),
        FailureKind::OutOfOrder => Some("--allow-out-of-order"),
        FailureKind::Unknown => Some("--allow-unknown"),
        FailureKind::Edited => Some("--allow-edited"),
        FailureKind::ShardsDiffer => Some("--force"),
        _ => None,
    }
}
