//! Changes that are refused leave everything as it was.

use diesel_sharded::{Config, Error, Format, KeyspaceConfig, RuleSpec, Startup};

use super::super::pool::counted;
use super::backend::{Fleet, Manager, NAME, whoami};
use crate::production_support::{at_port, closed_port};
use crate::support::said;

fn here(shards: &Manager, shard: &str) -> String {
    whoami(&mut shards.get_on(shard).unwrap()).unwrap()
}

/// A URL of the backend at which nothing is.
fn nowhere(fleet: &Fleet) -> String {
    match NAME {
        "sqlite" => format!("{}-no-such-folder/x.db", fleet.url("a")),
        _ => at_port(&fleet.url("a"), closed_port()),
    }
}

/// The manager serves `a` and `b` from the connections it had.
fn assert_untouched(shards: &Manager, connects: &impl Fn() -> usize, before: usize) {
    assert_eq!(shards.topology().epoch(), 1);
    for name in ["a", "b"] {
        assert_eq!(here(shards, name), name);
    }
    let status = shards.status();
    assert_eq!(status.epoch, 1);
    for node in status.nodes {
        assert_eq!((node.connections, node.down), (1, None), "{node:?}");
    }
    assert_eq!(connects(), before);
}

#[test]
fn a_new_place_that_cannot_be_reached_is_not_taken() {
    let fleet = Fleet::new(&["a", "b"]);
    let (shards, connects) = counted(&fleet, 1);
    for name in ["a", "b"] {
        here(&shards, name);
    }
    let url = nowhere(&fleet);
    let error = shards
        .reload_with(|topology| topology.replace_shard("b", url.as_str()))
        .unwrap_err();
    let Error::Unavailable { shard, .. } = &error else {
        panic!("{error:?}");
    };
    assert_eq!(*shard, "b");
    said(&error);
    // That one attempt, and none for what is in use.
    assert_untouched(&shards, &connects, 3);
}

#[test]
fn one_bad_place_among_many_good_changes_refuses_them_all() {
    let fleet = Fleet::new(&["a", "b"]);
    let (shards, connects) = counted(&fleet, 1);
    for name in ["a", "b"] {
        here(&shards, name);
    }
    let (a, nowhere) = (fleet.url("a"), nowhere(&fleet));
    let refused = shards.reload_with(|topology| {
        topology
            .remove_shard("a")
            .shard("z", a)
            .replace_shard("b", nowhere)
    });
    assert!(matches!(refused, Err(Error::Unavailable { .. })));
    assert!(matches!(
        shards.get_on("z"),
        Err(Error::UnknownShard { .. })
    ));
    assert_untouched(&shards, &connects, 3);
}

#[test]
fn a_description_that_is_wrong_says_all_that_is_wrong() {
    let fleet = Fleet::new(&["a", "b"]);
    let (shards, connects) = counted(&fleet, 1);
    for name in ["a", "b"] {
        here(&shards, name);
    }
    let foreign = if NAME == "mysql" {
        "x.sqlite"
    } else {
        "mysql://u@h/d"
    };
    let refused = [
        shards.reload_with(|topology| topology.shard("b", "again").default_shard("nobody")),
        shards.reload_with(|topology| topology.shard("not a name", fleet.url("a"))),
        shards.reload_with(|topology| topology.shard("c", fleet.url("a"))),
        shards.reload_with(|topology| topology.shard("c", foreign)),
        shards.reload_with(|topology| topology.remove_shard("a").remove_shard("b")),
    ];
    for (at, refused) in refused.into_iter().enumerate() {
        let error = refused.unwrap_err();
        let Error::Config(problems) = &error else {
            panic!("{at}: {error:?}");
        };
        assert!(
            problems.problems().len() >= if at == 0 { 2 } else { 1 },
            "{error}"
        );
        said(&error);
    }
    assert_untouched(&shards, &connects, 2);
}

#[test]
fn a_shard_that_is_needed_is_not_removed() {
    let fleet = Fleet::new(&["a", "b", "c"]);
    let shards = fleet
        .builder()
        .keyspace("orders", KeyspaceConfig::new(RuleSpec::hash(["a", "b"], 8)))
        .default_shard("c")
        .build()
        .unwrap();
    for (needed, by) in [("b", "orders"), ("c", "default_shard")] {
        let error = shards
            .reload_with(|topology| topology.remove_shard(needed))
            .unwrap_err();
        assert!(matches!(error, Error::Config(_)), "{error:?}");
        let text = said(&error);
        assert!(text.contains(by) && text.contains(needed), "{text}");
        assert_eq!(here(&shards, needed), needed);
    }
    assert_eq!(shards.topology().epoch(), 1);
}

#[test]
fn a_new_shard_that_is_down_is_one_shard_down_unless_the_start_requires_all() {
    let fleet = Fleet::new(&["a", "b"]);
    let shards = fleet.manager();
    let url = nowhere(&fleet);
    shards
        .reload_with(|topology| topology.shard("c", url.as_str()))
        .unwrap();
    assert!(matches!(shards.get_on("c"), Err(Error::Unavailable { .. })));
    assert_eq!(here(&shards, "a"), "a");

    let strict = fleet.builder().startup(Startup::Require).build().unwrap();
    let refused = strict.reload_with(|topology| topology.shard("c", url.as_str()));
    assert!(
        matches!(&refused, Err(Error::Unavailable { shard, .. }) if *shard == "c"),
        "{refused:?}"
    );
    assert_eq!(strict.topology().epoch(), 1);
}

/// `a` and `b`, and the keyspace `orders` with these lines.
fn config(fleet: &Fleet, lines: &str) -> Config {
    let shard = |name: &str| format!("[shards.{name}]\nurl = {:?}\n", fleet.url(name));
    let text = format!(
        "{}{}{}[keyspaces.orders]\n{lines}\n",
        if lines.contains("# accepted") {
            "accept_placement = \"orders\"\n"
        } else {
            ""
        },
        shard("a"),
        shard("b")
    );
    Config::from_str(&text, Format::Toml).unwrap()
}

#[test]
fn a_rule_that_would_move_rows_is_refused_unless_accepted_by_name() {
    let fleet = Fleet::new(&["a", "b"]);
    let lines = |more: &str| format!("shards = [\"a\", \"b\"]\n{more}");
    let shards = Manager::from_config(&config(
        &fleet,
        &lines("algorithm = { kind = \"hash\", buckets = 8 }"),
    ))
    .unwrap();
    let orders = shards.keyspace("orders").unwrap();
    let before = orders.fingerprint().unwrap();
    let home = orders.locate(&7_i64).unwrap();
    for change in [
        "algorithm = { kind = \"hash\", buckets = 16 }",
        "algorithm = { kind = \"modulo\", count = 2 }",
        "algorithm = { kind = \"hash\", buckets = 8 }\nkey = \"text\"",
        "algorithm = { kind = \"hash\", buckets = 8 }\ntables = { t = { key_column = \"k\", count = 2 } }",
        "algorithm = { kind = \"hash\", buckets = 8, map = [{ shard = \"a\", buckets = \"0..1\" }, { shard = \"b\", buckets = \"1..8\" }] }",
    ] {
        let error = shards.reload(&config(&fleet, &lines(change))).unwrap_err();
        let Error::PlacementChanged {
            keyspace, shard, ..
        } = &error
        else {
            panic!("{change}: {error:?}");
        };
        assert_eq!((keyspace.as_str(), *shard), ("orders", None));
        assert_eq!(orders.fingerprint().unwrap(), before, "{change}");
        assert_eq!(orders.locate(&7_i64).unwrap(), home);
    }
    // The map in force, written down, is the same rule.
    let written = "algorithm = { kind = \"hash\", buckets = 8, map = [{ shard = \"a\", buckets = \"0..4\" }, { shard = \"b\", buckets = \"4..8\" }] }";
    shards.reload(&config(&fleet, &lines(written))).unwrap();
    let accepted = format!(
        "{}\n# accepted",
        lines("algorithm = { kind = \"hash\", buckets = 16 }")
    );
    shards.reload(&config(&fleet, &accepted)).unwrap();
    assert_ne!(orders.fingerprint().unwrap(), before);
    assert_eq!(shards.topology().epoch(), 3);
}

#[test]
fn a_shard_appended_to_a_keyspace_owns_nothing_until_the_map_says_so() {
    let fleet = Fleet::new(&["a", "b"]);
    let map = "algorithm = { kind = \"hash\", buckets = 8, map = [{ shard = \"a\", buckets = \"0..8\" }] }";
    let shards =
        Manager::from_config(&config(&fleet, &format!("shards = [\"a\"]\n{map}"))).unwrap();
    let orders = shards.keyspace("orders").unwrap();
    shards.write_identity().unwrap();
    let appended = format!("shards = [\"a\", \"b\"]\n{map}");
    shards.reload(&config(&fleet, &appended)).unwrap();
    assert_eq!(orders.shards().unwrap(), ["a", "b"]);
    for key in 0..64_i64 {
        assert_eq!(orders.locate(&key).unwrap().shard(), "a");
    }
    // What was written down by the old list is accepted at a new first connection.
    let fresh = Manager::from_config(&config(&fleet, &appended)).unwrap();
    for name in ["a", "b"] {
        assert_eq!(here(&fresh, name), name);
    }
    // Without a written map, appending moves buckets.
    let plain = "algorithm = { kind = \"hash\", buckets = 8 }";
    let shards =
        Manager::from_config(&config(&fleet, &format!("shards = [\"a\"]\n{plain}"))).unwrap();
    let refused = shards.reload(&config(
        &fleet,
        &format!("shards = [\"a\", \"b\"]\n{plain}"),
    ));
    assert!(
        matches!(refused, Err(Error::PlacementChanged { .. })),
        "{refused:?}"
    );
}
