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

fn skew(stage: &Stage, args: &[&str]) -> serde_json::Value {
    let args = [&["skew", "--format", "json"], args].concat();
    stage.run(&args).exits(0).events_named("skew")[0].clone()
}

/// `placement diff` of the file with itself.
fn unchanged(stage: &Stage, keyspace: &str, args: &[&str]) -> Output {
    let file = "diesel-sharded.toml";
    stage.run(
        &[
            &["placement", "diff", file, file, "--keyspace", keyspace],
            args,
        ]
        .concat(),
    )
}

#[test]
fn lines_that_are_no_keys_are_counted_and_named_and_the_rest_is_read() {
    let stage = Stage::new(FLEET);
    let path = stage.path().join("bytes.txt");
    std::fs::write(path, b"\xEF\xBB\xBF1\n2\r\n\xFF\n\n3\nfour\n\r\n5").unwrap();
    let csv =
        "\u{feff}user_id,note\r\n1,a\r\n2\r\n3,\"two\r\nlines\"\r\n\r\nfour,x\r\n5,a,b\r\n6,\"z\"";
    stage.write("rows.csv", csv);
    for (args, keys, lines, blank) in [
        (
            &["--keys", "bytes.txt"][..],
            4,
            serde_json::json!([3, 6]),
            2,
        ),
        (
            &["--keys", "rows.csv", "--column", "user_id"],
            3,
            serde_json::json!([3, 7, 8]),
            1,
        ),
    ] {
        let report = skew(&stage, &[&["orders"], args].concat());
        assert_eq!(report["keys"], keys, "{report:#}");
        assert_eq!(report["unreadable"], lines.as_array().unwrap().len());
        assert_eq!(report["unreadable_lines"], lines, "{report:#}");
        assert_eq!(report["blank"], blank, "{report:#}");
        let first = format!("line {}: ", lines[0]);
        assert!(
            report["first_unreadable"]
                .as_str()
                .unwrap()
                .starts_with(&first),
            "{report:#}"
        );
        let output = unchanged(&stage, "orders", &[args, &["--format", "json"]].concat()).exits(0);
        let diff = &output.events_named("placement_diff")[0];
        assert_eq!(diff["basis"], format!("{keys} keys"));
        for same in [
            "unreadable",
            "unreadable_lines",
            "first_unreadable",
            "blank",
        ] {
            assert_eq!(diff[same], report[same], "{same}");
        }
        let text = unchanged(&stage, "orders", args).exits(0);
        assert!(text.stdout.contains("lines are no keys ("), "{text:#?}");
        assert!(text.stdout.contains("skipped"), "{text:#?}");
    }
    // The last column has the end of the line behind it.
    let notes = skew(&stage, &["mail", "--keys", "rows.csv", "--column", "note"]);
    assert_eq!(
        (&notes["keys"], &notes["unreadable"]),
        (&4.into(), &2.into()),
        "{notes:#}"
    );
    assert_eq!(notes["heaviest"].as_array().unwrap().len(), 0, "{notes:#}");
}

#[test]
fn files_without_a_key_are_told_alike() {
    let stage = Stage::new(FLEET);
    stage.write("none.txt", "");
    stage.write("blank.txt", "\n\n");
    stage.write("words.txt", "one\ntwo\n");
    for (file, told) in [
        ("none.txt", ""),
        ("blank.txt", ""),
        ("words.txt", "; line 1: \"one\" is no integer key"),
    ] {
        let expected = format!("{file}: there is no integer key in it{told}");
        for output in [
            stage.run(&["skew", "orders", "--keys", file]),
            unchanged(&stage, "orders", &["--keys", file]),
        ] {
            let output = output.exits(2);
            assert!(output.stderr.contains(&expected), "{output:#?}");
            assert_eq!(output.stdout, "");
        }
    }
    // An empty line is no empty text.
    stage.write("mails.txt", "a@b.de\n\n");
    let report = skew(&stage, &["mail", "--keys", "mails.txt"]);
    assert_eq!((&report["keys"], &report["blank"]), (&1.into(), &1.into()));
    let text = unchanged(&stage, "mail", &["--keys", "mails.txt"]).exits(0);
    assert!(text.stdout.contains("0.00 % of 1 key move"), "{text:#?}");
    assert!(text.stdout.contains("1 blank line skipped"), "{text:#?}");
    let text = unchanged(&stage, "old", &[]).exits(0);
    assert!(!text.stdout.contains("-0"), "{text:#?}");
}

#[test]
fn nulls_and_keys_without_a_place_are_no_part_of_what_moves() {
    let stage = Stage::new(FLEET);
    stage.write("rows.csv", "id,x\n1,\n2,\n,\n");
    let output = unchanged(
        &stage,
        "old",
        &["--keys", "rows.csv", "--column", "id", "--format", "json"],
    )
    .exits(0);
    let diff = &output.events_named("placement_diff")[0];
    assert_eq!(
        (&diff["basis"], &diff["unplaced"]),
        (&"2 keys".into(), &1.into()),
        "{diff:#}"
    );
    let report = skew(&stage, &["old", "--keys", "rows.csv", "--column", "id"]);
    assert_eq!((&report["keys"], &report["nulls"]), (&2.into(), &1.into()));
}

const STOCK: &str = r#"
[keyspaces.stock]
shards = ["a", "b", "c", "d"]
key = ["text", "integer"]
"#;

#[test]
fn composite_keys_with_commas_are_read_from_everywhere_alike() {
    let stage = Stage::new(&format!("{FLEET}{STOCK}"));
    let shard_of = |key: &str| {
        let output = stage
            .run(&["locate", "stock", key, "--format", "json"])
            .exits(0);
        let event = output.events_named("placement")[0].clone();
        (event["key"].clone(), event["shard"].clone())
    };
    let home = shard_of("\"Meyer, Sons\",7");
    assert_eq!(home.0, "(\"Meyer, Sons\", 7)");
    assert_eq!(shard_of("(\"Meyer, Sons\", 7)"), home);
    assert_eq!(shard_of("(\"Meyer, Sons\",7)"), home);
    stage.write(
        "keys.txt",
        "\"Meyer, Sons\",7\n(\"Meyer, Sons\", 7)\nMeyer, Sons,7\n",
    );
    stage.write(
        "one.csv",
        "key\n\"\"\"Meyer, Sons\"\",7\"\n\"(\"\"Meyer, Sons\"\", 7)\"\n",
    );
    stage.write(
        "two.csv",
        "id,name\n7,\"Meyer, Sons\"\n7,\"Meyer, Sons\"\n8,\n9,\"say \"\"hi\"\"\"\n",
    );
    for (args, bad, nulls) in [
        (&["--keys", "keys.txt"][..], 1, 0),
        (&["--keys", "one.csv", "--column", "key"], 0, 0),
        (
            &["--keys", "two.csv", "--column", "name", "--column", "id"],
            0,
            1,
        ),
    ] {
        let report = skew(&stage, &[&["stock"], args].concat());
        assert_eq!(report["heaviest"][0]["key"], home.0, "{report:#}");
        assert_eq!(report["heaviest"][0]["at_least"], 2);
        assert_eq!(
            (&report["unreadable"], &report["nulls"]),
            (&bad.into(), &nulls.into()),
            "{report:#}"
        );
        unchanged(&stage, "stock", args).exits(0);
    }
    // A key of two parts takes two columns.
    let third = ["--column", "name", "--column", "id", "--column", "id"];
    for columns in [&third[..2], &third] {
        let args = [&["skew", "stock", "--keys", "two.csv"], columns].concat();
        let output = stage.run(&args).exits(2);
        let told = "say --column 2 times, once for each part";
        assert!(output.stderr.contains(told), "{output:#?}");
    }
    let args = [
        "skew", "old", "--keys", "two.csv", "--column", "name", "--column", "id",
    ];
    let output = stage.run(&args).exits(2);
    assert!(output.stderr.contains("say --column once"), "{output:#?}");
}

#[test]
fn lists_and_ranges_of_text_are_compared_exactly() {
    let rule = |algorithm: &str| {
        format!(
            "{FLEET}\n[keyspaces.lands]\nshards = [\"a\", \"b\", \"c\"]\nkey = \"text\"\nalgorithm = {algorithm}\n"
        )
    };
    let old = r#"{ kind = "list", values = { a = ["DE", "AT", "x, y"], b = ["FR"], c = [] } }"#;
    let stage = Stage::new(&rule(old));
    let diff = |from: &str, to: &str| {
        stage.write("old.toml", &rule(from));
        stage.write("new.toml", &rule(to));
        let args = [
            "placement",
            "diff",
            "old.toml",
            "new.toml",
            "-k",
            "lands",
            "--format",
            "json",
        ];
        let found = stage.run(&args).exits(0).events_named("placement_diff")[0].clone();
        assert_eq!(found["exact"], true, "{found:#}");
        let moves: Vec<String> = found["moves"]
            .as_array()
            .unwrap()
            .iter()
            .map(|way| format!("{} {} {}", way["from"], way["to"], way["examples"]))
            .collect();
        (found["basis"].as_str().unwrap().to_owned(), moves)
    };
    let new = r#"{ kind = "list", values = { a = ["DE"], b = ["FR", "AT"], c = ["x, y", "IT"] } }"#;
    let (basis, mut moves) = diff(old, new);
    moves.sort();
    assert_eq!(basis, "5 listed keys");
    let expected = [
        r#""a" "b" ["\"AT\""]"#,
        r#""a" "c" ["\"x, y\""]"#,
        r#"null "c" ["\"IT\""]"#,
    ];
    assert_eq!(moves, expected);
    assert_eq!(diff(old, old), ("4 listed keys".to_owned(), Vec::new()));

    let ranges = r#"{ kind = "range", ranges = [{ shard = "a", until = "E" }, { shard = "b", from = "E" }] }"#;
    let (basis, moves) = diff(old, ranges);
    assert_eq!(basis, "4 listed keys (other keys had no place before)");
    assert_eq!(moves, [r#""a" "b" ["\"x, y\""]"#]);
    let (basis, moves) = diff(ranges, old);
    assert_eq!(basis, "4 listed keys (other keys have no place any more)");
    assert_eq!(moves, [r#""b" "a" ["\"x, y\""]"#]);

    let shifted = r#"{ kind = "range", ranges = [{ shard = "a", until = "F" }, { shard = "b", from = "F" }] }"#;
    let (basis, moves) = diff(ranges, shifted);
    assert_eq!(
        basis,
        "3 ranges of keys (which may hold any number of keys)"
    );
    assert_eq!(moves, [r#""b" "a" ["\"E\"..\"F\""]"#]);
}
