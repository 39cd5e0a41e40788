//! Physical tables of one logical table look alike, or `migration status` and `schema diff` say which does
//! not.

use serde_json::Value;

use super::super::backend::NAME;
use super::support::{World, config};
use crate::harness::Output;

/// `orders` in three parts on each of two shards, made by a migration.
fn world(pattern: &str) -> World {
    let world = World::new(&["a", "b"]);
    let config = format!(
        "{}tables = {{ orders = {{ key_column = \"user_id\", count = 3{pattern} }} }}\n",
        config(&world.fleet)
    );
    world.stage.write("diesel-sharded.toml", &config);
    world.stage.migration(
        "2024-01-01-000000_orders",
        "CREATE TABLE orders (id BIGINT PRIMARY KEY, user_id BIGINT NOT NULL, qty INTEGER NOT NULL, CONSTRAINT few CHECK (qty < 100));
         CREATE INDEX ix_user ON orders (user_id);\n",
        "DROP TABLE orders;\n",
    );
    world.run(&["migration", "run"]).exits(0);
    world
}

/// Fails unless both commands tell of this difference on a shard, and of nothing on the others.
#[track_caller]
fn told(world: &World, shard: &str, words: &[&str]) {
    for args in [&["migration", "status", "--check"][..], &["schema", "diff"]] {
        let output = world.run(args).exits(3);
        let lines: Vec<&str> = differences(&output).collect();
        assert_eq!(lines.len(), 1, "{output:#?}");
        for word in words.iter().chain(&[&*format!("shard {shard}: ")]) {
            assert!(lines[0].contains(word), "{word:?} is not in {lines:?}");
        }
    }
    // Without --check the matrix is a matrix.
    let status = world.run(&["migration", "status"]).exits(0);
    assert!(status.stdout.contains("tables differ"), "{status:#?}");
}

fn differences(output: &Output) -> impl Iterator<Item = &str> {
    let lines = output.stdout.lines();
    lines.filter(|line| line.starts_with("differs"))
}

fn tables_of(events: &[Value], shard: &str) -> Value {
    let found = events.iter().find(|event| event["shard"] == shard);
    found.expect("the shard")["tables"].clone()
}

#[test]
fn a_column_that_one_part_lacks_or_has_is_spelled_out() {
    let world = world("");
    world.run(&["migration", "status", "--check"]).exits(0);
    world.run(&["schema", "diff"]).exits(0);
    world.sql("b", "ALTER TABLE orders_1 ADD COLUMN by_hand INT");
    for args in [&["migration", "status", "--check"][..], &["schema", "diff"]] {
        let output = world.run(args).exits(3);
        let lines: Vec<&str> = differences(&output).collect();
        assert_eq!(lines.len(), 1, "{output:#?}");
        assert!(lines[0].contains("shard b: orders_1 (a part of orders) "), "{lines:?}");
        assert!(lines[0].contains("column orders.by_hand"), "{lines:?}");
    }
    let status = world.run(&["migration", "status", "--format", "json"]).exits(0);
    let events = status.events_named("shard_status");
    assert_eq!(tables_of(&events, "a"), Value::Null);
    let tables = tables_of(&events, "b");
    assert_eq!(tables[0]["part"], "orders_1");
    assert_eq!(tables[0]["table"], "orders");
    assert_eq!(tables[0]["absent"], false);
    assert!(tables[0]["extra"].to_string().contains("by_hand"), "{tables}");
    let diff = world.run(&["schema", "diff", "--format", "json"]).exits(3);
    assert_eq!(tables_of(&diff.events_named("shard_schema"), "b"), tables);
    assert_eq!(diff.events_named("schema_finished")[0]["differing"], 1);
}

#[test]
fn an_index_that_one_part_lacks_is_spelled_out() {
    let world = world("");
    let sql = match NAME {
        "mysql" => "DROP INDEX ix_user ON orders_2",
        _ => "DROP INDEX ix_user_2",
    };
    world.sql("a", sql);
    told(&world, "a", &["orders_2 (a part of orders) lacks", "ix_user"]);
}

#[test]
fn a_part_that_is_not_there_is_spelled_out() {
    let world = world("");
    world.sql("b", "DROP TABLE orders_0");
    told(&world, "b", &["orders_0 (a part of orders) is not there"]);
    let list = world.run(&["tables", "list", "--check"]).exits(3);
    assert!(list.stdout.contains("1 missing"), "{list:#?}");
    let list = world.run(&["tables", "list", "--format", "json"]).exits(0);
    let shard = &list.events_named("shard_tables")[1];
    assert_eq!(shard["tables"][0]["part"], "orders_0");
    assert_eq!(shard["tables"][0]["state"], "missing");
    assert_eq!(shard["tables"][1]["state"], "there");
}

#[test]
fn parts_with_other_names_on_each_shard_look_alike_too() {
    let world = world(", pattern = \"t_{name}_{global:03}\"");
    world.run(&["migration", "status", "--check"]).exits(0);
    let diff = world.run(&["schema", "diff", "--format", "json"]).exits(0);
    let shards = diff.events_named("shard_schema");
    assert_eq!(shards[0]["fingerprint"], shards[1]["fingerprint"]);
    world.sql("b", "ALTER TABLE t_orders_004 ADD COLUMN by_hand INT");
    let diff = world.run(&["schema", "diff"]).exits(3);
    assert!(diff.stdout.contains("shard b: t_orders_004 (a part of orders) "), "{diff:#?}");
    world.run(&["migration", "revert"]).exits(0);
    // What is not made yet is not missing.
    let diff = world.run(&["schema", "diff"]).exits(0);
    assert!(diff.stdout.contains("0 differ"), "{diff:#?}");
}
