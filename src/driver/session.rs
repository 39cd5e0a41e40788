//! What the drivers say to a session on their own account.

use crate::topology::UrlKind;

/// Everything of PostgreSQL's `DISCARD ALL` but the prepared statements, which Diesel's cache knows;
/// and what Diesel itself sets at connect.
#[cfg(any(feature = "postgres", feature = "async-postgres"))]
pub(crate) const RESET_POSTGRES: &str = "SET SESSION AUTHORIZATION DEFAULT; RESET ROLE; RESET ALL; \
     CLOSE ALL; UNLISTEN *; SELECT pg_advisory_unlock_all(); DISCARD TEMP; DISCARD SEQUENCES; \
     SET TIME ZONE 'UTC'; SET CLIENT_ENCODING TO 'UTF8'";

/// Leaves a MySQL session without a transaction, whatever was before; `home`: its database.
#[cfg(any(feature = "r2d2", feature = "async-mysql"))]
pub(crate) fn clean_mysql(home: Option<&str>) -> String {
    let mut sql = "ROLLBACK; UNLOCK TABLES; SET autocommit=1".to_owned();
    if let Some(home) = home {
        sql = format!("{sql}; USE `{}`", home.replace('`', "``"));
    }
    sql
}

/// Tells a session whether it may write.
pub(crate) fn read_only(kind: UrlKind, read_only: bool) -> &'static str {
    match (kind, read_only) {
        (UrlKind::Sqlite, true) => "PRAGMA query_only = ON",
        (UrlKind::Sqlite, false) => "PRAGMA query_only = OFF",
        (UrlKind::Postgres, true) => "SET default_transaction_read_only = on",
        (UrlKind::Postgres, false) => "RESET default_transaction_read_only",
        (UrlKind::Mysql, true) => "SET SESSION TRANSACTION READ ONLY",
        (UrlKind::Mysql, false) => "SET SESSION TRANSACTION READ WRITE",
    }
}
