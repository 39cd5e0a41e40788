//! A reload that changes the tables of a keyspace while routes and connections from before are held.

use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use diesel_sharded::{Error, KeyspaceConfig, RuleSpec, Topology, TopologyBuilder};

use super::world::{PARTS, World, add, key, notes, orders};
use super::{NAME, Sharded};
use crate::support::ours;

/// How many tables there are afterwards.
const MORE: u32 = 8;

/// Makes twice as many tables.
fn create_more(world: &World) {
    for shard in ["a", "b"] {
        let conn = &mut world.fleet.direct(shard);
        for part in PARTS..MORE {
            conn.batch_execute(&format!(
                "CREATE TABLE orders_{part} (id BIGINT PRIMARY KEY, user_id BIGINT NOT NULL, qty INTEGER NOT NULL DEFAULT 0, note VARCHAR(60));
                 CREATE TABLE parcels_{part} (id BIGINT PRIMARY KEY, user_id BIGINT NOT NULL, order_id BIGINT NOT NULL DEFAULT 0)"
            ))
            .unwrap();
        }
    }
}

/// The topology of [`World`] with other counts.
fn topology(world: &World, orders: u32, invoices: u32) -> TopologyBuilder {
    let spread = || KeyspaceConfig::new(RuleSpec::modulo(["a", "b"]));
    let keyspace = spread()
        .table("orders", "user_id", orders)
        .table("parcels", "user_id", orders)
        .table("events", "user_id", 2);
    ["a", "b"]
        .into_iter()
        .fold(Topology::builder(), |topology, shard| {
            topology.shard(shard, world.fleet.url(shard))
        })
        .pool(crate::support::pool(4))
        .keyspace("orders", keyspace)
        .keyspace("billing", spread().table("invoices", "user_id", invoices))
}

/// Goes over to twice as many tables.
fn split_again(world: &World) {
    let next = topology(world, MORE, PARTS);
    let refused = world.shards.reload_with(|_| next.clone());
    assert!(
        matches!(refused, Err(Error::PlacementChanged { .. })),
        "{refused:?}"
    );
    world
        .shards
        .reload_with(|_| next.accept_placement("orders"))
        .unwrap();
}

fn count(conn: &mut Sharded) -> QueryResult<i64> {
    orders::table.count().get_result(conn)
}

#[track_caller]
fn assert_stale<T: std::fmt::Debug>(result: QueryResult<T>, what: &str) {
    let error = result.expect_err(what);
    assert!(
        matches!(ours(&error), Error::StaleRoute { keyspace, shard }
            if keyspace.as_str() == "orders" && shard.as_str() == "a"),
        "{what}: {error:?}"
    );
}

/// Of spread 6: in table 2 of 4, and in table 6 of 8.
fn user() -> i64 {
    key("a", 6)
}

#[test]
fn a_number_from_before_is_not_taken_for_one_of_now() {
    let world = World::new();
    create_more(&world);
    let keyspace = world.shards.keyspace("orders").unwrap();
    let user = user();
    let (by_key, by_number) = (
        keyspace.route(&user).unwrap(),
        keyspace.table_route("b", 1),
    );
    // The tables are split into different counts.
    assert!(by_number.is_err());
    let mut held = keyspace.get(&user).unwrap();
    let mut plain = world.shards.get_on("a").unwrap();
    add(&mut held, 1, user).unwrap();
    split_again(&world);

    // What is held goes on with the tables that it knows: both are from before.
    assert_eq!(count(&mut held), Ok(1));
    by_key
        .run(|| Ok::<_, Error>(assert_eq!(count(&mut plain)?, 1)))
        .unwrap();
    // Where a key belongs now is not where its rows were put then.
    assert_stale(add(&mut held, 2, user), "a key written by the old tables");

    // A route of now on a connection of then, and the other way round.
    let now = keyspace.route(&user).unwrap();
    let (on_held, on_plain) = now
        .run(|| Ok::<_, Error>((count(&mut held), count(&mut plain))))
        .unwrap();
    // It was asked for by the key, so it has numbers of its own time.
    assert_eq!(on_held, Ok(1));
    assert_stale(on_plain, "a route of now on a connection of then");
    by_key
        .run(|| {
            let mut fresh = world.shards.get()?;
            assert_stale(count(&mut fresh), "a route of then on a connection of now");
            assert_stale(add(&mut fresh, 3, user), "a new row");
            assert_stale(
                fresh.batch_execute("DELETE FROM orders"),
                "a statement by hand",
            );
            // What names no sharded table is none of it.
            let none: i64 = notes::table.count().get_result(&mut fresh)?;
            Ok::<_, Error>(assert_eq!(none, 0))
        })
        .unwrap();
    drop((held, plain));

    // Both made anew.
    let mut fresh = keyspace.get(&user).unwrap();
    assert_eq!(add(&mut fresh, 4, user), Ok(1));
    drop(fresh);
    assert_eq!(world.ids("a", "orders_2"), [1]);
    assert_eq!(world.ids("a", "orders_6"), [4], "on {NAME}");
    world.assert_decoys();
}

#[test]
fn a_transaction_that_is_open_ends_where_it_began() {
    let world = World::new();
    create_more(&world);
    let keyspace = world.shards.keyspace("orders").unwrap();
    let user = user();
    keyspace
        .transaction_for(&user, |conn| {
            add(conn, 1, user)?;
            split_again(&world);
            diesel::update(orders::table)
                .set(orders::qty.eq(5))
                .execute(conn)?;
            let found: i32 = orders::table.select(orders::qty).first(conn)?;
            Ok::<_, Error>(assert_eq!(found, 5))
        })
        .unwrap();
    assert_eq!(world.ids("a", "orders_2"), [1]);
    world.assert_decoys();
}

#[test]
fn a_reload_that_leaves_the_keyspace_alone_leaves_its_routes_alone() {
    let world = World::new();
    let keyspace = world.shards.keyspace("orders").unwrap();
    let user = user();
    let route = keyspace.route(&user).unwrap();
    let mut held = keyspace.get(&user).unwrap();
    world
        .shards
        .reload_with(|_| topology(&world, PARTS, 2).accept_placement("billing"))
        .unwrap();
    add(&mut held, 1, user).unwrap();
    drop(held);
    route
        .run(|| add(&mut world.shards.get()?, 2, user).map_err(Error::from))
        .unwrap();
    assert_eq!(world.ids("a", "orders_2"), [1, 2]);
}
