//! Budgets, keyspaces and tables.

use super::*;

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
    expect(
        &spec,
        &[&["keyspaces.k.algorithm.count", "3", "2 shard(s)"]],
    );
    with(
        &mut spec,
        RuleSpec::hash(["a", "b"], 16).map([(0..4, "a"), (5..16, "b")]),
    );
    let found = problems(&spec);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(
        found[0].starts_with("keyspaces.k.algorithm.map"),
        "{found:?}"
    );
    with(&mut spec, RuleSpec::modulo(["a", "b"]));
    assert!(validate(&spec).unwrap().warnings.is_empty());
    with(&mut spec, RuleSpec::hash(["a", "b"], 16));
    assert_eq!(
        validate(&spec).unwrap().warnings[0].key,
        "keyspaces.k.algorithm"
    );
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
    for name in [
        "", "1x", "a-b", "a b", "a.b.c", ".a", "a.", "é", "a;drop", "\"a\"",
    ] {
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
