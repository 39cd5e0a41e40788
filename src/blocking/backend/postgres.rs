use diesel::connection::{AnsiTransactionManager, Connection};
use diesel::pg::Pg;
use diesel::query_builder::{AstPass, QueryFragment, QueryId};
use diesel::{ConnectionResult, PgConnection, QueryResult};

use super::{NodeConnection, TransactionProbe, probe};
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

    fn probe(&mut self) -> TransactionProbe {
        probe::probe(self, |conn| {
            let _ = conn.execute_returning_count(&FailsBeforeItIsSent);
        })
    }
}

/// Diesel collects the binds before it talks to the server, and this query has none to give.
struct FailsBeforeItIsSent;

impl QueryFragment<Pg> for FailsBeforeItIsSent {
    fn walk_ast<'b>(&'b self, _: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        Err(diesel::result::Error::NotFound)
    }
}

impl QueryId for FailsBeforeItIsSent {
    type QueryId = ();
    const HAS_STATIC_QUERY_ID: bool = false;
}
