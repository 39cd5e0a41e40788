//! A fleet is migrated: what locks, records and reports cost over a bare loop of `diesel_migrations`, and
//! what working on several shards at a time brings.
//!
//! Not measured by criterion: one measurement makes databases and takes seconds. The sides take turns
//! on fresh databases, and the median of the turns counts.

#[expect(dead_code, reason = "the other benchmarks use all of it")]
#[path = "../support/mod.rs"]
mod support;

use std::path::Path;
use std::time::{Duration, Instant};

use diesel::connection::SimpleConnection;
use diesel::{Connection, PgConnection, SqliteConnection};
use diesel_migrations::{FileBasedMigrations, MigrationHarness};
use diesel_sharded::Topology;
use diesel_sharded::migrate::{Migrator, Options, Source};

use support::{Mode, median};

/// Names another folder for the databases, such as one on the disk that is in question.
const FOLDER: &str = "DIESEL_SHARDED_BENCH_FOLDER";
const SERVERS: &str = "DIESEL_SHARDED_TEST_PG";

fn main() {
    let mode = Mode::of_process();
    let parent = std::env::var_os(FOLDER).unwrap_or_else(|| env!("CARGO_TARGET_TMPDIR").into());
    let folder = tempfile::tempdir_in(parent).expect("a folder for the databases");
    loop_of_files(mode, folder.path());
    parallel(mode, folder.path());
}

fn report(name: &str, ours: f64, theirs: f64, bar: &str) {
    let ratio = ours / theirs;
    println!(
        "RATIO\t{name}\t{:.0}\t{:.0}\t{ratio:.3}\t{bar}",
        ours * 1e9,
        theirs * 1e9
    );
}

/// Writes so many migrations, each with a table and an index.
fn write_migrations(folder: &Path, count: usize) {
    for i in 0..count {
        let folder = folder.join(format!("2024-01-01-0000{i:02}_table_{i}"));
        std::fs::create_dir_all(&folder).expect("a folder of a migration");
        let up = format!(
            "CREATE TABLE table_{i} (id INTEGER NOT NULL PRIMARY KEY, note TEXT);\nCREATE INDEX index_{i} ON table_{i} (note);\n"
        );
        std::fs::write(folder.join("up.sql"), up).expect("a migration is written");
    }
}

fn seconds(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_secs_f64()
}

/// The most memory the process has had in use so far, in kilobytes; Linux only.
fn peak_memory() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

/// SQLite files, one after the other, against a bare loop over the same files.
fn loop_of_files(mode: Mode, folder: &Path) {
    let (shards, steps, turns) = match mode {
        Mode::Full => (256, 20, 5),
        Mode::Quick => (64, 20, 3),
        Mode::Smoke => (2, 2, 1),
    };
    let migrations = folder.join("migrations");
    write_migrations(&migrations, steps);
    let (mut ours, mut theirs, mut again, mut statuses) = (vec![], vec![], vec![], vec![]);
    for turn in 0..turns {
        let fresh = |side: &str| {
            let fresh = folder.join(format!("{side}{turn}"));
            std::fs::create_dir(&fresh).expect("a folder for a turn");
            fresh
        };
        let bare = |fresh: &Path| {
            seconds(|| {
                for i in 0..shards {
                    let file = fresh.join(format!("{i}.db")).display().to_string();
                    let mut conn = SqliteConnection::establish(&file).expect("a new file");
                    let source = FileBasedMigrations::from_path(&migrations).expect("migrations");
                    conn.run_pending_migrations(source).expect("they run");
                }
            })
        };
        let sharded = |fresh: &Path| {
            let mut builder = Topology::builder();
            for i in 0..shards {
                let file = fresh.join(format!("{i}.db")).display().to_string();
                builder = builder.shard(format!("s{i}"), file);
            }
            let topology = builder.build().expect("a topology");
            seconds(|| {
                let migrator = Migrator::builder(&topology)
                    .source(Source::folder(&migrations))
                    .build()
                    .expect("a migrator");
                let report = migrator.run(&Options::new(), &|_| {}).expect("it runs");
                assert!(report.is_success());
            });
            topology
        };
        let mut ours_once = |fresh: &Path| {
            let start = Instant::now();
            let topology = sharded(fresh);
            ours.push(start.elapsed().as_secs_f64());
            let migrator = Migrator::builder(&topology)
                .source(Source::folder(&migrations))
                .build()
                .expect("a migrator");
            statuses.push(seconds(|| {
                let status = migrator.status(&Options::new()).expect("a status");
                assert!(status.is_up_to_date());
            }));
        };
        // Whoever comes first finds another disk than who comes second.
        if turn % 2 == 0 {
            ours_once(&fresh("ours"));
            theirs.push(bare(&fresh("theirs")));
            again.push(bare(&fresh("again")));
        } else {
            theirs.push(bare(&fresh("theirs")));
            again.push(bare(&fresh("again")));
            ours_once(&fresh("ours"));
        }
        for side in ["ours", "theirs", "again"] {
            let _ = std::fs::remove_dir_all(folder.join(format!("{side}{turn}")));
        }
    }
    let (ours, theirs) = (median(ours), median(theirs));
    let name = format!("run: {shards} SQLite shards x {steps} migrations, against a bare loop");
    report(&name, ours, theirs, "<= 1.3");
    report(
        "run: the bare loop against itself (A/A)",
        median(again),
        theirs,
        "-",
    );
    let statuses = median(statuses);
    let name = format!("status of {shards} SQLite shards that are up to date");
    println!("RATIO\t{name}\t{:.0}\t-\t-\t<= 1000 ms", statuses * 1e9);
    if let Some(kilobytes) = peak_memory() {
        println!("the most memory in use so far: {kilobytes} kB");
    }
}

/// PostgreSQL databases with a migration that takes a quarter of a second, eight at a time against one.
fn parallel(mode: Mode, folder: &Path) {
    let (databases, nap) = match mode {
        Mode::Full => (16, 0.25),
        Mode::Quick => (16, 0.25),
        Mode::Smoke => (2, 0.0),
    };
    let servers = std::env::var(SERVERS).unwrap_or_default();
    let Some(admin) = servers.split([' ', ',']).find(|url| !url.is_empty()) else {
        println!(
            "{SERVERS} names no server: nothing is measured on PostgreSQL (scripts/bench starts one)"
        );
        return;
    };
    let migration = folder.join("sleep/2024-01-01-000000_sleep");
    std::fs::create_dir_all(&migration).expect("a folder of a migration");
    std::fs::write(
        migration.join("up.sql"),
        format!("SELECT pg_sleep({nap});\n"),
    )
    .expect("a migration is written");
    let mut conn = PgConnection::establish(admin).expect("the server answers");
    let name = |i: usize| format!("dsb_{}_{i}", std::process::id());
    let mut builder = Topology::builder();
    for i in 0..databases {
        let name = name(i);
        conn.batch_execute(&format!("CREATE DATABASE {name}"))
            .expect("a database");
        let (server, _) = admin.rsplit_once('/').expect("a URL with a database");
        builder = builder.shard(name.clone(), format!("{server}/{name}"));
    }
    let migrator = Migrator::builder(&builder.build().expect("a topology"))
        .source(Source::folder(folder.join("sleep")))
        .build()
        .expect("a migrator");
    let run = |threads: usize, conn: &mut PgConnection| {
        let options = Options::new().parallel(threads);
        let time = seconds(|| {
            let report = migrator.run(&options, &|_| {}).expect("it runs");
            assert!(report.is_success());
        });
        // Everything again, on databases that are as fresh as they were.
        for i in 0..databases {
            let name = name(i);
            conn.batch_execute(&format!("DROP DATABASE {name} WITH (FORCE)"))
                .expect("dropped");
            conn.batch_execute(&format!("CREATE DATABASE {name}"))
                .expect("a database");
        }
        Duration::from_secs_f64(time)
    };
    let one = run(1, &mut conn).as_secs_f64();
    let eight = run(8, &mut conn).as_secs_f64();
    let label =
        format!("run: {databases} PostgreSQL databases x {nap} s, eight at a time against one");
    report(&label, eight, one, "<= 0.2");
    for i in 0..databases {
        let _ = conn.batch_execute(&format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", name(i)));
    }
}
