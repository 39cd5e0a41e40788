//! Workload classes, states of shards, accepted placements.

use super::*;
use crate::topology::{ShardState, Topology};

fn class(max_size: u32) -> PoolConfig {
    PoolConfig::new().max_size(max_size)
}

fn with_classes<const N: usize>(
    mut spec: TopologySpec,
    classes: [(&str, PoolConfig); N],
) -> TopologySpec {
    spec.pools = classes.map(|(name, pool)| (name.to_owned(), pool)).to_vec();
    spec
}

#[test]
fn every_node_has_a_pool_of_every_class() {
    let mut spec = named(["a", "b"]);
    spec.pool = PoolConfig::new()
        .max_size(20)
        .min_idle(2)
        .connect_timeout(Duration::from_secs(1))
        .max_lifetime(None);
    let replica = ReplicaConfig::new("postgres://ro/d0");
    let replica = replica.pool(PoolConfig::new().alive_bypass(Duration::ZERO));
    spec.shards[0].1.replicas.push(replica);
    spec.shards[1].1.pool = PoolConfig::new().connect_timeout(Duration::from_secs(2));
    let report = class(3)
        .min_idle(1)
        .connection_timeout(Duration::from_secs(60))
        .idle_timeout(None);
    let spec = with_classes(spec, [("report", report), ("batch", class(5))]);
    let snapshot = validate(&spec).unwrap();
    assert_eq!(snapshot.workloads, ["batch", "report"]);
    let [a, b] = snapshot.shards() else {
        panic!("two shards");
    };
    for node in [&a.primary, &a.replicas[0], &b.primary] {
        let [(batch, of_batch), (report, of_report)] = node.classes.as_slice() else {
            panic!("two classes");
        };
        assert_eq!((batch.as_str(), report.as_str()), ("batch", "report"));
        // Everything but the sizes is as in the node's ordinary pool.
        let ordinary = super::super::super::snapshot::PoolSettings {
            max_size: 5,
            min_idle: 0,
            ..node.pool.clone()
        };
        assert_eq!(of_batch, &ordinary);
        assert_eq!((of_report.max_size, of_report.min_idle), (3, 1));
        assert_eq!(of_report.connection_timeout, Duration::from_secs(60));
        assert_eq!(of_report.connect_timeout, node.pool.connect_timeout);
        assert_eq!(of_report.idle_timeout, None);
        assert_eq!(node.pool.max_size, 20);
    }
    assert_eq!(a.replicas[0].classes[0].1.alive_bypass, Duration::ZERO);
    assert_eq!(b.primary.classes[0].1.connect_timeout.as_secs(), 2);

    let none = validate(&named(["a"])).unwrap();
    assert!(none.workloads.is_empty() && none.shards()[0].primary.classes.is_empty());
}

#[test]
fn a_class_that_makes_no_sense_is_refused() {
    let long = Duration::from_secs(1_000_000_000);
    for (pool, line) in [
        (
            PoolConfig::new(),
            ["pools.batch.max_size: is missing", "class batch"],
        ),
        (
            PoolConfig::new().min_idle(1),
            ["pools.batch.max_size: is missing", ""],
        ),
        (
            class(0),
            ["pools.batch.max_size: a pool of no connections", ""],
        ),
        (
            class(2).min_idle(3),
            ["pools.batch.min_idle: min_idle is 3", "is 2"],
        ),
        (
            class(2).connect_timeout(Duration::ZERO),
            ["pools.batch.connect_timeout", "zero"],
        ),
        (
            class(2).max_lifetime(Some(long)),
            ["pools.batch.max_lifetime", "never"],
        ),
    ] {
        expect(
            &with_classes(named(["a", "b"]), [("batch", pool)]),
            &[&line],
        );
    }
    for name in ["", "a b", "a.b", "-a", "é", &"x".repeat(64)] {
        let spec = with_classes(named(["a"]), [(name, class(1))]);
        expect(&spec, &[&["pools", "is no name for a workload class"]]);
    }
    let clash = with_classes(named(["a"]), [("re-port", class(1)), ("RE_PORT", class(1))]);
    expect(&clash, &[&["pools.RE_PORT", "re-port", "rename one"]]);
    let twice = with_classes(named(["a"]), [("batch", class(1)), ("batch", class(1))]);
    expect(&twice, &[&["pools.batch", "more than once"]]);
}

#[test]
fn a_class_of_a_private_in_memory_database_is_refused() {
    let shards = [
        ("a", ":memory:"),
        ("b", "postgres://db/x"),
        ("c", "file:c?mode=memory"),
        ("d", "file:d?mode=memory&cache=shared"),
    ];
    expect(
        &with_classes(spec(shards), [("batch", class(5))]),
        &[&[
            "pools.batch: ",
            "class batch",
            "(shard a, shard c)",
            "another, empty database",
        ]],
    );
    let second = Some(Duration::from_secs(1));
    let idle = class(5).idle_timeout(second).max_lifetime(second);
    let spec = with_classes(spec([shards[1], shards[3]]), [("batch", idle)]);
    let snapshot = validate(&spec).unwrap();
    let life = |shard: usize| {
        let pool = &snapshot.shards()[shard].primary.classes[0].1;
        (pool.max_size, pool.idle_timeout, pool.max_lifetime)
    };
    assert_eq!(life(0), (5, second, second));
    assert_eq!(life(1), (5, None, None));
    assert!(
        snapshot
            .warnings
            .iter()
            .any(|warning| warning.key == "pools.batch"
                && warning.message.contains("do not apply to in-memory"))
    );
}

#[test]
fn the_budget_counts_the_classes_of_every_node() {
    let mut spec = spec([
        ("a", "postgres://db/x"),
        ("b", "postgres://db/y"),
        ("c", "c.db"),
    ]);
    let replica = ReplicaConfig::new("postgres://db/z").pool(class(2));
    spec.shards[1].1.replicas.push(replica);
    spec.pool = class(20);
    let mut spec = with_classes(spec, [("report", class(1)), ("batch", class(5))]);
    let budget = |connections_per_server| {
        Some(crate::topology::spec::BudgetConfig {
            connections_per_server,
            instances: 2,
            headroom: 1.0,
        })
    };
    // 26 + 26 + 8 = 60, times 2.
    spec.budget = budget(120);
    assert_eq!(problems(&spec), Vec::<String>::new());
    spec.budget = budget(119);
    expect(
        &spec,
        &[&[
            "budget: db:5432 may be asked for 120 connections",
            "(shard a 20 + shard a class batch 5 + shard a class report 1 + shard b 20 + shard b class batch 5 + shard b class report 1 + replica 1 of shard b 2 + replica 1 of shard b class batch 5 + 1 more pools 1 = 60, times 2 instance(s))",
        ]],
    );
    // No sum is too large to be told.
    spec.pool = class(u32::MAX);
    spec.budget = budget(1);
    if let Some(budget) = &mut spec.budget {
        budget.instances = u32::MAX;
    }
    expect(&spec, &[&["budget: db:5432"]]);
}

#[test]
fn a_shard_that_is_not_open_is_a_warning() {
    let mut spec = named(["a", "b", "c.d"]);
    spec.shards[2].0 = "c".to_owned();
    spec.shards[1].1.state = ShardState::ReadOnly;
    spec.shards[2].1.state = ShardState::Offline;
    let snapshot = validate(&spec).unwrap();
    let states: Vec<ShardState> = snapshot.shards().iter().map(|shard| shard.state).collect();
    assert_eq!(
        states,
        [ShardState::Open, ShardState::ReadOnly, ShardState::Offline]
    );
    let warnings: Vec<String> = snapshot
        .warnings
        .iter()
        .map(|warning| format!("{}: {}", warning.key, warning.message))
        .collect();
    assert_eq!(
        warnings,
        [
            "shards.b.state: shard b is read-only: its writes are refused until its state is \"open\" again",
            "shards.c.state: shard c is offline: every checkout of it is refused until its state is \"open\" again",
        ]
    );
}

#[test]
fn an_accepted_placement_names_a_keyspace() {
    let mut spec = named(["a"]);
    for name in ["orders", "history"] {
        let rule = KeyspaceConfig::new(RuleSpec::hash(["a"], 16));
        spec.keyspaces.push((name.to_owned(), rule));
    }
    let accept = |spec: &mut TopologySpec, names: &[&str]| {
        spec.accept_placement = names.iter().map(|&name| name.to_owned()).collect();
    };
    accept(&mut spec, &["orders", "history", "orders"]);
    let snapshot = validate(&spec).unwrap();
    assert_eq!(snapshot.accept_placement, ["history", "orders"]);
    accept(&mut spec, &["order", "orders", "zzz"]);
    expect(
        &spec,
        &[
            &[
                "accept_placement: unknown keyspace \"order\", did you mean orders? (keyspaces: history, orders)",
            ],
            &["accept_placement: unknown keyspace \"zzz\" (keyspaces: history, orders)"],
        ],
    );
}

#[test]
fn the_builder_says_the_same() {
    let builder = Topology::builder()
        .shard("a", ShardConfig::new("a.db").state(ShardState::ReadOnly))
        .keyspace("k", KeyspaceConfig::new(RuleSpec::hash(["a"], 16)))
        .workload("batch", class(5))
        .accept_placement("k");
    builder.build().unwrap().with_current(|snapshot| {
        assert_eq!(snapshot.workloads, ["batch"]);
        assert_eq!(snapshot.accept_placement, ["k"]);
        assert_eq!(snapshot.shards()[0].state, ShardState::ReadOnly);
        assert_eq!(snapshot.shards()[0].primary.classes[0].1.max_size, 5);
    });
    let error = builder
        .workload("report", PoolConfig::new())
        .accept_placement("kk")
        .build()
        .unwrap_err()
        .to_string();
    for words in [
        "pools.report.max_size",
        "unknown keyspace \"kk\", did you mean k?",
    ] {
        assert!(error.contains(words), "{error}");
    }
}
