use std::any::Any;

use diesel::backend::Backend;
use diesel::connection::{AnsiTransactionManager, Connection, SimpleConnection};
use diesel::query_builder::QueryFragment;
use diesel::sqlite::{Sqlite, SqliteQueryBuilder};
use diesel::{ConnectionError, ConnectionResult, QueryResult, SqliteConnection};

use super::{NodeConnection, ServerInfo};
use crate::driver::verify::ScannedKey;
use crate::driver::{BindValue, IdentityRow, QueryText, TransactionProbe, binds, probe};
use crate::topology::UrlKind;

impl NodeConnection for SqliteConnection {
    fn accepts(kind: UrlKind) -> bool {
        kind == UrlKind::Sqlite
    }

    /// Sets a busy timeout of five seconds: SQLite's own default is none at all, and a pool of
    /// connections to one file would answer "database is locked" at once.
    fn connect(_: UrlKind, url: &str) -> ConnectionResult<Self> {
        let mut conn = Self::establish(url)?;
        conn.batch_execute("PRAGMA busy_timeout = 5000")
            .map_err(ConnectionError::CouldntSetupConfiguration)?;
        Ok(conn)
    }

    fn kind(&self) -> UrlKind {
        UrlKind::Sqlite
    }

    fn begin_with(&mut self, sql: &str) -> QueryResult<()> {
        AnsiTransactionManager::begin_transaction_sql(self, sql)
    }

    /// There is no statement that takes back pragmas, attached databases and temporary tables, so a
    /// connection that may have some is closed.
    fn reset_session(&mut self, dirty: bool) -> QueryResult<bool> {
        Ok(!dirty)
    }

    fn server(&mut self) -> QueryResult<ServerInfo> {
        let server = super::server::sqlite::server(self).map(super::server::sqlite::of_file)?;
        let read_only = server.read_only || super::server::sqlite::is_open_for_reading(self)?;
        Ok(ServerInfo {
            read_only,
            ..server
        })
    }

    /// There is none that changes it.
    fn unfit_settings(&mut self) -> QueryResult<Option<String>> {
        Ok(None)
    }

    fn scan_keys(
        &mut self,
        sql: &str,
        numbers: bool,
        each: &mut dyn FnMut(ScannedKey<'_>),
    ) -> QueryResult<()> {
        super::scan::sqlite(self, sql, numbers, each)
    }

    fn read_identity(&mut self) -> QueryResult<Vec<IdentityRow>> {
        super::identity::sqlite::read(self)
    }

    fn write_identity(&mut self, rows: &[IdentityRow]) -> QueryResult<()> {
        super::identity::sqlite::write(self, rows)
    }

    fn probe(&mut self) -> TransactionProbe {
        // A text with a NUL in it cannot even be handed to SQLite; after any failure Diesel looks
        // at SQLite's autocommit flag.
        probe(self, |conn| {
            let _ = conn.batch_execute("\0");
        })
    }

    fn text_of<T>(&self, query: &T) -> QueryResult<QueryText>
    where
        T: QueryFragment<Sqlite>,
    {
        QueryText::of(query, SqliteQueryBuilder::new(), &Sqlite)
    }

    fn binds_of<T>(&mut self, query: &T) -> QueryResult<Vec<BindValue>>
    where
        T: QueryFragment<Sqlite>,
    {
        binds::sqlite::of_query(query)
    }

    fn read_binds(collector: &<Sqlite as Backend>::BindCollector<'_>) -> Vec<BindValue> {
        binds::sqlite::read(collector)
    }

    fn with_lookup(
        &mut self,
        f: &mut dyn FnMut(&mut dyn Any) -> QueryResult<()>,
    ) -> QueryResult<()> {
        f(&mut ())
    }
}
