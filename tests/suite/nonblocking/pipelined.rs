//! Statements on a shared connection, sent one behind the other without waiting.

use diesel::prelude::*;
use diesel_async::{AsyncConnection, RunQueryDsl};
use diesel_sharded::{Error, FutureExt, RollbackReason, TableMismatchCause};

use super::tables::{assert_mismatch, fleet, keyspace};
use super::{Connection, Fleet, builder, manager};
use crate::nonblocking::{reason, spawned};
use crate::support::{items, ours, pool};

#[test]
fn statements_on_a_shared_connection_are_pipelined_and_checked() {
    let fleet = Fleet::new(&["a", "b"]);
    let shards = manager(&fleet, 1);
    spawned(async move {
        let shards = shards.await;
        shards
            .transaction_on("a", async |conn| {
                let shared = &*conn;
                let (one, two) = tokio::try_join!(
                    diesel::insert_into(items::table)
                        .values(items::id.eq(1))
                        .execute(&mut &*shared),
                    diesel::insert_into(items::table)
                        .values(items::id.eq(2))
                        .execute(&mut &*shared),
                )?;
                assert_eq!((one, two), (1, 1));
                async fn pair(mut conn: &Connection) -> QueryResult<(i64, i64)> {
                    let count = items::table.count().get_result(&mut conn);
                    let most = items::table
                        .select(items::id)
                        .order(items::id.desc())
                        .first(&mut conn);
                    tokio::try_join!(count, most)
                }
                assert_eq!(pair(shared).await?, (2, 2));
                Ok::<_, diesel::result::Error>(())
            })
            .await
            .unwrap();

        // One of two fails: the transaction is spoilt, whoever read the error.
        let ended = shards
            .transaction_on("a", async |conn| {
                let shared = &*conn;
                let same = || {
                    diesel::insert_into(items::table)
                        .values(items::id.eq(3))
                        .execute(&mut &*shared)
                };
                let answers = tokio::join!(same(), same());
                assert_eq!(answers.0, Ok(1));
                assert!(answers.1.is_err());
                Ok::<_, diesel::result::Error>(())
            })
            .await
            .unwrap_err();
        assert_eq!(reason(&ended), RollbackReason::FailedStatement);

    });
    assert_eq!(fleet.rows("a"), [1, 2]);
}


#[test]
fn a_pipelined_statement_goes_to_the_shard_of_its_route_or_nowhere() {
    let fleet = Fleet::new(&["a", "b"]);
    let shards = manager(&fleet, 1);
    spawned(async move {
        let shards = shards.await;
        let to_b = shards.route("b").unwrap();
        let by_route = async { shards.get().await }
            .with_route(shards.route("a").unwrap())
            .await
            .unwrap();
        let shared = &by_route;
        let counted = async { items::table.count().get_result::<i64>(&mut &*shared).await };
        let refused = counted.with_route(&to_b).await.unwrap_err();
        assert!(
            matches!(ours(&refused), Error::RouteMismatch { .. }),
            "{refused:?}"
        );
        let counted = items::table.count().get_result::<i64>(&mut &*shared);
        assert_eq!(counted.await, Ok(0));
        drop(by_route);

        // Asked for by name it works under any route, until a transaction is open on it.
        let mut named = shards.get_on("a").await.unwrap();
        let counted = async { items::table.count().get_result::<i64>(&mut &named).await };
        assert_eq!(counted.with_route(&to_b).await, Ok(0));
        named
            .transaction(async |conn| {
                let counted = async { items::table.count().get_result::<i64>(&mut &*conn).await };
                let refused = counted.with_route(&to_b).await.unwrap_err();
                assert!(matches!(ours(&refused), Error::RouteMismatch { .. }));
                Ok::<_, diesel::result::Error>(())
            })
            .await
            .unwrap();
    });
}

#[test]
fn a_pipelined_statement_is_not_sent_under_another_route_than_it_was_made_under() {
    let fleet = fleet();
    let shards = builder(&fleet, pool(1)).keyspace("k", keyspace()).build();
    spawned(async move {
        let shards = shards.await.unwrap();
        let keys = shards.keyspace("k").unwrap();
        let [zero, two] = [0_i64, 2].map(|key| keys.route(&key).unwrap());
        let mut conn = shards.get_on("a").await.unwrap();
        let shared = &conn;
        let add = |id: i64| {
            let row = diesel::insert_into(items::table).values(items::id.eq(id));
            row.execute(&mut &*shared)
        };
        // One of two is made under the other's route.
        let pair = async {
            let counted = items::table.count().get_result::<i64>(&mut &*shared);
            tokio::join!(add(0), counted.with_route(&two))
        };
        let (added, counted) = pair.with_route(&zero).await;
        assert_eq!(added, Ok(1));
        assert_mismatch(counted, TableMismatchCause::Statement);
        assert_mismatch(
            add(0).with_route(&zero).await,
            TableMismatchCause::Statement,
        );
        let both = async { tokio::try_join!(add(4), add(8)) };
        assert_eq!(both.with_route(&zero).await, Ok((1, 1)));
        let counted = async { items::table.count().get_result::<i64>(&mut conn).await };
        assert_eq!(counted.with_route(&zero).await, Ok(3));
    });
}
