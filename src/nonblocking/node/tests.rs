//! The connection that came back last, and what bb8 is told of it.

use std::time::Duration;

use diesel::SqliteConnection;
use diesel_async::sync_connection_wrapper::SyncConnectionWrapper;

use super::pool::LOOK_EVERY;
use crate::driver::node_set::PoolNode;
use crate::nonblocking::AsyncShardedConnectionManager;
use crate::topology::PoolConfig;

type Shards = AsyncShardedConnectionManager<SyncConnectionWrapper<SqliteConnection>>;

async fn shards(pool: PoolConfig) -> (tempfile::TempDir, Shards) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("a.db").display().to_string();
    let shards = Shards::builder().pool(pool).shard("a", file).build().await;
    (folder, shards.expect("a manager"))
}

/// What the node counts, and how many idle connections bb8 counts.
fn counts(shards: &Shards) -> ((u32, u32), u32) {
    let nodes = shards.nodes().expect("nodes");
    let (node, _) = nodes.pools().next().expect("a node");
    let of_bb8 = node
        .shared
        .built()
        .expect("a pool")
        .pool
        .state()
        .idle_connections;
    (node.counts(), of_bb8)
}

#[tokio::test(start_paused = true)]
async fn what_lies_idle_goes_to_bb8_which_closes_it_in_its_time() {
    let (_folder, shards) = shards(PoolConfig::new()).await;
    let (one, two) = (shards.get_on("a").await, shards.get_on("a").await);
    drop(one.expect("one"));
    assert_eq!(counts(&shards), ((2, 1), 0));
    drop(two.expect("another"));
    assert_eq!(
        counts(&shards),
        ((2, 2), 1),
        "one is kept, the other is bb8's"
    );

    // Looked at twice without being used: bb8 gets it.
    tokio::time::sleep(LOOK_EVERY * 2 + Duration::from_millis(1)).await;
    assert_eq!(counts(&shards), ((2, 2), 2));

    // In use between two looks, it stays.
    for _ in 0..4 {
        drop(shards.get_on("a").await.expect("a connection"));
        assert_eq!(counts(&shards), ((2, 2), 1));
        tokio::time::sleep(LOOK_EVERY).await;
        assert_eq!(counts(&shards), ((2, 2), 1));
    }
}

#[tokio::test]
async fn what_has_outlived_its_lifetime_is_closed_as_it_comes_back() {
    let most = Duration::from_millis(1);
    let (_folder, shards) = shards(PoolConfig::new().max_lifetime(Some(most))).await;
    let old = shards.get_on("a").await.expect("a connection");
    tokio::time::sleep(most * 2).await;
    drop(old);
    assert_eq!(counts(&shards).0.1, 1, "its age is that of its checkout");
    drop(shards.get_on("a").await.expect("a connection"));
    assert_eq!(counts(&shards), ((0, 0), 0));
}

#[tokio::test]
async fn a_pool_out_of_service_keeps_nothing() {
    let (_folder, shards) = shards(PoolConfig::new()).await;
    drop(shards.get_on("a").await.expect("a connection"));
    let held = shards.get_on("a").await.expect("a connection");
    let nodes = shards.nodes().expect("nodes");
    let (node, _) = nodes.pools().next().expect("a node");
    node.retire();
    drop(held);
    assert_eq!(counts(&shards), ((0, 0), 0));
}
