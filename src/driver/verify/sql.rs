//! The statements, in the words of each backend.
//!
//! A key travels as text with a letter before it: `t` for text as it is, `x` for bytes in
//! hexadecimal. That form goes into the next page's statement as a literal, so no parameter has to be
//! bound whose type only the database knows.

use crate::key::{KeyType, ShardKey};
use crate::topology::UrlKind;

/// A name in quotation marks, a schema before it apart.
fn quoted(kind: UrlKind, name: &str) -> String {
    let mark = if kind == UrlKind::Mysql { '`' } else { '"' };
    // The names come from the configuration, which takes letters, digits, `_` and `$` alone.
    let parts: Vec<String> = name
        .split('.')
        .map(|part| format!("{mark}{part}{mark}"))
        .collect();
    parts.join(".")
}

/// A column behind its table: SQLite would take a quoted name that no column has for a text.
fn column_of(kind: UrlKind, (table, column): (&str, &str)) -> String {
    format!("{}.{}", quoted(kind, table), quoted(kind, column))
}

/// Whether keys of this type come as numbers.
pub(crate) fn as_numbers(kind: UrlKind, key: KeyType) -> bool {
    // Unsigned columns of MySQL have numbers that do not fit.
    key == KeyType::Integer && kind != UrlKind::Mysql
}

/// The column as text with its letter, or as a number.
fn selected(kind: UrlKind, key: KeyType, column: String) -> String {
    match (kind, key) {
        (UrlKind::Sqlite, KeyType::Integer) => column,
        (UrlKind::Sqlite, _) => format!(
            "CASE typeof({column}) WHEN 'blob' THEN 'x' || hex({column}) ELSE 't' || {column} END"
        ),
        (UrlKind::Postgres, KeyType::Integer) => format!("{column}::bigint"),
        (UrlKind::Postgres, KeyType::Bytes) => format!("'x' || encode({column}, 'hex')"),
        (UrlKind::Postgres, KeyType::Date) => format!("'t' || to_char({column}, 'YYYY-MM-DD')"),
        (UrlKind::Postgres, KeyType::Timestamp) => {
            format!("'t' || to_char({column}, 'YYYY-MM-DD HH24:MI:SS.US')")
        }
        (UrlKind::Postgres, _) => format!("'t' || {column}::text"),
        (_, KeyType::Integer) => format!("CONCAT('t', CAST({column} AS CHAR))"),
        (_, KeyType::Text) => format!("CONCAT('t', CONVERT({column} USING utf8mb4))"),
        (_, KeyType::Date) => format!("CONCAT('t', DATE_FORMAT({column}, '%Y-%m-%d'))"),
        (_, KeyType::Timestamp) => {
            format!("CONCAT('t', DATE_FORMAT({column}, '%Y-%m-%d %H:%i:%s.%f'))")
        }
        (_, _) => format!("CONCAT('x', HEX({column}))"),
    }
}

/// A key as a literal of the statement.
pub(crate) fn literal(kind: UrlKind, key: KeyType, raw: &str) -> String {
    let (letter, rest) = raw.split_at_checked(1).unwrap_or(("t", ""));
    if letter == "n" || (letter == "t" && key == KeyType::Integer) {
        let digits: String = rest
            .chars()
            .filter(|c| c.is_ascii_digit() || *c == '-')
            .collect();
        return digits;
    }
    if letter == "x" {
        let digits: String = rest.chars().filter(char::is_ascii_hexdigit).collect();
        return match kind {
            UrlKind::Postgres => format!("'\\x{digits}'::bytea"),
            UrlKind::Mysql if key == KeyType::Uuid && digits.len() != 32 => {
                format!("CONVERT(X'{digits}' USING utf8mb4)")
            }
            _ => format!("X'{digits}'"),
        };
    }
    match kind {
        // Where a backslash means something, depends on a setting; it means nothing in digits.
        UrlKind::Mysql if key == KeyType::Text => {
            let digits: String = rest.bytes().map(|byte| format!("{byte:02x}")).collect();
            format!("CONVERT(X'{digits}' USING utf8mb4)")
        }
        UrlKind::Postgres if key == KeyType::Timestamp => {
            format!("'{}+00'", rest.replace('\'', "''"))
        }
        _ => format!("'{}'", rest.replace('\'', "''")),
    }
}

/// The forms in which a column may hold a key: a UUID as its bytes or as text, bytes as themselves.
pub(crate) fn forms(kind: UrlKind, key: &ShardKey<'_>) -> Vec<String> {
    let hexadecimal = |bytes: &[u8]| -> String {
        let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("x{digits}")
    };
    match key {
        ShardKey::Text(text) => vec![format!("t{text}")],
        ShardKey::Bytes(bytes) => vec![hexadecimal(bytes)],
        ShardKey::Uuid(bytes) => match kind {
            UrlKind::Postgres => vec![format!("t{key}")],
            // MySQL compares a text with hexadecimal digits of that text.
            UrlKind::Mysql => vec![hexadecimal(bytes), hexadecimal(key.to_string().as_bytes())],
            UrlKind::Sqlite => vec![hexadecimal(bytes), format!("t{key}")],
        },
        ShardKey::Timestamp { .. } => {
            let text = key.to_string();
            let text = text.trim_end_matches('Z').replacen('T', " ", 1);
            match kind {
                // SQLite compares the texts: Diesel leaves out a fraction that is zero.
                UrlKind::Sqlite => {
                    let short = text.trim_end_matches('0').trim_end_matches('.').to_owned();
                    vec![format!("t{text}"), format!("t{short}")]
                }
                _ => vec![format!("t{text}")],
            }
        }
        other => vec![format!("t{other}")],
    }
}

/// One page of keys, in their order.
pub(crate) fn page(
    kind: UrlKind,
    key: KeyType,
    at: (&str, &str),
    after: Option<&str>,
    rows: u32,
) -> String {
    let (table, column) = (quoted(kind, at.0), column_of(kind, at));
    let select = selected(kind, key, column.clone());
    let from = match after {
        None => format!("{column} IS NOT NULL"),
        Some(raw) => format!("{column} > {}", literal(kind, key, raw)),
    };
    let integers = if kind == UrlKind::Sqlite && key == KeyType::Integer {
        // Text in a column of numbers would be read as 0; `others` counts it.
        format!(" AND typeof({column}) = 'integer'")
    } else {
        String::new()
    };
    format!("SELECT {select} FROM {table} WHERE {from}{integers} ORDER BY {column} LIMIT {rows}")
}

/// All keys that the database takes for equal to one.
pub(crate) fn equal(kind: UrlKind, key: KeyType, at: (&str, &str), raw: &str) -> String {
    let (table, column) = (quoted(kind, at.0), column_of(kind, at));
    let select = selected(kind, key, column.clone());
    format!(
        "SELECT {select} FROM {table} WHERE {column} = {}",
        literal(kind, key, raw)
    )
}

/// How many rows have no key.
pub(crate) fn nulls(kind: UrlKind, at: (&str, &str)) -> String {
    let (table, column) = (quoted(kind, at.0), column_of(kind, at));
    format!("SELECT count(*) FROM {table} WHERE {column} IS NULL")
}

/// How many rows have a key that is none of its type, where the database allows that.
pub(crate) fn others(kind: UrlKind, key: KeyType, at: (&str, &str)) -> Option<String> {
    if kind != UrlKind::Sqlite || key != KeyType::Integer {
        return None;
    }
    let (table, column) = (quoted(kind, at.0), column_of(kind, at));
    Some(format!(
        "SELECT count(*) FROM {table} WHERE typeof({column}) NOT IN ('integer', 'null')"
    ))
}

/// 1 where the table is there, 0 where it is not.
pub(crate) fn exists(kind: UrlKind, table: &str) -> String {
    match kind {
        UrlKind::Sqlite => format!(
            "SELECT count(*) FROM sqlite_master WHERE type IN ('table', 'view') AND lower(name) = lower('{}')",
            table.rsplit('.').next().unwrap_or(table)
        ),
        UrlKind::Postgres => format!(
            "SELECT count(*) FROM pg_class WHERE oid = to_regclass('{}')",
            quoted(kind, table)
        ),
        _ => {
            let (schema, table) = match table.split_once('.') {
                Some((schema, table)) => (format!("'{schema}'"), table),
                None => ("DATABASE()".to_owned(), table),
            };
            format!(
                "SELECT count(*) FROM information_schema.tables WHERE table_schema = {schema} AND table_name = '{table}'"
            )
        }
    }
}

/// What makes a session refuse to write. PostgreSQL's counts in UTC, too, as Diesel makes MySQL's do.
pub(crate) fn read_only(kind: UrlKind) -> &'static str {
    match kind {
        UrlKind::Sqlite => "PRAGMA query_only = ON",
        UrlKind::Postgres => "SET default_transaction_read_only = on; SET TIME ZONE 'UTC'",
        _ => "SET SESSION TRANSACTION READ ONLY",
    }
}
