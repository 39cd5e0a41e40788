//! What diesel-async offers, through our connection.

use diesel::prelude::*;
use diesel_async::{AsyncConnection, AsyncConnectionCore, RunQueryDsl, SaveChangesDsl};
use futures_util::TryStreamExt;

use crate::nonblocking::spawned;
use super::{Fleet, Connection, ids, insert, manager};
use crate::support::items;

#[derive(Queryable, Selectable, Identifiable, AsChangeset, Debug, PartialEq, Clone)]
#[diesel(table_name = items)]
struct Item {
    id: i64,
    note: Option<String>,
}

#[test]
fn every_way_to_load_works() {
    let fleet = Fleet::new(&["a"]);
    let shards = manager(&fleet, 1);
    spawned(async move {
        let shards = shards.await;
        let mut conn = shards.get_on("a").await.unwrap();
        for id in 1..=5 {
            insert(&mut conn, id).await.unwrap();
        }
        let first: i64 = items::table
            .select(items::id)
            .order(items::id.desc())
            .first(&mut conn)
            .await
            .unwrap();
        assert_eq!(first, 5);
        let none = items::table
            .find(99)
            .select(Item::as_select())
            .first(&mut conn)
            .await
            .optional();
        assert_eq!(none, Ok(None));
        let streamed: Vec<i64> = items::table
            .select(items::id)
            .order(items::id)
            .load_stream::<i64>(&mut conn)
            .await
            .unwrap()
            .try_collect()
            .await
            .unwrap();
        assert_eq!(streamed, [1, 2, 3, 4, 5]);
        // Boxed queries are not `Send`; the future that is made of one is.
        let mut boxed = items::table.into_boxed();
        boxed = boxed.filter(items::id.gt(3));
        let found: i64 = boxed.count().get_result(&mut conn).await.unwrap();
        assert_eq!(found, 2);
        let some: Vec<i64> = items::table
            .filter(items::id.eq_any([1, 4]))
            .select(items::id)
            .order(items::id)
            .load(&mut conn)
            .await
            .unwrap();
        assert_eq!(some, [1, 4]);
    });
}

#[test]
fn a_stream_left_before_its_end_leaves_a_connection_that_works() {
    let fleet = Fleet::new(&["a"]);
    let shards = manager(&fleet, 1);
    spawned(async move {
        let shards = shards.await;
        let mut conn = shards.get_on("a").await.unwrap();
        for id in 1..=500 {
            insert(&mut conn, id).await.unwrap();
        }
        for _ in 0..3 {
            let mut rows = items::table
                .select(items::id)
                .order(items::id)
                .load_stream::<i64>(&mut conn)
                .await
                .unwrap();
            assert_eq!(rows.try_next().await, Ok(Some(1)));
            drop(rows);
            assert_eq!(ids(&mut conn).await.unwrap().len(), 500);
        }
        drop(conn);
        assert_eq!(ids(&mut shards.get_on("a").await.unwrap()).await.unwrap().len(), 500);
    });
}

#[test]
fn save_changes_and_generic_code_work() {
    async fn generic<C>(conn: &mut C) -> QueryResult<i64>
    where
        C: AsyncConnection<Backend = <Connection as AsyncConnectionCore>::Backend>,
    {
        items::table.count().get_result(conn).await
    }

    let fleet = Fleet::new(&["a"]);
    let shards = manager(&fleet, 1);
    spawned(async move {
        let shards = shards.await;
        let mut conn = shards.get_on("a").await.unwrap();
        insert(&mut conn, 1).await.unwrap();
        let item = Item {
            id: 1,
            note: Some("changed".to_owned()),
        };
        let saved: Item = item.clone().save_changes(&mut conn).await.unwrap();
        assert_eq!(saved, item);
        assert_eq!(generic(&mut conn).await, Ok(1));
    });
}

#[test]
fn a_statement_error_is_diesels_own() {
    use diesel::result::{DatabaseErrorKind, Error as DieselError};

    let fleet = Fleet::new(&["a"]);
    let shards = manager(&fleet, 1);
    spawned(async move {
        let shards = shards.await;
        let mut conn = shards.get_on("a").await.unwrap();
        insert(&mut conn, 1).await.unwrap();
        let error = insert(&mut conn, 1).await.unwrap_err();
        assert!(matches!(
            error,
            DieselError::DatabaseError(DatabaseErrorKind::UniqueViolation, _)
        ));
    });
}
