//! The values that a query binds, as far as they can be shard keys.

use diesel::QueryResult;
use diesel::backend::Backend;
use diesel::query_builder::{QueryBuilder, QueryFragment};

/// A value that a query binds, read from what Diesel would send.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BindValue {
    /// `NULL`.
    Null,
    /// A whole number of any width.
    Integer(i128),
    /// Text.
    Text(String),
    /// Bytes.
    Bytes(Vec<u8>),
    /// The 16 bytes of a UUID.
    Uuid([u8; 16]),
    /// A calendar day, in days since 1970-01-01.
    Date(i32),
    /// A point in time, in microseconds since 1970-01-01 00:00:00 UTC.
    Timestamp(i64),
    /// A value of a type that cannot be read here.
    Other,
}

/// The text that Diesel makes of a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueryText {
    pub(crate) text: String,
    /// Whether a prepared statement of it may be kept.
    pub(crate) cacheable: bool,
}

impl QueryText {
    /// Has Diesel make the text of a query.
    ///
    /// # Errors
    ///
    /// What Diesel says of a query that has no text (an empty changeset).
    pub fn of<DB, T>(query: &T, mut builder: DB::QueryBuilder, backend: &DB) -> QueryResult<Self>
    where
        DB: Backend,
        T: QueryFragment<DB> + ?Sized,
    {
        query.to_sql(&mut builder, backend)?;
        Ok(Self {
            text: builder.finish(),
            cacheable: query.is_safe_to_cache_prepared(backend)?,
        })
    }
}

/// Of PostgreSQL, by the type that Diesel declares to the server.
#[cfg(any(feature = "postgres", feature = "async-postgres"))]
pub(crate) mod postgres {
    use diesel::QueryResult;
    use diesel::pg::{Pg, PgMetadataLookup, PgTypeMetadata};
    use diesel::query_builder::QueryFragment;
    use diesel::query_builder::bind_collector::RawBytesBindCollector;

    use super::BindValue;

    /// Days from 1970-01-01 to 2000-01-01, where PostgreSQL counts from.
    const EPOCH_DAYS: i32 = 10_957;

    /// Knows no type of an application's own: a shard key has none of those.
    struct OnlyBuiltIn;

    impl PgMetadataLookup for OnlyBuiltIn {
        fn lookup_type(&mut self, name: &str, _: Option<&str>) -> PgTypeMetadata {
            // Of an extension, and sent like text.
            PgTypeMetadata::new(if name == "citext" { 25 } else { 0 }, 0)
        }
    }

    pub(crate) fn of_query<T>(query: &T) -> QueryResult<Vec<BindValue>>
    where
        T: QueryFragment<Pg> + ?Sized,
    {
        let mut collector = RawBytesBindCollector::<Pg>::new();
        query.collect_binds(&mut collector, &mut OnlyBuiltIn, &Pg)?;
        Ok(read(&collector))
    }

    pub(crate) fn read(collector: &RawBytesBindCollector<Pg>) -> Vec<BindValue> {
        collector
            .metadata
            .iter()
            .zip(&collector.binds)
            .map(|(metadata, bytes)| match bytes {
                None => BindValue::Null,
                Some(bytes) => metadata
                    .oid()
                    .ok()
                    .and_then(|oid| value(oid, bytes))
                    .unwrap_or(BindValue::Other),
            })
            .collect()
    }

    /// By <https://www.postgresql.org/docs/current/catalog-pg-type.html>: the numbers of built-in types
    /// never change, nor do their binary forms.
    fn value(oid: u32, bytes: &[u8]) -> Option<BindValue> {
        Some(match oid {
            21 => BindValue::Integer(i16::from_be_bytes(bytes.try_into().ok()?).into()),
            23 => BindValue::Integer(i32::from_be_bytes(bytes.try_into().ok()?).into()),
            20 => BindValue::Integer(i64::from_be_bytes(bytes.try_into().ok()?).into()),
            25 | 1043 => BindValue::Text(std::str::from_utf8(bytes).ok()?.to_owned()),
            17 => BindValue::Bytes(bytes.to_owned()),
            2950 => BindValue::Uuid(bytes.try_into().ok()?),
            1082 => {
                BindValue::Date(i32::from_be_bytes(bytes.try_into().ok()?).checked_add(EPOCH_DAYS)?)
            }
            1184 => BindValue::Timestamp(
                i64::from_be_bytes(bytes.try_into().ok()?)
                    .checked_add(i64::from(EPOCH_DAYS) * 86_400_000_000)?,
            ),
            _ => return None,
        })
    }

    #[cfg(test)]
    mod tests {
        use diesel::sql_types;

        use super::*;

        #[test]
        fn what_diesel_sends_is_read() {
            let query = diesel::sql_query("")
                .bind::<sql_types::SmallInt, _>(-7i16)
                .bind::<sql_types::Integer, _>(7)
                .bind::<sql_types::BigInt, _>(i64::MIN)
                .bind::<sql_types::Text, _>("é")
                .bind::<sql_types::Nullable<sql_types::Text>, _>(None::<String>)
                .bind::<sql_types::Bytea, _>(vec![0u8, 255])
                .bind::<sql_types::Date, _>(diesel::data_types::PgDate(0))
                .bind::<sql_types::Timestamptz, _>(diesel::data_types::PgTimestamp(1))
                .bind::<sql_types::Double, _>(1.5);
            assert_eq!(
                of_query(&query).expect("binds"),
                [
                    BindValue::Integer(-7),
                    BindValue::Integer(7),
                    BindValue::Integer(i64::MIN.into()),
                    BindValue::Text("é".to_owned()),
                    BindValue::Null,
                    BindValue::Bytes(vec![0, 255]),
                    BindValue::Date(10_957),
                    BindValue::Timestamp(946_684_800_000_001),
                    BindValue::Other,
                ]
            );
        }
    }
}

/// Of MySQL, by the type that Diesel declares to the server.
#[cfg(any(feature = "mysql", feature = "async-mysql"))]
pub(crate) mod mysql {
    use std::ffi::c_uint;

    use diesel::QueryResult;
    use diesel::mysql::{Mysql, MysqlType};
    use diesel::query_builder::QueryFragment;
    use diesel::query_builder::bind_collector::RawBytesBindCollector;
    use jiff::civil::Date;

    use super::BindValue;
    use crate::key::days_of;

    pub(crate) fn of_query<T>(query: &T) -> QueryResult<Vec<BindValue>>
    where
        T: QueryFragment<Mysql> + ?Sized,
    {
        let mut collector = RawBytesBindCollector::<Mysql>::new();
        query.collect_binds(&mut collector, &mut (), &Mysql)?;
        Ok(read(&collector))
    }

    pub(crate) fn read(collector: &RawBytesBindCollector<Mysql>) -> Vec<BindValue> {
        collector
            .metadata
            .iter()
            .zip(&collector.binds)
            .map(|(kind, bytes)| match bytes {
                None => BindValue::Null,
                Some(bytes) => value(*kind, bytes).unwrap_or(BindValue::Other),
            })
            .collect()
    }

    fn value(kind: MysqlType, bytes: &[u8]) -> Option<BindValue> {
        let integer = match kind {
            MysqlType::Tiny => i8::from_ne_bytes(bytes.try_into().ok()?).into(),
            MysqlType::UnsignedTiny => u8::from_ne_bytes(bytes.try_into().ok()?).into(),
            MysqlType::Short => i16::from_ne_bytes(bytes.try_into().ok()?).into(),
            MysqlType::UnsignedShort => u16::from_ne_bytes(bytes.try_into().ok()?).into(),
            MysqlType::Long => i32::from_ne_bytes(bytes.try_into().ok()?).into(),
            MysqlType::UnsignedLong => u32::from_ne_bytes(bytes.try_into().ok()?).into(),
            MysqlType::LongLong => i64::from_ne_bytes(bytes.try_into().ok()?).into(),
            MysqlType::UnsignedLongLong => u64::from_ne_bytes(bytes.try_into().ok()?).into(),
            MysqlType::String => {
                return Some(BindValue::Text(std::str::from_utf8(bytes).ok()?.to_owned()));
            }
            MysqlType::Blob => return Some(BindValue::Bytes(bytes.to_owned())),
            MysqlType::Date => return day(bytes).map(days_of).map(BindValue::Date),
            _ => return None,
        };
        Some(BindValue::Integer(integer))
    }

    /// A day in the client library's `MYSQL_TIME`, which begins with year, month and day, each a C `unsigned int`:
    /// <https://dev.mysql.com/doc/dev/mysql-server/latest/structMYSQL__TIME.html>.
    fn day(time: &[u8]) -> Option<Date> {
        let mut fields = time
            .chunks_exact(size_of::<c_uint>())
            .filter_map(|field| field.try_into().ok().map(c_uint::from_ne_bytes));
        let (year, month, day) = (fields.next()?, fields.next()?, fields.next()?);
        Date::new(
            year.try_into().ok()?,
            month.try_into().ok()?,
            day.try_into().ok()?,
        )
        .ok()
    }

    #[cfg(test)]
    mod tests {
        use diesel::mysql::data_types::{MysqlTime, MysqlTimestampType};
        use diesel::sql_types;

        use super::*;

        fn day(year: u32, month: u32, day: u32) -> MysqlTime {
            let kind = MysqlTimestampType::MYSQL_TIMESTAMP_DATE;
            MysqlTime::new(year, month, day, 0, 0, 0, 0, false, kind, 0)
        }

        #[test]
        fn what_diesel_sends_is_read() {
            let query = diesel::sql_query("")
                .bind::<sql_types::TinyInt, _>(-1i8)
                .bind::<sql_types::Integer, _>(7)
                .bind::<sql_types::BigInt, _>(i64::MIN)
                .bind::<sql_types::Unsigned<sql_types::BigInt>, _>(u64::MAX)
                .bind::<sql_types::Text, _>("é")
                .bind::<sql_types::Nullable<sql_types::Integer>, _>(None::<i32>)
                .bind::<sql_types::Binary, _>(vec![0u8, 255])
                .bind::<sql_types::Date, _>(day(1970, 1, 2))
                .bind::<sql_types::Date, _>(day(1969, 12, 31))
                .bind::<sql_types::Date, _>(day(2024, 2, 30))
                .bind::<sql_types::Double, _>(1.5);
            assert_eq!(
                of_query(&query).expect("binds"),
                [
                    BindValue::Integer(-1),
                    BindValue::Integer(7),
                    BindValue::Integer(i64::MIN.into()),
                    BindValue::Integer(u64::MAX.into()),
                    BindValue::Text("é".to_owned()),
                    BindValue::Null,
                    BindValue::Bytes(vec![0, 255]),
                    BindValue::Date(1),
                    BindValue::Date(-1),
                    BindValue::Other,
                    BindValue::Other,
                ]
            );
        }
    }
}

/// Of SQLite.
#[cfg(any(feature = "sqlite", feature = "async-sqlite"))]
pub(crate) mod sqlite {
    use std::fmt::Debug;

    use diesel::QueryResult;
    use diesel::backend::Backend;
    use diesel::query_builder::{MoveableBindCollector, QueryFragment};
    use diesel::sqlite::Sqlite;

    use super::BindValue;

    type Binds<'a> = <Sqlite as Backend>::BindCollector<'a>;

    pub(crate) fn of_query<T>(query: &T) -> QueryResult<Vec<BindValue>>
    where
        T: QueryFragment<Sqlite> + ?Sized,
    {
        let mut collector = Binds::default();
        query.collect_binds(&mut collector, &mut (), &Sqlite)?;
        Ok(read(&collector))
    }

    /// Diesel keeps the values of SQLite to itself, and shows them only through `Debug`: as the
    /// variants of an enum, `I64(7)`. The test below fails when that changes.
    pub(crate) fn read(collector: &Binds<'_>) -> Vec<BindValue> {
        let mut shown: Vec<Box<dyn Debug>> = Vec::new();
        Binds::push_debug_binds(&collector.moveable(), &mut shown);
        shown
            .iter()
            .map(|value| self::value(&format!("{value:?}")).unwrap_or(BindValue::Other))
            .collect()
    }

    fn value(shown: &str) -> Option<BindValue> {
        if shown == "Null" {
            return Some(BindValue::Null);
        }
        let (variant, content) = shown.strip_suffix(')')?.split_once('(')?;
        match variant {
            "I32" | "I64" => content.parse().ok().map(BindValue::Integer),
            "String" => unescaped(content).map(BindValue::Text),
            "Binary" => {
                let list = content.strip_prefix('[')?.strip_suffix(']')?;
                let bytes: Result<Vec<u8>, _> = list
                    .split(", ")
                    .filter(|byte| !byte.is_empty())
                    .map(str::parse)
                    .collect();
                bytes.ok().map(BindValue::Bytes)
            }
            _ => None,
        }
    }

    /// The text behind its `Debug`.
    fn unescaped(shown: &str) -> Option<String> {
        let mut chars = shown.strip_prefix('"')?.strip_suffix('"')?.chars();
        let mut text = String::new();
        while let Some(c) = chars.next() {
            if c != '\\' {
                text.push(c);
                continue;
            }
            text.push(match chars.next()? {
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                '0' => '\0',
                'u' => {
                    let rest = chars.as_str().strip_prefix('{')?;
                    let (digits, rest) = rest.split_once('}')?;
                    chars = rest.chars();
                    char::from_u32(u32::from_str_radix(digits, 16).ok()?)?
                }
                escaped @ ('"' | '\'' | '\\') => escaped,
                _ => return None,
            });
        }
        Some(text)
    }

    #[cfg(test)]
    mod tests {
        use diesel::sql_types;

        use super::*;

        #[test]
        fn what_diesel_sends_is_read() {
            let text = "a\"'\\\n\r\t\0\u{1}é\u{200b}\u{1F600})(]";
            let query = diesel::sql_query("")
                .bind::<sql_types::Integer, _>(7)
                .bind::<sql_types::BigInt, _>(i64::MIN)
                .bind::<sql_types::Text, _>(text)
                .bind::<sql_types::Nullable<sql_types::Integer>, _>(None::<i32>)
                .bind::<sql_types::Binary, _>(vec![0u8, 255])
                .bind::<sql_types::Binary, _>(Vec::<u8>::new())
                .bind::<sql_types::Double, _>(1.5);
            assert_eq!(
                of_query(&query).expect("binds"),
                [
                    BindValue::Integer(7),
                    BindValue::Integer(i64::MIN.into()),
                    BindValue::Text(text.to_owned()),
                    BindValue::Null,
                    BindValue::Bytes(vec![0, 255]),
                    BindValue::Bytes(Vec::new()),
                    BindValue::Other,
                ]
            );
        }
    }
}
