//! How physical tables are named, and which names stand in each other's way.

use super::*;
use crate::algorithm::DateSpec;
use crate::key::KeyType;

/// A topology of the shards `a` and `b` with these tables of one keyspace: name, count and pattern.
fn with(tables: &[(&str, u32, &str)]) -> TopologySpec {
    let mut spec = named(["a", "b"]);
    let mut keyspace = KeyspaceConfig::new(RuleSpec::modulo(["a", "b"]));
    for (name, count, pattern) in tables {
        keyspace = keyspace.table(name, "id", *count);
        if !pattern.is_empty() {
            keyspace = keyspace.table_pattern(name, pattern);
        }
    }
    spec.keyspaces.push(("k".to_owned(), keyspace));
    spec
}

/// The physical tables of a shard.
fn tables_of(spec: &TopologySpec, shard: usize) -> Vec<String> {
    let snapshot = validate(spec).unwrap();
    let mut all = snapshot.keyspaces()[0].all_targets();
    all.swap_remove(shard).tables
}

fn fingerprint(spec: &TopologySpec) -> String {
    validate(spec).unwrap().keyspaces()[0]
        .fingerprint
        .to_string()
}

#[test]
fn physical_tables_are_named_by_the_pattern_of_their_table() {
    for (table, shard, expected) in [
        (("orders", 2, ""), 1, ["orders_0", "orders_1"]),
        (
            ("orders", 2, "{name}_{table:03}"),
            1,
            ["orders_000", "orders_001"],
        ),
        (
            ("orders", 2, "t{global}_{name}"),
            0,
            ["t0_orders", "t1_orders"],
        ),
        (
            ("orders", 2, "t{global}_{name}"),
            1,
            ["t2_orders", "t3_orders"],
        ),
        (("shop.orders", 2, "x{table}"), 1, ["shop.x0", "shop.x1"]),
    ] {
        assert_eq!(tables_of(&with(&[table]), shard), expected, "{table:?}");
    }
    // A pattern is a pattern for one table too.
    assert_eq!(
        tables_of(&with(&[("orders", 1, "{name}_{global}")]), 1),
        ["orders_1"]
    );
    assert_eq!(
        tables_of(&with(&[("orders", 1, "{name}_{table}")]), 1),
        ["orders_0"]
    );
    assert_eq!(
        tables_of(&with(&[("orders", 1, "old_{name}")]), 1),
        ["old_orders"]
    );
    assert_eq!(tables_of(&with(&[("orders", 1, "{name}")]), 1), ["orders"]);
}

#[test]
fn a_placement_and_the_tables_of_its_shard_have_the_same_names() {
    for pattern in ["", "{name}_{global:03}", "p{table}of{global}"] {
        let snapshot = validate(&with(&[("orders", 4, pattern)])).unwrap();
        let entry = &snapshot.keyspaces()[0];
        for key in -20..20_i64 {
            let placement = entry.locate(&key).unwrap();
            let (_, physical) = entry.tables_of(placement).swap_remove(0);
            let set = snapshot.shard(snapshot.find(placement.shard().as_str()).unwrap());
            let numbers = crate::rewrite::TableNumbers {
                keyspace: entry.name,
                which: crate::rewrite::Which::Spread(placement.spread()),
                placed_by: entry.placed_by(),
            };
            let routed = set.tables.as_ref().unwrap().tables()[0].physical(numbers);
            assert_eq!(routed.as_deref(), Some(physical.as_str()));
            let targets = entry.all_targets();
            let target = targets
                .iter()
                .find(|t| t.shard == placement.shard())
                .unwrap();
            assert!(target.tables.contains(&physical), "{target:?}");
        }
    }
}

#[test]
fn a_table_with_the_schema_that_it_is_in_anyway_is_the_same_table() {
    let of = |url: &str, tables: [&str; 2]| {
        let mut spec = spec([]);
        spec.shards.push(("a".to_owned(), url.to_owned().into()));
        for (keyspace, table) in ["k", "l"].into_iter().zip(tables) {
            let config = KeyspaceConfig::new(RuleSpec::modulo(["a"])).table(table, "id", 4);
            spec.keyspaces.push((keyspace.to_owned(), config));
        }
        problems(&spec)
    };
    for (url, tables) in [
        ("postgres://db/d", ["orders", "public.orders"]),
        ("postgres://db/d", ["public.orders", "ORDERS"]),
        ("a.db", ["orders", "main.orders"]),
    ] {
        let found = of(url, tables);
        assert_eq!(found.len(), 1, "{found:?}");
        for word in [
            tables[0],
            tables[1],
            "keyspace k",
            "keyspace l",
            "the same table",
        ] {
            assert!(found[0].contains(word), "{word:?} is not in {found:?}");
        }
    }
    // A part of the one is the other.
    let found = of("postgres://db/d", ["public.orders", "orders_2"]);
    assert!(
        found
            .iter()
            .any(|one| one.contains("the name of part 2 of table public.orders")),
        "{found:?}"
    );
    for (url, tables) in [
        ("postgres://db/d", ["orders", "main.orders"]),
        ("postgres://db/d", ["orders", "shop.orders"]),
        ("a.db", ["orders", "public.orders"]),
    ] {
        assert_eq!(of(url, tables), [""; 0], "{tables:?}");
    }
}

#[test]
fn what_decides_a_name_is_in_the_fingerprint() {
    let of = |count, pattern| fingerprint(&with(&[("orders", count, pattern)]));
    // Another spelling of the same names.
    assert_eq!(of(4, ""), of(4, "{name}_{table}"));
    assert_eq!(of(4, ""), of(4, "{name}_{table:01}"));
    assert_eq!(of(1, ""), of(1, "{name}"));
    let all = [
        of(4, ""),
        of(4, "{name}_{table:02}"),
        of(4, "{name}_{global}"),
        of(1, ""),
        of(1, "{name}_{table}"),
    ];
    for (at, one) in all.iter().enumerate() {
        assert!(!all[..at].contains(one), "{at}: {all:?}");
    }
    // The order of the list decides only with {global}; a written map makes it mean nothing else.
    let ordered = |shards: [&str; 2], pattern| {
        let mut spec = named(["a", "b"]);
        let rule = RuleSpec::hash(shards, 16).map([(0..8, "a"), (8..16, "b")]);
        let keyspace = KeyspaceConfig::new(rule)
            .table("orders", "id", 4)
            .table_pattern("orders", pattern);
        spec.keyspaces.push(("k".to_owned(), keyspace));
        fingerprint(&spec)
    };
    let plain = "{name}_{table}";
    assert_eq!(ordered(["a", "b"], plain), ordered(["b", "a"], plain));
    let global = "{name}_{global}";
    assert_ne!(ordered(["a", "b"], global), ordered(["b", "a"], global));
}

#[test]
fn a_pattern_that_names_nothing_says_what_to_write() {
    let key = "keyspaces.k.tables.t.pattern: ";
    for (count, pattern, words) in [
        (
            4,
            "{name}",
            "write {table} for the number of a part, as in {name}_{table}",
        ),
        (4, "{name}_x", "{name}_x_{table}"),
        (4, "{nam}_{table}", "{nam} is unknown"),
        (4, "{name}_{table:3}", "write {table:03}"),
        (4, "{name}_{global:0}", "write {global:03}"),
        (4, "{name}_{table", "not closed"),
        (4, "{name}_table}", "no `{`"),
        (4, "{table}_{name}", "begin the pattern with a letter"),
        (4, "shop.{table}", "schema"),
        (4, "", ""),
        (4, "{name}_{date}", "take the count out"),
        (1, "", ""),
        (1, "{name}_{date}", "write {table}"),
    ] {
        let spec = with(&[("t", count, pattern)]);
        if words.is_empty() {
            expect(&spec, &[]);
        } else {
            let found = problems(&spec);
            let told = found
                .iter()
                .any(|line| line.starts_with(key) && line.contains(words));
            assert!(told, "{pattern}: {words:?} is not among {found:#?}");
        }
    }
    // Everything at once, and each once.
    let mut spec = with(&[("t", 4, "{x}"), ("u", 4, "{name}"), ("v", 70_000, "")]);
    let keyspace = &mut spec.keyspaces[0].1;
    *keyspace = keyspace.clone().table_pattern("w", "{name}_{table}");
    expect(
        &spec,
        &[
            &["keyspaces.k.tables.t.pattern", "{x} is unknown"],
            &["keyspaces.k.tables.u.pattern", "all 4 parts"],
            &["keyspaces.k.tables.v.count", "65536"],
            &[
                "keyspaces.k.tables.w.pattern",
                "unknown table \"w\"",
                "t, u, v",
            ],
        ],
    );
}

#[test]
fn names_that_would_be_one_table_are_refused() {
    let check = |tables: &[(&str, u32, &str)]| problems(&with(tables));
    for (tables, words) in [
        // A part and a logical name, in either order; also where nobody splits it.
        (
            vec![("orders", 4, ""), ("orders_3", 1, "")],
            &[
                "tables.orders_3: ",
                "has the name of part 3 of table orders",
            ][..],
        ),
        (
            vec![("orders", 12, "{name}{table:02}"), ("Orders07", 2, "")],
            &["tables.Orders07: ", "part 7"],
        ),
        // Its own.
        (
            vec![("t_3", 4, "t_{table}")],
            &["tables.t_3: ", "part 3", "another pattern"],
        ),
        // Parts of two tables.
        (
            vec![("orders", 4, "x_{table}"), ("items", 8, "x_{table}")],
            &[
                "items.pattern: ",
                "part 0 of table items and part 0 of table orders",
                "x_0",
            ],
        ),
        (
            vec![("a", 40, "a{table}"), ("b", 4, "a2{table}")],
            &["would both be the table a20"],
        ),
    ] {
        let found = check(&tables);
        assert_eq!(found.len(), 1, "{tables:?}: {found:#?}");
        for word in words {
            assert!(found[0].contains(word), "{word:?} is not in {found:#?}");
        }
    }
    for tables in [
        vec![("orders", 4, ""), ("orders_03", 1, "")],
        vec![("orders", 4, "{name}_{table:02}"), ("orders_3", 1, "")],
        vec![("orders", 4, "x_{table}"), ("items", 8, "y_{table}")],
        vec![("shop.orders", 4, "x_{table}"), ("items", 8, "x_{table}")],
    ] {
        assert_eq!(check(&tables), Vec::<String>::new(), "{tables:?}");
    }
}

#[test]
fn names_clash_only_where_they_meet_on_a_shard() {
    let both = |first: &[&str], second: &[&str], pattern: &str| {
        let mut spec = named(["a", "b", "c"]);
        for (name, table, shards) in [("k", "orders", first), ("l", "items", second)] {
            let keyspace = KeyspaceConfig::new(RuleSpec::jump(shards.iter().copied()))
                .table(table, "id", 4)
                .table_pattern(table, pattern);
            spec.keyspaces.push((name.to_owned(), keyspace));
        }
        problems(&spec)
    };
    assert_eq!(both(&["a", "b"], &["b", "c"], "x_{table}").len(), 1);
    assert_eq!(both(&["a", "b"], &["c"], "x_{table}").len(), 0);
    // The shard b has 4 to 7 of the one and 0 to 3 of the other.
    assert_eq!(both(&["a", "b"], &["b", "c"], "x_{global}").len(), 0);
    let found = both(&["a", "b"], &["c", "b"], "x_{global}");
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains("x_4"), "{found:?}");
}

#[test]
fn names_that_are_too_long_for_their_backend_are_refused() {
    let check = |urls: [&'static str; 2], name: &str, count, pattern: &str| {
        let mut spec = spec([("a", urls[0]), ("b", urls[1])]);
        let keyspace = KeyspaceConfig::new(RuleSpec::modulo(["a", "b"]))
            .table(name, "id", count)
            .table_pattern(name, pattern);
        spec.keyspaces.push(("k".to_owned(), keyspace));
        problems(&spec)
    };
    let postgres = ["postgres://db/a", "postgres://db/b"];
    let mysql = ["mysql://db/a", "mysql://db/b"];
    let mixed = ["mysql://db/a", "postgres://db/b"];
    let name = "t".repeat(61);
    for (urls, pattern, sound) in [
        (postgres, "{name}_{table}", true),
        (postgres, "{name}_{table:02}", false),
        (mysql, "{name}_{table:02}", true),
        (mysql, "{name}_{table:03}", false),
        (mixed, "{name}_{table:02}", false),
        (mixed, "{name}{table:02}", true),
        // 8 and 9 on the first shard, 10 and more on the second.
        (postgres, "{name}_{global}", false),
        (mysql, "{name}_{global}", true),
    ] {
        let count = if pattern.contains("global") { 6 } else { 8 };
        let found = check(urls, &name, count, pattern);
        assert_eq!(found.is_empty(), sound, "{urls:?} {pattern}: {found:?}");
        assert!(found.len() <= 1, "{found:?}");
        if let [one] = found.as_slice() {
            assert!(
                one.contains("tables.ttt") && one.contains(".pattern: the name"),
                "{one}"
            );
        }
    }
}

#[test]
fn tables_that_the_rule_names_follow_a_pattern_too() {
    let dated = |pattern: &str, other: &[(&str, u32, &str)]| {
        let mut spec = named(["a"]);
        let months = DateSpec::monthly().from("2024-01").until("2024-04");
        let mut keyspace = KeyspaceConfig::new(RuleSpec::date(["a"], months).key(KeyType::Date));
        keyspace = match pattern {
            "" => keyspace.table_by_rule("event", "day"),
            // {date} says it too.
            pattern if pattern.contains("{date}") => keyspace
                .table("event", "day", 1)
                .table_pattern("event", pattern),
            pattern => keyspace
                .table_by_rule("event", "day")
                .table_pattern("event", pattern),
        };
        spec.keyspaces.push(("k".to_owned(), keyspace));
        let mut rest = KeyspaceConfig::new(RuleSpec::jump(["a"]));
        for (name, count, pattern) in other {
            rest = rest.table(name, "id", *count);
            if !pattern.is_empty() {
                rest = rest.table_pattern(name, pattern);
            }
        }
        spec.keyspaces.push(("l".to_owned(), rest));
        spec
    };
    let names = |pattern| tables_of(&dated(pattern, &[]), 0);
    assert_eq!(names(""), ["event_202401", "event_202402", "event_202403"]);
    assert_eq!(names("{name}_{date}"), names(""));
    assert_eq!(names("{name}_{table}"), names(""));
    assert_eq!(names("m{date}"), ["m202401", "m202402", "m202403"]);
    assert_eq!(
        fingerprint(&dated("", &[])),
        fingerprint(&dated("{name}_{date}", &[]))
    );
    assert_ne!(
        fingerprint(&dated("", &[])),
        fingerprint(&dated("m{date}", &[]))
    );
    for (pattern, words) in [
        ("{name}_{table:03}", "without a width"),
        ("{name}_{global}", "no numbers"),
        ("x", "write {table}"),
        ("{date}_{table}", "write one of them"),
    ] {
        expect(&dated(pattern, &[]), &[&["tables.event.pattern", words]]);
    }
    for (pattern, other, sound) in [
        ("", ("event_202402", 1, ""), false),
        // In no plan yet.
        ("", ("event_203001", 1, ""), false),
        ("", ("event_log", 1, ""), true),
        ("m{date}", ("event_202402", 1, ""), true),
        ("m{date}", ("M2024", 1, ""), false),
        ("m_{date}", ("m", 4, ""), true),
        ("m2024{date}", ("m", 4, "m202420240{table}"), false),
    ] {
        let found = problems(&dated(pattern, &[other]));
        assert_eq!(found.is_empty(), sound, "{pattern} {other:?}: {found:?}");
    }
}
