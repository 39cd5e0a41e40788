//! `save_changes`: what diesel-async implements for each of its connections, for ours.
//!
//! Forwarding to the physical connection would lose the table names of the route, so the statements are
//! made here.

use diesel::QueryResult;
use diesel::associations::Identifiable;
use diesel::dsl::{Find, Update};
use diesel::query_builder::{AsChangeset, AsQuery, IntoUpdateTarget, UpdateStatement};
use diesel::query_dsl::methods::FindDsl;
use diesel_async::methods::LoadQuery;
use diesel_async::{RunQueryDsl, UpdateAndFetchResults};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use super::AsyncShardedConnection;

/// With `RETURNING` it is one statement.
#[cfg(feature = "async-postgres")]
impl<'b, Changes, Output, Tab, V> UpdateAndFetchResults<Changes, Output>
    for AsyncShardedConnection<diesel_async::AsyncPgConnection>
where
    Output: Send + 'static,
    Changes: Copy + AsChangeset<Target = Tab> + Identifiable<Table = Tab> + Send,
    Tab: diesel::Table + FindDsl<Changes::Id> + 'b,
    Find<Tab, Changes::Id>: IntoUpdateTarget<Table = Tab, WhereClause = V>,
    UpdateStatement<Tab, V, Changes::Changeset>: AsQuery,
    Update<Changes, Changes>: LoadQuery<'b, Self, Output>,
    V: Send + 'b,
    Changes::Changeset: Send + 'b,
    Tab::FromClause: Send,
{
    fn update_and_fetch<'conn, 'changes>(
        &'conn mut self,
        changeset: Changes,
    ) -> BoxFuture<'changes, QueryResult<Output>>
    where
        Changes: 'changes,
        'conn: 'changes,
        Self: 'changes,
    {
        async move {
            diesel::update(changeset)
                .set(changeset)
                .get_result(self)
                .await
        }
        .boxed()
    }
}

#[cfg(any(feature = "async-sqlite", feature = "async-mysql"))]
macro_rules! update_then_find {
    ($conn:ty) => {
        impl<'b, Changes, Output, Tab, V> UpdateAndFetchResults<Changes, Output>
            for AsyncShardedConnection<$conn>
        where
            Output: Send + 'static,
            Changes: Copy + AsChangeset<Target = Tab> + Identifiable<Table = Tab> + Send,
            Tab: diesel::Table + FindDsl<Changes::Id> + 'b,
            Find<Tab, Changes::Id>: IntoUpdateTarget<Table = Tab, WhereClause = V>,
            UpdateStatement<Tab, V, Changes::Changeset>: AsQuery,
            Update<Changes, Changes>: diesel_async::methods::ExecuteDsl<Self>,
            V: Send + 'b,
            Changes::Changeset: Send + 'b,
            Changes::Id: 'b,
            Tab::FromClause: Send,
            Find<Changes::Table, Changes::Id>: LoadQuery<'b, Self, Output> + Send,
        {
            fn update_and_fetch<'conn, 'changes>(
                &'conn mut self,
                changeset: Changes,
            ) -> BoxFuture<'changes, QueryResult<Output>>
            where
                Changes: 'changes,
                'conn: 'changes,
                Self: 'changes,
            {
                async move {
                    diesel::update(changeset)
                        .set(changeset)
                        .execute(self)
                        .await?;
                    FindDsl::find(Changes::table(), changeset.id())
                        .get_result(self)
                        .await
                }
                .boxed()
            }
        }
    };
}

#[cfg(feature = "async-sqlite")]
update_then_find!(
    diesel_async::sync_connection_wrapper::SyncConnectionWrapper<diesel::SqliteConnection>
);

#[cfg(feature = "async-mysql")]
update_then_find!(diesel_async::AsyncMysqlConnection);
