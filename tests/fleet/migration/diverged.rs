//! Shards that are not where the others are: named before anything runs.

use super::support::{World, outcomes, text, version};

/// a has 1, 2, 3; b has 1, 2; c has 1, 3; d has 1, 2, 3 and 9, which is in no folder.
fn diverged() -> World {
    let world = World::with_tables(&["a", "b", "c", "d"], 3);
    world.run(&["migration", "run"]).exits(0);
    world.run(&["migration", "revert", "-s", "b"]).exits(0);
    world.sql("c", "DROP TABLE t2");
    let forget = |number| {
        format!(
            "DELETE FROM __diesel_schema_migrations WHERE version = '{}'",
            version(number)
        )
    };
    world.sql("c", &forget(2));
    world.sql(
        "d",
        "INSERT INTO __diesel_schema_migrations (version) VALUES ('20240109000000')",
    );
    world
}

#[test]
fn status_is_the_matrix() {
    let world = diverged();
    let output = world.run(&["migration", "status"]).exits(0);
    let row = |shard: &str| -> Vec<String> {
        let line = output
            .stdout
            .lines()
            .find(|line| line.split_whitespace().next() == Some(shard));
        line.expect("a row")
            .split_whitespace()
            .map(str::to_owned)
            .collect()
    };
    assert_eq!(row("a"), ["a", "applied", "applied", "applied", "-", "up", "to", "date"]);
    assert_eq!(row("b"), ["b", "applied", "applied", "pending", "-", "pending"]);
    assert_eq!(row("c"), ["c", "applied", "diverged", "applied", "-", "diverged"]);
    assert_eq!(row("d"), ["d", "applied", "applied", "applied", "unknown", "diverged"]);
    assert!(output.stdout.contains("20240109000000  (in no folder)"), "{output:#?}");

    world.run(&["migration", "status", "--check"]).exits(3);
    world.run(&["migration", "status", "--check", "-s", "a"]).exits(0);
    for shard in ["b", "c", "d"] {
        world.run(&["migration", "status", "--check", "-s", shard]).exits(3);
    }
    let output = world
        .run(&["migration", "status", "--check", "--format", "json"])
        .exits(3);
    let sum = &output.events_named("status_finished")[0];
    assert_eq!(sum["up_to_date"], 1);
    assert_eq!(sum["pending"], 1);
    assert_eq!(sum["diverged"], 2);
}

#[test]
fn run_refuses_until_it_is_allowed() {
    let world = diverged();
    let run = world.run(&["migration", "run", "--format", "json"]).exits(1);
    let kinds: Vec<(String, String)> = run
        .events_named("shard_finished")
        .iter()
        .filter(|event| event["outcome"] == "failed")
        .map(|event| (text(&event["shard"]), text(&event["failures"][0]["kind"])))
        .collect();
    assert!(kinds.contains(&("c".to_owned(), "out_of_order".to_owned())), "{kinds:?}");
    assert!(kinds.contains(&("d".to_owned(), "unknown".to_owned())), "{kinds:?}");
    assert_eq!(world.versions("b").len(), 2, "nothing has run anywhere");

    let plan = world.run(&["migration", "plan"]).exits(1);
    assert!(plan.stdout.contains("2 refused"), "{plan:#?}");
    for option in ["--allow-out-of-order", "--allow-unknown"] {
        assert!(plan.stdout.contains(option), "{option}: {plan:#?}");
    }

    let run = world
        .run(&["migration", "run", "--allow-out-of-order", "--allow-unknown", "--format", "json"])
        .exits(0);
    let ran: Vec<usize> = outcomes(&run).into_iter().map(|(_, _, ran)| ran).collect();
    assert_eq!(ran, [0, 1, 1, 0]);
    assert_eq!(world.tables("c", 3), [1, 2, 3]);
    world.run(&["migration", "status", "--check"]).exits(3);
    world
        .run(&["migration", "repair", "d", "2024-01-09-000000", "--mark", "reverted"])
        .exits(0);
    world.run(&["migration", "status", "--check"]).exits(0);
}

/// Who would revert what differs between shards is asked first.
#[test]
fn revert_and_redo_are_each_shards_own() {
    let world = World::with_tables(&["a", "b"], 3);
    world.run(&["migration", "run"]).exits(0);
    world.run(&["migration", "revert", "-s", "b"]).exits(0);
    for command in ["revert", "redo"] {
        let refused = world.run(&["migration", command, "-n", "2"]).exits(1);
        assert!(refused.stdout.contains("its last versions are not those"), "{refused:#?}");
    }
    assert_eq!(world.versions("a").len(), 3);
    world.run(&["migration", "redo", "-n", "2", "--force"]).exits(0);
    assert_eq!(world.versions("a").len(), 3);
    assert_eq!(world.versions("b").len(), 2);
    world.run(&["migration", "revert", "-n", "2", "--force"]).exits(0);
    assert_eq!(world.versions("a"), [version(1)]);
    assert_eq!(world.versions("b"), Vec::<String>::new());
}

#[test]
fn an_edited_migration_is_found() {
    let world = World::with_tables(&["a", "b"], 2);
    world.run(&["migration", "run"]).exits(0);
    world.stage.write(
        "migrations/2024-01-01-000000_t1/up.sql",
        "CREATE TABLE t1 (id BIGINT PRIMARY KEY, more INT);\n",
    );
    let status = world.run(&["migration", "status", "--check"]).exits(3);
    assert!(status.stdout.contains("edited"), "{status:#?}");
    world.table(3);
    let run = world.run(&["migration", "run"]).exits(1);
    assert!(run.stdout.contains("20240101000000"), "{run:#?}");
    assert_eq!(world.tables("a", 3), [1, 2]);
    world.run(&["migration", "run", "--allow-edited"]).exits(0);
    assert_eq!(world.tables("a", 3), [1, 2, 3]);
    for shard in ["a", "b"] {
        world
            .run(&["migration", "repair", shard, &version(1), "--mark", "applied"])
            .exits(0);
    }
    world.run(&["migration", "status", "--check"]).exits(0);
}
