//! From the first file to the last revert, and together with Diesel's own tools.

use diesel_migrations::{FileBasedMigrations, MigrationHarness};

use super::support::{World, outcomes, version};
use crate::harness::{Output, Stage};

#[test]
fn run_list_status_revert_redo() {
    let world = World::with_tables(&["a", "b"], 3);
    assert_eq!(world.run(&["migration", "pending"]).exits(0).stdout, "true\n");
    let listed = world.run(&["migration", "list"]).exits(0).stdout;
    assert_eq!(listed.matches("  [ ] ").count(), 3, "{listed}");

    let run = world.run(&["migration", "run"]).exits(0);
    assert!(run.stdout.contains("2 databases: 2 done"), "{run:#?}");
    for shard in ["a", "b"] {
        assert_eq!(world.versions(shard), [version(1), version(2), version(3)]);
        assert_eq!(world.tables(shard, 3), [1, 2, 3]);
    }
    let again = world.run(&["migration", "run"]).exits(0);
    assert!(again.stdout.contains("2 up to date"), "{again:#?}");
    assert_eq!(world.run(&["migration", "pending"]).exits(0).stdout, "false\n");
    let listed = world.run(&["migration", "list"]).exits(0).stdout;
    assert_eq!(listed.matches("  [X] 2024-01-").count(), 3, "{listed}");
    let status = world.run(&["migration", "status", "--check"]).exits(0);
    assert!(status.stdout.contains("2 up to date"), "{status:#?}");

    world.run(&["migration", "revert", "-n", "2"]).exits(0);
    assert_eq!(world.versions("b"), [version(1)]);
    assert_eq!(world.tables("b", 3), [1]);
    world.run(&["migration", "run"]).exits(0);
    let redo = world
        .run(&["migration", "redo", "-n", "2", "--format", "json"])
        .exits(0);
    let steps: Vec<String> = redo
        .events_named("migration_finished")
        .iter()
        .filter(|event| event["shard"] == "a")
        .map(|event| format!("{} {}", event["direction"], event["version"]).replace('"', ""))
        .collect();
    let expected = [("down", 3), ("down", 2), ("up", 2), ("up", 3)];
    assert_eq!(
        steps,
        expected.map(|(direction, number)| format!("{direction} {}", version(number)))
    );
    world.run(&["migration", "revert", "--all"]).exits(0);
    assert_eq!(world.tables("a", 3), [0usize; 0]);
    assert_eq!(world.versions("a"), Vec::<String>::new());
}

/// Every event of a run is an object, every database has one end, and the last event is the sum.
#[test]
fn machines_can_follow_a_run() {
    let world = World::with_tables(&["a", "b"], 2);
    let run = world.run(&["migration", "run", "--format", "json"]).exits(0);
    let events = run.events();
    assert_eq!(events[0]["event"], "preflight");
    let last = events.last().unwrap();
    assert_eq!(last["event"], "finished");
    assert_eq!(last["succeeded"], 2);
    assert_eq!(last["failed"], 0);
    let done = |shard: &str| (shard.to_owned(), "done".to_owned(), 2);
    assert_eq!(outcomes(&run), [done("a"), done("b")]);
    // Nothing else is mixed into the stream.
    let status = world
        .run(&["migration", "status", "--format", "json"])
        .exits(0);
    let row = &status.events_named("shard_status")[0];
    assert_eq!(row["up_to_date"], true);
    assert_eq!(row["versions"][0]["state"], "applied");
    assert_eq!(status.events_named("versions")[0]["versions"][1]["version"], version(2));
    let list = world.run(&["migration", "list", "--format", "json"]).exits(0);
    assert_eq!(list.events_named("version")[1]["applied"], 2);
    let pending = world
        .run(&["migration", "pending", "--format", "json"])
        .exits(0);
    assert_eq!(pending.events_named("pending")[0]["pending"], false);
}

/// A database that `diesel_migrations` has migrated before is taken as it is, and the other way round.
#[test]
fn diesels_own_tools_and_ours_agree() {
    let world = World::with_tables(&["a", "b"], 2);
    let folder = || FileBasedMigrations::from_path(world.stage.path().join("migrations")).unwrap();
    let mut conn = world.fleet.direct("a");
    conn.run_pending_migrations(folder()).unwrap();
    world.table(3);
    let run = world.run(&["migration", "run", "--format", "json"]).exits(0);
    let done = |shard: &str, ran| (shard.to_owned(), "done".to_owned(), ran);
    assert_eq!(outcomes(&run), [done("a", 1), done("b", 3)]);
    for shard in ["a", "b"] {
        let mut conn = world.fleet.direct(shard);
        assert!(!conn.has_pending_migration(folder()).unwrap());
    }
    world.run(&["migration", "status", "--check"]).exits(0);
}

#[test]
fn generated_files_are_diesels() {
    let world = World::new(&["a"]);
    let generated = world.run(&["migration", "generate", "add_items"]).exits(0);
    let made: Vec<&str> = generated
        .stdout
        .lines()
        .map(|line| line.strip_prefix("Creating ").expect(line))
        .collect();
    assert_eq!(made.len(), 2);
    assert!(made[0].ends_with("_add_items/up.sql"), "{made:?}");
    assert!(made[1].ends_with("_add_items/down.sql"), "{made:?}");
    let text = |path: &str| std::fs::read_to_string(path).unwrap();
    assert_eq!(text(made[0]), "-- Your SQL goes here\n");
    assert_eq!(text(made[1]), "-- This file should undo anything in `up.sql`\n");
    let folder = world.stage.path().join("migrations");
    let version = |path: &std::path::Path| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        name.split('_').next().unwrap().to_owned()
    };
    // Two within one second are two versions, and they run in the order in which they were made.
    world
        .run(&["migration", "generate", "index_items", "--no-transaction", "-u"])
        .exits(0);
    let mut versions: Vec<_> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    versions.sort();
    assert_eq!(versions.len(), 2);
    assert!(version(&versions[0]) < version(&versions[1]));
    assert!(versions[1].ends_with(format!("{}_index_items", version(&versions[1]))));
    assert!(!versions[1].join("down.sql").exists());
    let metadata = std::fs::read_to_string(versions[1].join("metadata.toml")).unwrap();
    assert_eq!(metadata, "run_in_transaction = false\n");

    let taken = version(&versions[0]);
    let refused = world
        .run(&["migration", "generate", "again", "--version", &taken])
        .exits(2);
    assert!(refused.stderr.contains("is there already"), "{refused:#?}");
    for name in ["", "a/b", "../up", "a b"] {
        world.run(&["migration", "generate", name]).exits(2);
    }
}

/// Without `migrations` in the configuration Diesel's own decides, for `generate` and `run` alike.
#[test]
fn the_folder_of_diesel_toml_is_honoured() {
    let world = World::new(&["a", "b"]);
    let config = crate::harness::shards(["a", "b"].map(|name| (name, world.fleet.url(name))));
    world.stage.write("diesel-sharded.toml", &config);
    let nothing = world.run(&["migration", "run"]).exits(2);
    assert!(nothing.stderr.contains("names no migrations"), "{nothing:#?}");
    world.stage.write(
        "diesel.toml",
        "[migrations_directory]\ndir = \"db/changes\"\n",
    );
    world.run(&["migration", "generate", "first"]).exits(0);
    let folder = world.stage.path().join("db/changes");
    let made = std::fs::read_dir(&folder).unwrap().next().unwrap().unwrap();
    std::fs::write(made.path().join("up.sql"), "CREATE TABLE t1 (id BIGINT)").unwrap();
    std::fs::write(made.path().join("down.sql"), "DROP TABLE t1").unwrap();
    world.run(&["migration", "run"]).exits(0);
    for shard in ["a", "b"] {
        assert_eq!(world.tables(shard, 1), [1]);
    }
}

/// A file that could be read, but makes no sense, is named before any database is reached.
#[test]
fn what_is_wrong_with_the_files_is_told_at_once() {
    let world = World::with_tables(&["a"], 1);
    world.stage.migration("2024-01-01-000000_twice", "SELECT 1", "SELECT 1");
    world.stage.write("migrations/2024-01-05-000000_empty/readme.md", "?");
    let output = world.run(&["migration", "run"]).exits(2);
    for expected in ["2024-01-01-000000_t1", "2024-01-01-000000_twice", "2024-01-05-000000_empty"] {
        assert!(output.stderr.contains(expected), "{expected}: {output:#?}");
    }
    assert_eq!(output.stdout, "");
    assert_eq!(world.tables("a", 1), [0usize; 0]);
    for args in [&["migration", "status"][..], &["migration", "plan"], &["schema", "diff"]] {
        world.run(args).exits(2);
    }
}

/// The same on a terminal as elsewhere: no colour and no cursor movement in a pipe.
#[test]
fn a_pipe_gets_plain_lines() {
    let world = World::with_tables(&["a"], 2);
    let Output { stdout, stderr, .. } = world.run(&["migration", "run", "-p", "4"]).exits(0);
    for text in [&stdout, &stderr] {
        assert!(!text.contains('\u{1b}') && !text.contains('\r'), "{text:?}");
    }
    let lines: Vec<&str> = stdout.lines().collect();
    assert!(lines[1].starts_with("a: 2024-01-01-000000_t1 up ("), "{lines:#?}");
    assert!(lines[3].starts_with("a: done, 2 migrations in "), "{lines:#?}");
    assert!(Stage::empty().run(&["migration", "run"]).exits(2).stderr.contains("no such file"));
}
