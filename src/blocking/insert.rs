//! Inserts that check whose shard the row belongs to.

use diesel::QueryResult;
use diesel::associations::HasTable;
use diesel::query_builder::InsertStatement;
use diesel::query_dsl::methods::ExecuteDsl;
use diesel::{Insertable, Table};

use super::backend::NodeConnection;
use super::connection::ShardedConnection;
use crate::key::{HasShardKey, InsertChecked};

impl<C, T, R> InsertChecked<T, R> for ShardedConnection<C>
where
    C: NodeConnection,
    T: Table + HasTable<Table = T>,
    R: HasShardKey,
    for<'row> &'row R: Insertable<T>,
    for<'row> InsertStatement<T, <&'row R as Insertable<T>>::Values>: ExecuteDsl<Self>,
{
    type Inserted<'call>
        = QueryResult<usize>
    where
        Self: 'call,
        R: 'call;

    fn insert_checked<'call>(&'call mut self, table: T, row: &'call R) -> QueryResult<usize> {
        self.ensure_owns(R::KEYSPACE, &row.shard_key())?;
        ExecuteDsl::execute(diesel::insert_into(table).values(row), self)
    }
}
