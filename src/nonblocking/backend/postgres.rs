use std::num::NonZeroU32;

use diesel::connection::{InstrumentationEvent, TransactionManagerStatus};
use diesel::pg::Pg;
use diesel::query_builder::QueryFragment;
use diesel::result::{DatabaseErrorKind, Error as DieselError};
use diesel::{ConnectionResult, QueryResult};
use diesel_async::{
    AnsiTransactionManager, AsyncConnection, AsyncPgConnection, RunQueryDsl, SimpleAsyncConnection,
    TransactionManager,
};

use super::{AsyncNodeConnection, CommitRefused};
use crate::driver::text_settings::{ASK_POSTGRES, Settings};
use crate::driver::{
    BindValue, IdentityRow, QueryText, TransactionProbe, believed_depth, binds, session,
};
use crate::error::RollbackReason;
use crate::replica::statement_failure;
use crate::topology::{DatabaseUrl, UrlKind};

/// Succeeds in a transaction that can go on, and nowhere else; leaves nothing behind.
const PROBE: &str = "SAVEPOINT diesel_sharded_probe; RELEASE SAVEPOINT diesel_sharded_probe";

impl AsyncNodeConnection for AsyncPgConnection {
    /// The protocol's answers come in order, and those that nobody waits for are thrown away.
    const SURVIVES_INTERRUPTION: bool = true;

    fn accepts(kind: UrlKind) -> bool {
        kind == UrlKind::Postgres
    }

    fn url_problems(url: &DatabaseUrl) -> Vec<String> {
        url.postgres_target().err().unwrap_or_default()
    }

    async fn connect(_: UrlKind, url: &str) -> ConnectionResult<Self> {
        super::postgres_connect::connect(url).await
    }

    fn kind(&self) -> UrlKind {
        UrlKind::Postgres
    }

    async fn begin_with(&mut self, sql: &str) -> QueryResult<()> {
        AnsiTransactionManager::begin_transaction_sql(self, sql).await
    }

    /// In a transaction that has failed, and where there is none, it is the savepoint that is refused
    /// and the `COMMIT` does not run; by itself it would answer with a silent rollback, or a warning.
    async fn commit_doubtful(&mut self) -> Result<(), CommitRefused> {
        let outermost = InstrumentationEvent::commit_transaction(NonZeroU32::MIN);
        self.instrumentation().on_connection_event(outermost);
        let committed = self
            .batch_execute("SAVEPOINT diesel_sharded_probe; COMMIT")
            .await;
        let refused = match committed {
            Ok(()) => Ok(()),
            Err(error) if statement_failure(false, &error).connection_lost => {
                Err(CommitRefused::Failed(error))
            }
            // In a failed transaction nothing else succeeds either.
            Err(error) => match self.batch_execute("SELECT").await {
                Err(_) => return Err(CommitRefused::Because(RollbackReason::FailedStatement)),
                Ok(()) if names_savepoint(&error) => {
                    Err(CommitRefused::Because(RollbackReason::EndedByHand))
                }
                Ok(()) => Err(CommitRefused::Failed(error)),
            },
        };
        *AnsiTransactionManager::transaction_manager_status_mut(self) =
            TransactionManagerStatus::default();
        refused
    }

    fn forget_interruption(&mut self) {
        super::forget_interruption(self);
    }

    /// Neither Diesel nor tokio-postgres shows the state that the server sends with each answer, so
    /// the server is asked by a statement that can only succeed inside a transaction.
    async fn probe(&mut self) -> TransactionProbe {
        let broken = |error: &_| statement_failure(false, error).connection_lost;
        match self.batch_execute(PROBE).await {
            Ok(()) => TransactionProbe::Open,
            Err(error) if broken(&error) => TransactionProbe::Broken,
            // Outside of a transaction anything else succeeds, in a failed one nothing does.
            Err(_) => match self.batch_execute("SELECT").await {
                Ok(()) => TransactionProbe::Idle,
                Err(error) if broken(&error) => TransactionProbe::Broken,
                Err(_) => TransactionProbe::Failed,
            },
        }
    }

    async fn close_transactions(&mut self, _: Option<&str>) -> QueryResult<()> {
        let status = AnsiTransactionManager::transaction_manager_status_mut(self);
        let believed =
            believed_depth(status) > 0 || matches!(status, TransactionManagerStatus::InError);
        // What is in its way there belongs to a statement whose future was dropped.
        *self.transaction_state() = AnsiTransactionManager::default();
        // A ROLLBACK without a transaction fills the server's log with warnings, hence the BEGIN where
        // none is expected; in a transaction that has failed it is the BEGIN that is refused.
        let closed = match believed {
            true => self.batch_execute("ROLLBACK").await,
            false => self.batch_execute("BEGIN; ROLLBACK").await,
        };
        match closed {
            Err(error) if !statement_failure(false, &error).connection_lost => {
                self.batch_execute("ROLLBACK").await
            }
            closed => closed,
        }
    }

    async fn reset_session(&mut self, _: bool) -> QueryResult<bool> {
        self.batch_execute(session::RESET_POSTGRES).await?;
        Ok(true)
    }

    async fn unfit_settings(&mut self) -> QueryResult<Option<String>> {
        let said: Vec<Settings> = diesel::sql_query(ASK_POSTGRES).load(self).await?;
        Ok(said.iter().find_map(Settings::postgres_problem))
    }

    async fn read_identity(&mut self) -> QueryResult<Vec<IdentityRow>> {
        super::identity::postgres::read(self).await
    }

    async fn write_identity(&mut self, rows: &[IdentityRow]) -> QueryResult<()> {
        super::identity::postgres::write(self, rows).await
    }

    fn text_of<T>(query: &T) -> QueryResult<QueryText>
    where
        T: QueryFragment<Pg>,
    {
        QueryText::of(query, diesel::pg::PgQueryBuilder::default(), &Pg)
    }

    fn binds_of<T>(query: &T) -> QueryResult<Vec<BindValue>>
    where
        T: QueryFragment<Pg>,
    {
        binds::postgres::of_query(query)
    }
}

/// Whether an error is about a savepoint outside of a transaction (25P01). The word stands in it in
/// every language; Diesel does not show the code.
fn names_savepoint(error: &DieselError) -> bool {
    matches!(
        error,
        DieselError::DatabaseError(DatabaseErrorKind::Unknown, information)
            if information.message().contains("SAVEPOINT")
    )
}
