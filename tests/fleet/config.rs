//! `config check` and `config map`.

use crate::harness::{Output, Stage};

const FLEET: &str = r#"
default_shard = "order-0"

[shards.order-0]
url = "postgres://app:S3cr3t!x@db-0:5432/orders"
replicas = [{ url = "postgres://app_ro:S3cr3t!x@db-0b:5432/orders", weight = 2 }]

[shards.order-1]
url = "mysql://app:S3cr3t%21x@db-1/orders"

[keyspaces.orders]
shards = ["order-0", "order-1"]
algorithm = { kind = "hash", buckets = 10 }
tables = { t_order = { key_column = "user_id", count = 8 } }
migrations = "migrations/orders"

[profiles.dev]
shared_database = true
shards.order-0 = { url = "a.db", replicas = [] }
shards.order-1.url = "a.db"
"#;

/// A folder with that configuration and what it names.
fn fleet() -> Stage {
    let stage = Stage::new(FLEET);
    stage.write("migrations/orders/2024-01-01-000000_t/up.sql", "SELECT 1;");
    stage
}

/// A clean answer has no password, no piece of one, and no mask as long as one.
fn clean(output: &Output) {
    for text in [&output.stdout, &output.stderr] {
        for secret in ["S3cr3t", "%21x", "********"] {
            assert!(!text.contains(secret), "{text}");
        }
    }
}

#[test]
fn a_valid_file_is_resolved_without_secrets() {
    let output = fleet().run(&["config", "check"]).exits(0);
    clean(&output);
    for expected in [
        "postgres://app:***@db-0:5432/orders",
        "postgres://app_ro:***@db-0b:5432/orders",
        "mysql://app:***@db-1/orders",
        "migrations/orders",
        "t_order x 8 by user_id",
        "has no written map",
        "2 shards, 1 keyspace, default shard order-0",
    ] {
        assert!(
            output.stdout.contains(expected),
            "{expected:?} in {output:#?}"
        );
    }
    assert_eq!(output.stderr, "");
}

#[test]
fn machines_get_one_object_per_event() {
    let output = fleet()
        .run(&["config", "check", "--format", "json"])
        .exits(0);
    clean(&output);
    let names: Vec<_> = output
        .events()
        .iter()
        .map(|event| event["event"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(
        names,
        [
            "node",
            "node",
            "node",
            "keyspace",
            "warning",
            "config_checked"
        ]
    );
    let nodes = output.events_named("node");
    assert_eq!(nodes[1]["role"], "replica");
    assert_eq!(nodes[1]["weight"], 2);
    assert_eq!(nodes[2]["state"], "open");
    let summary = &output.events_named("config_checked")[0];
    assert_eq!(summary["shards"], 2);
    assert_eq!(summary["warnings"], 1);
}

#[test]
fn everything_that_is_wrong_is_told_at_once() {
    let wrong = r#"
        defualt_shard = "a"
        default_shard = "nowhere"

        [shards.a]
        urll = "postgres://app:S3cr3t!x@db/a"
        pool = { max_size = 0 }

        [shards.b]
        url = "postgres://app:S3cr3t!x@db/b?sslmod=require"

        [keyspaces.orders]
        shards = ["a", "b", "c"]
        algorithm = { kind = "modulo", count = 2 }
    "#;
    let stage = Stage::new(wrong);
    let output = stage.run(&["config", "check"]).exits(2);
    clean(&output);
    assert_eq!(output.stdout, "");
    for key in [
        "defualt_shard",
        "default_shard",
        "shards.a.urll",
        "shards.a.pool.max_size",
        "keyspaces.orders.shards",
    ] {
        assert!(output.stderr.contains(key), "{key} in {output:#?}");
    }
    let output = stage.run(&["config", "check", "--format=json"]).exits(2);
    clean(&output);
    let error = &output.events_named("error")[0];
    assert_eq!(error["exit_code"], 2);
    let problems = error["problems"].as_array().unwrap();
    assert!(problems.len() >= 5, "{problems:#?}");
    for problem in problems {
        assert!(
            problem["origin"]
                .as_str()
                .unwrap()
                .ends_with("diesel-sharded.toml"),
            "{problem}"
        );
    }
}

#[test]
fn the_file_and_the_profile_are_the_callers_choice() {
    let stage = fleet();
    let other = stage.write("deep/down/fleet.yaml", "shards: { solo: { url: solo.db } }");
    let path = other.to_str().unwrap();
    for args in [
        &["--config", path, "config", "check"][..],
        &["config", "check", "-c", path],
    ] {
        let output = stage.run(args).exits(0);
        assert!(output.stdout.contains("solo"), "{output:#?}");
    }
    let named = Output::of(
        stage
            .command(&["config", "check"])
            .env("DIESEL_SHARDED_CONFIG", path),
    );
    assert!(named.exits(0).stdout.contains("solo"));

    let dev = stage.run(&["config", "check", "--profile", "dev"]).exits(0);
    assert!(dev.stdout.contains("(profile dev)"), "{dev:#?}");
    assert!(dev.stdout.contains("a.db"), "{dev:#?}");
    let typo = stage.run(&["config", "check", "--profile", "deb"]).exits(2);
    assert!(typo.stderr.contains("did you mean"), "{typo:#?}");

    let missing = stage.run(&["config", "check", "-c", "none.toml"]).exits(2);
    assert!(missing.stderr.contains("none.toml"), "{missing:#?}");
    let nothing = Stage::empty().run(&["config", "check"]).exits(2);
    assert!(
        nothing.stderr.contains("diesel-sharded.toml"),
        "{nothing:#?}"
    );
}

/// The map in force, written down as it is printed, is a configuration that places as before and
/// has nothing left to warn of.
#[test]
fn the_printed_map_can_be_written_down() {
    let stage = fleet();
    let fingerprint = |output: &Output| {
        output.events_named("keyspace")[0]["fingerprint"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let before = stage.run(&["config", "check", "--format", "json"]).exits(0);
    let map = stage.run(&["config", "map"]).exits(0).stdout;
    let without: String = FLEET
        .lines()
        .filter(|line| !line.starts_with("algorithm"))
        .map(|line| format!("{line}\n"))
        .collect();
    stage.write("diesel-sharded.toml", &format!("{without}\n{map}"));
    let after = stage.run(&["config", "check", "--format", "json"]).exits(0);
    assert_eq!(fingerprint(&before), fingerprint(&after));
    assert!(after.events_named("warning").is_empty(), "{after:#?}");
    assert_eq!(stage.run(&["config", "map", "orders"]).exits(0).stdout, map);
}

#[test]
fn a_rule_without_buckets_has_no_map() {
    let stage = Stage::new(
        r#"
        [shards.a]
        url = "a.db"
        [keyspaces.orders]
        shards = ["a"]
        algorithm = { kind = "modulo", count = 1 }
        "#,
    );
    for args in [&["config", "map"][..], &["config", "map", "orders"]] {
        let output = stage.run(args).exits(2);
        assert!(
            output.stderr.contains("no map to write down"),
            "{output:#?}"
        );
    }
    let output = stage.run(&["config", "map", "oders"]).exits(2);
    assert!(
        output.stderr.contains("did you mean orders?"),
        "{output:#?}"
    );
}

/// Whoever reads the first line and goes leaves no panic behind.
#[cfg(unix)]
#[test]
fn a_reader_that_goes_early_is_no_error() {
    use std::io::Read;
    use std::os::unix::net::UnixStream;
    use std::process::Stdio;

    let stage = fleet();
    let (reader, writer) = UnixStream::pair().unwrap();
    drop(reader);
    let mut child = stage
        .command(&["config", "check"])
        .stdout(Stdio::from(std::os::fd::OwnedFd::from(writer)))
        .spawn()
        .unwrap();
    let mut said = String::new();
    let mut stderr = child.stderr.take().unwrap();
    stderr.read_to_string(&mut said).unwrap();
    assert!(child.wait().unwrap().success(), "{said}");
    assert_eq!(said, "");
}

/// Two shards, in this many keyspaces and with this said of migrations.
fn with_migrations(more: &str) -> Stage {
    Stage::new(&format!(
        "[shards.a]\nurl = \"a.db\"\n[shards.b]\nurl = \"b.db\"\n{more}"
    ))
}

/// What `config check` says and what `migration run` says: the same, and before any database is made.
#[track_caller]
fn both_refuse(stage: &Stage, expected: &[&str]) {
    for args in [&["config", "check"][..], &["migration", "run"]] {
        let output = stage.run(args).exits(2);
        for expected in expected {
            assert!(output.stderr.contains(expected), "{expected}: {output:#?}");
        }
        assert_eq!(output.stdout, "");
    }
    assert!(!stage.path().join("a.db").exists());
}

#[test]
fn migrations_that_run_would_refuse_are_no_valid_configuration() {
    let stage = with_migrations(
        "[keyspaces.one]\nshards = [\"a\", \"b\"]\nmigrations = \"one\"\n\
         [keyspaces.two]\nshards = [\"b\"]\nmigrations = \"two\"\n",
    );
    stage.write("one/2024-01-01-000000_t/up.sql", "SELECT 1;");
    stage.write("two/2024-01-01-000000_u/up.sql", "SELECT 2;");
    both_refuse(&stage, &["version 20240101000000 is there twice"]);

    let stage = with_migrations(
        "[keyspaces.one]\nshards = [\"a\"]\nmigrations = \"nodir\"\n\
         [keyspaces.two]\nshards = [\"b\"]\nmigrations = \"nowhere\"\n",
    );
    let both = [
        "keyspaces.one.migrations: there is no folder of migrations",
        "keyspaces.two.migrations: there is no folder of migrations",
    ];
    both_refuse(&stage, &both);
    let output = stage.run(&["config", "check", "--format", "json"]).exits(2);
    let error = &output.events_named("error")[0];
    assert_eq!(error["problems"].as_array().unwrap().len(), 2, "{error}");

    let stage = with_migrations("");
    stage.write("migrations/2024-01-01-000000_t/up.sql", "SELECT 1;");
    stage.write("migrations/2024-01-01-000000_u/up.sql", "SELECT 2;");
    both_refuse(&stage, &["version 20240101000000 is there twice"]);
}

/// Where the configuration names no folder, what is shown is what `migration run` uses.
#[test]
fn the_folder_that_nobody_named_is_shown() {
    let stage = with_migrations("");
    let shown = |expected: &str| {
        let output = stage.run(&["config", "check"]).exits(0);
        let mut rows = output.stdout.lines().skip(1).take(2);
        assert!(rows.all(|row| row.ends_with(expected)), "{output:#?}");
        let output = stage.run(&["config", "check", "--format", "json"]).exits(0);
        output.events_named("node")[1]["migrations"].clone()
    };
    assert_eq!(shown(" -"), serde_json::json!([]));
    stage.write("migrations/2024-01-01-000000_t/up.sql", "SELECT 1;");
    assert_eq!(shown(" migrations"), serde_json::json!(["migrations"]));
    stage.write(
        "diesel.toml",
        "[migrations_directory]\ndir = \"db/steps\"\n",
    );
    stage.write("db/steps/2024-01-01-000000_t/up.sql", "SELECT 1;");
    assert_eq!(shown(" db/steps"), serde_json::json!(["db/steps"]));
}

/// A configuration without migrations is a good one for an application; `migration run` refuses it.
#[test]
fn a_default_folder_that_is_not_there_is_told() {
    let stage = with_migrations("");
    let said = |text: &str, what: &str| {
        assert!(
            text.contains(&format!("migrations {what}: say `migrations = ")),
            "{text}"
        );
    };
    let check = stage.run(&["config", "check"]).exits(0);
    said(&check.stdout, "is not there");
    let json = stage.run(&["config", "check", "--format", "json"]).exits(0);
    let warnings = json.events_named("warning");
    said(
        warnings.last().unwrap()["message"].as_str().unwrap(),
        "is not there",
    );
    assert_eq!(
        json.events_named("config_checked")[0]["warnings"],
        warnings.len()
    );
    said(
        &stage.run(&["migration", "run"]).exits(2).stderr,
        "is not there",
    );

    // A file of that name is nobody's intention.
    stage.write("migrations", "");
    said(
        &stage.run(&["migration", "run"]).exits(2).stderr,
        "is no folder",
    );
    said(
        &stage.run(&["config", "check"]).exits(2).stderr,
        "is no folder",
    );
}

/// What clap says in paragraphs is one sentence after the other.
#[test]
fn a_misspelt_option_is_told_with_its_punctuation() {
    let stage = Stage::empty();
    let message = |args: &[&str]| {
        let output = stage.run(&[args, &["--format", "json"]].concat()).exits(2);
        output.events_named("error")[0]["message"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    assert_eq!(
        message(&["migration", "run", "--paralel", "3"]),
        "unexpected argument '--paralel' found; tip: a similar argument exists: '--parallel'"
    );
    assert_eq!(
        message(&["migration", "repair", "b"]),
        "the following required arguments were not provided: <--resume-from <N>|--mark <STATE>>, <VERSION>"
    );
    assert_eq!(
        message(&["migration", "run", "-p", "x"]),
        "invalid value 'x' for '--parallel <N>': invalid digit found in string"
    );
}

#[test]
fn a_table_whose_parts_the_rule_names_is_not_shown_as_one() {
    let stage = Stage::new(
        "[shards.a]\nurl = \"a.db\"\n\n[keyspaces.events]\nshards = [\"a\"]\nkey = \"date\"\n\
         algorithm = { kind = \"date\", every = \"month\", from = \"2024-01\", until = \"2045-01\" }\n\
         tables = { event = { key_column = \"day\", by_rule = true } }\n",
    );
    let output = stage.run(&["config", "check"]).exits(0);
    let shown = "event by day, one table per part of the rule";
    assert!(output.stdout.contains(shown), "{output:#?}");
}

/// A table that is not split has its own name, unless a pattern gives it the one of a part.
#[test]
fn a_table_of_one_part_is_shown_by_its_physical_name() {
    let with = |table: &str| {
        let stage = Stage::new(&format!(
            "[shards.a]\nurl = 'a.db'\n[keyspaces.k]\nshards = ['a']\nalgorithm = {{ kind = 'modulo', count = 1 }}\ntables = {{ orders = {{ key_column = 'user_id', {table} }} }}\n"
        ));
        stage.run(&["config", "check"]).exits(0).stdout
    };
    let named = with("count = 1, pattern = '{name}_{table}'");
    assert!(
        named.contains("orders x 1 by user_id as orders_0"),
        "{named}"
    );
    let plain = with("count = 1");
    assert!(
        plain.contains("orders x 1 by user_id") && !plain.contains("orders_0"),
        "{plain}"
    );
}

/// It says which tables are there, and no migration has a part in that.
#[test]
fn tables_are_listed_without_migrations() {
    let stage = Stage::new(
        "[shards.a]\nurl = 'a.db'\n[keyspaces.k]\nshards = ['a']\nalgorithm = { kind = 'modulo', count = 1 }\ntables = { orders = { key_column = 'user_id', count = 2 } }\n",
    );
    stage.write("a.db", "");
    let listed = stage.run(&["tables", "list"]).exits(0).stdout;
    assert!(
        listed.contains("orders_1") && listed.contains("missing"),
        "{listed}"
    );
    let refused = stage.run(&["tables", "ensure"]).exits(2);
    assert!(
        refused.stderr.contains("names no migrations"),
        "{refused:#?}"
    );
}
