//! Warnings about columns that each part of a sharded table numbers by a counter of its own.

use super::assess::Task;
use super::event::Direction;
use super::source::{Body, MigrationSet};
use crate::rewrite::{Parts, TableSet, Template};

/// What is to be said of the columns that a statement has the database number.
pub(super) fn of_statement(set: &TableSet, template: &Template) -> Vec<String> {
    let counters = template.counters().filter_map(|(at, column)| {
        let table = &set.tables()[at];
        let parts = match &table.parts {
            Parts::Numbered(names) if names.len() < 2 => return None,
            Parts::Numbered(names) => format!("{} tables", names.len()),
            Parts::ByRule { .. } => "tables".to_owned(),
        };
        Some(format!(
            "{}.{column} is counted by each of its {parts} on its own, so ids repeat between them: use ids that are unique in the fleet, or tell rows apart by their place too (docs/tables.md, Ids)",
            table.full_name()
        ))
    });
    counters.collect()
}

/// The same of the migrations that are to be applied, each once.
pub(super) fn of_tasks(set: &MigrationSet, tasks: &[Task]) -> Vec<String> {
    let mut warnings: Vec<String> = Vec::new();
    for task in tasks.iter().filter(|task| task.direction == Direction::Up) {
        if let Body::Sql { up, .. } = &set.migrations[task.at].body {
            let new = up.warnings.iter().filter(|one| !warnings.contains(one));
            let new: Vec<String> = new.cloned().collect();
            warnings.extend(new);
        }
    }
    warnings
}
