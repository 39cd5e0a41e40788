//! The connection of one shard, of whichever backend its URL names.

/// A connection to the database that is being migrated: one of Diesel's own.
///
/// Which variants exist follows from the features `sqlite`, `postgres` and `mysql`. Diesel's query
/// builder works on the enum itself as far as the backends agree; match on it for what is only one
/// backend's.
#[derive(diesel::MultiConnection)]
#[non_exhaustive]
pub enum AnyConnection {
    /// A SQLite database.
    #[cfg(feature = "sqlite")]
    Sqlite(diesel::SqliteConnection),
    /// A PostgreSQL database.
    #[cfg(feature = "postgres")]
    Postgres(diesel::PgConnection),
    /// A MySQL or MariaDB database.
    #[cfg(feature = "mysql")]
    Mysql(diesel::MysqlConnection),
}

crate::sharded_multi_connection!(AnyConnection {
    #[cfg(feature = "sqlite")]
    Sqlite(diesel::SqliteConnection),
    #[cfg(feature = "postgres")]
    Postgres(diesel::PgConnection),
    #[cfg(feature = "mysql")]
    Mysql(diesel::MysqlConnection),
});

impl std::fmt::Debug for AnyConnection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = match self {
            #[cfg(feature = "sqlite")]
            Self::Sqlite(_) => "Sqlite",
            #[cfg(feature = "postgres")]
            Self::Postgres(_) => "Postgres",
            #[cfg(feature = "mysql")]
            Self::Mysql(_) => "Mysql",
        };
        f.debug_tuple(name).finish_non_exhaustive()
    }
}
