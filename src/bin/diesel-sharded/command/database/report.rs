//! How failures of shards are told, whichever command they come from.

use diesel_sharded::ShardName;
use diesel_sharded::migrate::Failure;

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
