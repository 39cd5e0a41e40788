//! Everybody who holds on to a topology follows its changes: routes, keyspaces, other managers,
//! handles of outer pools.

use std::time::Duration;

use diesel_sharded::{Config, Error, Format, Route};

use super::super::production_open::open;
use super::backend::{Fleet, Manager, Reloaded, insert, whoami};
use crate::support::eventually;

fn move_b(shards: &Manager, fleet: &Fleet) -> Reloaded {
    shards
        .reload_with(|topology| topology.replace_shard("b", fleet.url("c")))
        .unwrap()
}

/// A manager of `a` and `b` of the fleet.
fn of_two(fleet: &Fleet) -> Manager {
    fleet
        .connecting(Manager::builder())
        .pool(crate::support::pool(2))
        .shard("a", fleet.url("a"))
        .shard("b", fleet.url("b"))
        .build()
        .unwrap()
}

fn routed(shards: &Manager, route: &Route) -> Result<String, Error> {
    route.run(|| Ok(whoami(&mut shards.get()?)?))
}

#[test]
fn routes_made_before_go_by_name_and_not_by_position() {
    let fleet = Fleet::new(&["a", "b", "c", "d"]);
    let shards = fleet.manager();
    let routes: Vec<Route> = ["a", "b", "c", "d"]
        .iter()
        .map(|name| shards.route(name).unwrap())
        .collect();
    let captured = shards.on("c", || Ok::<_, Error>(Route::capture())).unwrap();
    // Everything behind `a` moves up by one, and `aa` moves it back.
    shards
        .reload_with(|topology| topology.remove_shard("a"))
        .unwrap();
    let check = |gone: bool| {
        for (route, name) in routes.iter().zip(["a", "b", "c", "d"]) {
            match routed(&shards, route) {
                Ok(found) => assert_eq!(found, name),
                Err(error) => {
                    assert!(gone && name == "a", "{name}: {error:?}");
                    assert!(matches!(error, Error::UnknownShard { .. }));
                }
            }
        }
        let found = captured.run(|| Ok::<_, Error>(whoami(&mut shards.get()?)?));
        assert_eq!(found.unwrap(), "c");
    };
    check(true);
    shards
        .reload_with(|topology| topology.shard("A-first", fleet.url("a")))
        .unwrap();
    check(true);
    shards
        .reload_with(|topology| topology.remove_shard("A-first").shard("a", fleet.url("a")))
        .unwrap();
    check(false);
}

#[test]
fn a_route_that_is_in_force_while_the_topology_changes_keeps_its_name() {
    let fleet = Fleet::new(&["a", "b", "c"]);
    let shards = fleet.manager();
    shards
        .on("c", || {
            shards.reload_with(|topology| topology.remove_shard("a"))?;
            assert_eq!(whoami(&mut shards.get()?)?, "c");
            shards.on("b", || {
                shards.reload_with(|topology| topology.shard("a", fleet.url("a")))?;
                assert_eq!(whoami(&mut shards.get()?)?, "b");
                Ok::<_, Error>(())
            })?;
            assert_eq!(whoami(&mut shards.get()?)?, "c");
            shards.reload_with(|topology| topology.remove_shard("c"))?;
            assert!(matches!(shards.get(), Err(Error::UnknownShard { .. })));
            Ok::<_, Error>(())
        })
        .unwrap();
    assert_eq!(Route::stack_depth(), 0);
}

#[test]
fn a_second_manager_of_the_topology_follows() {
    let fleet = Fleet::new(&["a", "b", "c"]);
    let shards = of_two(&fleet);
    let other = Manager::from_topology(shards.topology()).unwrap();
    let route = shards.route("b").unwrap();
    for manager in [&shards, &other] {
        assert_eq!(routed(manager, &route).unwrap(), "b");
    }
    let mut out = other.get_on("b").unwrap();
    let change = move_b(&shards, &fleet);
    for manager in [&other, &shards] {
        assert_eq!(routed(manager, &route).unwrap(), "c");
    }
    assert!(change.drain(Duration::from_secs(5)).is_empty());
    assert_eq!(whoami(&mut out).unwrap(), "b", "it is out, and stays");
    drop(out);
    eventually("both have left the old place", || open(&fleet, "b") == 0);
    // The other may be the one that changes.
    other
        .reload_with(|topology| topology.remove_shard("b"))
        .unwrap();
    assert!(matches!(
        shards.get_on("b"),
        Err(Error::UnknownShard { .. })
    ));
    // Who is used, follows.
    for manager in [&shards, &other] {
        assert_eq!(whoami(&mut manager.get_on("a").unwrap()).unwrap(), "a");
    }
    assert_eq!(shards.status().epoch, other.status().epoch);
    eventually("both have left the new place", || open(&fleet, "c") == 0);
}

#[test]
fn handles_of_an_outer_pool_follow() {
    let fleet = Fleet::new(&["a", "b", "c"]);
    let shards = of_two(&fleet);
    let pool = shards.clone().into_pool();
    let on_b = |shards: &Manager| {
        shards.on("b", || {
            let mut conn = pool.get().unwrap();
            Ok::<_, Error>(whoami(&mut conn)?)
        })
    };
    assert_eq!(on_b(&shards).unwrap(), "b");
    shards
        .on("b", || {
            let mut out = pool.get().unwrap();
            assert_eq!(whoami(&mut out)?, "b");
            move_b(&shards, &fleet);
            assert_eq!(whoami(&mut out)?, "b", "bound until it is returned");
            drop(out);
            Ok::<_, Error>(())
        })
        .unwrap();
    for _ in 0..3 {
        assert_eq!(on_b(&shards).unwrap(), "c");
    }
    eventually("the old place is left", || open(&fleet, "b") == 0);
    shards
        .reload_with(|topology| topology.remove_shard("b").shard("d", fleet.url("c")))
        .unwrap();
    let on_d = shards.on("d", || Ok::<_, Error>(whoami(&mut pool.get().unwrap())?));
    assert_eq!(on_d.unwrap(), "c");
    assert!(matches!(on_b(&shards), Err(Error::UnknownShard { .. })));
}

#[test]
fn a_keyspace_looked_up_before_follows() {
    let fleet = Fleet::new(&["a", "b", "c"]);
    let config = |more: &str| {
        let shard = |name: &str| format!("[shards.{name}]\nurl = {:?}\n", fleet.url(name));
        let text = format!(
            "{}{}{}[keyspaces.orders]\nshards = [\"b\", \"c\"]\nalgorithm = {{ kind = \"modulo\", count = 2 }}\n{more}",
            shard("a"),
            shard("b"),
            shard("c"),
        );
        Config::from_str(&text, Format::Toml).unwrap()
    };
    let shards = Manager::from_config(&config("")).unwrap();
    let orders = shards.keyspace("orders").unwrap();
    let place = |key: i64| -> Result<String, Error> { Ok(whoami(&mut orders.get(&key)?)?) };
    assert_eq!(
        (place(0).unwrap(), place(1).unwrap()),
        ("b".into(), "c".into())
    );
    // Another keyspace that sorts before it, one shard less before its own.
    let first = "[keyspaces.first]\nshards = [\"c\"]\n";
    shards.reload(&config(first)).unwrap();
    shards
        .reload_with(|topology| topology.remove_shard("a"))
        .unwrap();
    assert_eq!(
        (place(0).unwrap(), place(1).unwrap()),
        ("b".into(), "c".into())
    );
    assert_eq!(orders.shards().unwrap(), ["b", "c"]);
    // The keyspace itself may go: that is an error at its next use, and no panic.
    let without = {
        let text = format!("[shards.b]\nurl = {:?}\n", fleet.url("b"));
        Config::from_str(&text, Format::Toml).unwrap()
    };
    shards.reload(&without).unwrap();
    assert!(matches!(place(0), Err(Error::UnknownKeyspace { .. })));
    assert!(matches!(
        orders.transaction_for(&0_i64, |_| Ok::<(), Error>(())),
        Err(Error::UnknownKeyspace { .. })
    ));
}

#[test]
fn the_default_shard_follows_the_configuration() {
    let fleet = Fleet::new(&["a", "b"]);
    let shards = of_two(&fleet);
    assert!(matches!(shards.get(), Err(Error::NoRoute { .. })));
    shards
        .reload_with(|topology| topology.default_shard("b"))
        .unwrap();
    assert_eq!(whoami(&mut shards.get().unwrap()).unwrap(), "b");
    shards
        .transaction_on("a", |conn| Ok::<_, Error>(insert(conn, 1)?))
        .unwrap();
    shards
        .reload_with(|topology| topology.default_shard("a"))
        .unwrap();
    assert_eq!(whoami(&mut shards.get().unwrap()).unwrap(), "a");
}
