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
        "\n        diesel-sharded migration repair b 20240102000000 --resume-from 2\n",
        "\n        diesel-sharded migration repair b 20240102000000 --mark applied\n",
        "\n        diesel-sharded migration repair b 20240102000000 --mark reverted\n",
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

/// What a failure advises can be copied: each pair of backticks holds one whole command.
#[test]
fn what_is_advised_can_be_run() {
    let world = half();
    let run = world.run(&["migration", "run", "-s", "b"]).exits(1);
    let told = run.stdout.split_once("half-way").unwrap().1;
    let commands: Vec<Vec<&str>> = told
        .split('`')
        .skip(1)
        .step_by(2)
        .map(|command| command.split(' ').collect())
        .collect();
    assert_eq!(commands.len(), 3, "{run:#?}");
    let last: Vec<&[&str]> = commands.iter().map(|words| &words[5..]).collect();
    assert_eq!(last, [&["--resume-from", "2"][..], &["--mark", "applied"], &["--mark", "reverted"]]);
    world.sql("b", "DROP TABLE ok1");
    for command in &commands {
        assert_eq!(command[0], "diesel-sharded");
        world.run(&command[1..]).exits(0);
    }
}

/// Not every migration is meant to have a way back.
#[test]
fn a_migration_without_a_way_back_is_told_as_one() {
    let world = World::new(&["a"]);
    world.stage.write("migrations/2024-01-01-000000_one/up.sql", "CREATE TABLE one (id INT);");
    world.run(&["migration", "run"]).exits(0);
    let revert = world.run(&["migration", "revert"]).exits(1);
    assert!(
        revert.stdout.contains("has no down.sql, so it cannot be reverted: write one if there is to be"),
        "{revert:#?}"
    );
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
