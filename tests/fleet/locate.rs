//! `locate KEYSPACE KEY`: the key is read as the keyspace's type, and no database is asked.

use diesel_sharded::{Config, Format};

use crate::harness::Stage;

const FLEET: &str = r#"
[shards.a]
url = "postgres://app@no-such-host.invalid/a"
[shards.b]
url = "postgres://app@no-such-host.invalid/b"

[keyspaces.orders]
shards = ["a", "b"]
tables = { t_order = { key_column = "user_id", count = 8 } }
[keyspaces.accounts]
shards = ["a", "b"]
key = "text"
[keyspaces.sessions]
shards = ["a", "b"]
key = "uuid"
[keyspaces.countries]
shards = ["a", "b"]
key = "text"
algorithm = { kind = "list", values = { a = ["DE"], b = ["FR"] } }
"#;

#[test]
fn the_answer_is_that_of_the_library() {
    let stage = Stage::new(FLEET);
    let topology = Config::from_str(FLEET, Format::Toml)
        .unwrap()
        .topology()
        .unwrap();
    for key in [i64::MIN, -42, 0, 7, 1 << 40, i64::MAX] {
        let output = stage
            .run(&["locate", "--format", "json", "orders", &key.to_string()])
            .exits(0);
        let event = &output.events_named("placement")[0];
        let placement = topology.locate("orders", &key).unwrap();
        assert_eq!(event["shard"], placement.shard().as_str(), "{key}");
        assert_eq!(event["spread"], placement.spread(), "{key}");
        assert_eq!(event["tables"][0]["number"], placement.table_number(8));
    }
    let output = stage.run(&["locate", "accounts", "zoë"]).exits(0);
    let shard = topology.locate("accounts", "zoë").unwrap().shard();
    assert!(output.stdout.contains(shard.as_str()), "{output:#?}");
}

#[test]
fn a_key_of_another_type_is_refused() {
    let stage = Stage::new(FLEET);
    for (keyspace, key, expected) in [
        ("orders", "7.5", "decimal digits"),
        ("orders", "", "decimal digits"),
        ("sessions", "7", "hexadecimal"),
        ("countries", "XX", "no shard of keyspace countries covers"),
        ("order", "7", "did you mean orders?"),
    ] {
        let output = stage.run(&["locate", keyspace, key]).exits(2);
        assert!(output.stderr.contains(expected), "{output:#?}");
        assert_eq!(output.stdout, "");
    }
}
