//! Text written by hand, on real tables.

use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Text};
use diesel_sharded::{Error, KeyspaceConfig, RuleSpec};

use super::world::{World, key};
use super::{Fleet, NAME, Sharded};
use crate::support::ours;

#[derive(QueryableByName, Debug, PartialEq)]
struct Number {
    #[diesel(sql_type = BigInt)]
    n: i64,
}

fn numbers(conn: &mut Sharded, text: &str) -> QueryResult<Vec<i64>> {
    let rows = diesel::sql_query(text).load::<Number>(conn)?;
    Ok(rows.into_iter().map(|row| row.n).collect())
}

#[derive(QueryableByName)]
struct Said {
    #[diesel(sql_type = Text)]
    t: String,
}

/// Table 3 of shard `b` holds (1, qty 5) and (2, qty 7).
fn world() -> World {
    let world = World::new();
    on(&world, |conn| {
        let user = key("b", 3);
        conn.batch_execute(&format!(
            "INSERT INTO orders (id, user_id, qty, note) VALUES (1, {user}, 5, 'orders'), (2, {user}, 7, 'it''s orders');
             INSERT INTO parcels (id, user_id, order_id) VALUES (1, {user}, 2);
             INSERT INTO notes (id, orders) VALUES (1, 2)"
        ))
    })
    .unwrap();
    world
}

fn on<T>(world: &World, f: impl FnOnce(&mut Sharded) -> QueryResult<T>) -> QueryResult<T> {
    let keyspace = world.shards.keyspace("orders").unwrap();
    keyspace.transaction_for(&key("b", 3), f)
}

#[test]
fn forms_of_a_query() {
    let world = world();
    for (text, expected) in [
        (
            "SELECT orders.id AS n FROM orders WHERE orders.qty > 5 ORDER BY orders.id LIMIT 1",
            vec![2],
        ),
        (
            "SELECT max(orders.id) AS n FROM orders GROUP BY orders.id HAVING max(orders.qty) > 5",
            vec![2],
        ),
        (
            "SELECT o.id AS n FROM orders AS o JOIN parcels i ON i.order_id = o.id",
            vec![2],
        ),
        (
            "SELECT orders.id AS n FROM orders LEFT JOIN notes ON notes.orders = orders.id ORDER BY orders.id",
            vec![1, 2],
        ),
        (
            "SELECT orders.id AS n FROM orders, parcels WHERE parcels.order_id = orders.id",
            vec![2],
        ),
        (
            "SELECT orders.id AS n FROM orders WHERE EXISTS (SELECT 1 FROM parcels WHERE parcels.order_id = orders.id)",
            vec![2],
        ),
        (
            "SELECT orders.orders AS n FROM notes AS orders WHERE orders.id = 1",
            vec![2],
        ),
        (
            "SELECT count(*) AS n FROM (SELECT id FROM orders UNION ALL SELECT id FROM parcels) x",
            vec![3],
        ),
        (
            "SELECT x.id AS n FROM (SELECT orders.id FROM orders) x ORDER BY x.id",
            vec![1, 2],
        ),
        (
            "SELECT count(*) AS n FROM orders WHERE note LIKE '%orders%'",
            vec![2],
        ),
        (
            "SELECT orders_3.id AS n FROM orders_3 WHERE id = 1",
            vec![1],
        ),
    ] {
        let found = on(&world, |conn| numbers(conn, text));
        assert_eq!(found, Ok(expected), "{text}");
    }
    world.assert_decoys();
}

#[test]
fn common_table_expressions() {
    let world = world();
    let found = |text: &str| {
        let mut text = text.to_owned();
        if NAME == "postgres" {
            text = text
                .replace("SELECT 42 AS", "SELECT 42::bigint AS")
                .replace("SELECT 1 AS", "SELECT 1::bigint AS");
        }
        on(&world, |conn| numbers(conn, &text))
    };
    assert_eq!(
        found("WITH orders AS (SELECT 42 AS id) SELECT orders.id AS n FROM orders"),
        Ok(vec![42])
    );
    assert_eq!(
        found("WITH recent AS (SELECT id FROM orders WHERE qty > 5) SELECT id AS n FROM recent"),
        Ok(vec![2])
    );
    let same_name = found(
        "WITH orders AS (SELECT * FROM orders WHERE qty > 5) SELECT orders.id AS n FROM orders",
    );
    match NAME {
        // As on an unsharded table.
        "sqlite" => assert!(same_name.unwrap_err().to_string().contains("circular")),
        _ => assert_eq!(same_name, Ok(vec![2])),
    }
    assert_eq!(
        found(
            "WITH RECURSIVE orders AS (SELECT 1 AS id UNION ALL SELECT orders.id + 1 FROM orders WHERE orders.id < 3) SELECT orders.id AS n FROM orders ORDER BY orders.id"
        ),
        Ok(vec![1, 2, 3])
    );
    world.assert_decoys();
}

#[test]
fn every_verb() {
    let world = world();
    let rows = |text: &str| on(&world, |conn| diesel::sql_query(text).execute(conn));
    assert_eq!(
        rows("UPDATE orders SET qty = orders.qty + 1 WHERE orders.id = 1"),
        Ok(1)
    );
    assert_eq!(
        rows(
            "INSERT INTO orders (id, user_id, qty) SELECT orders.id + 10, orders.user_id, orders.qty FROM orders"
        ),
        Ok(2)
    );
    assert_eq!(rows("DELETE FROM orders WHERE orders.id = 11"), Ok(1));
    assert_eq!(
        rows("DELETE FROM orders WHERE orders.id IN (SELECT parcels.order_id FROM parcels)"),
        Ok(1)
    );
    assert_eq!(world.ids("b", "orders_3"), [1, 12]);
    if NAME == "mysql" {
        assert_eq!(
            rows("UPDATE orders SET orders.qty = 9 WHERE orders.id = 1"),
            Ok(1)
        );
        assert_eq!(
            rows("DELETE orders FROM orders JOIN notes ON notes.orders + 10 = orders.id"),
            Ok(1)
        );
    } else {
        let found = on(&world, |conn| {
            numbers(
                conn,
                "UPDATE orders SET qty = 9 WHERE orders.id = 1 RETURNING CAST(orders.qty AS BIGINT) AS n",
            )
        });
        assert_eq!(found, Ok(vec![9]));
        let found = on(&world, |conn| {
            numbers(
                conn,
                &format!(
                    "INSERT INTO orders (id, user_id, qty) VALUES (1, {}, 1) ON CONFLICT (id) DO UPDATE SET qty = orders.qty + excluded.qty RETURNING CAST(orders.qty AS BIGINT) AS n",
                    key("b", 3)
                ),
            )
        });
        assert_eq!(found, Ok(vec![10]));
        assert_eq!(rows("DELETE FROM orders WHERE orders.id = 12"), Ok(1));
    }
    assert_eq!(world.ids("b", "orders_3"), [1]);
    world.assert_decoys();
}

#[test]
fn literals_stay_byte_for_byte() {
    let world = world();
    let mut literals = vec![
        ("'select from orders'", "select from orders"),
        ("'it''s orders'", "it's orders"),
        ("'orders' /* orders */", "orders"),
    ];
    match NAME {
        "postgres" => literals.extend([
            (r"E'it\'s orders'", "it's orders"),
            ("$$ orders $$", " orders "),
            ("$t$ orders $t$", " orders "),
            ("U&'orders'", "orders"),
            ("'{\"orders\": 1}'::json->>'orders'", "1"),
        ]),
        "mysql" => literals.extend([
            (r"'it\'s orders'", "it's orders"),
            (r#""orders""#, "orders"),
            ("'orders' # orders\n", "orders"),
        ]),
        _ => {}
    }
    for (literal, expected) in literals {
        let text = format!("SELECT {literal} AS t FROM orders WHERE orders.id = 1");
        let said = on(&world, |conn| {
            diesel::sql_query(&text).get_result::<Said>(conn)
        })
        .unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(said.t, expected, "{literal}");
    }
    world.assert_decoys();
}

#[test]
fn spellings_are_as_the_backend_sees_them() {
    let world = world();
    let count = |table: &str| {
        let text = format!("SELECT count(*) AS n FROM {table}");
        on(&world, |conn| numbers(conn, &text))
    };
    let (same, other): (&[&str], &[&str]) = match NAME {
        "postgres" => (
            &["orders", "ORDERS", "\"orders\"", "public.orders"],
            &["\"Orders\""],
        ),
        "mysql" => (&["orders", "`orders`"], &["ORDERS"]),
        _ => (
            &[
                "orders",
                "ORDERS",
                "\"Orders\"",
                "[orders]",
                "`orders`",
                "main.orders",
                "'orders'",
            ],
            &[],
        ),
    };
    for table in same {
        assert_eq!(count(table), Ok(vec![2]), "{table}");
    }
    for table in other {
        // Another table, which is not there.
        let error = count(table).unwrap_err();
        assert!(
            matches!(error, diesel::result::Error::DatabaseError(..)),
            "{table}: {error:?}"
        );
    }
    world.assert_decoys();
}

#[test]
fn what_cannot_be_decided_is_refused_and_nothing_is_sent() {
    let world = world();
    let mut texts = vec![
        "CREATE VIEW v AS SELECT * FROM orders",
        "SELECT FROM WHERE orders.",
        "DELETE FROM notes; FROBNICATE orders",
    ];
    match NAME {
        "postgres" => texts.extend([
            "DO $$ BEGIN DELETE FROM orders; END $$",
            "SELECT * FROM U&\"\\006Frders\"",
            "TABLE orders",
            "COPY orders TO STDOUT",
        ]),
        "mysql" => texts.extend([
            "PREPARE s FROM 'DELETE FROM orders'",
            "SELECT 1 /*! FROM orders */",
        ]),
        _ => {}
    }
    for text in texts {
        let error = on(&world, |conn| conn.batch_execute(text)).unwrap_err();
        let Error::Unrewritable {
            shard, statement, ..
        } = ours(&error)
        else {
            panic!("{text}: {error:?}");
        };
        assert_eq!((shard.as_str(), statement.as_str()), ("b", text));
    }
    let long = format!("FROBNICATE orders {}", "x".repeat(100_000));
    let error = on(&world, |conn| conn.batch_execute(&long)).unwrap_err();
    assert!(error.to_string().len() < 1000);
    assert_eq!(world.ids("b", "notes"), [1]);
    assert_eq!(world.ids("b", "orders_3"), [1, 2]);
    world.assert_decoys();
}

#[test]
fn a_reserved_word_may_be_sharded() {
    diesel::table! {
        order (id) {
            id -> BigInt,
            user_id -> BigInt,
        }
    }
    let fleet = Fleet::new(&["a"]);
    let keyspace = KeyspaceConfig::new(RuleSpec::modulo(["a"])).table("order", "user_id", 2);
    let shards = fleet.builder().keyspace("k", keyspace).build().unwrap();
    let quote = if NAME == "mysql" { '`' } else { '"' };
    for table in ["order", "order_0", "order_1"] {
        fleet
            .direct("a")
            .batch_execute(&format!(
                "CREATE TABLE {quote}{table}{quote} (id BIGINT PRIMARY KEY, user_id BIGINT NOT NULL)"
            ))
            .unwrap();
    }
    let found: i64 = shards
        .keyspace("k")
        .unwrap()
        .transaction_for(&1, |conn| {
            diesel::insert_into(order::table)
                .values((order::id.eq(1), order::user_id.eq(1)))
                .execute(conn)?;
            diesel::sql_query(format!(
                "UPDATE {quote}order{quote} SET id = 2 WHERE {quote}order{quote}.id = 1"
            ))
            .execute(conn)?;
            order::table.select(order::id).order(order::id).first(conn)
        })
        .unwrap();
    assert_eq!(found, 2);
    assert_eq!(super::world::ids_of(&mut fleet.direct("a"), "order_1"), [2]);
}
