//! Passwords, in whatever way they were given, are in nothing that the program prints.

use std::net::TcpListener;

use crate::harness::{Output, Stage};

const SECRETS: [&str; 3] = ["S3cr3t", "%21x", "********"];

/// A port where somebody listens and says nothing, and one where nobody does.
fn fleet(port: u16) -> String {
    format!(
        r#"
        [pool]
        connect_timeout = "300ms"

        [shards.refused]
        url = "postgres://app:S3cr3t!x@127.0.0.1:1/a"
        [shards.silent]
        url = "mysql://app:S3cr3t%21x@127.0.0.1:{port}/b"
        [shards.field]
        url = "postgres://app@127.0.0.1:1/c"
        password = "S3cr3t!x"
        [shards.command]
        url = "postgres://app@127.0.0.1:1/d"
        password = {{ command = ["printf", "S3cr3t!x"] }}
        [shards.conninfo]
        url = "host=127.0.0.1 port=1 user=app password='S3cr3t!x' dbname=e"
        replicas = [{{ url = "postgres://app@127.0.0.1:1/e2?password=S3cr3t%21x" }}]

        [keyspaces.all]
        shards = ["refused", "silent", "field", "command", "conninfo"]
        migrations = "migrations"
        "#
    )
}

fn clean(output: &Output) {
    for text in [&output.stdout, &output.stderr] {
        for secret in SECRETS {
            assert!(!text.contains(secret), "{secret}: {text}");
        }
    }
}

#[test]
fn no_command_shows_one() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let stage = Stage::new(&fleet(listener.local_addr().unwrap().port()));
    stage.migration(
        "2024-01-01-000000_t1",
        "CREATE TABLE t1 (id INT)",
        "DROP TABLE t1",
    );
    for (args, code) in [
        (&["config", "check"][..], 0),
        (&["config", "map"], 0),
        (&["locate", "all", "42"], 0),
        (&["ping"], 1),
        (&["migration", "run"], 1),
        (&["migration", "revert"], 1),
        (&["migration", "plan", "--sql"], 1),
        (&["migration", "status"], 1),
        (&["migration", "list"], 1),
        (&["migration", "pending"], 1),
        (&["migration", "unlock"], 1),
        (&["schema", "diff"], 1),
    ] {
        for format in ["text", "json"] {
            let args = [args, &["--format", format]].concat();
            let output = stage.run(&args).exits(code);
            clean(&output);
            assert!(!output.stdout.is_empty(), "{args:?}");
        }
    }
}

/// What is wrong with the configuration is told without what was written.
#[test]
fn no_refusal_shows_one() {
    for line in [
        "url = \"postgres://app:S3cr3t!x@db:port/a\"",
        "url = \"postgres://app:S3cr3t@x@db/a\"",
        "url = \"mysql://app:S3cr3t!x@/\"\npassword = \"S3cr3t!x\"",
        "url = \"oracle://app:S3cr3t!x@db/a\"",
        "urll = \"postgres://app:S3cr3t!x@db/a\"",
        "url = \"a.db\"\npassword = \"S3cr3t!x\"",
        "url = \"postgres://app@db/a\"\npassword = [\"S3cr3t!x\"]",
        "url = \"postgres://app:S3cr3t!x@db/a",
    ] {
        let stage = Stage::new(&format!("[shards.a]\n{line}\n"));
        for args in [&["config", "check"][..], &["migration", "run"]] {
            clean(&stage.run(args).exits(2));
        }
    }
    let stage = Stage::new("[shards.a]\nurl = \"postgres://app@db/a\"\n");
    let output = Output::of(
        stage
            .command(&["config", "check"])
            .env("DIESEL_SHARDED_SHARDS__B__PASSWORD", "S3cr3t!x"),
    );
    clean(&output.exits(2));
}
