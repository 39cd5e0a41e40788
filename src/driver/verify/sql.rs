//! The statements, in the words of each backend.
//!
//! A key travels as text with a letter before it: `t` for text as it is, `x` for bytes in
//! hexadecimal, `n` for a number. That form goes into the next page's statement as a literal, so no parameter has to be
//! bound whose type only the database knows.

use super::TableJob;
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

/// What a column keeps, as far as a statement has to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stored {
    /// Whole numbers.
    Integer,
    /// Other numbers.
    Number,
    /// Days.
    Date,
    /// Days with a time.
    Timestamp,
    /// UUIDs as a type of their own.
    Uuid,
    /// Bytes.
    Bytes,
    /// Texts.
    Text,
    /// Anything: SQLite, and types that are none of these.
    Any,
}

impl Stored {
    const ALL: [(Self, &'static str, &'static str); 7] = [
        (
            Self::Integer,
            "int2,int4,int8",
            "tinyint,smallint,mediumint,int,bigint",
        ),
        (
            Self::Number,
            "numeric,float4,float8",
            "decimal,float,double",
        ),
        (Self::Date, "date", "date"),
        (
            Self::Timestamp,
            "timestamp,timestamptz",
            "datetime,timestamp",
        ),
        (Self::Uuid, "uuid", "uuid"),
        (
            Self::Bytes,
            "bytea",
            "binary,varbinary,tinyblob,blob,mediumblob,longblob",
        ),
        (
            Self::Text,
            "text,varchar,bpchar",
            "char,varchar,tinytext,text,mediumtext,longtext",
        ),
    ];

    /// The kind of column behind the number that [`stored`] brings.
    pub(crate) fn of(number: u64) -> Self {
        let at = usize::try_from(number).unwrap_or(0).checked_sub(1);
        at.and_then(|at| Self::ALL.get(at))
            .map_or(Self::Any, |(stored, _, _)| *stored)
    }
}

/// Asks what a column keeps; `None` where that says nothing about its values.
pub(crate) fn stored(kind: UrlKind, (table, column): (&str, &str)) -> Option<String> {
    let cases = |name: &str, of: fn(&(Stored, &'static str, &'static str)) -> &'static str| {
        let cases = Stored::ALL.iter().enumerate().map(|(at, entry)| {
            let names = of(entry).replace(',', "','");
            format!("WHEN {name} IN ('{names}') THEN {}", at + 1)
        });
        format!("CASE {} ELSE 0 END", cases.collect::<Vec<_>>().join(" "))
    };
    match kind {
        UrlKind::Sqlite => None,
        UrlKind::Postgres => Some(format!(
            "SELECT ({})::bigint FROM pg_attribute JOIN pg_type ON pg_type.oid = atttypid WHERE attrelid = to_regclass('{}') AND attname = '{column}'",
            cases("typname", |entry| entry.1),
            quoted(kind, table)
        )),
        _ => {
            let (schema, table) = in_schema(table);
            Some(format!(
                "SELECT {} FROM information_schema.columns WHERE table_schema = {schema} AND table_name = '{table}' AND column_name = '{column}'",
                cases("lower(data_type)", |entry| entry.2)
            ))
        }
    }
}

/// A key column of one table, which statements ask for.
#[derive(Clone, Debug)]
pub(crate) struct Column<'a> {
    kind: UrlKind,
    /// The type of the keys, as the keyspace declares it.
    key: KeyType,
    stored: Stored,
    table: &'a str,
    column: &'a str,
}

impl<'a> Column<'a> {
    pub(crate) fn new(kind: UrlKind, key: KeyType, stored: Stored, job: &'a TableJob) -> Self {
        Self {
            kind,
            key,
            stored,
            table: &job.physical,
            column: &job.key_column,
        }
    }

    /// The column behind its table: SQLite would take a quoted name that no column has for a text.
    fn name(&self) -> String {
        format!(
            "{}.{}",
            quoted(self.kind, self.table),
            quoted(self.kind, self.column)
        )
    }

    /// Whether the keys come as numbers.
    pub(crate) fn as_numbers(&self) -> bool {
        self.key == KeyType::Integer
            && match self.kind {
                UrlKind::Sqlite => true,
                UrlKind::Postgres => self.stored == Stored::Integer,
                // Unsigned columns of MySQL have numbers that do not fit.
                _ => false,
            }
    }

    /// The column as text with its letter, or as a number. Nothing is rounded and nothing refused: what is
    /// no key comes as the text that it has in the database.
    fn selected(&self) -> String {
        let column = self.name();
        match (self.kind, self.key, self.stored) {
            (UrlKind::Sqlite, KeyType::Integer, _) => column,
            (UrlKind::Sqlite, ..) => format!(
                "CASE typeof({column}) WHEN 'blob' THEN 'x' || hex({column}) WHEN 'text' THEN 't' || {column} ELSE 'n' || {column} END"
            ),
            (UrlKind::Postgres, KeyType::Integer, Stored::Integer) => format!("{column}::bigint"),
            (UrlKind::Postgres, _, Stored::Bytes) => format!("'x' || encode({column}, 'hex')"),
            (UrlKind::Postgres, KeyType::Date, Stored::Date) => written(&column, "YYYY-MM-DD"),
            (UrlKind::Postgres, KeyType::Timestamp, Stored::Date | Stored::Timestamp) => {
                written(&column, "YYYY-MM-DD HH24:MI:SS.US")
            }
            (UrlKind::Postgres, ..) => format!("'t' || {column}::text"),
            (_, KeyType::Integer, _) | (_, _, Stored::Uuid) => {
                format!("CONCAT('t', CAST({column} AS CHAR))")
            }
            (_, KeyType::Date, Stored::Date) => {
                format!("CONCAT('t', DATE_FORMAT({column}, '%Y-%m-%d'))")
            }
            (_, KeyType::Timestamp, Stored::Date | Stored::Timestamp) => {
                format!("CONCAT('t', DATE_FORMAT({column}, '%Y-%m-%d %H:%i:%s.%f'))")
            }
            (_, KeyType::Text | KeyType::Date | KeyType::Timestamp, _) => {
                format!("CONCAT('t', CONVERT({column} USING utf8mb4))")
            }
            (..) => format!("CONCAT('x', HEX({column}))"),
        }
    }

    /// A key as a literal of the statement.
    fn literal(&self, raw: &str) -> String {
        let (letter, rest) = raw.split_at_checked(1).unwrap_or(("t", ""));
        let number = match (self.kind, self.stored) {
            (UrlKind::Mysql, Stored::Integer | Stored::Number) => true,
            (UrlKind::Mysql, _) => false,
            _ => self.as_numbers(),
        };
        if letter == "n" || (letter == "t" && number) {
            let digits: String = rest
                .chars()
                .filter(|c| c.is_ascii_digit() || "-+.e".contains(*c))
                .collect();
            return digits;
        }
        let hexadecimal = || -> String {
            match letter {
                "x" => rest.chars().filter(char::is_ascii_hexdigit).collect(),
                _ => rest.bytes().map(|byte| format!("{byte:02x}")).collect(),
            }
        };
        match (self.kind, letter) {
            (UrlKind::Postgres, "x") => format!("'\\x{}'::bytea", hexadecimal()),
            (UrlKind::Sqlite, "x") => format!("X'{}'", hexadecimal()),
            (UrlKind::Mysql, "x") if matches!(self.stored, Stored::Bytes | Stored::Any) => {
                format!("X'{}'", hexadecimal())
            }
            // Where a backslash means something, depends on a setting; it means nothing in digits.
            (UrlKind::Mysql, "x") => format!("CONVERT(X'{}' USING utf8mb4)", hexadecimal()),
            (UrlKind::Mysql, _) if !matches!(self.stored, Stored::Date | Stored::Timestamp) => {
                format!("CONVERT(X'{}' USING utf8mb4)", hexadecimal())
            }
            _ => format!("'{}'", rest.replace('\'', "''")),
        }
    }

    /// SQLite would read a text as the number 0; [`others`](Self::others) counts it.
    fn integers(&self) -> String {
        if self.kind == UrlKind::Sqlite && self.key == KeyType::Integer {
            format!(" AND typeof({}) = 'integer'", self.name())
        } else {
            String::new()
        }
    }

    fn where_(&self, condition: &str) -> String {
        format!(
            "SELECT {} FROM {} WHERE {condition}{}",
            self.selected(),
            quoted(self.kind, self.table),
            self.integers()
        )
    }

    /// One page of keys, in their order.
    pub(crate) fn page(&self, after: Option<&str>, rows: u32) -> String {
        let name = self.name();
        let from = match after {
            None => format!("{name} IS NOT NULL"),
            Some(raw) => format!("{name} > {}", self.literal(raw)),
        };
        format!("{} ORDER BY {name} LIMIT {rows}", self.where_(&from))
    }

    /// All keys that the database takes for equal to one.
    pub(crate) fn equal(&self, raw: &str) -> String {
        self.where_(&format!("{} = {}", self.name(), self.literal(raw)))
    }

    /// All keys among which a key is, whichever way it is spelt; `None` where the database cannot tell, and
    /// all have to be read. `folded` says that the rule takes several texts for one key.
    pub(crate) fn candidates(&self, key: &ShardKey<'_>, folded: bool) -> Option<String> {
        let raw = match key {
            ShardKey::Bytes(bytes) => {
                let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
                format!("x{digits}")
            }
            ShardKey::Timestamp { .. } => {
                let text = key.to_string().replacen('T', " ", 1);
                format!("t{}", text.trim_end_matches('Z'))
            }
            other => format!("t{other}"),
        };
        let raw = match key {
            ShardKey::Text(text) => format!("t{text}"),
            ShardKey::Integer(_) if self.as_numbers() => raw.replacen('t', "n", 1),
            _ => raw,
        };
        match (self.kind, self.key, self.stored) {
            (UrlKind::Sqlite, KeyType::Integer, _)
            | (_, KeyType::Integer, Stored::Integer)
            | (_, KeyType::Bytes, Stored::Bytes)
            | (_, KeyType::Date, Stored::Date)
            | (_, KeyType::Timestamp, Stored::Timestamp)
            | (UrlKind::Postgres, KeyType::Uuid, Stored::Uuid) => Some(self.equal(&raw)),
            // Numbers, which are before all texts there, are read as texts.
            (UrlKind::Sqlite, KeyType::Text, _) if !folded => {
                let name = self.name();
                Some(self.where_(&format!("{name} = {} OR {name} < ''", self.literal(&raw))))
            }
            (UrlKind::Postgres | UrlKind::Mysql, KeyType::Text, Stored::Text) if !folded => {
                Some(self.equal(&raw))
            }
            _ => None,
        }
    }

    /// How many rows have no key.
    pub(crate) fn nulls(&self) -> String {
        format!(
            "SELECT count(*) FROM {} WHERE {} IS NULL",
            quoted(self.kind, self.table),
            self.name()
        )
    }

    /// How many rows have a key that is none of its type, where no page brings them.
    pub(crate) fn others(&self) -> Option<String> {
        if self.kind != UrlKind::Sqlite || self.key != KeyType::Integer {
            return None;
        }
        Some(format!(
            "SELECT count(*) FROM {} WHERE typeof({}) NOT IN ('integer', 'null')",
            quoted(self.kind, self.table),
            self.name()
        ))
    }
}

/// PostgreSQL's days and instants in a form that does not depend on a setting; infinity and years before
/// the first have none.
fn written(column: &str, form: &str) -> String {
    format!(
        "'t' || CASE WHEN isfinite({column}) AND {column} >= '0001-01-01' THEN to_char({column}, '{form}') ELSE {column}::text END"
    )
}

/// The schema of a table as an expression of MySQL, and the name.
fn in_schema(table: &str) -> (String, &str) {
    match table.split_once('.') {
        Some((schema, table)) => (format!("'{schema}'"), table),
        None => ("DATABASE()".to_owned(), table),
    }
}

/// The names of all tables of a database, each with a letter before it.
pub(crate) fn tables(kind: UrlKind, beside: &str) -> String {
    match kind {
        UrlKind::Sqlite => {
            "SELECT 't' || name FROM sqlite_master WHERE type IN ('table', 'view')".to_owned()
        }
        UrlKind::Postgres => {
            let schema = match beside.split_once('.') {
                Some((schema, _)) => format!("'{schema}'"),
                None => "current_schema()".to_owned(),
            };
            format!(
                "SELECT 't' || table_name::text FROM information_schema.tables WHERE table_schema = {schema}"
            )
        }
        _ => format!(
            "SELECT CONCAT('t', table_name) FROM information_schema.tables WHERE table_schema = {}",
            in_schema(beside).0
        ),
    }
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
            let (schema, table) = in_schema(table);
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
