//! Reading one column of keys, row by row.

/// Gives a connection type the function, in ordinary Diesel over its concrete type.
macro_rules! scan_function {
    ($name:ident, $conn:ty) => {
        pub(super) fn $name(
            conn: &mut $conn,
            sql: &str,
            numbers: bool,
            each: &mut dyn FnMut($crate::driver::verify::ScannedKey<'_>),
        ) -> diesel::QueryResult<()> {
            use diesel::RunQueryDsl;
            use diesel::dsl::sql as query;
            use diesel::sql_types::{BigInt, Text};

            use $crate::driver::verify::ScannedKey;

            if numbers {
                for number in query::<BigInt>(sql)
                    .load_iter::<i64, diesel::connection::DefaultLoadingMode>(conn)?
                {
                    each(ScannedKey::Number(number?));
                }
            } else {
                for text in query::<Text>(sql)
                    .load_iter::<String, diesel::connection::DefaultLoadingMode>(conn)?
                {
                    each(ScannedKey::Text(&text?));
                }
            }
            Ok(())
        }
    };
}

#[cfg(feature = "sqlite")]
scan_function!(sqlite, diesel::SqliteConnection);
#[cfg(feature = "postgres")]
scan_function!(postgres, diesel::PgConnection);
#[cfg(feature = "mysql")]
scan_function!(mysql, diesel::MysqlConnection);
