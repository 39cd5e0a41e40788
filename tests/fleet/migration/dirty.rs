//! A migration outside of a transaction stops half-way: what ran, what to do, and how it ends.

use super::support::{World, outcomes, text, version};

/// The second of three statements fails on `b`, where `ok1` exists.
fn half() -> World {
    let world = World::with_tables(&["a", "b", "c"], 1);
    world.stage.migration(
        "2024-01-02-000000_half",
        "CREATE TABLE half (id INT);\nCREATE TABLE ok1 (id INT);\nCREATE TABLE ok2 (id INT);\n",
        "DROP TABLE ok2;\nDROP TABLE ok1;\nDROP TABLE half;\n",
    );
    world.stage.write(
        "migrations/2024-01-02-000000_half/metadata.toml",
        "run_in_transaction = false\n",
    );
    world.sql("b", "CREATE TABLE ok1 (id INT)");
    let run = world.run(&["migration", "run", "--format", "json"]).exits(1);
    let found: Vec<String> = outcomes(&run).into_iter().map(|one| one.1).collect();
    assert_eq!(found, ["done", "failed", "not_tried"]);
    let finished = run.events_named("shard_finished");
    let failure = &finished.iter().find(|event| event["shard"] == "b").unwrap()["failures"][0];
    assert_eq!(failure["statement"]["number"], 2);
    assert_eq!(failure["statement"]["of"], 3);
    assert!(text(&failure["message"]).contains("repair"), "{failure}");
    world
}

fn has(world: &World, shard: &str, table: &str) -> bool {
    use diesel::connection::SimpleConnection;

    let mut conn = world.fleet.direct(shard);
    conn.batch_execute(&format!("SELECT count(*) FROM {table}")).is_ok()
}

#[test]
fn the_state_is_recorded_and_named() {
    let world = half();
    assert!(has(&world, "b", "half"), "the first statement has stayed");
    assert!(!has(&world, "b", "ok2"));
    let status = world.run(&["migration", "status"]).exits(0);
    for expected in [
        "dirty",
        "20240102000000 (up) stopped after 1 of 3 statements",
        "diesel-sharded migration repair b 20240102000000 --resume-from 2",
    ] {
        assert!(status.stdout.contains(expected), "{expected}: {status:#?}");
    }
    world.run(&["migration", "status", "--check"]).exits(3);
    let status = world.run(&["migration", "status", "--format", "json"]).exits(0);
    let rows = status.events_named("shard_status");
    let dirty = &rows.iter().find(|row| row["shard"] == "b").unwrap()["dirty"][0];
    assert_eq!((&dirty["done"], &dirty["of"]), (&1.into(), &3.into()));

    // Nothing more runs there, and by default nowhere, until somebody has looked.
    let run = world.run(&["migration", "run"]).exits(1);
    assert!(run.stdout.contains("shard b"), "{run:#?}");
    assert_eq!(world.versions("c"), Vec::<String>::new());
    world.run(&["migration", "run", "-s", "c"]).exits(0);
}

#[test]
fn it_goes_on_from_a_statement() {
    let world = half();
    world.sql("b", "DROP TABLE ok1");
    let repair = world
        .run(&["migration", "repair", "b", &version(2), "--resume-from", "2"])
        .exits(0);
    assert!(repair.stdout.contains("b: done"), "{repair:#?}");
    assert!(has(&world, "b", "ok1") && has(&world, "b", "ok2"));
    world.run(&["migration", "run"]).exits(0);
    world.run(&["migration", "status", "--check"]).exits(0);
}

#[test]
fn it_fails_again_where_nothing_was_put_right() {
    let world = half();
    let repair = world
        .run(&["migration", "repair", "b", "2024-01-02-000000", "--resume-from", "2"])
        .exits(1);
    assert!(repair.stdout.contains("CREATE TABLE ok1"), "{repair:#?}");
    world.run(&["migration", "status", "--check", "-s", "b"]).exits(3);
    for args in [
        &["migration", "repair", "b", "20240102000000", "--resume-from", "9"][..],
        &["migration", "repair", "b", "20990101000000", "--mark", "applied"],
        &["migration", "repair", "a", "20240101000000", "--resume-from", "1"],
    ] {
        world.run(args).exits(1);
    }
    let unknown = world
        .run(&["migration", "repair", "bb", "1", "--mark", "applied"])
        .exits(2);
    assert!(unknown.stderr.contains("did you mean b?"), "{unknown:#?}");
    world.run(&["migration", "repair", "b", "20240102000000"]).exits(2);
}

#[test]
fn it_is_finished_or_undone_by_hand() {
    let world = half();
    world.sql("b", "CREATE TABLE ok2 (id INT)");
    world
        .run(&["migration", "repair", "b", &version(2), "--mark", "applied"])
        .exits(0);
    assert_eq!(world.versions("b"), [version(1), version(2)]);
    world.run(&["migration", "run"]).exits(0);
    world.run(&["migration", "status", "--check"]).exits(0);

    let world = half();
    world.sql("b", "DROP TABLE half; DROP TABLE ok1");
    world
        .run(&["migration", "repair", "b", &version(2), "--mark", "reverted"])
        .exits(0);
    assert_eq!(world.versions("b"), [version(1)]);
    world.run(&["migration", "run"]).exits(0);
    assert!(has(&world, "b", "ok2"));
}
