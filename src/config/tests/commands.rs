//! Passwords that a program prints: kept for each connect, in one place, and never shown.

use super::secrets::assert_hidden;
use super::*;
use crate::topology::PasswordCommand;

const ONE: &str = "[shards.a]\nurl = \"postgres://app@db/x\"\n";

fn command(words: &[&str]) -> Option<PasswordCommand> {
    let words = words.iter().map(|&word| word.to_owned()).collect();
    Some(PasswordCommand::new(words).unwrap())
}

#[test]
fn a_command_is_kept_and_not_run() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("run");
    let path = trace.to_str().unwrap();
    let yaml = format!(
        "shards:\n  a:\n    url: postgres://app@db/x\n    password: {{command: [touch, '{path}']}}\n    replicas: [{{url: postgres://ro/x, password: {{command: [0123]}}}}]\n"
    );
    let config = valid(&yaml, Format::Yaml, &[]);
    let snapshot = snapshot(&config);
    let shard = &snapshot.shards()[0];
    assert_eq!(shard.primary.password_command, command(&["touch", path]));
    assert_eq!(shard.replicas[0].password_command, command(&["0123"]));
    assert_eq!(shard.primary.url.expose(), "postgres://app@db/x");
    assert!(!trace.exists());
    let plain = valid(ONE, Format::Toml, &[]);
    let plain = self::snapshot(&plain);
    assert_eq!(plain.shards()[0].primary.password_command, None);
}

#[test]
fn a_command_is_a_list_of_texts() {
    for (value, key, words) in [
        (
            "'vault S3cr3t!x'",
            "command",
            "write a list, [\"program\", \"argument\"]: nothing is split",
        ),
        ("5", "command", "write a list"),
        ("{ S3cr3t = 1 }", "command", "write a list"),
        ("[]", "command", "is an empty list"),
        ("['']", "command", "name the program"),
        ("[' ', 'S3cr3t!x']", "command", "name the program"),
        (
            "['vault', 5]",
            "command.1",
            "text is expected here: quote this value",
        ),
        (
            "['vault', ['S3cr3t!x']]",
            "command.1",
            "text is expected here",
        ),
        ("[\"vault\", \"S3cr3t!x\\u0000\"]", "command", "zero byte"),
    ] {
        let text = format!("{ONE}password = {{ command = {value} }}");
        let key = format!("the TOML text: shards.a.password.{key}: ");
        expect(toml(&text), &[&[&key, words]]);
        assert_hidden(toml(&text));
        let profile = format!("{ONE}[profiles.p.shards.a.password]\ncommand = {value}");
        expect(
            toml(&profile),
            &[&["profiles.p.shards.a.password.command", words]],
        );
    }
}

#[test]
fn a_command_stands_alone() {
    for (password, words) in [
        (
            "{ command = ['c'], env = 'A' }",
            "`env` and `command` are both given",
        ),
        (
            "{ command = ['c'], file = 'f' }",
            "`file` and `command` are both given",
        ),
        (
            "{ command = ['c'], none = true }",
            "`command` and `none` are both given",
        ),
        (
            "{ command = ['c'], file = 'f', env = 'A' }",
            "`env` and `file` and `command` are all given",
        ),
        (
            "{ command = ['c'], commands = 'S3cr3t!x' }",
            "unknown key in it",
        ),
    ] {
        let text = format!("{ONE}password = {password}");
        expect(toml(&text), &[&["shards.a.password: ", words]]);
        assert_hidden(toml(&text));
    }
    let at = |url: &str| {
        toml(&format!(
            "[shards.a]\nurl = '{url}'\npassword = {{ command = ['c'] }}"
        ))
    };
    for url in [
        "postgres://app:x@db/x",
        "mysql://app:x@db/x",
        "host=db password=x",
    ] {
        expect(
            at(url),
            &[&["shards.a.password: ", "shard a", "remove one of them"]],
        );
    }
    for url in ["a.db", ":memory:"] {
        expect(at(url), &[&["shards.a.password: ", "SQLite"]]);
    }
    // One mistake, one message.
    expect(at("oracle://db/x"), &[&["shards.a.url"]]);
    expect(at(""), &[&["shards.a.url"]]);
    for url in ["mysql://app@db/x", "host=db user=app"] {
        assert!(at(url).is_ok(), "{url}");
    }
}

#[test]
fn the_uppermost_layer_says_which_source_counts() {
    const COMMAND: &str = "command = ['lower']";
    let primary = |lower: &str, upper: &str, variables: Variables<'_>| {
        let text = format!("{ONE}password = {{ {lower} }}\n[profiles.p.shards.a]\n{upper}");
        let config = Config::loader()
            .profile("p")
            .environment(variables.iter().copied())
            .text(&text, Format::Toml)
            .unwrap();
        let found = snapshot(&config).shards()[0]
            .primary
            .password_command
            .clone();
        (found, password(&config, "a"))
    };
    let upper = "password = { command = ['upper', 'x'] }";
    for lower in [
        "env = 'UNSET'",
        "file = '/nowhere'",
        "none = true",
        "command = ['lower', 'y', 'z']",
    ] {
        assert_eq!(
            primary(lower, upper, &[]),
            (command(&["upper", "x"]), None),
            "{lower}"
        );
    }
    let own = Some("own".to_owned());
    let env = "password = { env = 'A_PWD' }";
    assert_eq!(
        primary(COMMAND, env, &[("A_PWD", "own")]),
        (None, own.clone())
    );
    assert_eq!(
        primary("none = true", env, &[("A_PWD", "own")]),
        (None, own.clone())
    );
    assert_eq!(
        primary(COMMAND, "password = 'own'", &[]),
        (None, own.clone())
    );
    assert_eq!(
        primary(COMMAND, "password = { none = true }", &[]),
        (None, None)
    );
    assert_eq!(
        primary(COMMAND, "password = { none = false }", &[]),
        (command(&["lower"]), None)
    );
    for variables in [
        &[("DIESEL_SHARDED_SHARDS__A__PASSWORD", "own")][..],
        &[
            ("DIESEL_SHARDED_SHARDS__A__PASSWORD__ENV", "A_PWD"),
            ("A_PWD", "own"),
        ],
    ] {
        assert_eq!(primary(COMMAND, "", variables), (None, own.clone()));
    }
    let text = format!("{ONE}password = 'lower'");
    let result = load(
        &text,
        Format::Toml,
        &[("DIESEL_SHARDED_SHARDS__A__PASSWORD__COMMAND", "a b")],
    );
    expect(
        result,
        &[&[
            "the environment variable DIESEL_SHARDED_SHARDS__A__PASSWORD__COMMAND: ",
            "write a list",
        ]],
    );
}

#[test]
fn a_variable_lies_over_the_password_of_a_replica() {
    for password in ["'lower'", "{ command = ['lower'] }", "{ env = 'UNSET' }"] {
        let text = format!(
            "{ONE}replicas = [{{ url = 'postgres://ro1/x', password = {password} }}, {{ url = 'postgres://ro2/x' }}]"
        );
        for variables in [
            &[("DIESEL_SHARDED_SHARDS__A__REPLICAS__0__PASSWORD", "own")][..],
            &[
                (
                    "DIESEL_SHARDED_SHARDS__A__REPLICAS__0__PASSWORD__ENV",
                    "A_PWD",
                ),
                ("A_PWD", "own"),
            ],
        ] {
            let config = valid(&text, Format::Toml, variables);
            let snapshot = snapshot(&config);
            let replica = &snapshot.shards()[0].replicas[0];
            assert_eq!(replica.url.expose(), "postgres://:own@ro1/x", "{password}");
            assert_eq!(replica.password_command, None);
        }
        let both = [
            ("DIESEL_SHARDED_SHARDS__A__REPLICAS__0__PASSWORD", "own"),
            (
                "DIESEL_SHARDED_SHARDS__A__REPLICAS__0__PASSWORD__ENV",
                "A_PWD",
            ),
            ("DIESEL_SHARDED_SHARDS__A__REPLICAS__1__PASSWORD", "two"),
        ];
        expect(
            load(&text, Format::Toml, &both),
            &[&[
                "REPLICAS__0__PASSWORD__ENV: goes below shards.a.replicas.0.password, which another variable sets",
            ]],
        );
    }
}

#[test]
fn no_argument_is_in_any_printed_form() {
    for password in [
        "{ command = ['vault', 'S3cr3t!x', '--token=S3cr3t!x'] }",
        "{ command = ['vault S3cr3t!x'] }",
        "{ command = ['vault', 'S3cr3t!x'], env = 'A' }",
        "{ command = ['vault', 'S3cr3t!x'], S3cr3t = 1 }",
    ] {
        assert_hidden(toml(&format!("{ONE}password = {password}")));
        let replica =
            format!("{ONE}replicas = [{{ url = 'postgres://ro/x', password = {password} }}]");
        assert_hidden(toml(&replica));
        let sqlite = format!("[shards.a]\nurl = 'a.db'\npassword = {password}");
        assert_hidden(toml(&sqlite));
    }
    for (text, format) in [
        (
            "shards:\n  a:\n    password: {command: {S3cr3t: 1, S3cr3t: 2}}",
            Format::Yaml,
        ),
        (
            r#"{"shards":{"a":{"password":{"command":[{"S3cr3t":1,"S3cr3t":2}]}}}}"#,
            Format::Json,
        ),
    ] {
        assert_hidden(load(text, format, &[]));
    }
    let shown = format!(
        "{:?}",
        toml(&format!("{ONE}password = {{ command = ['c'] }}"))
            .unwrap()
            .spec()
    );
    assert!(
        shown.contains("PasswordCommand { program: \"c\", .. }"),
        "{shown}"
    );
}

#[test]
fn a_source_that_fails_several_nodes_is_one_problem() {
    let text = "
        [shards.a]
        url = 'postgres://app@db/a'
        password = { env = 'PWD_1' }
        replicas = [{ url = 'postgres://ro/a', password = { env = 'PWD_1' } }]
        [shards.b]
        url = 'postgres://app@db/b'
        password = { env = 'PWD_2' }
        [shards.c]
        url = 'postgres://app@db/c'
        password = { env = 'PWD_1' }
    ";
    expect(
        toml(text),
        &[
            &[
                "shards.a.password: the environment variable PWD_1, which holds the password of shard a, replica 1 of shard a, shard c, is not set",
            ],
            &[
                "shards.b.password: the environment variable PWD_2, which holds the password of shard b, is not set",
            ],
        ],
    );
    let many: String = (0..100)
        .map(|i| format!("[shards.s{i}]\nurl = 'postgres://app@db/{i}'\npassword = {{ file = '/nowhere/pwd' }}\n"))
        .collect();
    expect(
        toml(&many),
        &[&["the file /nowhere/pwd", "and 84 more, cannot be read"]],
    );
}
