//! Every way to a connection leads to the shard it names.

use diesel_sharded::{Error, KeyspaceConfig, RuleSpec};

use super::{Fleet, builder, insert, manager, whoami};
use crate::nonblocking::spawned;
use crate::support::pool;

#[test]
fn a_checkout_goes_to_the_shard_that_is_named() {
    let fleet = Fleet::new(&["a", "b"]);
    spawned(async move {
        let shards = manager(&fleet, 2).await;
        for _ in 0..3 {
            for shard in ["a", "b"] {
                let mut conn = shards.get_on(shard).await.unwrap();
                assert_eq!(whoami(&mut conn).await.unwrap(), shard);
                assert_eq!(conn.shard().unwrap(), shard);
            }
        }
        assert!(matches!(
            shards.get_on("c").await.unwrap_err(),
            Error::UnknownShard { .. }
        ));
    });
}

#[test]
fn a_checkout_without_a_name_follows_the_route() {
    let fleet = Fleet::new(&["a", "b"]);
    spawned(async move {
        let shards = manager(&fleet, 2).await;
        assert!(matches!(
            shards.get().await.unwrap_err(),
            Error::NoRoute { .. }
        ));
        let seen = shards
            .on("a", async || {
                let mut outer = whoami(&mut shards.get().await?).await?;
                let inner = shards
                    .on("b", async || {
                        tokio::task::yield_now().await;
                        Ok::<_, Error>(whoami(&mut shards.get().await?).await?)
                    })
                    .await?;
                outer += &inner;
                outer += &whoami(&mut shards.get().await?).await?;
                Ok::<_, Error>(outer)
            })
            .await;
        assert_eq!(seen.unwrap(), "aba");
    });
}

#[test]
fn a_key_leads_to_its_shard_in_every_way() {
    let fleet = Fleet::new(&["a", "b"]);
    spawned(async move {
        let shards = builder(&fleet, pool(2))
            .keyspace("k", KeyspaceConfig::new(RuleSpec::modulo(["a", "b"])))
            .build()
            .await
            .unwrap();
        let keyspace = shards.keyspace("k").unwrap();
        for (key, shard) in [(4_i64, "a"), (7, "b")] {
            assert_eq!(keyspace.locate(&key).unwrap().shard(), shard);
            assert_eq!(keyspace.resolve(&key).await.unwrap().shard(), shard);
            let mut conn = keyspace.get(&key).await.unwrap();
            assert_eq!(whoami(&mut conn).await.unwrap(), shard);
            drop(conn);
            let by_route = keyspace.on(&key, async || {
                Ok::<_, Error>(whoami(&mut shards.get().await?).await?)
            });
            assert_eq!(by_route.await.unwrap(), shard);
            let in_transaction = keyspace.transaction_for(&key, async |conn| {
                insert(conn, key).await?;
                whoami(conn).await
            });
            assert_eq!(in_transaction.await.unwrap(), shard);
            assert_eq!(fleet.rows(shard), [key]);
        }
    });
}

#[test]
fn one_connection_serves_one_caller_after_the_other() {
    let fleet = Fleet::new(&["a"]);
    spawned(async move {
        let shards = manager(&fleet, 1).await;
        for id in 0..100 {
            let mut conn = shards.get_on("a").await.unwrap();
            insert(&mut conn, id).await.unwrap();
        }
        for id in 100..200 {
            let done = shards
                .transaction_on("a", async |conn| insert(conn, id).await)
                .await;
            done.unwrap();
        }
        let status = shards.status();
        assert_eq!((status.nodes[0].connections, status.nodes[0].idle), (1, 1));
        assert_eq!(fleet.rows("a").len(), 200);
    });
}

#[test]
fn what_is_written_apart_stays_when_the_surrounding_transaction_does_not() {
    let fleet = Fleet::new(&["a", "b"]);
    spawned(async move {
        let shards = manager(&fleet, 2).await;
        let failed = shards
            .transaction_on("a", async |conn| {
                insert(conn, 1).await?;
                assert!(matches!(
                    shards.get_on("b").await.unwrap_err(),
                    Error::PinnedElsewhere { .. }
                ));
                shards
                    .independent(async || insert(&mut shards.get_on("b").await?, 2).await)
                    .await?;
                Err::<(), _>(diesel::result::Error::RollbackTransaction)
            })
            .await;
        assert_eq!(failed, Err(diesel::result::Error::RollbackTransaction));
        assert_eq!((fleet.rows("a").len(), fleet.rows("b")), (0, vec![2]));
    });
}
