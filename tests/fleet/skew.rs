//! `skew` and `placement diff`: what would be, without any database.

use std::io::Write;
use std::process::Stdio;

use crate::harness::{Output, Stage};

const FLEET: &str = r#"
[shards.a]
url = "postgres://app@no-such-host.invalid/a"
[shards.b]
url = "postgres://app@no-such-host.invalid/b"
[shards.c]
url = "postgres://app@no-such-host.invalid/c"
[shards.d]
url = "postgres://app@no-such-host.invalid/d"

[keyspaces.orders]
shards = ["a", "b", "c", "d"]
algorithm = { kind = "hash", buckets = 4096 }
tables = { t_order = { key_column = "user_id", count = 8 } }
[keyspaces.old]
shards = ["a", "b", "c", "d"]
algorithm = { kind = "modulo", count = 4 }
tables = { t_old = { key_column = "id", count = 8 } }
[keyspaces.mail]
shards = ["a", "b"]
key = "text"
"#;

fn lines(keys: impl Iterator<Item = i64>) -> String {
    keys.map(|key| format!("{key}\n")).collect()
}

/// The traps: D14's snowflake ids, one of whose ids comes every other millisecond.
#[test]
fn d14_snowflake_ids_are_uneven_under_a_remainder_and_even_under_a_hash() {
    let stage = Stage::new(FLEET);
    stage.write(
        "ids.txt",
        &lines((0..32_000).map(|n| (1_700_000_000_000 + 2 * n) << 22)),
    );
    let skewed = stage
        .run(&["skew", "old", "--keys", "ids.txt", "--format", "json"])
        .exits(0);
    let report = &skewed.events_named("skew")[0];
    assert_eq!(report["keys"], 32_000);
    assert_eq!(report["unlikely"], true);
    assert_eq!(report["shards"][0]["keys"], 32_000);
    assert!(
        report["warnings"][0].as_str().unwrap().contains("low bits"),
        "{report:#}"
    );
    let even = stage
        .run(&["skew", "orders", "--keys", "ids.txt", "--format", "json"])
        .exits(0);
    let report = &even.events_named("skew")[0];
    assert_eq!(report["unlikely"], false, "{report:#}");
    for share in report["tables"][0][1].as_array().unwrap() {
        let keys = share["keys"].as_u64().unwrap();
        assert!((500..=1_500).contains(&keys), "{share}");
    }
    let text = stage.run(&["skew", "orders", "--keys", "ids.txt"]).exits(0);
    assert!(text.stdout.contains("████"), "{text:#?}");
    assert!(text.stdout.contains("as chance has it"), "{text:#?}");
}

#[test]
fn heavy_keys_csv_columns_nulls_and_standard_input() {
    let stage = Stage::new(FLEET);
    let mut csv = "id,user_id\n".to_owned();
    for row in 0..5_000 {
        let user = if row % 2 == 0 {
            "7".to_owned()
        } else {
            row.to_string()
        };
        csv += &format!("{row},{user}\n");
    }
    csv += "x,\ny,seven\n";
    stage.write("orders.csv", &csv);
    let args = [
        "skew",
        "orders",
        "--keys",
        "orders.csv",
        "--column",
        "user_id",
        "--format",
        "json",
    ];
    let output = stage.run(&args).exits(0);
    let report = &output.events_named("skew")[0];
    assert_eq!(report["keys"], 5_000);
    assert_eq!(report["nulls"], 1);
    assert_eq!(report["unreadable"], 1);
    assert_eq!(report["heaviest"][0]["key"], "7");
    let heaviest = report["heaviest"][0]["at_least"].as_u64().unwrap();
    let uncertainty = report["uncertainty"].as_u64().unwrap();
    assert!(
        heaviest <= 2_501 && heaviest + uncertainty >= 2_501,
        "{report:#}"
    );
    let warnings = report["warnings"].to_string();
    assert!(
        warnings.contains("no rule can spread the rows of one key"),
        "{warnings}"
    );

    let mut command = stage.command(&["skew", "mail", "--keys", "-"]);
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all("a@b.de\nA@b.de\r\n".as_bytes()).unwrap();
    drop(stdin);
    let output = Output::from(child.wait_with_output().unwrap()).exits(0);
    assert!(
        output.stdout.contains("keyspace mail: 2 keys"),
        "{output:#?}"
    );
    assert!(output.stdout.contains("does not normalize"), "{output:#?}");

    for (args, said) in [
        (&["skew", "orders"][..], "--keys FILE"),
        (&["skew", "orders", "--keys", "none.txt"], "none.txt"),
        (
            &["skew", "orders", "--keys", "orders.csv", "--column", "user"],
            "columns: id, user_id",
        ),
        (
            &["skew", "nobody", "--keys", "orders.csv"],
            "unknown keyspace",
        ),
    ] {
        let output = stage.run(args).exits(2);
        assert!(output.stderr.contains(said), "{output:#?}");
    }
}

#[test]
fn a_change_of_the_map_is_told_exactly_and_others_are_measured() {
    let stage = Stage::new(FLEET);
    let map = r#"algorithm = { kind = "hash", buckets = 4096, map = [{ shard = "a", buckets = "0..1024" }, { shard = "b", buckets = "1024..2048" }, { shard = "c", buckets = "2048..3072" }, { shard = "d", buckets = "3072..4000" }, { shard = "a", buckets = "4000..4096" }] }"#;
    let changed = FLEET
        .replace(r#"algorithm = { kind = "hash", buckets = 4096 }"#, map)
        .replace(
            "shards = [\"a\", \"b\", \"c\", \"d\"]\nalgorithm = { kind = \"modulo\", count = 4 }",
            "shards = [\"a\", \"b\", \"c\"]\nalgorithm = { kind = \"modulo\", count = 3 }",
        );
    stage.write("new.toml", &changed);
    let diff = [
        "placement",
        "diff",
        "diesel-sharded.toml",
        "new.toml",
        "--format",
        "json",
    ];
    let output = stage.run(&diff).exits(0);
    let diffs = output.events_named("placement_diff");
    let of = |name: &str| {
        let found = diffs.iter().find(|diff| diff["keyspace"] == name);
        found.unwrap().clone()
    };
    let orders = of("orders");
    assert_eq!(orders["exact"], true);
    assert_eq!(orders["moved"], 96.0 / 4096.0);
    assert_eq!(orders["moves"].as_array().unwrap().len(), 1);
    assert_eq!(orders["moves"][0]["from"], "d");
    assert_eq!(orders["moves"][0]["to"], "a");
    assert_eq!(orders["moves"][0]["examples"][0], "4000..4096");
    assert_eq!(of("mail")["moved"], 0.0);
    let old = of("old");
    assert_eq!(old["exact"], false);
    // 0..100,000 keep their shard where their remainders by 4 and 3 are equal: 1 of 4.
    assert!(
        (old["moved"].as_f64().unwrap() - 0.75).abs() < 0.001,
        "{old:#}"
    );

    stage.write("ids.txt", &lines(0..12));
    let mut args = diff.to_vec();
    args.extend(["--keyspace", "old", "--keys", "ids.txt"]);
    let output = stage.run(&args).exits(0);
    assert_eq!(output.events_named("placement_diff")[0]["moved"], 0.75);
    let text = stage
        .run(&["placement", "diff", "diesel-sharded.toml", "new.toml"])
        .exits(0);
    assert!(
        text.stdout.contains("d -> a: 96 (2.34 %): 4000..4096"),
        "{text:#?}"
    );
}
