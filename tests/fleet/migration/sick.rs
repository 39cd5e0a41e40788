//! Something is wrong with one shard: that one is named, and of the others only what is true is said.

use serde_json::Value;

use super::support::{World, outcomes, text, version};
use crate::harness::Output;

/// Three shards with two tables each; on `b` the second was begun once more and has failed.
fn one_dirty() -> World {
    let world = World::with_tables(&["a", "b", "c"], 2);
    world.run(&["migration", "run"]).exits(0);
    world.sql(
        "b",
        "INSERT INTO diesel_sharded_progress (version, name, direction, done, total, error, started_at) \
         VALUES ('20240102000000', '2024-01-02-000000_t2', 'down', 0, 1, 'somebody tripped', 1)",
    );
    world
}

fn kinds(run: &Output) -> Vec<(String, String)> {
    let failures = |event: &Value| -> Vec<(String, String)> {
        let shard = text(&event["shard"]);
        let list = event["failures"].as_array().cloned().unwrap_or_default();
        list.iter().map(|one| (shard.clone(), text(&one["kind"]))).collect()
    };
    run.events_named("shard_finished").iter().flat_map(failures).collect()
}

fn sick_is_told(world: &World, kind: &str) {
    let sick = [("b".to_owned(), kind.to_owned())];
    for command in ["revert", "redo"] {
        let run = world.run(&["migration", command, "--format", "json"]).exits(1);
        assert_eq!(kinds(&run), sick, "{run:#?}");
        let found: Vec<String> = outcomes(&run).into_iter().map(|one| one.1).collect();
        assert_eq!(found, ["not_tried", "failed", "not_tried"]);
    }
    for (more, then) in [(&[][..], "change nothing"), (&["--keep-going"], "change the others")] {
        let plan = world.run(&[&["migration", "plan", "--revert", "1"], more].concat()).exits(1);
        for expected in [
            "a, c\n    down 2024-01-02-000000_t2",
            "\nb\n    refused, see below\n",
            &format!("3 databases, 2 steps, and 1 refused: `migration revert` would {then}"),
        ] {
            assert!(plan.stdout.contains(expected), "{expected}: {plan:#?}");
        }
        assert!(!plan.stdout.contains("last versions"), "{plan:#?}");
    }
    let run = world
        .run(&["migration", "redo", "--keep-going", "--format", "json"])
        .exits(1);
    assert_eq!(kinds(&run), sick, "{run:#?}");
    let run = world
        .run(&["migration", "revert", "--keep-going", "--format", "json"])
        .exits(1);
    assert_eq!(kinds(&run), sick, "{run:#?}");
    let found: Vec<(String, usize)> =
        outcomes(&run).into_iter().map(|one| (one.1, one.2)).collect();
    let done = || ("done".to_owned(), 1);
    assert_eq!(found, [done(), ("failed".to_owned(), 0), done()]);
    for shard in ["a", "c"] {
        assert_eq!(world.versions(shard), [version(1)]);
    }
}

#[test]
fn a_dirty_shard_does_not_keep_the_others_from_being_reverted() {
    let world = one_dirty();
    let revert = world.run(&["migration", "revert"]).exits(1);
    assert!(revert.stdout.contains("shard b: migration 20240102000000: it stopped half-way"), "{revert:#?}");
    sick_is_told(&world, "dirty");
}

#[test]
fn a_shard_whose_record_cannot_be_read_does_not_either() {
    let world = one_dirty();
    world.sql("b", "DROP TABLE diesel_sharded_migration");
    world.sql("b", "CREATE TABLE diesel_sharded_migration (other INT)");
    let revert = world.run(&["migration", "revert"]).exits(1);
    assert!(revert.stdout.contains("shard b: reading what is recorded in the database failed: "), "{revert:#?}");
    assert!(revert.stdout.contains("or restore them from a backup"), "{revert:#?}");
    sick_is_told(&world, "bookkeeping");
}

/// Shards that are well and differ are refused, all of them, so that leaving some out is no way.
#[test]
fn shards_that_differ_are_still_refused() {
    let world = World::with_tables(&["a", "b", "c"], 2);
    world.run(&["migration", "run"]).exits(0);
    world.run(&["migration", "revert", "-s", "c"]).exits(0);
    let revert = world.run(&["migration", "revert"]).exits(1);
    assert!(revert.stdout.contains("to go on all the same: --force\n"), "{revert:#?}");
    assert!(!revert.stdout.contains("--keep-going"), "{revert:#?}");
    assert_eq!(revert.stdout.matches("last versions are not those").count(), 3, "{revert:#?}");
}

/// What is advised helps: no option reverts what has no folder.
#[test]
fn a_version_without_a_folder_is_not_reverted_and_can_be_marked() {
    let world = World::with_tables(&["a", "b"], 1);
    world.run(&["migration", "run"]).exits(0);
    world.sql("b", "INSERT INTO __diesel_schema_migrations (version) VALUES ('2030')");
    for command in ["revert", "redo"] {
        let run = world.run(&["migration", command]).exits(1);
        assert!(!run.stdout.contains("--allow-unknown"), "{run:#?}");
        assert!(run.stdout.contains("restore its folder"), "{run:#?}");
    }
    let plan = world.run(&["migration", "plan", "--revert", "1"]).exits(1);
    assert!(!plan.stdout.contains("--allow-unknown"), "{plan:#?}");
    let command = plan.stdout.split('`').nth(1).unwrap();
    let words: Vec<&str> = command.split(' ').collect();
    assert_eq!(words, ["diesel-sharded", "migration", "repair", "b", "2030", "--mark", "reverted"]);
    // Every command says the same of it.
    let repair = world.run(&["migration", "repair", "b", "2030", "--mark", "applied"]).exits(1);
    assert!(repair.stdout.contains(command), "{repair:#?}");
    let run = world.run(&["migration", "run"]).exits(1);
    assert!(run.stdout.contains(command) && run.stdout.contains("--allow-unknown"), "{run:#?}");
    world.run(&words[1..]).exits(0);
    world.run(&["migration", "revert"]).exits(0);
    assert_eq!(world.versions("b"), Vec::<String>::new());
}

/// Whoever has said --keep-going is not told to say it.
#[test]
fn advice_does_not_repeat_what_was_said() {
    let world = World::with_tables(&["a", "b"], 2);
    world.run(&["migration", "run"]).exits(0);
    world.sql("b", "DELETE FROM __diesel_schema_migrations WHERE version = '20240101000000'");
    let advice = "to go on all the same: --allow-out-of-order";
    for command in ["run", "plan"] {
        let run = world.run(&["migration", command]).exits(1);
        let told = format!("{advice} (or --keep-going, with the other shards only)\n");
        assert!(run.stdout.contains(&told), "{run:#?}");
        for more in [&["--keep-going"][..], &["--max-failures", "2"]] {
            let run = world.run(&[&["migration", command], more].concat()).exits(1);
            assert!(run.stdout.contains(&format!("{advice}\n")), "{run:#?}");
        }
    }
}
