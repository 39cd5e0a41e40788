use std::any::Any;

use diesel::backend::Backend;
use diesel::connection::{AnsiTransactionManager, Connection, SimpleConnection};
use diesel::internal::derives::multiconnection::MultiConnectionHelper;
use diesel::pg::{Pg, PgQueryBuilder};
use diesel::query_builder::{AstPass, QueryFragment, QueryId};
use diesel::serialize::{self, Output, ToSql};
use diesel::sql_types::Text;
use diesel::{ConnectionResult, PgConnection, QueryResult, RunQueryDsl};

use super::{NodeConnection, ServerInfo};
use crate::driver::text_settings::{ASK_POSTGRES, Settings};
use crate::driver::verify::ScannedKey;
use crate::driver::{BindValue, IdentityRow, QueryText, TransactionProbe, binds, probe, session};
use crate::topology::UrlKind;

impl NodeConnection for PgConnection {
    fn accepts(kind: UrlKind) -> bool {
        kind == UrlKind::Postgres
    }

    fn connect(_: UrlKind, url: &str) -> ConnectionResult<Self> {
        Self::establish(url)
    }

    fn kind(&self) -> UrlKind {
        UrlKind::Postgres
    }

    fn begin_with(&mut self, sql: &str) -> QueryResult<()> {
        AnsiTransactionManager::begin_transaction_sql(self, sql)
    }

    fn reset_session(&mut self, _: bool) -> QueryResult<bool> {
        self.batch_execute(session::RESET_POSTGRES)?;
        Ok(true)
    }

    fn server(&mut self) -> QueryResult<ServerInfo> {
        super::server::postgres::server(self)
    }

    fn unfit_settings(&mut self) -> QueryResult<Option<String>> {
        let said: Vec<Settings> = diesel::sql_query(ASK_POSTGRES).load(self)?;
        Ok(said.iter().find_map(Settings::postgres_problem))
    }

    fn scan_keys(
        &mut self,
        sql: &str,
        numbers: bool,
        each: &mut dyn FnMut(ScannedKey<'_>),
    ) -> QueryResult<()> {
        super::scan::postgres(self, sql, numbers, each)
    }

    fn read_identity(&mut self) -> QueryResult<Vec<IdentityRow>> {
        super::identity::postgres::read(self)
    }

    fn write_identity(&mut self, rows: &[IdentityRow]) -> QueryResult<()> {
        super::identity::postgres::write(self, rows)
    }

    fn probe(&mut self) -> TransactionProbe {
        probe(self, |conn| {
            let _ = conn.execute_returning_count(&FailsBeforeItIsSent(NoValue));
        })
    }

    fn text_of<T>(&self, query: &T) -> QueryResult<QueryText>
    where
        T: QueryFragment<Pg>,
    {
        QueryText::of(query, PgQueryBuilder::new(), &Pg)
    }

    fn binds_of<T>(&mut self, query: &T) -> QueryResult<Vec<BindValue>>
    where
        T: QueryFragment<Pg>,
    {
        binds::postgres::of_query(query)
    }

    fn read_binds(collector: &<Pg as Backend>::BindCollector<'_>) -> Vec<BindValue> {
        binds::postgres::read(collector)
    }

    fn with_lookup(
        &mut self,
        f: &mut dyn FnMut(&mut dyn Any) -> QueryResult<()>,
    ) -> QueryResult<()> {
        f(<Self as MultiConnectionHelper>::to_any(self))
    }
}

/// Diesel collects the binds before it talks to the server, and this one's only bind has no value to
/// give. Its text can be had all the same, should somebody's instrumentation ask for it.
struct FailsBeforeItIsSent(NoValue);

#[derive(Debug)]
struct NoValue;

impl ToSql<Text, Pg> for NoValue {
    fn to_sql<'b>(&'b self, _: &mut Output<'b, '_, Pg>) -> serialize::Result {
        Err("never sent".into())
    }
}

impl QueryFragment<Pg> for FailsBeforeItIsSent {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        out.unsafe_to_cache_prepared();
        out.push_sql("SELECT ");
        out.push_bind_param::<Text, _>(&self.0)
    }
}

impl QueryId for FailsBeforeItIsSent {
    type QueryId = ();
    const HAS_STATIC_QUERY_ID: bool = false;
}
