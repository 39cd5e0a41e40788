//! What is chosen: shards, folders, databases that several shards share; and what is only looked at.

use super::super::backend::Fleet;
use super::support::{World, outcomes, version};
use crate::harness::{Stage, shards};

#[test]
fn a_plan_changes_nothing() {
    let world = World::with_tables(&["a", "b", "c"], 2);
    world.run(&["migration", "run", "-s", "b"]).exits(0);
    let plan = world.run(&["migration", "plan", "--sql"]).exits(0);
    let text = &plan.stdout;
    assert!(text.starts_with("a, c\n    up 2024-01-01-000000_t1"), "{text}");
    assert!(text.contains("        CREATE TABLE t2 (id BIGINT PRIMARY KEY)"), "{text}");
    assert!(text.contains("\nb\n    nothing to do\n"), "{text}");
    assert!(text.contains("3 databases, 4 steps"), "{text}");
    assert!(!world.run(&["migration", "plan"]).exits(0).stdout.contains("CREATE"));

    let plan = world.run(&["migration", "plan", "--format", "json"]).exits(0);
    let step = &plan.events_named("shard_plan")[0]["steps"][0];
    assert_eq!(step["version"], version(1));
    assert!(step["sql"].is_null());
    let plan = world
        .run(&["migration", "plan", "--format", "json", "--sql", "--revert", "1", "-s", "b"])
        .exits(0);
    let step = &plan.events_named("shard_plan")[0]["steps"][0];
    assert_eq!(step["direction"], "down");
    assert!(step["sql"][0].as_str().unwrap().contains("DROP TABLE t2"));
    for shard in ["a", "c"] {
        assert_eq!(world.tables(shard, 2), [0usize; 0]);
        assert_eq!(world.versions(shard), Vec::<String>::new());
    }
    assert_eq!(world.tables("b", 2), [1, 2]);
}

/// A shard in two keyspaces gets both their migrations, each other only its own.
#[test]
fn keyspaces_bring_their_own_migrations() {
    let fleet = Fleet::new(&["a", "b", "c"]);
    let urls = fleet.shards().into_iter().map(|name| {
        let url = fleet.url(&name);
        (name, url)
    });
    let config = format!(
        "{}
        [keyspaces.orders]
        shards = [\"a\", \"b\"]
        migrations = \"db/orders/{{backend}}\"
        [keyspaces.stock]
        shards = [\"b\", \"c\"]
        migrations = \"db/stock\"
        ",
        shards(urls)
    );
    let stage = Stage::new(&config);
    let made = stage
        .run(&["migration", "generate", "one", "--keyspace", "orders", "--version", "2024-01-01"])
        .exits(0);
    let folder = format!("db/orders/{}/2024-01-01_one/up.sql", super::super::backend::NAME);
    assert!(made.stdout.contains(&folder), "{made:#?}");
    stage
        .run(&["migration", "generate", "two", "-k", "stock", "--version", "2024-01-02"])
        .exits(0);
    let several = stage.run(&["migration", "generate", "three"]).exits(2);
    assert!(several.stderr.contains("--keyspace"), "{several:#?}");
    stage.write(&folder, "CREATE TABLE t1 (id INT)");
    stage.write("db/stock/2024-01-02_two/up.sql", "CREATE TABLE t2 (id INT)");

    let run = stage.run(&["migration", "run", "--format", "json"]).exits(0);
    let ran: Vec<usize> = outcomes(&run).into_iter().map(|one| one.2).collect();
    assert_eq!(ran, [1, 2, 1]);
    let world = World { fleet, stage };
    assert_eq!(world.tables("a", 2), [1]);
    assert_eq!(world.tables("b", 2), [1, 2]);
    assert_eq!(world.tables("c", 2), [2]);
    let status = world.run(&["migration", "status", "-k", "stock"]).exits(0);
    assert!(status.stdout.contains("2 up to date"), "{status:#?}");

    // The same version in both would be two migrations for b: nobody could say which.
    world.stage.write("db/stock/2024-01-01_clash/up.sql", "SELECT 1");
    let clash = world.run(&["migration", "run"]).exits(2);
    assert!(clash.stderr.contains("20240101"), "{clash:#?}");
}

/// In development several shards are one database: it is migrated once, whoever is named.
#[test]
fn a_shared_database_is_migrated_once() {
    let fleet = Fleet::new(&["a"]);
    let url = fleet.url("a");
    let names = ["a", "b", "c"];
    let config = format!(
        "shared_database = true\n{}[keyspaces.orders]\nshards = {names:?}\nmigrations = \"migrations\"\n",
        shards(names.map(|name| (name, url.clone())))
    );
    let stage = Stage::new(&config);
    let world = World { fleet, stage };
    world.table(1);
    world.table(2);
    let run = world
        .run(&["migration", "run", "-p", "3", "--format", "json"])
        .exits(0);
    let finished = run.events_named("shard_finished");
    assert_eq!(finished.len(), 1, "{run:#?}");
    assert_eq!(finished[0]["also"], serde_json::json!(["b", "c"]));
    assert_eq!(finished[0]["ran"].as_array().unwrap().len(), 2);
    assert!(run.stderr.contains("shared"), "{run:#?}");
    world.run(&["migration", "revert", "-s", "c"]).exits(0);
    assert_eq!(world.versions("a"), [version(1)]);
    let status = world.run(&["migration", "status"]).exits(0);
    assert!(status.stdout.contains("a, b, c"), "{status:#?}");
    world.run(&["ping"]).exits(0);
}

/// What the library says of wrong places is an exit code here: another shard's database is left alone.
#[test]
fn a_url_that_leads_to_another_shards_database_is_refused() {
    let world = World::with_tables(&["a", "b"], 1);
    world.run(&["migration", "run"]).exits(0);
    world.run(&["ping"]).exits(0);
    let names = ["a", "b"];
    let swapped = format!(
        "{}[keyspaces.orders]\nshards = {names:?}\nmigrations = \"migrations\"\n",
        shards([("a", world.fleet.url("b")), ("b", world.fleet.url("a"))])
    );
    world.stage.write("diesel-sharded.toml", &swapped);
    world.table(2);
    let run = world.run(&["migration", "run", "--format", "json"]).exits(1);
    for event in run.events_named("shard_finished") {
        assert_eq!(event["failures"][0]["kind"], "wrong_database", "{event}");
    }
    assert_eq!(world.tables("a", 2), [1]);
    let ping = world.run(&["ping"]).exits(1);
    assert!(ping.stdout.contains("holds the data of b"), "{ping:#?}");
}
