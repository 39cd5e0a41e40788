//! What a task pays for a checkout, and how long ten thousand of them wait.
//!
//! The counterpart is a plain bb8 pool of diesel-async, in the same run and the same runtime. Both
//! sides of a comparison run on a runtime of one thread, so that no wake-up crosses threads.

#[path = "../hot_paths/compare.rs"]
#[expect(dead_code, reason = "the other benchmarks measure things alone")]
mod compare;
#[path = "../support/mod.rs"]
#[expect(dead_code, reason = "the other benchmarks need keys")]
mod support;

use std::hint::black_box;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use diesel::prelude::*;
use diesel_async::pooled_connection::{AsyncDieselConnectionManager, bb8::Pool};
use diesel_async::sync_connection_wrapper::SyncConnectionWrapper;
use diesel_async::{AsyncConnection, AsyncPgConnection, RunQueryDsl};
use diesel_sharded::nonblocking::AsyncShardedConnectionManager;
use diesel_sharded::{FutureExt, PoolConfig};
use tokio::runtime::Runtime;

use compare::Work;
use support::Mode;

type Sqlite = SyncConnectionWrapper<SqliteConnection>;
type Sharded<C> = AsyncShardedConnectionManager<C>;

/// Set by `scripts/servers`: a PostgreSQL server over its unix socket.
const PG_SOCKET: &str = "DIESEL_SHARDED_TEST_PG_SOCKET";
/// The same: servers over TCP.
const PG: &str = "DIESEL_SHARDED_TEST_PG";
const SPAN: Duration = Duration::from_secs(3);

fn main() {
    let mode = Mode::of_process();
    let runtime = Rc::new(
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime"),
    );
    if let Ok(url) = std::env::var(PG_SOCKET) {
        on_postgres(mode, &runtime, &url);
        pipelined(mode, &runtime, "a unix socket", &url);
        // One or two URLs.
        let urls = std::env::var(PG).unwrap_or_default();
        if let Some(url) = urls.split([' ', ',']).find(|url| !url.is_empty()) {
            pipelined(mode, &runtime, "TCP", url);
        }
    } else if mode != Mode::Smoke {
        println!("{PG_SOCKET} is not set: nothing is measured on PostgreSQL");
    }
    polls(mode, &runtime);
    many_tasks(mode);
}

fn compared(mode: Mode, name: &str, bar: &str, mut ours: Work, mut theirs: Work) {
    let found = compare::compare(&mut ours, &mut theirs, mode.span(SPAN));
    if mode != Mode::Smoke {
        compare::report(name, found, bar);
    }
}

fn on_postgres(mode: Mode, runtime: &Rc<Runtime>, url: &str) {
    let sharded = || {
        runtime.block_on(async {
            let shards = Sharded::<AsyncPgConnection>::builder()
                .shard("a", url)
                .shard("b", format!("{url}?application_name=b"))
                .shared_database(true)
                .build()
                .await
                .expect("the topology is valid");
            shards.get_on("a").await.expect("a connection");
            shards
        })
    };
    let plain = |check: bool| {
        runtime.block_on(async {
            let manager = AsyncDieselConnectionManager::<AsyncPgConnection>::new(url);
            let pool = Pool::builder().test_on_check_out(check).build(manager);
            let pool = pool.await.expect("a pool");
            drop(pool.get().await.expect("a connection"));
            pool
        })
    };
    let get = |shards: Sharded<AsyncPgConnection>| {
        let runtime = Rc::clone(runtime);
        Work::new(move |n| {
            runtime.block_on(async {
                for _ in 0..n {
                    drop(shards.get_on("a").await.expect("a connection"));
                }
            });
        })
    };
    let get_plain = |pool: Pool<AsyncPgConnection>| {
        let runtime = Rc::clone(runtime);
        Work::new(move |n| {
            runtime.block_on(async {
                for _ in 0..n {
                    drop(pool.get().await.expect("a connection"));
                }
            });
        })
    };
    compared(
        mode,
        "nonblocking get and drop, PostgreSQL, against bb8 as it is by default",
        "0.05",
        get(sharded()),
        get_plain(plain(true)),
    );
    compared(
        mode,
        "nonblocking get and drop, PostgreSQL, against bb8 without its check",
        "1.2",
        get(sharded()),
        get_plain(plain(false)),
    );
    let (shards, pool) = (sharded(), plain(true));
    let (in_ours, in_theirs) = (Rc::clone(runtime), Rc::clone(runtime));
    compared(
        mode,
        "nonblocking checkout and one query, PostgreSQL, against bb8 as it is by default",
        "0.85",
        Work::new(move |n| {
            in_ours.block_on(async {
                for _ in 0..n {
                    let mut conn = shards.get_on("a").await.expect("a connection");
                    let one = diesel::select(1_i32.into_sql::<diesel::sql_types::Integer>());
                    one.get_result::<i32>(&mut conn).await.expect("one");
                }
            });
        }),
        Work::new(move |n| {
            in_theirs.block_on(async {
                for _ in 0..n {
                    let mut conn = pool.get().await.expect("a connection");
                    let one = diesel::select(1_i32.into_sql::<diesel::sql_types::Integer>());
                    one.get_result::<i32>(&mut conn).await.expect("one");
                }
            });
        }),
    );
}

/// Two queries that are sent before the first answer is there, and one alone, on one connection; with
/// this crate and without it.
fn pipelined(mode: Mode, runtime: &Rc<Runtime>, over: &str, url: &str) {
    macro_rules! one {
        ($conn:expr) => {
            diesel::select(1_i32.into_sql::<diesel::sql_types::Integer>())
                .get_result::<i32>(&mut &*$conn)
        };
    }
    macro_rules! works {
        ($connection:expr) => {{
            let (in_pairs, alone) = ($connection, $connection);
            let (of_pairs, of_one) = (Rc::clone(runtime), Rc::clone(runtime));
            let pairs = Work::new(move |n| {
                of_pairs.block_on(async {
                    for _ in 0..n {
                        let pair = tokio::try_join!(one!(&in_pairs), one!(&in_pairs));
                        black_box(pair.expect("two answers"));
                    }
                });
            });
            let single = Work::new(move |n| {
                of_one.block_on(async {
                    for _ in 0..n {
                        black_box(one!(&alone).await.expect("an answer"));
                    }
                });
            });
            (pairs, single)
        }};
    }

    let (pairs, single) = works!(runtime.block_on(async {
        let shards = Sharded::<AsyncPgConnection>::builder().shard("a", url);
        let shards = shards.build().await.expect("the topology is valid");
        shards.get_on("a").await.expect("a connection")
    }));
    compared(
        mode,
        &format!("a pipelined pair of queries, PostgreSQL over {over}, against one query"),
        "1.4",
        pairs,
        single,
    );
    let (pairs, single) = works!(runtime.block_on(async {
        AsyncPgConnection::establish(url)
            .await
            .expect("a connection")
    }));
    compared(
        mode,
        &format!("the same on a connection of diesel-async, over {over}"),
        "-",
        pairs,
        single,
    );
}

/// A future that is polled many times, under a route and under none.
fn polls(mode: Mode, runtime: &Rc<Runtime>) {
    /// Ready after so many polls.
    struct Polls(u64);

    impl Future for Polls {
        type Output = ();

        fn poll(
            mut self: std::pin::Pin<&mut Self>,
            cx: &mut std::task::Context<'_>,
        ) -> std::task::Poll<()> {
            if self.0 == 0 {
                return std::task::Poll::Ready(());
            }
            self.0 -= 1;
            cx.waker().wake_by_ref();
            std::task::Poll::Pending
        }
    }

    let folder = tempfile::tempdir().expect("a temporary folder");
    let shards = runtime.block_on(sqlite(folder.path(), 1, 1));
    let route = shards.route("s0").expect("a route");
    let (in_ours, in_theirs) = (Rc::clone(runtime), Rc::clone(runtime));
    let mut ours = Work::new(move |n| in_ours.block_on(Polls(n).with_route(&route)));
    let mut theirs = Work::new(move |n| in_theirs.block_on(Polls(n)));
    let found = compare::compare(&mut ours, &mut theirs, mode.span(SPAN));
    if mode != Mode::Smoke {
        compare::report_alone(
            "poll of a routed future, over the same future unrouted",
            found.ours - found.theirs,
            "50 ns",
        );
    }
}

async fn sqlite(folder: &std::path::Path, shards: usize, size: u32) -> Sharded<Sqlite> {
    let pool = PoolConfig::new()
        .max_size(size)
        .connection_timeout(Duration::from_secs(120));
    let mut builder = Sharded::<Sqlite>::builder().pool(pool);
    for index in 0..shards {
        let file = folder.join(format!("s{index}.db")).display().to_string();
        builder = builder.shard(format!("s{index}"), file);
    }
    builder.build().await.expect("the topology is valid")
}

/// Ten thousand tasks on four shards with pools of four, each with one query: how long a task waits
/// for its connection. bb8's own pools serve the same load beside it.
fn many_tasks(mode: Mode) {
    const TASKS: usize = 10_000;
    const SHARDS: usize = 4;
    const SIZE: u32 = 4;

    let tasks = if mode == Mode::Smoke { 100 } else { TASKS };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(4)
        .enable_all()
        .build()
        .expect("a runtime");
    let ours = runtime.block_on(async {
        let shards = Arc::new(sqlite(folder.path(), SHARDS, SIZE).await);
        waits(tasks, move |index| {
            let shards = Arc::clone(&shards);
            async move {
                let asked = Instant::now();
                let shard = format!("s{}", index % SHARDS);
                let mut conn = shards.get_on(shard).await.expect("a connection");
                let waited = asked.elapsed();
                one(&mut conn).await;
                waited
            }
        })
        .await
    });
    let theirs = runtime.block_on(async {
        let mut pools = Vec::new();
        for index in 0..SHARDS {
            let file = folder.path().join(format!("s{index}.db"));
            let manager = AsyncDieselConnectionManager::<Sqlite>::new(file.display().to_string());
            let pool = Pool::builder()
                .max_size(SIZE)
                .connection_timeout(Duration::from_secs(120));
            pools.push(pool.build(manager).await.expect("a pool"));
        }
        waits(tasks, move |index| {
            let pool = pools[index % SHARDS].clone();
            async move {
                let asked = Instant::now();
                let mut conn = pool.get().await.expect("a connection");
                let waited = asked.elapsed();
                one(&mut *conn).await;
                waited
            }
        })
        .await
    });
    if mode != Mode::Smoke {
        for (name, (p50, p99, longest)) in [("diesel-sharded", ours), ("bb8", theirs)] {
            println!(
                "{tasks} tasks, {SHARDS} shards with pools of {SIZE}, {name}: \
                 wait p50 {p50:?}, p99 {p99:?}, longest {longest:?}"
            );
        }
    }
}

async fn one<C>(conn: &mut C)
where
    C: diesel_async::AsyncConnection<Backend = diesel::sqlite::Sqlite>,
{
    let one = diesel::select(1_i32.into_sql::<diesel::sql_types::Integer>());
    one.get_result::<i32>(conn).await.expect("one");
}

/// The median, the 99th percentile and the maximum of what all tasks have waited.
async fn waits<F: Future<Output = Duration> + Send + 'static>(
    tasks: usize,
    task: impl Fn(usize) -> F,
) -> (Duration, Duration, Duration) {
    let tasks: Vec<_> = (0..tasks).map(|index| tokio::spawn(task(index))).collect();
    let mut waited = Vec::with_capacity(tasks.len());
    for task in tasks {
        waited.push(task.await.expect("no task fails"));
    }
    waited.sort();
    let at = |share: f64| waited[((waited.len() - 1) as f64 * share) as usize];
    (at(0.5), at(0.99), at(1.0))
}
