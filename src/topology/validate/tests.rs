//! Cases C12, C15, F16, H04, H06, H11 and H13, on the description that the builder and files share.

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
            found.iter().any(|line| words.iter().all(|word| line.contains(word))),
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
    let names = ["0", "01", "1", "NO", "null", "y", "eu-west", "Orders-A", "x_1", "10", "2"];
    let snapshot = validate(&named(names)).unwrap();
    let mut sorted = names;
    sorted.sort_unstable();
    assert_eq!(snapshot.names(), sorted);
    assert_ne!(snapshot.find("01").unwrap(), snapshot.find("1").unwrap());
}

#[test]
fn other_names_are_refused() {
    for name in ["", " b", "b ", "a.b", "_a", "-a", "é", "a/b", "a b", "a\n", &"x".repeat(64)] {
        expect(&named([name]), &[&["shards", "is no name for a shard"]]);
        let mut spec = named(["a"]);
        let rule = RuleSpec::hash(["a"], 16);
        spec.keyspaces.push((name.to_owned(), KeyspaceConfig::new(rule)));
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
        assert!(error.contains(&format!("{name:?}")) && error.contains("a, bb"), "{error}");
    }
    spec.default_shard = Some("bbb".into());
    expect(&spec, &[&["default_shard: unknown shard \"bbb\", did you mean bb?", "a, bb"]]);
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
    ] {
        let spec = spec([("a", url)]);
        expect(&spec, &[&["shards.a.url", words]]);
        let shown = format!("{:?} {spec:?}", problems(&spec));
        assert!(!shown.contains("S3cr3t"), "{shown}");
    }
    let mut spec = spec([("a", "a.db")]);
    spec.shards[0].1.replicas.push(ReplicaConfig::new(""));
    expect(&spec, &[&["shards.a.replicas.0.url", "empty url for replica 1 of shard a"]]);
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
            assert_eq!(found.iter().filter(|problem| problem.key == key).count(), 1, "{key}");
        }
    }

    let mut spec = named(["a"]);
    spec.pool = PoolConfig::new().min_idle(8).alive_bypass(zero).idle_timeout(None);
    assert!(validate(&spec).is_ok());
    spec.shards[0].1.pool = PoolConfig::new().max_size(4);
    expect(&spec, &[&["shards.a.pool.min_idle", "is 8", "is 4"]]);
}

#[test]
fn pool_settings_come_from_the_nearest_level() {
    let mut spec = named(["a", "b"]);
    spec.pool = PoolConfig::new().max_size(20).min_idle(2).max_lifetime(None);
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
    assert_eq!((a.replicas[0].weight, a.replicas[0].role), (3, Role::Replica));
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
    assert!(snapshot.warnings.iter().any(|warning| warning.key == "pool"));

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
        ("file:m?mode=memory&cache=shared", "file:m?mode=memory&cache=shared"),
    ] {
        let mut spec = spec([("a", a), ("b", b)]);
        expect(&spec, &[&["shards.b.url", "shard b", "shard a", "shared_database"]]);
        spec.shared_database = true;
        let snapshot = validate(&spec).unwrap();
        let warning = &snapshot.warnings[0];
        assert!(warning.message.contains("one database: shard a, shard b"), "{warning:?}");
    }

    let mut spec = spec([("a", "postgres://db/x"), ("b", "postgres://db/y")]);
    spec.shards[0].1.replicas.push(ReplicaConfig::new("postgres://db/x"));
    spec.shards[0].1.replicas.push(ReplicaConfig::new("postgres://db/y"));
    expect(
        &spec,
        &[
            &["shards.a.replicas.0.url", "replica 1 of shard a", "as shard a"],
            &["shards.b.url", "shard b", "replica 2 of shard a"],
        ],
    );
}

#[test]
fn the_budget_counts_every_node_of_a_server() {
    let budget = |connections_per_server, instances, headroom| {
        Some(crate::topology::spec::BudgetConfig {
            connections_per_server,
            instances,
            headroom,
        })
    };
    let mut spec = spec([
        ("a", "postgres://db/x"),
        ("b", "postgres://DB:5432/y"),
        ("c", "postgres://other/z"),
        ("d", "d.db"),
    ]);
    let replica = ReplicaConfig::new("postgres://db,db2/z").pool(PoolConfig::new().max_size(12));
    spec.shards[2].1.replicas.push(replica);
    // db: 10 + 10 + 12 = 32, times 5 = 160.
    spec.budget = budget(200, 5, 0.8);
    assert_eq!(problems(&spec), Vec::<String>::new());
    spec.budget = budget(199, 5, 0.8);
    expect(
        &spec,
        &[&[
            "budget: db:5432 may be asked for 160 connections",
            "shard a 10 + shard b 10 + replica 1 of shard c 12 = 32",
            "times 5 instance(s)",
            "159 are allowed (199 x 0.8)",
        ]],
    );
    spec.budget = budget(49, 1, 0.2);
    expect(
        &spec,
        &[
            &["db:5432", "32 connections", "9 are allowed"],
            &["db2:5432", "12 connections", "9 are allowed"],
            &["other:5432", "10 connections", "9 are allowed"],
        ],
    );
    for (budget, key) in [
        (budget(0, 1, 1.0), "budget.connections_per_server"),
        (budget(1, 0, 1.0), "budget.instances"),
        (budget(1, 1, 0.0), "budget.headroom"),
        (budget(1, 1, 1.01), "budget.headroom"),
        (budget(1, 1, f64::NAN), "budget.headroom"),
    ] {
        spec.budget = budget;
        expect(&spec, &[&[key]]);
    }
}

#[test]
fn a_keyspace_is_refused_when_a_shard_of_it_is_missing() {
    let mut spec = named(["a", "b"]);
    let with = |spec: &mut TopologySpec, rule| {
        spec.keyspaces = vec![("k".to_owned(), KeyspaceConfig::new(rule))];
    };
    with(&mut spec, RuleSpec::hash(["a", "b", "bc"], 16));
    expect(&spec, &[&["keyspaces.k.shards", "\"bc\", did you mean b?"]]);
    with(&mut spec, RuleSpec::modulo(["a", "b"]).count(3));
    expect(&spec, &[&["keyspaces.k.algorithm.count", "3", "2 shard(s)"]]);
    with(&mut spec, RuleSpec::hash(["a", "b"], 16).map([(0..4, "a"), (5..16, "b")]));
    let found = problems(&spec);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("keyspaces.k.algorithm.map"), "{found:?}");
    with(&mut spec, RuleSpec::modulo(["a", "b"]));
    assert!(validate(&spec).unwrap().warnings.is_empty());
    with(&mut spec, RuleSpec::hash(["a", "b"], 16));
    assert_eq!(validate(&spec).unwrap().warnings[0].key, "keyspaces.k.algorithm");
}

#[test]
fn table_names_are_names_in_every_database() {
    let check = |name: &str, column: &str, count| {
        let mut spec = named(["a"]);
        let keyspace = KeyspaceConfig::new(RuleSpec::modulo(["a"])).table(name, column, count);
        spec.keyspaces.push(("k".to_owned(), keyspace));
        problems(&spec)
    };
    for name in ["orders", "t_order", "_t$1", "shop.orders", "Orders"] {
        assert_eq!(check(name, "user_id", 8), Vec::<String>::new(), "{name}");
    }
    for name in ["", "1x", "a-b", "a b", "a.b.c", ".a", "a.", "é", "a;drop", "\"a\""] {
        assert_eq!(check(name, "id", 1).len(), 1, "{name}");
    }
    for column in ["", "1x", "a.b", "a-b", &"c".repeat(64)] {
        assert_eq!(check("t", column, 1).len(), 1, "{column}");
    }
    assert_eq!(check("t", "id", 0).len(), 1);
    // 61 bytes and `_7` are 63, and `_15` would be one too many.
    let long = "t".repeat(61);
    assert!(check(&long, "id", 8).is_empty());
    assert_eq!(check(&long, "id", 16).len(), 1);
    assert!(check(&"t".repeat(63), "id", 1).is_empty());
    assert!(check(&format!("{}.{long}", "s".repeat(63)), "id", 8).is_empty());
}

#[test]
fn a_table_may_not_have_the_name_of_a_part_of_another() {
    let check = |tables: &[(&str, u32)]| {
        let mut spec = named(["a"]);
        let mut keyspace = KeyspaceConfig::new(RuleSpec::modulo(["a"]));
        for (name, count) in tables {
            keyspace = keyspace.table(name, "id", *count);
        }
        spec.keyspaces.push(("k".to_owned(), keyspace));
        problems(&spec).len()
    };
    assert_eq!(check(&[("orders", 4), ("orders_3", 1)]), 1);
    assert_eq!(check(&[("orders_3", 2), ("Orders", 4)]), 1);
    assert_eq!(check(&[("orders", 4), ("orders", 4)]), 1);
    assert_eq!(check(&[("orders", 4), ("ORDERS", 4)]), 1);
    assert_eq!(check(&[("orders", 4), ("orders_4", 1)]), 0);
    assert_eq!(check(&[("orders", 4), ("orders_03", 1)]), 0);
    assert_eq!(check(&[("orders", 1), ("orders_0", 1)]), 0);

    let both = |first: [&str; 1], second: [&str; 1]| {
        let mut spec = named(["a", "b"]);
        for (name, shards) in [("k", first), ("l", second)] {
            let keyspace = KeyspaceConfig::new(RuleSpec::modulo(shards)).table("orders", "id", 2);
            spec.keyspaces.push((name.to_owned(), keyspace));
        }
        problems(&spec).len()
    };
    assert_eq!(both(["a"], ["a"]), 1);
    assert_eq!(both(["a"], ["b"]), 0);
}

#[test]
fn every_problem_is_reported_at_once() {
    let mut spec = spec([("a", ""), ("a.b", "oracle://x"), ("c", "c.db"), ("C", "C.db")]);
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
        assert!(keys.iter().any(|found| found == key), "{key} is not among {keys:#?}");
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
        spec.keyspaces.push(("k".to_owned(), KeyspaceConfig::new(rule)));
        validate(&spec).unwrap().keyspaces()[0].fingerprint
    };
    let first = fingerprint(["a", "b", "c", "d"]);
    assert_eq!(first, fingerprint(["d", "c", "b", "a"]));
    assert_eq!(first, fingerprint(["b", "d", "a", "c"]));
}
