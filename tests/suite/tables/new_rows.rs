//! A new row under a route by key shows its key, or takes over that of a row that is where it goes.

use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use diesel_sharded::Error;

use super::world::{World, key, notes, orders, parcels};
use super::{NAME, Sharded};
use crate::support::ours;

/// The key whose tables are number 3 of shard `b`.
fn user() -> i64 {
    key("b", 3)
}

fn routed<T>(world: &World, f: impl FnOnce(&mut Sharded) -> QueryResult<T>) -> QueryResult<T> {
    let keyspace = world.shards.keyspace("orders").unwrap();
    keyspace.transaction_for(&user(), f)
}

/// A world with two parcels in the tables of the key, and notes.
fn world() -> World {
    let world = World::new();
    routed(&world, |conn| {
        for id in [1, 2] {
            diesel::insert_into(parcels::table)
                .values((
                    parcels::id.eq(id),
                    parcels::user_id.eq(user()),
                    parcels::order_id.eq(id),
                ))
                .execute(conn)?;
            diesel::insert_into(notes::table)
                .values((notes::id.eq(id), notes::orders.eq(user())))
                .execute(conn)?;
        }
        Ok(())
    })
    .unwrap();
    world
}

#[track_caller]
fn assert_unreadable<T: std::fmt::Debug>(result: QueryResult<T>, what: &str) {
    let error = result.expect_err(what);
    assert!(
        matches!(ours(&error), Error::UnreadableShardKey { table, column, shard }
            if table == "orders" && column == "user_id" && shard.as_str() == "b"),
        "{what}: {error:?}"
    );
}

#[test]
fn a_key_that_the_statement_does_not_show_is_refused_and_nothing_is_written() {
    let world = world();
    for text in [
        // Which column is at which place?
        "INSERT INTO orders VALUES (1, 7, 5, NULL)",
        "INSERT INTO orders SELECT id, user_id, 5, NULL FROM parcels",
        // No key.
        "INSERT INTO orders (id, qty) VALUES (1, 5)",
        "INSERT INTO orders (id, qty) SELECT id, 1 FROM parcels",
        // What the server works out, in one row of several too.
        "INSERT INTO orders (id, user_id, qty) VALUES (1, 3 + 4, 5)",
        "INSERT INTO orders (id, user_id, qty) VALUES (1, 7, 5), (2, abs(-7), 5)",
        "INSERT INTO orders (id, user_id) SELECT id, user_id + 8 FROM parcels",
        // A column that is no shard key, be it of a plain table or of one that is split alike.
        "INSERT INTO orders (id, user_id) SELECT id, orders FROM notes",
        "INSERT INTO orders (id, user_id) SELECT id, order_id FROM parcels",
        "INSERT INTO orders (id, user_id) SELECT notes.id, parcels.user_id FROM notes LEFT JOIN parcels ON parcels.id = notes.id + 7",
        "INSERT INTO orders (id, user_id) SELECT o.id, o.user_id FROM (SELECT id, 9 AS user_id FROM parcels) o",
    ] {
        assert_unreadable(
            routed(&world, |conn| diesel::sql_query(text).execute(conn)),
            text,
        );
    }
    assert_unreadable(
        routed(&world, |conn| {
            conn.batch_execute("DELETE FROM parcels; INSERT INTO orders (id, user_id) VALUES (1, 3 + 4)")
        }),
        "a batch",
    );
    let moved = routed(&world, |conn| {
        conn.batch_execute("UPDATE parcels SET order_id = 9; UPDATE parcels SET user_id = 8")
    });
    let moved = moved.unwrap_err();
    assert!(
        matches!(ours(&moved), Error::ShardKeyUpdate { table, .. } if table == "parcels"),
        "{moved:?}"
    );
    assert_eq!(world.ids("b", "parcels_3"), [1, 2]);
    if NAME != "sqlite" {
        for text in [
            "INSERT INTO orders (id, user_id) VALUES (1, DEFAULT)",
            "INSERT INTO orders (id, user_id) VALUES (1, 7), (2, DEFAULT)",
        ] {
            assert_unreadable(
                routed(&world, |conn| diesel::sql_query(text).execute(conn)),
                text,
            );
        }
    }
    let null = routed(&world, |conn| {
        diesel::sql_query("INSERT INTO orders (id, user_id) VALUES (1, NULL)").execute(conn)
    });
    let null = null.unwrap_err();
    assert!(
        matches!(ours(&null), Error::NullShardKey { .. }),
        "{null:?}"
    );
    assert_eq!(world.ids("b", "orders_3"), [0; 0]);
    world.assert_decoys();
}

#[test]
fn typed_inserts_are_asked_the_same() {
    let world = world();
    assert_unreadable(
        routed(&world, |conn| {
            diesel::insert_into(orders::table)
                .values((orders::id.eq(1), orders::qty.eq(5)))
                .execute(conn)
        }),
        "a missing column",
    );
    assert_unreadable(
        routed(&world, |conn| {
            notes::table
                .select((notes::id, notes::orders))
                .insert_into(orders::table)
                .into_columns((orders::id, orders::user_id))
                .execute(conn)
        }),
        "a column of another table",
    );
    assert_unreadable(
        routed(&world, |conn| {
            parcels::table
                .select((parcels::id, parcels::user_id + 8))
                .insert_into(orders::table)
                .into_columns((orders::id, orders::user_id))
                .execute(conn)
        }),
        "an expression",
    );
    assert_eq!(world.ids("b", "orders_3"), [0; 0]);
    // From a table that is split alike, and with a bind in the place of the key.
    routed(&world, |conn| {
        let taken = parcels::table
            .select((parcels::id, parcels::user_id))
            .insert_into(orders::table)
            .into_columns((orders::id, orders::user_id))
            .execute(conn)?;
        assert_eq!(taken, 2);
        let bound = notes::table
            .select((
                notes::id + 10,
                user().into_sql::<diesel::sql_types::BigInt>(),
            ))
            .insert_into(orders::table)
            .into_columns((orders::id, orders::user_id))
            .execute(conn)?;
        Ok(assert_eq!(bound, 2))
    })
    .unwrap();
    assert_eq!(world.ids("b", "orders_3"), [1, 2, 11, 12]);
    let elsewhere = routed(&world, |conn| {
        notes::table
            .select((
                notes::id + 20,
                key("a", 1).into_sql::<diesel::sql_types::BigInt>(),
            ))
            .insert_into(orders::table)
            .into_columns((orders::id, orders::user_id))
            .execute(conn)
    });
    assert!(matches!(
        ours(&elsewhere.unwrap_err()),
        Error::WrongTable { owner, .. } if owner.as_str() == "a"
    ));
    world.assert_decoys();
}

#[test]
fn keys_are_taken_over_from_tables_that_are_split_alike() {
    let world = world();
    routed(&world, |conn| {
        for text in [
            "INSERT INTO orders (id, user_id) SELECT id, user_id FROM parcels",
            "INSERT INTO orders (user_id, id) SELECT p.user_id, p.id + 10 FROM notes JOIN parcels AS p ON p.id = notes.id",
            "INSERT INTO orders (id, user_id) SELECT orders.id + 100, orders.user_id FROM orders WHERE orders.id = 11",
            "INSERT INTO orders (id, user_id) SELECT 200, 7 UNION ALL SELECT id + 300, user_id FROM parcels",
        ] {
            diesel::sql_query(text).execute(conn)?;
        }
        Ok(())
    })
    .unwrap();
    let ids = world.ids("b", "orders_3");
    assert_eq!(ids, [1, 2, 11, 12, 111, 200, 301, 302]);
    world.assert_decoys();
}

#[test]
fn a_route_by_number_leaves_it_to_the_application() {
    let world = world();
    let keyspace = world.shards.keyspace("orders").unwrap();
    keyspace
        .on_table_of("orders", "b", 3, || {
            let mut conn = world.shards.get()?;
            for text in [
                "INSERT INTO orders VALUES (1, 7, 5, NULL)",
                "INSERT INTO orders (id, user_id) SELECT id + 10, orders FROM notes",
                "INSERT INTO orders (id, user_id, qty) VALUES (2, 3 + 4, 5)",
            ] {
                diesel::sql_query(text).execute(&mut conn)?;
            }
            Ok::<_, Error>(())
        })
        .unwrap();
    assert_eq!(world.ids("b", "orders_3"), [1, 2, 11, 12]);
    world.assert_decoys();
}

#[test]
fn names_of_indexes_in_hints_are_those_of_the_table() {
    let world = world();
    let keyspace = world.shards.keyspace("orders").unwrap();
    keyspace
        .for_each_table("orders", |conn, _| {
            conn.batch_execute("CREATE INDEX ix_user ON orders (user_id)")
        })
        .unwrap()
        .into_iter()
        .for_each(|each| each.result.unwrap());
    let text = match NAME {
        "sqlite" => "UPDATE orders INDEXED BY ix_user SET qty = 9 WHERE user_id = 7",
        "mysql" => "UPDATE orders USE INDEX (ix_user) SET qty = 9 WHERE user_id = 7",
        // There are no hints.
        _ => "UPDATE orders SET qty = 9 WHERE user_id = 7",
    };
    let changed = routed(&world, |conn| {
        diesel::insert_into(orders::table)
            .values((
                orders::id.eq(1),
                orders::user_id.eq(user()),
                orders::qty.eq(1),
            ))
            .execute(conn)?;
        diesel::sql_query(text).execute(conn)
    });
    assert_eq!(changed, Ok(1));
    world.assert_decoys();
}
