//! Code that was written for any connection, or for a boxed one.

use std::any::TypeId;

use diesel::connection::{BoxableConnection, Connection, LoadConnection, SimpleConnection};
use diesel::prelude::*;
use diesel::r2d2::R2D2Connection;
use diesel::result::Error as DieselError;

use super::both;
use super::schema::{self, NewUser, users};
use super::{Db, Fleet, Pooled, Sharded, ids, insert};

/// A repository written for any connection of the backend.
pub(crate) fn for_any<C: LoadConnection<Backend = Db>>(conn: &mut C) -> QueryResult<i64> {
    conn.transaction(|conn| {
        diesel::insert_into(users::table)
            .values(&NewUser {
                name: "any",
                hair_color: None,
            })
            .execute(conn)?;
        users::table.count().get_result(conn)
    })
}

/// A repository that owns its connection.
struct Repository<C> {
    conn: C,
}

impl<C: LoadConnection<Backend = Db>> Repository<C> {
    fn count(&mut self) -> QueryResult<i64> {
        users::table.count().get_result(&mut self.conn)
    }
}

fn sends<T: Send + 'static>(value: T) -> T {
    value
}

#[test]
fn functions_for_any_connection_take_ours() {
    through_both!(|conn| {
        assert_eq!(for_any(conn), Ok(1));
        assert_eq!(schema::names(conn), ["any"]);
        conn.transaction(|conn| for_any(conn).map(|_| ()))
            .unwrap_err();
        conn.transaction(|conn| {
            diesel::delete(users::table).execute(conn)?;
            for_any(conn)
        })
        .unwrap();
        assert_eq!(schema::names(conn), ["any"]);
    });
}

#[test]
fn owned_connections_move_into_structures_and_threads() {
    let fleet = Fleet::new(&["a"]);
    schema::create(&mut fleet.direct("a"));
    let shards = fleet.manager();
    let mut repository = Repository {
        conn: shards.get_on("a").unwrap(),
    };
    for_any(&mut repository.conn).unwrap();
    assert_eq!(repository.count(), Ok(1));

    let conn: Sharded = sends(shards.get_on("a").unwrap());
    let count = std::thread::spawn(move || Repository { conn }.count());
    assert_eq!(count.join().unwrap(), Ok(1));

    let pool = shards.clone().into_pool();
    let _route = shards.route("a").unwrap().enter().unwrap();
    let conn: Pooled = sends(pool.get().unwrap());
    let count = std::thread::spawn(move || Repository { conn }.count());
    assert_eq!(count.join().unwrap(), Ok(1));
}

#[test]
fn boxed_connections() {
    let fleet = Fleet::new(&["a", "b"]);
    let shards = fleet.manager();
    let pool = shards.clone().into_pool();
    let pooled: Pooled = shards
        .on("b", || Ok::<_, DieselError>(pool.get().unwrap()))
        .unwrap();
    let mut boxed: Vec<Box<dyn BoxableConnection<Db>>> =
        vec![Box::new(shards.get_on("a").unwrap()), Box::new(pooled)];
    for conn in &mut boxed {
        conn.batch_execute("INSERT INTO items (id) VALUES (7)")
            .unwrap();
    }
    let sharded: &mut Sharded = boxed[0].downcast_mut().unwrap();
    assert_eq!(ids(sharded), Ok(vec![7]));
    // What a pool hands out need not be a type of its own.
    let one_type = TypeId::of::<Sharded>() == TypeId::of::<Pooled>();
    assert_eq!(boxed[0].downcast_ref::<Pooled>().is_some(), one_type);
    let pooled: &mut Pooled = boxed[1].downcast_mut().unwrap();
    assert_eq!(ids(pooled), Ok(vec![7]));
    drop(boxed);
    assert_eq!((fleet.rows("a"), fleet.rows("b")), (vec![7], vec![7]));
}

#[test]
fn trait_objects_of_the_simple_kind() {
    fn set_up(conn: &mut impl SimpleConnection) -> QueryResult<()> {
        conn.batch_execute("INSERT INTO items (id) VALUES (1); INSERT INTO items (id) VALUES (2)")
    }
    through_both!(|conn| {
        set_up(conn).unwrap();
        assert_eq!(ids(conn), Ok(vec![1, 2]));
        assert!(conn.batch_execute("NONSENSE").is_err());
        assert_eq!(ids(conn), Ok(vec![1, 2]));
    });
}

#[test]
fn it_is_established_like_any_connection() {
    let fleet = Fleet::new(&["a"]);
    schema::create(&mut fleet.direct("a"));
    let mut conn = Sharded::establish(&fleet.url("a")).unwrap();
    schema::fill(&mut conn);
    assert_eq!(for_any(&mut conn), Ok(4));

    // The way in which suites written for a plain connection keep their tests apart.
    conn.begin_test_transaction().unwrap();
    conn.transaction(|conn| diesel::delete(schema::posts::table).execute(conn))
        .unwrap();
    conn.transaction(|conn| {
        diesel::delete(users::table).execute(conn)?;
        Err::<(), _>(DieselError::RollbackTransaction)
    })
    .unwrap_err();
    assert_eq!(schema::names(&mut conn).len(), 4);
    drop(conn);
    let mut conn = Sharded::establish(&fleet.url("a")).unwrap();
    let posts: QueryResult<i64> = schema::posts::table.count().get_result(&mut conn);
    assert_eq!(posts, Ok(3));

    // Several can be open at once, each a connection of its own.
    let mut other = Sharded::establish(&fleet.url("a")).unwrap();
    insert(&mut other, 1).unwrap();
    assert_eq!(ids(&mut conn), Ok(vec![1]));
}

#[test]
fn establishing_fails_like_any_connection() {
    let url = match super::NAME {
        "sqlite" => "/nowhere/at/all.db",
        "postgres" => "postgres://nobody@127.0.0.1:1/nothing",
        _ => "mysql://nobody@127.0.0.1:1/nothing",
    };
    let error = Sharded::establish(url).map(|_| ()).unwrap_err();
    assert!(
        matches!(error, diesel::ConnectionError::BadConnection(_)),
        "{error:?}"
    );
    let error = Sharded::establish("no-such-scheme://x")
        .map(|_| ())
        .unwrap_err();
    assert!(
        matches!(error, diesel::ConnectionError::InvalidConnectionUrl(_)),
        "{error:?}"
    );
}

#[test]
fn pools_can_ask_after_its_health() {
    through_both!(|conn| {
        conn.ping().unwrap();
        assert!(!conn.is_broken());
        assert!(conn.batch_execute("NONSENSE").is_err());
        assert!(!conn.is_broken());
        conn.transaction(|conn| {
            // As on a plain connection: a pool must not take it back in this state.
            assert!(conn.is_broken());
            conn.ping()
        })
        .unwrap();
        assert!(!conn.is_broken());
        conn.begin_test_transaction().unwrap();
        assert!(!conn.is_broken());
        conn.ping().unwrap();
    });
}
