//! What only libpq does: `COPY`, in and out, and notifications one by one.

use std::io::{BufRead, Read};

use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use diesel::result::Error as DieselError;
use diesel_sharded::{Error, KeyspaceConfig, RollbackReason, RuleSpec};

use super::backend::{Conn, Fleet, Sharded, ids, insert};
use super::surface::{both, through_both};
use super::surface_returning::WholeUser;
use crate::support::items;
use both::schema::{self, users};

fn copy_rows(conn: &mut both::Sharded, names: &[&str]) -> QueryResult<usize> {
    let rows: Vec<_> = names
        .iter()
        .map(|name| WholeUser {
            name,
            hair_color: None,
        })
        .collect();
    diesel::copy_from(users::table)
        .from_insertable(&rows)
        .execute(conn)
}

#[test]
fn rows_and_text_are_copied_in() {
    let fleet = both::fleet();
    let shards = fleet.manager();
    let mut conn = shards.get_on("a").unwrap();
    assert_eq!(copy_rows(&mut conn, &["Sean", "Tess"]), Ok(2));
    let text = diesel::copy_from(users::table)
        .from_raw_data((users::name, users::hair_color), |copy| {
            write!(copy, "Jim,black\nJoe,\n").map_err(|e| DieselError::SerializationError(e.into()))
        })
        .with_format(diesel::pg::CopyFormat::Csv)
        .execute(&mut conn);
    assert_eq!(text, Ok(2));
    assert_eq!(schema::names(&mut conn), ["Sean", "Tess", "Jim", "Joe"]);

    // A pooled connection of an outer pool stands behind its own type.
    let pool = shards.clone().into_pool();
    shards
        .on("b", || {
            let mut pooled = pool.get().unwrap();
            assert_eq!(copy_rows(&mut pooled, &["Ann"]), Ok(1));
            let rows = vec![WholeUser {
                name: "Bob",
                hair_color: None,
            }];
            diesel::copy_from(users::table)
                .from_insertable(&rows)
                .execute(&mut *pooled)?;
            assert_eq!(schema::names(&mut pooled), ["Ann", "Bob"]);
            Ok::<_, DieselError>(())
        })
        .unwrap();
}

#[test]
fn a_copy_is_part_of_its_transaction() {
    let fleet = both::fleet();
    let shards = fleet.manager_of_size(1);
    let undone = shards.transaction_on("a", |conn| {
        copy_rows(conn, &["Sean", "Tess"])?;
        assert_eq!(schema::names(conn).len(), 2);
        Err::<(), _>(DieselError::RollbackTransaction)
    });
    assert_eq!(undone, Err(DieselError::RollbackTransaction));
    // A copy that fails and is swallowed spoils the transaction, although Diesel does not notice.
    let swallowed = shards.transaction_on("a", |conn| {
        insert(conn, 1)?;
        let _ = copy_rows(conn, &["twice", "twice"]).unwrap_err();
        Ok::<_, Error>(())
    });
    assert!(matches!(
        swallowed,
        Err(Error::RolledBack {
            reason: RollbackReason::FailedStatement,
            ..
        })
    ));
    shards
        .transaction_on("a", |conn| copy_rows(conn, &["Jim"]))
        .unwrap();
    let mut conn = shards.get_on("a").unwrap();
    assert_eq!(schema::names(&mut conn), ["Jim"]);
    assert_eq!(ids(&mut conn), Ok(vec![]));
}

#[test]
fn a_copy_obeys_the_route() {
    let fleet = both::fleet();
    let shards = fleet.manager();
    let mut conn = shards.on("a", || shards.get()).unwrap();
    let error = shards
        .on("b", || copy_rows(&mut conn, &["Sean"]))
        .unwrap_err();
    assert!(matches!(
        Error::find(&error),
        Some(Error::RouteMismatch { .. })
    ));
}

#[test]
fn rows_are_copied_out_of_the_raw_connection() {
    fn text(conn: &mut Conn) -> String {
        let mut text = String::new();
        diesel::copy_to(users::table)
            .with_format(diesel::pg::CopyFormat::Csv)
            .load_raw(conn)
            .expect("the copy begins")
            .read_to_string(&mut text)
            .expect("the copy is read");
        text
    }

    let fleet = both::fleet();
    let shards = fleet.manager_of_size(1);
    let mut conn = shards.get_on("a").unwrap();
    schema::fill(&mut conn);
    assert_eq!(text(&mut conn), "1,Sean,black\n2,Tess,\n3,Jim,black\n");
    drop(conn);
    // Diesel leaves the connection unusable for a while; the next user does not notice.
    let mut conn = shards.get_on("a").unwrap();
    assert_eq!(schema::names(&mut conn), ["Sean", "Tess", "Jim"]);
    let names: Vec<String> = diesel::copy_to(users::table)
        .load::<schema::User, _>(conn.inner().unwrap())
        .unwrap()
        .map(|row| row.map(|user| user.name))
        .collect::<QueryResult<_>>()
        .unwrap();
    assert_eq!(names, ["Sean", "Tess", "Jim"]);

    let pool = shards.clone().into_pool();
    drop(conn);
    shards
        .on("a", || {
            let mut pooled = pool.get().unwrap();
            assert_eq!(text(&mut pooled).lines().count(), 3);
            Ok::<_, DieselError>(())
        })
        .unwrap();
    insert(&mut shards.get_on("a").unwrap(), 1).unwrap();
}

#[test]
fn a_copy_out_within_a_transaction_does_not_spoil_it() {
    fn copy_all(conn: &mut Conn) -> QueryResult<usize> {
        let text = diesel::copy_to(crate::support::items::table).load_raw(conn)?;
        Ok(text.lines().count())
    }

    let fleet = Fleet::new(&["a"]);
    // What holds on a plain connection ..
    let mut plain = fleet.direct("a");
    let copied = plain.transaction(|conn| {
        insert(conn, 1)?;
        copy_all(conn)
    });
    assert_eq!((copied, fleet.rows("a")), (Ok(1), vec![1]));
    // .. holds here.
    let shards = fleet.manager_of_size(1);
    let copied = shards.transaction_on("a", |conn| {
        insert(conn, 2)?;
        copy_all(conn)
    });
    assert_eq!((copied, fleet.rows("a")), (Ok(2), vec![1, 2]));
}

#[test]
fn a_copy_out_that_is_not_read_to_its_end_does_not_reach_the_next_user() {
    let fleet = Fleet::new(&["a"]);
    let shards = fleet.manager_of_size(1);
    diesel::sql_query(
        "INSERT INTO items SELECT n, repeat('x', 1000) FROM generate_series(1, 5000) n",
    )
    .execute(&mut fleet.direct("a"))
    .unwrap();
    {
        let mut conn = shards.get_on("a").unwrap();
        let mut first = [0; 10];
        diesel::copy_to(crate::support::items::table)
            .load_raw(conn.inner().unwrap())
            .unwrap()
            .read_exact(&mut first)
            .unwrap();
    }
    let mut conn = shards.get_on("a").unwrap();
    assert_eq!(ids(&mut conn).map(|ids| ids.len()), Ok(5000));
}

#[test]
fn notifications_arrive() {
    through_both!(|conn| {
        conn.batch_execute("LISTEN news").unwrap();
        conn.batch_execute("NOTIFY news, 'hello'").unwrap();
        let news: Vec<String> = conn
            .notifications_iter()
            .map(|notification| notification.map(|notification| notification.payload))
            .collect::<QueryResult<_>>()
            .unwrap();
        assert_eq!(news, ["hello"]);
        conn.batch_execute("UNLISTEN news").unwrap();
    });
}

fn copy_in(conn: &mut Sharded, rows: &str) -> QueryResult<usize> {
    let rows = rows.to_owned();
    diesel::copy_from(items::table)
        .from_raw_data(items::table, move |target| {
            let written = target.write_all(rows.as_bytes());
            written.map_err(|error| DieselError::SerializationError(error.into()))
        })
        .execute(conn)
}

#[test]
fn a_failed_copy_that_is_swallowed_is_never_a_silent_rollback() {
    let fleet = Fleet::new(&["a"]);
    let shards = fleet.manager_of_size(1);
    let error = shards
        .transaction_on("a", |conn| {
            insert(conn, 1)?;
            let _ = copy_in(conn, "not a number\t\\N\n").unwrap_err();
            Ok::<_, Error>(())
        })
        .unwrap_err();
    assert!(
        matches!(
            error,
            Error::RolledBack {
                reason: RollbackReason::FailedStatement,
                ..
            }
        ),
        "{error:?}"
    );
    assert_eq!(fleet.rows("a"), [0; 0]);
    // The good case, in the same connection.
    shards
        .transaction_on("a", |conn| {
            Ok::<_, Error>(copy_in(conn, "1\tone\n2\t\\N\n")?)
        })
        .unwrap();
    assert_eq!(fleet.rows("a"), [1, 2]);
    fleet.assert_nothing_open("a");
}

#[test]
fn a_failed_copy_outside_a_transaction_leaves_a_clean_connection() {
    let fleet = Fleet::new(&["a"]);
    let shards = fleet.manager_of_size(1);
    for id in 1..4 {
        let mut conn = shards.get_on("a").unwrap();
        let _ = copy_in(&mut conn, "nonsense\n").unwrap_err();
        drop(conn);
        insert(&mut shards.get_on("a").unwrap(), id).unwrap();
    }
    assert_eq!(fleet.rows("a"), [1, 2, 3]);
    fleet.assert_nothing_open("a");
}

mod shop {
    diesel::table! {
        shop.orders (id) {
            id -> BigInt,
            user_id -> BigInt,
        }
    }
}

/// `COPY` reaches the connection beneath, where nothing is rewritten.
#[test]
fn nothing_is_copied_into_the_logical_table() {
    use shop::orders;
    use std::io::Write;

    fn row(copy: &mut dyn Write) -> QueryResult<()> {
        writeln!(copy, "7\t1").map_err(|e| DieselError::SerializationError(e.into()))
    }
    fn into_orders(conn: &mut Sharded) -> Error {
        let copy = diesel::copy_from(orders::table).from_raw_data(orders::table, row);
        copy.execute(conn).unwrap_err().into()
    }

    let fleet = Fleet::new(&["a"]);
    let direct = &mut fleet.direct("a");
    let mut batch = "CREATE SCHEMA shop;".to_owned();
    let tables = ["shop.orders", "shop.orders_0", "shop.orders_1"];
    for table in tables {
        batch += &format!("CREATE TABLE {table} (id BIGINT PRIMARY KEY, user_id BIGINT NOT NULL);");
    }
    direct.batch_execute(&batch).unwrap();
    let keyspace = KeyspaceConfig::new(RuleSpec::modulo(["a"])).table("shop.orders", "user_id", 2);
    let shards = fleet.builder().keyspace("shop", keyspace).build().unwrap();
    let mut conn = shards.get_on("a").unwrap();
    let refused = into_orders(&mut conn);
    assert!(matches!(refused, Error::NoTableRoute { .. }), "{refused}");
    let refused = shards.on("a", || Ok::<_, Error>(into_orders(&mut shards.get()?)));
    let refused = refused.unwrap();
    assert!(matches!(refused, Error::NoTableRoute { .. }), "{refused}");
    let keyspace = shards.keyspace("shop").unwrap();
    let refused = keyspace.on(&1, || Ok::<_, Error>(into_orders(&mut shards.get()?)));
    let refused = refused.unwrap();
    assert!(matches!(refused, Error::Unrewritable { .. }), "{refused}");
    for table in tables {
        let rows = diesel::sql_query(format!("SELECT id FROM {table}")).execute(direct);
        assert_eq!(rows, Ok(0), "{table}");
    }
    // A table that is not split is copied into as ever.
    diesel::delete(items::table).execute(direct).unwrap();
    assert_eq!(copy_in(&mut conn, "7\tnote\n"), Ok(1));
}
