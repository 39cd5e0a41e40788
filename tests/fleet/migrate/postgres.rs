//! What only PostgreSQL has: concurrent indexes, advisory locks, sessions of a pooler.

use std::time::{Duration, Instant};

use diesel::connection::SimpleConnection;
use diesel_sharded::migrate::{Event, FailureKind, Options, Outcome, Repair};

use super::migrate::stage::{Ground, ONE, ended, failure, quiet};

const TWICE: &str = "CREATE INDEX CONCURRENTLY first_one ON items (id);\n-- in a string of its own\nCREATE INDEX CONCURRENTLY second_one ON items (note);\n";

fn invalid(ground: &Ground, shard: &str) -> i64 {
    ground.number(shard, "SELECT count(*) FROM pg_index WHERE NOT indisvalid")
}

#[test]
fn two_concurrent_indexes_in_one_migration_are_built() {
    let ground = Ground::new(&["a", "b"]);
    ground.untransacted(
        "2024-01-01-000000_indexes",
        TWICE,
        "DROP INDEX first_one;\nDROP INDEX second_one;\n",
    );
    ground.run_well();
    for shard in ["a", "b"] {
        assert!(ground.has(shard, "first_one") && ground.has(shard, "second_one"));
        assert_eq!(invalid(&ground, shard), 0);
    }
}

/// Whoever forgets to say so is told where.
#[test]
fn a_concurrent_index_in_a_transaction_is_explained() {
    let ground = Ground::new(&["a"]);
    ground
        .stage
        .migration("2024-01-01-000000_indexes", TWICE, "");
    let told = failure(&ground.run(&Options::new()), "a");
    assert!(
        told.database
            .unwrap()
            .contains("cannot run inside a transaction block")
    );
    assert!(
        told.message.contains("run_in_transaction = false"),
        "{}",
        told.message
    );
    assert!(!ground.has("a", "first_one"));
}

/// Runners that wait for a lock must not be what the index of the one that has it waits for.
#[test]
fn waiting_runners_do_not_hold_up_a_concurrent_index() {
    let ground = Ground::new(&["a"]);
    ground.untransacted("2024-01-01-000000_indexes", TWICE, "");
    let barrier = std::sync::Barrier::new(4);
    std::thread::scope(|scope| {
        let runners: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    barrier.wait();
                    let report = ground.migrator().run(&Options::new(), &quiet).unwrap();
                    assert!(report.is_success(), "{report:#?}");
                    report.shard("a").unwrap().ran.len()
                })
            })
            .collect();
        let ran: usize = runners
            .into_iter()
            .map(|runner| runner.join().unwrap())
            .sum();
        assert_eq!(ran, 1);
    });
    assert_eq!(invalid(&ground, "a"), 0);
}

/// A concurrent index that fails leaves an invalid one behind: that is half-way, also where it is the
/// first statement.
#[test]
fn a_concurrent_index_that_fails_leaves_its_shard_dirty() {
    let ground = Ground::new(&["a", "b"]);
    ground.direct(
        "a",
        "INSERT INTO items (id, note) VALUES (1, 'x'), (2, 'x')",
    );
    let up = "CREATE UNIQUE INDEX CONCURRENTLY only_one ON items (note);\n";
    ground.untransacted("2024-01-01-000000_unique", up, "DROP INDEX only_one;\n");
    let report = ground.run(&Options::new().retries(3).max_failures(None));
    let told = failure(&report, "a");
    assert!(
        told.message.contains("0 of its 1 statements have run"),
        "{told:#?}"
    );
    assert_eq!(invalid(&ground, "a"), 1);
    let schema = ground.migrator().schema(&Options::new()).unwrap();
    let lines = format!("{:?}", schema.shards);
    assert!(lines.contains("(invalid)"), "{lines}");

    ground.direct("a", "DROP INDEX only_one; DELETE FROM items WHERE id = 2");
    let report = ground
        .migrator()
        .repair("a", ONE, Repair::ResumeFrom(1), &Options::new(), &quiet)
        .unwrap();
    assert_eq!(report.outcome, Outcome::Done, "{report:#?}");
    assert_eq!(invalid(&ground, "a"), 0);
    assert!(ground.migrator().schema(&Options::new()).unwrap().agrees());
}

/// A session holds a lock on a table that the migration alters on shard b. The migration gives up after
/// its retries, and in between everybody else gets through.
#[test]
fn a_busy_table_is_given_up_and_not_recorded() {
    let ground = Ground::new(&["a", "b", "c"]);
    ground.stage.migration(
        "2024-01-01-000000_alter",
        "ALTER TABLE items ADD COLUMN more INT;\n",
        "ALTER TABLE items DROP COLUMN more;\n",
    );
    let mut busy = ground.fleet.direct("b");
    busy.batch_execute("BEGIN; LOCK TABLE items IN ACCESS SHARE MODE")
        .unwrap();
    let retries = std::sync::atomic::AtomicU32::new(0);
    let observer = |event: &Event| {
        if let Event::Retrying { message, .. } = event {
            assert!(message.contains("lock timeout"), "{message}");
            retries.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            // Nobody waits behind the migration while it pauses.
            let mut other = ground.fleet.direct("b");
            other
                .batch_execute("SET lock_timeout = '50ms'; SELECT count(*) FROM items")
                .unwrap();
        }
    };
    let options = Options::new()
        .lock_timeout(Duration::from_millis(200))
        .retries(3)
        .max_failures(None);
    let begun = Instant::now();
    let report = ground.migrator().run(&options, &observer).unwrap();
    eprintln!("given up after {:?}", begun.elapsed());
    ended(
        &report,
        &[
            ("a", Outcome::Done),
            ("b", Outcome::Failed),
            ("c", Outcome::Done),
        ],
    );
    assert_eq!(failure(&report, "b").kind, FailureKind::LockTimeout);
    assert_eq!(retries.into_inner(), 3);
    assert!(ground.versions("b").is_empty());

    busy.batch_execute("ROLLBACK").unwrap();
    assert!(ground.run(&options).is_success());
}

/// Outside of a transaction the same holds for one statement: it is tried again where that is safe.
#[test]
fn a_statement_outside_of_a_transaction_is_tried_again() {
    let ground = Ground::new(&["a"]);
    ground.untransacted(
        "2024-01-01-000000_alter",
        "CREATE TABLE fresh (id INT);\nALTER TABLE items ADD COLUMN more INT;\n",
        "",
    );
    let busy = std::sync::Mutex::new(ground.fleet.direct("a"));
    busy.lock()
        .unwrap()
        .batch_execute("BEGIN; LOCK TABLE items IN ACCESS SHARE MODE")
        .unwrap();
    let observer = |event: &Event| {
        if matches!(event, Event::Retrying { retry: 2, .. }) {
            busy.lock().unwrap().batch_execute("ROLLBACK").unwrap();
        }
    };
    let options = Options::new()
        .lock_timeout(Duration::from_millis(100))
        .retries(5);
    let report = ground.migrator().run(&options, &observer).unwrap();
    assert!(report.is_success(), "{report:#?}");
    assert!(ground.has("a", "fresh"));
}

#[test]
fn a_statement_that_takes_too_long_is_ended() {
    let ground = Ground::new(&["a"]);
    ground
        .stage
        .migration("2024-01-01-000000_slow", "SELECT pg_sleep(60);\n", "");
    let options = Options::new().statement_timeout(Duration::from_millis(100));
    assert_eq!(
        failure(&ground.run(&options), "a").kind,
        FailureKind::StatementTimeout
    );
    assert!(ground.versions("a").is_empty());
}

/// A deferred constraint speaks at COMMIT.
#[test]
fn a_commit_that_fails_leaves_nothing() {
    let ground = Ground::new(&["a"]);
    ground.stage.migration(
        "2024-01-01-000000_deferred",
        "CREATE TABLE d (id INT PRIMARY KEY, up INT REFERENCES d (id) DEFERRABLE INITIALLY DEFERRED);\nINSERT INTO d VALUES (1, 2);\n",
        "",
    );
    let told = failure(&ground.run(&Options::new()), "a");
    assert!(
        told.message
            .contains("all of it had run, and committing it failed"),
        "{told:#?}"
    );
    assert!(told.database.unwrap().contains("foreign key"));
    assert!(!ground.has("a", "d") && ground.versions("a").is_empty());
}

/// What a dump begins with. The crate's own tables are not found then, which is no failure to commit.
#[test]
fn a_migration_that_moves_the_search_path_is_told() {
    let ground = Ground::new(&["a"]);
    ground.stage.migration(
        "2024-01-01-000000_dump",
        "SELECT pg_catalog.set_config('search_path', '', false);\nCREATE TABLE public.d (id INT);\n",
        "",
    );
    let told = failure(&ground.run(&Options::new()), "a");
    for expected in [
        "writing it into the tables",
        "search_path",
        "nothing of it has stayed",
    ] {
        assert!(told.message.contains(expected), "{expected}: {told:#?}");
    }
    assert!(told.database.unwrap().contains("does not exist"));
    assert!(!ground.has("a", "d"));
}

/// Sent statement by statement, the crate's own tables could not be found after the first.
#[test]
fn a_search_path_is_not_set_where_progress_is_recorded() {
    let ground = Ground::new(&["a"]);
    ground.stage.migration(
        "2024-01-01-000000_path",
        "CREATE TABLE d (id INT);\nSET search_path TO o;\nRESET search_path;\n",
        "",
    );
    ground.stage.write(
        "migrations/2024-01-01-000000_path/metadata.toml",
        "run_in_transaction = false\n",
    );
    let told = failure(&ground.run(&Options::new()), "a");
    for expected in [
        "after its statement 2 nobody could record",
        "leave search_path as it is",
    ] {
        assert!(told.message.contains(expected), "{expected}: {told:#?}");
    }
    assert!(!ground.has("a", "d") && ground.versions("a").is_empty());
}

/// The server would wait for rows that nobody sends: refused before anything is reached.
#[test]
fn a_copy_with_the_client_is_refused_before_anything_runs() {
    let ground = Ground::new(&["a"]);
    ground.table("2024-01-01-000000_one", "one");
    for (copy, end) in [
        ("copy one from stdin;", "FROM STDIN"),
        ("copy one to stdout;", "TO STDOUT"),
    ] {
        for in_transaction in [true, false] {
            let name = "2024-01-02-000000_copy";
            ground.untransacted(name, copy, "");
            let file = format!("migrations/{name}/metadata.toml");
            ground
                .stage
                .write(&file, &format!("run_in_transaction = {in_transaction}\n"));
            for command in ["run", "plan"] {
                let run = ground.stage.run(&["migration", command]).exits(2);
                for expected in ["up.sql", end, "statement 1", "INSERT", "psql"] {
                    assert!(run.stderr.contains(expected), "{expected}: {run:#?}");
                }
            }
        }
    }
    assert!(ground.versions("a").is_empty());
}

/// The server reads and writes these by itself.
#[test]
fn a_copy_with_a_file_or_a_program_works() {
    for in_transaction in [true, false] {
        let ground = Ground::new(&["a"]);
        let name = "2024-01-01-000000_copy";
        ground.untransacted(
            name,
            "COPY items (id) FROM PROGRAM 'echo 1; echo 2';\nCOPY (SELECT id FROM items) TO '/dev/null';\nCOPY items (id) FROM '/dev/null';\n",
            "",
        );
        let file = format!("migrations/{name}/metadata.toml");
        ground
            .stage
            .write(&file, &format!("run_in_transaction = {in_transaction}\n"));
        ground.run_well();
        assert_eq!(ground.fleet.rows("a"), [1, 2]);
    }
}

/// Cut by the default rules, the second text would end elsewhere.
#[test]
fn a_migration_that_changes_how_texts_are_quoted_is_told() {
    let ground = Ground::new(&["a"]);
    let up =
        r"set standard_conforming_strings = off; insert into items (id, note) values (1, 'a\'');";
    ground.stage.migration("2024-01-01-000000_quoted", up, "");
    let run = ground.stage.run(&["migration", "run"]).exits(2);
    for expected in [
        "standard_conforming_strings in its statement 1",
        "default rules",
        "E'..'",
    ] {
        assert!(run.stderr.contains(expected), "{expected}: {run:#?}");
    }
}
