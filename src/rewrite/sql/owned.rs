//! Names in a statement over rows of what a physical table owns: constraints and indexes, which the
//! templates have made unique with the number of the table.

use sqlparser::ast::{ConflictTarget, Ident, Insert, OnInsert, TableFactor, TableIndexDirective};

use super::super::Dialect;
use super::Refusal;
use super::resolver::Resolver;

/// What PostgreSQL ends the names with that it makes itself.
#[rustfmt::skip]
const MADE_BY_POSTGRES: [&str; 8] = [
    "_pkey", "_key", "_excl", "_fkey", "_check", "_not_null", "_idx", "_seq",
];

/// The same of MySQL, before a number.
const MADE_BY_MYSQL: [&str; 2] = ["_ibfk_", "_chk_"];

/// What SQLite begins the names of indexes with that it makes itself; the name of the table follows.
const MADE_BY_SQLITE: &str = "sqlite_autoindex_";

/// What MariaDB calls a check that has no name, before a number.
const CHECK_OF_MARIADB: &str = "CONSTRAINT_";

/// The longest name that PostgreSQL keeps; longer ones that it makes are cut, the table's name too.
const LONGEST: usize = 63;

/// What a name ends with that PostgreSQL may have made, perhaps with a number behind it.
pub(crate) fn end_made_by_postgres(name: &str) -> Option<&'static str> {
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
    MADE_BY_POSTGRES.into_iter().find(|end| stem.ends_with(end))
}

/// Whether the server may have made a folded name, for something that a table of this name owns.
pub(super) fn may_be_made(dialect: Dialect, table: &str, name: &str) -> bool {
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let is_of = || name.starts_with(table);
    match dialect {
        Dialect::Postgres => {
            (is_of() || name.len() == LONGEST) && end_made_by_postgres(name).is_some()
        }
        Dialect::Mysql => {
            stem.len() < name.len()
                && (stem.eq_ignore_ascii_case(CHECK_OF_MARIADB)
                    || is_of() && MADE_BY_MYSQL.iter().any(|end| stem.ends_with(end)))
        }
        Dialect::Sqlite => name.starts_with(MADE_BY_SQLITE),
    }
}

/// A constraint that is there. Where the server may have made its name, that is a doubt: of `orders_3` it is
/// `orders_3_code_key`, or `orders_code_key_3` where a clause named it.
pub(super) fn existing(
    resolver: &mut Resolver<'_, '_>,
    table: usize,
    name: &Ident,
) -> Result<(), Refusal> {
    let folded = resolver.scopes.fold(name);
    let own = &resolver.set.tables()[table].name;
    if may_be_made(resolver.set.dialect, own, &folded) {
        resolver.doubts.push(folded.into());
    }
    resolver.own(name, table)
}

/// `ON CONFLICT ON CONSTRAINT name`.
pub(super) fn of_conflict(
    resolver: &mut Resolver<'_, '_>,
    table: usize,
    insert: &Insert,
) -> Result<(), Refusal> {
    let Some(OnInsert::OnConflict(conflict)) = &insert.on else {
        return Ok(());
    };
    let Some(ConflictTarget::OnConstraint(name)) = &conflict.conflict_target else {
        return Ok(());
    };
    let [part] = name.0.as_slice() else {
        return Err(Refusal::because(format!(
            "{name} is no name of a constraint"
        )));
    };
    let Some(ident) = part.as_ident() else {
        return Err(Refusal::because(format!(
            "{name} is no name of a constraint"
        )));
    };
    let folded = resolver.scopes.fold(ident);
    let own = &resolver.set.tables()[table].name;
    if may_be_made(resolver.set.dialect, own, &folded) {
        // Of `orders_3` it is orders_3_pkey, or orders_pkey_3 where a CONSTRAINT clause named it.
        return Err(Refusal::because(format!(
            "{name} may be a name that PostgreSQL made or one of a CONSTRAINT clause, and these differ in each physical table: name the columns, ON CONFLICT (..)"
        )));
    }
    resolver.own(ident, table)
}

/// SQLite's `INDEXED BY name`. Indexes of MySQL keep their names, and so do the hints.
pub(super) fn of_hint(
    resolver: &mut Resolver<'_, '_>,
    factor: &TableFactor,
) -> Result<(), Refusal> {
    let TableFactor::Table {
        name,
        index_directives,
        ..
    } = factor
    else {
        return Ok(());
    };
    if resolver.set.dialect == Dialect::Mysql || index_directives.is_empty() {
        return Ok(());
    }
    if let Some(table) = resolver.relation(name, false)? {
        for directive in index_directives {
            if let TableIndexDirective::IndexedBy(index) = directive {
                existing(resolver, table, index)?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::super::{Dialect, TableNumbers, Which};
    use super::super::samples::{PLACED_BY, set};
    use super::super::{Analysis, Origin, Refusal, analyze};
    use crate::name::KeyspaceName;

    fn rewritten(dialect: Dialect, text: &str) -> Result<String, Refusal> {
        let set = set(dialect);
        let numbers = TableNumbers {
            keyspace: KeyspaceName::intern("orders"),
            which: Which::Spread(3),
            placed_by: PLACED_BY,
        };
        match analyze(&set, text, Origin::Anyone)? {
            Analysis::Untouched => Ok(text.to_owned()),
            Analysis::Template(template) => Ok(template
                .render(&set, Some(numbers))
                .expect("tables of the keyspace")),
        }
    }

    #[test]
    fn a_constraint_has_the_name_that_its_template_gave_it() {
        for (text, becomes) in [
            (
                r#"INSERT INTO "orders" ("id", "user_id") VALUES ($1, $2) ON CONFLICT ON CONSTRAINT "one_each" DO NOTHING"#,
                r#"INSERT INTO "orders_3" ("id", "user_id") VALUES ($1, $2) ON CONFLICT ON CONSTRAINT "one_each_3" DO NOTHING"#,
            ),
            (
                "INSERT INTO orders (id, user_id) VALUES (1, 2) ON CONFLICT ON CONSTRAINT orders DO UPDATE SET qty = orders.qty",
                "INSERT INTO orders_3 (id, user_id) VALUES (1, 2) ON CONFLICT ON CONSTRAINT orders_3 DO UPDATE SET qty = orders_3.qty",
            ),
            // Of a table that is not sharded.
            (
                "INSERT INTO users SELECT id FROM orders ON CONFLICT ON CONSTRAINT one_each DO NOTHING",
                "INSERT INTO users SELECT id FROM orders_3 ON CONFLICT ON CONSTRAINT one_each DO NOTHING",
            ),
        ] {
            assert_eq!(rewritten(Dialect::Postgres, text).as_deref(), Ok(becomes));
        }
    }

    #[test]
    fn a_name_that_the_server_may_have_made_is_not_guessed() {
        for name in [
            "orders_pkey",
            "orders_user_id_key",
            "\"orders_id_excl\"",
            "ORDERS_PKEY",
        ] {
            let text = format!(
                "INSERT INTO orders (id, user_id) VALUES (1, 2) ON CONFLICT ON CONSTRAINT {name} DO NOTHING"
            );
            assert!(
                matches!(
                    rewritten(Dialect::Postgres, &text),
                    Err(Refusal::Unclear(_))
                ),
                "{name}"
            );
        }
    }

    #[test]
    fn a_hint_names_the_index_of_the_physical_table() {
        for (text, becomes) in [
            (
                "SELECT id FROM orders INDEXED BY ix_user WHERE user_id = 1",
                "SELECT id FROM orders_3 INDEXED BY ix_user_3 WHERE user_id = 1",
            ),
            (
                "UPDATE orders INDEXED BY \"ix_user\" SET qty = 1",
                "UPDATE orders_3 INDEXED BY \"ix_user_3\" SET qty = 1",
            ),
            (
                "DELETE FROM orders NOT INDEXED WHERE id IN (SELECT id FROM users INDEXED BY ix_user)",
                "DELETE FROM orders_3 NOT INDEXED WHERE id IN (SELECT id FROM users INDEXED BY ix_user)",
            ),
        ] {
            assert_eq!(rewritten(Dialect::Sqlite, text).as_deref(), Ok(becomes));
        }
        let made = "SELECT id FROM orders INDEXED BY sqlite_autoindex_orders_1";
        assert!(matches!(
            rewritten(Dialect::Sqlite, made),
            Err(Refusal::Unclear(_))
        ));
        let mysql = "SELECT id FROM orders USE INDEX (ix_user) WHERE user_id = 1";
        assert_eq!(
            rewritten(Dialect::Mysql, mysql).as_deref(),
            Ok("SELECT id FROM orders_3 USE INDEX (ix_user) WHERE user_id = 1")
        );
    }
}
