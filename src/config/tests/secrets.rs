//! Cases H01, H03, H09 and H11: passwords come through byte for byte, and never come out.

use std::ffi::OsString;

use super::*;

const ONE: &str = "[shards.a]\nurl = \"postgres://app@db/x\"\n";

/// Texts that some parser takes for something else.
const AWKWARD: &[&str] = &[
    "123456",
    "0123",
    "1.10",
    "true",
    "[abc]",
    "{a=1}",
    "{a: 1}",
    "99999999999999999999",
    "1e5",
    "",
    "null",
    "~",
    "on",
    "no",
    "0o17",
    "0x1F",
    "12_34",
    "\"quoted\"",
    "'quoted'",
    " blanks ",
    "pä߀",
    "a,b",
    "a#b",
    "${HOME}",
    "%41",
    "-1",
    "inf",
    "1979-05-27",
];

#[test]
fn a_password_from_the_environment_is_its_exact_text() {
    for text in AWKWARD {
        let variables = [("DIESEL_SHARDED_SHARDS__A__PASSWORD", *text)];
        let config = valid(ONE, Format::Toml, &variables);
        assert_eq!(password(&config, "a").as_deref(), Some(*text));

        if !text.is_empty() {
            let by_name = format!("{ONE}password = {{ env = \"A_PWD\" }}");
            let config = valid(&by_name, Format::Toml, &[("A_PWD", text)]);
            assert_eq!(password(&config, "a").as_deref(), Some(*text));
        }
    }
    assert_eq!(password(&valid(ONE, Format::Toml, &[]), "a"), None);
}

#[test]
fn a_password_from_a_file_is_its_exact_text() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("secret");
    let text = format!("{ONE}password = {{ file = '{}' }}", path.display());
    for secret in AWKWARD.iter().chain(&["a\nb", "\na", " "]) {
        std::fs::write(&path, secret).unwrap();
        let config = valid(&text, Format::Toml, &[]);
        assert_eq!(password(&config, "a").as_deref(), Some(*secret));
    }
    for (bytes, words) in [
        (&b"S3cr3t!x\n"[..], "printf %s"),
        (b"S3cr3t!x\r\n", "printf %s"),
        (b"S3cr3t!x\xff", "not UTF-8"),
        (b"S3cr3t!x\0", "zero byte"),
    ] {
        std::fs::write(&path, bytes).unwrap();
        expect(toml(&text), &[&["the TOML text: shards.a.password", words]]);
        assert_hidden(toml(&text));
    }
    std::fs::remove_file(&path).unwrap();
    expect(
        toml(&text),
        &[&[
            "shards.a.password",
            "of shard a",
            "secret",
            "cannot be read",
        ]],
    );
}

#[test]
fn a_missing_source_names_itself_and_the_shard() {
    let text = format!(
        "{ONE}password = {{ env = \"A_PWD\" }}\nreplicas = [{{ url = \"postgres://ro/x\", password = {{ env = \"RO_PWD\" }} }}]"
    );
    expect(
        toml(&text),
        &[
            &["shards.a.password", "A_PWD", "of shard a", "is not set"],
            &[
                "shards.a.replicas.0.password",
                "RO_PWD",
                "of replica 1 of shard a",
                "is not set",
            ],
        ],
    );
    let variables = [("A_PWD", "x\n"), ("RO_PWD", "y")];
    expect(
        load(&text, Format::Toml, &variables),
        &[&["A_PWD", "line break", "printf %s"]],
    );
}

#[cfg(unix)]
#[test]
fn a_variable_that_is_not_utf8_is_refused() {
    use std::os::unix::ffi::OsStringExt;
    let broken = || OsString::from_vec(b"S3cr3t\xff!x".to_vec());
    let text = format!("{ONE}password = {{ env = \"A_PWD\" }}");
    let result = Config::loader()
        .environment([("A_PWD", broken())])
        .text(&text, Format::Toml);
    expect(result, &[&["A_PWD", "not UTF-8"]]);
    let result = Config::loader()
        .environment([("DIESEL_SHARDED_SHARDS__A__PASSWORD", broken())])
        .text(ONE, Format::Toml);
    expect(
        result,
        &[&["DIESEL_SHARDED_SHARDS__A__PASSWORD", "not UTF-8"]],
    );
}

#[test]
fn a_yaml_scalar_is_its_exact_text() {
    for text in [
        "0123",
        "123",
        "1e3",
        "0o17",
        "0x1F",
        "on",
        "no",
        "yes",
        "true",
        "12_34",
        "1.10",
        ".5",
        "+1",
        "99999999999999999999",
        "1:30",
        "2024-01-01",
        "a b",
        "abc#d",
        "=",
        ".inf",
        "1e999",
        "\"0123\"",
        "'it''s'",
    ] {
        let yaml = format!("shards:\n  a:\n    url: postgres://app@db/x\n    password: {text}\n");
        let config = valid(&yaml, Format::Yaml, &[]);
        let expected = match text {
            "\"0123\"" => "0123",
            "'it''s'" => "it's",
            other => other,
        };
        assert_eq!(password(&config, "a").as_deref(), Some(expected));
    }
}

#[test]
fn a_value_that_is_no_text_must_be_quoted() {
    let yaml = |value: &str| {
        let text = format!("shards:\n  a:\n    url: postgres://app@db/x\n    password: {value}\n");
        load(&text, Format::Yaml, &[])
    };
    let json = |value: &str| {
        let text =
            format!(r#"{{"shards":{{"a":{{"url":"postgres://app@db/x","password":{value}}}}}}}"#);
        load(&text, Format::Json, &[])
    };
    let in_toml = |value: &str| toml(&format!("{ONE}password = {value}"));
    let mut results = Vec::new();
    for value in [
        "~",
        "",
        "null",
        "[S3cr3t!x]",
        "{S3cr3t!x}",
        "{a: S3cr3t!x}",
        "{S3cr3t!x: 1, S3cr3t!x: 2}",
    ] {
        results.push((value, yaml(value)));
    }
    for value in [
        "123",
        "1.10",
        "1e3",
        "null",
        "true",
        "[\"S3cr3t!x\"]",
        "{\"S3cr3t!x\":1}",
    ] {
        results.push((value, json(value)));
    }
    for value in [
        "123",
        "1_23",
        "0x1F",
        "1.10",
        "true",
        "inf",
        "[\"S3cr3t!x\"]",
        "{\"S3cr3t!x\" = 1}",
        "{}",
    ] {
        results.push((value, in_toml(value)));
    }
    for (value, result) in results {
        let found = problems(result);
        let found: Vec<String> = found.iter().map(ToString::to_string).collect();
        let line = found.iter().find(|line| line.contains("quote this value"));
        let line = line.unwrap_or_else(|| panic!("{value}: {found:?}"));
        assert!(line.contains("text: shards.a.password: "), "{line}");
        for part in ["S3cr3t", "123", "1.10", "1e3"] {
            assert!(!found.concat().contains(part), "{value}: {found:?}");
        }
    }
}

#[test]
fn a_syntax_error_does_not_show_the_line() {
    for (text, format) in [
        ("[shards.a]\npassword = S3cr3t!x", Format::Toml),
        ("[shards.a]\npassword = 'S3cr3t!x", Format::Toml),
        ("[shards.a]\npassword = \"S3cr3t\\!x\"", Format::Toml),
        ("[shards.a]\npassword = 0S3cr3t!x", Format::Toml),
        ("shards:\n  a:\n    password: %S3cr3t!x", Format::Yaml),
        ("shards:\n  a:\n    password: @S3cr3t!x", Format::Yaml),
        ("shards:\n  a:\n    password: *S3cr3t!x", Format::Yaml),
        ("shards:\n  a:\n    password: !S3cr3t!x y", Format::Yaml),
        ("shards:\n  a:\n    password: \"S3cr3t!x", Format::Yaml),
        ("shards:\n  a:\n    password: \"S3cr3t\\!x\"", Format::Yaml),
        ("shards:\n  a:\n    password: a: S3cr3t!x", Format::Yaml),
        ("shards:\n  a:\n    password: [S3cr3t!x", Format::Yaml),
        (r#"{"shards":{"a":{"password":S3cr3t!x}}}"#, Format::Json),
        (r#"{"shards":{"a":{"password":"S3cr3t\!x"}}}"#, Format::Json),
        (r#"{"shards":{"a":{"password":"S3cr3t!x"#, Format::Json),
    ] {
        assert_hidden(load(text, format, &[]));
        let first = &problems(load(text, format, &[]))[0];
        assert!(first.message.contains("line "), "{first}");
    }
}

/// Whatever a result says, it says no secret.
#[track_caller]
pub(super) fn assert_hidden(result: Result<Config, Error>) {
    let mut shown = format!("{result:?} {result:#?}");
    match &result {
        Ok(config) => {
            let topology = config.topology().unwrap();
            shown += &format!("{:?} {topology:?} {:?}", config.spec(), snapshot(config));
        }
        Err(error) => shown += &format!("{error} {error:#}"),
    }
    for secret in ["S3cr3t", "s3cr3t", "3t!x", "21x"] {
        assert!(!shown.contains(secret), "{secret}: {shown}");
    }
}

#[test]
fn no_secret_is_in_any_printed_form() {
    for (text, variables) in [
        // Valid, so that `Debug` of everything is looked at.
        (
            "[shards.a]\nurl = 'postgres://app:S3cr3t%21x@db/x'",
            &[][..],
        ),
        (
            "[shards.a]\nurl = 'postgres://app@db/x?password=S3cr3t%21x'",
            &[],
        ),
        (
            "[shards.a]\nurl = 'postgres://app@db/x'\npassword = 'S3cr3t!x'",
            &[],
        ),
        (
            "[shards.a]\nurl = 'host=db dbname=x'\npassword = 'S3cr3t!x'",
            &[],
        ),
        (
            "[shards.a]\nurl = 'mysql://app@db/x'\npassword = 'S3cr3t!x'",
            &[],
        ),
        (ONE, &[("DIESEL_SHARDED_SHARDS__A__PASSWORD", "S3cr3t!x")]),
        (
            "[shards.a]\nurl = ''",
            &[(
                "DIESEL_SHARDED_SHARDS__A__URL",
                "postgres://app:S3cr3t%21x@db/x",
            )],
        ),
        // Invalid in one way or the other.
        (
            "[shards.a]\nurl = 'postgres://app:S3cr3t%21x@db/x'\npassword = 'S3cr3t!x'",
            &[],
        ),
        ("[shards.a]\nurl = ['postgres://app:S3cr3t%21x@db/x']", &[]),
        (
            "[shards.a]\nurl = { 'postgres://app:S3cr3t%21x@db/x' = 1 }",
            &[],
        ),
        ("[shards.a]\nurl = 'oracle://app:S3cr3t%21x@db/x'", &[]),
        ("[shards.a]\nurl = 'postgres//app:S3cr3t!x@db/x'", &[]),
        ("[shards.a]\nurl = 'postgres://app:S3/cr3t!x@db/x'", &[]),
        ("[shards.a]\nurl = 'a.db'\npassword = 'S3cr3t!x'", &[]),
        ("[shards.a]\nurll = 'postgres://app:S3cr3t%21x@db/x'", &[]),
        (
            "[shards.a]\nurl = 'postgres://db/x'\npasword = 'S3cr3t!x'",
            &[],
        ),
        ("[shards]\na = 'postgres://app:S3cr3t%21x@db/x'", &[]),
        ("shards = 'postgres://app:S3cr3t%21x@db/x'", &[]),
        (
            "[shards.a]\nurl = 'postgres://db/x'\nreplicas = ['postgres://app:S3cr3t%21x@db/y']",
            &[],
        ),
        (
            "[shards.a]\nurl = 'postgres://db/x'\nreplicas = 'postgres://app:S3cr3t%21x@db/y'",
            &[],
        ),
        (ONE, &[("DIESEL_SHARDED_SHARDS__B__PASSWORD", "S3cr3t!x")]),
        (ONE, &[("DIESEL_SHARDED_SHARDS__A", "S3cr3t!x")]),
        (
            ONE,
            &[("DIESEL_SHARDED_SHARDS__A__PASSWORD__ENVV", "S3cr3t!x")],
        ),
        (ONE, &[("DIESEL_SHARDED_POOL__MAX_SIZE", "S3cr3t!x")]),
        (ONE, &[("DIESEL_SHARDED_POOL", "S3cr3t!x")]),
        (
            "[shards.a]\nurl = 'postgres://app:S3cr3t%21x@db/x'\n[shards.b]\nurl = 'postgres://app:S3cr3t%21x@db/x'",
            &[],
        ),
        (
            "[budget]\nconnections_per_server = 1\n[shards.a]\nurl = 'postgres://app:S3cr3t%21x@db/x'",
            &[],
        ),
    ] {
        assert_hidden(load(text, Format::Toml, variables));
    }
    let loader = Config::loader().environment([("PWD", "S3cr3t!x")]);
    assert!(!format!("{loader:?}").contains("S3cr3t"));
}

#[test]
fn a_password_is_given_in_one_place() {
    for url in [
        "postgres://app:x@db/x",
        "postgres://app@db/x?password=x",
        "mysql://app:x@db/x",
    ] {
        let text = format!("[shards.a]\nurl = '{url}'\npassword = 'y'");
        expect(
            toml(&text),
            &[&["shards.a.password", "shard a", "remove one of them"]],
        );
    }
    let text = format!("{ONE}password = {{ env = 'A', file = 'b' }}");
    expect(toml(&text), &[&["shards.a.password", "both given"]]);
    expect(
        toml("[shards.a]\nurl = 'a.db'\npassword = 'y'"),
        &[&["shards.a.password", "SQLite"]],
    );
}

#[test]
fn an_empty_variable_is_an_error_except_for_a_password() {
    for (name, words) in [
        (
            "DIESEL_SHARDED_SHARDS__A__URL",
            &["shards.a.url: empty url for shard a"][..],
        ),
        ("DIESEL_SHARDED_POOL__MAX_SIZE", &["is empty: unset it"]),
        ("DIESEL_SHARDED_DEFAULT_SHARD", &["is empty: unset it"]),
        ("DIESEL_SHARDED_PROFILE", &["is empty: unset it"]),
        (
            "DIESEL_SHARDED_SHARDS__A__PASSWORD__ENV",
            &["is empty: unset it"],
        ),
    ] {
        let mut words = words.to_vec();
        let origin = format!("the environment variable {name}: ");
        words.push(&origin);
        expect(load(ONE, Format::Toml, &[(name, "")]), &[&words]);
    }
    let config = valid(
        ONE,
        Format::Toml,
        &[("DIESEL_SHARDED_SHARDS__A__PASSWORD", "")],
    );
    assert_eq!(password(&config, "a").as_deref(), Some(""));
}
