//! What a name is on each backend: when two spellings are one name, and how one is quoted.

use std::borrow::Cow;

/// The SQL of a backend.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Hash)]
pub(crate) enum Dialect {
    Sqlite,
    Postgres,
    /// MySQL and MariaDB, without `ANSI_QUOTES`: `"orders"` is a text there.
    Mysql,
}

impl Dialect {
    /// The one spelling of all spellings of a name of a table or an alias.
    ///
    /// PostgreSQL lowers what is not quoted; SQLite is blind to case; MySQL on Linux tells `ORDERS` and
    /// `orders` apart.
    pub(crate) fn fold(self, name: &str, quoted: bool) -> Cow<'_, str> {
        let lower = match self {
            Self::Sqlite => true,
            Self::Postgres => !quoted,
            Self::Mysql => false,
        };
        if lower && name.bytes().any(|byte| byte.is_ascii_uppercase()) {
            Cow::Owned(name.to_ascii_lowercase())
        } else {
            Cow::Borrowed(name)
        }
    }

    /// Whether what is written names the column that was declared. MySQL is blind to case here.
    pub(crate) fn is_column(self, declared: &str, written: &str, quoted: bool) -> bool {
        match self {
            Self::Sqlite | Self::Mysql => declared.eq_ignore_ascii_case(written),
            Self::Postgres => self.fold(written, quoted) == declared,
        }
    }

    /// The schema that a name without one is taken to be in, where that does not depend on the
    /// database.
    pub(crate) fn default_schema(self) -> Option<&'static str> {
        match self {
            Self::Sqlite => Some("main"),
            Self::Postgres => Some("public"),
            Self::Mysql => None,
        }
    }

    /// A name as it is written in a text: quoted like `quote` says, or bare where that is the same name.
    pub(crate) fn write_name(self, name: &str, quote: Option<char>) -> String {
        let bare = || {
            let mut bytes = name.bytes();
            bytes
                .next()
                .is_some_and(|byte| byte.is_ascii_lowercase() || byte == b'_')
                && bytes
                    .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
        };
        let (open, close) = match quote {
            None if bare() || self != Self::Postgres => return name.to_owned(),
            Some('[') => ('[', ']'),
            Some('`') => ('`', '`'),
            // A text in the place of a table (`FROM 'orders'`, SQLite) is a name all the same; a double quote may follow.
            Some('\'') => ('\'', '\''),
            Some(_) | None => ('"', '"'),
        };
        format!("{open}{name}{close}")
    }
}

#[cfg(test)]
mod tests {
    use super::Dialect::{Mysql, Postgres, Sqlite};

    #[test]
    fn spellings_of_one_name() {
        // dialect, written, quoted, the same as `orders`
        for (dialect, written, quoted, same) in [
            (Postgres, "orders", false, true),
            (Postgres, "ORDERS", false, true),
            (Postgres, "orders", true, true),
            (Postgres, "Orders", true, false),
            (Sqlite, "ORDERS", false, true),
            (Sqlite, "Orders", true, true),
            (Mysql, "orders", false, true),
            (Mysql, "ORDERS", false, false),
            (Mysql, "Orders", true, false),
        ] {
            assert_eq!(
                dialect.fold(written, quoted) == "orders",
                same,
                "{dialect:?} {written} {quoted}"
            );
        }
    }

    #[test]
    fn a_bare_name_stays_the_same_name() {
        assert_eq!(Postgres.write_name("orders_3", None), "orders_3");
        assert_eq!(Postgres.write_name("Orders_3", None), "\"Orders_3\"");
        assert_eq!(Postgres.write_name("o$_3", None), "\"o$_3\"");
        assert_eq!(Mysql.write_name("Orders_3", None), "Orders_3");
        assert_eq!(Sqlite.write_name("orders_3", Some('[')), "[orders_3]");
        assert_eq!(Sqlite.write_name("orders_3", Some('\'')), "'orders_3'");
        assert_eq!(Mysql.write_name("orders_3", Some('`')), "`orders_3`");
    }
}
