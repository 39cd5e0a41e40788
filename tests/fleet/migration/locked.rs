//! One runner per shard at a time: who holds the lock is shown, and others wait or give up.

use std::io::{BufRead, BufReader};
use std::process::Child;

use super::super::backend;
use super::support::{World, text};

/// A migration that ends only with its runner or its session.
fn endless() -> &'static str {
    match backend::NAME {
        "postgres" => "SELECT pg_sleep(600)",
        "mysql" => "DO SLEEP(600)",
        _ => {
            "CREATE TABLE numbers AS WITH RECURSIVE n(x) AS (VALUES (1) UNION ALL SELECT x + 1 FROM n) SELECT x FROM n WHERE x < 0"
        }
    }
}

/// A runner in the middle of a migration that does not end, killed with the test.
struct Runner(Child);

impl Runner {
    fn start(world: &World) -> Self {
        let mut child = world
            .stage
            .command(&["migration", "run", "-s", "a", "--format", "json"])
            .spawn()
            .unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        for line in stdout.lines() {
            let event: serde_json::Value = serde_json::from_str(&line.unwrap()).unwrap();
            if event["event"] == "migration_started" {
                return Self(child);
            }
        }
        panic!("the runner ended before its migration began: {:?}", child.wait());
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn whoever_comes_later_waits_or_gives_up() {
    let world = World::new(&["a"]);
    world.stage.migration("2024-01-01-000000_endless", endless(), "SELECT 1");
    // Outside of a transaction, so that it can be seen from elsewhere that it has begun.
    world.stage.write(
        "migrations/2024-01-01-000000_endless/metadata.toml",
        "run_in_transaction = false\n",
    );
    let runner = Runner::start(&world);

    let late = world
        .run(&["migration", "run", "--wait", "1500ms", "--format", "json"])
        .exits(1);
    let waiting = late.events_named("waiting");
    assert!(!waiting.is_empty(), "{late:#?}");
    assert!(text(&waiting[0]["holder"]["who"]).contains(&runner.0.id().to_string()), "{waiting:?}");
    let finished = &late.events_named("shard_finished")[0];
    assert_eq!(finished["failures"][0]["kind"], "locked", "{late:#?}");

    // For people once, and with the time: they can count seconds themselves.
    let plain = world.run(&["migration", "run", "--wait", "2500ms"]).exits(1);
    let mut waits = plain.stdout.lines().filter(|line| line.contains("waiting"));
    let wait = waits.next().unwrap();
    assert!(wait.contains(&runner.0.id().to_string()), "{plain:#?}");
    assert!(wait.contains(", since 20"), "{plain:#?}");
    assert_eq!(waits.next(), None, "{plain:#?}");

    let unlock = world.run(&["migration", "unlock"]).exits(0);
    assert!(unlock.stdout.contains("a: locked by"), "{unlock:#?}");
    assert!(unlock.stdout.contains("locked: 1 of 1 database"), "{unlock:#?}");
    let status = world.run(&["migration", "status"]).exits(0);
    assert!(status.stdout.contains("is being migrated by"), "{status:#?}");
    let row = status.stdout.lines().find(|line| line.starts_with("a ")).unwrap();
    assert_eq!(row.split_whitespace().collect::<Vec<_>>(), ["a", "running", "running"]);
    assert!(status.stdout.contains("1 database: 1 being migrated"), "{status:#?}");
    // Nothing is wrong, and yet not everything is there.
    let status = world
        .run(&["migration", "status", "--check", "--format", "json"])
        .exits(3);
    let finished = &status.events_named("status_finished")[0];
    for (field, expected) in [("running", 1), ("pending", 0), ("diverged", 0), ("failed", 0)] {
        assert_eq!(finished[field], expected, "{field}: {finished}");
    }

    // On a server the session can be ended from here; on SQLite it is a process to end.
    let forced = world.run(&["migration", "unlock", "--force", "--format", "json"]);
    let lock = &forced.events_named("lock")[0];
    if backend::NAME == "sqlite" {
        assert_eq!(forced.code, Some(1), "{forced:#?}");
        assert!(text(&lock["failure"]["message"]).contains(&runner.0.id().to_string()), "{lock}");
    } else {
        assert_eq!(forced.code, Some(0), "{forced:#?}");
        assert_eq!(lock["ended"], true);
    }
    drop(runner);
    let unlock = world.run(&["migration", "unlock"]).exits(0);
    assert!(unlock.stdout.contains("locked: 0 of 1 database"), "{unlock:#?}");
}

/// What a runner does in a transaction nobody sees; that it holds the lock, and since when, everybody does.
#[test]
fn a_runner_in_a_transaction_is_seen_by_its_lock() {
    let world = World::new(&["a"]);
    let up = match backend::NAME {
        // Rows alone are a transaction there, too.
        "mysql" => "INSERT INTO items (id) SELECT SLEEP(600)",
        _ => endless(),
    };
    world.stage.migration("2024-01-01-000000_endless", up, "SELECT 1");
    let runner = Runner::start(&world);
    let status = world.run(&["migration", "status"]).exits(0);
    let row = status.stdout.lines().find(|line| line.starts_with("a ")).unwrap();
    assert_eq!(row.split_whitespace().collect::<Vec<_>>(), ["a", "pending", "running"]);
    let told = format!("shard a is being migrated by process {}", runner.0.id());
    let line = status.stdout.lines().find(|line| line.contains(&told)).unwrap();
    assert!(line.contains(" since 20"), "{status:#?}");
    assert!(status.stdout.contains("1 database: 1 being migrated"), "{status:#?}");
    // A session outlives its runner until the server notices; ending it spares the next test the wait.
    world.run(&["migration", "unlock", "--force"]);
}
