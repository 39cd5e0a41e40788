//! What the schema means, and case F16.

use std::time::Duration;

use super::*;
use crate::key::{ShardKey, ToShardKey};
use crate::topology::Startup;

/// The configuration of the design document.
const DESIGN: &str = r#"
default_shard = "order-0"
startup = "require"

[pool]
max_size = 20
min_idle = 2
connection_timeout = "3s"
idle_timeout = "10m"
max_lifetime = "30m"
alive_bypass = "500ms"

[budget]
connections_per_server = 200
instances = 5
headroom = 0.8

[shards.order-0]
url = "postgres://app_rw@db-order-0:5432/order_db"
password = { env = "ORDER0_PWD" }
replicas = [{ url = "postgres://app_ro@db-order-0b:5432/order_db", weight = 2 }]

[shards.order-1]
url = "postgres://app_rw@db-order-1:5432/order_db"
pool = { max_size = 5 }
migrations = ["migrations/one", "migrations/two"]

[keyspaces.orders]
shards = ["order-0", "order-1"]
key = "integer"
algorithm = { kind = "hash", buckets = 4096 }
tables = { t_order = { key_column = "user_id", count = 8 }, t_order_item = { key_column = "user_id", count = 8 }, t_log = { key_column = "user_id" } }
migrations = "migrations/orders"
"#;

#[test]
fn the_documented_configuration_means_what_it_says() {
    let config = valid(DESIGN, Format::Toml, &[("ORDER0_PWD", "s")]);
    let snapshot = snapshot(&config);
    assert_eq!(snapshot.startup, Startup::Require);
    assert_eq!(snapshot.default_shard, snapshot.find("order-0").ok());
    let [zero, one] = snapshot.shards() else {
        panic!("two shards");
    };
    let pool = &zero.primary.pool;
    assert_eq!((pool.max_size, pool.min_idle), (20, 2));
    assert_eq!(pool.connection_timeout, Duration::from_secs(3));
    assert_eq!(pool.idle_timeout, Some(Duration::from_secs(600)));
    assert_eq!(zero.replicas[0].weight, 2);
    assert_eq!(
        zero.primary.url.expose(),
        "postgres://app_rw:s@db-order-0:5432/order_db"
    );
    assert_eq!(one.primary.pool.max_size, 5);
    assert_eq!(one.migrations, ["migrations/one", "migrations/two"]);
    let keyspace = &snapshot.keyspaces()[0];
    assert_eq!(keyspace.migrations, ["migrations/orders"]);
    let tables: Vec<(&str, u32)> = keyspace
        .tables
        .iter()
        .map(|table| (table.name.as_str(), table.count))
        .collect();
    assert_eq!(tables, [("t_log", 1), ("t_order", 8), ("t_order_item", 8)]);
    assert!(
        config.warnings()[0]
            .to_string()
            .contains("keyspaces.orders.algorithm")
    );
    let text = format!("{config:?}");
    assert!(
        text.contains("order-1") && text.contains("orders"),
        "{text}"
    );
}

#[test]
fn durations_have_a_unit() {
    let read = |value: &str| {
        let text = format!("[pool]\nmax_lifetime = {value}\n[shards.a]\nurl = 'a.db'\n");
        toml(&text).map(|config| config.spec().pool.max_lifetime)
    };
    for (value, expected) in [
        ("'3s'", Some(Duration::from_secs(3))),
        ("'500ms'", Some(Duration::from_millis(500))),
        ("'10m'", Some(Duration::from_secs(600))),
        ("'1h 30m'", Some(Duration::from_secs(5400))),
        ("'never'", None),
        ("false", None),
    ] {
        assert_eq!(read(value).unwrap(), Some(expected), "{value}");
    }
    for (value, words) in [
        ("3", "write \"3s\""),
        ("3.5", "write \"3s\""),
        ("'3'", "write \"3s\""),
        ("true", "is expected here"),
        ("'soon'", "is expected here"),
        ("'-3s'", "is expected here"),
        ("[]", "is expected here"),
        ("''", "is expected here"),
        ("'0s'", "never"),
    ] {
        let error = read(value).unwrap_err().to_string();
        assert!(
            error.contains("pool.max_lifetime") && error.contains(words),
            "{value}: {error}"
        );
    }
}

fn keyspace(keyspace: &str) -> Result<Config, Error> {
    let shards: String = ["a", "b", "c"]
        .map(|name| format!("[shards.{name}]\nurl = '{name}.db'\n"))
        .concat();
    toml(&format!("{shards}[keyspaces.k]\n{keyspace}"))
}

fn place(config: &Config, key: &ShardKey<'_>) -> String {
    let snapshot = snapshot(config);
    let placement = snapshot.keyspaces()[0].rule.place(key);
    placement.map_or_else(
        |error| format!("{error:?}"),
        |placement| placement.shard().to_string(),
    )
}

#[test]
fn a_count_that_is_not_the_number_of_shards_is_refused() {
    for (shards, count, sound) in [
        ("['a', 'b', 'c']", 3, true),
        ("['a', 'b']", 3, false),
        ("['a', 'b', 'c']", 2, false),
        ("['a']", 0, false),
    ] {
        let text = format!("shards = {shards}\nalgorithm = {{ kind = 'modulo', count = {count} }}");
        let result = keyspace(&text);
        if sound {
            let config = result.unwrap();
            assert_eq!(place(&config, &(-1).to_shard_key()), "c");
        } else {
            expect(result, &[&["keyspaces.k.algorithm.count"]]);
        }
    }
    // A shard that was taken out of the file is not taken out of the fleet in silence.
    expect(
        keyspace("shards = ['a', 'b', 'd']\nalgorithm = { kind = 'modulo', count = 3 }"),
        &[&["keyspaces.k.shards", "unknown shard \"d\""]],
    );
    expect(
        keyspace("shards = ['a']\nalgorithm = { kind = 'modulo' }"),
        &[&["keyspaces.k.algorithm.count", "is missing"]],
    );
}

#[test]
fn a_map_of_buckets_is_read_and_checked() {
    let map = |ranges: &str| {
        keyspace(&format!(
            "shards = ['a', 'b']\nalgorithm = {{ kind = 'hash', buckets = 8, map = [{ranges}] }}"
        ))
    };
    let config = map("{ shard = 'b', buckets = '0..8' }").unwrap();
    assert_eq!(place(&config, &1.to_shard_key()), "b");
    assert!(config.warnings().is_empty());
    for (ranges, key) in [
        (
            "{ shard = 'a', buckets = '0..4' }",
            "keyspaces.k.algorithm.map",
        ),
        (
            "{ shard = 'a', buckets = '0..8' }, { shard = 'b', buckets = '7..8' }",
            "keyspaces.k.algorithm.map",
        ),
        (
            "{ shard = 'a', buckets = '0..=7' }",
            "keyspaces.k.algorithm.map.0.buckets",
        ),
        (
            "{ shard = 'a', buckets = '0-8' }",
            "keyspaces.k.algorithm.map.0.buckets",
        ),
        (
            "{ shard = 'a', buckets = 8 }",
            "keyspaces.k.algorithm.map.0.buckets",
        ),
        ("{ buckets = '0..8' }", "keyspaces.k.algorithm.map.0.shard"),
        ("{ shard = 'a' }", "keyspaces.k.algorithm.map.0.buckets"),
        ("'a'", "keyspaces.k.algorithm.map.0"),
    ] {
        let found = problems(map(ranges));
        assert!(
            found.iter().all(|problem| problem.key.starts_with(key)),
            "{ranges}: {found:?}"
        );
    }
}

#[test]
fn listed_keys_are_read_by_the_type_of_the_keyspace() {
    for (key, values, shard_key) in [
        ("text", "['DE', 'AT']", ShardKey::Text("AT".into())),
        (
            "integer",
            "[1, '340282366920938463463374607431768211455']",
            u128::MAX.to_shard_key(),
        ),
        ("integer", "[1, 0x10]", 16.to_shard_key()),
        ("date", "[2024-02-29]", ShardKey::Date(19_782)),
        ("date", "['2024-02-29']", ShardKey::Date(19_782)),
        ("bytes", "['0x00ff']", ShardKey::Bytes(vec![0, 255].into())),
        (
            "uuid",
            "['00000000-0000-0000-0000-000000000001']",
            1u128.to_be_bytes().into_uuid(),
        ),
    ] {
        let text = format!(
            "shards = ['a', 'b']\nkey = '{key}'\nalgorithm = {{ kind = 'list', values = {{ b = {values} }} }}"
        );
        let config = keyspace(&text).unwrap_or_else(|error| panic!("{key}: {error}"));
        assert_eq!(place(&config, &shard_key), "b", "{key}");
    }
    expect(
        keyspace("shards = ['a']\nalgorithm = { kind = 'list', values = { a = ['DE', 1] } }"),
        &[&["keyspaces.k.algorithm.values.a.0", "a whole number"]],
    );
    expect(
        keyspace(
            "shards = ['a']\nkey = 'text'\nalgorithm = { kind = 'list', values = { a = [1] } }",
        ),
        &[&["keyspaces.k.algorithm.values.a.0", "quote this value"]],
    );
}

trait IntoUuid {
    fn into_uuid(self) -> ShardKey<'static>;
}

impl IntoUuid for [u8; 16] {
    fn into_uuid(self) -> ShardKey<'static> {
        ShardKey::Uuid(self)
    }
}

#[test]
fn words_that_nobody_knows_are_listed_with_those_that_are_known() {
    for (text, words) in [
        ("key = 'int'", &["keyspaces.k.key", "integer, text"][..]),
        (
            "key = 'text'\nnormalize = ['upper']",
            &["keyspaces.k.normalize", "lowercase"],
        ),
        (
            "normalize = 'trim'",
            &["keyspaces.k.normalize", "only text keys"],
        ),
        (
            "algorithm = { kind = 'ranges' }",
            &["keyspaces.k.algorithm.kind", "\"modulo\""],
        ),
        (
            "algorithm = { buckets = 8 }",
            &["keyspaces.k.algorithm.kind", "is missing"],
        ),
    ] {
        expect(keyspace(&format!("shards = ['a']\n{text}")), &[words]);
    }
    let config = keyspace("shards = ['a', 'b']\nkey = 'text'\nnormalize = 'trim'").unwrap();
    assert_eq!(
        place(&config, &" x ".to_shard_key()),
        place(&config, &"x".to_shard_key())
    );
}

#[test]
fn patterns_of_table_names_are_read_and_checked_all_at_once() {
    let config = keyspace(
        "shards = ['a', 'b']\ntables = { t = { key_column = 'id', count = 2, pattern = '{name}_{global:03}' } }",
    )
    .unwrap();
    let targets = snapshot(&config).keyspaces()[0].all_targets();
    assert_eq!(targets[1].tables, ["t_002", "t_003"]);
    expect(
        keyspace(
            "shards = ['a', 'b']
            [keyspaces.k.tables]
            t = { key_column = 'id', count = 2, pattern = '{name}_{tbl}' }
            u = { key_column = 'id', count = 2, pattern = '{name}' }
            v = { key_column = 'id', count = 4 }
            v_2 = { key_column = 'id' }
            w = { key_column = 'id', pattern = 7 }
            x = { key_column = 'id', patern = '{name}' }",
        ),
        &[
            &[
                "keyspaces.k.tables.t.pattern",
                "{tbl} is unknown",
                "{table}",
            ],
            &["keyspaces.k.tables.u.pattern", "{name}_{table}"],
            &["keyspaces.k.tables.v_2", "part 2 of table v"],
            &["keyspaces.k.tables.w.pattern", "quote"],
            &["keyspaces.k.tables.x.patern", "pattern"],
        ],
    );
}
