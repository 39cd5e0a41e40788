//! A shard fails, or is not there: the others are told apart, and running again goes on.

use super::support::{World, config, nowhere, outcomes, version};
use crate::harness::shards;

fn outcome(shard: &str, outcome: &str, ran: usize) -> (String, String, usize) {
    (shard.to_owned(), outcome.to_owned(), ran)
}

#[test]
fn one_shard_fails_half_way_through_the_fleet() {
    let world = World::with_tables(&["a", "b", "c", "d", "e"], 2);
    // Somebody has made the second table there already.
    world.sql("c", "CREATE TABLE t2 (other INT)");
    let run = world.run(&["migration", "run", "--format", "json"]).exits(1);
    assert_eq!(
        outcomes(&run),
        [
            outcome("a", "done", 2),
            outcome("b", "done", 2),
            outcome("c", "failed", 1),
            outcome("d", "not_tried", 0),
            outcome("e", "not_tried", 0),
        ]
    );
    let finished = run.events_named("shard_finished");
    let failed = finished.iter().find(|event| event["shard"] == "c").unwrap();
    let failure = &failed["failures"][0];
    assert_eq!(failure["version"], version(2));
    assert_eq!(failure["statement"]["number"], 1);
    assert!(failure["statement"]["sql"].as_str().unwrap().contains("CREATE TABLE t2"));
    assert!(failure["database"].as_str().unwrap().contains("t2"), "{failure}");
    assert_eq!(world.versions("c"), [version(1)]);
    assert_eq!(world.versions("a"), [version(1), version(2)], "nothing is taken back");

    let last = &run.events_named("finished")[0];
    for (count, expected) in [("succeeded", 2), ("failed", 1), ("skipped", 0), ("not_tried", 2)] {
        assert_eq!(last[count], expected, "{count} in {last}");
    }

    // For people, the same in words.
    let run = world.run(&["migration", "run"]);
    assert_eq!(run.code, Some(1));
    for expected in ["shard c: migration 20240102000000", "not tried: d, e"] {
        assert!(run.stdout.contains(expected), "{expected}: {run:#?}");
    }
}

#[test]
fn the_other_shards_can_be_asked_to_go_on() {
    let world = World::with_tables(&["a", "b", "c"], 2);
    world.sql("a", "CREATE TABLE t1 (other INT)");
    let run = world
        .run(&["migration", "run", "--keep-going", "--format", "json"])
        .exits(1);
    assert_eq!(
        outcomes(&run),
        [
            outcome("a", "failed", 0),
            outcome("b", "done", 2),
            outcome("c", "done", 2),
        ]
    );
}

/// 64 shards, the 20th fails, is put right, and running again does what is left.
#[test]
fn resuming_is_running_again() {
    let names: Vec<String> = (1..=64).map(|number| format!("s{number:02}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let world = World::with_tables(&names, 2);
    world.sql("s20", "CREATE TABLE t2 (other INT)");
    let run = world.run(&["migration", "run", "--format", "json"]).exits(1);
    for (index, found) in outcomes(&run).into_iter().enumerate() {
        let expected = match index + 1 {
            ..20 => outcome(names[index], "done", 2),
            20 => outcome("s20", "failed", 1),
            _ => outcome(names[index], "not_tried", 0),
        };
        assert_eq!(found, expected);
    }
    let finished = &run.events_named("finished")[0];
    assert_eq!(
        (&finished["succeeded"], &finished["failed"], &finished["not_tried"]),
        (&19.into(), &1.into(), &44.into())
    );
    let text = world.run(&["migration", "status"]).exits(0).stdout;
    assert!(text.contains("19 up to date"), "{text}");

    world.sql("s20", "DROP TABLE t2");
    let run = world
        .run(&["migration", "run", "--format", "json", "--parallel", "4"])
        .exits(0);
    for (index, (shard, _, ran)) in outcomes(&run).into_iter().enumerate() {
        let expected = match index + 1 {
            ..20 => 0,
            20 => 1,
            _ => 2,
        };
        assert_eq!(ran, expected, "{shard}");
    }
    world.run(&["migration", "status", "--check"]).exits(0);
}

#[test]
fn a_shard_that_is_down_stops_everything_before_it_begins() {
    let world = World::with_tables(&["a", "b"], 1);
    let text = format!(
        "{}[keyspaces.more]\nshards = [\"c\"]\nmigrations = \"migrations\"\n",
        config(&world.fleet)
    );
    let text = format!("{}{text}", shards([("c", nowhere(&world.fleet))]));
    world.stage.write("diesel-sharded.toml", &text);

    let run = world.run(&["migration", "run", "--format", "json"]).exits(1);
    assert_eq!(
        outcomes(&run),
        [
            outcome("a", "not_tried", 0),
            outcome("b", "not_tried", 0),
            outcome("c", "failed", 0),
        ]
    );
    assert_eq!(world.versions("a"), Vec::<String>::new());

    // Whoever could not be reached has not nothing to do.
    let plan = world.run(&["migration", "plan"]).exits(1);
    assert!(plan.stdout.contains("c\n    refused, see below\n"), "{plan:#?}");
    assert!(!plan.stdout.contains("nothing to do"), "{plan:#?}");

    let status = world.run(&["migration", "status"]).exits(1);
    assert!(status.stdout.contains("not readable"), "{status:#?}");
    assert!(status.stdout.contains("2 with pending migrations"), "{status:#?}");
    world.run(&["migration", "status", "--check"]).exits(1);
    let pending = world.run(&["migration", "pending"]).exits(1);
    assert_eq!(pending.stdout, "true\n");
    assert!(pending.stderr.contains("shard c"), "{pending:#?}");

    let run = world
        .run(&["migration", "run", "--skip-unreachable", "--format", "json"])
        .exits(1);
    assert_eq!(
        outcomes(&run),
        [
            outcome("a", "done", 1),
            outcome("b", "done", 1),
            outcome("c", "skipped", 0),
        ]
    );
    let last = &run.events_named("finished")[0];
    assert_eq!((&last["skipped"], &last["not_tried"]), (&1.into(), &0.into()), "{last}");
    // Whoever lets more fail lets the others go on, also before anything has begun.
    world.table(2);
    let plan = world.run(&["migration", "plan"]).exits(1);
    assert!(plan.stdout.contains("1 refused: `migration run` would change nothing"), "{plan:#?}");
    let run = world.run(&["migration", "run"]).exits(1);
    assert!(
        run.stdout.contains("--skip-unreachable (or --keep-going, with the other shards only)"),
        "{run:#?}"
    );
    for (number, more) in [(2, &["--keep-going"][..]), (3, &["--max-failures", "2"])] {
        world.table(number);
        let plan = world.run(&[&["migration", "plan"], more].concat()).exits(1);
        assert!(plan.stdout.contains("1 refused: `migration run` would change the others"), "{plan:#?}");
        let args = [&["migration", "run", "--format", "json"], more].concat();
        assert_eq!(
            outcomes(&world.run(&args).exits(1)),
            [
                outcome("a", "done", 1),
                outcome("b", "done", 1),
                outcome("c", "failed", 0),
            ]
        );
    }
    // Without it the others are all there is.
    world.run(&["migration", "run", "-s", "a", "-s", "b"]).exits(0);
    world.run(&["migration", "status", "--check", "-k", "orders"]).exits(0);
}

#[test]
fn the_canary_is_alone_until_it_has_sung() {
    let world = World::with_tables(&["a", "b", "c"], 1);
    world.sql("b", "CREATE TABLE t1 (other INT)");
    let run = world
        .run(&["migration", "run", "--canary", "b", "-p", "3", "--keep-going", "--format", "json"])
        .exits(1);
    assert_eq!(
        outcomes(&run),
        [
            outcome("a", "not_tried", 0),
            outcome("b", "failed", 0),
            outcome("c", "not_tried", 0),
        ]
    );
    let run = world
        .run(&["migration", "run", "--canary", "c", "-s", "a", "-s", "c", "--format", "json"])
        .exits(0);
    let order: Vec<_> = run
        .events_named("shard_finished")
        .iter()
        .map(|event| event["shard"].clone())
        .collect();
    assert_eq!(order, ["c", "a"]);
    let typo = world.run(&["migration", "run", "--canary", "bb"]).exits(2);
    assert!(typo.stderr.contains("did you mean b?"), "{typo:#?}");
    world
        .run(&["migration", "run", "--canary", "b", "-s", "a"])
        .exits(2);
}
