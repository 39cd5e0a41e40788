//! What a statement writes beside sharded tables. Run once for each part of a sharded table that it only reads, it
//! would write there once for each part, and each time with the rows of one part for all that there is.

use std::ops::ControlFlow;

use sqlparser::ast::{
    AlterTable, AssignmentTarget, Delete, FromTable, Ident, Insert, ObjectName, ObjectType, Select,
    Statement, TableFactor, TableObject, TableWithJoins, Update, UpdateTableFromKind, Visit,
    Visitor,
};

use super::super::TableSet;
use super::super::table_set::Meaning;

/// The first thing that statements write and that is no sharded table.
pub(super) fn of(set: &TableSet, statements: &Vec<Statement>) -> Option<Box<str>> {
    match statements.visit(&mut Writes { set }) {
        ControlFlow::Break(name) => Some(name.into()),
        ControlFlow::Continue(()) => None,
    }
}

struct Writes<'a> {
    set: &'a TableSet,
}

impl Writes<'_> {
    fn fold(&self, ident: &Ident) -> String {
        let quoted = ident.quote_style.is_some();
        self.set.dialect.fold(&ident.value, quoted).into_owned()
    }

    fn is_sharded(&self, name: &ObjectName) -> bool {
        let mut parts = name.0.iter().rev().map(|part| part.as_ident());
        let Some(Some(own)) = parts.next() else {
            return false;
        };
        let schema = parts.next().flatten().map(|schema| self.fold(schema));
        matches!(
            self.set.find(schema.as_deref(), &self.fold(own)),
            Meaning::Table(_)
        )
    }

    fn all<'n>(&self, names: impl IntoIterator<Item = &'n ObjectName>) -> ControlFlow<String> {
        match names.into_iter().find(|name| !self.is_sharded(name)) {
            Some(name) => ControlFlow::Break(name.to_string()),
            None => ControlFlow::Continue(()),
        }
    }

    /// What columns of the sharded tables in a `FROM` are qualified with.
    fn names_in(&self, from: &[TableWithJoins]) -> Vec<String> {
        let factors = from.iter().flat_map(|one| {
            let joined = one.joins.iter().map(|join| &join.relation);
            std::iter::once(&one.relation).chain(joined)
        });
        let names = factors.filter_map(|factor| match factor {
            TableFactor::Table { name, alias, .. } if self.is_sharded(name) => match alias {
                Some(alias) => Some(self.fold(&alias.name)),
                None => Some(self.fold(name.0.last()?.as_ident()?)),
            },
            _ => None,
        });
        names.collect()
    }

    fn insert(&self, insert: &Insert) -> ControlFlow<String> {
        match &insert.table {
            TableObject::TableName(name) => self.all([name]),
            other => ControlFlow::Break(other.to_string()),
        }
    }

    fn update(&self, update: &Update) -> ControlFlow<String> {
        let mut tables = vec![update.table.clone()];
        if let Some(UpdateTableFromKind::BeforeSet(more)) = &update.from {
            tables.extend(more.iter().cloned());
        }
        if let [
            TableWithJoins {
                relation: TableFactor::Table { name, .. },
                joins,
            },
        ] = tables.as_slice()
            && joins.is_empty()
        {
            return self.all([name]);
        }
        // Several tables (MySQL): whose column is set, its qualifier says.
        let sharded = self.names_in(&tables);
        let columns = update.assignments.iter().flat_map(|one| match &one.target {
            AssignmentTarget::ColumnName(column) => std::slice::from_ref(column),
            AssignmentTarget::Tuple(columns) => columns.as_slice(),
        });
        for column in columns {
            let table = column.0.iter().rev().nth(1);
            let table = table.and_then(|part| part.as_ident());
            match table.map(|table| self.fold(table)) {
                Some(table) if sharded.contains(&table) => {}
                Some(_) => return ControlFlow::Break(column.to_string()),
                None => {
                    return ControlFlow::Break(format!(
                        "{column} of a table that is not named before it"
                    ));
                }
            }
        }
        ControlFlow::Continue(())
    }

    fn delete(&self, delete: &Delete) -> ControlFlow<String> {
        let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = &delete.from;
        let using = delete.using.as_deref().unwrap_or_default();
        // MySQL names what it deletes from apart from where it looks, perhaps by an alias.
        let targets: Vec<&ObjectName> = if delete.tables.is_empty() {
            let names = from.iter().filter_map(|one| match &one.relation {
                TableFactor::Table { name, .. } => Some(name),
                _ => None,
            });
            names.collect()
        } else {
            delete.tables.iter().collect()
        };
        let aliases = match delete.tables.is_empty() {
            true => self.names_in(using),
            false => self.names_in(from),
        };
        let others = targets.into_iter().filter(|name| {
            let own = match name.0.as_slice() {
                [part] => part.as_ident().map(|own| self.fold(own)),
                _ => None,
            };
            !own.is_some_and(|own| aliases.contains(&own))
        });
        self.all(others)
    }

    fn alter(&self, alter: &AlterTable) -> ControlFlow<String> {
        self.all([&alter.name])
    }
}

impl Visitor for Writes<'_> {
    type Break = String;

    fn pre_visit_statement(&mut self, statement: &Statement) -> ControlFlow<String> {
        match statement {
            Statement::Insert(insert) => self.insert(insert),
            Statement::Update(update) => self.update(update),
            Statement::Delete(delete) => self.delete(delete),
            Statement::Truncate(truncate) => {
                self.all(truncate.table_names.iter().map(|target| &target.name))
            }
            Statement::CreateTable(create) => self.all([&create.name]),
            Statement::CreateIndex(create) => self.all([&create.table_name]),
            Statement::AlterTable(alter) => self.alter(alter),
            Statement::Drop {
                object_type: ObjectType::Table,
                names,
                ..
            } => self.all(names),
            _ => ControlFlow::Continue(()),
        }
    }

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<String> {
        match select.into.iter().flat_map(|into| &into.targets).next() {
            Some(target) => ControlFlow::Break(target.to_string()),
            None => ControlFlow::Continue(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::samples::set;
    use super::super::{Analysis, Origin, analyze};
    use crate::rewrite::Dialect::{self, Mysql, Postgres, Sqlite};

    fn elsewhere(dialect: Dialect, text: &str) -> Option<String> {
        match analyze(&set(dialect), text, Origin::Anyone).expect(text) {
            Analysis::Untouched => panic!("{text} names no sharded table"),
            Analysis::Template(template) => template.elsewhere().map(str::to_owned),
        }
    }

    #[test]
    fn what_is_written_beside_sharded_tables_is_seen() {
        for (dialect, text, name) in [
            (
                Sqlite,
                "DELETE FROM users WHERE NOT EXISTS (SELECT 1 FROM orders WHERE user_id = users.id)",
                "users",
            ),
            (
                Postgres,
                "UPDATE users SET n = (SELECT count(*) FROM orders)",
                "users",
            ),
            (
                Postgres,
                "UPDATE shop.orders AS o SET n = 1 FROM orders",
                "shop.orders",
            ),
            (
                Postgres,
                "CREATE TABLE IF NOT EXISTS totals AS SELECT count(*) FROM orders",
                "totals",
            ),
            (
                Postgres,
                "INSERT INTO totals SELECT id FROM orders",
                "totals",
            ),
            (
                Postgres,
                "WITH gone AS (DELETE FROM users RETURNING id) DELETE FROM orders WHERE id IN (SELECT id FROM gone)",
                "users",
            ),
            (Postgres, "DELETE FROM users USING orders", "users"),
            (
                Postgres,
                "EXPLAIN ANALYZE DELETE FROM users USING orders",
                "users",
            ),
            (Postgres, "SELECT id INTO totals FROM orders", "totals"),
            (Postgres, "TRUNCATE orders, users", "users"),
            (Mysql, "DROP TABLE IF EXISTS orders, users", "users"),
            (
                Mysql,
                "UPDATE orders JOIN users ON users.id = user_id SET users.n = qty",
                "users.n",
            ),
            (
                Mysql,
                "UPDATE orders JOIN users ON users.id = user_id SET n = qty",
                "n of a table that is not named before it",
            ),
            (
                Mysql,
                "DELETE users FROM users JOIN orders ON users.id = user_id",
                "users",
            ),
            (
                Mysql,
                "DELETE o, u FROM orders o JOIN users u ON u.id = user_id",
                "u",
            ),
            (
                Mysql,
                "DELETE FROM u USING users u JOIN orders ON u.id = user_id",
                "u",
            ),
        ] {
            assert_eq!(elsewhere(dialect, text).as_deref(), Some(name), "{text}");
        }
        for (dialect, text) in [
            (
                Sqlite,
                "DELETE FROM ORDERS WHERE user_id NOT IN (SELECT id FROM users)",
            ),
            (
                Postgres,
                "UPDATE orders SET qty = n FROM users WHERE users.id = user_id",
            ),
            (
                Postgres,
                "UPDATE public.orders AS o SET qty = 1 FROM items WHERE items.id = o.id",
            ),
            (
                Postgres,
                "DELETE FROM orders USING users WHERE users.id = user_id",
            ),
            (
                Postgres,
                "CREATE TABLE orders (id BIGINT REFERENCES users (id))",
            ),
            (Postgres, "DROP TABLE orders, items"),
            (Postgres, "SELECT count(*) FROM orders"),
            (
                Mysql,
                "UPDATE orders o JOIN users u ON u.id = user_id SET o.qty = u.n",
            ),
            (
                Mysql,
                "DELETE o FROM orders AS o JOIN users ON users.id = user_id",
            ),
            (
                Mysql,
                "DELETE FROM o USING orders o JOIN users ON users.id = user_id",
            ),
        ] {
            assert_eq!(elsewhere(dialect, text), None, "{text}");
        }
    }
}
