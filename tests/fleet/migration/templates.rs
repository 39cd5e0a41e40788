//! Migrations over sharded tables: what cannot be run once for each part is refused before anything is sent.

use diesel::connection::SimpleConnection;

use super::super::backend::NAME;
use super::support::World;
use crate::harness::Output;

const ORDERS: &str = "CREATE TABLE orders (id BIGINT PRIMARY KEY, user_id BIGINT NOT NULL, code VARCHAR(9) UNIQUE, qty INTEGER);
    CREATE TABLE users (id BIGINT PRIMARY KEY, n INTEGER)";

/// `orders` in three parts on each of two shards, beside `users`, with a row of each.
fn world() -> World {
    let world = World::sharded(&["a", "b"], 3, "");
    world.stage.migration("2024-01-01-000000_orders", ORDERS, "SELECT 1;");
    world.run(&["migration", "run"]).exits(0);
    for shard in ["a", "b"] {
        world.sql(shard, "INSERT INTO users (id, n) VALUES (1, 0), (2, 0)");
        world.sql(shard, "INSERT INTO orders_1 (id, user_id, code, qty) VALUES (5, 1, 'x', 2)");
    }
    world
}

/// Whether a statement runs on a shard.
fn runs(world: &World, shard: &str, sql: &str) -> bool {
    world.fleet.direct(shard).batch_execute(sql).is_ok()
}

/// Runs a migration of this text that is refused, and takes it away again.
#[track_caller]
fn refused(world: &World, up: &str, words: &[&str]) -> Output {
    let name = "2024-01-02-000000_next";
    // Of a migration that is refused, nothing is sent.
    let up = format!("CREATE TABLE before_it (id BIGINT PRIMARY KEY); {up};");
    world.stage.migration(name, &up, "SELECT 1;");
    let run = world.run(&["migration", "run"]).exits(1);
    for word in words.iter().chain(&["its statement 2"]) {
        assert!(run.stdout.contains(word), "{word:?} is not in {run:#?}");
    }
    for shard in ["a", "b"] {
        assert!(!runs(world, shard, "SELECT id FROM before_it"), "{up}");
        assert_eq!(world.versions(shard).len(), 1);
    }
    std::fs::remove_dir_all(world.stage.path().join("migrations").join(name)).unwrap();
    run
}

#[test]
fn what_writes_another_table_is_not_run_once_for_each_part() {
    let world = world();
    for (up, other) in [
        (
            "DELETE FROM users WHERE NOT EXISTS (SELECT 1 FROM orders WHERE orders.user_id = users.id)",
            "writes users, which is not split",
        ),
        ("UPDATE users SET n = (SELECT count(*) FROM orders)", "writes users, which is not split"),
        (
            "CREATE TABLE IF NOT EXISTS totals AS SELECT count(*) AS n FROM orders",
            "writes totals, which is not split",
        ),
        ("INSERT INTO users (id) SELECT id FROM orders", "writes users, which is not split"),
        (
            "DELETE FROM orders WHERE id > 9; DELETE FROM users WHERE id IN (SELECT user_id FROM orders)",
            "its statement 2 writes users",
        ),
    ] {
        let name = "2024-01-02-000000_next";
        world.stage.migration(name, &format!("{up};"), "SELECT 1;");
        let run = world.run(&["migration", "run"]).exits(1);
        assert!(run.stdout.contains(other), "{other:?} is not in {run:#?}");
        assert!(run.stdout.contains("in a migration in code"), "{run:#?}");
        std::fs::remove_dir_all(world.stage.path().join("migrations").join(name)).unwrap();
    }
    refused(&world, "UPDATE users SET n = (SELECT count(*) FROM orders)", &["users"]);
    for shard in ["a", "b"] {
        assert!(!runs(&world, shard, "SELECT n FROM totals"));
        // Both users are as they were.
        for id in [1, 2] {
            let again = format!("INSERT INTO users (id, n) SELECT id, 1 FROM users WHERE id = {id} AND n = 0");
            assert!(!runs(&world, shard, &again), "user {id} is gone or another");
        }
    }
    // The other way round is what templates are for.
    world.stage.migration(
        "2024-01-03-000000_back",
        "DELETE FROM orders WHERE user_id NOT IN (SELECT id FROM users); UPDATE orders SET qty = (SELECT max(n) FROM users);",
        "SELECT 1;",
    );
    world.run(&["migration", "run"]).exits(0);
}

#[test]
fn code_that_names_a_sharded_table_is_not_run_once_for_each_part() {
    let world = world();
    let texts: &[&str] = match NAME {
        "sqlite" => &[
            "CREATE VIEW v AS SELECT id FROM orders",
            "CREATE TEMP VIEW v AS SELECT id FROM orders",
            "CREATE TRIGGER t AFTER INSERT ON users BEGIN DELETE FROM orders; END",
        ],
        "postgres" => &[
            "CREATE OR REPLACE VIEW v AS SELECT id FROM orders",
            "CREATE MATERIALIZED VIEW v AS SELECT id FROM orders",
            "CREATE OR REPLACE FUNCTION f() RETURNS bigint LANGUAGE sql AS $$ SELECT count(*) FROM orders $$",
            "CREATE OR REPLACE FUNCTION f() RETURNS void LANGUAGE sql BEGIN ATOMIC DELETE FROM orders; END",
            "CREATE RULE r AS ON DELETE TO orders DO INSTEAD NOTHING",
            "CREATE OR REPLACE RULE r AS ON INSERT TO users DO ALSO DELETE FROM orders",
            "PREPARE p AS DELETE FROM orders",
        ],
        _ => &[
            "CREATE OR REPLACE VIEW v AS SELECT id FROM orders",
            "CREATE PROCEDURE p() SELECT count(*) FROM orders",
            "CREATE TRIGGER t AFTER INSERT ON users FOR EACH ROW DELETE FROM orders",
            "CREATE TRIGGER t AFTER INSERT ON users FOR EACH ROW BEGIN DELETE FROM orders; END",
            "IF 1 = 1 THEN DELETE FROM orders; END IF",
            "CREATE FUNCTION f() RETURNS BIGINT READS SQL DATA RETURN (SELECT count(*) FROM orders)",
        ],
    };
    for text in texts {
        refused(&world, text, &["names a sharded table"]);
    }
}

#[test]
fn names_that_the_server_made_are_not_guessed() {
    let world = world();
    match NAME {
        "postgres" => {
            for text in [
                "ALTER TABLE orders DROP CONSTRAINT IF EXISTS orders_code_key",
                "ALTER TABLE orders RENAME CONSTRAINT orders_code_key TO one_code",
                "DROP INDEX IF EXISTS orders_qty_idx",
                "ALTER SEQUENCE IF EXISTS orders_id_seq RESTART",
            ] {
                refused(&world, text, &["a name that the server made"]);
            }
            // By its physical name.
            let physical = "ALTER TABLE orders_0 DROP CONSTRAINT orders_0_code_key;";
            world.stage.migration("2024-01-02-000000_physical", physical, "SELECT 1;");
            world.run(&["migration", "run"]).exits(0);
        }
        "mysql" => {
            for text in [
                "ALTER TABLE orders DROP FOREIGN KEY orders_ibfk_1",
                "ALTER TABLE orders DROP CONSTRAINT IF EXISTS orders_chk_1",
            ] {
                refused(&world, text, &["a name that the server made"]);
            }
        }
        _ => {}
    }
}

#[test]
fn names_that_a_migration_gave_are_those_of_the_parts() {
    if NAME != "postgres" {
        return;
    }
    let world = world();
    world.stage.migration(
        "2024-01-02-000000_named",
        "ALTER TABLE orders ADD CONSTRAINT orders_id_key UNIQUE (id, qty); CREATE INDEX ix_user ON orders (user_id);",
        "SELECT 1;",
    );
    world.stage.migration(
        "2024-01-03-000000_renamed",
        "ALTER INDEX ix_user RENAME TO ix_user2; ALTER TABLE orders RENAME CONSTRAINT orders_id_key TO few;",
        "SELECT 1;",
    );
    world.run(&["migration", "run"]).exits(0);
    world.run(&["migration", "status", "--check"]).exits(0);
    let there = "SELECT 1 / (to_regclass('ix_user2_2') IS NOT NULL AND to_regclass('few_2') IS NOT NULL)::int";
    assert!(runs(&world, "b", there));
    world.stage.migration(
        "2024-01-04-000000_gone",
        "DROP INDEX IF EXISTS ix_user2; ALTER TABLE orders DROP CONSTRAINT IF EXISTS few;",
        "SELECT 1;",
    );
    world.run(&["migration", "run"]).exits(0);
    let gone = "SELECT 1 / (to_regclass('ix_user2_2') IS NULL AND to_regclass('few_2') IS NULL)::int";
    assert!(runs(&world, "b", gone));
}

#[test]
fn columns_that_each_part_counts_are_warned_of() {
    let world = World::sharded(&["a", "b", "c"], 3, "");
    let column = match NAME {
        "sqlite" => "id INTEGER PRIMARY KEY AUTOINCREMENT",
        "postgres" => "id BIGSERIAL PRIMARY KEY",
        _ => "id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY",
    };
    world.stage.migration(
        "2024-01-01-000000_orders",
        &format!("CREATE TABLE orders ({column}, user_id BIGINT NOT NULL); CREATE TABLE plain ({column});"),
        "DROP TABLE orders;",
    );
    let message = "orders.id is counted by each of its 3 tables on its own, so ids repeat between them";
    let plan = world.run(&["migration", "plan"]).exits(0);
    assert_eq!(plan.stdout.matches(message).count(), 1, "{plan:#?}");
    let plan = world.run(&["migration", "plan", "--format", "json"]).exits(0);
    for shard in plan.events_named("shard_plan") {
        let warnings = shard["warnings"].as_array().unwrap();
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert!(warnings[0].as_str().unwrap().starts_with(message), "{warnings:?}");
    }
    // One shard by events, the other two by lines.
    let run = world.run(&["migration", "run", "--format", "json", "-s", "b"]).exits(0);
    let warned = run.events_named("warning");
    assert_eq!(warned.len(), 1, "{warned:?}");
    assert_eq!(warned[0]["shard"], "b");
    assert!(warned[0]["message"].as_str().unwrap().starts_with(message), "{warned:?}");
    let finished = &run.events_named("shard_finished")[0];
    assert_eq!(finished["warnings"][0], warned[0]["message"]);
    let run = world.run(&["migration", "run"]).exits(0);
    assert_eq!(run.stdout.matches(message).count(), 1, "{run:#?}");
    // What is applied is warned of no more.
    for args in [["migration", "plan"], ["migration", "run"]] {
        let again = world.run(&args).exits(0);
        assert!(!again.stdout.contains(message), "{again:#?}");
    }
}

/// What a server then takes for a literal is not what was taken for one here.
#[test]
fn settings_that_change_what_a_literal_is_are_refused() {
    let (change, named, stays) = match NAME {
        "mysql" => ("SET sql_mode = 'ANSI_QUOTES'", "sql_mode", "SET sql_mode = 'STRICT_TRANS_TABLES'"),
        "postgres" => (
            "SET standard_conforming_strings = off",
            "standard_conforming_strings",
            "SET standard_conforming_strings = on",
        ),
        _ => return,
    };
    let world = world();
    refused(&world, change, &[named, "cannot be run"]);
    world.stage.migration("2024-01-02-000000_next", &format!("{stays};"), "SELECT 1;");
    world.run(&["migration", "run"]).exits(0);
    if NAME == "postgres" {
        // The same by the database's own default, for every session.
        world.sql(
            "a",
            "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET standard_conforming_strings = off', current_database()); END $$",
        );
        world.stage.migration("2024-01-03-000000_more", "CREATE TABLE more (id BIGINT);", "DROP TABLE more;");
        let run = world.run(&["migration", "run"]).exits(1);
        assert!(run.stdout.contains("ALTER ROLE .. SET standard_conforming_strings = on"), "{run:#?}");
        assert!(!runs(&world, "a", "SELECT id FROM more"), "{run:#?}");
    }
}
