//! Many threads at once: what shards are for, and what this crate's pools cost them.
//!
//! Two curves. Durable inserts: rows that are on the disk when the call returns, on 1, 2 and 4
//! SQLite files. Checkouts: 1 to 16 threads that take and return connections of 1, 4 and 16 shards,
//! against one plain r2d2 pool with as many connections.
//!
//! Not measured by criterion, which measures one thing after the other: a disk and a scheduler have
//! slow minutes, so here all settings take turns, and the median of the turns counts.

#[path = "../support/mod.rs"]
mod support;

use std::hint::black_box;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use diesel::connection::{LoadConnection, SimpleConnection};
use diesel::prelude::*;
use diesel::r2d2::{ConnectionManager, CustomizeConnection, Pool};
use diesel::result::Error as DieselError;
use diesel_sharded::blocking::{Keyspace, ShardedConnectionManager};
use diesel_sharded::{KeyspaceConfig, PoolConfig, RuleSpec};

use schema::rows;
use support::keys::Random;
use support::{Mode, median};

/// Names another folder for the databases, such as one on the disk that is in question.
const FOLDER: &str = "DIESEL_SHARDED_BENCH_FOLDER";

fn main() {
    let mode = Mode::of_process();
    // On the disk of the target folder: a folder for temporary files may be memory.
    let parent = std::env::var_os(FOLDER).unwrap_or_else(|| env!("CARGO_TARGET_TMPDIR").into());
    let folder = tempfile::tempdir_in(parent).expect("a folder for the databases");
    inserts(mode, folder.path());
    checkouts(mode, folder.path());
}

/// One setting of a curve: runs so many units of work in so many threads.
struct Setting<'a> {
    name: String,
    run: Box<dyn Fn(u64) + 'a>,
}

impl<'a> Setting<'a> {
    fn new(name: String, run: impl Fn(u64) + 'a) -> Self {
        Self {
            name,
            run: Box::new(run),
        }
    }

    /// Seconds for one unit.
    fn time(&self, n: u64) -> f64 {
        let start = Instant::now();
        (self.run)(n);
        start.elapsed().as_secs_f64() / n as f64
    }

    /// How many units take about this long.
    fn units(&self, span: Duration) -> u64 {
        let mut n = 8;
        loop {
            let took = self.time(n) * n as f64;
            if took > span.as_secs_f64() / 8.0 {
                return ((n as f64 * span.as_secs_f64() / took) as u64).max(1);
            }
            n *= 2;
        }
    }
}

/// All settings in turn; the median time of one unit of each, in nanoseconds, and its spread as
/// lower and upper quartile over the median.
fn in_turn(settings: &[Setting<'_>], rounds: usize, span: Duration) -> Vec<(f64, f64, f64)> {
    let units: Vec<u64> = settings.iter().map(|setting| setting.units(span)).collect();
    let mut times = vec![Vec::new(); settings.len()];
    for round in 0..rounds {
        for i in 0..settings.len() {
            // Every other round backwards, so that none always follows the same one.
            let i = if round % 2 == 0 {
                i
            } else {
                settings.len() - 1 - i
            };
            times[i].push(settings[i].time(units[i]) * 1e9);
        }
    }
    times
        .into_iter()
        .map(|mut times| {
            times.sort_by(f64::total_cmp);
            let quartiles = (times[times.len() / 4], times[times.len() * 3 / 4]);
            let middle = median(times);
            (middle, quartiles.0 / middle, quartiles.1 / middle)
        })
        .collect()
}

mod schema {
    diesel::table! {
        rows (id) {
            id -> BigInt,
            payload -> Text,
        }
    }
}

const WRITERS: usize = 4;
const PAYLOAD: &str = "2013-01-01 05:15 UA 1545 N14228 EWR IAH 227 1400";
/// What is written is on the disk before COMMIT answers.
const DURABLE: &str =
    "PRAGMA busy_timeout = 30000; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL";
const TABLE: &str = "CREATE TABLE rows (id INTEGER PRIMARY KEY, payload TEXT NOT NULL)";

fn insert<C>(conn: &mut C, id: i64) -> QueryResult<()>
where
    C: LoadConnection<Backend = diesel::sqlite::Sqlite>,
{
    diesel::insert_into(rows::table)
        .values((rows::id.eq(id), rows::payload.eq(PAYLOAD)))
        .execute(conn)
        .map(drop)
}

/// Several threads that share out `n` rows with random keys.
fn write(n: u64, seeds: &AtomicU64, insert: impl Fn(i64) -> QueryResult<()> + Sync) {
    let left = AtomicU64::new(n);
    std::thread::scope(|scope| {
        for _ in 0..WRITERS {
            scope.spawn(|| {
                let mut random = Random::new(seeds.fetch_add(1, Ordering::Relaxed) << 32);
                // One at a time, so that all threads end together.
                while left
                    .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
                        left.checked_sub(1)
                    })
                    .is_ok()
                {
                    insert(random.next() as i64).expect("a row");
                }
            });
        }
    });
}

fn keyspace(folder: &Path, shards: usize, pool: u32) -> Keyspace<SqliteConnection> {
    let names: Vec<String> = (0..shards).map(|i| format!("shard-{i}")).collect();
    let manager = names
        .iter()
        .fold(ShardedConnectionManager::builder(), |builder, name| {
            let file = folder.join(format!("{shards}-{pool}-{name}.db"));
            builder.shard(name.clone(), file.display().to_string())
        })
        .pool(
            PoolConfig::new()
                .max_size(pool)
                .connection_timeout(Duration::from_secs(60)),
        )
        .keyspace("rows", KeyspaceConfig::new(RuleSpec::hash(&names, 4096)))
        .connect_with(|node| {
            let mut conn = SqliteConnection::establish(node.url().expose())?;
            conn.batch_execute(DURABLE)
                .map_err(diesel::ConnectionError::CouldntSetupConfiguration)?;
            Ok(conn)
        })
        .build()
        .expect("a manager");
    for name in &names {
        let mut conn = manager.get_on(name).expect("a connection");
        conn.batch_execute(TABLE).expect("a table");
    }
    manager.keyspace("rows").expect("a keyspace")
}

#[derive(Debug)]
struct Durable;

impl CustomizeConnection<SqliteConnection, diesel::r2d2::Error> for Durable {
    fn on_acquire(&self, conn: &mut SqliteConnection) -> Result<(), diesel::r2d2::Error> {
        conn.batch_execute(DURABLE)
            .map_err(diesel::r2d2::Error::QueryError)
    }
}

fn plain_pool(folder: &Path, size: u32) -> Pool<ConnectionManager<SqliteConnection>> {
    let file = folder
        .join(format!("plain-{size}.db"))
        .display()
        .to_string();
    // Made by one connection, so that those of the pool do not fight for the switch to WAL.
    let mut conn = SqliteConnection::establish(&file).expect("a connection");
    conn.batch_execute(DURABLE).expect("durable");
    conn.batch_execute(TABLE).expect("a table");
    Pool::builder()
        .max_size(size)
        .connection_timeout(Duration::from_secs(60))
        .connection_customizer(Box::new(Durable))
        .build(ConnectionManager::new(file))
        .expect("a plain pool")
}

fn inserts(mode: Mode, folder: &Path) {
    let seeds = AtomicU64::new(1);
    let seeds = &seeds;
    // One connection for each file: writers queue in the pool. As many as threads: they queue in
    // SQLite, which sleeps and tries again.
    for pool in [1, WRITERS as u32] {
        let plain = plain_pool(folder, pool);
        let mut settings = vec![Setting::new("one file, plain r2d2".to_owned(), move |n| {
            write(n, seeds, |id| {
                let mut conn = plain.get().expect("a connection");
                conn.transaction(|conn| insert(conn, id))
            });
        })];
        for shards in [1, 2, 4] {
            let keyspace = keyspace(folder, shards, pool);
            settings.push(Setting::new(format!("{shards} shard(s)"), move |n| {
                write(n, seeds, |id| {
                    keyspace.transaction_for(&id, |conn| insert(conn, id))
                });
            }));
        }
        let rounds = if mode == Mode::Full { 15 } else { 3 };
        let found = in_turn(&settings, rounds, mode.span(Duration::from_millis(500)));
        if mode == Mode::Smoke {
            continue;
        }
        println!(
            "\ndurable inserts of one row, {WRITERS} threads, {pool} connection(s) for each file"
        );
        println!(
            "{:<22} {:>8} {:>18} {:>16}",
            "setting", "rows/s", "quartiles", "to 1 shard"
        );
        let one = found[1].0;
        for (setting, (time, low, high)) in settings.iter().zip(&found) {
            println!(
                "{:<22} {:>8.0} {:>8.0} .. {:>6.0} {:>16.2}",
                setting.name,
                1e9 / time,
                1e9 / (time * high),
                1e9 / (time * low),
                one / time
            );
        }
        let named = |what: &str| {
            format!("durable insert, {WRITERS} threads, {pool} connection(s) a file: {what}")
        };
        println!(
            "RATIO\t{}\t{one:.0}\t{:.0}\t{:.3}\t-",
            named("1 shard against plain r2d2"),
            found[0].0,
            one / found[0].0
        );
        for (i, shards) in [(2, 2), (3, 4)] {
            println!(
                "RATIO\t{}\t{:.0}\t{one:.0}\t{:.3}\t-",
                named(&format!("{shards} shards against 1")),
                found[i].0,
                found[i].0 / one
            );
        }
    }
}

/// Connections in all, whatever the number of shards.
const CONNECTIONS: u32 = 64;
const SHARDS: [usize; 3] = [1, 4, 16];

/// So many threads, each with its share of `n`.
fn in_threads(threads: usize, n: u64, work: impl Fn(usize, u64) + Sync) {
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let work = &work;
            scope.spawn(move || work(thread, n / threads as u64));
        }
    });
}

fn checkouts(mode: Mode, folder: &Path) {
    let plain = |check| {
        Pool::builder()
            .max_size(CONNECTIONS)
            .test_on_check_out(check)
            .build(ConnectionManager::<SqliteConnection>::new(
                folder.join("plain.db").display().to_string(),
            ))
            .expect("a plain pool")
    };
    let (checked, unchecked) = (plain(true), plain(false));
    let sharded = SHARDS.map(|count| {
        (0..count)
            .fold(
                ShardedConnectionManager::<SqliteConnection>::builder(),
                |builder, i| {
                    let file = folder.join(format!("{count}-{i}.db"));
                    builder.shard(format!("shard-{i:02}"), file.display().to_string())
                },
            )
            .pool(PoolConfig::new().max_size(CONNECTIONS / count as u32))
            .build()
            .expect("shards")
    });
    // A plain pool opens its connections at its start; these do when they are first wanted.
    for shards in &sharded {
        let open = |shard| {
            (0..CONNECTIONS as usize / shards.shards().len()).map(move |_| shards.get_on(shard))
        };
        let connections: Result<Vec<_>, _> = shards.shards().into_iter().flat_map(open).collect();
        drop(connections.expect("all connections"));
    }
    if mode != Mode::Smoke {
        println!(
            "\ncheckout and return, {CONNECTIONS} connections in all: millions a second, and the ratio to r2d2 as it is by default"
        );
        println!(
            "{:>7} {:>8} {:>16} {:>16} {:>16} {:>16}",
            "threads", "r2d2", "r2d2, no check", "1 shard", "4 shards", "16 shards"
        );
    }
    for threads in [1, 2, 4, 8, 16] {
        let mut settings = Vec::new();
        for pool in [&checked, &unchecked] {
            settings.push(Setting::new(String::new(), move |n| {
                in_threads(threads, n, |_, n| {
                    for _ in 0..n {
                        drop(black_box(pool.get().expect("a connection")));
                    }
                });
            }));
        }
        for shards in &sharded {
            let routes: Vec<_> = shards
                .shards()
                .iter()
                .map(|shard| shards.route(shard).expect("a route"))
                .collect();
            settings.push(Setting::new(String::new(), move |n| {
                in_threads(threads, n, |thread, n| {
                    for i in 0..n as usize {
                        let route = &routes[(thread + i) % routes.len()];
                        let done = route.run(|| {
                            drop(black_box(shards.get()?));
                            Ok::<_, DieselError>(())
                        });
                        done.expect("a connection");
                    }
                });
            }));
        }
        let rounds = if mode == Mode::Full { 15 } else { 3 };
        let found = in_turn(&settings, rounds, mode.span(Duration::from_millis(100)));
        if mode == Mode::Smoke {
            continue;
        }
        let base = found[0].0;
        print!("{threads:>7} {:>8.2}", 1e3 / base);
        for (time, ..) in &found[1..] {
            print!(" {:>9.2} ({:>4.2})", 1e3 / time, base / time);
        }
        println!();
    }
}
