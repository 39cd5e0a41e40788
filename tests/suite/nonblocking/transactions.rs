//! Transactions: the outcome, the pin, what follows a commit.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use diesel_async::{AsyncConnection, SimpleAsyncConnection};
use diesel_sharded::nonblocking::Outcome;
use diesel_sharded::{Error, RollbackReason};
use futures_util::FutureExt;
use tokio::sync::oneshot;

use super::{Fleet, ids, insert, manager, whoami};
use crate::nonblocking::{half_way, reason, spawned, stay};

#[test]
fn ok_is_committed_and_an_error_or_a_panic_is_not() {
    let fleet = Fleet::new(&["a", "b"]);
    let shards = manager(&fleet, 1);
    spawned(async move {
        let shards = shards.await;
        let home = shards
            .transaction_on("b", async |conn| {
                insert(conn, 1).await?;
                whoami(conn).await
            })
            .await;
        assert_eq!(home, Ok("b".to_owned()));

        let refused = shards
            .transaction_on("b", async |conn| {
                insert(conn, 2).await?;
                Err::<(), _>(diesel::result::Error::NotFound)
            })
            .await;
        assert_eq!(refused, Err(diesel::result::Error::NotFound));

        let panicking = shards.transaction_on("b", async |conn| {
            insert(conn, 3).await?;
            if insert(conn, 4).await? == 1 {
                panic!("on purpose");
            }
            Ok::<_, Error>(())
        });
        let panic = AssertUnwindSafe(panicking).catch_unwind().await;
        let text = *panic.unwrap_err().downcast::<&str>().unwrap();
        assert_eq!(text, "on purpose");

        let mut conn = shards.get_on("b").await.unwrap();
        assert_eq!(ids(&mut conn).await, Ok(vec![1]));
    });
    fleet.assert_nothing_open("b");
    assert_eq!(fleet.rows("b"), [1]);
    assert_eq!(fleet.rows("a"), [0; 0]);
}

#[test]
fn a_savepoint_takes_back_its_own_and_nothing_else() {
    let fleet = Fleet::new(&["a"]);
    let shards = manager(&fleet, 1);
    spawned(async move {
        let shards = shards.await;
        shards
            .transaction_on("a", async |conn| {
                insert(conn, 1).await?;
                let inner = conn
                    .transaction(async |conn| {
                        insert(conn, 2).await?;
                        // Fails, so on PostgreSQL the transaction is spoilt up to the savepoint.
                        insert(conn, 1).await?;
                        Ok::<_, Error>(())
                    })
                    .await;
                assert!(inner.is_err());
                conn.transaction(async |conn| insert(conn, 3).await).await?;
                Ok::<_, Error>(())
            })
            .await
            .unwrap();
    });
    assert_eq!(fleet.rows("a"), [1, 3]);
}

#[test]
fn a_panic_caught_around_a_savepoint_takes_back_the_savepoint_alone() {
    let fleet = Fleet::new(&["a"]);
    let shards = manager(&fleet, 1);
    spawned(async move {
        let shards = shards.await;
        shards
            .transaction_on("a", async |conn| {
                insert(conn, 1).await?;
                let panicking = conn.transaction(async |conn| {
                    if insert(conn, 2).await? == 1 {
                        panic!("on purpose");
                    }
                    Ok::<_, Error>(())
                });
                assert!(AssertUnwindSafe(panicking).catch_unwind().await.is_err());
                insert(conn, 3).await
            })
            .await
            .unwrap();
    });
    assert_eq!(fleet.rows("a"), [1, 3]);
}

#[test]
fn a_scope_is_pinned_for_futures_too() {
    let fleet = Fleet::new(&["a", "b"]);
    let shards = manager(&fleet, 1);
    spawned(async move {
        let shards = shards.await;
        let inner = shards.clone();
        shards
            .transaction_on("a", async |conn| {
                insert(conn, 1).await?;
                let same = inner.get_on("a").await.unwrap_err();
                assert!(matches!(same, Error::AlreadyInTransaction { .. }), "{same:?}");
                let other = inner.get_on("b").await.unwrap_err();
                assert!(matches!(other, Error::PinnedElsewhere { .. }), "{other:?}");
                let nested = inner
                    .transaction_on("a", async |_| Ok::<_, Error>(()))
                    .await
                    .unwrap_err();
                assert!(matches!(nested, Error::AlreadyInTransaction { .. }), "{nested:?}");
                // A spawned task is another scope; its own pool slot it has to wait for.
                let spawned = tokio::spawn({
                    let inner = inner.clone();
                    async move { whoami(&mut inner.get_on("b").await?).await.map_err(Error::from) }
                });
                assert_eq!(spawned.await.unwrap().unwrap(), "b");
                Ok::<_, Error>(())
            })
            .await
            .unwrap();
        assert_eq!(whoami(&mut shards.get_on("b").await.unwrap()).await, Ok("b".to_owned()));
    });
    assert_eq!(fleet.rows("a"), [1]);
}

#[test]
fn rolling_back_without_an_error_is_an_outcome() {
    let fleet = Fleet::new(&["a"]);
    let shards = manager(&fleet, 1);
    spawned(async move {
        let shards = shards.await;
        let counted = shards
            .transaction_builder("a")
            .run_outcome(async |conn| {
                insert(conn, 1).await?;
                Ok::<_, Error>(Outcome::Rollback(ids(conn).await?.len()))
            })
            .await;
        assert_eq!(counted.unwrap(), 1);
    });
    assert_eq!(fleet.rows("a"), [0; 0]);
}

#[test]
fn hooks_run_after_a_commit_and_only_then() {
    let fleet = Fleet::new(&["a"]);
    let shards = manager(&fleet, 1);
    let ran = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&ran);
    spawned(async move {
        let shards = shards.await;
        let hook = |by: usize| {
            let ran = Arc::clone(&counted);
            move || {
                ran.fetch_add(by, Ordering::SeqCst);
            }
        };
        let (one, ten, hundred, thousand) = (hook(1), hook(10), hook(100), hook(1000));
        shards
            .transaction_on("a", async |conn| {
                conn.after_commit(one);
                let rolled_back = conn
                    .transaction(async |conn| {
                        conn.after_commit(ten);
                        Err::<(), _>(diesel::result::Error::RollbackTransaction)
                    })
                    .await;
                assert!(rolled_back.is_err());
                conn.after_commit(|| panic!("a hook that panics goes no further"));
                Ok::<_, Error>(())
            })
            .await
            .unwrap();
        let refused = shards
            .transaction_on("a", async |conn| {
                conn.after_commit(hundred);
                Err::<(), _>(diesel::result::Error::NotFound)
            })
            .await;
        assert!(refused.is_err());
        let (reached, is_reached) = oneshot::channel();
        let dropped = shards.transaction_on("a", async |conn| {
            conn.after_commit(thousand);
            stay::<Result<(), Error>>(reached).await
        });
        half_way(is_reached, dropped).await;
    });
    assert_eq!(ran.load(Ordering::SeqCst), 1);
}

#[test]
fn a_read_only_transaction_refuses_writes_and_the_next_one_does_not() {
    let fleet = Fleet::new(&["a"]);
    let shards = manager(&fleet, 1);
    spawned(async move {
        let shards = shards.await;
        let refused = shards
            .transaction_builder("a")
            .read_only()
            .run(async |conn| insert(conn, 1).await)
            .await;
        assert!(refused.is_err(), "{refused:?}");
        let (reached, is_reached) = oneshot::channel();
        let dropped = shards
            .transaction_builder("a")
            .read_only()
            .run(async |conn| {
                ids(conn).await?;
                stay::<Result<(), Error>>(reached).await
            });
        half_way(is_reached, dropped).await;
        shards
            .transaction_on("a", async |conn| insert(conn, 2).await)
            .await
            .unwrap();
    });
    assert_eq!(fleet.rows("a"), [2]);
}

#[test]
fn a_commit_by_hand_is_not_reported_as_ours() {
    let fleet = Fleet::new(&["a"]);
    let shards = manager(&fleet, 1);
    spawned(async move {
        let shards = shards.await;
        for by_hand in ["COMMIT", "ROLLBACK"] {
            let ended = shards
                .transaction_on("a", async |conn| {
                    ids(conn).await?;
                    conn.batch_execute(by_hand).await?;
                    // Whether it is refused depends on who notices; that the call fails does not.
                    let _ = insert(conn, 1).await;
                    Ok::<_, diesel::result::Error>(())
                })
                .await
                .unwrap_err();
            assert_eq!(reason(&ended), RollbackReason::EndedByHand);
        }
        shards
            .transaction_on("a", async |conn| insert(conn, 2).await)
            .await
            .unwrap();
    });
    fleet.assert_nothing_open("a");
    assert!(fleet.rows("a").contains(&2));
}

#[test]
fn a_begin_by_hand_does_not_reach_the_next_user() {
    let fleet = Fleet::new(&["a"]);
    let shards = manager(&fleet, 1);
    spawned(async move {
        let shards = shards.await;
        for (text, id) in [("BEGIN", 1), ("/* no */ begin", 3), ("SELECT 1; BEGIN", 5)] {
            let mut conn = shards.get_on("a").await.unwrap();
            conn.batch_execute(text).await.unwrap();
            insert(&mut conn, id).await.unwrap();
            drop(conn);
            let mut conn = shards.get_on("a").await.unwrap();
            insert(&mut conn, id + 1).await.unwrap();
        }
        let mut conn = shards.get_on("a").await.unwrap();
        diesel_async::RunQueryDsl::execute(diesel::sql_query("BEGIN"), &mut conn)
            .await
            .unwrap();
        drop(conn);
        insert(&mut shards.get_on("a").await.unwrap(), 7).await.unwrap();
    });
    fleet.assert_nothing_open("a");
    assert_eq!(fleet.rows("a"), [2, 4, 6, 7]);
}

#[test]
fn a_scope_cannot_be_ended_from_inside() {
    use diesel_async::TransactionManager as _;
    type Tm = <super::Connection as AsyncConnection>::TransactionManager;

    let fleet = Fleet::new(&["a"]);
    let shards = manager(&fleet, 1);
    spawned(async move {
        let shards = shards.await;
        let ended = shards
            .transaction_on("a", async |conn| {
                insert(conn, 1).await?;
                assert!(Tm::commit_transaction(conn).await.is_err());
                Ok::<_, diesel::result::Error>(())
            })
            .await
            .unwrap_err();
        assert_eq!(reason(&ended), RollbackReason::Unbalanced);
        let left_open = shards
            .transaction_on("a", async |conn| {
                insert(conn, 2).await?;
                Tm::begin_transaction(conn).await
            })
            .await
            .unwrap_err();
        assert_eq!(reason(&left_open), RollbackReason::Unbalanced);
    });
    fleet.assert_nothing_open("a");
    assert_eq!(fleet.rows("a"), [0; 0]);
}

#[test]
fn a_retried_transaction_runs_a_fresh_clone_of_its_closure() {
    let fleet = Fleet::new(&["a"]);
    let shards = manager(&fleet, 1);
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&runs);
    spawned(async move {
        let shards = shards.await;
        let text = String::from("moved in");
        let answer = shards
            .transaction_builder("a")
            .retries(3)
            .run(async move |conn| {
                counted.fetch_add(1, Ordering::SeqCst);
                insert(conn, 1).await?;
                Ok::<_, Error>(text)
            })
            .await;
        assert_eq!(answer.unwrap(), "moved in");
    });
    assert_eq!(runs.load(Ordering::SeqCst), 1);
    assert_eq!(fleet.rows("a"), [1]);
}
