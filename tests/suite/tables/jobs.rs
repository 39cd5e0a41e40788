//! Work on many tables, many rows and tables that belong together.

use diesel::prelude::*;
use diesel_sharded::Error;

use super::world::{World, add, orders, parcels};
use crate::support::ours;

#[test]
fn a_job_visits_every_table_and_says_what_came_of_each() {
    let world = World::new();
    let keyspace = world.shards.keyspace("orders").unwrap();
    for user in 0..16 {
        keyspace
            .transaction_for(&user, |conn| add(conn, user, user))
            .unwrap();
    }
    let results = keyspace
        .for_each_table("orders", |conn, place| {
            if (place.shard.as_str(), place.number) == ("a", 2) {
                return Err(diesel::result::Error::RollbackTransaction);
            }
            diesel::delete(orders::table.filter(orders::id.lt(8))).execute(conn)
        })
        .unwrap();
    let told: Vec<(String, u32, Option<usize>)> = results
        .iter()
        .map(|one| {
            (
                one.place.shard.to_string(),
                one.place.number,
                one.result.as_ref().ok().copied(),
            )
        })
        .collect();
    let mut expected = Vec::new();
    for shard in ["a", "b"] {
        for number in 0..4 {
            let rows = ((shard, number) != ("a", 2)).then_some(1);
            expected.push((shard.to_owned(), number, rows));
        }
    }
    assert_eq!(told, expected);
    assert_eq!(world.ids("a", "orders_2"), [4, 12]);
    assert_eq!(world.ids("a", "orders_1"), [10]);
    assert!(matches!(
        keyspace.for_each_table("none", |_, _| Ok::<_, Error>(())),
        Err(Error::UnknownTable { .. })
    ));
    world.assert_decoys();
}

#[test]
fn rows_are_grouped_by_table_for_one_batch_each() {
    let world = World::new();
    let keyspace = world.shards.keyspace("orders").unwrap();
    let grouped = keyspace
        .group_by_placement((1..=9).rev(), |id: &i64| (*id != 4).then_some(*id))
        .unwrap();
    assert_eq!(grouped.refused.len(), 1);
    assert_eq!((grouped.refused[0].index, grouped.refused[0].item), (5, 4));
    let mut seen = 0;
    for (route, ids) in grouped.by_placement {
        seen += ids.len();
        let rows: Vec<_> = ids
            .iter()
            .map(|id| {
                (
                    orders::id.eq(*id),
                    orders::user_id.eq(*id),
                    orders::qty.eq(1),
                )
            })
            .collect();
        let written = route
            .run(|| {
                diesel::insert_into(orders::table)
                    .values(rows)
                    .execute(&mut world.shards.get()?)
            })
            .unwrap();
        assert_eq!(written, ids.len());
    }
    assert_eq!(seen, 8);
    assert_eq!(world.ids("a", "orders_1"), [2]);
    assert_eq!(world.ids("b", "orders_0"), [1, 9]);
    assert_eq!(world.ids("b", "orders_1"), [3]);
    world.assert_decoys();
}

#[test]
fn a_batch_of_mixed_keys_is_refused_as_a_whole() {
    let world = World::new();
    let keyspace = world.shards.keyspace("orders").unwrap();
    let rows: Vec<_> = (1..=9)
        .map(|id: i64| (orders::id.eq(id), orders::user_id.eq(id), orders::qty.eq(1)))
        .collect();
    let error = keyspace
        .transaction_for(&1, |conn| {
            diesel::insert_into(orders::table)
                .values(&rows)
                .execute(conn)
        })
        .unwrap_err();
    assert!(
        matches!(ours(&error), Error::WrongTable { table, .. } if table == "orders"),
        "{error:?}"
    );
    for shard in ["a", "b"] {
        for part in 0..4 {
            assert_eq!(world.ids(shard, &format!("orders_{part}")), [0; 0]);
        }
    }
    world.assert_decoys();
}

#[test]
fn bound_tables_move_together() {
    let world = World::new();
    let keyspace = world.shards.keyspace("orders").unwrap();
    for user in [0, 2] {
        keyspace
            .transaction_for(&user, |conn| {
                add(conn, user, user)?;
                diesel::insert_into(parcels::table)
                    .values((
                        parcels::id.eq(user),
                        parcels::user_id.eq(user),
                        parcels::order_id.eq(user),
                    ))
                    .execute(conn)
            })
            .unwrap();
        let joined: Vec<(i64, i64)> = keyspace
            .on(&user, || {
                orders::table
                    .inner_join(parcels::table.on(parcels::order_id.eq(orders::id)))
                    .select((orders::id, parcels::id))
                    .load(&mut world.shards.get()?)
            })
            .unwrap();
        assert_eq!(joined, [(user, user)]);
    }
    let unbound = |text: &str| {
        keyspace
            .on(&0, || {
                diesel::sql_query(text).execute(&mut world.shards.get()?)
            })
            .unwrap_err()
    };
    for text in [
        "SELECT 1 FROM orders JOIN events ON events.id = orders.id",
        "SELECT 1 FROM orders, invoices",
        "DELETE FROM orders WHERE id IN (SELECT id FROM invoices)",
    ] {
        let error = unbound(text);
        assert!(
            matches!(ours(&error), Error::UnboundTables { .. }),
            "{text}: {error:?}"
        );
    }
    // An unsharded table may be joined.
    let joined: i64 = keyspace
        .on(&0, || {
            use super::world::notes;
            orders::table
                .left_join(notes::table.on(notes::orders.eq(orders::id)))
                .count()
                .get_result(&mut world.shards.get()?)
        })
        .unwrap();
    assert_eq!(joined, 1);
    world.assert_decoys();
}

#[test]
fn ids_whose_low_bits_are_zero_reach_every_table() {
    use diesel_sharded::{KeyspaceConfig, RuleSpec, Topology};
    let topology = Topology::builder()
        .shard("a", "a.sqlite")
        .keyspace(
            "k",
            KeyspaceConfig::new(RuleSpec::hash(["a"], 4096)).table("t", "id", 32),
        )
        .build()
        .unwrap();
    // A snowflake generator at a low rate: 42 bits of time, 10 of the worker, 12 that stay zero.
    let mut used = [0; 32];
    for millisecond in 0..3_200_i64 {
        let id = ((1_700_000_000_000 + millisecond * 2) << 22) | (7 << 12);
        let placement = topology.locate("k", &id).unwrap();
        used[placement.table_number(32) as usize] += 1;
    }
    assert!(
        used.iter().all(|rows| (50..=150).contains(rows)),
        "{used:?}"
    );
}
