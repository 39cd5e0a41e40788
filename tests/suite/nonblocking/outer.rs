//! The manager inside an outer bb8 pool.

use diesel_async::{AsyncConnection, RunQueryDsl, SimpleAsyncConnection};
use diesel_sharded::{Error, FutureExt};

use super::{Connection, Fleet, insert, manager, whoami};
use crate::nonblocking::{half_way, spawned, stay};
use crate::support::ours;

#[test]
fn a_handle_is_bound_by_the_route_of_its_checkout() {
    let fleet = Fleet::new(&["a", "b"]);
    let shards = manager(&fleet, 1);
    spawned(async move {
        let shards = shards.await;
        let (to_a, to_b) = (shards.route("a").unwrap(), shards.route("b").unwrap());
        let pool = shards.into_pool();
        for _ in 0..3 {
            for (route, name) in [(&to_a, "a"), (&to_b, "b")] {
                let asked = async {
                    let mut conn = pool.get().await.unwrap();
                    whoami(&mut conn).await
                };
                assert_eq!(asked.with_route(route).await, Ok(name.to_owned()));
            }
        }
        // A connection of the stack stays with its shard, and refuses another one's route.
        let mut conn = async { pool.get().await.unwrap() }.with_route(&to_a).await;
        assert_eq!(whoami(&mut conn).await, Ok("a".to_owned()));
        let refused = whoami(&mut conn).with_route(&to_a).await;
        assert_eq!(refused, Ok("a".to_owned()));
        let refused = async { whoami(&mut conn).await }.with_route(&to_b).await;
        assert!(matches!(
            ours(&refused.unwrap_err()),
            Error::RouteMismatch { .. }
        ));
    });
}

#[test]
fn a_handle_without_a_route_names_no_shard_until_something_can_wait_for_one() {
    let fleet = Fleet::new(&["a", "b"]);
    let shards = manager(&fleet, 1);
    spawned(async move {
        let shards = shards.await;
        let to_b = shards.route("b").unwrap();
        let pool = shards.into_pool();
        let mut conn = pool.get().await.unwrap();
        assert_eq!(conn.shard(), None);
        let refused = whoami(&mut conn).await.unwrap_err();
        assert!(matches!(ours(&refused), Error::NoRoute { .. }), "{refused:?}");
        let bound = async {
            conn.transaction(async |conn| whoami(conn).await).await
        };
        assert_eq!(bound.with_route(&to_b).await, Ok("b".to_owned()));
        assert_eq!(conn.shard().unwrap(), "b");
        drop(conn);
        let mut conn = pool.get().await.unwrap();
        assert_eq!(conn.shard(), None, "the next checkout starts anew");
        let bound = async { conn.batch_execute("SELECT 1").await };
        bound.with_route(&to_b).await.unwrap();
    });
}

#[test]
fn a_handle_that_could_not_be_bound_says_why_at_each_statement() {
    let fleet = Fleet::new(&["a"]);
    let shards = manager(&fleet, 1);
    spawned(async move {
        let shards = shards.await;
        let to_a = shards.route("a").unwrap();
        let pool = shards.clone().into_pool();
        shards
            .transaction_on("a", async |_| {
                let mut second = async { pool.get().await.unwrap() }.with_route(&to_a).await;
                for _ in 0..2 {
                    let refused = whoami(&mut second).await.unwrap_err();
                    assert!(
                        matches!(ours(&refused), Error::AlreadyInTransaction { .. }),
                        "{refused:?}"
                    );
                }
                Ok::<_, Error>(())
            })
            .await
            .unwrap();
    });
}

#[test]
fn a_handle_that_was_dropped_half_way_leaves_nothing_open() {
    let fleet = Fleet::new(&["a"]);
    let shards = manager(&fleet, 1);
    spawned(async move {
        let shards = shards.await;
        let to_a = shards.route("a").unwrap();
        let pool = shards.into_pool();
        let (reached, is_reached) = tokio::sync::oneshot::channel();
        let dropped = async {
            let mut conn = pool.get().await.unwrap();
            let conn: &mut Connection = &mut conn;
            conn.transaction(async |conn| {
                insert(conn, 1).await?;
                stay::<Result<(), diesel::result::Error>>(reached).await
            })
            .await
        };
        half_way(is_reached, dropped.with_route(&to_a)).await;
        let next = async {
            let mut conn = pool.get().await.unwrap();
            diesel::sql_query("INSERT INTO items (id) VALUES (2)")
                .execute(&mut conn)
                .await
        };
        assert_eq!(next.with_route(&to_a).await, Ok(1));
    });
    fleet.assert_nothing_open("a");
    assert_eq!(fleet.rows("a"), [2]);
}

#[test]
fn a_test_transaction_cannot_be_opened_by_an_outer_pool() {
    let fleet = Fleet::new(&["a"]);
    let shards = manager(&fleet, 1);
    spawned(async move {
        let shards = shards.await;
        let mut handle = bb8::ManageConnection::connect(&shards).await.unwrap();
        let refused = handle.begin_test_transaction().await.unwrap_err();
        assert!(refused.to_string().contains("test_transactions()"), "{refused}");
    });
}
