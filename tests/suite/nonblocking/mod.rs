//! What only futures can get wrong: routes across `await`, cancelled callers, waiting tasks.
//!
//! Each file is compiled once for each backend. Everything runs in spawned tasks, so what does not
//! compile as `Send` is found here too.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use diesel_sharded::{Error, RollbackReason};

use crate::support::ours;

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

/// Why the transaction was rolled back.
pub(crate) fn reason(error: &diesel::result::Error) -> RollbackReason {
    match ours(error) {
        Error::RolledBack { reason, .. } => *reason,
        other => panic!("not rolled back: {other:?}"),
    }
}

/// Polls a future at most so many times, and drops it. Answers its output if it has ended by then.
pub(crate) async fn polled<F: Future>(times: usize, future: F) -> Option<F::Output> {
    struct Polled<F> {
        left: usize,
        future: Pin<Box<F>>,
    }

    impl<F: Future> Future for Polled<F> {
        type Output = Option<F::Output>;

        fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
            if self.left == 0 {
                return Poll::Ready(None);
            }
            self.left -= 1;
            match self.future.as_mut().poll(context) {
                Poll::Ready(output) => Poll::Ready(Some(output)),
                // Woken at once in the end, so that the drop follows the last poll directly.
                Poll::Pending => {
                    if self.left == 0 {
                        context.waker().wake_by_ref();
                    }
                    Poll::Pending
                }
            }
        }
    }

    Polled {
        left: times,
        future: Box::pin(future),
    }
    .await
}

/// Runs a future until it says that it is half-way, and drops it there.
pub(crate) async fn half_way<F: Future>(reached: tokio::sync::oneshot::Receiver<()>, future: F) {
    tokio::select! {
        _ = future => panic!("it has ended before it was half-way"),
        reached = reached => reached.expect("it says when it is half-way"),
    }
}

/// Says that a future is half-way, and stays there.
pub(crate) async fn stay<T>(reached: tokio::sync::oneshot::Sender<()>) -> T {
    reached.send(()).expect("somebody waits for it");
    std::future::pending().await
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
            use std::future::Future;

            use diesel::prelude::*;
            use diesel_async::RunQueryDsl;
            use diesel_sharded::PoolConfig;
            use diesel_sharded::nonblocking::{
                AsyncShardedConnection, AsyncShardedConnectionManager, ManagerBuilder,
            };

            pub(crate) use crate::support::$name::{Fleet, NAME};
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

            pub(crate) fn manager(
                fleet: &Fleet,
                size: u32,
            ) -> impl Future<Output = Manager> + Send + use<> {
                let build = builder(fleet, crate::support::pool(size)).build();
                async { build.await.expect("the topology is valid") }
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

            pub(crate) async fn ids(conn: &mut Connection) -> QueryResult<Vec<i64>> {
                items::table
                    .select(items::id)
                    .order(items::id)
                    .load(conn)
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
    cancelled: "cancelled.rs",
    connecting: "connecting.rs",
    outer: "outer.rs",
    macros: "macros.rs",
    reach: "reach.rs",
    runtimes: "runtimes.rs",
    statements: "statements.rs",
    surroundings: "surroundings.rs",
    tables: "tables.rs",
    transactions: "transactions.rs",
    waiting: "waiting.rs",
}

backend! {
    postgres,
    diesel_async::AsyncPgConnection,
    cancelled: "cancelled.rs",
    connecting: "connecting.rs",
    outer: "outer.rs",
    pipelined: "pipelined.rs",
    postgres_own: "postgres_own.rs",
    macros: "macros.rs",
    reach: "reach.rs",
    runtimes: "runtimes.rs",
    statements: "statements.rs",
    surroundings: "surroundings.rs",
    tables: "tables.rs",
    transactions: "transactions.rs",
    waiting: "waiting.rs",
}

backend! {
    mysql,
    diesel_async::AsyncMysqlConnection,
    cancelled: "cancelled.rs",
    connecting: "connecting.rs",
    mysql_own: "mysql_own.rs",
    outer: "outer.rs",
    macros: "macros.rs",
    reach: "reach.rs",
    runtimes: "runtimes.rs",
    statements: "statements.rs",
    surroundings: "surroundings.rs",
    tables: "tables.rs",
    transactions: "transactions.rs",
    waiting: "waiting.rs",
}
