//! Physical tables that are named by a pattern: one source of names for everything that makes or meets
//! one.

use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use diesel_sharded::{DateSpec, Error, KeyType, KeyspaceConfig, RuleSpec};

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

#[test]
fn tables_by_dates_have_the_names_of_their_pattern_too() {
    let fleet = Fleet::new(&["a", "b"]);
    // In turn: December to the one, January to the other.
    let months = DateSpec::monthly().from("2023-12").until("2024-02");
    let keyspace = KeyspaceConfig::new(RuleSpec::date(["a", "b"], months).key(KeyType::Date))
        .table("parcels", "day", 1)
        .table_pattern("parcels", "p{date}_{name}");
    let shards = fleet.builder().keyspace("k", keyspace).build().unwrap();
    let targets = shards.topology().physical_tables("k").unwrap();
    let mut tables = Vec::new();
    for target in &targets {
        for table in &target.tables {
            fleet
                .direct(target.shard.as_str())
                .batch_execute(&format!(
                    "CREATE TABLE {table} (id BIGINT PRIMARY KEY, user_id BIGINT NOT NULL, order_id BIGINT NOT NULL, day DATE NOT NULL)"
                ))
                .unwrap();
            tables.push(table.as_str());
        }
    }
    tables.sort_unstable();
    assert_eq!(tables, ["p202312_parcels", "p202401_parcels"]);
    let keyspace = shards.keyspace("k").unwrap();
    for (id, day) in [(1_i64, "2023-12-31"), (2, "2024-01-01"), (3, "2023-12-01")] {
        let key = KeyType::Date.parse_key(day).unwrap();
        keyspace
            .transaction_for(&key, |conn| {
                diesel::sql_query(format!(
                    "INSERT INTO parcels (id, user_id, order_id, day) VALUES ({id}, 0, 0, '{day}')"
                ))
                .execute(conn)?;
                conn.batch_execute("UPDATE parcels SET order_id = parcels.order_id + 1")?;
                parcels::table.find(id).select(parcels::order_id).first::<i64>(conn)
            })
            .unwrap();
    }
    for target in &targets {
        let table = &target.tables[0];
        let expected: &[i64] = if table.contains("2023") { &[1, 3] } else { &[2] };
        assert_eq!(ids_of(&mut fleet.direct(target.shard.as_str()), table), expected);
    }
}

#[test]
fn one_database_of_several_shards_gets_the_tables_of_all() {
    use diesel_sharded::migrate::{Migrator, Options, Source};
    let fleet = Fleet::new(&["a"]);
    let keyspace = KeyspaceConfig::new(RuleSpec::modulo(["a", "b"]))
        .table("orders", "user_id", 2)
        .table_pattern("orders", "{name}_{global}");
    let other = KeyspaceConfig::new(RuleSpec::modulo(["b"])).table("parcels", "user_id", 2);
    let topology = diesel_sharded::Topology::builder()
        .shared_database(true)
        .shard("a", fleet.url("a"))
        .shard("b", fleet.url("a"))
        .keyspace("k", keyspace)
        .keyspace("l", other)
        .build()
        .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let own = folder.path().join("2026-01-01-000000_tables");
    std::fs::create_dir(&own).unwrap();
    std::fs::write(
        own.join("up.sql"),
        "CREATE TABLE orders (id BIGINT PRIMARY KEY, user_id BIGINT NOT NULL);
         CREATE INDEX ix_user ON orders (user_id);
         CREATE TABLE parcels (id BIGINT PRIMARY KEY);",
    )
    .unwrap();
    let migrator = Migrator::builder(&topology)
        .source(Source::folder(folder.path()))
        .build()
        .unwrap();
    let ran = migrator.run(&Options::new(), &|_| {}).unwrap();
    assert_eq!(ran.into_result().unwrap().shards.len(), 1);
    for table in ["orders_0", "orders_1", "orders_2", "orders_3", "parcels_0", "parcels_1"] {
        assert_eq!(ids_of(&mut fleet.direct("a"), table), [0; 0]);
    }
    assert!(migrator.status(&Options::new()).unwrap().is_up_to_date());
}
