//! PostgreSQL: the silent rollback, pipelining, notifications.

use std::time::Duration;

use diesel_async::{AsyncConnection, RunQueryDsl, SimpleAsyncConnection};
use diesel_sharded::RollbackReason;
use futures_util::StreamExt;

use super::{Fleet, ids, insert, manager};
use crate::nonblocking::{reason, spawned};

#[test]
fn a_swallowed_error_is_not_a_commit() {
    let fleet = Fleet::new(&["a"]);
    let shards = manager(&fleet, 1);
    spawned(async move {
        let shards = shards.await;
        let typed = shards
            .transaction_on("a", async |conn| {
                insert(conn, 1).await?;
                let _ = insert(conn, 1).await;
                Ok::<_, diesel::result::Error>(())
            })
            .await
            .unwrap_err();
        assert_eq!(reason(&typed), RollbackReason::FailedStatement);
        let raw = shards
            .transaction_on("a", async |conn| {
                insert(conn, 1).await?;
                let _ = conn.inner()?.batch_execute("SELECT 1/0").await;
                Ok::<_, diesel::result::Error>(())
            })
            .await
            .unwrap_err();
        assert_eq!(reason(&raw), RollbackReason::FailedStatement);
        let nested = shards
            .transaction_on("a", async |conn| {
                insert(conn, 1).await?;
                let inner = conn
                    .transaction(async |conn| {
                        let _ = insert(conn, 1).await;
                        Ok::<_, diesel::result::Error>(())
                    })
                    .await
                    .unwrap_err();
                assert_eq!(reason(&inner), RollbackReason::FailedStatement);
                // The savepoint is rolled back to, so work goes on.
                insert(conn, 2).await
            })
            .await;
        assert_eq!(nested, Ok(1));
    });
    fleet.assert_nothing_open("a");
    assert_eq!(fleet.rows("a"), [1, 2]);
}

#[test]
fn a_row_read_before_the_error_behind_it_is_not_a_commit() {
    let fleet = Fleet::new(&["a"]);
    let shards = manager(&fleet, 1);
    spawned(async move {
        let shards = shards.await;
        let ended = shards
            .transaction_on("a", async |conn| {
                insert(conn, 1).await?;
                // `get_result` reads one row and leaves; the division fails far behind it.
                let first = diesel::dsl::sql::<diesel::sql_types::Integer>(
                    "SELECT 1000 / (200000 - i) FROM generate_series(1, 300000) AS s(i)",
                )
                .get_result::<i32>(conn)
                .await;
                assert_eq!(first, Ok(0));
                Ok::<_, diesel::result::Error>(())
            })
            .await
            .unwrap_err();
        assert_eq!(reason(&ended), RollbackReason::FailedStatement);
    });
    assert_eq!(fleet.rows("a"), [0; 0]);
}

#[test]
fn a_deferred_constraint_refuses_the_commit_with_its_own_error() {
    use diesel::result::{DatabaseErrorKind, Error as DieselError};

    let fleet = Fleet::new(&["a"]);
    let shards = manager(&fleet, 1);
    spawned(async move {
        let shards = shards.await;
        shards
            .get_on("a")
            .await
            .unwrap()
            .batch_execute(
                "CREATE TABLE ch (p BIGINT REFERENCES items (id) DEFERRABLE INITIALLY DEFERRED)",
            )
            .await
            .unwrap();
        // Once as it is, and once where it is doubtful before the commit.
        for more in ["SELECT 1", "SAVEPOINT x; RELEASE SAVEPOINT x"] {
            let refused = shards
                .transaction_on("a", async |conn| {
                    conn.after_commit(|| panic!("it was not committed"));
                    conn.batch_execute("INSERT INTO ch VALUES (9)").await?;
                    conn.batch_execute(more).await
                })
                .await;
            assert!(
                matches!(
                    refused,
                    Err(DieselError::DatabaseError(DatabaseErrorKind::ForeignKeyViolation, _))
                ),
                "{refused:?}"
            );
            let next = shards.transaction_on("a", async |conn| ids(conn).await).await;
            assert_eq!(next, Ok(vec![]));
        }
    });
    fleet.assert_nothing_open("a");
}

#[test]
fn notifications_come_through_the_inner_connection() {
    let fleet = Fleet::new(&["a"]);
    let shards = manager(&fleet, 2);
    spawned(async move {
        let shards = shards.await;
        let mut listener = shards.get_on("a").await.unwrap();
        listener.batch_execute("LISTEN orders").await.unwrap();
        shards
            .transaction_on("a", async |conn| {
                conn.batch_execute("NOTIFY orders, 'paid'").await
            })
            .await
            .unwrap();
        let raw = listener.inner().unwrap();
        let mut notifications = std::pin::pin!(raw.notifications_stream());
        let next = tokio::time::timeout(Duration::from_secs(10), notifications.next()).await;
        assert_eq!(next.unwrap().unwrap().unwrap().payload, "paid");
    });
}

#[test]
fn the_builder_of_a_connection_sets_its_options() {
    let fleet = Fleet::new(&["a"]);
    let shards = manager(&fleet, 1);
    spawned(async move {
        let shards = shards.await;
        let mut conn = shards.get_on("a").await.unwrap();
        let level: String = conn
            .build_transaction()
            .serializable()
            .read_only()
            .deferrable()
            .run(async |conn| {
                diesel::dsl::sql::<diesel::sql_types::Text>("SHOW transaction_isolation")
                    .get_result(conn)
                    .await
            })
            .await
            .unwrap();
        assert_eq!(level, "serializable");
        let nested = conn
            .transaction(async |conn| {
                conn.build_transaction()
                    .run(async |_| Ok::<_, diesel::result::Error>(()))
                    .await
            })
            .await;
        assert_eq!(nested, Err(diesel::result::Error::AlreadyInTransaction));
    });
}

#[test]
fn a_serialization_failure_is_run_again() {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use diesel_sharded::nonblocking::Isolation;
    use tokio::sync::Barrier;

    let fleet = Fleet::new(&["a"]);
    let shards = manager(&fleet, 2);
    let runs = spawned(async move {
        let shards = shards.await;
        let (runs, both_have_read) = (Arc::new(AtomicUsize::new(0)), Arc::new(Barrier::new(2)));
        let tasks = [1, 2].map(|id| {
            let (shards, runs) = (shards.clone(), Arc::clone(&runs));
            let barrier = Arc::clone(&both_have_read);
            tokio::spawn(async move {
                let first = AtomicUsize::new(0);
                shards
                    .transaction_builder("a")
                    .isolation(Isolation::Serializable)
                    .retries(5)
                    .run(async |conn| {
                        runs.fetch_add(1, Ordering::SeqCst);
                        let seen = ids(conn).await?.len();
                        if first.fetch_add(1, Ordering::SeqCst) == 0 {
                            barrier.wait().await;
                        }
                        insert(conn, id * 10 + i64::try_from(seen).unwrap()).await
                    })
                    .await
            })
        });
        for task in tasks {
            assert_eq!(task.await.unwrap(), Ok(1));
        }
        AtomicUsize::load(&runs, Ordering::SeqCst)
    });
    assert!(runs > 2, "both have read nothing, so one of them runs again");
    let rows = fleet.rows("a");
    assert!(rows == [10, 21] || rows == [11, 20], "{rows:?}");
}
