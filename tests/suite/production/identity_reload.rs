//! Identity and reloads: a new place is compared with the configuration that is to come, not with
//! the one that goes.

use diesel_sharded::{Config, Error, Format};

use super::backend::{Fleet, Manager, whoami};

/// `a` and `b` at these shards' databases, and `orders` over them with so many buckets.
fn config(fleet: &Fleet, at: [&str; 2], buckets: Option<u32>, accept: bool) -> Config {
    let accept = if accept {
        "accept_placement = \"orders\"\n"
    } else {
        ""
    };
    let keyspace = buckets.map_or(String::new(), |buckets| {
        format!(
            "[keyspaces.orders]\nshards = [\"a\", \"b\"]\nalgorithm = {{ kind = \"hash\", buckets = {buckets} }}\n"
        )
    });
    let text = format!(
        "{accept}[shards.a]\nurl = {:?}\n[shards.b]\nurl = {:?}\n{keyspace}",
        fleet.url(at[0]),
        fleet.url(at[1])
    );
    Config::from_str(&text, Format::Toml).unwrap()
}

fn here(shards: &Manager, shard: &str) -> Result<String, Error> {
    Ok(whoami(&mut shards.get_on(shard)?)?)
}

#[test]
fn moving_to_databases_that_were_filled_by_the_new_rule_is_accepted_by_name() {
    let fleet = Fleet::new(&["a", "b", "c", "d"]);
    let old = config(&fleet, ["a", "b"], Some(8), false);
    let shards = Manager::from_config(&old).unwrap();
    shards.write_identity().unwrap();
    // The copy: the same two shards, spread anew.
    let copy = Manager::from_config(&config(&fleet, ["c", "d"], Some(64), false)).unwrap();
    copy.write_identity().unwrap();
    drop(copy);
    let unaccepted = shards.reload(&config(&fleet, ["c", "d"], Some(64), false));
    assert!(matches!(unaccepted, Err(Error::PlacementChanged { .. })));
    assert_eq!(here(&shards, "a").unwrap(), "a");
    shards
        .reload(&config(&fleet, ["c", "d"], Some(64), true))
        .unwrap();
    assert_eq!(here(&shards, "a").unwrap(), "c");
    assert_eq!(here(&shards, "b").unwrap(), "d");
    // The word is taken back once it is done.
    shards
        .reload(&config(&fleet, ["c", "d"], Some(64), false))
        .unwrap();
    assert_eq!(here(&shards, "b").unwrap(), "d");
}

#[test]
fn a_new_place_is_compared_by_the_keyspaces_that_come_with_it() {
    let fleet = Fleet::new(&["a", "b", "c"]);
    let copy = Manager::from_config(&config(&fleet, ["a", "c"], Some(8), false)).unwrap();
    copy.write_identity().unwrap();
    drop(copy);
    let shards = Manager::from_config(&config(&fleet, ["a", "b"], None, false)).unwrap();
    assert_eq!(here(&shards, "b").unwrap(), "b");
    // The keyspace is new, its rule another than that by which the rows of `c` lie.
    let changed = shards.reload(&config(&fleet, ["a", "c"], Some(64), false));
    let found = changed.map(drop).and_then(|()| here(&shards, "b"));
    assert!(
        matches!(found, Err(Error::PlacementChanged { .. })),
        "{found:?}"
    );
}
