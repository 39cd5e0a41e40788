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
    let neither = world.run(&["migration", "repair", "b", "20240102000000"]).exits(2);
    for option in ["--resume-from", "--mark"] {
        assert!(neither.stderr.contains(option), "{neither:#?}");
    }
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

/// The statements that ran are remembered. Whoever changes one of them has not changed the database.
#[test]
fn it_does_not_go_on_with_another_text_than_what_ran() {
    let world = half();
    let folder = "2024-01-02-000000_half";
    let up = |text: &str| world.stage.migration(folder, text, "SELECT 1");
    let resume = ["migration", "repair", "b", "20240102000000", "--resume-from"];
    let resume = |from| world.run(&[&resume[..], &[from]].concat());
    world.sql("b", "DROP TABLE ok1");
    let rest = "CREATE TABLE ok1 (id INT);\nCREATE TABLE ok2 (id INT);\n";

    up(&format!("CREATE TABLE half (id INT, more INT);\n{rest}"));
    let refused = resume("2").exits(1);
    for expected in ["its statement 1 is not the one that ran here", "restore the text", "--mark applied"] {
        assert!(refused.stdout.contains(expected), "{expected}: {refused:#?}");
    }
    up(&format!("SELECT 1;\nCREATE TABLE half (id INT);\n{rest}"));
    let refused = resume("3").exits(1);
    assert!(
        refused.stdout.contains("what ran here as its statement 1 is its statement 2 now"),
        "{refused:#?}"
    );
    assert_eq!(world.versions("b"), [version(1)]);
    assert!(!has(&world, "b", "ok1"), "nothing is sent");
    world.run(&["migration", "status", "--check", "-s", "b"]).exits(3);

    // What did not run may be corrected, and a remark is no other statement.
    let rest = rest.replace("ok1 (id INT)", "ok1 (id INT, more INT)");
    up(&format!("-- corrected\nCREATE TABLE half\n    (id INT);\n{rest}"));
    resume("2").exits(0);
    world.sql("b", "INSERT INTO ok1 (id, more) VALUES (1, 2)");
    world.run(&["migration", "status", "--check", "-s", "b"]).exits(0);
}

/// A shard that an earlier state of this crate left dirty has no such record, and can be repaired.
#[test]
fn what_was_left_before_statements_were_remembered_can_be_repaired() {
    let world = half();
    world.sql("b", "DROP TABLE diesel_sharded_statements");
    world.sql("b", "DELETE FROM diesel_sharded_internal WHERE version = '00000000000003'");
    world.run(&["migration", "status", "--check", "-s", "b"]).exits(3);
    world.sql("b", "DROP TABLE ok1");
    world
        .run(&["migration", "repair", "b", &version(2), "--resume-from", "2"])
        .exits(0);
    assert!(has(&world, "b", "diesel_sharded_statements"));
    world.run(&["migration", "status", "--check", "-s", "b"]).exits(0);
}

#[test]
fn what_a_repair_records_is_told() {
    let world = half();
    let mark = |shard: &str, version: &str, state: &str| {
        world.run(&["migration", "repair", shard, version, "--mark", state])
    };
    for (shard, number, state, told) in [
        ("b", 2, "applied", "b: recorded: 20240102000000 as applied (it was dirty)"),
        ("b", 2, "applied", "b: 20240102000000 is recorded as applied already: nothing is changed"),
        ("b", 2, "reverted", "b: recorded: 20240102000000 as reverted (it was applied; `migration run` applies it again)"),
        ("b", 2, "reverted", "b: 20240102000000 is not recorded as applied: nothing is changed"),
        ("b", 1, "reverted", "b: recorded: 20240101000000 as reverted (it was applied; `migration run` applies it again)"),
    ] {
        let marked = mark(shard, &version(number), state).exits(0);
        assert_eq!(marked.stdout.trim_end(), told, "{marked:#?}");
    }
    assert!(world.versions("b").is_empty());
    let json = ["migration", "repair", "b", "20240101000000", "--mark", "applied", "--format", "json"];
    let finished = &world.run(&json).exits(0).events_named("shard_finished")[0];
    assert_eq!(finished["outcome"], "done");
    assert_eq!(
        finished["marked"],
        serde_json::json!({"version": version(1), "applied": true, "was": "pending"})
    );

    // A version that nobody knows is a mistake, and no option of `run` helps.
    for state in ["applied", "reverted"] {
        let unknown = mark("b", "20240102000001", state).exits(1);
        assert!(unknown.stdout.contains("did you mean 20240102000000?"), "{unknown:#?}");
        let unknown = mark("b", "77", state).exits(1);
        for expected in ["migration 77: neither a source", "`diesel-sharded migration status`"] {
            assert!(unknown.stdout.contains(expected), "{unknown:#?}");
        }
        assert!(!unknown.stdout.contains("--allow-unknown"), "{unknown:#?}");
    }
    // One that only the database knows can be taken out of its record.
    world.sql("b", "INSERT INTO __diesel_schema_migrations (version) VALUES ('2030')");
    let gone = mark("b", "2030", "reverted").exits(0);
    assert!(gone.stdout.contains("as reverted (it was applied, and in no folder)"), "{gone:#?}");
    mark("b", "2030", "reverted").exits(1);
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
