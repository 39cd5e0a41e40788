//! Which shard keys the rows have that an `INSERT` makes.
//!
//! A key is known where the statement shows it, as a literal or a bind in the place of the key column.
//! It need not be known where it is that of a row in a table that is split alike: that row is in the
//! table of the same number, and so belongs the new one.

use sqlparser::ast::{
    Expr, GroupByExpr, Ident, Insert, JoinOperator, Select, SelectItem, SetExpr, TableFactor,
    TableWithJoins,
};

use super::resolver::Resolver;
use super::template::Written;
use super::writes::{Assigned, Target, assigned, is_key, is_row_id, written};

/// The shard key of a new row.
pub(super) enum NewKey {
    /// That of a row in a table that is split alike.
    TakenOver,
    /// The key column is not among those that are written.
    Missing,
    Written(Written),
}

/// The keys of the new rows, at least one.
pub(super) fn keys(resolver: &Resolver<'_, '_>, target: &Target, insert: &Insert) -> Vec<NewKey> {
    let mut keys = Vec::new();
    if !insert.assignments.is_empty() {
        // MySQL's INSERT .. SET.
        let values = assigned(resolver, target, &insert.assignments);
        keys.extend(values.into_iter().map(|(value, _)| match value {
            Assigned::Value(value) => NewKey::Written(value),
            Assigned::Same | Assigned::Inserted | Assigned::RowNumber => {
                NewKey::Written(Written::Other)
            }
        }));
    } else if insert.columns.is_empty()
        || insert
            .columns
            .iter()
            .any(|column| is_row_id(resolver, column) && !is_key(resolver, target, column))
    {
        // Which column is at which place, only the server knows; and which of two names of one column wins.
        keys.push(NewKey::Written(Written::Other));
    } else if let Some(place) = insert
        .columns
        .iter()
        .position(|column| is_key(resolver, target, column))
        && let Some(source) = &insert.source
    {
        let rows = Rows {
            resolver,
            target,
            place,
        };
        rows.of_body(&source.body, source.with.is_none(), &mut keys);
    }
    if keys.is_empty() {
        keys.push(NewKey::Missing);
    }
    keys
}

/// Looks for the keys at one place of each row.
struct Rows<'r, 'a, 't> {
    resolver: &'r Resolver<'a, 't>,
    target: &'r Target,
    place: usize,
}

impl Rows<'_, '_, '_> {
    /// `plain`: no `WITH` of the query gives names a meaning of its own.
    fn of_body(&self, body: &SetExpr, plain: bool, keys: &mut Vec<NewKey>) {
        match body {
            SetExpr::Values(values) => keys.extend(values.rows.iter().map(|row| {
                NewKey::Written(
                    row.content
                        .get(self.place)
                        .map_or(Written::Other, |value| written(self.resolver, value)),
                )
            })),
            SetExpr::Query(query) => {
                self.of_body(&query.body, plain && query.with.is_none(), keys);
            }
            SetExpr::SetOperation { left, right, .. } => {
                self.of_body(left, plain, keys);
                self.of_body(right, plain, keys);
            }
            SetExpr::Select(select) => keys.push(self.of_select(select, plain)),
            _ => keys.push(NewKey::Written(Written::Other)),
        }
    }

    fn of_select(&self, select: &Select, plain: bool) -> NewKey {
        match self.value(select) {
            Some(Expr::Identifier(column)) if plain && self.is_taken_over(select, &[column]) => {
                NewKey::TakenOver
            }
            Some(Expr::CompoundIdentifier(parts))
                if plain && self.is_taken_over(select, &parts.iter().collect::<Vec<_>>()) =>
            {
                NewKey::TakenOver
            }
            Some(value) => NewKey::Written(written(self.resolver, value)),
            None => NewKey::Written(Written::Other),
        }
    }

    /// What is selected at the place; none behind a `*`, which is nobody knows how many columns.
    fn value<'s>(&self, select: &'s Select) -> Option<&'s Expr> {
        select
            .projection
            .get(..=self.place)?
            .iter()
            .map(|item| match item {
                SelectItem::UnnamedExpr(value) | SelectItem::ExprWithAlias { expr: value, .. } => {
                    Some(value)
                }
                _ => None,
            })
            .collect::<Option<Vec<_>>>()?
            .pop()
    }

    /// Whether a column is the key of a table that is split alike, in a row that is there.
    fn is_taken_over(&self, select: &Select, parts: &[&Ident]) -> bool {
        let Some((column, qualifiers)) = parts.split_last() else {
            return false;
        };
        let fold = |ident: &Ident| self.resolver.scopes.fold(ident);
        let qualifier = qualifiers.last().map(|ident| fold(ident));
        let mut meant = Vec::new();
        for item in &select.from {
            for (factor, is_there) in relations(item) {
                let TableFactor::Table { name, alias, .. } = factor else {
                    meant.push(None);
                    continue;
                };
                if alias
                    .as_ref()
                    .is_some_and(|alias| !alias.columns.is_empty())
                {
                    // Its columns have other names, or one has that of another.
                    meant.push(None);
                    continue;
                }
                let shown = match alias {
                    Some(alias) => Some(&alias.name),
                    None => name.0.last().and_then(|part| part.as_ident()),
                };
                if qualifier.is_none() || shown.map(fold) == qualifier {
                    let table = self.resolver.table_of(name, false).ok().flatten();
                    meant.push(table.filter(|_| is_there));
                }
            }
        }
        // Of several tables it may be that of any.
        let [Some(source)] = meant.as_slice() else {
            return false;
        };
        let tables = self.resolver.set.tables();
        let source = &tables[*source];
        source.is_bound_to(&tables[self.target.table])
            && self.resolver.set.dialect.is_column(
                &source.key_column,
                &column.value,
                column.quote_style.is_some(),
            )
            && !makes_rows(&select.group_by)
    }
}

/// The relations of a `FROM` item, and whether each has a row of its own in every row of the join.
fn relations(item: &TableWithJoins) -> impl Iterator<Item = (&TableFactor, bool)> {
    use JoinOperator as Op;
    let inner = |operator: &Op| {
        matches!(
            operator,
            Op::Join(_) | Op::Inner(_) | Op::CrossJoin(_) | Op::StraightJoin(_)
        )
    };
    let keeps =
        move |operator: &Op| inner(operator) || matches!(operator, Op::Left(_) | Op::LeftOuter(_));
    let kept_after = move |at: usize| {
        item.joins[at..]
            .iter()
            .all(|join| keeps(&join.join_operator))
    };
    let joined = item.joins.iter().enumerate().map(move |(at, join)| {
        (
            &join.relation,
            inner(&join.join_operator) && kept_after(at + 1),
        )
    });
    std::iter::once((&item.relation, kept_after(0))).chain(joined)
}

/// Whether grouping makes rows in which a column is `NULL` that is not so in any row (`ROLLUP`).
fn makes_rows(group_by: &GroupByExpr) -> bool {
    match group_by {
        GroupByExpr::All(modifiers) => !modifiers.is_empty(),
        GroupByExpr::Expressions(by, modifiers) => {
            !modifiers.is_empty()
                || !by
                    .iter()
                    .all(|by| matches!(by, Expr::Identifier(_) | Expr::CompoundIdentifier(_)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::Dialect;
    use super::super::samples::set;
    use super::super::template::KeyUse;
    use super::super::{Analysis, Origin, Refusal, Written, analyze};

    /// The keys that a statement writes into its first table, as far as they have to be looked at.
    fn keys(dialect: Dialect, text: &str) -> Result<Vec<(Written, KeyUse)>, Refusal> {
        match analyze(&set(dialect), text, Origin::Anyone)? {
            Analysis::Untouched => panic!("{text} names no table"),
            Analysis::Template(template) => Ok(template
                .keys()
                .iter()
                .map(|key| (key.value.clone(), key.in_))
                .collect()),
        }
    }

    #[track_caller]
    fn inserts(text: &str, values: &[Written]) {
        for dialect in [Dialect::Sqlite, Dialect::Postgres, Dialect::Mysql] {
            let found = keys(dialect, text).unwrap_or_else(|error| panic!("{text}: {error:?}"));
            let values: Vec<_> = values
                .iter()
                .map(|value| (value.clone(), KeyUse::Insert))
                .collect();
            assert_eq!(found, values, "{dialect:?}: {text}");
        }
    }

    #[test]
    fn values_that_are_shown() {
        use Written::{Integer, Null, Other, Text};
        inserts(
            "INSERT INTO orders (id, user_id) VALUES (1, 7)",
            &[Integer(7)],
        );
        inserts(
            "INSERT INTO orders (user_id, id) VALUES (-7, 1), ('7', 2), (NULL, 3), (7 + 1, 4), ((8), 5)",
            &[Integer(-7), Text("7".to_owned()), Null, Other, Integer(8)],
        );
        inserts(
            "INSERT INTO orders (id, user_id) SELECT 1, 7",
            &[Integer(7)],
        );
        inserts(
            "INSERT INTO orders (id, user_id) SELECT id, 7 AS user_id FROM users UNION ALL SELECT 1, 8",
            &[Integer(7), Integer(8)],
        );
    }

    #[test]
    fn values_that_are_not_shown() {
        for text in [
            // Which column is where?
            "INSERT INTO orders VALUES (1, 7, 5)",
            "INSERT INTO orders SELECT id, user_id, qty FROM items",
            // No key at all.
            "INSERT INTO orders (id, qty) VALUES (1, 5)",
            "INSERT INTO orders (id, qty) SELECT id, user_id FROM items",
            // What a server works out.
            "INSERT INTO orders (id, user_id) SELECT id, user_id + 1 FROM items",
            "INSERT INTO orders (id, user_id) SELECT id, max(user_id) FROM items GROUP BY id",
            // Columns of other tables, and other columns.
            "INSERT INTO orders (id, user_id) SELECT id, user_id FROM users",
            "INSERT INTO orders (id, user_id) SELECT items.id, users.user_id FROM items JOIN users ON users.id = items.id",
            "INSERT INTO orders (id, user_id) SELECT user_id, id FROM items",
            "INSERT INTO orders (id, user_id) SELECT items.id, user_id FROM items, users",
            "INSERT INTO orders (id, user_id) SELECT o.id, o.user_id FROM (SELECT 1 AS id, 2 AS user_id) o",
            "INSERT INTO orders (id, user_id) SELECT i.id, i.user_id FROM items AS i (user_id, id)",
            "INSERT INTO orders (id, user_id) SELECT id, user_id FROM archive.items, items AS i WHERE user_id = 1",
            // It is NULL where there is no such row.
            "INSERT INTO orders (id, user_id) SELECT users.id, items.user_id FROM users LEFT JOIN items ON items.id = users.id",
            // Anything may be behind a star.
            "INSERT INTO orders (id, user_id) SELECT *, 7 FROM users",
            "INSERT INTO orders (id, user_id) SELECT items.*, items.user_id FROM items",
            // A common table expression of that name.
            "INSERT INTO orders (id, user_id) WITH items AS (SELECT 1 AS id, 2 AS user_id) SELECT id, user_id FROM items",
        ] {
            inserts(text, &[Written::Other]);
        }
        let sqlite = "INSERT INTO orders DEFAULT VALUES";
        let found = keys(Dialect::Sqlite, sqlite).expect("read");
        assert_eq!(found, [(Written::Other, KeyUse::Insert)]);
        for text in [
            "INSERT INTO orders SET id = 1, qty = 2",
            "INSERT INTO orders () VALUES ()",
            "INSERT INTO orders (id, user_id) VALUES (1, DEFAULT)",
        ] {
            let found = keys(Dialect::Mysql, text).expect("read");
            assert_eq!(found, [(Written::Other, KeyUse::Insert)], "{text}");
        }
    }

    #[test]
    fn keys_that_are_taken_over() {
        for text in [
            "INSERT INTO orders (id, user_id) SELECT id, user_id FROM items",
            "INSERT INTO orders (id, user_id) SELECT id, items.user_id FROM items WHERE id > 3 ORDER BY id LIMIT 5",
            "INSERT INTO orders (user_id, id) SELECT i.user_id, u.id FROM users u JOIN items AS i ON i.id = u.id",
            "INSERT INTO orders (id, user_id) SELECT i.id, i.user_id FROM items i LEFT JOIN users u ON i.id = u.id",
            "INSERT INTO orders (id, user_id) SELECT max(id), user_id FROM orders GROUP BY user_id",
            "INSERT INTO orders (id, user_id) SELECT id, user_id FROM items UNION SELECT id, user_id FROM orders",
        ] {
            inserts(text, &[]);
        }
    }

    #[test]
    fn a_row_that_replaces_another_keeps_a_known_key() {
        let replace = |rest: &str| keys(Dialect::Mysql, &format!("REPLACE INTO orders {rest}"));
        assert_eq!(
            replace("(id, user_id) VALUES (1, 7)"),
            Ok(vec![(Written::Integer(7), KeyUse::Replace)])
        );
        assert_eq!(
            replace("(id, user_id) SELECT id, user_id FROM items"),
            Ok(Vec::new())
        );
        for unknown in [
            "VALUES (1, 7, 5)",
            "(id, user_id) SELECT id, id FROM items",
            "(id, user_id) VALUES (1, NULL)",
        ] {
            assert_eq!(
                replace(unknown),
                Err(Refusal::KeyExpression { table: 0 }),
                "{unknown}"
            );
        }
    }
}
