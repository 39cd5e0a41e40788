//! Workload classes, states of shards, accepted placements, as files and the environment say them.

use super::*;
use crate::topology::ShardState;

const FILE: &str = r#"
accept_placement = ["orders"]
[pool]
max_size = 20
min_idle = 2
connect_timeout = "1s"
[pools.batch]
max_size = 5
connection_timeout = "60s"
[pools.Re-port]
max_size = 3
min_idle = 1
[shards.a]
url = "postgres://db/a"
state = "read-only"
replicas = [{ url = "postgres://ro/a" }]
[shards.b]
url = "postgres://db/b"
[keyspaces.orders]
shards = ["a", "b"]
algorithm = { kind = "modulo", count = 2 }
[profiles.dev.pools.batch]
max_size = 1
[profiles.dev.shards.a]
state = "open"
"#;

/// The sizes of each class on the replica of shard a.
fn sizes(config: &Config) -> Vec<(&'static str, u32, u32)> {
    snapshot(config).shards()[0].replicas[0]
        .classes
        .iter()
        .map(|(name, pool)| (name.as_str(), pool.max_size, pool.min_idle))
        .collect()
}

#[test]
fn a_file_says_classes_states_and_accepted_placements() {
    let config = valid(FILE, Format::Toml, &[]);
    assert_eq!(sizes(&config), [("Re-port", 3, 1), ("batch", 5, 0)]);
    let snapshot = snapshot(&config);
    assert_eq!(snapshot.workloads, ["Re-port", "batch"]);
    assert_eq!(snapshot.accept_placement, ["orders"]);
    assert_eq!(snapshot.shards()[0].state, ShardState::ReadOnly);
    assert_eq!(snapshot.shards()[1].state, ShardState::Open);
    let batch = &snapshot.shards()[1].primary.classes[1].1;
    assert_eq!(batch.connection_timeout.as_secs(), 60);
    assert_eq!(batch.connect_timeout.as_secs(), 1);
    let warnings: Vec<String> = config.warnings().iter().map(ToString::to_string).collect();
    let [warning] = warnings.as_slice() else {
        panic!("{warnings:?}");
    };
    assert!(
        warning.contains("the TOML text: shards.a.state: shard a is read-only"),
        "{warning}"
    );
    let one = FILE.replace("[\"orders\"]", "\"orders\"");
    let one = self::snapshot(&valid(&one, Format::Toml, &[]));
    assert_eq!(one.accept_placement, ["orders"]);
    for (word, state) in [
        ("open", ShardState::Open),
        ("read-only", ShardState::ReadOnly),
        ("offline", ShardState::Offline),
    ] {
        let text = format!("[shards.a]\nurl = 'a.db'\nstate = '{word}'");
        let config = toml(&text).unwrap();
        assert_eq!(self::snapshot(&config).shards()[0].state, state);
        assert_eq!(config.warnings().is_empty(), state == ShardState::Open);
    }
}

#[test]
fn upper_layers_lie_over_them() {
    let load = |variables: Variables<'_>| {
        Config::loader()
            .profile("dev")
            .environment(variables.iter().copied())
            .text(FILE, Format::Toml)
            .unwrap()
    };
    let dev = load(&[]);
    assert_eq!(sizes(&dev), [("Re-port", 3, 1), ("batch", 1, 0)]);
    assert_eq!(snapshot(&dev).shards()[0].state, ShardState::Open);
    let config = load(&[
        ("DIESEL_SHARDED_POOLS__BATCH__MAX_SIZE", "7"),
        ("DIESEL_SHARDED_POOLS__RE_PORT__MIN_IDLE", "2"),
        ("DIESEL_SHARDED_SHARDS__A__STATE", "offline"),
        ("DIESEL_SHARDED_SHARDS__B__STATE", "read-only"),
        ("DIESEL_SHARDED_ACCEPT_PLACEMENT", "orders"),
    ]);
    assert_eq!(sizes(&config), [("Re-port", 3, 2), ("batch", 7, 0)]);
    let snapshot = snapshot(&config);
    assert_eq!(snapshot.shards()[0].state, ShardState::Offline);
    assert_eq!(snapshot.shards()[1].state, ShardState::ReadOnly);
    let origin = &config.warnings()[0].origin;
    assert_eq!(
        origin,
        "the environment variable DIESEL_SHARDED_SHARDS__A__STATE"
    );
}

#[test]
fn a_variable_makes_no_class_and_says_nothing_wrong() {
    for (name, value, words) in [
        (
            "DIESEL_SHARDED_POOLS__BATCHES__MAX_SIZE",
            "1",
            &[
                "unknown workload class batches (did you mean batch?)",
                "makes no new workload class",
            ][..],
        ),
        (
            "DIESEL_SHARDED_POOLS__ZZZ__MAX_SIZE",
            "1",
            &["unknown workload class zzz"],
        ),
        (
            "DIESEL_SHARDED_POOLS__BATCH",
            "1",
            &["names workload class batch, but no key of it"],
        ),
        ("DIESEL_SHARDED_POOLS", "1", &["names no workload class"]),
        (
            "DIESEL_SHARDED_POOLS__BATCH__MAXSIZE",
            "1",
            &["pools.batch.maxsize", "`max_size`?"],
        ),
        (
            "DIESEL_SHARDED_POOLS__BATCH__MAX_SIZE",
            "S3cr3t",
            &["pools.batch.max_size: a whole number"],
        ),
        (
            "DIESEL_SHARDED_SHARDS__A__STATE",
            "S3cr3t",
            &["shards.a.state: ", "\"open\", \"read-only\" or \"offline\""],
        ),
        ("DIESEL_SHARDED_SHARDS__A__STATE", "", &["is empty"]),
        (
            "DIESEL_SHARDED_ACCEPT_PLACEMENT",
            "orderz",
            &["accept_placement: unknown keyspace", "did you mean orders?"],
        ),
    ] {
        let origin = format!("the environment variable {name}: ");
        let mut words = words.to_vec();
        words.push(&origin);
        let result = load(FILE, Format::Toml, &[(name, value)]);
        assert!(!format!("{result:?}").contains("S3cr3t"));
        expect(result, &[&words]);
    }
}

#[test]
fn what_is_wrong_is_said_once_with_its_key() {
    for (text, words) in [
        (
            "[pools.batch]\nmin_idle = 1",
            &["pools.batch.max_size: is missing"][..],
        ),
        ("[pools.batch]", &["pools.batch.max_size: is missing"]),
        (
            "[pools.batch]\nmax_size = 'many'\nmin_idle = 3",
            &["pools.batch.max_size: a whole number"],
        ),
        (
            "[pools.batch]\nmax_size = 0",
            &["pools.batch.max_size: a pool of no connections"],
        ),
        (
            "[pools.batch]\nmax_size = 1\nsize = 2",
            &["pools.batch.size", "unknown key"],
        ),
        (
            "[pools.'b c']\nmax_size = 1",
            &["pools.\"b c\": ", "is no name for a workload class"],
        ),
        (
            "[pools.batch.x]\nmax_size = 1\n[pools.batch]\nmax_size = 1",
            &["pools.batch.x", "unknown key `x`"],
        ),
        (
            "[pools]\nbatch = 5",
            &["pools.batch: a table is expected here: { max_size = 5 }"],
        ),
        (
            "[pools]\nmax_size = 5",
            &[
                "pools.max_size: a table is expected here",
                "stands in `[pool]`",
            ],
        ),
        ("pools = 5", &["pools: a table is expected here"]),
        (
            "[pool.batch]\nmax_size = 5",
            &["pool.batch", "belongs into `[pools.batch]`"],
        ),
        (
            "[shards.s]\nurl = 's.db'\npools = { batch = { max_size = 2 } }",
            &["shards.s.pools", "one size for all nodes"],
        ),
        (
            "[shards.s]\nurl = 's.db'\nstate = 'closed'",
            &["shards.s.state: is \"open\", \"read-only\" or \"offline\""],
        ),
        (
            "[shards.s]\nurl = 's.db'\nstate = false",
            &["shards.s.state: text is expected"],
        ),
        (
            "[shards.s]\nurl = 's.db'\nreplicas = [{ url = 't.db', state = 'open' }]",
            &["shards.s.replicas.0.state", "unknown key"],
        ),
        (
            "accept_placement = ['k']",
            &["accept_placement: unknown keyspace \"k\" (keyspaces: none)"],
        ),
        (
            "accept_placement = 5",
            &["accept_placement: text is expected"],
        ),
        (
            "accept_placement = ['x']\nkeyspaces = 5",
            &["keyspaces: a table is expected"],
        ),
        (
            "[profiles.dev.pools.batch]\nmax_sise = 5",
            &[
                "profiles.dev.pools.batch.max_sise",
                "did you mean `max_size`?",
            ],
        ),
        // A class whose size nobody knows does not make the budget wrong as well.
        (
            "budget = { connections_per_server = 10 }\n[pools.batch]\nmax_size = 'many'",
            &["pools.batch.max_size"],
        ),
    ] {
        let text = format!("{text}\n[shards.a]\nurl = 'postgres://db/x'\n");
        expect(toml(&text), &[words]);
    }
}

#[test]
fn everything_is_reported_at_once() {
    let text = "
        accept_placement = ['l']
        [pools.batch]
        min_idle = 1
        [pools.BATCH]
        max_size = 0
        [shards.a]
        url = ':memory:'
        state = 'gone'
        password = { command = 'pass' }
        [keyspaces.k]
        shards = ['a']
    ";
    expect(
        toml(text),
        &[
            &["accept_placement: unknown keyspace \"l\""],
            &["pools.batch.max_size: is missing"],
            &["pools.batch: ", "rename one"],
            &["pools.BATCH.max_size: a pool of no connections"],
            &["pools.BATCH: ", "(shard a)", "empty database"],
            &["shards.a.state"],
            &["shards.a.password.command: write a list"],
        ],
    );
}

#[test]
fn an_unknown_type_of_keys_hides_no_fault_of_the_map() {
    let keyspace = |rest: &str| {
        toml(&format!(
            "[shards.a]\nurl = 'a.db'\n[keyspaces.k]\nshards = ['a']\n{rest}"
        ))
    };
    let map = "algorithm = { kind = 'hash', buckets = 8, map = [{ shard = 'a', buckets = '0..4' }, { shard = 'b', buckets = '4..9' }] }";
    for (key, line) in [
        ("key = 'int'", "keyspaces.k.key: "),
        ("key = 5", "keyspaces.k.key: text is expected"),
        (
            "key = 'text'\nnormalize = 'upper'",
            "keyspaces.k.normalize: ",
        ),
    ] {
        expect(
            keyspace(&format!("{key}\n{map}")),
            &[
                &[line],
                &["keyspaces.k.algorithm.map: ", "\"b\""],
                &[
                    "keyspaces.k.algorithm.map: ",
                    "4..9",
                    "leaves the 8 buckets",
                ],
            ],
        );
    }
    // What depends on the type is no second mistake.
    let values = "algorithm = { kind = 'list', values = { a = ['DE', 'AT'] } }";
    expect(
        keyspace(&format!("key = 'txt'\nnormalize = 'trim'\n{values}")),
        &[&["keyspaces.k.key: "]],
    );
    expect(
        keyspace("key = 'int'\nalgorithm = { kind = 'modulo', count = 2 }"),
        &[&["keyspaces.k.key: "], &["keyspaces.k.algorithm.count"]],
    );
}
