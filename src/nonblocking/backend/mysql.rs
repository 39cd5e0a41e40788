use diesel::mysql::Mysql;
use diesel::query_builder::QueryFragment;
use diesel::{ConnectionResult, QueryResult};
use diesel_async::{
    AnsiTransactionManager, AsyncConnection, AsyncMysqlConnection, RunQueryDsl,
    SimpleAsyncConnection, TransactionManager,
};

use super::AsyncNodeConnection;
use crate::driver::text_settings::{ASK_MYSQL, Settings};
use crate::driver::{BindValue, IdentityRow, QueryText, TransactionProbe, binds, session};
use crate::topology::{DatabaseUrl, UrlKind};

impl AsyncNodeConnection for AsyncMysqlConnection {
    /// mysql_async would read the rest of the old answer as that of the next statement ("connection
    /// will be broken if this operation isn't finished", its trait `Routine`).
    const SURVIVES_INTERRUPTION: bool = false;

    fn accepts(kind: UrlKind) -> bool {
        kind == UrlKind::Mysql
    }

    fn url_problems(url: &DatabaseUrl) -> Vec<String> {
        url.mysql_problems()
    }

    async fn connect(_: UrlKind, url: &str) -> ConnectionResult<Self> {
        Self::establish(&by_the_address(url)).await
    }

    fn kind(&self) -> UrlKind {
        UrlKind::Mysql
    }

    async fn begin_with(&mut self, sql: &str) -> QueryResult<()> {
        AnsiTransactionManager::begin_transaction_sql(self, sql).await
    }

    fn forget_interruption(&mut self) {
        super::forget_interruption(self);
    }

    /// There is no statement that tells on every server, and mysql_async keeps what the protocol says
    /// (`SERVER_STATUS_IN_TRANS`) to itself.
    async fn probe(&mut self) -> TransactionProbe {
        match AnsiTransactionManager::transaction_manager_status_mut(self).transaction_depth() {
            Ok(_) => TransactionProbe::Unknown,
            Err(_) => TransactionProbe::Broken,
        }
    }

    async fn close_transactions(&mut self, home: Option<&str>) -> QueryResult<()> {
        *self.transaction_state() = AnsiTransactionManager::default();
        self.batch_execute(&session::clean_mysql(home)).await
    }

    /// Named locks can be let go; there is no statement that takes back variables and temporary
    /// tables, so a connection that may have some is closed.
    async fn reset_session(&mut self, dirty: bool) -> QueryResult<bool> {
        if dirty {
            return Ok(false);
        }
        self.batch_execute("DO RELEASE_ALL_LOCKS()").await?;
        Ok(true)
    }

    async fn unfit_settings(&mut self) -> QueryResult<Option<String>> {
        let said: Vec<Settings> = diesel::sql_query(ASK_MYSQL).load(self).await?;
        Ok(said.iter().find_map(Settings::mysql_problem))
    }

    async fn read_identity(&mut self) -> QueryResult<Vec<IdentityRow>> {
        super::identity::mysql::read(self).await
    }

    async fn write_identity(&mut self, rows: &[IdentityRow]) -> QueryResult<()> {
        super::identity::mysql::write(self, rows).await
    }

    fn text_of<T>(query: &T) -> QueryResult<QueryText>
    where
        T: QueryFragment<Mysql>,
    {
        QueryText::of(query, diesel::mysql::MysqlQueryBuilder::default(), &Mysql)
    }

    fn binds_of<T>(query: &T) -> QueryResult<Vec<BindValue>>
    where
        T: QueryFragment<Mysql>,
    {
        binds::mysql::of_query(query)
    }
}

/// The URL, with word to mysql_async to stay where it leads.
///
/// Left to itself it asks a server on a loopback address for the path of its socket and connects a second time,
/// to that path on this machine: past the proxy or the tunnel that the address may belong to, and to whatever
/// server listens there.
fn by_the_address(url: &str) -> String {
    const STAY: &str = "prefer_socket=false";
    match url.split_once('?') {
        Some((_, parameters)) if parameters.contains("prefer_socket=") => url.to_owned(),
        Some((_, "")) => format!("{url}{STAY}"),
        Some(_) => format!("{url}&{STAY}"),
        None => format!("{url}?{STAY}"),
    }
}

#[cfg(test)]
mod tests {
    use super::by_the_address;

    #[test]
    fn an_address_is_followed_unless_the_url_says_otherwise() {
        for (url, used) in [
            (
                "mysql://u@127.0.0.1/d",
                "mysql://u@127.0.0.1/d?prefer_socket=false",
            ),
            ("mysql://u@h/d?", "mysql://u@h/d?prefer_socket=false"),
            ("mysql://u@h/d?a=b", "mysql://u@h/d?a=b&prefer_socket=false"),
            (
                "mysql://u@h/d?prefer_socket=true",
                "mysql://u@h/d?prefer_socket=true",
            ),
        ] {
            assert_eq!(by_the_address(url), used);
        }
    }
}
