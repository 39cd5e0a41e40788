//! A shard that cannot be read is never taken for one that has everything.

use super::support::{World, config, nowhere, version};
use crate::harness::shards;

/// Two shards with everything, and `c`, which cannot be reached.
fn all_but_one(count: usize) -> World {
    let world = World::with_tables(&["a", "b"], count);
    world.run(&["migration", "run"]).exits(0);
    let text = format!(
        "{}{}[keyspaces.more]\nshards = [\"c\"]\nmigrations = \"migrations\"\n",
        shards([("c", nowhere(&world.fleet))]),
        config(&world.fleet)
    );
    world.stage.write("diesel-sharded.toml", &text);
    world
}

#[test]
fn pending_is_not_false_while_a_shard_cannot_be_read() {
    let world = all_but_one(1);
    let pending = world.run(&["migration", "pending"]).exits(1);
    assert_eq!(pending.stdout, "unknown\n");
    assert!(pending.stderr.contains("shard c"), "{pending:#?}");
    let pending = world.run(&["migration", "pending", "--format", "json"]).exits(1);
    assert!(pending.events_named("pending")[0]["pending"].is_null(), "{pending:#?}");
    let unread = &pending.events_named("shard_unread")[0];
    assert_eq!(unread["shard"], "c");
    assert_eq!(unread["failures"][0]["kind"], "unreachable", "{unread}");
    // What is left out is not waited for.
    let some = world.run(&["migration", "pending", "-k", "orders"]).exits(0);
    assert_eq!(some.stdout, "false\n");

    world.table(2);
    let pending = world.run(&["migration", "pending"]).exits(1);
    assert_eq!(pending.stdout, "true\n", "the others say so");
}

/// The line that the help gives for a deployment does not deploy.
#[test]
fn the_example_in_the_help_deploys_only_when_all_is_known() {
    let world = all_but_one(1);
    let help = world.run(&["migration", "pending", "--help"]).exits(0).stdout;
    let line = help.lines().find(|line| line.ends_with("&& deploy")).unwrap();
    let script = format!("deploy() {{ echo deployed; }}\n{}\n", line.trim());
    let deploys = |script: &str| {
        let bin = std::path::Path::new(env!("CARGO_BIN_EXE_diesel-sharded"));
        let path = format!("{}:{}", bin.parent().unwrap().display(), std::env::var("PATH").unwrap());
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", script]).current_dir(world.stage.path());
        shell.env("PATH", path).env_remove("DIESEL_SHARDED_CONFIG");
        crate::harness::Output::of(&mut shell).stdout == "deployed\n"
    };
    assert!(!deploys(&script));
    world.stage.write("diesel-sharded.toml", &config(&world.fleet));
    assert!(deploys(&script));
    world.table(2);
    assert!(!deploys(&script));
}

#[test]
fn list_counts_the_shard_that_cannot_be_read() {
    let world = all_but_one(1);
    let list = world.run(&["migration", "list"]).exits(1);
    let line = "  [?] 2024-01-01-000000_t1 (on 2 of 3, could not be read: c)";
    assert!(list.stdout.contains(line), "{list:#?}");
    let list = world.run(&["migration", "list", "--format", "json"]).exits(1);
    let entry = &list.events_named("version")[0];
    assert_eq!((&entry["applied"], &entry["of"]), (&2.into(), &3.into()), "{entry}");
    assert_eq!(entry["unread"], serde_json::json!(["c"]));
    assert_eq!(list.events_named("shard_unread")[0]["shard"], "c");

    world.table(2);
    let list = world.run(&["migration", "list"]).exits(1);
    let line = "  [?] 2024-01-02-000000_t2 (on 0 of 3, not on a, b, could not be read: c)";
    assert!(list.stdout.contains(line), "{list:#?}");
}

#[test]
fn status_does_not_say_that_every_shard_has_it() {
    let world = all_but_one(5);
    let status = world.run(&["migration", "status"]).exits(1);
    let said = "and 2 older that every shard has that could be read (--all shows them)";
    assert!(status.stdout.contains(said), "{status:#?}");
    let row = status.stdout.lines().find(|line| line.starts_with("c ")).unwrap();
    assert_eq!(row.matches('?').count(), 3, "{row}");

    let status = world.run(&["migration", "status", "-s", "c"]).exits(1);
    assert!(!status.stdout.contains("older that"), "{status:#?}");
    assert!(status.stdout.contains(&version(1)), "{status:#?}");
}

#[test]
fn a_lock_that_cannot_be_asked_for_is_not_free() {
    let world = all_but_one(1);
    // A SQLite file that is not there is free for certain; a folder in its place is not.
    let file = world.stage.path().join("diesel-sharded.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace("no/such/folder/a.db", "migrations")).unwrap();
    let unlock = world.run(&["migration", "unlock"]).exits(1);
    let last = unlock.stdout.lines().last();
    assert_eq!(last, Some("locked: 0 of 3 databases, 1 not known"), "{unlock:#?}");
    let unlock = world.run(&["migration", "unlock", "--format", "json"]).exits(1);
    let lock = &unlock.events_named("lock")[2];
    assert!(lock["holder"].is_null() && lock["failure"].is_object(), "{lock}");
}

/// Keyspaces on different shards may give one version to different migrations.
#[test]
fn one_version_in_two_keyspaces_is_two_migrations() {
    let world = World::new(&["a", "b"]);
    for (keyspace, table) in [("history", "history"), ("orders", "orders")] {
        let folder = format!("{keyspace}/2024-01-01-000000_create_{table}");
        let up = format!("CREATE TABLE t_{table} (id BIGINT PRIMARY KEY)");
        world.stage.write(&format!("{folder}/up.sql"), &up);
        world.stage.write(&format!("{folder}/down.sql"), &format!("DROP TABLE t_{table}"));
    }
    let urls = ["a", "b"].map(|shard| (shard, world.fleet.url(shard)));
    let text = format!(
        "{}[keyspaces.history]\nshards = [\"a\"]\nmigrations = \"history\"\n\
         [keyspaces.orders]\nshards = [\"b\"]\nmigrations = \"orders\"\n",
        shards(urls)
    );
    world.stage.write("diesel-sharded.toml", &text);
    world.run(&["migration", "run", "-s", "b"]).exits(0);
    let list = world.run(&["migration", "list"]).exits(0).stdout;
    assert!(list.contains("  [ ] 2024-01-01-000000_create_history\n"), "{list}");
    assert!(list.contains("  [X] 2024-01-01-000000_create_orders\n"), "{list}");
    let list = world.run(&["migration", "list", "--format", "json"]).exits(0);
    let entries = list.events_named("version");
    assert_eq!(entries.len(), 2);
    for (entry, applied) in entries.iter().zip([0, 1]) {
        assert_eq!((&entry["applied"], &entry["of"]), (&applied.into(), &1.into()), "{entry}");
    }

    let status = world.run(&["migration", "status"]).exits(0).stdout;
    assert_eq!(status.lines().next().unwrap().matches(&version(1)).count(), 1, "{status}");
    for name in ["create_history", "create_orders"] {
        let line = format!("{}  2024-01-01-000000_{name}\n", version(1));
        assert!(status.contains(&line), "{status}");
    }
    let status = world.run(&["migration", "status", "--format", "json"]).exits(0);
    let row = &status.events_named("shard_status")[1];
    assert_eq!(row["versions"][0]["name"], "2024-01-01-000000_create_orders", "{row}");
}
