//! Physical tables that are named by a pattern: one source of names for everything that makes or meets
//! one.

use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use diesel_sharded::{Error, KeyspaceConfig, RuleSpec};

use super::super::backend::Builder;
use super::world::{ids_of, orders, parcels};
use super::{Fleet, Manager, NAME};

/// Two shards, `b` before `a` in the list, with two parts of `orders` and `parcels` each. Key k: the
/// shard at k mod 2, spread k / 2.
fn world(pattern: &str, change: impl FnOnce(Builder) -> Builder) -> (Fleet, Manager) {
    let fleet = Fleet::new(&["a", "b"]);
    let keyspace = KeyspaceConfig::new(RuleSpec::modulo(["b", "a"]))
        .table("orders", "user_id", 2)
        .table_pattern("orders", pattern)
        .table("parcels", "user_id", 2)
        .table_pattern("parcels", pattern);
    let shards = change(fleet.builder().keyspace("k", keyspace))
        .build()
        .unwrap();
    (fleet, shards)
}

/// Makes the tables, each on its shard alone, past the crate.
fn create(fleet: &Fleet, tables: [(&str, [&str; 2]); 2]) {
    let text = if NAME == "mysql" { "VARCHAR(60)" } else { "TEXT" };
    for (shard, ends) in tables {
        let conn = &mut fleet.direct(shard);
        for end in ends {
            let orders = if end.contains("orders") { end.to_owned() } else { format!("orders_{end}") };
            let parcels = orders.replace("orders", "parcels");
            conn.batch_execute(&format!(
                "CREATE TABLE {orders} (id BIGINT PRIMARY KEY, user_id BIGINT NOT NULL, qty INTEGER NOT NULL DEFAULT 0, note {text});
                 CREATE TABLE {parcels} (id BIGINT PRIMARY KEY, user_id BIGINT NOT NULL, order_id BIGINT NOT NULL)"
            ))
            .unwrap();
        }
    }
}

/// Every way to a table, with rows for the keys 0 to 7.
fn use_them(shards: &Manager) {
    let keyspace = shards.keyspace("k").unwrap();
    for user in 0..8_i64 {
        keyspace
            .transaction_for(&user, |conn| {
                diesel::insert_into(orders::table)
                    .values((orders::id.eq(user), orders::user_id.eq(user)))
                    .execute(conn)?;
                diesel::insert_into(parcels::table)
                    .values((
                        parcels::id.eq(user),
                        parcels::user_id.eq(user),
                        parcels::order_id.eq(user),
                    ))
                    .execute(conn)?;
                conn.batch_execute(&format!(
                    "UPDATE orders SET qty = 7 WHERE orders.user_id = {user}"
                ))?;
                let found: (i64, i32) = orders::table
                    .inner_join(parcels::table.on(parcels::order_id.eq(orders::id)))
                    .filter(orders::user_id.eq(user))
                    .select((parcels::id, orders::qty))
                    .first(conn)?;
                assert_eq!(found, (user, 7));
                // The key stays where it is.
                diesel::update(orders::table.find(user))
                    .set(orders::user_id.eq(user))
                    .execute(conn)?;
                let moved = diesel::update(orders::table.find(user))
                    .set(orders::user_id.eq(user + 2))
                    .execute(conn);
                let moved = Error::from(moved.unwrap_err());
                assert!(matches!(moved, Error::ShardKeyUpdate { .. }), "{moved}");
                Ok::<_, Error>(())
            })
            .unwrap();
    }
    let counts = keyspace
        .for_each_table("orders", |conn, _| {
            orders::table.select(orders::id).order(orders::id).load::<i64>(conn)
        })
        .unwrap();
    let counts: Vec<_> = counts
        .into_iter()
        .map(|one| (one.place.shard.to_string(), one.place.number, one.result.unwrap()))
        .collect();
    assert_eq!(
        counts,
        [
            ("a".to_owned(), 0, vec![1, 5]),
            ("a".to_owned(), 1, vec![3, 7]),
            ("b".to_owned(), 0, vec![0, 4]),
            ("b".to_owned(), 1, vec![2, 6]),
        ]
    );
    let one: Vec<i64> = keyspace
        .on_table("a", 1, || orders::table.select(orders::id).order(orders::id).load(&mut shards.get()?))
        .unwrap();
    assert_eq!(one, [3, 7]);
}

#[test]
fn a_global_number_counts_on_from_shard_to_shard() {
    let (fleet, shards) = world("{name}_{global:03}", |builder| builder);
    create(&fleet, [("b", ["000", "001"]), ("a", ["002", "003"])]);
    use_them(&shards);
    let table = |shard: &str, name: &str| ids_of(&mut fleet.direct(shard), name);
    assert_eq!(table("b", "orders_000"), [0, 4]);
    assert_eq!(table("b", "orders_001"), [2, 6]);
    assert_eq!(table("a", "orders_002"), [1, 5]);
    assert_eq!(table("a", "parcels_003"), [3, 7]);
    let topology = shards.topology();
    let targets = topology.physical_tables("k").unwrap();
    assert_eq!(targets[0].tables[..2], ["orders_002", "orders_003"]);
    let explained = topology.explain("k", &7_i64).unwrap().to_string();
    assert!(explained.contains("orders_003"), "{explained}");
}

#[test]
fn numbers_have_the_width_that_was_asked_for() {
    let (fleet, shards) = world("x{table:03}_{name}", |builder| builder);
    let tables = ["x000_orders", "x001_orders"];
    create(&fleet, [("b", tables), ("a", tables)]);
    use_them(&shards);
    assert_eq!(ids_of(&mut fleet.direct("b"), "x001_orders"), [2, 6]);
    assert_eq!(ids_of(&mut fleet.direct("a"), "x001_parcels"), [3, 7]);
}

#[test]
fn a_row_in_another_table_than_its_own_is_named_by_both() {
    let (fleet, shards) = world("{name}_{global:03}", |builder| builder);
    create(&fleet, [("b", ["000", "001"]), ("a", ["002", "003"])]);
    let keyspace = shards.keyspace("k").unwrap();
    let refused = keyspace.transaction_for(&1_i64, |conn| {
        diesel::insert_into(orders::table)
            .values((orders::id.eq(1), orders::user_id.eq(3)))
            .execute(conn)
    });
    match Error::from(refused.unwrap_err()) {
        Error::WrongTable { belongs, routed, .. } => {
            assert_eq!((&*belongs, &*routed), ("orders_003", "orders_002"));
        }
        other => panic!("{other}"),
    }
}
