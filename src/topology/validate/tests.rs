//! Cases C12, C15, F16, H04, H06, H11 and H13, on the description that the builder and files share.

mod classes;
mod keyspaces;
mod tables;

use std::time::Duration;

use super::*;
use crate::algorithm::RuleSpec;
use crate::topology::{KeyspaceConfig, PoolConfig, ReplicaConfig, ShardConfig, Startup};

fn spec<'a>(shards: impl IntoIterator<Item = (&'a str, &'a str)>) -> TopologySpec {
    TopologySpec {
        shards: shards
            .into_iter()
            .map(|(name, url)| (name.to_owned(), ShardConfig::from(url)))
            .collect(),
        ..TopologySpec::default()
    }
}

/// Shards with databases of their own.
fn named<'a>(names: impl IntoIterator<Item = &'a str>) -> TopologySpec {
    let mut spec = spec([]);
    for (i, name) in names.into_iter().enumerate() {
        let url = format!("postgres://db/d{i}");
        spec.shards.push((name.to_owned(), url.into()));
    }
    spec
}

fn problems(spec: &TopologySpec) -> Vec<String> {
    match validate(spec) {
        Ok(_) => Vec::new(),
        Err(problems) => problems
            .into_iter()
            .map(|problem| format!("{}: {}", problem.key, problem.message))
            .collect(),
    }
}

/// Asserts that there is one problem for each line, holding all its words.
#[track_caller]
fn expect(spec: &TopologySpec, lines: &[&[&str]]) {
    let found = problems(spec);
    for words in lines {
        assert!(
            found
                .iter()
                .any(|line| words.iter().all(|word| line.contains(word))),
            "{words:?} is not among {found:#?}"
        );
    }
    assert_eq!(found.len(), lines.len(), "{found:#?}");
}

#[test]
fn the_smallest_topology_is_valid_and_the_empty_one_is_not() {
    let snapshot = validate(&spec([("a", "a.db")])).unwrap();
    assert_eq!(snapshot.names(), ["a"]);
    assert_eq!((snapshot.epoch, snapshot.startup), (1, Startup::Lazy));
    let pool = &snapshot.shards()[0].primary.pool;
    assert_eq!((pool.max_size, pool.min_idle), (10, 0));
    assert_eq!(pool.connection_timeout, Duration::from_secs(30));
    assert_eq!(pool.connect_timeout, Duration::from_secs(5));
    assert_eq!(pool.idle_timeout, Some(Duration::from_secs(600)));
    assert_eq!(pool.max_lifetime, Some(Duration::from_secs(1800)));
    assert_eq!(pool.alive_bypass, Duration::from_millis(500));
    expect(&spec([]), &[&["shards:", "at least one"]]);
}

#[test]
fn names_that_look_like_other_types_are_names() {
    let names = [
        "0", "01", "1", "NO", "null", "y", "eu-west", "Orders-A", "x_1", "10", "2",
    ];
    let snapshot = validate(&named(names)).unwrap();
    let mut sorted = names;
    sorted.sort_unstable();
    assert_eq!(snapshot.names(), sorted);
    assert_ne!(snapshot.find("01").unwrap(), snapshot.find("1").unwrap());
}

#[test]
fn other_names_are_refused() {
    for name in [
        "",
        " b",
        "b ",
        "a.b",
        "_a",
        "-a",
        "é",
        "a/b",
        "a b",
        "a\n",
        &"x".repeat(64),
    ] {
        expect(&named([name]), &[&["shards", "is no name for a shard"]]);
        let mut spec = named(["a"]);
        let rule = RuleSpec::hash(["a"], 16);
        spec.keyspaces
            .push((name.to_owned(), KeyspaceConfig::new(rule)));
        expect(&spec, &[&["keyspaces", "is no name for a keyspace"]]);
    }
    assert!(validate(&named(["x".repeat(63).as_str()])).is_ok());
}

#[test]
fn names_that_the_environment_cannot_tell_apart_clash() {
    for (a, b) in [("eu-west", "eu_west"), ("EU", "eu"), ("A-1", "a_1")] {
        expect(&named([a, b]), &[&["shards", a, b, "rename one"]]);
    }
    expect(&named(["a", "a"]), &[&["shards.a", "more than once"]]);
}

#[test]
fn an_underscore_makes_no_group() {
    let snapshot = validate(&named(["dap", "dap_gp", "dap_sr"])).unwrap();
    for name in ["dap", "dap_gp", "dap_sr"] {
        let found = snapshot.find(name).unwrap();
        assert_eq!(snapshot.shard(found).name, name);
    }
}

#[test]
fn an_unknown_name_is_never_the_default() {
    let mut spec = named(["a", "bb"]);
    spec.default_shard = Some("a".into());
    let snapshot = validate(&spec).unwrap();
    for name in ["b", "", " bb", "A", "bb "] {
        let error = snapshot.find(name).unwrap_err().to_string();
        assert!(
            error.contains(&format!("{name:?}")) && error.contains("a, bb"),
            "{error}"
        );
    }
    spec.default_shard = Some("bbb".into());
    expect(
        &spec,
        &[&[
            "default_shard: unknown shard \"bbb\", did you mean bb?",
            "a, bb",
        ]],
    );
}

#[test]
fn an_empty_or_unreadable_url_is_refused_without_being_shown() {
    for (url, words) in [
        ("", "empty url for shard a"),
        ("  ", "empty url for shard a"),
        ("postgres://db/x\n", "line break"),
        (" postgres://db/x", "blank"),
        ("oracle://u:S3cr3t!x@db/x", "unknown scheme oracle://"),
        ("mariadb://u:S3cr3t!x@db/x", "write mysql://"),
        ("Postgres://u:S3cr3t!x@db/x", "in lower case"),
        ("S3cr3t!x://db", "is no database url"),
        ("postgres//u:S3cr3t!x@db/x", "is no database url"),
        ("postgres://u:S3cr3t!x/y@db/x", "cannot be read"),
        ("mysql://u:S3cr3t!x/y@db/x", "cannot be read"),
        ("host=db password='S3cr3t!x", "cannot be read"),
        ("postgres://u:S3cr3t!x@db:0/x", "a number from 1 to 65535"),
        ("postgres://db:1,db:0/x", "a number from 1 to 65535"),
        ("postgres://db/x?port=1,0", "a number from 1 to 65535"),
        ("host=db port=0", "a number from 1 to 65535"),
        ("host=db port=65536", "a number from 1 to 65535"),
        ("host=db port=none", "a number from 1 to 65535"),
        ("mysql://u:S3cr3t!x@db:0/x", "a number from 1 to 65535"),
    ] {
        let spec = spec([("a", url)]);
        expect(&spec, &[&["shards.a.url", words]]);
        let shown = format!("{:?} {spec:?}", problems(&spec));
        assert!(!shown.contains("S3cr3t"), "{shown}");
    }
    let mut spec = spec([("a", "a.db")]);
    spec.shards[0].1.replicas.push(ReplicaConfig::new(""));
    expect(
        &spec,
        &[&[
            "shards.a.replicas.0.url",
            "empty url for replica 1 of shard a",
        ]],
    );
}

#[test]
fn a_port_may_be_left_out_in_every_way_that_libpq_knows() {
    for url in [
        "postgres://db:/x",
        "postgres://a:1,b/x",
        "postgres://db/x?port=",
        "host=a,b port='5433 ,'",
        "host=db port = 65535",
        "mysql://db/x",
    ] {
        assert!(validate(&spec([("a", url)])).is_ok(), "{url}");
    }
}

#[test]
fn pool_numbers_that_make_no_sense_are_refused_where_they_were_given() {
    let zero = Duration::ZERO;
    let long = Duration::from_secs(1_000_000_000);
    let bad = || {
        PoolConfig::new()
            .max_size(0)
            .connection_timeout(zero)
            .connect_timeout(long)
            .idle_timeout(Some(zero))
            .max_lifetime(Some(long))
            .alive_bypass(long)
    };
    let mut spec = named(["a", "b"]);
    spec.pool = bad();
    spec.shards[1].1.pool = bad();
    let keys = [
        "max_size",
        "connection_timeout",
        "connect_timeout",
        "idle_timeout",
        "max_lifetime",
        "alive_bypass",
    ];
    let found: Vec<Problem> = validate(&spec).unwrap_err();
    for level in ["pool", "shards.b.pool"] {
        for key in keys {
            let key = format!("{level}.{key}");
            assert_eq!(
                found.iter().filter(|problem| problem.key == key).count(),
                1,
                "{key}"
            );
        }
    }

    let mut spec = named(["a"]);
    spec.pool = PoolConfig::new()
        .min_idle(8)
        .alive_bypass(zero)
        .idle_timeout(None);
    assert!(validate(&spec).is_ok());
    spec.shards[0].1.pool = PoolConfig::new().max_size(4);
    expect(&spec, &[&["shards.a.pool.min_idle", "is 8", "is 4"]]);
}

#[test]
fn pool_settings_come_from_the_nearest_level() {
    let mut spec = named(["a", "b"]);
    spec.pool = PoolConfig::new()
        .max_size(20)
        .min_idle(2)
        .max_lifetime(None);
    let shard = &mut spec.shards[0].1;
    shard.pool = PoolConfig::new().max_size(5);
    let replica = ReplicaConfig::new("postgres://ro/d0").pool(PoolConfig::new().min_idle(1));
    shard.replicas.push(replica.weight(3));
    let snapshot = validate(&spec).unwrap();
    let sizes = |node: &super::super::snapshot::NodeSpec| (node.pool.max_size, node.pool.min_idle);
    let [a, b] = snapshot.shards() else {
        panic!("two shards");
    };
    assert_eq!(sizes(&a.primary), (5, 2));
    assert_eq!(sizes(&a.replicas[0]), (5, 1));
    assert_eq!(
        (a.replicas[0].weight, a.replicas[0].role),
        (3, Role::Replica)
    );
    assert_eq!(sizes(&b.primary), (20, 2));
    assert_eq!(b.primary.pool.max_lifetime, None);
}

#[test]
fn an_in_memory_database_has_one_connection_for_ever() {
    let mut spec = spec([("a", ":memory:"), ("b", ":memory:")]);
    spec.pool = PoolConfig::new()
        .max_size(20)
        .min_idle(2)
        .idle_timeout(Some(Duration::from_secs(1)));
    let snapshot = validate(&spec).unwrap();
    for shard in snapshot.shards() {
        let pool = &shard.primary.pool;
        assert_eq!((pool.max_size, pool.min_idle), (1, 1));
        assert_eq!((pool.idle_timeout, pool.max_lifetime), (None, None));
    }
    assert!(
        snapshot
            .warnings
            .iter()
            .any(|warning| warning.key == "pool")
    );

    for url in [":memory:", "file:x?mode=memory", "sqlite://:memory:"] {
        let mut spec = self::spec([("a", url)]);
        spec.shards[0].1.pool = PoolConfig::new()
            .max_size(2)
            .idle_timeout(Some(Duration::from_secs(1)))
            .max_lifetime(Some(Duration::from_secs(1)));
        expect(
            &spec,
            &[
                &["shards.a.pool.max_size", "another, empty database"],
                &["shards.a.pool.idle_timeout", "never"],
                &["shards.a.pool.max_lifetime", "never"],
            ],
        );
    }
    let mut shared = self::spec([("a", "file:x?mode=memory&cache=shared")]);
    shared.shards[0].1.pool = PoolConfig::new().max_size(4);
    let pool = validate(&shared).unwrap().shards()[0].primary.pool.clone();
    assert_eq!((pool.max_size, pool.max_lifetime), (4, None));
}

#[test]
fn one_database_under_two_names_is_refused_unless_it_is_meant() {
    for (a, b) in [
        ("postgres://u:p@db/x", "postgres://v:q@DB:5432/x"),
        ("mysql://db/x", "mysql://db:3306/x"),
        ("x.db", "./x.db"),
        (
            "file:m?mode=memory&cache=shared",
            "file:m?mode=memory&cache=shared",
        ),
    ] {
        let mut spec = spec([("a", a), ("b", b)]);
        expect(
            &spec,
            &[&["shards.b.url", "shard b", "shard a", "shared_database"]],
        );
        spec.shared_database = true;
        let snapshot = validate(&spec).unwrap();
        assert!(snapshot.shared_database);
        let warning = &snapshot.warnings[0];
        assert!(
            warning.message.contains("one database: shard a, shard b"),
            "{warning:?}"
        );
    }

    let mut spec = spec([("a", "postgres://db/x"), ("b", "postgres://db/y")]);
    spec.shards[0]
        .1
        .replicas
        .push(ReplicaConfig::new("postgres://db/x"));
    spec.shards[0]
        .1
        .replicas
        .push(ReplicaConfig::new("postgres://db/y"));
    expect(
        &spec,
        &[
            &[
                "shards.a.replicas.0.url",
                "replica 1 of shard a",
                "as shard a",
            ],
            &["shards.b.url", "shard b", "replica 2 of shard a"],
        ],
    );
}

#[test]
fn every_problem_is_reported_at_once() {
    let mut spec = spec([
        ("a", ""),
        ("a.b", "oracle://x"),
        ("c", "c.db"),
        ("C", "C.db"),
    ]);
    spec.default_shard = Some("z".into());
    spec.pool = PoolConfig::new().max_size(0);
    spec.keyspaces.push((
        " k".to_owned(),
        KeyspaceConfig::new(RuleSpec::modulo(["a", "nope"]).count(7)).table("1", "2", 0),
    ));
    let keys: Vec<String> = validate(&spec)
        .unwrap_err()
        .into_iter()
        .map(|problem| problem.key)
        .collect();
    for key in [
        "shards.\"a.b\"",
        "shards.C",
        "keyspaces.\" k\"",
        "default_shard",
        "pool.max_size",
        "shards.a.url",
        "shards.\"a.b\".url",
        "keyspaces.\" k\".shards",
        "keyspaces.\" k\".tables.1",
        "keyspaces.\" k\".tables.1.count",
        "keyspaces.\" k\".tables.1.key_column",
        "keyspaces.\" k\".algorithm.count",
    ] {
        assert!(
            keys.iter().any(|found| found == key),
            "{key} is not among {keys:#?}"
        );
    }
}

#[test]
fn the_order_of_declarations_places_nothing() {
    let fingerprint = |names: [&str; 4]| {
        let mut spec = named([]);
        for name in names {
            let url = format!("postgres://db/{name}");
            spec.shards.push((name.to_owned(), url.into()));
        }
        let rule = RuleSpec::hash(["c", "a", "d", "b"], 4096);
        spec.keyspaces
            .push(("k".to_owned(), KeyspaceConfig::new(rule)));
        validate(&spec).unwrap().keyspaces()[0].fingerprint
    };
    let first = fingerprint(["a", "b", "c", "d"]);
    assert_eq!(first, fingerprint(["d", "c", "b", "a"]));
    assert_eq!(first, fingerprint(["b", "d", "a", "c"]));
}
