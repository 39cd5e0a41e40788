//! `save_changes`: what Diesel implements for each of its connections, for ours.
//!
//! Forwarding to the physical connection would lose the table names of the route, so the statements are
//! made here.

use diesel::associations::HasTable;
use diesel::dsl::Update;
use diesel::expression::{MixedAggregates, ValidGrouping, is_aggregate};
use diesel::query_builder::{AsChangeset, IntoUpdateTarget};
use diesel::query_dsl::{LoadQuery, UpdateAndFetchResults};
use diesel::{QueryResult, RunQueryDsl, Table};

use super::ShardedConnection;

/// With `RETURNING` it is one statement.
#[cfg(feature = "postgres")]
impl<'b, Changes, Output> UpdateAndFetchResults<Changes, Output>
    for ShardedConnection<diesel::PgConnection>
where
    Changes: Copy + AsChangeset<Target = <Changes as HasTable>::Table> + IntoUpdateTarget,
    Update<Changes, Changes>: LoadQuery<'b, Self, Output>,
    <Changes::Table as Table>::AllColumns: ValidGrouping<()>,
    <<Changes::Table as Table>::AllColumns as ValidGrouping<()>>::IsAggregate:
        MixedAggregates<is_aggregate::No, Output = is_aggregate::No>,
{
    fn update_and_fetch(&mut self, changeset: Changes) -> QueryResult<Output> {
        diesel::update(changeset).set(changeset).get_result(self)
    }
}

#[cfg(any(feature = "sqlite", feature = "mysql"))]
macro_rules! update_then_find {
    ($conn:ty) => {
        impl<'b, Changes, Output> UpdateAndFetchResults<Changes, Output>
            for ShardedConnection<$conn>
        where
            Changes: Copy + diesel::associations::Identifiable,
            Changes: AsChangeset<Target = <Changes as HasTable>::Table> + IntoUpdateTarget,
            Changes::Table: diesel::query_dsl::methods::FindDsl<Changes::Id>,
            Update<Changes, Changes>: diesel::query_dsl::methods::ExecuteDsl<Self>,
            diesel::dsl::Find<Changes::Table, Changes::Id>: LoadQuery<'b, Self, Output>,
            <Changes::Table as Table>::AllColumns: ValidGrouping<()>,
            <<Changes::Table as Table>::AllColumns as ValidGrouping<()>>::IsAggregate:
                MixedAggregates<is_aggregate::No, Output = is_aggregate::No>,
        {
            fn update_and_fetch(&mut self, changeset: Changes) -> QueryResult<Output> {
                use diesel::query_dsl::methods::FindDsl;
                diesel::update(changeset).set(changeset).execute(self)?;
                FindDsl::find(Changes::table(), changeset.id()).get_result(self)
            }
        }
    };
}

#[cfg(feature = "sqlite")]
update_then_find!(diesel::SqliteConnection);

#[cfg(feature = "mysql")]
update_then_find!(diesel::MysqlConnection);
