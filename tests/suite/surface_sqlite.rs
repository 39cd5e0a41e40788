//! What an application does with a connection that only SQLite has.

use diesel::connection::{Connection, SimpleConnection};
use diesel::prelude::*;
use diesel::result::Error as DieselError;
use diesel::sql_types::Text;
use diesel_sharded::Error;

use super::backend::{Fleet, Sharded, ids, insert};
use super::surface::{both, through_both};
use crate::support::items;
use both::schema::{self, NewUser, users};

#[test]
fn insert_or_ignore_and_replace() {
    through_both!(|conn| {
        schema::fill(conn);
        let sean = NewUser {
            name: "Sean",
            hair_color: Some("white"),
        };
        let ignored = diesel::insert_or_ignore_into(users::table)
            .values(&sean)
            .execute(conn);
        assert_eq!(ignored, Ok(0));
        let replaced = diesel::replace_into(users::table)
            .values((users::id.eq(3), users::name.eq("Jimmy")))
            .execute(conn);
        assert_eq!(replaced, Ok(1));
        assert_eq!(schema::names(conn), ["Sean", "Tess", "Jimmy"]);
    });
}

#[test]
fn immediate_and_exclusive_transactions() {
    through_both!(|conn| {
        let immediate = conn.immediate_transaction(|conn| {
            insert(conn, 1)?;
            // What is nested is a savepoint; what wants to be outermost is refused.
            conn.transaction(|conn| insert(conn, 2))?;
            let nested = conn.immediate_transaction(|_| Ok::<_, DieselError>(()));
            assert!(matches!(nested, Err(DieselError::AlreadyInTransaction)));
            let nested = conn.exclusive_transaction(|_| Ok::<_, DieselError>(()));
            assert!(matches!(nested, Err(DieselError::AlreadyInTransaction)));
            Ok::<_, DieselError>(())
        });
        assert_eq!(immediate, Ok(()));
        let exclusive = conn.exclusive_transaction(|conn| {
            insert(conn, 3)?;
            Err::<(), _>(DieselError::RollbackTransaction)
        });
        assert_eq!(exclusive, Err(DieselError::RollbackTransaction));
        assert_eq!(ids(conn), Ok(vec![1, 2]));
    });
}

#[test]
fn an_immediate_transaction_holds_the_write_lock_from_its_start() {
    let fleet = Fleet::new(&["a"]);
    let shards = fleet.manager();
    let mut conn = shards.get_on("a").unwrap();
    conn.immediate_transaction(|_| {
        assert_eq!(fleet.open_transactions("a"), 1);
        Ok::<_, DieselError>(())
    })
    .unwrap();
    assert_eq!(fleet.open_transactions("a"), 0);
    shards
        .transaction_builder("a")
        .immediate()
        .run(|_| {
            assert_eq!(fleet.open_transactions("a"), 1);
            Ok::<_, Error>(())
        })
        .unwrap();
    // It is pinned like any other: no second one on the side.
    drop(conn);
    shards
        .transaction_on("a", |_| {
            let mut other = shards.independent(|| shards.get_on("a"))?;
            let refused = other.immediate_transaction(|_| Ok::<_, Error>(()));
            assert!(
                matches!(refused, Err(Error::AlreadyInTransaction { .. })),
                "{refused:?}"
            );
            Ok::<_, Error>(())
        })
        .unwrap();
}

#[test]
fn transactions_within_a_test_transaction_are_savepoints() {
    let fleet = Fleet::new(&["a"]);
    let shards = fleet.manager_of_size(1);
    let mut conn = shards.get_on("a").unwrap();
    conn.begin_test_transaction().unwrap();
    conn.immediate_transaction(|conn| insert(conn, 1)).unwrap();
    conn.exclusive_transaction(|conn| {
        insert(conn, 2)?;
        Err::<(), _>(DieselError::RollbackTransaction)
    })
    .unwrap_err();
    assert_eq!(ids(&mut conn), Ok(vec![1]));
}

#[test]
fn a_database_in_memory_is_established() {
    let mut conn = Sharded::establish(":memory:").unwrap();
    conn.batch_execute("CREATE TABLE items (id INTEGER PRIMARY KEY, note TEXT)")
        .unwrap();
    conn.transaction(|conn| insert(conn, 1)).unwrap();
    assert!(conn.batch_execute("NONSENSE").is_err());
    assert_eq!(ids(&mut conn), Ok(vec![1]));
    let mut other = Sharded::establish(":memory:").unwrap();
    assert!(ids(&mut other).is_err(), "it is another database");
}

#[test]
fn a_view_into_another_database_of_the_same_connection() {
    // ATTACH is a setting of the session: it stays within the checkout that uses it.
    let fleet = Fleet::new(&["a", "b"]);
    let shards = fleet.manager();
    insert(&mut fleet.direct("b"), 7).unwrap();
    let mut conn = shards.get_on("a").unwrap();
    diesel::sql_query("ATTACH DATABASE ? AS other")
        .bind::<Text, _>(fleet.url("b"))
        .execute(&mut conn)
        .unwrap();
    let copied =
        diesel::sql_query("INSERT INTO main.items SELECT * FROM other.items").execute(&mut conn);
    assert_eq!(copied, Ok(1));
    diesel::sql_query("DETACH DATABASE other")
        .execute(&mut conn)
        .unwrap();
    assert_eq!(items::table.count().get_result(&mut conn), Ok(1_i64));
}
