//! What every request pays: a checkout, a statement, a route, a placement.
//!
//! Each is measured by criterion, and compared with its counterpart in alternating batches
//! (`compare.rs`); the comparisons are what `scripts/bench` puts into its table. A text
//! among the arguments selects the measurements whose name holds it.
//!
//! `--fixed NAME COUNT` runs one operation so many times and nothing else, for
//! `scripts/instructions`; `--fixed list` names the operations.

mod compare;
mod operations;
#[path = "../support/mod.rs"]
mod support;
mod tables;

use std::hint::black_box;
use std::path::Path;
use std::time::{Duration, Instant};

use criterion::Criterion;
use diesel::{PgConnection, SqliteConnection};
use diesel_sharded::KeyType;

use compare::Work;
use operations as op;
use support::{Mode, median};

/// Set by `scripts/servers`: a PostgreSQL server over its unix socket.
const PG_SOCKET: &str = "DIESEL_SHARDED_TEST_PG_SOCKET";

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    if let ["--fixed", what @ ..] = arguments.as_slice() {
        fixed(what);
        return;
    }
    let mut bench = Bench {
        mode: Mode::of_process(),
        filter: arguments
            .iter()
            .find(|argument| !argument.starts_with('-'))
            .map(|filter| (*filter).to_owned()),
        criterion: Criterion::default()
            .warm_up_time(Duration::from_millis(500))
            .measurement_time(Duration::from_secs(2))
            .configure_from_args(),
    };
    let folder = tempfile::tempdir().expect("a temporary folder");
    count_threads(&bench);
    checkouts(&mut bench, folder.path());
    statements(&mut bench);
    sharded_tables(&mut bench);
    routes(&mut bench, folder.path());
    placements(&mut bench);
    sizes(&mut bench, folder.path());
    bench.criterion.final_summary();
}

struct Bench {
    mode: Mode,
    filter: Option<String>,
    criterion: Criterion,
}

impl Bench {
    const SPAN: Duration = Duration::from_secs(3);

    fn wants(&self, name: &str) -> bool {
        self.filter
            .as_ref()
            .is_none_or(|filter| name.contains(filter.as_str()))
    }

    /// Compares our work with its counterpart.
    fn compare(&mut self, name: &str, bar: &str, ours: Work, theirs: Work) {
        let (mut ours, mut theirs) = (ours, theirs);
        self.criterion(&format!("{name}/ours"), &mut ours);
        self.criterion(&format!("{name}/theirs"), &mut theirs);
        let found = compare::compare(&mut ours, &mut theirs, self.mode.span(Self::SPAN));
        if self.mode != Mode::Smoke {
            compare::report(name, found, bar);
        }
    }

    /// Measures what has no counterpart.
    fn alone(&mut self, name: &str, bar: &str, ours: Work) {
        let mut ours = ours;
        self.criterion(name, &mut ours);
        let (first, second) = compare::measure(&mut ours, self.mode.span(Self::SPAN));
        if self.mode != Mode::Smoke {
            compare::report_alone(name, first, bar);
            println!("A/A: {name}: {first:.2} ns and {second:.2} ns");
        }
    }

    fn criterion(&mut self, name: &str, work: &mut Work) {
        self.criterion
            .bench_function(name, |bencher| bencher.iter_custom(|n| work.times(n)));
    }
}

fn pg_socket() -> String {
    std::env::var(PG_SOCKET).unwrap_or_else(|_| {
        panic!("{PG_SOCKET} is not set: run scripts/bench, or this under `scripts/servers run --`")
    })
}

fn checkouts(bench: &mut Bench, folder: &Path) {
    let (a, b) = (op::file(folder, "a.db"), op::file(folder, "b.db"));
    let name = "get and drop, SQLite, against r2d2 as it is by default";
    if bench.wants(name) {
        let theirs = op::get_r2d2::<SqliteConnection>(&a, true);
        bench.compare(
            name,
            "0.95",
            op::get(op::two_shards::<SqliteConnection>(&a, &b)),
            theirs,
        );
    }
    let name = "get and drop, SQLite, against r2d2 without its check";
    if bench.wants(name) {
        let theirs = op::get_r2d2::<SqliteConnection>(&a, false);
        bench.compare(
            name,
            "1.25",
            op::get(op::two_shards::<SqliteConnection>(&a, &b)),
            theirs,
        );
    }
    let name = "get and drop, PostgreSQL over a unix socket, against r2d2 as it is by default";
    if bench.wants(name) {
        let url = pg_socket();
        // The second shard is the server's other database.
        let other = url.replace("/postgres", "/template1");
        let theirs = op::get_r2d2::<PgConnection>(&url, true);
        bench.compare(
            name,
            "0.05",
            op::get(op::two_shards::<PgConnection>(&url, &other)),
            theirs,
        );
    }
}

fn statements(bench: &mut Bench) {
    let name = "a prepared SELECT, SQLite in memory, against inner()";
    if bench.wants(name) {
        let conn = op::flights_in_memory();
        let (ours, theirs) = (op::statement(&conn), op::statement_inner(&conn));
        bench.compare(name, "1.04", ours, theirs);
    }
    let name = "a prepared SELECT, SQLite in memory, against a plain connection";
    if bench.wants(name) {
        let ours = op::statement(&op::flights_in_memory());
        bench.compare(name, "-", ours, op::statement_plain());
    }
    let name = "a prepared SELECT in a transaction under a route, against a plain one";
    if bench.wants(name) {
        let (ours, theirs) = op::statement_in_transaction();
        bench.compare(name, "-", ours, theirs);
    }
}

fn sharded_tables(bench: &mut Bench) {
    let name = "a prepared SELECT under a table route, SQLite in memory, against a plain table";
    if bench.wants(name) {
        let (ours, theirs) = tables::under_a_table_route();
        bench.compare(name, "1.08", ours, theirs);
    }
    let name = "a prepared SELECT under a table route, PostgreSQL over a unix socket, against a plain table";
    if bench.wants(name) {
        let (ours, theirs) = tables::under_a_table_route_on_postgres(&pg_socket());
        // No measurable difference is asked for: what the A/A pair differs by on a quiet machine.
        bench.compare(name, "1.03", ours, theirs);
    }
    let name = "what 8 connections remember of 32 tables and 50 shapes";
    if bench.wants(name) {
        println!("{name}: {}", tables::remembered());
    }
}

fn routes(bench: &mut Bench, folder: &Path) {
    let shards =
        || op::two_shards::<SqliteConnection>(&op::file(folder, "a.db"), &op::file(folder, "b.db"));
    for (name, bar, work) in [
        ("on(..), enter and leave", "20 ns", op::on(shards())),
        (
            "Route::run, enter and leave",
            "20 ns",
            op::route_run(&shards()),
        ),
        (
            "Route::run, four in each other",
            "-",
            op::stack_4_deep(shards()),
        ),
    ] {
        if bench.wants(name) {
            bench.alone(name, bar, work);
        }
    }
    let name = "poll of a routed future, against the same unrouted (bar: 50 ns more)";
    if bench.wants(name) {
        bench.compare(name, "-", op::poll_routed(&shards()), op::poll());
    }
}

fn placements(bench: &mut Bench) {
    for (name, work) in [
        (
            "locate, hash of 4096 buckets, i64",
            op::locate(op::keyspace(KeyType::Integer), op::integers()),
        ),
        (
            "locate, hash of 4096 buckets, text",
            op::locate(op::keyspace(KeyType::Text), op::tail_numbers()),
        ),
        (
            "locate, hash of 4096 buckets, uuid",
            op::locate(op::keyspace(KeyType::Uuid), op::uuids()),
        ),
    ] {
        if bench.wants(name) {
            bench.alone(name, "25 ns", work);
        }
    }
}

/// What grows with the number of shards, and what must not.
fn sizes(bench: &mut Bench, folder: &Path) {
    let name = "on, get and drop with 1,000 shards, against the same with 1";
    if bench.wants(name) {
        let ours = op::on_and_get(op::many_shards(folder, 1_000), "shard-0500".to_owned());
        let theirs = op::on_and_get(op::many_shards(folder, 1), "shard-0000".to_owned());
        bench.compare(name, "1.10", ours, theirs);
    }
    let name = "start-up of a manager with 1,000 shards";
    if bench.wants(name) {
        let (times, span) = (if bench.mode == Mode::Full { 21 } else { 3 }, |_| {
            let start = Instant::now();
            drop(black_box(op::many_shards(folder, 1_000)));
            start.elapsed().as_nanos() as f64
        });
        let median = median((0..times).map(span).collect());
        if bench.mode != Mode::Smoke {
            compare::report_alone(name, median, "-");
        }
    }
}

/// Each count in a process of its own: threads outlive their manager for a while.
fn count_threads(bench: &Bench) {
    if !bench.wants("threads") {
        return;
    }
    let counted = [0, 1, 1_000].map(|shards| {
        let program = std::env::current_exe().expect("this program");
        let output = std::process::Command::new(program)
            .args(["--fixed", "threads", &shards.to_string()])
            .output()
            .expect("this program again");
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    });
    if bench.mode != Mode::Smoke {
        let [none, one, thousand] = counted.map(|counts| {
            let mut counts = counts.split_whitespace().map(str::to_owned);
            let threads = counts.next().unwrap_or_default();
            let memory = counts.next().and_then(|kib| kib.parse::<f64>().ok());
            (threads, memory.unwrap_or(f64::NAN))
        });
        println!(
            "threads of a process: {} without a manager, {} with one of 1 shard, {} with one of 1,000 shards",
            none.0, one.0, thousand.0
        );
        println!(
            "memory of an idle shard: {:.1} KiB",
            (thousand.1 - one.1) / 999.0
        );
    }
}

/// The threads and the resident KiB of this process with a manager of so many shards, as the
/// operating system counts them.
fn threads(folder: &Path, shards: usize) -> String {
    let manager = (shards > 0).then(|| {
        let manager = op::many_shards(folder, shards);
        // A node in use has its pool.
        for name in manager.shards().iter().take(10) {
            drop(manager.get_on(name).expect("a connection"));
        }
        manager
    });
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    drop(manager);
    let field = |name: &str| {
        status
            .lines()
            .find_map(|line| line.strip_prefix(name)?.split_whitespace().next())
            .unwrap_or("?")
    };
    format!("{} {}", field("Threads:"), field("VmRSS:"))
}

/// Runs one operation a fixed number of times.
fn fixed(what: &[&str]) {
    let parsed = match what {
        ["list"] => {
            println!("{}", op::NAMES.join("\n"));
            return;
        }
        ["threads", shards] => {
            let folder = tempfile::tempdir().expect("a temporary folder");
            println!("{}", threads(folder.path(), shards.parse().unwrap_or(0)));
            return;
        }
        [name, count] => Some(*name).zip(count.parse().ok()),
        _ => None,
    };
    let folder = tempfile::tempdir().expect("a temporary folder");
    match parsed.and_then(|(name, n)| Some((op::by_name(name, folder.path())?, n))) {
        Some((mut work, n)) => {
            // Whatever happens only once, such as connecting, happens here.
            work.times(10);
            counted(&mut work, n);
        }
        None => {
            eprintln!("usage: hot_paths --fixed NAME COUNT, or --fixed list");
            std::process::exit(2);
        }
    }
}

/// The part that an instruction counter looks at, found by this name.
#[inline(never)]
fn counted(work: &mut Work, n: u64) {
    work.times(n);
}
