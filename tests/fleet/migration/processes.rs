//! Several runners at once, and one that is killed: real processes on real databases.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};

use super::super::backend;
use super::support::{World, version};
use crate::harness::Output;

/// Whoever comes first does it; all the others find nothing left to do.
#[test]
fn four_runners_do_everything_once() {
    let names = ["a", "b", "c"];
    let world = World::with_tables(&names, 20);
    let runners: Vec<_> = (0..4)
        .map(|_| {
            let args = ["migration", "run", "--parallel", "3", "--format", "json"];
            world.stage.command(&args).spawn().unwrap()
        })
        .collect();
    let mut ran: BTreeMap<(String, String), usize> = BTreeMap::new();
    for runner in runners {
        let output = Output::from(runner.wait_with_output().unwrap()).exits(0);
        for event in output.events_named("migration_finished") {
            let one = (event["shard"].to_string(), event["version"].to_string());
            *ran.entry(one).or_default() += 1;
        }
    }
    assert_eq!(ran.len(), 60);
    assert!(ran.values().all(|times| *times == 1), "{ran:?}");
    let all: Vec<String> = (1..=20).map(version).collect();
    for shard in names {
        assert_eq!(world.versions(shard), all);
        assert_eq!(world.tables(shard, 20).len(), 20);
    }
    world.run(&["migration", "status", "--check"]).exits(0);
}

/// A statement that is still running when its runner is killed. On a server it goes on without the
/// client for a while, and keeps the lock as long.
fn slow() -> &'static str {
    match backend::NAME {
        "postgres" => "SELECT pg_sleep(2)",
        "mysql" => "DO SLEEP(2)",
        _ => {
            "CREATE TABLE numbers AS WITH RECURSIVE n(x) AS (VALUES (1) UNION ALL SELECT x + 1 FROM n) SELECT x FROM n WHERE x < 0"
        }
    }
}

/// Runs until `begun` says of an event that this is the moment, and kills the runner as `kill -9` does.
pub(super) fn kill_when(
    world: &World,
    command: &[&str],
    begun: impl Fn(&serde_json::Value) -> bool,
) {
    let args = [command, &["--format", "json"]].concat();
    let mut runner = world.stage.command(&args).spawn().unwrap();
    let events = BufReader::new(runner.stdout.take().unwrap()).lines();
    let found = events
        .map(|line| serde_json::from_str(&line.unwrap()).unwrap())
        .any(|event: serde_json::Value| begun(&event));
    assert!(found, "the runner ended before its moment came");
    runner.kill().unwrap();
    assert_eq!(runner.wait().unwrap().code(), None, "killed, not ended");
}

/// In a transaction nothing of the migration is left, and running again does all of it. Where a change
/// of the schema ends transactions, what ran is recorded, and somebody says how it goes on.
#[test]
fn a_killed_runner_leaves_the_truth_and_no_lock() {
    let world = World::with_tables(&["a", "b"], 1);
    world.table(3);
    let folder = "2024-01-02-000000_half";
    let half = |second: &str| {
        let up = format!("CREATE TABLE half (id INT);\n{second};\n");
        world.stage.migration(folder, &up, "DROP TABLE half");
    };
    half(slow());
    let in_steps = backend::NAME == "mysql";
    kill_when(&world, &["migration", "run"], |event| {
        event["version"] == version(2)
            && event["event"]
                == if in_steps {
                    "statement_done"
                } else {
                    "migration_started"
                }
    });
    half("CREATE TABLE whole (id INT)");
    if in_steps {
        let run = world.run(&["migration", "run"]).exits(1);
        assert!(run.stdout.contains("repair a 20240102000000"), "{run:#?}");
        assert_eq!(world.versions("b"), Vec::<String>::new());
        world
            .run(&["migration", "repair", "a", &version(2), "--resume-from", "2"])
            .exits(0);
    }
    world.run(&["migration", "run"]).exits(0);
    for shard in ["a", "b"] {
        assert_eq!(world.versions(shard), [version(1), version(2), version(3)]);
        world.sql(shard, "DROP TABLE half; DROP TABLE whole");
    }
    world.run(&["migration", "status", "--check"]).exits(0);
    let locks = world.run(&["migration", "unlock"]).exits(0);
    assert!(locks.stdout.contains("locked: 0 of 2"), "{locks:#?}");
}

/// Outside of a transaction it is the same on every backend: dirty, with what has run.
#[test]
fn a_runner_killed_outside_of_a_transaction_leaves_a_dirty_shard() {
    let world = World::with_tables(&["a"], 1);
    let folder = "2024-01-02-000000_half";
    let half = |second: &str| {
        let up = format!("CREATE TABLE half (id INT);\n{second};\n");
        world.stage.migration(folder, &up, "DROP TABLE half");
        world.stage.write(
            &format!("migrations/{folder}/metadata.toml"),
            "run_in_transaction = false\n",
        );
    };
    half(slow());
    kill_when(&world, &["migration", "run"], |event| event["event"] == "statement_done" && event["version"] == version(2));
    half("CREATE TABLE whole (id INT)");
    let run = world.run(&["migration", "run"]).exits(1);
    assert!(run.stdout.contains("repair a 20240102000000"), "{run:#?}");
    let status = world.run(&["migration", "status", "--check"]).exits(3);
    assert!(status.stdout.contains("stopped after 1 of 2 statements"), "{status:#?}");
    assert!(status.stdout.contains("may have run"), "{status:#?}");
    world
        .run(&["migration", "repair", "a", &version(2), "--resume-from", "2"])
        .exits(0);
    world.sql("a", "DROP TABLE half; DROP TABLE whole");
    world.run(&["migration", "status", "--check"]).exits(0);
}

/// Without a lock nobody sees whether it is alive: that is what is said, and a repair ends it.
#[test]
fn a_runner_killed_without_a_lock_leaves_a_doubt() {
    let world = World::new(&["a"]);
    let folder = "2024-01-01-000000_half";
    let half = |second: &str| {
        let up = format!("CREATE TABLE half (id INT);\n{second};\n");
        world.stage.migration(folder, &up, "DROP TABLE half");
        let file = format!("migrations/{folder}/metadata.toml");
        world.stage.write(&file, "run_in_transaction = false\n");
    };
    half(slow());
    kill_when(&world, &["migration", "run", "--no-lock"], |event| event["event"] == "statement_done");
    half("CREATE TABLE whole (id INT)");
    let run = world.run(&["migration", "run"]).exits(1);
    assert!(run.stdout.contains("it is not known whether its runner is still at work"), "{run:#?}");
    assert!(!run.stdout.contains("was lost"), "{run:#?}");
    let status = world.run(&["migration", "status"]).exits(0);
    assert!(status.stdout.contains("begun without the lock by process"), "{status:#?}");
    world.run(&["migration", "repair", "a", folder, "--resume-from", "2"]).exits(0);
    world.run(&["migration", "status", "--check"]).exits(0);
}
