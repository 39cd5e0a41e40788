//! What only PostgreSQL has, on physical tables: its query forms, and schemas.

use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use diesel_sharded::{Error, KeyspaceConfig, RuleSpec};

use super::backend::{Fleet, Manager};
use super::tables::surface::{both, through_both};
use crate::support::ours;

#[path = "../surface/postgres_queries.rs"]
mod postgres_queries;

mod shop {
    diesel::table! {
        shop.orders (id) {
            id -> BigInt,
            user_id -> BigInt,
        }
    }
}

mod archive {
    diesel::table! {
        archive.orders (id) {
            id -> BigInt,
            user_id -> BigInt,
        }
    }
}

mod plain {
    diesel::table! {
        orders (id) {
            id -> BigInt,
            user_id -> BigInt,
        }
    }
}

fn world() -> (Fleet, Manager) {
    let fleet = Fleet::new(&["a"]);
    let conn = &mut fleet.direct("a");
    let mut batch = "CREATE SCHEMA shop; CREATE SCHEMA archive;".to_owned();
    for table in [
        "shop.orders",
        "shop.orders_0",
        "shop.orders_1",
        "archive.orders",
    ] {
        batch += &format!("CREATE TABLE {table} (id BIGINT PRIMARY KEY, user_id BIGINT NOT NULL);");
    }
    conn.batch_execute(&batch).unwrap();
    let keyspace = KeyspaceConfig::new(RuleSpec::modulo(["a"])).table("shop.orders", "user_id", 2);
    let shards = fleet.builder().keyspace("shop", keyspace).build().unwrap();
    (fleet, shards)
}

#[test]
fn the_schema_says_which_table_is_meant() {
    let (fleet, shards) = world();
    shards
        .keyspace("shop")
        .unwrap()
        .transaction_for(&1, |conn| {
            use archive::orders as archived;
            use shop::orders;
            diesel::insert_into(orders::table)
                .values((orders::id.eq(1), orders::user_id.eq(1)))
                .execute(conn)?;
            let moved = orders::table
                .filter(orders::id.eq(1))
                .insert_into(archived::table)
                .execute(conn)?;
            assert_eq!(moved, 1);
            diesel::update(archived::table)
                .set(archived::user_id.eq(99))
                .execute(conn)?;
            let returned: i64 = diesel::update(orders::table.find(1))
                .set(orders::id.eq(2))
                .returning(orders::id)
                .get_result(conn)?;
            assert_eq!(returned, 2);
            diesel::sql_query(
                "UPDATE shop.orders SET id = orders.id + archived.id FROM archive.orders AS archived WHERE shop.orders.user_id = 1",
            )
            .execute(conn)?;
            let ids: Vec<i64> = orders::table.select(orders::id).order(orders::id).load(conn)?;
            assert_eq!(ids, [3]);
            Ok::<_, diesel::result::Error>(())
        })
        .unwrap();
    let conn = &mut fleet.direct("a");
    let rows = |conn: &mut _, table: &str| super::tables::world::ids_of(conn, table);
    assert_eq!(rows(conn, "shop.orders_1"), [3]);
    assert_eq!(rows(conn, "shop.orders"), [0; 0]);
    assert_eq!(rows(conn, "archive.orders"), [1]);
}

#[test]
fn a_name_without_its_schema_is_no_guess() {
    let (fleet, shards) = world();
    shards
        .keyspace("shop")
        .unwrap()
        .transaction_for(&1, |conn| {
            conn.batch_execute("SET LOCAL search_path = archive")?;
            // The schema of a name without one is that of the session.
            let error = plain::orders::table.load::<(i64, i64)>(conn).unwrap_err();
            assert!(
                matches!(ours(&error), Error::Unrewritable { .. }),
                "{error:?}"
            );
            let archived: Vec<(i64, i64)> = archive::orders::table.load(conn)?;
            Ok::<_, diesel::result::Error>(assert_eq!(archived, []))
        })
        .unwrap();
    drop(fleet);
}

/// Each physical table has a constraint of its own name, as a template makes it.
#[test]
fn a_conflict_names_the_constraint_of_its_table() {
    use diesel::upsert::on_constraint;
    use shop::orders;

    let (_fleet, shards) = world();
    let keyspace = shards.keyspace("shop").unwrap();
    for each in keyspace
        .for_each_table("shop.orders", |conn, _| {
            conn.batch_execute("ALTER TABLE shop.orders ADD CONSTRAINT one_each UNIQUE (user_id)")
        })
        .unwrap()
    {
        each.result.unwrap();
    }
    for user in [1_i64, 2] {
        keyspace
            .transaction_for(&user, |conn| {
                let mut put = |id: i64| {
                    diesel::insert_into(orders::table)
                        .values((orders::id.eq(id), orders::user_id.eq(user)))
                        .on_conflict(on_constraint("one_each"))
                        .do_update()
                        .set(orders::id.eq(diesel::upsert::excluded(orders::id)))
                        .returning(orders::id)
                        .get_result::<i64>(conn)
                };
                assert_eq!((put(10)?, put(20)?), (10, 20));
                let rows: i64 = orders::table.count().get_result(conn)?;
                assert_eq!(rows, 1);
                // Whether it is orders_1_pkey or orders_pkey_1, nobody can say.
                let error = diesel::insert_into(orders::table)
                    .values((orders::id.eq(20), orders::user_id.eq(user)))
                    .on_conflict(on_constraint("orders_pkey"))
                    .do_nothing()
                    .execute(conn)
                    .unwrap_err();
                assert!(
                    matches!(ours(&error), Error::Unrewritable { reason, .. } if reason.contains("ON CONFLICT (..)")),
                    "{error:?}"
                );
                Ok::<_, diesel::result::Error>(())
            })
            .unwrap();
    }
}

/// By the database's own default, and not by anything that this process sends.
#[test]
fn a_database_where_backslashes_escape_is_refused() {
    use diesel_sharded::UnavailableCause;

    let (fleet, shards) = world();
    let set = |value: &str| {
        let text = format!(
            "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET standard_conforming_strings = {value}', current_database()); END $$"
        );
        fleet.direct("a").batch_execute(&text).unwrap();
    };
    set("off");
    for _ in 0..2 {
        let error = shards.get_on("a").expect_err("the default is off");
        assert!(
            matches!(&error, Error::Unavailable { cause: UnavailableCause::Settings, source: Some(source), .. }
                if source.to_string().contains("ALTER ROLE .. SET standard_conforming_strings = on")),
            "{error:?}"
        );
    }
    set("on");
    shards.get_on("a").unwrap().batch_execute("SELECT 1").unwrap();
}
