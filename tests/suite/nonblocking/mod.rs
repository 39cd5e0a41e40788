//! What only futures can get wrong: routes across `await`, cancelled callers, waiting tasks.
//!
//! Each file is compiled once for each backend. Everything runs in spawned tasks, so what does not
//! compile as `Send` is found here too.

use std::future::Future;
use std::time::Duration;

/// Runs a future as a task of a runtime with four worker threads.
pub(crate) fn spawned<T: Send + 'static>(future: impl Future<Output = T> + Send + 'static) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(4)
        .enable_all()
        .build()
        .expect("a runtime");
    let answer = runtime.block_on(runtime.spawn(future));
    // What is still under way belongs to the test and must not outlive it.
    runtime.shutdown_timeout(Duration::from_secs(10));
    answer.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))
}

/// Looks until the answer is yes; fails after ten seconds.
pub(crate) async fn eventually(what: &str, mut answer: impl FnMut() -> bool) {
    let looked = tokio::time::timeout(Duration::from_secs(10), async {
        while !answer() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    assert!(looked.await.is_ok(), "still not after 10 s: {what}");
}

/// One backend: its types, its databases, and the files that are compiled for it.
macro_rules! backend {
    ($name:ident, $conn:ty, $($file:ident: $path:literal,)+) => {
        #[path = "."]
        mod $name {
            use diesel::prelude::*;
            use diesel_async::RunQueryDsl;
            use diesel_sharded::PoolConfig;
            use diesel_sharded::nonblocking::{
                AsyncShardedConnection, AsyncShardedConnectionManager, ManagerBuilder,
            };

            pub(crate) use crate::support::$name::Fleet;
            use crate::support::{items, whoami as whoami_table};

            pub(crate) type Conn = $conn;
            pub(crate) type Connection = AsyncShardedConnection<Conn>;
            pub(crate) type Manager = AsyncShardedConnectionManager<Conn>;

            pub(crate) fn builder(fleet: &Fleet, pool: PoolConfig) -> ManagerBuilder<Conn> {
                let mut builder = Manager::builder().pool(pool);
                for shard in fleet.shards() {
                    builder = builder.shard(shard.as_str(), fleet.url(&shard));
                }
                builder
            }

            pub(crate) async fn manager(fleet: &Fleet, size: u32) -> Manager {
                let built = builder(fleet, crate::support::pool(size)).build().await;
                built.expect("the topology is valid")
            }

            /// Which shard's database the connection talks to, says the database.
            pub(crate) async fn whoami(conn: &mut Connection) -> QueryResult<String> {
                whoami_table::table
                    .select(whoami_table::name)
                    .first(conn)
                    .await
            }

            pub(crate) async fn insert(conn: &mut Connection, id: i64) -> QueryResult<usize> {
                diesel::insert_into(items::table)
                    .values(items::id.eq(id))
                    .execute(conn)
                    .await
            }

            $(
                #[path = $path]
                mod $file;
            )+
        }
    };
}

backend! {
    sqlite,
    diesel_async::sync_connection_wrapper::SyncConnectionWrapper<diesel::SqliteConnection>,
    reach: "reach.rs",
}

backend! {
    postgres,
    diesel_async::AsyncPgConnection,
    reach: "reach.rs",
}

backend! {
    mysql,
    diesel_async::AsyncMysqlConnection,
    reach: "reach.rs",
}
