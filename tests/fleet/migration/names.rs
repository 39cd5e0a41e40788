//! What commands print can be given to them, and is the same everywhere.

use super::support::{World, version};

const HALF: &str = "2024-01-02-000000_half_way";

/// The second of two statements fails on `b`.
fn half() -> World {
    let world = World::with_tables(&["a", "b"], 1);
    world.stage.migration(HALF, "CREATE TABLE half (id INT);\nCREATE TABLE ok1 (id INT);\n", "SELECT 1");
    let metadata = format!("migrations/{HALF}/metadata.toml");
    world.stage.write(&metadata, "run_in_transaction = false\n");
    world.sql("b", "CREATE TABLE ok1 (id INT)");
    world.run(&["migration", "run"]).exits(1);
    world
}

#[test]
fn a_repair_takes_the_name_that_list_prints() {
    let world = half();
    let list = world.run(&["migration", "list"]).exits(0).stdout;
    let line = list.lines().find(|line| line.contains("half_way")).unwrap();
    assert_eq!(line, format!("  [!] {HALF} (on 1 of 2, dirty on b)"));
    let json = world.run(&["migration", "list", "--format", "json"]).exits(0);
    assert_eq!(json.events_named("version")[1]["dirty"], serde_json::json!(["b"]));
    let name = line.split_whitespace().nth(1).unwrap();
    assert_eq!(name, HALF.split_whitespace().next().unwrap());

    let typo = world
        .run(&["migration", "repair", "b", "2024-01-02-000000_half_why", "--mark", "applied"])
        .exits(1);
    assert!(typo.stdout.contains(&format!("did you mean {HALF}?")), "{typo:#?}");
    world.sql("b", "DROP TABLE ok1");
    world.run(&["migration", "repair", "b", name, "--resume-from", "2"]).exits(0);
    assert_eq!(world.versions("b"), [version(1), version(2)]);
}

#[test]
fn repair_wants_to_be_asked_to_send_again_what_has_run() {
    let world = half();
    let resume = ["migration", "repair", "b", HALF, "--resume-from", "1"];
    let refused = world.run(&resume).exits(1);
    assert!(refused.stdout.contains("say --force"), "{refused:#?}");
    world.sql("b", "DROP TABLE ok1; DROP TABLE half");
    let forced = world.run(&[&resume[..], &["--force"]].concat()).exits(0);
    assert!(forced.stdout.contains("warning: 20240102000000: statement 1 has run already"), "{forced:#?}");
    world.run(&["migration", "repair", "b", HALF, "--mark", "applied", "--force"]).exits(2);
}

#[test]
fn status_offers_only_what_is_taken() {
    let world = half();
    let up = "CREATE TABLE half (id INT, more INT);\nCREATE TABLE ok1 (id INT);\n";
    world.stage.migration(HALF, up, "SELECT 1");
    let status = world.run(&["migration", "status"]).exits(0).stdout;
    assert!(status.contains("(not --resume-from: its statement 1 is not the one that ran here"), "{status}");
    assert!(!status.contains(" --resume-from 2\n"), "{status}");
    assert!(status.contains(" --mark applied\n"), "{status}");
}
