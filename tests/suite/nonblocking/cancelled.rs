//! Futures that are dropped half-way.

use diesel_async::{AsyncConnection, RunQueryDsl, SimpleAsyncConnection};
use diesel_sharded::{Error, RollbackReason};
use tokio::sync::oneshot;

use super::{Fleet, NAME, ids, insert, manager};
use crate::nonblocking::{half_way, polled, reason, spawned, stay};

/// Whatever the poll it is dropped after (the connect, the `BEGIN`, the insert, the `COMMIT` are all
/// among them), the next user's autocommit is seen by everybody, and nothing is left open.
#[test]
fn a_transaction_dropped_at_any_await_leaves_nothing_open() {
    let fleet = Fleet::new(&["a"]);
    let shards = manager(&fleet, 1);
    let fleet = spawned(async move {
        let shards = shards.await;
        let mut ended = 0;
        for k in 1..=60_i64 {
            let half_way = shards.transaction_on("a", async |conn| {
                insert(conn, -k).await?;
                tokio::task::yield_now().await;
                conn.transaction(async |conn| ids(conn).await).await?;
                conn.batch_execute("SELECT 1").await?;
                Ok::<_, Error>(())
            });
            let done = polled(usize::try_from(k).unwrap(), half_way).await;
            insert(&mut shards.get_on("a").await.unwrap(), k)
                .await
                .unwrap();
            let rows = fleet.rows("a");
            assert!(rows.contains(&k), "after {k} polls the next insert is lost");
            if let Some(done) = done {
                done.unwrap();
                ended += 1;
                assert!(rows.contains(&-k), "a commit that was answered is not there");
            }
        }
        assert!(ended > 0, "60 polls are enough for some to end");
        assert!(ended < 60, "some are dropped");
        fleet
    });
    fleet.assert_nothing_open("a");
}

/// The same with a connection that is there already, so that the polls fall on statements.
#[test]
fn a_transaction_on_a_held_connection_is_rolled_back_when_dropped() {
    let fleet = Fleet::new(&["a"]);
    let shards = manager(&fleet, 1);
    let fleet = spawned(async move {
        let shards = shards.await;
        for k in 1..=30_i64 {
            let mut conn = shards.get_on("a").await.unwrap();
            let half_way = conn.transaction(async |conn| {
                insert(conn, -k).await?;
                insert(conn, -k - 1000).await?;
                Ok::<_, Error>(())
            });
            let done = polled(usize::try_from(k).unwrap(), half_way).await;
            let next = insert(&mut conn, k).await;
            if done.is_some() {
                assert_eq!(next, Ok(1));
            } else if let Err(error) = next {
                // Dropped in the middle of the transaction: what follows on this handle is refused,
                // because it would be part of what is rolled back.
                assert_eq!(reason(&error), RollbackReason::Cancelled);
            }
            drop(conn);
            insert(&mut shards.get_on("a").await.unwrap(), k + 100)
                .await
                .unwrap();
            let rows = fleet.rows("a");
            let (first, second) = (rows.contains(&-k), rows.contains(&(-k - 1000)));
            assert!(rows.contains(&(k + 100)), "after {k} polls the next insert is lost");
            assert_eq!(first, second, "half of a transaction is there");
        }
        fleet
    });
    fleet.assert_nothing_open("a");
}

#[test]
fn a_nested_transaction_dropped_half_way_ends_the_outer_one() {
    let fleet = Fleet::new(&["a"]);
    let shards = manager(&fleet, 1);
    spawned(async move {
        let shards = shards.await;
        let ended = shards
            .transaction_on("a", async |conn| {
                insert(conn, 1).await?;
                let (reached, is_reached) = oneshot::channel();
                let nested = conn.transaction(async |conn| {
                    insert(conn, 2).await?;
                    stay::<Result<(), diesel::result::Error>>(reached).await
                });
                half_way(is_reached, nested).await;
                let refused = insert(conn, 3).await.unwrap_err();
                assert_eq!(reason(&refused), RollbackReason::Cancelled);
                Ok::<_, diesel::result::Error>(())
            })
            .await
            .unwrap_err();
        assert_eq!(reason(&ended), RollbackReason::Cancelled);
        insert(&mut shards.get_on("a").await.unwrap(), 4).await.unwrap();
    });
    fleet.assert_nothing_open("a");
    assert_eq!(fleet.rows("a"), [4]);
}

/// What a statement that takes a while looks like.
fn slow() -> &'static str {
    match NAME {
        "postgres" => "SELECT pg_sleep(0.3)",
        "mysql" => "SELECT SLEEP(0.3)",
        _ => {
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 600000) \
             SELECT count(*) FROM n"
        }
    }
}

/// A statement that was given up never answers in place of the next one.
#[test]
fn a_statement_dropped_half_way_does_not_answer_for_the_next() {
    let fleet = Fleet::new(&["a"]);
    let shards = manager(&fleet, 1);
    spawned(async move {
        let shards = shards.await;
        let mut conn = shards.get_on("a").await.unwrap();
        insert(&mut conn, 1).await.unwrap();
        let given_up = diesel::sql_query(slow()).execute(&mut conn);
        assert!(polled(1, given_up).await.is_none());
        match ids(&mut conn).await {
            Ok(rows) => assert_eq!(rows, [1]),
            Err(error) => {
                assert_eq!(NAME, "mysql", "{error:?}");
                assert_eq!(reason(&error), RollbackReason::Cancelled);
            }
        }
        drop(conn);
        let mut conn = shards.get_on("a").await.unwrap();
        assert_eq!(ids(&mut conn).await, Ok(vec![1]));
    });
}

/// The statement inside a transaction is given up, and the transaction goes on: PostgreSQL and SQLite
/// commit it, MySQL refuses.
#[test]
fn a_statement_dropped_inside_a_transaction_never_makes_half_of_it_a_success() {
    let fleet = Fleet::new(&["a"]);
    let shards = manager(&fleet, 1);
    let committed = spawned(async move {
        let shards = shards.await;
        let ended = shards
            .transaction_on("a", async |conn| {
                insert(conn, 1).await?;
                let given_up = diesel::sql_query(slow()).execute(conn);
                assert!(polled(1, given_up).await.is_none());
                insert(conn, 2).await?;
                Ok::<_, diesel::result::Error>(())
            })
            .await;
        if let Err(error) = &ended {
            assert_eq!(reason(error), RollbackReason::Cancelled);
        }
        ended.is_ok()
    });
    assert_eq!(committed, NAME != "mysql");
    fleet.assert_nothing_open("a");
    let all: &[i64] = if committed { &[1, 2] } else { &[] };
    assert_eq!(fleet.rows("a"), all);
}
