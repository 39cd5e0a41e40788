//! Case H04: a variable lands on what is declared, or is an error that names it.

use super::*;

const FILE: &str = r#"
[shards.eu-west]
url = "postgres://app@db/eu"
replicas = [{ url = "postgres://ro1/eu" }, { url = "postgres://ro2/eu" }]
[shards.Orders-A]
url = "postgres://app@db/orders"
[shards.a__b]
url = "postgres://app@db/ab"
[keyspaces.k]
shards = ["eu-west", "Orders-A"]
algorithm = { kind = "modulo", count = 2 }
tables = { "shop.orders" = { key_column = "id", count = 2 } }
"#;

#[test]
fn a_name_is_found_however_it_is_spelled() {
    for (name, shard) in [
        ("DIESEL_SHARDED_SHARDS__EU_WEST__URL", "eu-west"),
        ("DIESEL_SHARDED_SHARDS__EU-WEST__URL", "eu-west"),
        ("DIESEL_SHARDED_SHARDS__eu-west__url", "eu-west"),
        ("diesel_sharded_shards__Eu_West__Url", "eu-west"),
        ("DIESEL_SHARDED_SHARDS__ORDERS-A__URL", "Orders-A"),
        ("DIESEL_SHARDED_SHARDS__ORDERS_A__URL", "Orders-A"),
        ("DIESEL_SHARDED_SHARDS__A__B__URL", "a__b"),
    ] {
        let config = valid(FILE, Format::Toml, &[(name, "postgres://new/x")]);
        assert_eq!(url(&config, shard), "postgres://new/x", "{name}");
        assert_eq!(urls(&config).len(), 3, "{name}");
    }
}

#[test]
fn a_variable_makes_no_shard_and_no_keyspace() {
    for (name, words) in [
        (
            "DIESEL_SHARDED_SHARDS__EU_EAST__URL",
            &["unknown shard eu_east", "did you mean eu-west?"][..],
        ),
        ("DIESEL_SHARDED_SHARDS__ZZZ__URL", &["unknown shard zzz"]),
        (
            "DIESEL_SHARDED_SHARDS__EU__WEST__URL",
            &["unknown shard eu"],
        ),
        (
            "DIESEL_SHARDED_KEYSPACES__ORDERS__KEY",
            &["unknown keyspace orders"],
        ),
        (
            "DIESEL_SHARDED_KEYSPACES__K__TABLES__T__COUNT",
            &["unknown table t"],
        ),
        (
            "DIESEL_SHARDED_SHARDS__EU_WEST",
            &["names shard eu-west, but no key of it"],
        ),
        ("DIESEL_SHARDED_SHARDS", &["names no shard"]),
        (
            "DIESEL_SHARDED_SHARDS__EU_WEST__REPLICAS__2__URL",
            &["entry 2", "which has 2"],
        ),
        (
            "DIESEL_SHARDED_SHARDS__EU_WEST__REPLICAS__X__URL",
            &["entry x"],
        ),
        (
            "DIESEL_SHARDED_SHARDS__EU_WEST__REPLICAS__0",
            &["entry 0", "one key"],
        ),
        ("DIESEL_SHARDED_POOL____MAX_SIZE", &["is no key"]),
        ("DIESEL_SHARDED_", &["is no key"]),
        (
            "DIESEL_SHARDED_PROFILES__DEV__STARTUP",
            &["profiles cannot be set"],
        ),
    ] {
        let mut words = words.to_vec();
        let origin = format!("the environment variable {name}: ");
        words.push(&origin);
        expect(load(FILE, Format::Toml, &[(name, "1")]), &[&words]);
    }
}

#[test]
fn an_unknown_key_is_an_error_that_names_the_variable() {
    for (name, words) in [
        (
            "DIESEL_SHARDED_POOL__MAX_SIZ",
            &["pool.max_siz", "did you mean `max_size`?"][..],
        ),
        (
            "DIESEL_SHARDED_POOOL__MAX_SIZE",
            &["poool", "did you mean `pool`?"],
        ),
        (
            "DIESEL_SHARDED_SHARDS__EU_WEST__URLL",
            &["shards.eu-west.urll", "did you mean `url`?"],
        ),
        (
            "DIESEL_SHARDED_SHARDS__EU_WEST__MAX_SIZE",
            &["pool = { max_size"],
        ),
    ] {
        let mut words = words.to_vec();
        let origin = format!("the environment variable {name}: ");
        words.push(&origin);
        expect(load(FILE, Format::Toml, &[(name, "1")]), &[&words]);
    }
}

#[test]
fn a_value_is_taken_as_its_key_needs_it() {
    let config = valid(
        FILE,
        Format::Toml,
        &[
            ("DIESEL_SHARDED_POOL__MAX_SIZE", "7"),
            ("DIESEL_SHARDED_POOL__IDLE_TIMEOUT", "never"),
            ("DIESEL_SHARDED_POOL__CONNECT_TIMEOUT", "1s"),
            ("DIESEL_SHARDED_SHARDS__EU_WEST__POOL__MIN_IDLE", "3"),
            ("DIESEL_SHARDED_SHARDS__EU_WEST__REPLICAS__1__WEIGHT", "5"),
            (
                "DIESEL_SHARDED_SHARDS__EU_WEST__REPLICAS__0__PASSWORD",
                "0123",
            ),
            ("DIESEL_SHARDED_DEFAULT_SHARD", "Orders-A"),
            ("DIESEL_SHARDED_SHARED_DATABASE", "true"),
            ("DIESEL_SHARDED_BUDGET__CONNECTIONS_PER_SERVER", "1000"),
            ("DIESEL_SHARDED_BUDGET__HEADROOM", "0.5"),
            (
                "DIESEL_SHARDED_KEYSPACES__K__TABLES__SHOP_ORDERS__COUNT",
                "4",
            ),
            ("DIESEL_SHARDED_TEST_PG", "postgres://whatever"),
            ("DIESEL_SHARDED_CONFIG", "whatever.toml"),
            ("OTHER", "x"),
        ],
    );
    let snapshot = snapshot(&config);
    let shard = snapshot.shard(snapshot.find("eu-west").unwrap());
    assert_eq!(
        (shard.primary.pool.max_size, shard.primary.pool.min_idle),
        (7, 3)
    );
    assert_eq!(shard.primary.pool.idle_timeout, None);
    assert_eq!(shard.replicas[1].weight, 5);
    assert_eq!(shard.replicas[0].weight, 1);
    assert_eq!(shard.replicas[0].url.expose(), "postgres://:0123@ro1/eu");
    assert_eq!(shard.replicas[1].url.expose(), "postgres://ro2/eu");
    assert_eq!(snapshot.default_shard, snapshot.find("Orders-A").ok());
    assert_eq!(snapshot.keyspaces()[0].tables[0].count, 4);

    for (name, value, words) in [
        ("DIESEL_SHARDED_POOL__MAX_SIZE", "ten", "a whole number"),
        ("DIESEL_SHARDED_POOL__MAX_SIZE", "-1", "a whole number"),
        ("DIESEL_SHARDED_POOL__MAX_SIZE", "1e3", "a whole number"),
        (
            "DIESEL_SHARDED_POOL__MAX_SIZE",
            "4294967296",
            "a whole number",
        ),
        ("DIESEL_SHARDED_POOL__CONNECT_TIMEOUT", "3", "write \"3s\""),
        ("DIESEL_SHARDED_SHARED_DATABASE", "yes", "true or false"),
        ("DIESEL_SHARDED_KEYSPACES__K__SHARDS", "eu-west", "a list"),
        ("DIESEL_SHARDED_POOL", "5", "a table"),
    ] {
        let origin = format!("the environment variable {name}: ");
        expect(
            load(FILE, Format::Toml, &[(name, value)]),
            &[&[&origin, words]],
        );
    }
}

#[test]
fn two_variables_for_one_key_are_an_error() {
    let variables = [
        ("DIESEL_SHARDED_SHARDS__EU-WEST__URL", "postgres://one/x"),
        ("DIESEL_SHARDED_SHARDS__EU_WEST__URL", "postgres://two/x"),
    ];
    let found = problems(load(FILE, Format::Toml, &variables));
    let text = found[0].to_string();
    assert!(
        text.contains("EU_WEST") && text.contains("EU-WEST"),
        "{text}"
    );
}

#[test]
fn the_order_of_places_and_lines_places_nothing() {
    let keyspace = "[keyspaces.k]\nshards = ['c', 'a', 'd', 'b']\nalgorithm = { kind = 'hash', buckets = 64 }\n";
    let shard = |name: &str| format!("[shards.{name}]\nurl = 'postgres://db/{name}'\n");
    let all = |names: [&str; 4]| names.map(shard).concat();
    let print = |text: &str, variables: Variables<'_>| {
        let snapshot = snapshot(&valid(text, Format::Toml, variables));
        (snapshot.names(), snapshot.keyspaces()[0].fingerprint)
    };
    let first = print(&(all(["a", "b", "c", "d"]) + keyspace), &[]);
    for names in [
        ["d", "c", "b", "a"],
        ["b", "a", "d", "c"],
        ["c", "d", "a", "b"],
    ] {
        assert_eq!(print(&(all(names) + keyspace), &[]), first);
        assert_eq!(print(&(keyspace.to_owned() + &all(names)), &[]), first);
    }
    let declared = "[shards]\nd = {}\nc = {}\nb = {}\na = {}\n".to_owned() + keyspace;
    let variables = [
        ("DIESEL_SHARDED_SHARDS__D__URL", "postgres://db/d"),
        ("DIESEL_SHARDED_SHARDS__B__URL", "postgres://db/b"),
        ("DIESEL_SHARDED_SHARDS__A__URL", "postgres://db/a"),
        ("DIESEL_SHARDED_SHARDS__C__URL", "postgres://db/c"),
    ];
    assert_eq!(print(&declared, &variables), first);
}
