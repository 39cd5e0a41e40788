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

            fn unfit_settings(
                &mut self,
            ) -> ::diesel::QueryResult<::core::option::Option<::std::string::String>> {
                match self {
                    $($(#[$cfg])* Self::$variant(conn) => $crate::blocking::NodeConnection::unfit_settings(conn),)+
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

            fn text_of<T>(&self, query: &T) -> ::diesel::QueryResult<$crate::blocking::QueryText>
            where
                T: ::diesel::query_builder::QueryFragment<<$enum as ::diesel::Connection>::Backend>,
            {
                type Db = <$enum as ::diesel::Connection>::Backend;
                type Builder = <Db as ::diesel::backend::Backend>::QueryBuilder;
                let (builder, backend) = match self {
                    $(
                        $(#[$cfg])*
                        Self::$variant(_) => (
                            Builder::$variant(::core::default::Default::default()),
                            Db::$variant(::core::default::Default::default()),
                        ),
                    )+
                };
                $crate::blocking::QueryText::of(query, builder, &backend)
            }

            fn binds_of<T>(
                &mut self,
                query: &T,
            ) -> ::diesel::QueryResult<::std::vec::Vec<$crate::blocking::BindValue>>
            where
                T: ::diesel::query_builder::QueryFragment<<$enum as ::diesel::Connection>::Backend>,
            {
                type Db = <$enum as ::diesel::Connection>::Backend;
                type Binds<'a> = <Db as ::diesel::backend::Backend>::BindCollector<'a>;
                match self {
                    $(
                        $(#[$cfg])*
                        Self::$variant(conn) => {
                            let backend = Db::$variant(::core::default::Default::default());
                            let mut collector =
                                Binds::$variant(::core::default::Default::default());
                            $crate::blocking::NodeConnection::with_lookup(conn, &mut |lookup| {
                                ::diesel::query_builder::QueryFragment::<Db>::collect_binds(
                                    query,
                                    &mut collector,
                                    lookup,
                                    &backend,
                                )
                            })?;
                            ::core::result::Result::Ok(
                                <Self as $crate::blocking::NodeConnection>::read_binds(&collector),
                            )
                        }
                    )+
                }
            }

            fn read_binds(
                collector: &<<$enum as ::diesel::Connection>::Backend as ::diesel::backend::Backend>::BindCollector<'_>,
            ) -> ::std::vec::Vec<$crate::blocking::BindValue> {
                type Binds<'a> =
                    <<$enum as ::diesel::Connection>::Backend as ::diesel::backend::Backend>::BindCollector<'a>;
                match collector {
                    $(
                        $(#[$cfg])*
                        Binds::$variant(collector) => {
                            <$conn as $crate::blocking::NodeConnection>::read_binds(collector)
                        }
                    )+
                }
            }

            fn with_lookup(
                &mut self,
                f: &mut dyn ::core::ops::FnMut(
                    &mut dyn ::core::any::Any,
                ) -> ::diesel::QueryResult<()>,
            ) -> ::diesel::QueryResult<()> {
                match self {
                    $($(#[$cfg])* Self::$variant(conn) => $crate::blocking::NodeConnection::with_lookup(conn, f),)+
                }
            }

            fn probe(&mut self) -> $crate::blocking::TransactionProbe {
                match self {
                    $($(#[$cfg])* Self::$variant(conn) => $crate::blocking::NodeConnection::probe(conn),)+
                }
            }
        }
    };
}
