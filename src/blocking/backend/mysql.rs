use diesel::connection::{AnsiTransactionManager, Connection, TransactionManager};
use diesel::mysql::{Mysql, MysqlQueryBuilder};
use diesel::query_builder::{QueryBuilder, QueryFragment};
use diesel::{ConnectionResult, MysqlConnection, QueryResult};

use super::{NodeConnection, TransactionProbe};
use crate::topology::UrlKind;

impl NodeConnection for MysqlConnection {
    fn accepts(kind: UrlKind) -> bool {
        kind == UrlKind::Mysql
    }

    fn connect(_: UrlKind, url: &str) -> ConnectionResult<Self> {
        Self::establish(url)
    }

    fn kind(&self) -> UrlKind {
        UrlKind::Mysql
    }

    fn begin_with(&mut self, sql: &str) -> QueryResult<()> {
        AnsiTransactionManager::begin_transaction_sql(self, sql)
    }

    /// Diesel does not look at what the client library knows (`SERVER_STATUS_IN_TRANS`), so neither
    /// can we.
    fn probe(&mut self) -> TransactionProbe {
        match AnsiTransactionManager::transaction_manager_status_mut(self).transaction_depth() {
            Ok(_) => TransactionProbe::Unknown,
            Err(_) => TransactionProbe::Broken,
        }
    }

    fn text_of<T>(&self, query: &T) -> Option<String>
    where
        T: QueryFragment<Mysql>,
    {
        let mut text = MysqlQueryBuilder::new();
        query.to_sql(&mut text, &Mysql).ok()?;
        Some(text.finish())
    }
}
