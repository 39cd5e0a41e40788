use diesel::connection::{AnsiTransactionManager, Connection, SimpleConnection};
use diesel::{ConnectionResult, QueryResult, SqliteConnection};

use super::{NodeConnection, TransactionProbe, probe};
use crate::topology::UrlKind;

impl NodeConnection for SqliteConnection {
    fn accepts(kind: UrlKind) -> bool {
        kind == UrlKind::Sqlite
    }

    fn connect(_: UrlKind, url: &str) -> ConnectionResult<Self> {
        Self::establish(url)
    }

    fn kind(&self) -> UrlKind {
        UrlKind::Sqlite
    }

    fn begin_with(&mut self, sql: &str) -> QueryResult<()> {
        AnsiTransactionManager::begin_transaction_sql(self, sql)
    }

    fn probe(&mut self) -> TransactionProbe {
        // A text with a NUL in it cannot even be handed to SQLite; after any failure Diesel looks
        // at SQLite's autocommit flag.
        probe::probe(self, |conn| {
            let _ = conn.batch_execute("\0");
        })
    }
}
