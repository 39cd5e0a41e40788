//! Which tables a route means, and what happens where none does.

use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use diesel_sharded::{Error, Route, TableMismatchCause};

use super::super::backend::RAW_WAYS;
use super::world::{World, add, invoices, key, orders};
use super::{Pool, Pooled, Sharded, Visit};
use crate::support::ours;

fn all(conn: &mut Sharded) -> QueryResult<Vec<i64>> {
    orders::table
        .select(orders::id)
        .order(orders::id)
        .load(conn)
}

#[test]
fn each_key_has_its_own_table() {
    let world = World::new();
    let keyspace = world.shards.keyspace("orders").unwrap();
    for user in 0..16 {
        keyspace
            .transaction_for(&user, |conn| {
                add(conn, user, user)?;
                let found: Vec<i64> = orders::table
                    .filter(orders::user_id.eq(user))
                    .select(orders::id)
                    .load(conn)?;
                assert_eq!(found, [user]);
                Ok::<_, Error>(())
            })
            .unwrap();
        // The closure form, and a connection of its own.
        keyspace
            .on(&user, || {
                let mut conn = world.shards.get()?;
                let rows: i64 = orders::table
                    .filter(orders::user_id.eq(user))
                    .count()
                    .get_result(&mut conn)?;
                Ok::<_, Error>(assert_eq!(rows, 1))
            })
            .unwrap();
        let own = &mut keyspace.get(&user).unwrap();
        assert!(all(own).unwrap().contains(&user));
    }
    for (shard, first) in [("a", 0), ("b", 1)] {
        for part in 0..4 {
            let table = format!("orders_{part}");
            let expected = [first + 2 * part, first + 2 * part + 8];
            assert_eq!(world.ids(shard, &table), expected, "{table} of {shard}");
        }
    }
    world.assert_decoys();
}

#[test]
fn one_connection_answers_for_each_table_in_turn() {
    let world = World::new();
    let keyspace = world.shards.keyspace("orders").unwrap();
    for part in [0, 1] {
        keyspace
            .on_table_of("orders", "a", part, || {
                add(&mut world.shards.get()?, part.into(), key("a", part.into()))
            })
            .unwrap();
    }
    let conn = &mut keyspace
        .on_table_of("orders", "a", 0, || {
            world.shards.get().map_err(diesel::result::Error::from)
        })
        .unwrap();
    for _ in 0..2 {
        for part in [0, 1, 0] {
            let found = keyspace
                .on_table_of("orders", "a", part, || {
                    // A static query, a boxed one, text written by hand.
                    let typed = all(conn)?;
                    let boxed = orders::table
                        .select(orders::id)
                        .into_boxed()
                        .load::<i64>(conn)?;
                    assert_eq!(typed, boxed);
                    let by_hand: i64 = diesel::dsl::sql::<diesel::sql_types::BigInt>(
                        "SELECT max(orders.id) FROM orders",
                    )
                    .get_result(conn)?;
                    assert_eq!(typed, [by_hand]);
                    Ok::<_, diesel::result::Error>(typed)
                })
                .unwrap();
            assert_eq!(found, [i64::from(part)]);
        }
    }
    world.assert_decoys();
}

#[test]
fn without_a_table_route_nothing_is_sent() {
    let world = World::new();
    let refused = |result: QueryResult<usize>, how: &str| {
        let error = result.expect_err(how);
        assert!(
            matches!(ours(&error), Error::NoTableRoute { table, .. } if table == "orders"),
            "{how}: {error:?}"
        );
    };
    let attempts = |conn: &mut Sharded, how: &str| {
        refused(all(conn).map(|rows| rows.len()), how);
        refused(diesel::delete(orders::table).execute(conn), how);
        refused(
            diesel::update(orders::table)
                .set(orders::qty.eq(9))
                .execute(conn),
            how,
        );
        refused(add(conn, 1, 1), how);
        refused(diesel::sql_query("DELETE FROM orders").execute(conn), how);
        refused(conn.batch_execute("DELETE FROM orders").map(|()| 0), how);
        refused(
            conn.batch_execute("DELETE FROM notes; DELETE FROM orders")
                .map(|()| 0),
            how,
        );
    };
    attempts(&mut world.shards.get_on("a").unwrap(), "no route at all");
    world
        .shards
        .on("a", || {
            attempts(&mut world.shards.get()?, "a route by name");
            Ok::<_, Error>(())
        })
        .unwrap();
    world
        .shards
        .transaction_on("a", |conn| {
            attempts(conn, "transaction_on");
            Ok::<_, Error>(())
        })
        .unwrap();
    let keyspace = world.shards.keyspace("orders").unwrap();
    // A new entry of the stack takes no tables from the one beneath.
    keyspace
        .transaction_for(&0, |conn| {
            world.shards.on("a", || {
                attempts(conn, "a route by name inside transaction_for");
                Ok::<_, Error>(())
            })?;
            assert_eq!(all(conn)?, [0; 0]);
            Ok::<_, Error>(())
        })
        .unwrap();
    keyspace
        .on(&0, || {
            world.shards.independent(|| {
                attempts(&mut world.shards.get_on("a")?, "independent");
                Ok::<_, Error>(())
            })?;
            // The route is one to `a`; what `b` has is not its business.
            attempts(&mut world.shards.get_on("b")?, "another shard by name");
            Ok::<_, Error>(())
        })
        .unwrap();
    // Another keyspace has other numbers.
    world
        .shards
        .keyspace("billing")
        .unwrap()
        .on(&0, || {
            attempts(&mut world.shards.get()?, "a key of another keyspace");
            let rows: i64 = invoices::table
                .count()
                .get_result(&mut world.shards.get()?)?;
            Ok::<_, Error>(assert_eq!(rows, 0))
        })
        .unwrap();
    world.assert_decoys();
    assert_eq!(world.ids("a", "orders_0"), [0; 0]);
}

#[test]
fn unsharded_tables_need_no_table_route() {
    use super::world::notes;
    let world = World::new();
    let conn = &mut world.shards.get_on("a").unwrap();
    diesel::insert_into(notes::table)
        .values((notes::id.eq(1), notes::orders.eq(7)))
        .execute(conn)
        .unwrap();
    let column: Vec<i64> = notes::table.select(notes::orders).load(conn).unwrap();
    assert_eq!(column, [7]);
    conn.batch_execute("UPDATE notes SET orders = 8 /* orders */; SELECT 'orders'")
        .unwrap();
    let physical: i64 =
        diesel::dsl::sql::<diesel::sql_types::BigInt>("SELECT count(*) FROM orders_1")
            .get_result(conn)
            .unwrap();
    assert_eq!(physical, 0);
}

#[test]
fn the_raw_connection_is_out_of_reach_under_a_table_route() {
    let world = World::new();
    let keyspace = world.shards.keyspace("orders").unwrap();
    for (name, way) in RAW_WAYS {
        keyspace
            .transaction_for(&0, |conn| {
                let mut visited = false;
                let mut visit = |_: &mut super::super::backend::Raw<'_>| {
                    visited = true;
                    Ok(())
                };
                let visit: &mut Visit<'_> = &mut visit;
                let outcome =
                    std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| way(conn, visit)));
                match outcome {
                    Ok(answer) => {
                        let error = answer.expect_err(name);
                        assert!(matches!(ours(&error), Error::Unrewritable { .. }), "{name}");
                    }
                    Err(panic) => {
                        let said = panic.downcast_ref::<String>().expect("a text");
                        assert!(said.contains("raw connection"), "{name}: {said}");
                        assert!(!said.contains("split the statement"), "{name}: {said}");
                    }
                }
                assert!(!visited, "{name}");
                // A route without tables opens the way.
                world
                    .shards
                    .on("a", || way(conn, &mut |raw| raw.batch_execute("SELECT 1")))?;
                all(conn)?;
                Ok::<_, Error>(())
            })
            .unwrap();
    }
    // Where no keyspace of the shard is split, there is nothing to guard.
    let conn = &mut world.shards.get_on("a").unwrap();
    conn.inner().unwrap().batch_execute("SELECT 1").unwrap();
}

#[test]
fn a_connection_of_a_key_does_not_pass_over_a_route_entered_since() {
    let world = World::new();
    let keyspace = world.shards.keyspace("orders").unwrap();
    let (mine, other) = (key("a", 1), key("a", 2));
    for user in [mine, other] {
        keyspace
            .transaction_for(&user, |conn| add(conn, user, user))
            .unwrap();
    }
    let own = &mut keyspace.get(&mine).unwrap();
    keyspace
        .on(&other, || Ok::<_, Error>(assert_denied(own, "another key")))
        .unwrap();
    for (table, part) in [("orders", 2), ("events", 1)] {
        keyspace
            .on_table_of(table, "a", part, || {
                Ok::<_, Error>(assert_denied(own, "a table by number"))
            })
            .unwrap();
    }
    keyspace
        .on(&key("b", 1), || {
            Ok::<_, Error>(assert_denied(own, "the number of its tables on another shard"))
        })
        .unwrap();
    keyspace
        .transaction_for(&other, |conn| {
            assert_denied(own, "a transaction for another key");
            Ok::<_, Error>(assert_eq!(all(conn)?, [other]))
        })
        .unwrap();

    // Its own key, however often, and what says nothing of its keyspace on its shard.
    let is_own = |own: &mut Sharded| {
        assert_eq!(all(own)?, [mine]);
        let Err(raw) = own.inner() else {
            panic!("the raw connection under tables");
        };
        assert!(matches!(ours(&raw), Error::Unrewritable { .. }), "{raw:?}");
        Ok::<_, Error>(())
    };
    is_own(own).unwrap();
    keyspace.on(&mine, || is_own(own)).unwrap();
    world.shards.on("b", || is_own(own)).unwrap();
    let billing = world.shards.keyspace("billing").unwrap();
    billing.on(&other, || is_own(own)).unwrap();
    keyspace
        .on(&other, || world.shards.independent(|| is_own(own)))
        .unwrap();

    // A route without tables to its shard: there are none.
    world
        .shards
        .on("a", || {
            let error = all(own).unwrap_err();
            assert!(matches!(ours(&error), Error::NoTableRoute { .. }), "{error:?}");
            own.inner()?.batch_execute("SELECT 1")?;
            Ok::<_, Error>(())
        })
        .unwrap();
    is_own(own).unwrap();
    assert_eq!(world.ids("a", "orders_1"), [mine]);
    assert_eq!(world.ids("a", "orders_2"), [other]);
    world.assert_decoys();
}

#[test]
fn a_route_that_was_in_force_at_the_checkout_of_a_key_changes_nothing() {
    let world = World::new();
    let keyspace = world.shards.keyspace("orders").unwrap();
    let (mine, other) = (key("a", 1), key("a", 2));
    keyspace
        .transaction_for(&mine, |conn| add(conn, mine, mine))
        .unwrap();
    keyspace
        .on(&other, || {
            let inside = &mut keyspace.get(&mine)?;
            assert_eq!(all(inside)?, [mine]);
            keyspace.on(&other, || Ok::<_, Error>(assert_eq!(all(inside)?, [mine])))?;
            keyspace.on(&key("a", 3), || {
                Ok::<_, Error>(assert_denied(inside, "a third key"))
            })?;
            world.shards.on("a", || {
                let error = all(inside).unwrap_err();
                Ok::<_, Error>(assert!(matches!(ours(&error), Error::NoTableRoute { .. })))
            })
        })
        .unwrap();
    world
        .shards
        .on("a", || {
            let inside = &mut keyspace.get(&mine)?;
            assert_eq!(all(inside)?, [mine]);
            keyspace.on(&other, || {
                Ok::<_, Error>(assert_denied(inside, "entered since"))
            })
        })
        .unwrap();
    // In a transaction a route to another shard stands against every statement.
    let own = &mut keyspace.get(&mine).unwrap();
    own.transaction(|conn| {
        keyspace.on(&other, || {
            Ok::<_, Error>(assert_denied(conn, "in a transaction"))
        })?;
        for route in [
            keyspace.route(&key("b", 1))?,
            world.shards.route("b")?,
        ] {
            let error = route
                .run(|| all(conn))
                .expect_err("the route is one to another shard");
            assert!(matches!(ours(&error), Error::RouteMismatch { .. }), "{error:?}");
        }
        Ok::<_, Error>(assert_eq!(all(conn)?, [mine]))
    })
    .unwrap();
    assert_eq!(world.ids("a", "orders_1"), [mine]);
    assert_eq!(world.ids("a", "orders_2"), [0; 0]);
    world.assert_decoys();
}

/// What means tables of the keyspace is refused, in every way; a table that is not split is not its
/// business.
#[track_caller]
fn assert_denied(conn: &mut Sharded, how: &str) {
    use super::world::notes;
    let refused = |result: QueryResult<usize>, what: &str| {
        let error = result.expect_err(what);
        assert!(
            matches!(ours(&error), Error::TableMismatch { shard, keyspace, cause: TableMismatchCause::Connection, .. }
                if shard.as_str() == "a" && keyspace.as_str() == "orders"),
            "{how}, {what}: {error:?}"
        );
    };
    refused(all(conn).map(|rows| rows.len()), "load");
    refused(diesel::delete(orders::table).execute(conn), "delete");
    let boxed = orders::table.select(orders::id).into_boxed();
    refused(boxed.load::<i64>(conn).map(|rows| rows.len()), "boxed");
    refused(diesel::sql_query("DELETE FROM orders").execute(conn), "text");
    refused(conn.batch_execute("DELETE FROM orders").map(|()| 0), "batch");
    let billing = invoices::table.count().get_result::<i64>(conn).unwrap_err();
    assert!(matches!(ours(&billing), Error::NoTableRoute { .. }), "{how}: {billing:?}");
    assert_eq!(notes::table.count().get_result(conn), Ok(0_i64), "{how}");
    for (name, way) in RAW_WAYS {
        let mut visited = false;
        let visit: &mut Visit<'_> = &mut |_| {
            visited = true;
            Ok(())
        };
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| way(conn, visit)));
        match outcome {
            Ok(answer) => refused(answer.map(|()| 0), name),
            Err(panic) => {
                let said = panic.downcast_ref::<String>().expect("a text");
                assert!(said.contains("checked out for another key"), "{name}: {said}");
            }
        }
        assert!(!visited, "{how}, {name}");
    }
}

#[test]
fn handles_of_an_outer_pool_follow_the_route() {
    let world = World::new();
    let keyspace = world.shards.keyspace("orders").unwrap();
    let pool: Pool = world.shards.clone().into_pool();
    for part in [2, 3, 2] {
        keyspace
            .on_table_of("orders", "b", part, || {
                let conn: &mut Pooled = &mut pool.get().unwrap();
                diesel::insert_into(orders::table)
                    .values((
                        orders::id.eq(i64::from(part) + 10 * count(conn)?),
                        orders::user_id.eq(key("b", part.into())),
                        orders::qty.eq(1),
                    ))
                    .execute(conn)
            })
            .unwrap();
    }
    fn count(conn: &mut Pooled) -> QueryResult<i64> {
        orders::table.count().get_result(conn)
    }
    assert_eq!(world.ids("b", "orders_2"), [2, 12]);
    assert_eq!(world.ids("b", "orders_3"), [3]);
    world.assert_decoys();
}

#[test]
fn numbers_that_do_not_exist_are_refused() {
    let world = World::new();
    let orders = world.shards.keyspace("orders").unwrap();
    // `events` is split otherwise, so a number alone may mean two things.
    let unknown = |result: Result<Route, Error>| {
        let error = result.unwrap_err();
        assert!(matches!(error, Error::UnknownTable { .. }), "{error:?}");
        error.to_string()
    };
    assert!(unknown(orders.table_route("a", 0)).contains("on_table_of"));
    let billing = world.shards.keyspace("billing").unwrap();
    assert!(unknown(billing.table_route("a", 4)).contains("there are 4"));
    assert!(matches!(
        billing.table_route("c", 0),
        Err(Error::UnknownShard { .. })
    ));
    let absent = orders.on_table_of("none", "a", 0, || Ok::<_, Error>(()));
    assert!(matches!(absent, Err(Error::UnknownTable { .. })));
    orders
        .on_table_of("events", "a", 1, || {
            let conn = &mut world.shards.get()?;
            let rows: i64 = super::world::events::table.count().get_result(conn)?;
            assert_eq!(rows, 0);
            // The number is one of `events`, not of `orders`.
            let error = all(conn).unwrap_err();
            assert!(matches!(ours(&error), Error::NoTableRoute { .. }));
            Ok::<_, Error>(())
        })
        .unwrap();
}

#[test]
fn a_route_with_tables_travels_as_text() {
    let world = World::new();
    let keyspace = world.shards.keyspace("orders").unwrap();
    keyspace
        .transaction_for(&key("b", 3), |conn| add(conn, 5, key("b", 3)))
        .unwrap();
    let by_key = keyspace.route(&key("b", 3)).unwrap().to_string();
    assert_eq!(by_key, "v1;shard=b;tables=orders.s3");
    let by_number = world
        .shards
        .keyspace("billing")
        .unwrap()
        .table_route("a", 2)
        .unwrap()
        .to_string();
    assert_eq!(by_number, "v1;shard=a;tables=billing.n2.4");
    for text in [by_key.as_str(), &by_number] {
        let route = world.shards.parse_route(text).unwrap();
        assert_eq!(route.to_string(), text);
    }
    world
        .shards
        .parse_route(&by_key)
        .unwrap()
        .run(|| {
            let found = all(&mut world.shards.get()?)?;
            Ok::<_, Error>(assert_eq!(found, [5]))
        })
        .unwrap();
    for text in [
        "v1;shard=a;tables=orders",
        "v1;shard=a;tables=orders.",
        "v1;shard=a;tables=orders.3",
        "v1;shard=a;tables=orders.sx",
        "v1;shard=a;tables=orders.n1",
        "v1;shard=a;tables=orders.n9.4",
        "v1;shard=a;tables=orders.n0.5",
        "v1;shard=a;tables=orders.s1;tables=orders.s1",
    ] {
        let error = world.shards.parse_route(text).unwrap_err();
        assert!(
            matches!(error, Error::InvalidRoute { .. }),
            "{text}: {error:?}"
        );
    }
    assert!(matches!(
        world.shards.parse_route("v1;shard=a;tables=none.s1"),
        Err(Error::UnknownKeyspace { .. })
    ));
    // A captured route has its tables too.
    let captured = keyspace
        .on(&key("b", 3), || Ok::<_, Error>(Route::capture()))
        .unwrap();
    let found = std::thread::scope(|scope| {
        let shards = &world.shards;
        scope
            .spawn(move || captured.run(|| Ok::<_, Error>(all(&mut shards.get()?)?)))
            .join()
            .unwrap()
    });
    assert_eq!(found.unwrap(), [5]);
}
