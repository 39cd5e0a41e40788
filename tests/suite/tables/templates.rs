//! Migrations are templates: a statement over a sharded table is run for each of its parts.

use std::fs;

use diesel::prelude::*;
use diesel_sharded::migrate::{Migrator, Options, Source, Steps};
use diesel_sharded::{KeyspaceConfig, RuleSpec};

use super::world::{ids_of, orders};
use super::{Conn, Fleet, Manager, NAME};

fn world() -> (Fleet, Manager) {
    let fleet = Fleet::new(&["a", "b"]);
    let keyspace = KeyspaceConfig::new(RuleSpec::modulo(["a", "b"])).table("orders", "user_id", 3);
    let shards = fleet.builder().keyspace("k", keyspace).build().unwrap();
    (fleet, shards)
}

/// A folder with one migration.
fn folder(up: &str, down: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let own = folder.path().join("2026-01-01-000000_orders");
    fs::create_dir(&own).unwrap();
    fs::write(own.join("up.sql"), up).unwrap();
    fs::write(own.join("down.sql"), down).unwrap();
    folder
}

fn migrator(shards: &Manager, folder: &tempfile::TempDir) -> Migrator {
    Migrator::builder(shards.topology())
        .source(Source::folder(folder.path()))
        .build()
        .unwrap()
}

#[derive(QueryableByName)]
struct Named {
    #[diesel(sql_type = diesel::sql_types::Text)]
    name: String,
}

/// Names of indexes and constraints that begin so.
fn named(conn: &mut Conn, begin: &str) -> Vec<String> {
    let text = match NAME {
        "sqlite" => "SELECT name FROM sqlite_master WHERE type = 'index'",
        "postgres" => {
            "SELECT indexname::text AS name FROM pg_indexes UNION SELECT conname::text FROM pg_constraint"
        }
        _ => {
            "SELECT CAST(index_name AS CHAR) AS name FROM information_schema.statistics WHERE table_schema = DATABASE()
             UNION SELECT CAST(constraint_name AS CHAR) FROM information_schema.table_constraints WHERE table_schema = DATABASE()"
        }
    };
    let rows: Vec<Named> = diesel::sql_query(text).load(conn).unwrap();
    let mut names: Vec<String> = rows.into_iter().map(|row| row.name).collect();
    names.retain(|name| name.starts_with(begin));
    names.sort();
    names
}

const UP: &str = "CREATE TABLE orders (
        id BIGINT PRIMARY KEY, user_id BIGINT NOT NULL, qty INTEGER NOT NULL DEFAULT 0,
        CONSTRAINT few_orders UNIQUE (id, qty));
    CREATE INDEX ix_user ON orders (user_id); -- orders
    CREATE TABLE plain (id BIGINT PRIMARY KEY);
    ALTER TABLE orders ADD COLUMN note VARCHAR(20);
    UPDATE orders SET note = 'orders' WHERE orders.id = 1";

#[test]
fn each_part_gets_its_table_and_its_names() {
    let (fleet, shards) = world();
    let drop_index = match NAME {
        "mysql" => "DROP INDEX ix_user ON orders",
        _ => "DROP INDEX ix_user",
    };
    let folder = folder(
        UP,
        &format!("{drop_index}; DROP TABLE plain; DROP TABLE orders"),
    );
    let migrator = migrator(&shards, &folder);
    let ran = migrator.run(&Options::new(), &|_| {}).unwrap();
    assert_eq!(ran.into_result().unwrap().shards.len(), 2);
    for shard in ["a", "b"] {
        let conn = &mut fleet.direct(shard);
        for part in 0..3 {
            assert_eq!(ids_of(conn, &format!("orders_{part}")), [0; 0]);
        }
        assert_eq!(ids_of(conn, "plain"), [0; 0]);
        let logical = diesel::sql_query("SELECT id FROM orders").execute(conn);
        assert!(logical.is_err(), "there is no table of that name");
        if NAME == "mysql" {
            // Each table has its own indexes there.
            assert_eq!(named(conn, "ix_user"), ["ix_user"]);
        } else {
            assert_eq!(
                named(conn, "ix_user"),
                ["ix_user_0", "ix_user_1", "ix_user_2"]
            );
        }
        if NAME != "sqlite" {
            let unique = ["few_orders_0", "few_orders_1", "few_orders_2"];
            assert_eq!(named(conn, "few_orders"), unique);
        }
    }
    // They are the tables of the keyspace.
    let keyspace = shards.keyspace("k").unwrap();
    for user in 0..6 {
        keyspace
            .transaction_for(&user, |conn| {
                diesel::insert_into(orders::table)
                    .values((orders::id.eq(user), orders::user_id.eq(user)))
                    .execute(conn)
            })
            .unwrap();
    }
    assert_eq!(ids_of(&mut fleet.direct("b"), "orders_2"), [5]);
    assert!(migrator.status(&Options::new()).unwrap().is_up_to_date());
    let reverted = migrator
        .revert(Steps::All, &Options::new(), &|_| {})
        .unwrap();
    assert_eq!(reverted.into_result().unwrap().shards.len(), 2);
    for shard in ["a", "b"] {
        let conn = &mut fleet.direct(shard);
        for table in ["orders_0", "orders_2", "plain"] {
            let gone = diesel::sql_query(format!("SELECT id FROM {table}")).execute(conn);
            assert!(gone.is_err(), "{table} of {shard}");
        }
    }
}

#[test]
fn what_cannot_be_repeated_fails_before_anything_is_sent() {
    for (up, said) in [
        (
            "CREATE TABLE plain (id BIGINT PRIMARY KEY); CREATE VIEW v AS SELECT * FROM orders",
            "statement 2",
        ),
        (
            "CREATE TABLE plain (id BIGINT PRIMARY KEY); INSERT INTO orders (id, user_id) VALUES (1, 1)",
            "shard key",
        ),
    ] {
        let (fleet, shards) = world();
        let folder = folder(up, "SELECT 1");
        let report = migrator(&shards, &folder)
            .run(&Options::new(), &|_| {})
            .unwrap();
        let error = report.into_result().unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
        let plain = diesel::sql_query("SELECT id FROM plain").execute(&mut fleet.direct("a"));
        assert!(plain.is_err(), "nothing was sent");
    }
}

#[test]
fn definitions_under_a_route_are_about_its_table() {
    use diesel::connection::SimpleConnection;
    let (fleet, shards) = world();
    let keyspace = shards.keyspace("k").unwrap();
    let results = keyspace
        .for_each_table("orders", |conn, _| {
            conn.batch_execute(UP.split("CREATE TABLE plain").next().unwrap())
        })
        .unwrap();
    for one in results {
        one.result.unwrap();
    }
    for shard in ["a", "b"] {
        let conn = &mut fleet.direct(shard);
        for part in 0..3 {
            assert_eq!(ids_of(conn, &format!("orders_{part}")), [0; 0]);
        }
    }
}
