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

/// What a command was asked, as far as it decides what helps against a failure.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Advice {
    /// It reverts: options about what is to be applied change nothing.
    pub(super) reverts: bool,
    /// The other shards go on as far as was asked for.
    pub(super) others_go_on: bool,
}

impl Advice {
    /// The option with which a run goes on in spite of a failure, where there is one.
    fn option_for(self, kind: FailureKind) -> Option<&'static str> {
        match kind {
            FailureKind::Unreachable | FailureKind::Closed => Some("--skip-unreachable"),
            FailureKind::ShardsDiffer => Some("--force"),
            FailureKind::OutOfOrder if !self.reverts => Some("--allow-out-of-order"),
            FailureKind::Unknown if !self.reverts => Some("--allow-unknown"),
            FailureKind::Edited if !self.reverts => Some("--allow-edited"),
            _ => None,
        }
    }
}

/// The same of a shard that a run refuses, or would, with the option that lets it.
pub(super) fn refusal_lines(shard: ShardName, failure: &Failure, advice: Advice) -> Vec<String> {
    let mut lines = failure_lines(shard, failure);
    if let Some(option) = advice.option_for(failure.kind) {
        // Of shards that differ from each other, each is refused.
        let others = if advice.others_go_on || failure.kind == FailureKind::ShardsDiffer {
            ""
        } else {
            " (or --keep-going, with the other shards only)"
        };
        lines.push(format!("    to go on all the same: {option}{others}"));
    }
    lines
}
