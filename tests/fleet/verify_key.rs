//! `verify`: one key, tables and files that are not there, and counts that hold whatever is listed.

use diesel::connection::SimpleConnection;

use super::backend::{Fleet, NAME};
use crate::harness::{Stage, shards};

/// Two shards with a table each, of integer keys.
fn fleet(algorithm: &str) -> (Fleet, String) {
    let fleet = Fleet::new(&["a", "b"]);
    for shard in ["a", "b"] {
        run(&fleet, shard, "CREATE TABLE orders (k BIGINT)");
    }
    let config = format!(
        "{}[keyspaces.orders]\nshards = [\"a\", \"b\"]\nalgorithm = {algorithm}\ntables = {{ orders = {{ key_column = \"k\" }} }}\n",
        shards(["a", "b"].map(|shard| (shard, fleet.url(shard))))
    );
    (fleet, config)
}

fn run(fleet: &Fleet, shard: &str, sql: &str) {
    fleet.direct(shard).batch_execute(sql).expect(sql);
}

const MODULO: &str = "{ kind = \"modulo\", count = 2 }";

#[test]
fn a_missing_table_is_told_for_one_key_as_for_all() {
    let (fleet, config) = fleet(MODULO);
    run(&fleet, "a", "INSERT INTO orders VALUES (2)");
    run(&fleet, "b", "DROP TABLE orders");
    let stage = Stage::new(&config);
    let told = "shard b, table orders: the table is not there";
    for args in [&["verify", "orders"][..], &["verify", "orders", "--key", "2"], &["verify", "orders", "--key", "3"]] {
        let output = stage.run(args).exits(3);
        assert!(output.stdout.contains(told), "{output:#?}");
    }
    let output = stage.run(&["verify", "orders", "--key", "2", "--format", "json"]).exits(3);
    let places = &output.events_named("key_places")[0];
    assert_eq!(places["home"], "a");
    assert_eq!(places["missing"][0]["shard"], "b");
    assert_eq!(places["found"][0]["at_home"], true);
}

#[test]
fn a_key_without_a_place_is_looked_for_all_the_same() {
    for algorithm in [
        "{ kind = \"range\", ranges = [{ shard = \"a\", until = 10 }, { shard = \"b\", from = 10, until = 20 }] }",
        "{ kind = \"list\", values = { a = [1], b = [2] } }",
    ] {
        let (fleet, config) = fleet(algorithm);
        run(&fleet, "b", "INSERT INTO orders VALUES (50), (50)");
        let stage = Stage::new(&config);
        let output = stage.run(&["verify", "orders", "--key", "50"]).exits(3);
        for told in [
            "the rule places the key 50 nowhere: no shard of keyspace orders covers the key 50",
            "shard b, table orders: 2 rows, without a place in the rule",
        ] {
            assert!(output.stdout.contains(told), "{output:#?}");
        }
        let output = stage.run(&["verify", "orders", "--key", "51", "--format", "json"]).exits(0);
        let places = &output.events_named("key_places")[0];
        assert!(places["home"].is_null(), "{places}");
        assert!(places["nowhere"].as_str().unwrap().contains("covers the key 51"), "{places}");
        assert_eq!(places["found"].as_array().unwrap().len(), 0);
    }
}

#[test]
fn a_file_that_is_not_there_is_a_shard_that_cannot_be_reached() {
    if NAME != "sqlite" {
        return;
    }
    let (fleet, config) = fleet(MODULO);
    run(&fleet, "a", "INSERT INTO orders VALUES (2)");
    let stage = Stage::empty();
    let gone = stage.path().join("gone.sqlite");
    let config = config.replace(&format!("{:?}", fleet.url("b")), &format!("{:?}", gone.display().to_string()));
    stage.write("diesel-sharded.toml", &config);
    for args in [&["verify", "orders"][..], &["verify", "orders", "--key", "2"], &["verify", "orders", "--key", "3"]] {
        let output = stage.run(args).exits(1);
        assert!(output.stdout.contains("there is no such file"), "{output:#?}");
        assert!(!gone.exists(), "{args:?}");
    }
}

#[test]
fn a_state_that_cannot_be_kept_fails_before_anything_is_read() {
    let (fleet, config) = fleet(MODULO);
    run(&fleet, "a", "INSERT INTO orders VALUES (3)");
    let stage = Stage::new(&config);
    let output = stage.run(&["verify", "orders", "--resume", "no/such/folder/state.json"]).exits(2);
    assert!(output.stderr.contains("take another path"), "{output:#?}");
    assert_eq!(output.stdout, "");
    // One that can is left as it was: the run was whole.
    stage.run(&["verify", "orders", "--resume", "state.json"]).exits(3);
    let left: Vec<_> = std::fs::read_dir(stage.path()).unwrap().map(|file| file.unwrap().file_name()).collect();
    assert_eq!(left, ["diesel-sharded.toml"]);
}

#[test]
fn counts_are_the_same_however_many_are_listed() {
    let (fleet, config) = fleet(MODULO);
    run(&fleet, "a", "INSERT INTO orders VALUES (1), (1), (1), (3), (5), (5), (NULL), (2)");
    run(&fleet, "b", "INSERT INTO orders VALUES (2), (2), (1)");
    let stage = Stage::new(&config);
    for listed in ["0", "1", "2", "3", "4", "5", "1000"] {
        let args = ["verify", "orders", "--max-findings", listed, "--format", "json"];
        let output = stage.run(&args).exits(3);
        // Keys 1, 3 and 5 and the null on `a`, key 2 on `b`.
        assert_eq!(output.events_named("verify_finished")[0]["findings"], 5, "{listed}");
        let found = output.events_named("verify_finding").len();
        assert_eq!(found, listed.parse::<usize>().unwrap().min(5));
    }
    let all = stage.run(&["verify", "orders"]).exits(3);
    for told in [
        "3 rows with the key 1 belong to orders on b, where there are rows with it as well",
        "1 row with the key 3 belongs to orders on b",
        "1 row without a key",
        "11 rows in 2 tables, 5 findings",
    ] {
        assert!(all.stdout.contains(told), "{told}: {all:#?}");
    }
}

/// Where a database takes any value in any column, what is no number is a row as others are.
#[test]
fn rows_of_another_type_are_rows() {
    if NAME != "sqlite" {
        return;
    }
    let (fleet, config) = fleet(MODULO);
    run(&fleet, "a", "INSERT INTO orders VALUES (2), ('two'), (x'02'), (NULL)");
    let output = Stage::new(&config).run(&["verify", "orders"]).exits(3);
    for told in ["2 rows with a key of another type", "1 row without a key", "4 rows in 2 tables, 2 findings"] {
        assert!(output.stdout.contains(told), "{told}: {output:#?}");
    }
}

/// A declared table has one key column, and says what else there is to do.
#[test]
fn composite_keys_are_refused_with_what_to_do() {
    let (_fleet, config) = fleet("{ kind = \"hash\", buckets = 64 }");
    let stage = Stage::new(&config.replace("algorithm", "key = [\"text\", \"integer\"]\nalgorithm"));
    let output = stage.run(&["verify", "orders"]).exits(2);
    assert!(output.stderr.contains("skew orders --keys FILE --column A --column B"), "{output:#?}");

    // Where all keyspaces are asked for, the others are verified.
    let (fleet, config) = fleet(MODULO);
    let composite = "[keyspaces.accounts]\nshards = [\"a\", \"b\"]\nkey = [\"text\", \"integer\"]\ntables = { accounts = { key_column = \"id\" } }\n";
    let stage = Stage::new(&format!("{config}{composite}"));
    let well = stage.run(&["verify"]).exits(2);
    run(&fleet, "b", "INSERT INTO orders VALUES (2)");
    let found = stage.run(&["verify"]).exits(3);
    for output in [well, found] {
        assert!(output.stdout.contains("keyspace orders: "), "{output:#?}");
        assert!(
            output.stderr.contains("its keys are composite, (text, integer), and"),
            "{output:#?}"
        );
    }
}
