//! Migrations over sharded tables: a statement that names one is run once for each physical table of the
//! shard, with the names of indexes and constraints made unique.

use std::sync::Arc;

use super::counted;
use super::parts::TableParts;
use super::report::{Failure, FailureKind};
use super::source::{Body, Migration, MigrationSet, Script};
use super::split;
use crate::driver::text_settings;
use crate::rewrite::{
    Analysis, Origin, OwnNames, Parts, Refusal, TableNumbers, TableSet, Template, Unfilled, Which,
    analyze_knowing,
};
use crate::topology::UrlKind;

/// The migrations of a database for the tables of its shard. One that cannot be run for each of them
/// keeps the reason, and fails where it would be run: it may have been, before the table was split.
///
/// `parts` are those of the tables that a rule names.
pub(super) fn for_tables(
    set: &Arc<MigrationSet>,
    tables: &TableSet,
    parts: &[TableParts],
    kind: UrlKind,
) -> Arc<MigrationSet> {
    let names = own_names(tables, &set.migrations);
    let expanded = |script: &Script| match expand(script, tables, parts, &names, kind) {
        Ok(None) => script.clone(),
        Ok(Some(expanded)) => expanded,
        Err(problem) => Script {
            refused: Some(problem.into()),
            ..script.clone()
        },
    };
    let migrations = set.migrations.iter().map(|migration| {
        let body = match &migration.body {
            Body::Sql { up, down } => Body::Sql {
                up: expanded(up),
                down: down.as_ref().map(expanded),
            },
            Body::Code(code) => Body::Code(Arc::clone(code)),
        };
        Migration {
            body,
            ..migration.clone()
        }
    });
    Arc::new(MigrationSet {
        migrations: migrations.collect(),
        folders: set.folders.clone(),
    })
}

/// What the migrations of a set call indexes and constraints.
fn own_names(set: &TableSet, migrations: &[Migration]) -> OwnNames {
    let scripts = migrations.iter().filter_map(|one| match &one.body {
        Body::Sql { up, .. } => up.statements.as_ref(),
        Body::Code(_) => None,
    });
    let statements = scripts.flat_map(|statements| statements.iter());
    OwnNames::of(set, statements.map(|statement| &*statement.text))
}

/// The script with each statement over a sharded table repeated; `None` where there is none.
///
/// # Errors
///
/// Which statement cannot be repeated, and why.
fn expand(
    script: &Script,
    set: &TableSet,
    by_rule: &[TableParts],
    names: &OwnNames,
    kind: UrlKind,
) -> Result<Option<Script>, String> {
    let Some(statements) = &script.statements else {
        return if set.occurs_in(&script.text) {
            Err("it names a sharded table, and its statements could not be told apart".to_owned())
        } else {
            Ok(None)
        };
    };
    let mut expanded = Vec::with_capacity(statements.len());
    let mut warnings = Vec::new();
    let mut changed = false;
    for (number, statement) in (1..).zip(statements.iter()) {
        if let Some(reason) = text_settings::refusal(set.dialect, &statement.text) {
            return Err(format!("its statement {number} cannot be run: {reason}"));
        }
        let template = template(set, names, &statement.text)
            .map_err(|refusal| format!("its statement {number} {}", because(&refusal, set)))?;
        let Some(template) = template else {
            expanded.push(statement.clone());
            continue;
        };
        if !template.keys().is_empty() {
            return Err(format!(
                "its statement {number} writes rows by their shard key, which belong to one part each: write them in a migration in code, under the route of their key"
            ));
        }
        if let Some(other) = template.elsewhere() {
            return Err(format!(
                "its statement {number} writes {other}, which is not split, and reads sharded tables, so it would be run once for each part, each time with the rows of that part alone: write it in a migration in code, under the routes of the parts"
            ));
        }
        changed = true;
        warnings.extend(counted::of_statement(set, &template));
        for numbers in parts(set, by_rule, &template) {
            let text = template
                .render(set, Some(numbers))
                .map_err(|unfilled| match unfilled {
                    Unfilled::NoNumber(table) => {
                        let table = set.tables()[table].full_name();
                        format!("its statement {number} names {table}, which has no such part")
                    }
                    Unfilled::Taken(reason) => {
                        format!("its statement {number} cannot be sent: {reason}")
                    }
                })?;
            expanded.extend(split::split(&text, kind)?);
        }
    }
    // Text and checksum stay: they are of what somebody wrote.
    Ok(changed.then(|| Script {
        statements: Some(expanded.into()),
        warnings: warnings.into(),
        ..script.clone()
    }))
}

fn template(set: &TableSet, names: &OwnNames, text: &str) -> Result<Option<Template>, Refusal> {
    match analyze_knowing(set, text, Origin::Anyone, &|name| names.is_given(name))? {
        Analysis::Template(template) => Ok(Some(template)),
        Analysis::Untouched => names.template(set, text),
    }
}

/// The physical tables that a statement is run for.
fn parts(set: &TableSet, by_rule: &[TableParts], template: &Template) -> Vec<TableNumbers> {
    let Some(table) = template.tables().first().map(|at| &set.tables()[*at]) else {
        return Vec::new();
    };
    let numbers = |which| TableNumbers {
        keyspace: table.keyspace,
        which,
        placed_by: table.placed_by,
    };
    if let Parts::Numbered(names) = &table.parts {
        let count = u32::try_from(names.len()).unwrap_or(u32::MAX);
        return (0..count)
            .map(|number| numbers(Which::Number { number, count }))
            .collect();
    }
    // Of tables that are named together, the parts that all of them have.
    let mut all = by_rule
        .iter()
        .filter(|one| template.tables().contains(&one.at));
    let mut spreads = all.next().map(TableParts::in_use).unwrap_or_default();
    for other in all {
        let others = other.in_use();
        spreads.retain(|spread| others.contains(spread));
    }
    spreads
        .into_iter()
        .map(|spread| numbers(Which::Spread(spread)))
        .collect()
}

/// A statement of an applied migration, to be run again for a part that has come since.
pub(super) struct Replay {
    pub(super) version: Arc<str>,
    pub(super) template: Template,
    /// The table that it works on: the first one that it names.
    pub(super) table: usize,
    /// Whether it makes that table.
    pub(super) creates: bool,
    /// Its migration runs in a transaction.
    pub(super) in_transaction: bool,
}

/// The statements of applied migrations over tables of a set, in their order.
///
/// # Errors
///
/// A migration that names such a table and cannot be read.
pub(super) fn replay(
    sources: &MigrationSet,
    set: &TableSet,
    is_applied: impl Fn(&str) -> bool,
) -> Result<Vec<Replay>, Failure> {
    let names = own_names(set, &sources.migrations);
    let mut replays = Vec::new();
    for migration in &sources.migrations {
        let Body::Sql { up, .. } = &migration.body else {
            continue;
        };
        if !is_applied(&migration.version) {
            continue;
        }
        for statement in up.statements.iter().flat_map(|all| all.iter()) {
            let template = template(set, &names, &statement.text).map_err(|refusal| {
                Failure::new(FailureKind::Statement, because(&refusal, set))
                    .of_version(&migration.version)
            })?;
            // Rows with a key belong to one part, which was there when they were written; and what is written
            // elsewhere is no matter of a part.
            let is_of_a_part = |one: &Template| one.keys().is_empty() && one.elsewhere().is_none();
            let Some(template) = template.filter(is_of_a_part) else {
                continue;
            };
            let Some(table) = template.tables().first().copied() else {
                continue;
            };
            replays.push(Replay {
                version: Arc::clone(&migration.version),
                table,
                creates: statement.creates_table(),
                in_transaction: up.in_transaction,
                template,
            });
        }
    }
    Ok(replays)
}

fn because(refusal: &Refusal, set: &TableSet) -> String {
    match refusal {
        Refusal::Unclear(reason) => {
            format!("names a sharded table and cannot be run for each of its parts: {reason}")
        }
        Refusal::Unbound { one, other } => format!(
            "names {} and {}, which are not split alike",
            set.tables()[*one].full_name(),
            set.tables()[*other].full_name()
        ),
        Refusal::KeyExpression { table } => format!(
            "changes the shard key of {}, so rows would have to move",
            set.tables()[*table].full_name()
        ),
        Refusal::RowNumber { table } => format!(
            "sets the rowid of {}, which may be its shard key",
            set.tables()[*table].full_name()
        ),
    }
}
