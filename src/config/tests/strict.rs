//! Cases H05, H06, C14 and C15: what is not meant is an error, and names stay what they are.

use super::*;

#[test]
fn an_unknown_key_is_an_error_with_a_suggestion_at_every_level() {
    for (text, key, hint) in [
        (
            "defaultshard = 'a'",
            "defaultshard",
            "did you mean `default_shard`?",
        ),
        ("[poool]\nmax_size = 1", "poool", "did you mean `pool`?"),
        (
            "[pool]\nmaxsize = 1",
            "pool.maxsize",
            "did you mean `max_size`?",
        ),
        (
            "[budget]\nconnections_per_server = 100\ninstance = 1",
            "budget.instance",
            "did you mean `instances`?",
        ),
        (
            "[shards.b]\nurl = 'b.db'\nurll = 'c.db'",
            "shards.b.urll",
            "did you mean `url`?",
        ),
        (
            "[shards.b]\nurl = 'b.db'\nmax_size = 5",
            "shards.b.max_size",
            "pool = { max_size = .. }",
        ),
        (
            "[shards.b]\nurl = 'b.db'\npool = { size = 5 }",
            "shards.b.pool.size",
            "max_size",
        ),
        (
            "[shards.b]\nurl = 'b.db'\nreplicas = [{ url = 'c.db', wight = 1 }]",
            "shards.b.replicas.0.wight",
            "did you mean `weight`?",
        ),
        (
            "[shards.b]\nurl = 'postgres://db/x'\npassword = { vault = 'pass' }",
            "shards.b.password",
            "{ env = \"VARIABLE\" }",
        ),
        (
            "[keyspaces.k]\nshards = ['a']\nkeys = 'text'",
            "keyspaces.k.keys",
            "did you mean `key`?",
        ),
        (
            "[keyspaces.k]\nshards = ['a']\nalgorithm = { kind = 'hash', bucket = 1 }",
            "keyspaces.k.algorithm.bucket",
            "did you mean `buckets`?",
        ),
        (
            "[keyspaces.k]\nshards = ['a']\nalgorithm = { kind = 'modulo', count = 1, map = [] }",
            "keyspaces.k.algorithm.map",
            "known keys: kind, count",
        ),
        (
            "[keyspaces.k]\nshards = ['a']\nalgorithm = { kind = 'hash', buckets = 2, map = [{ shard = 'a', buckets = '0..2', x = 1 }] }",
            "keyspaces.k.algorithm.map.0.x",
            "known keys: shard, buckets",
        ),
        (
            "[keyspaces.k]\nshards = ['a']\ntables = { t = { key_column = 'id', counts = 2 } }",
            "keyspaces.k.tables.t.counts",
            "did you mean `count`?",
        ),
        (
            "[profiles.dev]\nstart_up = 'lazy'",
            "profiles.dev.start_up",
            "did you mean `startup`?",
        ),
        (
            "[profiles.dev.profiles.x]\nstartup = 'lazy'",
            "profiles.dev.profiles",
            "unknown key",
        ),
    ] {
        let text = format!("{text}\n[shards.a]\nurl = 'a.db'\n");
        let place = format!("the TOML text: {key}: ");
        expect(toml(&text), &[&[&place, hint]]);
    }
}

#[test]
fn a_dot_in_a_shard_name_is_explained() {
    let text = "[shards.eu.west]\nurl = 'a.db'\n[shards.eu.east]\nurl = 'b.db'\n";
    expect(
        toml(text),
        &[
            &[
                "shards.eu.west",
                "unless the key is quoted",
                "[shards.NAME-west]",
            ],
            &["shards.eu.east", "[shards.NAME-east]"],
        ],
    );
    expect(
        toml("[shards.\"eu.west\"]\nurl = 'a.db'"),
        &[&["shards.\"eu.west\"", "is no name"]],
    );
}

#[test]
fn a_key_that_is_given_twice_is_an_error() {
    let yaml = "shards:\n  a:\n    url: a.db\n  b:\n    url: b.db\n  a:\n    url: c.db\npool: {max_size: 1, max_size: 2}\n";
    expect(
        load(yaml, Format::Yaml, &[]),
        &[
            &["the YAML text: shards.a: ", "given twice", "line 6"],
            &["pool.max_size: ", "given twice", "line 8"],
        ],
    );
    let json = r#"{"shards":{"a":{"url":"a.db"},"a":{"url":"b.db","url":"c.db"}}}"#;
    expect(
        load(json, Format::Json, &[]),
        &[
            &["the JSON text: shards.a: ", "given twice"],
            &["shards.a.url: ", "given twice"],
        ],
    );
    let text = "[shards.a]\nurl = 'a.db'\n[shards.a]\nurl = 'b.db'\n";
    expect(
        toml(text),
        &[
            &["the TOML text: line 3, column 9: a is given twice"],
            &["the TOML text: line 4, column 1: url is given twice"],
        ],
    );
}

#[test]
fn a_duplicate_does_not_hide_other_problems() {
    let text = "startup = 'lazy'\nstartup = 'eager'\n[shards.a]\nurll = 'a.db'\n";
    expect(
        toml(text),
        &[
            &["line 2, column 1: startup is given twice"],
            &["shards.a.urll"],
            &["shards.a.url", "has no url"],
        ],
    );
}

#[test]
fn a_file_that_is_not_there_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let nofile = path("nofile.toml");
    let shown = nofile.display().to_string();
    expect(Config::from_file(&nofile), &[&[&shown, "cannot be read"]]);
    expect(Config::from_file(path("x.ini")), &[&["x.ini", "extension"]]);
    expect(
        Config::loader()
            .environment([("DIESEL_SHARDED_CONFIG", nofile.as_os_str())])
            .load(),
        &[&[&shown, "cannot be read"]],
    );
    expect(
        Config::loader()
            .environment([("DIESEL_SHARDED_CONFIG", "")])
            .load(),
        &[&["the environment variable DIESEL_SHARDED_CONFIG", "is empty"]],
    );
    std::fs::write(path("latin.toml"), b"# \xe9\n").unwrap();
    expect(
        Config::from_file(path("latin.toml")),
        &[&["latin.toml", "not UTF-8"]],
    );
}

#[test]
fn names_that_look_like_other_types_stay_what_they_are() {
    let names = ["0", "01", "1", "10", "2", "no", "null", "on", "true", "y"];
    let yaml: String = names
        .iter()
        .map(|name| format!("  {name}: {{url: {name}.db}}\n"))
        .collect();
    let yaml = format!(
        "default_shard: 01\nshards:\n{yaml}keyspaces:\n  k:\n    shards: [10, 2, 01, 1, no]\n    algorithm: {{kind: modulo, count: 5}}\n"
    );
    let config = valid(&yaml, Format::Yaml, &[]);
    let snapshot = snapshot(&config);
    assert_eq!(snapshot.names(), names);
    assert_eq!(snapshot.default_shard, snapshot.find("01").ok());
    // The list alone decides: neither the order of the file nor that of numbers.
    assert_eq!(
        snapshot.keyspaces()[0].rule.shards(),
        ["10", "2", "01", "1", "no"]
    );

    let json = r#"{"default_shard": 1, "shards": {"1": {"url": "a.db"}}}"#;
    expect(
        load(json, Format::Json, &[]),
        &[&["default_shard", "quote this value"]],
    );
}

#[test]
fn an_underscore_makes_no_group_and_a_mistyped_default_no_fallback() {
    let text =
        "[shards.dap]\nurl='a.db'\n[shards.dap_gp]\nurl='b.db'\n[shards.dap_sr]\nurl='c.db'\n";
    let config = valid(text, Format::Toml, &[]);
    assert_eq!(snapshot(&config).names(), ["dap", "dap_gp", "dap_sr"]);
    for name in ["dapp", "DAP", "", " dap", "dap "] {
        let text = format!("default_shard = '{name}'\n{text}");
        expect(
            toml(&text),
            &[&["default_shard: unknown shard", "dap, dap_gp, dap_sr"]],
        );
    }
}

#[test]
fn a_wrong_type_is_reported_without_its_value() {
    for (text, words) in [
        ("shards = 5", "shards: a table is expected"),
        ("pool = 'S3cr3t'", "pool: a table is expected"),
        (
            "pool = { max_size = 'S3cr3t' }",
            "pool.max_size: a whole number",
        ),
        ("pool = { max_size = 1.5 }", "pool.max_size: a whole number"),
        ("pool = { max_size = -1 }", "pool.max_size: a whole number"),
        (
            "pool = { idle_timeout = true }",
            "pool.idle_timeout: a duration such as",
        ),
        ("startup = 'S3cr3t'", "startup: is either"),
        ("startup = true", "startup: text is expected"),
        (
            "shared_database = 'S3cr3t'",
            "shared_database: true or false",
        ),
        ("default_shard = []", "default_shard: text is expected"),
        (
            "budget = { headroom = 'S3cr3t', connections_per_server = 9 }",
            "budget.headroom: a number",
        ),
        ("budget = {}", "budget.connections_per_server: is missing"),
        (
            "keyspaces = { k = { shards = 'a' } }",
            "keyspaces.k.shards: a list",
        ),
        (
            "keyspaces = { k = { shards = [1] } }",
            "keyspaces.k.shards.0: text is expected",
        ),
        ("keyspaces = { k = {} }", "keyspaces.k.shards: is missing"),
        (
            "keyspaces = { k = { shards = ['b'], algorithm = 'hash' } }",
            "keyspaces.k.algorithm: a table",
        ),
        ("profiles = { dev = 1 }", "profiles.dev: a table"),
    ] {
        let with_shard = format!("{text}\n[shards.b]\nurl = 'postgres://db/x'\n");
        let text = if text.starts_with("shards") {
            text
        } else {
            &with_shard
        };
        expect(toml(text), &[&[words]]);
        assert!(!problems(toml(text))[0].to_string().contains("S3cr3t"));
    }
}

#[test]
fn one_run_reports_everything() {
    let text = r#"
        default_shard = "zz"
        shardz = 1
        [pool]
        max_size = 0
        connection_timeout = 3
        [shards.a]
        urll = "x"
        [shards.b]
        url = "oracle://db"
        [keyspaces.k]
        shards = ["a", "nope"]
        algorithm = { kind = "modulo", count = 3 }
        tables = { "1" = {} }
    "#;
    let variables = [("DIESEL_SHARDED_SHARDS__NEW__URL", "x")];
    expect(
        load(text, Format::Toml, &variables),
        &[
            &["DIESEL_SHARDED_SHARDS__NEW__URL", "unknown shard new"],
            &["shardz", "did you mean `shards`?"],
            &["pool.connection_timeout", "write \"3s\""],
            &["shards.a.urll", "did you mean `url`?"],
            &["shards.a.url", "has no url"],
            &["keyspaces.k.tables.1.key_column", "is missing"],
            &["default_shard", "unknown shard \"zz\""],
            &["pool.max_size"],
            &["shards.b.url", "oracle://"],
            &["keyspaces.k.shards", "\"nope\""],
            &["keyspaces.k.algorithm.count"],
        ],
    );
}

#[test]
fn a_yaml_text_is_one_document_without_surprises() {
    let base = "shards: {a: {url: a.db}}\n";
    assert!(load(&format!("---\n{base}...\n"), Format::Yaml, &[]).is_ok());
    assert!(load(&format!("\u{feff}{base}"), Format::Yaml, &[]).is_ok());
    for (text, words) in [
        (format!("{base}---\n{base}"), "a second document"),
        ("- a\n".to_owned(), "must be a mapping"),
        (String::new(), "no shard is declared"),
        ("? [a]\n: b\n".to_owned(), "a key must be plain text"),
        ("a: !env X\n".to_owned(), "tags have no meaning"),
        (format!("{}1{}\n", "[".repeat(200), "]".repeat(200)), ""),
    ] {
        let found = problems(load(&text, Format::Yaml, &[]));
        assert!(found[0].to_string().contains(words), "{text}: {found:?}");
    }
    let aliases =
        "pool: &p {max_size: 3}\nshards: {a: {url: a.db, pool: *p}, b: {url: b.db, pool: *p}}\n";
    let config = valid(aliases, Format::Yaml, &[]);
    assert_eq!(snapshot(&config).shards()[1].primary.pool.max_size, 3);
    let mut bomb = "a: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for i in 1..10 {
        let previous = format!("*a{}", i - 1);
        let aliases = vec![previous; 10].join(", ");
        bomb += &format!("b{i}: &a{i} [{aliases}]\n");
    }
    assert!(
        problems(load(&bomb, Format::Yaml, &[]))[0]
            .message
            .contains("too large")
    );
}

#[test]
fn a_count_of_parts_that_is_none_is_told_what_it_may_be() {
    for count in ["-1", "0", "65537"] {
        expect(
            toml(&format!(
                "[shards.a]\nurl = 'a.db'\n[keyspaces.k]\nshards = ['a']\nalgorithm = {{ kind = 'modulo', count = 1 }}\ntables = {{ t = {{ key_column = 'id', count = {count} }} }}"
            )),
            &[&["keyspaces.k.tables.t.count", "1 to 65536 parts"]],
        );
    }
}
