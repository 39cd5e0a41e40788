//! Data definition over a sharded table: its indexes and constraints have names that must differ from
//! those of the other physical tables.

use sqlparser::ast::{
    AlterColumnOperation, AlterTable, AlterTableOperation, ColumnDef, ColumnOption,
    ColumnOptionDef, CreateIndex, CreateTable, CreateTableLikeKind, Ident, ObjectName, ObjectType,
    ReplicaIdentity, Statement, TableConstraint,
};

use super::super::Dialect;
use super::resolver::Resolver;
use super::{Refusal, counters, owned as names};

/// Whether a statement defines data in a way that is understood here.
pub(super) fn is_known(statement: &Statement) -> bool {
    matches!(
        statement,
        Statement::CreateTable(_)
            | Statement::CreateIndex(_)
            | Statement::AlterTable(_)
            | Statement::Drop {
                object_type: ObjectType::Table | ObjectType::Index,
                ..
            }
    )
}

/// The table that a definition is about: what its expressions may be qualified with.
pub(super) fn target(statement: &Statement) -> Option<&ObjectName> {
    match statement {
        Statement::CreateTable(create) => Some(&create.name),
        Statement::CreateIndex(create) => Some(&create.table_name),
        Statement::AlterTable(alter) => Some(&alter.name),
        _ => None,
    }
}

/// Decides on the names of a statement for which [`is_known`] holds.
pub(super) fn enter(resolver: &mut Resolver<'_, '_>, statement: &Statement) -> Result<(), Refusal> {
    match statement {
        Statement::CreateTable(create) => create_table(resolver, create),
        Statement::CreateIndex(create) => create_index(resolver, create),
        Statement::AlterTable(alter) => alter_table(resolver, alter),
        Statement::Drop {
            object_type: ObjectType::Table,
            names,
            ..
        } => names
            .iter()
            .try_for_each(|name| resolver.relation(name, true).map(drop)),
        Statement::Drop { names, table, .. } => {
            let Some(table) = table else { return Ok(()) };
            if let Some(table) = resolver.relation(table, true)? {
                names.iter().try_for_each(|name| {
                    index(
                        resolver,
                        table,
                        name.0.last().and_then(|part| part.as_ident()),
                    )
                })?;
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

fn create_table(resolver: &mut Resolver<'_, '_>, create: &CreateTable) -> Result<(), Refusal> {
    for column in &create.columns {
        resolver.column(&column.name);
    }
    let Some(table) = resolver.relation(&create.name, true)? else {
        // A table of another name may refer to a sharded one, but to which of its parts?
        return Ok(());
    };
    match &create.like {
        Some(CreateTableLikeKind::Plain(like) | CreateTableLikeKind::Parenthesized(like)) => {
            resolver.relation(&like.name, true)?;
        }
        None => {}
    }
    for column in &create.columns {
        column_def(resolver, table, column)?;
    }
    create
        .constraints
        .iter()
        .try_for_each(|one| constraint(resolver, table, one))
}

fn column_def(
    resolver: &mut Resolver<'_, '_>,
    table: usize,
    column: &ColumnDef,
) -> Result<(), Refusal> {
    for ColumnOptionDef { name, option } in &column.options {
        owned(resolver, table, name.as_ref())?;
        if let ColumnOption::ForeignKey(key) = option {
            resolver.relation(&key.foreign_table, true)?;
        }
    }
    counters::note(resolver, table, &column.name, counters::is_counted(column));
    Ok(())
}

fn constraint(
    resolver: &mut Resolver<'_, '_>,
    table: usize,
    constraint: &TableConstraint,
) -> Result<(), Refusal> {
    match constraint {
        TableConstraint::Unique(unique) => {
            owned(resolver, table, unique.name.as_ref())?;
            index(resolver, table, unique.index_name.as_ref())
        }
        TableConstraint::PrimaryKey(key) => {
            owned(resolver, table, key.name.as_ref())?;
            index(resolver, table, key.index_name.as_ref())
        }
        TableConstraint::ForeignKey(key) => {
            owned(resolver, table, key.name.as_ref())?;
            index(resolver, table, key.index_name.as_ref())?;
            resolver.relation(&key.foreign_table, true).map(drop)
        }
        TableConstraint::Check(check) => owned(resolver, table, check.name.as_ref()),
        TableConstraint::Index(key) => index(resolver, table, key.name.as_ref()),
        TableConstraint::FulltextOrSpatial(key) => {
            index(resolver, table, key.opt_index_name.as_ref())
        }
        TableConstraint::PrimaryKeyUsingIndex(using) | TableConstraint::UniqueUsingIndex(using) => {
            owned(resolver, table, using.name.as_ref())?;
            names::existing(resolver, table, &using.index_name)
        }
        TableConstraint::Exclude(exclude) => owned(resolver, table, exclude.name.as_ref()),
    }
}

fn create_index(resolver: &mut Resolver<'_, '_>, create: &CreateIndex) -> Result<(), Refusal> {
    if let Some(table) = resolver.relation(&create.table_name, true)?
        && let Some(name) = &create.name
    {
        index(resolver, table, last(name))?;
    }
    Ok(())
}

fn alter_table(resolver: &mut Resolver<'_, '_>, alter: &AlterTable) -> Result<(), Refusal> {
    use AlterTableOperation as Op;
    for operation in &alter.operations {
        match operation {
            Op::AddColumn { column_def, .. } => resolver.column(&column_def.name),
            Op::DropColumn { column_names, .. } => {
                column_names.iter().for_each(|name| resolver.column(name));
            }
            Op::AlterColumn { column_name, .. } => resolver.column(column_name),
            Op::ModifyColumn { col_name, .. } => resolver.column(col_name),
            Op::RenameColumn {
                old_column_name: old,
                new_column_name: new,
            }
            | Op::ChangeColumn {
                old_name: old,
                new_name: new,
                ..
            } => {
                resolver.column(old);
                resolver.column(new);
            }
            _ => {}
        }
    }
    let Some(table) = resolver.relation(&alter.name, true)? else {
        return Ok(());
    };
    for operation in &alter.operations {
        match operation {
            Op::AddConstraint {
                constraint: new, ..
            } => constraint(resolver, table, new)?,
            Op::AddColumn {
                column_def: new, ..
            } => column_def(resolver, table, new)?,
            Op::ModifyColumn {
                col_name, options, ..
            }
            | Op::ChangeColumn {
                new_name: col_name,
                options,
                ..
            } => counters::note(
                resolver,
                table,
                col_name,
                options.iter().any(counters::is_counter),
            ),
            Op::AlterColumn {
                column_name,
                op: AlterColumnOperation::AddGenerated { .. },
            } => counters::note(resolver, table, column_name, true),
            Op::DropConstraint { name, .. }
            | Op::DropForeignKey { name, .. }
            | Op::ValidateConstraint { name } => names::existing(resolver, table, name)?,
            Op::RenameConstraint { old_name, new_name } => {
                names::existing(resolver, table, old_name)?;
                owned(resolver, table, Some(new_name))?;
            }
            Op::DropIndex { name } => index(resolver, table, Some(name))?,
            Op::ReplicaIdentity {
                identity: ReplicaIdentity::Index(name),
            } => names::existing(resolver, table, name)?,
            Op::RenameTable { .. } => {
                return Err(Refusal::because(
                    "a sharded table is renamed in the configuration, and its physical tables by their physical names",
                ));
            }
            _ => {}
        }
    }
    Ok(())
}

/// A name that is unique in the schema or the database.
fn owned(
    resolver: &mut Resolver<'_, '_>,
    table: usize,
    name: Option<&Ident>,
) -> Result<(), Refusal> {
    match name {
        Some(name) => resolver.own(name, table),
        None => Ok(()),
    }
}

/// The name of an index. On MySQL each table has its own, so they stay, and hints that name them too.
fn index(
    resolver: &mut Resolver<'_, '_>,
    table: usize,
    name: Option<&Ident>,
) -> Result<(), Refusal> {
    if resolver.set.dialect == Dialect::Mysql {
        return Ok(());
    }
    owned(resolver, table, name)
}

fn last(name: &ObjectName) -> Option<&Ident> {
    name.0.last().and_then(|part| part.as_ident())
}
