//! MySQL: transactions that the server ends.

use std::sync::Arc;

use diesel_async::{AsyncConnection, SimpleAsyncConnection};
use diesel_sharded::RollbackReason;
use tokio::sync::Barrier;

use super::{Fleet, insert, manager};
use crate::nonblocking::{polled, reason, spawned};

#[test]
fn a_deadlock_is_never_half_a_commit() {
    let fleet = Fleet::new(&["a"]);
    let shards = manager(&fleet, 2);
    let outcomes = spawned(async move {
        let shards = shards.await;
        shards
            .transaction_on("a", async |conn| {
                insert(conn, 1).await?;
                insert(conn, 2).await
            })
            .await
            .unwrap();
        let both_hold_one = Arc::new(Barrier::new(2));
        let tasks = [(1, 2, 10), (2, 1, 20)].map(|(first, second, extra)| {
            let (shards, barrier) = (shards.clone(), Arc::clone(&both_hold_one));
            tokio::spawn(async move {
                let touch = |id: i32| format!("UPDATE items SET note = 'x' WHERE id = {id}");
                shards
                    .transaction_on("a", async |conn| {
                        conn.batch_execute(&touch(first)).await?;
                        barrier.wait().await;
                        let caught = conn
                            .transaction(async |conn| conn.batch_execute(&touch(second)).await)
                            .await;
                        // The victim has no transaction any more; what it writes must not stand alone.
                        let _ = insert(conn, extra).await;
                        let _ = caught;
                        Ok::<_, diesel::result::Error>(())
                    })
                    .await
                    .map_err(|error| reason(&error))
            })
        });
        let [one, two] = tasks;
        [one.await.unwrap(), two.await.unwrap()]
    });
    let failed: Vec<_> = outcomes.iter().filter_map(|one| one.err()).collect();
    assert_eq!(failed, [RollbackReason::EndedByServer]);
    let rows = fleet.rows("a");
    assert_eq!(rows.len(), 3, "{rows:?}");
    fleet.assert_nothing_open("a");
}

/// What is told is true where no transaction was open.
#[test]
fn a_dropped_statement_outside_of_transactions_is_told_as_what_it_is() {
    let fleet = Fleet::new(&["a"]);
    let shards = manager(&fleet, 1);
    spawned(async move {
        let shards = shards.await;
        let mut conn = shards.get_on("a").await.unwrap();
        assert_eq!(polled(1, conn.batch_execute("SELECT SLEEP(1)")).await, None);
        let error = conn.batch_execute("SELECT 1").await.unwrap_err();
        assert_eq!(reason(&error), RollbackReason::Cancelled);
        let said = error.to_string();
        assert!(said.contains("(if one was open)"), "{said}");
        assert!(said.contains("check out another connection"), "{said}");
    });
}
