//! Every way to decide where a row lives, beside the crates that do one of them alone, and the
//! reading of a table by `verify`.
//!
//! A text among the arguments selects the measurements whose name holds it.

#[path = "../hot_paths/compare.rs"]
mod compare;
#[path = "../support/mod.rs"]
mod support;

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::Criterion;
use diesel::SqliteConnection;
use diesel::connection::SimpleConnection;
use diesel_sharded::blocking::{
    Keyspace, ShardedConnectionManager, VerifyOptions, connect_node, verify,
};
use diesel_sharded::{
    CompatSpec, DateSpec, KeyType, KeyspaceConfig, RangeSpec, RuleSpec, ShardKey, System,
    ToShardKey, Topology, jump_consistent_hash,
};

use compare::Work;
use support::Mode;
use support::keys::Random;

/// How many keys a measurement goes round.
const KEYS: usize = 1 << 12;

struct Bench {
    mode: Mode,
    filter: Option<String>,
    criterion: Criterion,
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut bench = Bench {
        mode: Mode::of_process(),
        filter: arguments
            .iter()
            .find(|argument| !argument.starts_with('-'))
            .cloned(),
        criterion: Criterion::default()
            .warm_up_time(Duration::from_millis(300))
            .measurement_time(Duration::from_secs(1))
            .configure_from_args(),
    };
    algorithms(&mut bench);
    peers(&mut bench);
    reading(&bench);
    bench.criterion.final_summary();
}

impl Bench {
    const SPAN: Duration = Duration::from_secs(2);

    fn wants(&self, name: &str) -> bool {
        self.filter
            .as_ref()
            .is_none_or(|filter| name.contains(filter.as_str()))
    }

    fn alone(&mut self, name: &str, bar: &str, mut work: Work) {
        self.criterion
            .bench_function(name, |bencher| bencher.iter_custom(|n| work.times(n)));
        let (first, second) = compare::measure(&mut work, self.mode.span(Self::SPAN));
        if self.mode != Mode::Smoke {
            compare::report_alone(name, first, bar);
            println!("A/A: {name}: {first:.2} ns and {second:.2} ns");
        }
    }

    fn compare(&mut self, name: &str, bar: &str, mut ours: Work, mut theirs: Work) {
        for (side, work) in [("ours", &mut ours), ("theirs", &mut theirs)] {
            self.criterion
                .bench_function(&format!("{name}/{side}"), |bencher| {
                    bencher.iter_custom(|n| work.times(n));
                });
        }
        let found = compare::compare(&mut ours, &mut theirs, self.mode.span(Self::SPAN));
        if self.mode != Mode::Smoke {
            compare::report(name, found, bar);
        }
    }
}

fn names(count: usize) -> Vec<String> {
    (0..count).map(|i| format!("shard-{i:04}")).collect()
}

fn keyspace(shards: &[String], rule: RuleSpec) -> Keyspace<SqliteConnection> {
    let mut builder = ShardedConnectionManager::<SqliteConnection>::builder();
    for name in shards {
        // Never connected.
        builder = builder.shard(name.as_str(), format!("/nowhere/{name}.sqlite"));
    }
    let manager = builder.keyspace("k", KeyspaceConfig::new(rule)).build();
    let manager = manager.expect("a topology");
    manager.keyspace("k").expect("the keyspace")
}

fn integers() -> Vec<i64> {
    let mut random = Random::new(1);
    (0..KEYS).map(|_| random.next() as i64).collect()
}

/// Looks up one key after the other.
fn locate<K: ToShardKey + 'static>(keyspace: Keyspace<SqliteConnection>, keys: Vec<K>) -> Work {
    let mut next = 0;
    Work::new(move |n| {
        for _ in 0..n {
            next = (next + 1) % KEYS;
            let _ = black_box(keyspace.locate(black_box(&keys[next])));
        }
    })
}

fn algorithms(bench: &mut Bench) {
    let list = |count: i64, shards: &[String]| {
        let mut by_shard: Vec<(String, Vec<i64>)> = Vec::new();
        for (shard, first) in shards.iter().zip(0..) {
            let step = shards.len();
            by_shard.push((shard.clone(), (first..count).step_by(step).collect()));
        }
        RuleSpec::list(by_shard)
    };
    let ranges = |count: i64, shards: &[String]| {
        RuleSpec::range((0..count).map(|i| {
            let shard = &shards[i as usize % shards.len()];
            RangeSpec::new(shard.as_str(), i * 1_000..(i + 1) * 1_000)
        }))
    };
    let below = |most: u64| -> Vec<i64> {
        let mut random = Random::new(2);
        (0..KEYS).map(|_| (random.next() % most) as i64).collect()
    };
    let eight = names(8);
    let many = names(1_024);
    let ring = names(64);
    for (name, bar, shards, rule, keys) in [
        (
            "locate, hash of 4096 buckets",
            "25 ns",
            &eight,
            RuleSpec::hash(names(8), 4096),
            integers(),
        ),
        (
            "locate, modulo",
            "25 ns",
            &eight,
            RuleSpec::modulo(names(8)),
            integers(),
        ),
        (
            "locate, jump over 8",
            "25 ns",
            &eight,
            RuleSpec::jump(names(8)),
            integers(),
        ),
        (
            "locate, jump over 1,024",
            "60 ns",
            &many,
            RuleSpec::jump(names(1_024)),
            integers(),
        ),
        (
            "locate, ring of 64 x 160",
            "60 ns",
            &ring,
            RuleSpec::ring(names(64)),
            integers(),
        ),
        (
            "locate, 1,000 ranges",
            "60 ns",
            &eight,
            ranges(1_000, &eight),
            below(1_000_000),
        ),
        (
            "locate, list of 1,000",
            "60 ns",
            &eight,
            list(1_000, &eight),
            below(1_000),
        ),
        (
            "locate, postgres-hash",
            "-",
            &eight,
            RuleSpec::compat(
                names(8),
                CompatSpec::new(System::PostgresHash { modulus: 8 }),
            ),
            integers(),
        ),
    ] {
        if bench.wants(name) {
            bench.alone(name, bar, locate(keyspace(shards, rule), keys));
        }
    }
    let name = "locate, 1,200 months in a zone";
    if bench.wants(name) {
        let months = DateSpec::monthly()
            .from("1950")
            .until("2050")
            .zone("Europe/Berlin");
        let mut random = Random::new(3);
        let keys: Vec<ShardKey<'static>> = (0..KEYS)
            .map(|_| ShardKey::Timestamp {
                micros: (random.next() % 2_000_000_000) as i64 * 1_000_000,
                sub_micro_nanos: 0,
            })
            .collect();
        let rule = RuleSpec::date(names(8), months);
        bench.alone(name, "-", locate(keyspace(&eight, rule), keys));
    }
    let name = "locate, hash of a composite key";
    if bench.wants(name) {
        let types = diesel_sharded::CompositeType::new([KeyType::Text, KeyType::Integer]);
        let rule = RuleSpec::hash(names(8), 4096).key(types.expect("two parts").into());
        let keys: Vec<(String, i64)> = integers()
            .into_iter()
            .map(|number| (format!("tenant-{}", number as u8), number))
            .collect();
        bench.alone(name, "-", locate(keyspace(&eight, rule), keys));
    }
}

fn peers(bench: &mut Bench) {
    let hashes: Vec<u64> = integers().into_iter().map(|number| number as u64).collect();
    let name = "jump over 1,024 of a hash, against jump-consistent-hash";
    if bench.wants(name) {
        let round = |mut work: Box<dyn FnMut(u64)>, hashes: Vec<u64>| {
            let mut next = 0;
            Work::new(move |n| {
                for _ in 0..n {
                    next = (next + 1) % KEYS;
                    work(hashes[next]);
                }
            })
        };
        let ours = round(
            Box::new(|hash| {
                black_box(jump_consistent_hash(black_box(hash), 1_024));
            }),
            hashes.clone(),
        );
        let theirs = round(
            Box::new(|hash| {
                black_box(jump_consistent_hash::hash(black_box(hash), 1_024));
            }),
            hashes,
        );
        bench.compare(name, "1.10", ours, theirs);
    }
    let name = "ring of 64 x 160, against hashring";
    if bench.wants(name) {
        let ours = locate(keyspace(&names(64), RuleSpec::ring(names(64))), integers());
        let mut ring: hashring::HashRing<(usize, usize)> = hashring::HashRing::new();
        for node in 0..64 {
            for point in 0..160 {
                ring.add((node, point));
            }
        }
        let keys = integers();
        let mut next = 0;
        let theirs = Work::new(move |n| {
            for _ in 0..n {
                next = (next + 1) % KEYS;
                black_box(ring.get(black_box(&keys[next])));
            }
        });
        bench.compare(name, "1.00", ours, theirs);
    }
}

/// A million rows with an indexed key, in order and without a throttle.
fn reading(bench: &Bench) {
    let name = "verify, a row of SQLite";
    if !bench.wants(name) {
        return;
    }
    let rows: u64 = if bench.mode == Mode::Smoke {
        1_000
    } else {
        1_000_000
    };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("a.sqlite").display().to_string();
    let topology = Topology::builder()
        .shard("a", path)
        .keyspace(
            "k",
            KeyspaceConfig::new(RuleSpec::hash(["a"], 4096)).table("t", "k", 1),
        )
        .build()
        .expect("a topology");
    let node = &topology.nodes()[0];
    let mut conn: SqliteConnection = connect_node(node).expect("a connection");
    conn.batch_execute(&format!(
        "CREATE TABLE t (k INTEGER NOT NULL, note TEXT);
         WITH RECURSIVE n(k) AS (SELECT 1 UNION ALL SELECT k + 1 FROM n WHERE k < {rows})
         INSERT INTO t SELECT k * 7, 'a row' FROM n;
         CREATE INDEX ik ON t (k)"
    ))
    .expect("a table");
    let options = VerifyOptions::new().rows_per_second(None);
    let mut spans: Vec<f64> = (0..if bench.mode == Mode::Full { 9 } else { 3 })
        .map(|_| {
            let start = Instant::now();
            let report = verify::<SqliteConnection>(&topology, "k", &options, &|_| {});
            let report = report.expect("a report");
            assert_eq!((report.rows, report.findings.len()), (rows, 0));
            start.elapsed().as_nanos() as f64 / rows as f64
        })
        .collect();
    spans.sort_by(f64::total_cmp);
    if bench.mode != Mode::Smoke {
        compare::report_alone(name, support::median(spans), "1000 ns");
    }
}
