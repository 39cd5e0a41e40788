//! Physical tables of one logical table look alike, or `migration status` and `schema diff` say which does
//! not.

use serde_json::Value;

use super::super::backend::NAME;
use super::support::World;
use crate::harness::Output;

/// `orders` in three parts on each of two shards, made by a migration.
fn world(pattern: &str) -> World {
    let world = World::sharded(&["a", "b"], 3, pattern);
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
fn a_check_that_one_part_lacks_is_spelled_out() {
    // SQLite has no way to take a constraint away.
    if NAME == "sqlite" {
        return;
    }
    let world = world("");
    world.run(&["migration", "status", "--check"]).exits(0);
    world.sql("b", "ALTER TABLE orders_1 DROP CONSTRAINT few_1");
    told(&world, "b", &["orders_1 (a part of orders) lacks constraint orders.few CHECK", "qty"]);
}

/// Names that the crate makes are cut too: the longer the number of a part is, the more.
#[test]
fn long_names_of_indexes_differ_in_nothing_but_the_part() {
    let world = World::sharded(&["a"], 12, "");
    let name = format!("ix_{}", "x".repeat(58));
    world.stage.migration(
        "2024-01-01-000000_orders",
        &format!(
            "CREATE TABLE orders (id BIGINT PRIMARY KEY, user_id BIGINT NOT NULL); CREATE INDEX {name} ON orders (user_id);"
        ),
        "DROP TABLE orders;\n",
    );
    world.run(&["migration", "run"]).exits(0);
    world.run(&["migration", "status", "--check"]).exits(0);
    world.run(&["schema", "diff"]).exits(0);
}

/// PostgreSQL cuts the names that it makes, and numbers those that are taken: what they are called says nothing.
#[test]
fn names_that_the_server_made_are_not_compared() {
    if NAME != "postgres" {
        return;
    }
    for (table, count) in [
        ("subscription_invoice_line_items".to_owned(), 4),
        ("t".repeat(59), 12),
    ] {
        let world = World::sharded(&["a", "b"], count, "");
        let config = std::fs::read_to_string(world.stage.path().join("diesel-sharded.toml")).unwrap();
        let config = config.replace("{ orders =", &format!("{{ {table} ="));
        world.stage.write("diesel-sharded.toml", &config);
        world.stage.migration(
            "2024-01-01-000000_table",
            &format!(
                "CREATE TABLE {table} (id BIGSERIAL PRIMARY KEY, user_id BIGINT NOT NULL CHECK (user_id > 0),
                     external_payment_reference TEXT UNIQUE, created_at timestamptz,
                     no INT GENERATED ALWAYS AS IDENTITY);
                 CREATE INDEX ON {table} (user_id, created_at, external_payment_reference);
                 CREATE INDEX ON {table} (user_id, created_at, external_payment_reference) WHERE id > 9;
                 CREATE INDEX ON {table} (lower(external_payment_reference));"
            ),
            &format!("DROP TABLE {table};\n"),
        );
        world.run(&["migration", "run"]).exits(0);
        world.run(&["migration", "status", "--check"]).exits(0);
        world.run(&["schema", "diff"]).exits(0);
        // One that is really not there is missed.
        let part = format!("{table}_2");
        world.sql(
            "a",
            &format!(
                "DO $$ DECLARE one text; BEGIN
                     SELECT indexrelid::regclass INTO one FROM pg_index WHERE indrelid = '{part}'::regclass AND indpred IS NOT NULL;
                     EXECUTE 'DROP INDEX ' || one;
                 END $$"
            ),
        );
        told(&world, "a", &[&format!("{part} (a part of {table}) lacks CREATE INDEX"), "WHERE (id > 9)"]);
    }
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
