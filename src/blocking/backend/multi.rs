/// Implements [`NodeConnection`](crate::blocking::NodeConnection) for an enum with
/// `#[derive(diesel::MultiConnection)]`, so that one manager can hold shards of several backends.
///
/// Name the enum's variants with their types, and repeat a variant's `#[cfg(..)]`. Which variant a node gets is decided by its URL.
///
/// ```
/// # #[cfg(all(feature = "sqlite", feature = "postgres"))] mod enums {
/// #[derive(diesel::MultiConnection)]
/// pub enum AnyConnection {
///     Sqlite(diesel::SqliteConnection),
///     Postgres(diesel::PgConnection),
/// }
///
/// diesel_sharded::sharded_multi_connection!(AnyConnection {
///     Sqlite(diesel::SqliteConnection),
///     Postgres(diesel::PgConnection),
/// });
/// # }
/// ```
#[macro_export]
macro_rules! sharded_multi_connection {
    ($enum:ident { $($(#[$cfg:meta])* $variant:ident($conn:ty)),+ $(,)? }) => {
        impl $crate::blocking::NodeConnection for $enum {
            fn accepts(kind: $crate::UrlKind) -> bool {
                $(
                    $(#[$cfg])*
                    if <$conn as $crate::blocking::NodeConnection>::accepts(kind) {
                        return true;
                    }
                )+
                false
            }

            fn connect(
                kind: $crate::UrlKind,
                url: &str,
            ) -> ::diesel::ConnectionResult<Self> {
                $(
                    $(#[$cfg])*
                    if <$conn as $crate::blocking::NodeConnection>::accepts(kind) {
                        return <$conn as $crate::blocking::NodeConnection>::connect(kind, url)
                            .map(Self::$variant);
                    }
                )+
                ::core::result::Result::Err(::diesel::ConnectionError::InvalidConnectionUrl(
                    ::std::string::String::from("no variant of the connection enum takes this kind of URL"),
                ))
            }

            fn kind(&self) -> $crate::UrlKind {
                match self {
                    $($(#[$cfg])* Self::$variant(conn) => $crate::blocking::NodeConnection::kind(conn),)+
                }
            }

            fn begin_with(&mut self, sql: &str) -> ::diesel::QueryResult<()> {
                match self {
                    $($(#[$cfg])* Self::$variant(conn) => $crate::blocking::NodeConnection::begin_with(conn, sql),)+
                }
            }

            fn reset_session(&mut self, dirty: bool) -> ::diesel::QueryResult<bool> {
                match self {
                    $($(#[$cfg])* Self::$variant(conn) => $crate::blocking::NodeConnection::reset_session(conn, dirty),)+
                }
            }

            fn server(&mut self) -> ::diesel::QueryResult<$crate::blocking::ServerInfo> {
                match self {
                    $($(#[$cfg])* Self::$variant(conn) => $crate::blocking::NodeConnection::server(conn),)+
                }
            }

            fn scan_keys(
                &mut self,
                sql: &str,
                numbers: bool,
                each: &mut dyn ::core::ops::FnMut($crate::blocking::ScannedKey<'_>),
            ) -> ::diesel::QueryResult<()> {
                match self {
                    $($(#[$cfg])* Self::$variant(conn) => $crate::blocking::NodeConnection::scan_keys(conn, sql, numbers, each),)+
                }
            }

            fn read_identity(
                &mut self,
            ) -> ::diesel::QueryResult<::std::vec::Vec<$crate::blocking::IdentityRow>> {
                match self {
                    $($(#[$cfg])* Self::$variant(conn) => $crate::blocking::NodeConnection::read_identity(conn),)+
                }
            }

            fn write_identity(
                &mut self,
                rows: &[$crate::blocking::IdentityRow],
            ) -> ::diesel::QueryResult<()> {
                match self {
                    $($(#[$cfg])* Self::$variant(conn) => $crate::blocking::NodeConnection::write_identity(conn, rows),)+
                }
            }

            fn text_of<T>(&self, query: &T) -> ::core::option::Option<::std::string::String>
            where
                T: ::diesel::query_builder::QueryFragment<<$enum as ::diesel::Connection>::Backend>,
            {
                type Db = <$enum as ::diesel::Connection>::Backend;
                type Builder = <Db as ::diesel::backend::Backend>::QueryBuilder;
                let (mut text, backend) = match self {
                    $(
                        $(#[$cfg])*
                        Self::$variant(_) => (
                            Builder::$variant(::core::default::Default::default()),
                            Db::$variant(::core::default::Default::default()),
                        ),
                    )+
                };
                query.to_sql(&mut text, &backend).ok()?;
                ::core::option::Option::Some(::diesel::query_builder::QueryBuilder::finish(text))
            }

            fn probe(&mut self) -> $crate::blocking::TransactionProbe {
                match self {
                    $($(#[$cfg])* Self::$variant(conn) => $crate::blocking::NodeConnection::probe(conn),)+
                }
            }
        }
    };
}
