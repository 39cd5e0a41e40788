//! Sharded tables through the nonblocking driver: the rewriter is the blocking one's, so what is asked
//! here is that every way to send a statement passes it.

use diesel::connection::SimpleConnection as _;
use diesel::prelude::*;
use diesel_async::{AsyncConnection, RunQueryDsl, SimpleAsyncConnection};
use diesel_sharded::{
    Error, FutureExt as _, KeyspaceConfig, RuleSpec, TableMismatchCause, Topology,
};
use futures_util::TryStreamExt;

use super::{Fleet, builder};
use crate::nonblocking::spawned;
use crate::support::{items, ours, pool, whoami};

/// `items` of two shards in two parts, beside the plain table of that name.
pub(super) fn fleet() -> Fleet {
    let fleet = Fleet::new(&["a", "b"]);
    for shard in ["a", "b"] {
        for part in 0..2 {
            fleet
                .direct(shard)
                .batch_execute(&format!(
                    "CREATE TABLE items_{part} (id BIGINT PRIMARY KEY, note VARCHAR(60))"
                ))
                .unwrap();
        }
    }
    fleet
}

pub(super) fn keyspace() -> KeyspaceConfig {
    // Key k: shard k mod 2, part k / 2 mod 2.
    KeyspaceConfig::new(RuleSpec::modulo(["a", "b"])).table("items", "id", 2)
}

#[test]
fn every_way_to_send_a_statement_goes_to_the_table_of_the_key() {
    let fleet = fleet();
    let shards = builder(&fleet, pool(2)).keyspace("k", keyspace()).build();
    spawned(async move {
        let shards = shards.await.unwrap();
        let keys = shards.keyspace("k").unwrap();
        for id in 0..8_i64 {
            keys.transaction_for(&id, async |conn| {
                diesel::insert_into(items::table)
                    .values((items::id.eq(id), items::note.eq("items")))
                    .execute(conn)
                    .await?;
                conn.transaction(async |conn| {
                    conn.batch_execute("UPDATE items SET note = 'x' WHERE items.note = 'items'")
                        .await
                })
                .await?;
                let found: i64 = items::table.find(id).select(items::id).first(conn).await?;
                assert_eq!(found, id);
                Ok::<_, diesel::result::Error>(())
            })
            .await
            .unwrap();
        }
        for part in [0, 1, 0] {
            let ids = keys
                .on_table("b", part, async || {
                    let mut conn = shards.get().await?;
                    let streamed: Vec<i64> = items::table
                        .select(items::id)
                        .order(items::id)
                        .load_stream::<i64>(&mut conn)
                        .await?
                        .try_collect()
                        .await?;
                    let boxed: Vec<i64> = items::table
                        .select(items::id)
                        .into_boxed()
                        .order(items::id)
                        .load(&mut conn)
                        .await?;
                    assert_eq!(streamed, boxed);
                    Ok::<_, Error>(streamed)
                })
                .await
                .unwrap();
            assert_eq!(ids, if part == 0 { [1, 5] } else { [3, 7] });
        }
        let mut own = keys.get(&2_i64).await.unwrap();
        let count: i64 = items::table.count().get_result(&mut own).await.unwrap();
        assert_eq!(count, 2);
        drop(own);
        drop(shards);
    });
    for shard in ["a", "b"] {
        assert_eq!(fleet.rows(shard), [0; 0], "the plain table of {shard}");
    }
}

#[test]
fn what_is_refused_is_not_sent() {
    let fleet = fleet();
    let shards = builder(&fleet, pool(1)).keyspace("k", keyspace()).build();
    spawned(async move {
        let shards = shards.await.unwrap();
        let keys = shards.keyspace("k").unwrap();
        let mut conn = shards.get_on("a").await.unwrap();
        let typed = diesel::delete(items::table).execute(&mut conn).await;
        let text = conn.batch_execute("DELETE FROM items").await.map(|()| 0);
        for refused in [typed, text] {
            let error = refused.unwrap_err();
            assert!(
                matches!(ours(&error), Error::NoTableRoute { .. }),
                "{error:?}"
            );
        }
        drop(conn);
        keys.transaction_for(&0_i64, async |conn| {
            let wrong = diesel::insert_into(items::table)
                .values(items::id.eq(2))
                .execute(conn)
                .await
                .unwrap_err();
            assert!(
                matches!(ours(&wrong), Error::WrongTable { .. }),
                "{wrong:?}"
            );
            let moved = diesel::update(items::table)
                .set(items::id.eq(1))
                .execute(conn)
                .await
                .unwrap_err();
            assert!(
                matches!(ours(&moved), Error::ShardKeyUpdate { .. }),
                "{moved:?}"
            );
            let Err(raw) = conn.inner() else {
                panic!("the raw connection under a table route");
            };
            assert!(matches!(ours(&raw), Error::Unrewritable { .. }), "{raw:?}");
            Ok::<_, diesel::result::Error>(())
        })
        .await
        .unwrap();
    });
    for shard in ["a", "b"] {
        assert_eq!(fleet.rows(shard), [0; 0], "the plain table of {shard}");
    }
}

#[derive(QueryableByName)]
struct Id {
    #[diesel(sql_type = diesel::sql_types::BigInt)]
    id: i64,
}

#[test]
fn tables_are_named_by_their_pattern() {
    let fleet = Fleet::new(&["a", "b"]);
    for (shard, tables) in [("a", ["items_00", "items_01"]), ("b", ["items_02", "items_03"])] {
        for table in tables {
            fleet
                .direct(shard)
                .batch_execute(&format!(
                    "CREATE TABLE {table} (id BIGINT PRIMARY KEY, note VARCHAR(60))"
                ))
                .unwrap();
        }
    }
    let keyspace = keyspace().table_pattern("items", "{name}_{global:02}");
    let shards = builder(&fleet, pool(2)).keyspace("k", keyspace).build();
    spawned(async move {
        let shards = shards.await.unwrap();
        let keys = shards.keyspace("k").unwrap();
        for id in 0..8_i64 {
            let found: i64 = keys
                .transaction_for(&id, async |conn| {
                    diesel::insert_into(items::table)
                        .values((items::id.eq(id), items::note.eq("x")))
                        .execute(conn)
                        .await?;
                    items::table.count().get_result(conn).await
                })
                .await
                .unwrap();
            assert_eq!(found, id / 4 + 1, "each table has every fourth");
        }
    });
    for (shard, table, expected) in [("a", "items_01", [2, 6]), ("b", "items_02", [1, 5])] {
        let query = diesel::sql_query(format!("SELECT id FROM {table} ORDER BY id"));
        let rows: Vec<Id> =
            diesel::RunQueryDsl::load(query, &mut fleet.direct(shard)).unwrap();
        let found: Vec<i64> = rows.into_iter().map(|row| row.id).collect();
        assert_eq!(found, expected);
    }
}

diesel::table! {
    #[sql_name = "items"]
    changed (id) {
        id -> BigInt,
        note -> Nullable<Text>,
    }
}

#[derive(Clone, Debug, PartialEq, Queryable, Identifiable, AsChangeset)]
#[diesel(table_name = changed)]
struct Item {
    id: i64,
    note: Option<String>,
}

#[test]
fn save_changes_goes_to_the_table_of_the_key() {
    let fleet = fleet();
    for part in 0..2 {
        let conn = &mut fleet.direct("a");
        conn.batch_execute(&format!("INSERT INTO items_{part} (id, note) VALUES ({}, 'old')", 2 * part))
            .unwrap();
    }
    let shards = builder(&fleet, pool(1)).keyspace("k", keyspace()).build();
    spawned(async move {
        let shards = shards.await.unwrap();
        let keys = shards.keyspace("k").unwrap();
        for id in [0_i64, 2] {
            let item = Item {
                id,
                note: Some(format!("of {id}")),
            };
            let saved: Item = keys
                .transaction_for(&id, async |conn| {
                    diesel_async::SaveChangesDsl::save_changes(&item, conn).await
                })
                .await
                .unwrap();
            assert_eq!(saved, item);
        }
        // Without a route that means tables it is refused like any other.
        let item = Item {
            id: 0,
            note: Some("lost".to_owned()),
        };
        let mut conn = shards.get_on("a").await.unwrap();
        let refused: QueryResult<Item> =
            diesel_async::SaveChangesDsl::save_changes(&item, &mut conn).await;
        let error = refused.unwrap_err();
        assert!(matches!(ours(&error), Error::NoTableRoute { .. }), "{error:?}");
    });
    assert_eq!(fleet.rows("a"), [0; 0], "the plain table");
}

#[test]
fn each_table_is_visited_once_whatever_becomes_of_the_others() {
    let fleet = fleet();
    let shards = builder(&fleet, pool(1)).keyspace("k", keyspace()).build();
    spawned(async move {
        let shards = shards.await.unwrap();
        let keys = shards.keyspace("k").unwrap();
        let added = keys
            .for_each_table("items", async |conn, place| {
                let id = i64::from(place.number) * 10 + i64::from(place.shard.as_str() == "b");
                diesel::insert_into(items::table)
                    .values((items::id.eq(id), items::note.eq("items")))
                    .execute(conn)
                    .await?;
                if (place.shard.as_str(), place.number) == ("a", 1) {
                    return Err(diesel::result::Error::RollbackTransaction);
                }
                let ids: Vec<i64> = items::table.select(items::id).load(conn).await?;
                Ok(ids)
            })
            .await
            .unwrap();
        let found: Vec<_> = added
            .into_iter()
            .map(|each| (each.place.shard.to_string(), each.place.number, each.result.ok()))
            .collect();
        let expected = [
            ("a", 0, Some(vec![0])),
            ("a", 1, None),
            ("b", 0, Some(vec![1])),
            ("b", 1, Some(vec![11])),
        ];
        assert_eq!(
            found,
            expected.map(|(shard, number, ids)| (shard.to_owned(), number, ids))
        );
        let unknown = keys
            .for_each_table("nothing", async |_, _| Ok::<_, Error>(()))
            .await;
        assert!(matches!(unknown, Err(Error::UnknownTable { .. })));
    });
    for shard in ["a", "b"] {
        assert_eq!(fleet.rows(shard), [0; 0], "the plain table of {shard}");
    }
}

#[test]
fn what_the_statement_does_not_show_and_what_is_stale_is_refused() {
    let fleet = fleet();
    for part in 2..4 {
        let table = format!("CREATE TABLE items_{part} (id BIGINT PRIMARY KEY, note VARCHAR(60))");
        fleet.direct("a").batch_execute(&table).unwrap();
    }
    let shards = builder(&fleet, pool(2)).keyspace("k", keyspace()).build();
    let twice = ["a", "b"]
        .into_iter()
        .fold(Topology::builder(), |topology, shard| {
            topology.shard(shard, fleet.url(shard))
        })
        .pool(pool(2))
        .keyspace(
            "k",
            KeyspaceConfig::new(RuleSpec::modulo(["a", "b"])).table("items", "id", 4),
        );
    spawned(async move {
        let shards = shards.await.unwrap();
        let keys = shards.keyspace("k").unwrap();
        let mut held = keys.get(&4_i64).await.unwrap();
        let unknown = held.batch_execute("INSERT INTO items VALUES (4, 'x')").await;
        let error = unknown.unwrap_err();
        assert!(matches!(ours(&error), Error::UnreadableShardKey { .. }), "{error:?}");
        let before = keys.route(&4_i64).unwrap();
        shards
            .reload_with(|_| twice.accept_placement("k"))
            .await
            .unwrap();
        let count: i64 = items::table.count().get_result(&mut held).await.unwrap();
        assert_eq!(count, 0);
        let inside = async {
            let mut fresh = shards.get().await?;
            Ok::<_, Error>(items::table.count().get_result::<i64>(&mut fresh).await)
        };
        let stale = inside.with_route(before).await.unwrap().unwrap_err();
        assert!(matches!(ours(&stale), Error::StaleRoute { .. }), "{stale:?}");
    });
}

/// Fails unless a statement was refused because it means other tables than the route.
#[track_caller]
pub(super) fn assert_mismatch<T>(result: QueryResult<T>, expected: TableMismatchCause) {
    let Err(error) = result else {
        panic!("it was sent");
    };
    assert!(
        matches!(ours(&error), Error::TableMismatch { shard, keyspace, cause, .. }
            if shard.as_str() == "a" && keyspace.as_str() == "k" && *cause == expected),
        "{error:?}"
    );
}

/// Statements that are made where this is called and are first polled under the route.
macro_rules! each_form {
    ($conn:expr, $route:expr) => {{
        let (conn, route) = (&mut *$conn, $route);
        let ids = items::table.select(items::id);
        let loaded = ids.load::<i64>(conn).with_route(route).await;
        let streamed = ids.load_stream::<i64>(conn).with_route(route).await;
        let streamed = streamed.map(drop);
        let boxed = ids.into_boxed().get_results::<i64>(conn);
        let boxed = boxed.with_route(route).await;
        let deleted = diesel::delete(items::table).execute(conn);
        let deleted = deleted.with_route(route).await;
        let by_text = diesel::sql_query("DELETE FROM items").execute(conn);
        let by_text = by_text.with_route(route).await;
        [
            loaded.map(drop),
            streamed,
            boxed.map(drop),
            deleted.map(drop),
            by_text.map(drop),
        ]
    }};
}

/// A row in each part of `a`: 0 and 2.
fn with_rows() -> Fleet {
    let fleet = fleet();
    for part in 0..2 {
        let row = format!("INSERT INTO items_{part} (id, note) VALUES ({}, 'x')", 2 * part);
        fleet.direct("a").batch_execute(&row).unwrap();
    }
    fleet
}

fn assert_rows(fleet: &Fleet) {
    for part in 0..2 {
        let query = diesel::sql_query(format!("SELECT id FROM items_{part}"));
        let rows: Vec<Id> =
            diesel::RunQueryDsl::load(query, &mut fleet.direct("a")).unwrap();
        let found: Vec<i64> = rows.into_iter().map(|row| row.id).collect();
        assert_eq!(found, [2 * part], "items_{part}");
    }
    for shard in ["a", "b"] {
        assert_eq!(fleet.rows(shard), [0; 0], "the plain table of {shard}");
    }
}

#[test]
fn a_statement_is_not_sent_under_another_route_than_it_was_made_under() {
    let fleet = with_rows();
    let shards = builder(&fleet, pool(2)).keyspace("k", keyspace()).build();
    spawned(async move {
        let shards = shards.await.unwrap();
        let keys = shards.keyspace("k").unwrap();
        let [zero, one, two] = [0_i64, 1, 2].map(|key| keys.route(&key).unwrap());
        let no_tables = shards.route("a").unwrap();
        let mut conn = shards.get_on("a").await.unwrap();
        // Made under one route and polled under another, under one without tables, under one to another
        // shard.
        for polled in [&two, &no_tables, &one] {
            let refused = async { each_form!(&mut conn, polled) };
            for refused in refused.with_route(&zero).await {
                assert_mismatch(refused, TableMismatchCause::Statement);
            }
        }
        // Made under none, or under one without tables.
        for refused in each_form!(&mut conn, &two) {
            assert_mismatch(refused, TableMismatchCause::Statement);
        }
        let refused = async { each_form!(&mut conn, &two) };
        for refused in refused.with_route(&no_tables).await {
            assert_mismatch(refused, TableMismatchCause::Statement);
        }
        // What was refused for want of tables and finds none is told so.
        for refused in each_form!(&mut conn, &no_tables) {
            let error = refused.unwrap_err();
            assert!(matches!(ours(&error), Error::NoTableRoute { .. }), "{error:?}");
        }
        // A new row of the key that the route means where it is polled.
        let row = diesel::insert_into(items::table).values(items::id.eq(6_i64));
        let refused = async { row.execute(&mut conn).with_route(&two).await };
        assert_mismatch(
            refused.with_route(&zero).await,
            TableMismatchCause::Statement,
        );

        // The connection is as it was. A statement keeps its tables where no route is in force, and
        // under the same one.
        let ids = items::table.select(items::id);
        let bare = zero.run(|| Ok::<_, Error>(ids.load::<i64>(&mut conn)));
        assert_eq!(bare.unwrap().await, Ok(vec![0]));
        let same = async { ids.load::<i64>(&mut conn).with_route(&two).await };
        assert_eq!(same.with_route(&two).await, Ok(vec![2]));
        let whole = async { ids.load::<i64>(&mut conn).await };
        assert_eq!(whole.with_route(&two).await, Ok(vec![2]));
        // A table that is not split is not the route's business.
        let name = whoami::table.select(whoami::name);
        let plain = async { name.first::<String>(&mut conn).with_route(&two).await };
        assert_eq!(plain.with_route(&zero).await.as_deref(), Ok("a"));

        // Nothing starts before the first poll.
        drop(zero.run(|| {
            let made = diesel::delete(items::table).execute(&mut conn);
            Ok::<_, Error>(drop(made))
        }));
        let left = async { ids.load::<i64>(&mut conn).await };
        assert_eq!(left.with_route(&zero).await, Ok(vec![0]));
    });
    assert_rows(&fleet);
}

#[test]
fn the_route_of_the_first_poll_holds_in_transactions_and_on_connections_of_the_stack() {
    let fleet = with_rows();
    let shards = builder(&fleet, pool(2)).keyspace("k", keyspace()).build();
    spawned(async move {
        let shards = shards.await.unwrap();
        let keys = shards.keyspace("k").unwrap();
        let [one, two] = [1_i64, 2].map(|key| keys.route(&key).unwrap());
        let to_b = shards.route("b").unwrap();
        let ids = items::table.select(items::id);
        let name = whoami::table.select(whoami::name);
        keys.transaction_for(&0_i64, async |conn| {
            for refused in each_form!(conn, &two) {
                assert_mismatch(refused, TableMismatchCause::Statement);
            }
            // It is not over for that.
            diesel::insert_into(items::table)
                .values(items::id.eq(4_i64))
                .execute(conn)
                .await?;
            assert_eq!(ids.order(items::id).load::<i64>(conn).await?, [0, 4]);
            diesel::delete(items::table.find(4_i64)).execute(conn).await?;
            Ok::<_, diesel::result::Error>(())
        })
        .await
        .unwrap();

        // A connection of the stack, and one in a transaction, work for no other shard.
        let mut conn = async { shards.get().await }.with_route(&two).await.unwrap();
        for polled in [&to_b, &one] {
            let read = name.first::<String>(&mut conn).with_route(polled).await;
            let counted = ids.load::<i64>(&mut conn).with_route(polled).await;
            for error in [read.map(drop), counted.map(drop)] {
                let error = error.unwrap_err();
                assert!(matches!(ours(&error), Error::RouteMismatch { .. }), "{error:?}");
            }
        }
        assert_eq!(name.first::<String>(&mut conn).await.as_deref(), Ok("a"));
        let mut named = shards.get_on("a").await.unwrap();
        let read = name.first::<String>(&mut named).with_route(&to_b).await;
        assert_eq!(read.as_deref(), Ok("a"));
        named
            .transaction(async |conn| {
                let read = name.first::<String>(conn).with_route(&to_b).await;
                let error = read.unwrap_err();
                assert!(matches!(ours(&error), Error::RouteMismatch { .. }), "{error:?}");
                name.first::<String>(conn).await
            })
            .await
            .unwrap();
    });
    assert_rows(&fleet);
}

#[test]
fn a_connection_of_a_key_does_not_pass_over_a_route_entered_since() {
    let fleet = with_rows();
    let shards = builder(&fleet, pool(2)).keyspace("k", keyspace()).build();
    spawned(async move {
        let shards = shards.await.unwrap();
        let keys = shards.keyspace("k").unwrap();
        let [zero, one, two] = [0_i64, 1, 2].map(|key| keys.route(&key).unwrap());
        let [to_a, to_b] = ["a", "b"].map(|shard| shards.route(shard).unwrap());
        let ids = items::table.select(items::id);
        let mut own = keys.get(&0_i64).await.unwrap();
        for other in [&two, &one] {
            // Made bare and within.
            for refused in each_form!(&mut own, other) {
                assert_mismatch(refused, TableMismatchCause::Connection);
            }
            let within = async {
                let batch = own.batch_execute("DELETE FROM items").await;
                let raw = own.inner().map(drop);
                (each_form!(&mut own, other), batch, raw)
            };
            let (each, batch, raw) = within.with_route(other).await;
            for refused in each.into_iter().chain([batch, raw]) {
                assert_mismatch(refused, TableMismatchCause::Connection);
            }
        }
        for same in [&zero, &to_b] {
            let loaded = async { ids.load::<i64>(&mut own).await };
            assert_eq!(loaded.with_route(same).await, Ok(vec![0]));
        }
        let none = async {
            let error = ids.load::<i64>(&mut own).await.unwrap_err();
            assert!(matches!(ours(&error), Error::NoTableRoute { .. }), "{error:?}");
            own.inner().map(drop)
        };
        assert_eq!(none.with_route(&to_a).await, Ok(()));
        // Made for its own tables.
        assert_mismatch(
            ids.load::<i64>(&mut own).with_route(&to_a).await,
            TableMismatchCause::Statement,
        );
        drop(own);
        let inside = async {
            let mut own = keys.get(&0_i64).await?;
            Ok::<_, Error>(ids.load::<i64>(&mut own).await?)
        };
        assert_eq!(inside.with_route(&two).await.unwrap(), [0]);
    });
    assert_rows(&fleet);
}
