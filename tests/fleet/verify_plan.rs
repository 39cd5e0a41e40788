//! `verify`: tables that a rule names, the pace of reading, and rules that cannot be asked.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use diesel::connection::SimpleConnection;
use diesel_sharded::blocking::{VerifyOptions, verify};
use diesel_sharded::migrate::AnyConnection;
use diesel_sharded::{KeyspaceConfig, RuleSpec, Topology};

use super::backend::Fleet;
use crate::harness::{Stage, shards};

fn quarters(fleet: &Fleet, table: &str) -> String {
    format!(
        "{}[keyspaces.quarters]\nshards = [\"a\", \"b\"]\nkey = \"date\"\n\
         algorithm = {{ kind = \"date\", every = \"quarter\", from = \"2024-01\", until = \"2030-01\" }}\n\
         tables = {{ {table} = {{ key_column = \"k\", by_rule = true }} }}\n",
        shards(["a", "b"].map(|shard| (shard, fleet.url(shard))))
    )
}

#[test]
fn tables_that_are_nowhere_are_no_clean_answer() {
    let fleet = Fleet::new(&["a", "b"]);
    fleet
        .direct("a")
        .batch_execute("CREATE TABLE q_20241 (k DATE); INSERT INTO q_20241 VALUES ('2024-02-03');")
        .unwrap();
    let stage = Stage::new(&quarters(&fleet, "q"));
    stage.run(&["verify", "quarters"]).exits(0);

    let wrong = Stage::new(&quarters(&fleet, "quarter"));
    for args in [&["verify", "quarters"][..], &["verify", "quarters", "--key", "2024-02-03"]] {
        let output = wrong.run(args).exits(3);
        let told = "table quarter: none of the tables that the rule names is there";
        assert!(output.stdout.contains(told), "{output:#?}");
        assert_eq!(output.stdout.matches(told).count(), 1, "{output:#?}");
    }
}

#[test]
fn tables_outside_of_the_plan_are_named() {
    let fleet = Fleet::new(&["a", "b"]);
    for sql in [
        "CREATE TABLE q_20241 (k DATE)",
        "CREATE TABLE q_19991 (k DATE)",
        "INSERT INTO q_19991 VALUES ('1999-02-03')",
        "CREATE TABLE q_1999x (k DATE)",
        "CREATE TABLE q_199912 (k DATE)",
        "CREATE TABLE other_19991 (k DATE)",
    ] {
        fleet.direct("b").batch_execute(sql).expect(sql);
    }
    let stage = Stage::new(&quarters(&fleet, "q"));
    let output = stage.run(&["verify", "quarters", "--resume", "state.json"]).exits(3);
    for told in [
        "shard b, table q_19991: the table lies outside of what the rule covers",
        "0 rows in 1 table, 1 finding",
    ] {
        assert!(output.stdout.contains(told), "{told}: {output:#?}");
    }
    let output = stage.run(&["verify", "quarters", "--key", "1999-02-03"]).exits(3);
    for told in ["nowhere", "shard b, table q_19991: 1 row, without a place in the rule"] {
        assert!(output.stdout.contains(told), "{told}: {output:#?}");
    }
}

#[test]
fn the_rate_holds_over_all_tables_of_a_shard() {
    let fleet = Fleet::new(&["a"]);
    let rule = RuleSpec::modulo(["a"]);
    let topology = Topology::builder()
        .shard("a", fleet.url("a"))
        .keyspace("orders", KeyspaceConfig::new(rule).table("orders", "k", 4))
        .build()
        .unwrap();
    for part in 0..4 {
        let rows: Vec<String> = (0..50).map(|row| format!("({})", row * 4 + part)).collect();
        let sql = format!("CREATE TABLE orders_{part} (k BIGINT)");
        fleet.direct("a").batch_execute(&sql).expect(&sql);
        let sql = format!("INSERT INTO orders_{part} VALUES {}", rows.join(", "));
        fleet.direct("a").batch_execute(&sql).expect(&sql);
    }
    let read = |rate: u32| {
        let read = Mutex::new(vec![0]);
        let options = VerifyOptions::new().rows_per_second(Some(rate));
        let begun = Instant::now();
        let report = verify::<AnyConnection>(&topology, "orders", &options, &|progress| {
            read.lock().unwrap().push(progress.rows);
        });
        assert_eq!(report.unwrap().rows, 200);
        let read = read.into_inner().unwrap();
        let most = read.windows(2).map(|pair| pair[1] - pair[0]).max();
        (begun.elapsed(), most.unwrap())
    };
    // Whatever is read is paid for before anything else is: 150 rows before the last table.
    let (took, most) = read(100);
    assert!(took >= Duration::from_millis(1_450), "{took:?}");
    assert!(most <= 100, "{most}");
    let (took, most) = read(40);
    assert!(took >= Duration::from_secs(4), "{took:?}");
    assert!(most <= 40, "{most}");
}

#[test]
fn an_algorithm_that_is_not_known_here_is_no_answer() {
    let fleet = Fleet::new(&["a", "b"]);
    for shard in ["a", "b"] {
        fleet
            .direct(shard)
            .batch_execute("CREATE TABLE mine (k BIGINT)")
            .unwrap();
    }
    let stage = Stage::new(&format!(
        "{}[keyspaces.mine]\nshards = [\"a\", \"b\"]\nalgorithm = {{ kind = \"custom\", name = \"by-digits\" }}\n\
         tables = {{ mine = {{ key_column = \"k\" }} }}\n",
        shards(["a", "b"].map(|shard| (shard, fleet.url(shard))))
    ));
    stage.write("keys.txt", "1\n2\n");
    let this = "diesel-sharded.toml";
    for args in [
        &["verify", "mine"][..],
        &["verify", "mine", "--key", "1"],
        &["skew", "mine", "--keys", "keys.txt"],
        &["placement", "diff", this, this],
        &["placement", "diff", this, this, "--keys", "keys.txt"],
    ] {
        let output = stage.run(args).exits(2);
        let told = "the custom one \"by-digits\", which this program does not know";
        assert!(output.stderr.contains(told), "{args:?}: {output:#?}");
    }
    let output = stage.run(&["config", "check"]).exits(0);
    let told = "\"by-digits\" is not known to this program and was not checked";
    assert!(format!("{output:?}").replace("\\\"", "\"").contains(told), "{output:#?}");
}

#[test]
fn shards_that_take_turns_are_told_like_buckets_without_a_map() {
    let fleet = Fleet::new(&["a", "b"]);
    let config = quarters(&fleet, "q");
    let output = Stage::new(&config).run(&["config", "check", "--format", "json"]).exits(0);
    let warned = |output: &crate::harness::Output| {
        let warnings = output.events_named("warning");
        warnings.iter().any(|warning| {
            let message = warning["message"].as_str().unwrap_or_default();
            message.contains("take the periods in turn, and a shard that is added moves rows")
        })
    };
    assert!(warned(&output), "{output:#?}");
}

#[test]
fn what_a_run_leaves_is_not_that_of_another_rule() {
    let fleet = Fleet::new(&["a", "b"]);
    fleet
        .direct("a")
        .batch_execute("CREATE TABLE q_20241 (k DATE)")
        .unwrap();
    let stage = Stage::new(&quarters(&fleet, "q"));
    let state = "{\"keyspace\": \"quarters\", \"fingerprint\": \"other\", \"positions\": {}, \"findings\": 7}";
    stage.write("state.json", state);
    let output = stage.run(&["verify", "quarters", "--resume", "state.json"]).exits(0);
    let told = "state.json: the state is that of another rule or configuration of keyspace quarters, so this run begins anew";
    assert!(output.stderr.contains(told), "{output:#?}");
}

/// The right shard is not yet the right table.
#[test]
fn the_table_of_a_key_is_named_beside_its_shard() {
    let fleet = Fleet::new(&["a", "b"]);
    for shard in ["a", "b"] {
        for sql in [
            "CREATE TABLE orders_0 (k BIGINT)",
            "CREATE TABLE orders_1 (k BIGINT)",
        ] {
            fleet.direct(shard).batch_execute(sql).expect(sql);
        }
    }
    fleet
        .direct("b")
        .batch_execute("INSERT INTO orders_0 VALUES (3)")
        .unwrap();
    let stage = Stage::new(&format!(
        "{}[keyspaces.orders]\nshards = [\"a\", \"b\"]\nalgorithm = {{ kind = \"modulo\", count = 2 }}\n\
         tables = {{ orders = {{ key_column = \"k\", count = 2 }} }}\n",
        shards(["a", "b"].map(|shard| (shard, fleet.url(shard))))
    ));
    let output = stage.run(&["verify", "orders", "--key", "3"]).exits(3);
    for told in [
        "the key 3 belongs to shard b, orders_1",
        "shard b, table orders_0: 1 row, not where they belong",
    ] {
        assert!(output.stdout.contains(told), "{told}: {output:#?}");
    }
}
