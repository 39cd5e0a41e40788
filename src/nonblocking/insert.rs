//! Inserts that check whose shard the row belongs to.

use std::pin::Pin;

use diesel::associations::HasTable;
use diesel::query_builder::InsertStatement;
use diesel::{Insertable, QueryResult, Table};
use diesel_async::methods::ExecuteDsl;

use super::backend::AsyncNodeConnection;
use super::connection::AsyncShardedConnection;
use crate::key::{HasShardKey, InsertChecked};

impl<C, T, R> InsertChecked<T, R> for AsyncShardedConnection<C>
where
    C: AsyncNodeConnection,
    T: Table + HasTable<Table = T> + Send + 'static,
    R: HasShardKey + Sync,
    for<'row> &'row R: Insertable<T>,
    for<'row> InsertStatement<T, <&'row R as Insertable<T>>::Values>: ExecuteDsl<Self>,
{
    type Inserted<'call>
        = Pin<Box<dyn Future<Output = QueryResult<usize>> + Send + 'call>>
    where
        Self: 'call,
        R: 'call;

    fn insert_checked<'call>(&'call mut self, table: T, row: &'call R) -> Self::Inserted<'call> {
        Box::pin(async move {
            self.ensure_owns(R::KEYSPACE, &row.shard_key())?;
            ExecuteDsl::execute(diesel::insert_into(table).values(row), self).await
        })
    }
}
