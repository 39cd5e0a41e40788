use std::any::Any;

use diesel::backend::Backend;
use diesel::connection::{
    AnsiTransactionManager, Connection, SimpleConnection, TransactionManager,
};
use diesel::mysql::{Mysql, MysqlQueryBuilder};
use diesel::query_builder::QueryFragment;
use diesel::{ConnectionResult, MysqlConnection, QueryResult, RunQueryDsl};

use super::{NodeConnection, ServerInfo};
use crate::driver::text_settings::{ASK_MYSQL, Settings};
use crate::driver::verify::ScannedKey;
use crate::driver::{BindValue, IdentityRow, QueryText, TransactionProbe, binds};
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

    /// Named locks can be let go; there is no statement that takes back variables and temporary
    /// tables, so a connection that may have some is closed.
    fn reset_session(&mut self, dirty: bool) -> QueryResult<bool> {
        if dirty {
            return Ok(false);
        }
        self.batch_execute("DO RELEASE_ALL_LOCKS()")?;
        Ok(true)
    }

    fn server(&mut self) -> QueryResult<ServerInfo> {
        super::server::mysql::server(self)
    }

    fn unfit_settings(&mut self) -> QueryResult<Option<String>> {
        let said: Vec<Settings> = diesel::sql_query(ASK_MYSQL).load(self)?;
        Ok(said.iter().find_map(Settings::mysql_problem))
    }

    fn scan_keys(
        &mut self,
        sql: &str,
        numbers: bool,
        each: &mut dyn FnMut(ScannedKey<'_>),
    ) -> QueryResult<()> {
        super::scan::mysql(self, sql, numbers, each)
    }

    fn read_identity(&mut self) -> QueryResult<Vec<IdentityRow>> {
        super::identity::mysql::read(self)
    }

    fn write_identity(&mut self, rows: &[IdentityRow]) -> QueryResult<()> {
        super::identity::mysql::write(self, rows)
    }

    /// Diesel does not look at what the client library knows (`SERVER_STATUS_IN_TRANS`), so neither
    /// can we.
    fn probe(&mut self) -> TransactionProbe {
        match AnsiTransactionManager::transaction_manager_status_mut(self).transaction_depth() {
            Ok(_) => TransactionProbe::Unknown,
            Err(_) => TransactionProbe::Broken,
        }
    }

    fn text_of<T>(&self, query: &T) -> QueryResult<QueryText>
    where
        T: QueryFragment<Mysql>,
    {
        QueryText::of(query, MysqlQueryBuilder::new(), &Mysql)
    }

    fn binds_of<T>(&mut self, query: &T) -> QueryResult<Vec<BindValue>>
    where
        T: QueryFragment<Mysql>,
    {
        binds::mysql::of_query(query)
    }

    fn read_binds(collector: &<Mysql as Backend>::BindCollector<'_>) -> Vec<BindValue> {
        binds::mysql::read(collector)
    }

    fn with_lookup(
        &mut self,
        f: &mut dyn FnMut(&mut dyn Any) -> QueryResult<()>,
    ) -> QueryResult<()> {
        f(&mut ())
    }
}
