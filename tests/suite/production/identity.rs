//! Whose data a database holds, by its own word (R15).

use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use diesel_sharded::{Error, KeyspaceConfig, RuleSpec};

use super::backend::{Conn, Fleet, Manager, Sharded, insert, whoami};
use crate::support::said;

diesel::table! {
    diesel_sharded_identity (shard, keyspace) {
        shard -> Text,
        keyspace -> Text,
        fingerprint -> Text,
        epoch -> BigInt,
    }
}

fn orders() -> KeyspaceConfig {
    KeyspaceConfig::new(RuleSpec::hash(["a", "b"], 8)).table("t_order", "user_id", 2)
}

fn with(fleet: &Fleet, keyspace: KeyspaceConfig) -> Manager {
    fleet
        .builder()
        .keyspace("orders", keyspace)
        .build()
        .unwrap()
}

/// The rows of the table, read past the crate.
fn recorded(fleet: &Fleet, shard: &str) -> Vec<(String, String, String, i64)> {
    diesel_sharded_identity::table
        .order((
            diesel_sharded_identity::shard,
            diesel_sharded_identity::keyspace,
        ))
        .load(&mut fleet.direct(shard))
        .unwrap()
}

/// A manager whose shards `a` and `b` have each other's database.
fn swapped(fleet: &Fleet) -> Manager {
    fleet
        .connecting(Manager::builder())
        .pool(crate::support::pool(2))
        .shard("a", fleet.url("b"))
        .shard("b", fleet.url("a"))
        .build()
        .unwrap()
}

fn assert_wrong(error: &Error, expected: &str, found: &str) {
    let Error::WrongDatabase {
        expected: wanted,
        found: names,
    } = error
    else {
        panic!("{error:?}");
    };
    assert_eq!(
        (wanted.as_str(), names.join(",")),
        (expected, found.to_owned())
    );
    assert_eq!(error.shard().unwrap(), expected);
    let text = said(error);
    assert!(text.contains(&format!("shard {expected}")), "{text}");
}

#[test]
fn without_the_table_a_database_is_taken_at_the_configurations_word() {
    let fleet = Fleet::new(&["a", "b"]);
    let shards = swapped(&fleet);
    assert_eq!(whoami(&mut shards.get_on("a").unwrap()).unwrap(), "b");
    let other = KeyspaceConfig::new(RuleSpec::modulo(["a", "b"]));
    whoami(&mut with(&fleet, other).get_on("a").unwrap()).unwrap();
}

#[test]
fn swapped_urls_are_told_at_the_first_connection_and_nothing_is_done() {
    let fleet = Fleet::new(&["a", "b"]);
    fleet.manager().write_identity().unwrap();
    let shards = swapped(&fleet);
    for _ in 0..3 {
        assert_wrong(&shards.get_on("a").unwrap_err(), "a", "b");
        let refused: Result<(), Error> = shards.transaction_on("b", |_| panic!("not run"));
        assert_wrong(&refused.unwrap_err(), "b", "a");
        let refused = shards.on("a", || shards.get().map(drop));
        assert_wrong(&refused.unwrap_err(), "a", "b");
    }
    for node in shards.status().nodes {
        assert_eq!(node.down, None, "{node:?}");
    }
    crate::support::eventually("what was refused is closed", || {
        let nodes = shards.status().nodes;
        nodes.iter().all(|node| node.connections == 0)
    });
    // Through an outer pool the first statement says it.
    let pool = shards.clone().into_pool();
    shards
        .on("a", || {
            let error = whoami(&mut pool.get().unwrap()).unwrap_err();
            assert_wrong(crate::support::ours(&error), "a", "b");
            Ok::<_, Error>(())
        })
        .unwrap();
    // Correcting the URLs is all that it takes.
    let (a, b) = (fleet.url("a"), fleet.url("b"));
    shards
        .reload_with(|topology| topology.replace_shard("a", a).replace_shard("b", b))
        .unwrap();
    assert_eq!(whoami(&mut shards.get_on("a").unwrap()).unwrap(), "a");
}

#[test]
fn a_required_start_and_a_reload_find_a_swapped_url() {
    let fleet = Fleet::new(&["a", "b"]);
    let shards = fleet.manager();
    shards.write_identity().unwrap();
    let required = fleet
        .connecting(Manager::builder())
        .shard("a", fleet.url("b"))
        .shard("b", fleet.url("a"))
        .startup(diesel_sharded::Startup::Require)
        .build();
    // Both are wrong, and which of them is told is nobody's promise.
    let error = required.unwrap_err();
    match error.shard().unwrap().as_str() {
        "a" => assert_wrong(&error, "a", "b"),
        _ => assert_wrong(&error, "b", "a"),
    }
    let (a, b) = (fleet.url("a"), fleet.url("b"));
    let refused =
        shards.reload_with(|topology| topology.replace_shard("a", b).replace_shard("b", a));
    assert!(matches!(refused, Err(Error::WrongDatabase { .. })));
    for name in ["a", "b"] {
        assert_eq!(whoami(&mut shards.get_on(name).unwrap()).unwrap(), name);
    }
}

#[test]
fn there_is_one_row_per_shard_and_keyspace_and_writing_again_changes_that_row() {
    let fleet = Fleet::new(&["a", "b", "c"]);
    let shards = fleet
        .builder()
        .keyspace("orders", orders())
        .keyspace("users", KeyspaceConfig::new(RuleSpec::modulo(["b"])))
        .build()
        .unwrap();
    shards.write_identity().unwrap();
    let print = |name: &str| {
        shards
            .keyspace(name)
            .unwrap()
            .fingerprint()
            .unwrap()
            .to_string()
    };
    let row = |shard: &str, keyspace: &str, print: String| {
        (shard.to_owned(), keyspace.to_owned(), print, 1)
    };
    assert_eq!(recorded(&fleet, "a"), [row("a", "orders", print("orders"))]);
    assert_eq!(
        recorded(&fleet, "b"),
        [
            row("b", "orders", print("orders")),
            row("b", "users", print("users"))
        ]
    );
    assert_eq!(recorded(&fleet, "c"), [row("c", "", String::new())]);
    shards
        .set_shard_state("c", diesel_sharded::ShardState::Open)
        .unwrap();
    shards.write_identity().unwrap();
    let again = recorded(&fleet, "a");
    assert_eq!((again.len(), again[0].3), (1, 2), "the epoch is today's");
    // What was written is what is accepted.
    for name in ["a", "b", "c"] {
        whoami(&mut with(&fleet, orders()).get_on(name).unwrap()).unwrap();
    }
}

#[test]
fn a_changed_rule_map_or_table_is_told_unless_accepted_by_name() {
    let fleet = Fleet::new(&["a", "b"]);
    with(&fleet, orders()).write_identity().unwrap();
    let rule = |rule| KeyspaceConfig::new(rule).table("t_order", "user_id", 2);
    let hash = |buckets| RuleSpec::hash(["a", "b"], buckets);
    let changes = [
        ("buckets", rule(hash(16))),
        ("kind", rule(RuleSpec::modulo(["a", "b"]))),
        ("order", rule(RuleSpec::hash(["b", "a"], 8))),
        ("map", rule(hash(8).map([(0..1, "a"), (1..8, "b")]))),
        ("key type", rule(hash(8).key(diesel_sharded::KeyType::Text))),
        (
            "table count",
            KeyspaceConfig::new(hash(8)).table("t_order", "user_id", 4),
        ),
    ];
    for (what, change) in changes {
        let shards = with(&fleet, change.clone());
        for name in ["a", "b"] {
            for _ in 0..2 {
                let error = shards.get_on(name).expect_err(what);
                let Error::PlacementChanged {
                    keyspace,
                    shard,
                    configured,
                    recorded,
                } = &error
                else {
                    panic!("{what}: {error:?}");
                };
                assert_eq!(
                    (keyspace.as_str(), shard.unwrap().as_str()),
                    ("orders", name)
                );
                assert_ne!(configured, recorded, "{what}");
                assert!(said(&error).contains("orders"));
            }
        }
        assert_eq!(shards.status().nodes[0].connections, 0, "{what}");
        let accepting = fleet
            .builder()
            .keyspace("orders", change)
            .accept_placement("orders")
            .build()
            .unwrap();
        whoami(&mut accepting.get_on("a").unwrap()).expect(what);
    }
    // The same said otherwise is the same.
    let said_otherwise = rule(hash(8).map([(4..8, "b"), (0..4, "a")]));
    whoami(&mut with(&fleet, said_otherwise).get_on("a").unwrap()).unwrap();
}

#[test]
fn accepting_one_keyspace_accepts_no_other() {
    let fleet = Fleet::new(&["a", "b"]);
    let users = |buckets| KeyspaceConfig::new(RuleSpec::hash(["a"], buckets));
    let builder = |users| {
        fleet
            .builder()
            .keyspace("orders", orders())
            .keyspace("users", users)
    };
    builder(users(4)).build().unwrap().write_identity().unwrap();
    let shards = builder(users(8))
        .accept_placement("orders")
        .build()
        .unwrap();
    let error = shards.get_on("a").unwrap_err();
    assert!(
        matches!(&error, Error::PlacementChanged { keyspace, .. } if *keyspace == "users"),
        "{error:?}"
    );
    // A shard that has no part in the keyspace is not concerned.
    whoami(&mut shards.get_on("b").unwrap()).unwrap();
    // After the move the new rule is written down, and accepted without a word.
    builder(users(8))
        .accept_placement("users")
        .build()
        .unwrap()
        .write_identity()
        .unwrap();
    whoami(&mut builder(users(8)).build().unwrap().get_on("a").unwrap()).unwrap();
    builder(users(4)).build().unwrap().get_on("a").unwrap_err();
}

#[test]
fn one_database_may_be_several_shards_where_that_is_said() {
    let fleet = Fleet::new(&["a"]);
    let shared = |names: &[&str]| {
        let mut builder = fleet
            .connecting(Manager::builder())
            .pool(crate::support::pool(2))
            .shared_database(true);
        for name in names {
            builder = builder.shard(*name, fleet.url("a"));
        }
        builder.build().unwrap()
    };
    shared(&["x", "y"]).write_identity().unwrap();
    let names: Vec<String> = recorded(&fleet, "a").into_iter().map(|row| row.0).collect();
    assert_eq!(names, ["x", "y"]);
    let shards = shared(&["x", "y", "z"]);
    for name in ["x", "y", "z"] {
        assert_eq!(whoami(&mut shards.get_on(name).unwrap()).unwrap(), "a");
    }
    // Without the word, the same database is not another shard's.
    assert_wrong(&fleet.manager().get_on("a").unwrap_err(), "a", "x,y");
}

#[test]
fn a_database_is_asked_once_and_not_at_every_connect() {
    let fleet = Fleet::new(&["a"]);
    let shards = fleet.manager_of_size(3);
    shards.write_identity().unwrap();
    let held = shards.get_on("a").unwrap();
    fleet
        .direct("a")
        .batch_execute("UPDATE diesel_sharded_identity SET shard = 'x'")
        .unwrap();
    // Two connections more, made now.
    let mut others = [shards.get_on("a").unwrap(), shards.get_on("a").unwrap()];
    for conn in &mut others {
        assert_eq!(whoami(conn).unwrap(), "a");
    }
    assert_eq!(shards.status().nodes[0].connections, 3);
    drop((held, others));
    assert_wrong(&fleet.manager().get_on("a").unwrap_err(), "a", "x");
}

#[test]
fn writing_is_no_part_of_a_transaction_around_it() {
    let fleet = Fleet::new(&["a", "b"]);
    let shards = fleet.manager();
    let mut user: Sharded = shards.get_on("b").unwrap();
    insert(&mut user, 1).unwrap();
    shards
        .on("b", || shards.write_identity())
        .expect("a route has no influence");
    shards
        .transaction_on("a", |conn| {
            whoami(conn)?;
            shards.write_identity()?;
            Err::<(), Error>(Error::NoRoute { known: vec![] })
        })
        .unwrap_err();
    for name in ["a", "b"] {
        assert_eq!(recorded(&fleet, name)[0].0, name);
    }
    fleet.assert_nothing_open("a");
}

#[test]
fn a_table_of_that_name_that_is_no_identity_is_an_error_and_not_a_yes() {
    let fleet = Fleet::new(&["a"]);
    let mut direct: Conn = fleet.direct("a");
    direct
        .batch_execute("CREATE TABLE diesel_sharded_identity (something INT)")
        .unwrap();
    let error = fleet.manager().get_on("a").unwrap_err();
    assert!(said(&error).contains("shard a"), "{error:?}");
}
