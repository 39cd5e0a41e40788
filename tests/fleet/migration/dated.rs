//! Tables that a date rule names: made by migrations, made ahead, retired on request.

use serde_json::Value;

use super::super::backend::NAME;
use super::processes::kill_when;
use super::support::{World, text};
use crate::harness::{Output, shards};

/// A year, counted from the present one.
fn year(offset: i16) -> i16 {
    let now = jiff::tz::TimeZone::UTC.to_datetime(jiff::Timestamp::now());
    now.year() + offset
}

/// Two shards that have the years in turn, from three years ago until three years from now, with a table
/// and another that refers to it.
fn world() -> World {
    let world = World::new(&["a", "b"]);
    let names = world.fleet.shards();
    let urls = names.iter().map(|name| (name.as_str(), world.fleet.url(name)));
    let config = format!(
        "{}[keyspaces.events]
shards = {names:?}
migrations = \"migrations\"
key = \"date\"
algorithm = {{ kind = \"date\", every = \"year\", from = \"{}\", until = \"{}\" }}
[keyspaces.events.tables]
event = {{ key_column = \"day\", by_rule = true }}
event_log = {{ key_column = \"day\", pattern = \"log_{{date}}\" }}
",
        shards(urls),
        year(-3),
        year(4)
    );
    world.stage.write("diesel-sharded.toml", &config);
    world.stage.migration(
        "2024-01-01-000000_event",
        "CREATE TABLE event (id BIGINT PRIMARY KEY, day DATE NOT NULL);
         CREATE INDEX ix_day ON event (day);
         CREATE TABLE event_log (id BIGINT PRIMARY KEY, day DATE NOT NULL, event_id BIGINT NOT NULL,
            CONSTRAINT fk_event FOREIGN KEY (event_id) REFERENCES event (id));\n",
        "DROP TABLE event_log; DROP TABLE event;\n",
    );
    world
}

fn later(world: &World) {
    world.stage.migration(
        "2024-01-02-000000_note",
        "ALTER TABLE event ADD COLUMN note VARCHAR(20);\n",
        "ALTER TABLE event DROP COLUMN note;\n",
    );
}

/// The parts of all shards that are in a state, by `tables list`.
fn parts(world: &World, state: &str) -> Vec<String> {
    let list = world.run(&["tables", "list", "--format", "json"]).exits(0);
    let mut found = Vec::new();
    for shard in list.events_named("shard_tables") {
        for part in shard["tables"].as_array().expect("a list") {
            if part["state"] == state {
                found.push(text(&part["part"]));
            }
        }
    }
    found.sort();
    found
}

/// The names of both tables for these years.
fn both(years: impl IntoIterator<Item = i16>) -> Vec<String> {
    let mut names: Vec<String> = years
        .into_iter()
        .flat_map(|offset| [format!("event_{}", year(offset)), format!("log_{}", year(offset))])
        .collect();
    names.sort();
    names
}

/// Everything that a run made or took away.
fn done(output: &Output) -> Vec<String> {
    let mut tables: Vec<String> = output
        .events_named("table_done")
        .iter()
        .map(|event| text(&event["table"]))
        .collect();
    tables.sort();
    tables
}

/// The shard that has a part.
fn shard_of(world: &World, part: &str) -> String {
    let list = world.run(&["tables", "list", "--format", "json"]).exits(0);
    let has = |shard: &&Value| {
        let parts = shard["tables"].as_array().expect("a list");
        parts.iter().any(|one| one["part"] == part)
    };
    let shards = list.events_named("shard_tables");
    text(&shards.iter().find(has).expect("a shard")["shard"])
}

#[test]
fn migrations_run_over_the_parts_that_have_begun_and_the_next() {
    let world = world();
    assert_eq!(parts(&world, "there"), [""; 0]);
    world.run(&["migration", "run"]).exits(0);
    assert_eq!(parts(&world, "there"), both(-3..=1));
    assert_eq!(parts(&world, "ahead"), both(2..=3));
    later(&world);
    world.run(&["migration", "run"]).exits(0);
    world.run(&["migration", "status", "--check"]).exits(0);
    world.run(&["schema", "diff"]).exits(0);
    for offset in -3..=1 {
        let part = format!("event_{}", year(offset));
        let shard = shard_of(&world, &part);
        world.sql(&shard, &format!("SELECT note FROM {part}"));
    }
    world.run(&["migration", "revert", "--all"]).exits(0);
    assert_eq!(parts(&world, "there"), [""; 0]);
}

#[test]
fn tables_made_ahead_are_what_all_migrations_made_of_the_others() {
    let world = world();
    world.run(&["migration", "run"]).exits(0);
    later(&world);
    // A pending migration is no part of it, and finds the new tables later.
    let ensured = world.run(&["tables", "ensure", "--ahead", "2", "--format", "json"]);
    assert_eq!(done(&ensured.exits(0)), both(2..=2));
    world.run(&["migration", "run"]).exits(0);
    let ensured = world
        .run(&["tables", "ensure", "--ahead", "3", "--parallel", "2", "--format", "json"])
        .exits(0);
    assert_eq!(done(&ensured), both(3..=3));
    assert_eq!(parts(&world, "there"), both(-3..=3));
    // The same columns, indexes and constraints as their siblings.
    world.run(&["migration", "status", "--check"]).exits(0);
    world.run(&["schema", "diff"]).exits(0);
    let again = world.run(&["tables", "ensure", "--ahead", "3"]).exits(0);
    assert!(again.stdout.contains("2 up to date"), "{again:#?}");
    let beyond = world.run(&["tables", "ensure", "--ahead", "4"]).exits(0);
    assert!(beyond.stdout.contains("extend the plan"), "{beyond:#?}");
}

#[test]
fn what_fails_half_way_leaves_nothing_behind() {
    let world = world();
    let nothing = world.run(&["tables", "ensure", "--ahead", "2"]).exits(1);
    assert!(nothing.stdout.contains("no migration that is applied here creates event"), "{nothing:#?}");
    world.run(&["migration", "run"]).exits(0);
    let part = format!("event_{}", year(2));
    let shard = shard_of(&world, &part);
    let (in_the_way, away) = match NAME {
        "mysql" => (
            format!(
                "CREATE TABLE other (id BIGINT PRIMARY KEY, x BIGINT NOT NULL, CONSTRAINT fk_event_{} FOREIGN KEY (x) REFERENCES other (id))",
                year(2)
            ),
            "DROP TABLE other".to_owned(),
        ),
        _ => (
            format!("CREATE TABLE other (id BIGINT PRIMARY KEY); CREATE INDEX ix_day_{} ON other (id)", year(2)),
            "DROP TABLE other".to_owned(),
        ),
    };
    world.sql(&shard, &in_the_way);
    let failed = world.run(&["tables", "ensure", "--ahead", "2"]).exits(1);
    assert!(failed.stdout.contains("nothing of it has stayed"), "{failed:#?}");
    assert_eq!(parts(&world, "there"), both(-3..=1));
    world.sql(&shard, &away);
    world.run(&["tables", "ensure", "--ahead", "2"]).exits(0);
    assert_eq!(parts(&world, "there"), both(-3..=2));
    world.run(&["migration", "status", "--check"]).exits(0);
}

#[test]
fn retiring_is_asked_for_twice_and_never_takes_the_present() {
    let world = world();
    world.run(&["migration", "run"]).exits(0);
    let before = year(-1).to_string();
    let retire = |more: &[&str]| {
        let args = ["tables", "retire", "--before", &before];
        world.run(&[&args[..], more].concat())
    };
    let dry = retire(&[]).exits(0);
    assert!(dry.stdout.contains(&format!("log_{}", year(-3))), "{dry:#?}");
    assert!(dry.stdout.contains("nothing is changed"), "{dry:#?}");
    assert!(!dry.stdout.contains(&format!("event_{}", year(-1))), "{dry:#?}");
    retire(&["--drop"]).exits(0);
    retire(&["--yes"]).exits(2);
    retire(&["--yes", "--drop", "--rename-suffix", "_old"]).exits(2);
    retire(&["--yes", "--rename-suffix", ".old"]).exits(2);
    assert_eq!(parts(&world, "there"), both(-3..=1));
    let present = year(1).to_string();
    let refused = world
        .run(&["tables", "retire", "--before", &present, "--drop", "--yes"])
        .exits(2);
    assert!(refused.stderr.contains("the present period"), "{refused:#?}");

    let renamed = retire(&["--yes", "--rename-suffix", "_old", "--format", "json"]).exits(0);
    assert_eq!(done(&renamed), both(-3..=-2));
    assert_eq!(renamed.events_named("table_done")[0]["action"], "renamed");
    for part in both(-3..=-2) {
        let shard = shard_of(&world, &part);
        world.sql(&shard, &format!("SELECT id FROM {part}_old"));
    }
    assert_eq!(parts(&world, "there"), both(-1..=1));
    retire(&["--yes", "--drop"]).exits(0);
    // What was retired is not made again, and nobody misses it.
    world.run(&["tables", "ensure"]).exits(0);
    assert_eq!(parts(&world, "there"), both(-1..=1));
    world.run(&["migration", "status", "--check"]).exits(0);
    world.run(&["tables", "list", "--check"]).exits(0);

    let present = year(0).to_string();
    let dropped = world
        .run(&["tables", "retire", "--before", &present, "--drop", "--yes", "--format", "json"])
        .exits(0);
    assert_eq!(done(&dropped), both(-1..=-1));
    later(&world);
    world.run(&["migration", "run"]).exits(0);
    world.run(&["schema", "diff"]).exits(0);
}

#[test]
fn a_table_of_the_present_that_is_missing_is_told_and_made() {
    let world = world();
    world.run(&["migration", "run"]).exits(0);
    let (part, log) = (format!("event_{}", year(0)), format!("log_{}", year(0)));
    let shard = shard_of(&world, &part);
    world.sql(&shard, &format!("DROP TABLE {log}; DROP TABLE {part}"));
    let list = world.run(&["tables", "list", "-t", "event", "--check"]).exits(3);
    assert!(list.stdout.contains("1 missing"), "{list:#?}");
    let status = world.run(&["migration", "status", "--check"]).exits(3);
    let told = format!("shard {shard}: {part} (a part of event) is not there");
    assert!(status.stdout.contains(&told), "{status:#?}");
    world.run(&["tables", "ensure", "--ahead", "1"]).exits(0);
    world.run(&["migration", "status", "--check"]).exits(0);
    world.run(&["tables", "list", "--check"]).exits(0);
}

#[test]
fn commands_for_dates_say_where_there_are_none() {
    let world = World::with_tables(&["a"], 1);
    let refused = world.run(&["tables", "ensure"]).exits(2);
    assert!(refused.stderr.contains("by_rule"), "{refused:#?}");
    world.run(&["tables", "retire", "--before", "2020", "--drop", "--yes"]).exits(2);
    let list = world.run(&["tables", "list"]).exits(0);
    assert!(list.stdout.contains("0 tables"), "{list:#?}");
    world.run(&["tables", "list", "-t", "event"]).exits(2);
}

/// Whoever comes first makes a table; the others find it.
#[test]
fn several_at_once_make_every_table_once() {
    let world = world();
    world.run(&["migration", "run"]).exits(0);
    let runners: Vec<_> = (0..4)
        .map(|_| {
            let args = ["tables", "ensure", "--ahead", "3", "-p", "2", "--format", "json"];
            world.stage.command(&args).spawn().unwrap()
        })
        .collect();
    let mut made: Vec<String> = Vec::new();
    for runner in runners {
        made.extend(done(&Output::from(runner.wait_with_output().unwrap()).exits(0)));
    }
    made.sort();
    assert_eq!(made, both(2..=3));
    world.run(&["migration", "status", "--check"]).exits(0);
}

/// Killed after its first table: what was made is whole, and the next one makes the others.
#[test]
fn one_that_is_killed_is_run_again() {
    let world = world();
    world.run(&["migration", "run"]).exits(0);
    let everything = both(-3..=3);
    let ensure = ["tables", "ensure", "--ahead", "3"];
    kill_when(&world, &ensure, |event| event["event"] == "table_done");
    let again = world.run(&[&ensure[..], &["--format", "json"]].concat()).exits(0);
    assert!(done(&again).len() < both(2..=3).len(), "the first one has made one at least: {again:#?}");
    assert_eq!(parts(&world, "there"), everything);
    world.run(&["migration", "status", "--check"]).exits(0);
    world.run(&["schema", "diff"]).exits(0);
    let locks = world.run(&["migration", "unlock"]).exits(0);
    assert!(locks.stdout.contains("locked: 0 of 2"), "{locks:#?}");
}
