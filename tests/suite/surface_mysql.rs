//! What an application does with a connection that only MySQL and MariaDB have.

use diesel::connection::CacheSize;
use diesel::dsl::DuplicatedKeys;
use diesel::prelude::*;
use diesel::result::Error as DieselError;
use diesel::sql_types::VarChar;
use diesel_sharded::Error;

use super::backend::{Fleet, Isolation, Sharded, insert};
use super::surface::{both, through_both};
use both::schema::{self, NewUser, User, users};

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
        // One row deleted, one inserted.
        assert_eq!(replaced, Ok(2));
        assert_eq!(schema::names(conn), ["Sean", "Tess", "Jimmy"]);
    });
}

#[test]
fn a_row_that_is_there_is_updated_or_left_alone() {
    through_both!(|conn| {
        schema::fill(conn);
        let sean = NewUser {
            name: "Sean",
            hair_color: Some("white"),
        };
        let nothing = diesel::insert_into(users::table)
            .values(&sean)
            .on_conflict_do_nothing();
        nothing.execute(conn).unwrap();
        let updated = diesel::insert_into(users::table)
            .values(&sean)
            .on_conflict(DuplicatedKeys)
            .do_update()
            .set(users::hair_color.eq("white"))
            .execute(conn);
        assert!(updated.is_ok_and(|rows| rows > 0));
        let sean: User = users::table.find(1).first(conn).unwrap();
        assert_eq!(
            (sean.name.as_str(), sean.hair_color.as_deref()),
            ("Sean", Some("white"))
        );
        assert_eq!(schema::names(conn).len(), 3);
    });
}

#[test]
fn rows_are_locked() {
    through_both!(|conn| {
        schema::fill(conn);
        conn.transaction(|conn| {
            let locked: User = users::table.find(1).for_update().first(conn)?;
            assert_eq!(locked.name, "Sean");
            // `for_share` is of MySQL 8; MariaDB does not know the words.
            let free: Vec<User> = users::table.for_update().skip_locked().load(conn)?;
            assert_eq!(free.len(), 3);
            Ok::<_, DieselError>(())
        })
        .unwrap();
    });
}

#[derive(QueryableByName)]
struct Status {
    #[diesel(sql_type = VarChar, column_name = "Value")]
    value: String,
}

/// How many statements the session has prepared, says the server.
fn prepared(conn: &mut Sharded) -> u32 {
    let status: Status = diesel::sql_query("SHOW SESSION STATUS LIKE 'Com_stmt_prepare'")
        .get_result(conn)
        .expect("a number");
    status.value.parse().expect("a number")
}

#[test]
fn the_server_prepares_a_cached_statement_once() {
    let fleet = Fleet::new(&["a"]);
    let shards = fleet.manager_of_size(1);
    let mut before = 0;
    for id in 0..4 {
        let mut conn = shards.get_on("a").unwrap();
        insert(&mut conn, id).unwrap();
        let now = prepared(&mut conn);
        if id > 0 {
            // Only the question itself, which is text.
            assert_eq!(now - before, 1);
        }
        before = now;
    }
    let mut conn = shards.get_on("a").unwrap();
    conn.set_prepared_statement_cache_size(CacheSize::Disabled);
    for id in 10..13 {
        insert(&mut conn, id).unwrap();
    }
    assert_eq!(prepared(&mut conn) - before, 4);
}

#[test]
fn transactions_with_options() {
    let fleet = Fleet::new(&["a"]);
    let shards = fleet.manager_of_size(1);
    for level in [
        Isolation::ReadCommitted,
        Isolation::RepeatableRead,
        Isolation::Serializable,
    ] {
        shards
            .transaction_builder("a")
            .isolation(level)
            .run(|conn| diesel::delete(crate::support::items::table).execute(conn))
            .unwrap();
    }
    let refused = shards
        .transaction_builder("a")
        .read_only()
        .run(|conn| insert(conn, 1).map_err(Error::from));
    assert!(matches!(
        refused,
        Err(Error::Database {
            source: DieselError::DatabaseError(..),
            ..
        })
    ));
    let refused = shards
        .transaction_builder("a")
        .immediate()
        .run(|_| Ok::<_, Error>(()));
    assert!(matches!(refused, Err(Error::Unsupported { .. })));
    insert(&mut shards.get_on("a").unwrap(), 2).unwrap();
    assert_eq!(fleet.rows("a"), [2]);
}
