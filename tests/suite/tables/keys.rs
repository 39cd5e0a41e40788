//! The shard key of a row stays where its table is.

use diesel::prelude::*;
use diesel_sharded::Error;

use super::world::{World, key, orders};
use super::{NAME, Sharded};
use crate::support::ours;

#[derive(Clone, Debug, PartialEq, Queryable, Identifiable, Insertable, AsChangeset)]
#[diesel(table_name = orders, treat_none_as_null = true)]
struct Order {
    id: i64,
    user_id: i64,
    qty: i32,
    note: Option<String>,
}

fn order(id: i64, user_id: i64) -> Order {
    Order {
        id,
        user_id,
        qty: 5,
        note: None,
    }
}

/// A world whose table 3 of shard `b` holds the order 1 of that key.
fn world() -> (World, i64) {
    let world = World::new();
    let user = key("b", 3);
    world
        .shards
        .keyspace("orders")
        .unwrap()
        .transaction_for(&user, |conn| {
            diesel::insert_into(orders::table)
                .values(order(1, user))
                .execute(conn)
        })
        .unwrap();
    (world, user)
}

fn on<T>(
    world: &World,
    user: i64,
    f: impl FnOnce(&mut Sharded) -> QueryResult<T>,
) -> QueryResult<T> {
    world
        .shards
        .keyspace("orders")
        .unwrap()
        .transaction_for(&user, f)
}

#[track_caller]
fn assert_refused<T: std::fmt::Debug>(result: QueryResult<T>, what: &str) {
    let error = result.expect_err(what);
    assert!(
        matches!(ours(&error), Error::ShardKeyUpdate { table, column, .. }
            if table == "orders" && column == "user_id"),
        "{what}: {error:?}"
    );
}

#[test]
fn an_orm_may_write_the_unchanged_key() {
    let (world, user) = world();
    let saved = on(&world, user, |conn| {
        let mut order: Order = orders::table.find(1).first(conn)?;
        order.qty = 6;
        assert_eq!(diesel::update(&order).set(&order).execute(conn)?, 1);
        order.qty = 7;
        let saved: Order = order.save_changes(conn)?;
        diesel::update(orders::table.find(1))
            .set((
                orders::user_id.eq(user),
                orders::note.eq("a 'note', user_id = 9"),
            ))
            .execute(conn)?;
        diesel::sql_query(format!("UPDATE orders SET user_id = {user}, qty = qty + 1"))
            .execute(conn)?;
        diesel::sql_query(format!("UPDATE orders SET user_id = '{user}'")).execute(conn)?;
        diesel::sql_query("UPDATE orders SET user_id = user_id").execute(conn)?;
        diesel::sql_query(format!(
            "UPDATE orders AS o SET user_id = ({user}) WHERE o.id = 1"
        ))
        .execute(conn)?;
        // Another key of the same table of the same shard is as good.
        diesel::update(orders::table.find(1))
            .set(orders::user_id.eq(key("b", 7)))
            .execute(conn)?;
        Ok(saved)
    })
    .unwrap();
    assert_eq!(saved.qty, 7);
    let found: Order = on(&world, user, |conn| orders::table.find(1).first(conn)).unwrap();
    assert_eq!((found.user_id, found.qty), (key("b", 7), 8));
    world.assert_decoys();
}

#[test]
fn a_key_of_another_placement_is_refused_and_nothing_changes() {
    let (world, user) = world();
    for elsewhere in [key("b", 4), key("a", 3), user + 32 + 2] {
        assert_refused(
            on(&world, user, |conn| {
                diesel::update(orders::table.find(1))
                    .set(orders::user_id.eq(elsewhere))
                    .execute(conn)
            }),
            "a bind",
        );
        assert_refused(
            on(&world, user, |conn| {
                order(1, elsewhere).save_changes::<Order>(conn)
            }),
            "save_changes",
        );
        assert_refused(
            on(&world, user, |conn| {
                diesel::sql_query(format!("UPDATE orders SET qty = 1, user_id = {elsewhere}"))
                    .execute(conn)
            }),
            "a literal",
        );
    }
    assert_refused(
        on(&world, user, |conn| {
            diesel::update(orders::table)
                .set(orders::user_id.eq(orders::user_id + 32))
                .execute(conn)
        }),
        "what the server works out",
    );
    for text in [
        "UPDATE orders SET user_id = user_id + 8",
        "UPDATE orders SET user_id = NULL",
        "UPDATE orders SET user_id = id",
        "UPDATE orders SET user_id = (SELECT max(user_id) FROM orders)",
        "UPDATE orders SET \"USER_ID\" = abs(7)",
    ] {
        let text = match NAME {
            "mysql" => text.replace('"', "`"),
            "postgres" => text.replace("\"USER_ID\"", "USER_ID"),
            _ => text.to_owned(),
        };
        assert_refused(
            on(&world, user, |conn| diesel::sql_query(&text).execute(conn)),
            &text,
        );
    }
    if NAME == "sqlite" {
        // It may be the key, and is none of that name.
        let error = on(&world, user, |conn| {
            diesel::sql_query("UPDATE orders SET rowid = 77 WHERE user_id = 7").execute(conn)
        })
        .unwrap_err();
        assert!(
            matches!(ours(&error), Error::ShardKeyUpdate { column, .. } if column == "rowid (which may be user_id)"),
            "{error:?}"
        );
    }
    let found: Order = on(&world, user, |conn| orders::table.find(1).first(conn)).unwrap();
    assert_eq!(found, order(1, user));
    world.assert_decoys();
}

#[test]
fn a_route_by_number_knows_the_placement_too() {
    let (world, user) = world();
    let keyspace = world.shards.keyspace("orders").unwrap();
    let set = |to: i64| {
        keyspace.on_table_of("orders", "b", 3, || {
            diesel::update(orders::table.find(1))
                .set(orders::user_id.eq(to))
                .execute(&mut world.shards.get()?)
        })
    };
    assert_eq!(set(user), Ok(1));
    assert_eq!(set(key("b", 11)), Ok(1));
    assert_refused(set(key("b", 2)), "another table");
    assert_refused(set(key("a", 3)), "another shard");
}

#[test]
fn new_rows_are_checked_under_a_route_by_key() {
    let (world, user) = world();
    let insert = |rows: Vec<Order>| {
        on(&world, user, |conn| {
            diesel::insert_into(orders::table)
                .values(rows)
                .execute(conn)
        })
    };
    insert(vec![order(2, user), order(3, key("b", 7))]).unwrap();
    let error = insert(vec![order(4, user), order(5, key("b", 2))]).unwrap_err();
    let Error::WrongTable {
        owner,
        belongs,
        routed,
        shard,
        ..
    } = ours(&error)
    else {
        panic!("{error:?}");
    };
    assert_eq!(
        (owner.as_str(), &**belongs, shard.as_str(), &**routed),
        ("b", "orders_2", "b", "orders_3")
    );
    let by_hand = on(&world, user, |conn| {
        diesel::sql_query("INSERT INTO orders (id, user_id) VALUES (9, 2)").execute(conn)
    });
    assert!(matches!(
        ours(&by_hand.unwrap_err()),
        Error::WrongTable { owner, .. } if owner.as_str() == "a"
    ));
    // Who goes by number says what is put where.
    world
        .shards
        .keyspace("orders")
        .unwrap()
        .on_table_of("orders", "b", 3, || {
            diesel::insert_into(orders::table)
                .values(order(6, key("b", 2)))
                .execute(&mut world.shards.get()?)
        })
        .unwrap();
    assert_eq!(world.ids("b", "orders_3"), [1, 2, 3, 6]);
    world.assert_decoys();
}

#[test]
fn a_conflicting_row_keeps_its_key() {
    let (world, user) = world();
    let upsert = |set: &str| {
        let text = match NAME {
            "mysql" => format!(
                "INSERT INTO orders (id, user_id, qty) VALUES (1, {user}, 1) ON DUPLICATE KEY UPDATE {}",
                set.replace("excluded.qty", "VALUES(qty)")
                    .replace("excluded.user_id", "VALUES(user_id)")
            ),
            _ => format!(
                "INSERT INTO orders (id, user_id, qty) VALUES (1, {user}, 1) ON CONFLICT (id) DO UPDATE SET {set}"
            ),
        };
        on(&world, user, |conn| diesel::sql_query(text).execute(conn))
    };
    upsert("qty = orders.qty + excluded.qty").unwrap();
    upsert(&format!("user_id = {user}")).unwrap();
    upsert("user_id = excluded.user_id").unwrap();
    assert_refused(upsert("user_id = 9"), "a literal");
    assert_refused(upsert("user_id = orders.user_id + 1"), "an expression");
    let found: Order = on(&world, user, |conn| orders::table.find(1).first(conn)).unwrap();
    assert_eq!((found.user_id, found.qty), (user, 6));
    if NAME != "postgres" {
        let replace = |to: &str| {
            on(&world, user, |conn| {
                diesel::sql_query(format!(
                    "REPLACE INTO orders (id, user_id) VALUES (1, {to})"
                ))
                .execute(conn)
            })
        };
        replace(&user.to_string()).unwrap();
        for (to, owner) in [("4", "a"), ("1", "b")] {
            let error = replace(to).unwrap_err();
            assert!(
                matches!(ours(&error), Error::WrongTable { owner: of, .. } if of == owner),
                "{to}: {error:?}"
            );
        }
        assert_refused(replace("2 + 5"), "REPLACE with an expression");
    }
    world.assert_decoys();
}

#[test]
fn keys_of_other_types_are_read_from_their_binds() {
    use diesel::connection::SimpleConnection;
    use diesel_sharded::{KeyType, KeyspaceConfig, RuleSpec};

    diesel::table! {
        docs (id) {
            id -> BigInt,
            owner -> Text,
        }
    }
    let fleet = super::Fleet::new(&["a"]);
    let keyspace = KeyspaceConfig::new(RuleSpec::hash(["a"], 4096).key(KeyType::Text))
        .table("docs", "owner", 4);
    let shards = fleet.builder().keyspace("docs", keyspace).build().unwrap();
    let conn = &mut fleet.direct("a");
    for table in ["docs", "docs_0", "docs_1", "docs_2", "docs_3"] {
        conn.batch_execute(&format!(
            "CREATE TABLE {table} (id BIGINT PRIMARY KEY, owner VARCHAR(50) NOT NULL)"
        ))
        .unwrap();
    }
    let docs = shards.keyspace("docs").unwrap();
    let number = |owner: &str| docs.locate(owner).unwrap().table_number(4);
    let owner = "Zoë 'q' \"d\" \\ \n";
    let other = ["x", "y", "z", "w", "v"]
        .into_iter()
        .find(|other| number(other) != number(owner))
        .unwrap();
    docs.transaction_for(owner, |conn| {
        diesel::insert_into(docs::table)
            .values((docs::id.eq(1), docs::owner.eq(owner)))
            .execute(conn)?;
        diesel::update(docs::table)
            .set(docs::owner.eq(owner))
            .execute(conn)
    })
    .unwrap();
    let error = docs
        .transaction_for(owner, |conn| {
            diesel::update(docs::table)
                .set(docs::owner.eq(other))
                .execute(conn)
        })
        .unwrap_err();
    assert!(
        matches!(ours(&error), Error::ShardKeyUpdate { .. }),
        "{error:?}"
    );
}
