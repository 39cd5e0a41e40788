//! What a statement puts into the key column of a sharded table.
//!
//! A row whose key is changed to one of another placement can no longer be found; nor can a new row
//! under a key that belongs elsewhere. So values that can be read (literals and binds) are collected
//! for a comparison with the route, and an `UPDATE` with any other is refused.

use sqlparser::ast::{
    Assignment, AssignmentTarget, Expr, Ident, Insert, ObjectName, OnConflictAction, OnInsert,
    SqliteOnConflict, TableFactor, TableWithJoins, UnaryOperator, Update, Value,
};

use super::super::Dialect;
use super::Refusal;
use super::new_rows::{self, NewKey};
use super::resolver::Resolver;
use super::template::{KeyUse, KeyWrite, Written};
use super::tokens::position_of;

/// A sharded table that a statement writes to, and the name that its columns are qualified with.
pub(super) struct Target {
    pub(super) table: usize,
    name: String,
}

/// An assigned value.
pub(super) enum Assigned {
    /// The key that the row has.
    Same,
    /// The key of the row that was to be inserted.
    Inserted,
    Value(Written),
    /// Something for SQLite's number of the row.
    RowNumber,
}

/// Collects the keys that an `UPDATE` writes.
pub(super) fn of_update(resolver: &mut Resolver<'_, '_>, update: &Update) -> Result<(), Refusal> {
    let mut targets = Vec::new();
    let mut factors = Vec::new();
    joined(&update.table, &mut factors);
    for factor in &factors {
        if let TableFactor::Table { name, alias, .. } = factor
            && let Some(table) = resolver.table_of(name, factors.len() == 1)?
            && let Some(last) = name.0.last().and_then(|part| part.as_ident())
        {
            let shown = alias.as_ref().map_or(last, |alias| &alias.name);
            targets.push(Target {
                table,
                name: resolver.scopes.fold(shown),
            });
        }
    }
    for target in &targets {
        for (value, table) in assigned(resolver, target, &update.assignments) {
            match value {
                Assigned::Same => {}
                Assigned::RowNumber => return Err(Refusal::RowNumber { table }),
                Assigned::Inserted | Assigned::Value(Written::Other | Written::Null) => {
                    return Err(Refusal::KeyExpression { table });
                }
                Assigned::Value(value) => resolver.keys.push(KeyWrite {
                    table,
                    value,
                    in_: KeyUse::Update,
                }),
            }
        }
    }
    Ok(())
}

/// The tables of a join, those within parentheses too.
fn joined<'a>(tables: &'a TableWithJoins, factors: &mut Vec<&'a TableFactor>) {
    let joins = tables.joins.iter().map(|join| &join.relation);
    for factor in std::iter::once(&tables.relation).chain(joins) {
        match factor {
            TableFactor::NestedJoin {
                table_with_joins, ..
            } => joined(table_with_joins, factors),
            other => factors.push(other),
        }
    }
}

/// Collects the keys that an `INSERT` or `REPLACE` writes, those of its `ON CONFLICT` included.
pub(super) fn of_insert(
    resolver: &mut Resolver<'_, '_>,
    table: usize,
    insert: &Insert,
) -> Result<(), Refusal> {
    let name = match &insert.table_alias {
        Some(alias) => Some(&alias.alias),
        None => match &insert.table {
            sqlparser::ast::TableObject::TableName(name) => {
                name.0.last().and_then(|part| part.as_ident())
            }
            _ => None,
        },
    };
    let target = Target {
        table,
        name: name.map_or_else(String::new, |name| resolver.scopes.fold(name)),
    };
    let on_conflict: &[Assignment] = match &insert.on {
        Some(OnInsert::DuplicateKeyUpdate(assignments)) => assignments,
        Some(OnInsert::OnConflict(conflict)) => match &conflict.action {
            OnConflictAction::DoUpdate(update) => &update.assignments,
            OnConflictAction::DoNothing => &[],
        },
        _ => &[],
    };
    // A row that replaces another is an update of it.
    let mut strict = insert.replace_into || insert.or == Some(SqliteOnConflict::Replace);
    let mut from_inserted = false;
    for (value, _) in assigned(resolver, &target, on_conflict) {
        match value {
            Assigned::Same => {}
            Assigned::Inserted => from_inserted = true,
            Assigned::RowNumber => return Err(Refusal::RowNumber { table }),
            Assigned::Value(Written::Other | Written::Null) => {
                return Err(Refusal::KeyExpression { table });
            }
            Assigned::Value(value) => resolver.keys.push(KeyWrite {
                table,
                value,
                in_: KeyUse::Update,
            }),
        }
    }
    strict |= from_inserted;
    for key in new_rows::keys(resolver, &target, insert) {
        let value = match key {
            NewKey::TakenOver => continue,
            // A row that replaces another has no key then.
            NewKey::Missing if from_inserted => return Err(Refusal::KeyExpression { table }),
            NewKey::Missing => {
                resolver.keys.push(KeyWrite {
                    table,
                    value: Written::Other,
                    in_: KeyUse::Insert,
                });
                continue;
            }
            NewKey::Written(value) => value,
        };
        if strict && matches!(value, Written::Other | Written::Null) {
            return Err(Refusal::KeyExpression { table });
        }
        resolver.keys.push(KeyWrite {
            table,
            value,
            in_: match (strict, from_inserted) {
                (false, _) => KeyUse::Insert,
                (true, false) => KeyUse::Replace,
                (true, true) => KeyUse::Update,
            },
        });
    }
    Ok(())
}

/// What the assignments give to the key column.
pub(super) fn assigned(
    resolver: &Resolver<'_, '_>,
    target: &Target,
    assignments: &[Assignment],
) -> Vec<(Assigned, usize)> {
    let mut values = Vec::new();
    for assignment in assignments {
        match &assignment.target {
            AssignmentTarget::ColumnName(column) => {
                if is_key(resolver, target, column) {
                    values.push((value_of(resolver, target, &assignment.value), target.table));
                } else if is_row_id(resolver, column) {
                    values.push((Assigned::RowNumber, target.table));
                }
            }
            AssignmentTarget::Tuple(columns) => {
                if columns.iter().any(|column| is_row_id(resolver, column)) {
                    values.push((Assigned::RowNumber, target.table));
                }
                let Some(place) = columns
                    .iter()
                    .position(|column| is_key(resolver, target, column))
                else {
                    continue;
                };
                let value = match &assignment.value {
                    Expr::Tuple(parts) if parts.len() == columns.len() => {
                        value_of(resolver, target, &parts[place])
                    }
                    _ => Assigned::Value(Written::Other),
                };
                values.push((value, target.table));
            }
        }
    }
    values
}

/// Whether a column is SQLite's number of the row, which is the key itself where that is the `INTEGER PRIMARY KEY`.
/// Its third name, `oid`, is one that tables do give to a column of their own.
pub(super) fn is_row_id(resolver: &Resolver<'_, '_>, column: &ObjectName) -> bool {
    let last = column.0.last().and_then(|part| part.as_ident());
    resolver.set.dialect == Dialect::Sqlite
        && last.is_some_and(|ident| {
            ["rowid", "_rowid_"]
                .iter()
                .any(|name| ident.value.eq_ignore_ascii_case(name))
        })
}

pub(super) fn is_key(resolver: &Resolver<'_, '_>, target: &Target, column: &ObjectName) -> bool {
    let parts: Option<Vec<&Ident>> = column.0.iter().map(|part| part.as_ident()).collect();
    parts.is_some_and(|parts| is_key_of(resolver, target, &parts))
}

fn is_key_of(resolver: &Resolver<'_, '_>, target: &Target, parts: &[&Ident]) -> bool {
    let Some((column, qualifiers)) = parts.split_last() else {
        return false;
    };
    let declared = &resolver.set.tables()[target.table].key_column;
    qualifiers
        .last()
        .is_none_or(|qualifier| resolver.scopes.fold(qualifier) == target.name)
        && resolver
            .set
            .dialect
            .is_column(declared, &column.value, column.quote_style.is_some())
}

fn value_of(resolver: &Resolver<'_, '_>, target: &Target, value: &Expr) -> Assigned {
    match value {
        Expr::Nested(inner) => value_of(resolver, target, inner),
        Expr::Identifier(column) if is_key_of(resolver, target, &[column]) => Assigned::Same,
        Expr::CompoundIdentifier(parts) => {
            let parts: Vec<&Ident> = parts.iter().collect();
            let excluded = |ident: &Ident| ident.value.eq_ignore_ascii_case("excluded");
            match parts.as_slice() {
                parts if is_key_of(resolver, target, parts) => Assigned::Same,
                [of, column] if excluded(of) && is_key_of(resolver, target, &[column]) => {
                    Assigned::Inserted
                }
                _ => Assigned::Value(Written::Other),
            }
        }
        Expr::Function(function) if is_values_function(resolver, target, function) => {
            Assigned::Inserted
        }
        other => Assigned::Value(written(resolver, other)),
    }
}

/// MySQL's `VALUES(column)` in `ON DUPLICATE KEY UPDATE`, which MariaDB calls `VALUE` too.
fn is_values_function(
    resolver: &Resolver<'_, '_>,
    target: &Target,
    function: &sqlparser::ast::Function,
) -> bool {
    use sqlparser::ast::{FunctionArg, FunctionArgExpr, FunctionArguments};
    let named = function.name.0.as_slice();
    let is_values = matches!(named, [part] if part.as_ident().is_some_and(|ident| {
        ["values", "value"].iter().any(|name| ident.value.eq_ignore_ascii_case(name))
    }));
    let FunctionArguments::List(arguments) = &function.args else {
        return false;
    };
    match arguments.args.as_slice() {
        [FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Identifier(column)))] => {
            is_values && is_key_of(resolver, target, &[column])
        }
        [FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::CompoundIdentifier(parts)))] => {
            let parts: Vec<&Ident> = parts.iter().collect();
            is_values && is_key_of(resolver, target, &parts)
        }
        _ => false,
    }
}

/// A literal or a bind; anything else would have to be worked out.
pub(super) fn written(resolver: &Resolver<'_, '_>, value: &Expr) -> Written {
    match shown(resolver, value) {
        // SQLite makes a rounded number of it.
        Written::Integer(number)
            if resolver.set.dialect == Dialect::Sqlite && i64::try_from(number).is_err() =>
        {
            Written::Other
        }
        written => written,
    }
}

fn shown(resolver: &Resolver<'_, '_>, value: &Expr) -> Written {
    match value {
        Expr::Nested(inner) => shown(resolver, inner),
        Expr::UnaryOp { op, expr } => match (op, shown(resolver, expr)) {
            (UnaryOperator::Minus, Written::Integer(number)) => number
                .checked_neg()
                .map_or(Written::Other, Written::Integer),
            (UnaryOperator::Plus, number @ Written::Integer(_)) => number,
            _ => Written::Other,
        },
        Expr::Value(value) => match &value.value {
            Value::Number(digits, _) => digits.parse().map_or(Written::Other, Written::Integer),
            Value::SingleQuotedString(text) | Value::DoubleQuotedString(text) => {
                Written::Text(text.clone())
            }
            Value::Placeholder(_) => position_of(value.span)
                .and_then(|at| resolver.tokens.bind(at))
                .map_or(Written::Other, Written::Bind),
            Value::Null => Written::Null,
            _ => Written::Other,
        },
        _ => Written::Other,
    }
}
