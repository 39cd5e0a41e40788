//! Code that was written for the backend's own connection, or for whatever dereferences to it.

use diesel::connection::Connection;
use diesel::prelude::*;

use super::super::surface::generic_code::for_any;
use super::schema::{self, NewUser, users};
use super::{Conn, Fleet, both, through_both};

/// A repository written for the backend's own connection.
fn for_plain(conn: &mut Conn) -> QueryResult<i64> {
    diesel::insert_into(users::table)
        .values(&NewUser {
            name: "plain",
            hair_color: None,
        })
        .execute(conn)?;
    users::table.count().get_result(conn)
}

/// The same for whatever dereferences to a plain connection.
fn for_deref(mut conn: impl std::ops::DerefMut<Target = Conn>) -> QueryResult<i64> {
    users::table.count().get_result(&mut *conn)
}

#[test]
fn functions_for_plain_and_for_any_connections_take_ours() {
    through_both!(|conn| {
        assert_eq!(for_plain(conn), Ok(1));
        assert_eq!(for_any(conn), Ok(2));
        assert_eq!(schema::names(conn), ["plain", "any"]);
        conn.transaction(|conn| for_plain(conn).map(|_| ()))
            .unwrap_err();
        conn.transaction(|conn| {
            diesel::delete(users::table).execute(conn)?;
            for_plain(conn)
        })
        .unwrap();
        assert_eq!(schema::names(conn), ["plain"]);
    });
}

#[test]
fn functions_for_what_dereferences_to_a_plain_connection_take_ours() {
    let fleet = Fleet::new(&["a"]);
    schema::create(&mut fleet.direct("a"));
    let shards = fleet.manager();
    for_plain(&mut shards.get_on("a").unwrap()).unwrap();
    assert_eq!(for_deref(shards.get_on("a").unwrap()), Ok(1));
    assert_eq!(for_deref(&mut *shards.get_on("a").unwrap()), Ok(1));
}
