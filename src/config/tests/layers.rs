//! Files, profiles, figments, and where a value came from.

use figment::Figment;

use super::*;

const FILE: &str = r#"
[shards.a]
url = "postgres://app@db-a/x"
password = { env = "A_PWD" }
[shards.b]
url = "postgres://app@db-b/x"
password = { env = "B_PWD" }
[keyspaces.k]
shards = ["a", "b"]
algorithm = { kind = "hash", buckets = 64 }
[profiles.dev]
shared_database = true
[profiles.dev.shards.a]
url = "postgres://app@localhost/x"
password = "dev"
[profiles.dev.shards.b]
url = "postgres://app@localhost/x"
password = { none = true }
[profiles.one.shards.b]
password = { file = "/nowhere/b" }
[profiles.one.keyspaces.k]
shards = ["a"]
algorithm = { kind = "modulo", count = 1 }
"#;

const PASSWORDS: Variables<'_> = &[("A_PWD", "pa"), ("B_PWD", "pb")];

#[test]
fn a_profile_lies_over_the_rest() {
    let plain = valid(FILE, Format::Toml, PASSWORDS);
    assert_eq!(plain.profile(), None);
    assert_eq!(url(&plain, "a"), "postgres://app:pa@db-a/x");

    let dev = Config::loader()
        .environment([("DIESEL_SHARDED_PROFILE", "dev")])
        .text(FILE, Format::Toml)
        .unwrap();
    assert_eq!(dev.profile(), Some("dev"));
    assert_eq!(url(&dev, "a"), "postgres://app:dev@localhost/x");
    assert_eq!(url(&dev, "b"), "postgres://app@localhost/x");
    let warnings = format!("{:?}", dev.warnings());
    assert!(
        warnings.contains("shared_database is in force"),
        "{warnings}"
    );
    assert!(warnings.contains("[profiles.dev]"), "{warnings}");

    // What is chosen in code wins over the environment.
    let one = Config::loader()
        .profile("one")
        .environment([("DIESEL_SHARDED_PROFILE", "dev"), ("A_PWD", "pa")])
        .text(FILE, Format::Toml);
    // The file of the upper layer counts, not the variable of the lower one.
    expect(
        one,
        &[&[
            "the TOML text [profiles.one]: shards.b.password",
            "/nowhere/b",
        ]],
    );
    let text = FILE.replace("{ file = \"/nowhere/b\" }", "\"x\"");
    let one = Config::loader()
        .profile("one")
        .environment(PASSWORDS.iter().copied())
        .text(&text, Format::Toml)
        .unwrap();
    let snapshot = snapshot(&one);
    // An algorithm with a new kind is a new algorithm: `buckets` went with the old one.
    assert_eq!(snapshot.keyspaces()[0].rule.algorithm_name(), "modulo");
    assert_eq!(snapshot.keyspaces()[0].rule.shards(), ["a"]);
}

#[test]
fn the_environment_lies_over_the_profile() {
    let config = Config::loader()
        .profile("dev")
        .environment([("DIESEL_SHARDED_SHARDS__A__PASSWORD", "0123")])
        .text(FILE, Format::Toml)
        .unwrap();
    assert_eq!(url(&config, "a"), "postgres://app:0123@localhost/x");
}

#[test]
fn an_unknown_profile_is_an_error() {
    for (name, words) in [("devv", "did you mean dev?"), ("", "(profiles: dev, one)")] {
        let result = Config::loader()
            .profile(name)
            .environment(PASSWORDS.iter().copied())
            .text(FILE, Format::Toml);
        expect(
            result,
            &[&["the TOML text: profiles: unknown profile", words]],
        );
    }
    let result = Config::loader()
        .profile("dev")
        .text("[shards.a]\nurl='a.db'", Format::Toml);
    expect(result, &[&["(profiles: none)"]]);
}

#[test]
fn a_mistake_in_a_profile_is_found_before_its_day_comes() {
    let text = "[shards.a]\nurl = 'a.db'\n[profiles.prod.shards.a]\nurll = 'b.db'\n[profiles.prod.pool]\nidle_timeout = 3\n";
    expect(
        toml(text),
        &[
            &["profiles.prod.shards.a.urll", "did you mean `url`?"],
            &["profiles.prod.pool.idle_timeout", "write \"3s\""],
        ],
    );
    let chosen = Config::loader()
        .profile("prod")
        .environment::<&str, &str>([])
        .text(text, Format::Toml);
    expect(
        chosen,
        &[
            &[
                "the TOML text [profiles.prod]: shards.a.urll",
                "did you mean `url`?",
            ],
            &[
                "the TOML text [profiles.prod]: pool.idle_timeout",
                "write \"3s\"",
            ],
        ],
    );
}

#[test]
fn every_format_says_the_same() {
    let yaml = "
shards:
  a: {url: a.db, pool: {max_size: 3, idle_timeout: never}}
budget: {connections_per_server: 10, headroom: 0.5}
keyspaces:
  k: {shards: [a], algorithm: {kind: hash, buckets: 64}, tables: {t: {key_column: id, count: 2}}}
";
    let json = r#"{
        "shards": {"a": {"url": "a.db", "pool": {"max_size": 3, "idle_timeout": false}}},
        "budget": {"connections_per_server": 10, "headroom": 0.5},
        "keyspaces": {"k": {"shards": ["a"], "algorithm": {"kind": "hash", "buckets": 64},
            "tables": {"t": {"key_column": "id", "count": 2}}}}
    }"#;
    let toml = r#"
        shards.a = { url = "a.db", pool = { max_size = 3, idle_timeout = "never" } }
        budget = { connections_per_server = 10, headroom = 0.5 }
        [keyspaces.k]
        shards = ["a"]
        algorithm = { kind = "hash", buckets = 64 }
        tables.t = { key_column = "id", count = 2 }
    "#;
    let folder = tempfile::tempdir().unwrap();
    let texts = [
        ("x.toml", toml, Format::Toml),
        ("x.yaml", yaml, Format::Yaml),
        ("x.YML", yaml, Format::Yaml),
        ("x.json", json, Format::Json),
    ];
    let mut specs = Vec::new();
    for (name, text, format) in texts {
        specs.push(format!("{:?}", valid(text, format, &[]).spec()));
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        let config = Config::loader()
            .environment::<&str, &str>([])
            .file(&path)
            .unwrap();
        specs.push(format!("{:?}", config.spec()));
        let origin = &config.warnings()[0].origin;
        assert_eq!(origin, &path.display().to_string());
    }
    specs.dedup();
    assert_eq!(specs.len(), 1, "{specs:#?}");
}

#[test]
fn the_file_is_found_in_a_folder_above() {
    let folder = tempfile::tempdir().unwrap();
    let deep = folder.path().join("x/y");
    std::fs::create_dir_all(&deep).unwrap();
    let file = folder.path().join("diesel-sharded.toml");
    std::fs::write(&file, "[shards.a]\nurl = 'a.db'\n").unwrap();
    assert_eq!(crate::config::loader::find_file(&deep), Some(file.clone()));

    let config = Config::loader()
        .environment([("DIESEL_SHARDED_CONFIG", file.as_os_str())])
        .load()
        .unwrap();
    assert_eq!(snapshot(&config).names(), ["a"]);
}

#[test]
fn a_figment_of_the_application_is_read_and_the_config_is_one() {
    let config = valid(FILE, Format::Toml, PASSWORDS);
    let app = Figment::from(("own.key", 1)).merge(&config);
    assert_eq!(
        app.extract_inner::<String>("shards.a.url").unwrap(),
        "postgres://app@db-a/x"
    );

    let app = app
        .merge(("shards.a.password", "p"))
        .merge(("shards.b.password", "q"));
    // `own` is no key of ours.
    expect(
        Config::from_figment(app.clone()),
        &[&["own", "unknown key"]],
    );
    let nested = Figment::from(("db.shards.a.url", "postgres://db/x"))
        .merge(("db.shards.a.pool.max_size", 7))
        .merge(("db.profiles.dev.shards.a.pool.max_size", 2))
        .focus("db");
    let config = Config::from_figment(nested.clone()).unwrap();
    assert_eq!(snapshot(&config).shards()[0].primary.pool.max_size, 7);
    let config = Config::loader()
        .profile("dev")
        .figment(nested.clone())
        .unwrap();
    assert_eq!(snapshot(&config).shards()[0].primary.pool.max_size, 2);
    // Its own variables are its business.
    let ignored = Config::loader()
        .environment([("DIESEL_SHARDED_POOL__MAX_SIZ", "1")])
        .figment(nested);
    assert!(ignored.is_ok());

    struct Broken;
    impl figment::Provider for Broken {
        fn metadata(&self) -> figment::Metadata {
            figment::Metadata::named("broken")
        }
        fn data(
            &self,
        ) -> Result<figment::value::Map<figment::Profile, figment::value::Dict>, figment::Error>
        {
            Err(figment::Error::from("found string \"S3cr3t!x\"".to_owned()))
        }
    }
    let error = Config::from_figment(Figment::from(Broken)).unwrap_err();
    assert!(!format!("{error} {error:?}").contains("S3cr3t"));
}
