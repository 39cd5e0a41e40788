//! The backend's own connection inside ours.

use diesel::connection::{Connection, SimpleConnection, TransactionManager};
use diesel::result::Error as DieselError;
use diesel_sharded::{Error, RollbackReason};

use super::{Conn, Fleet, both, ids, insert, through_both, whoami};
use crate::support::ours;

#[test]
fn it_is_reached_in_three_ways() {
    through_both!(|conn| {
        insert(conn.inner().unwrap(), 1).unwrap();
        {
            let plain: &mut Conn = conn;
            insert(plain, 2).unwrap();
        }
        assert_eq!(ids(conn), Ok(vec![1, 2]));
    });
    let fleet = Fleet::new(&["a"]);
    let mut conn = fleet.manager().get_on("a").unwrap();
    insert(&mut *conn, 1).unwrap();
    let plain: &Conn = &conn;
    let _ = plain;
    assert_eq!(ids(&mut conn), Ok(vec![1]));
}

#[test]
fn a_transaction_left_open_on_it_does_not_reach_the_pool() {
    let fleet = Fleet::new(&["a"]);
    let shards = fleet.manager_of_size(1);
    for raw in [
        (|conn| insert(conn, 1).map(|_| ())) as fn(&mut Conn) -> Result<(), DieselError>,
        |conn| conn.batch_execute("SELECT 1"),
        |_| Ok(()),
    ] {
        let mut conn = shards.get_on("a").unwrap();
        {
            let plain: &mut Conn = &mut conn;
            plain.batch_execute("BEGIN").unwrap();
            raw(plain).unwrap();
        }
        drop(conn);
        fleet.assert_nothing_open("a");
        assert_eq!(ids(&mut shards.get_on("a").unwrap()), Ok(vec![]));

        let mut conn = shards.get_on("a").unwrap();
        let plain = conn.inner().unwrap();
        <Conn as Connection>::TransactionManager::begin_transaction(plain).unwrap();
        raw(plain).unwrap();
        drop(conn);
        fleet.assert_nothing_open("a");
        assert_eq!(ids(&mut shards.get_on("a").unwrap()), Ok(vec![]));
    }
}

#[test]
fn what_it_does_to_the_transaction_around_it_is_noticed() {
    let fleet = Fleet::new(&["a"]);
    let shards = fleet.manager_of_size(1);
    // A failed statement whose error nobody lets out: PostgreSQL commits nothing after that.
    let swallowed = shards.transaction_on("a", |conn| {
        insert(conn, 1)?;
        let _ = conn.inner()?.batch_execute("NONSENSE");
        Ok::<_, Error>(())
    });
    if super::NAME == "postgres" {
        let error = swallowed.unwrap_err();
        assert!(matches!(
            error,
            Error::RolledBack {
                reason: RollbackReason::FailedStatement,
                ..
            }
        ));
        assert_eq!(fleet.rows("a"), [0_i64; 0]);
    } else {
        swallowed.unwrap();
        assert_eq!(fleet.rows("a"), [1]);
    }
    // A COMMIT of its own: on MySQL the client library does not show it.
    if super::NAME != "mysql" {
        let ended = shards.transaction_on("a", |conn| {
            insert(conn, 2)?;
            conn.inner()?.batch_execute("COMMIT")
        });
        assert!(matches!(
            ours(&ended.unwrap_err()),
            Error::RolledBack {
                reason: RollbackReason::EndedByHand,
                ..
            }
        ));
    }
    insert(&mut shards.get_on("a").unwrap(), 3).unwrap();
}

#[test]
fn it_is_refused_where_a_statement_would_be() {
    let fleet = Fleet::new(&["a", "b"]);
    let shards = fleet.manager();
    let mut conn = shards.on("a", || shards.get()).unwrap();
    let under_b = shards.route("b").unwrap().enter().unwrap();
    let error = conn.inner().map(|_| ()).unwrap_err();
    assert!(matches!(ours(&error), Error::RouteMismatch { .. }));
    let refused = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _: &mut Conn = &mut conn;
    }));
    let text = *refused.unwrap_err().downcast::<String>().unwrap();
    assert!(
        text.contains("belongs to shard a") && text.contains("names b"),
        "{text}"
    );
    let refused = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _: &Conn = &conn;
    }));
    assert!(refused.is_err());
    drop(under_b);
    conn.inner().unwrap();
}

#[test]
fn dereferencing_under_another_route_panics_with_the_error_text() {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use diesel_sharded::blocking::NodeConnection;

    let fleet = Fleet::new(&["a", "b"]);
    let shards = fleet.manager();
    let mut conn = shards.on("a", || shards.get()).unwrap();
    shards
        .on("b", || {
            let panic = catch_unwind(AssertUnwindSafe(|| {
                let _ = insert(&mut *conn, 1);
                fn raw(conn: &mut Conn) {
                    let _ = insert(conn, 1);
                }
                raw(&mut conn);
            }));
            let text = panic.unwrap_err().downcast::<String>().unwrap();
            assert!(text.contains("belongs to shard a"), "{text}");
            let panic = catch_unwind(AssertUnwindSafe(|| conn.kind()));
            assert!(panic.is_err(), "shared access is checked too");
            Ok::<_, Error>(())
        })
        .unwrap();
    assert_eq!(fleet.rows("a"), [0; 0]);
    assert_eq!(whoami(&mut *conn).unwrap(), "a");
}

#[test]
fn it_is_refused_in_a_transaction_under_another_route_however_the_connection_was_taken() {
    fn panics(f: impl FnOnce()) -> String {
        let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(f));
        *panic.unwrap_err().downcast::<String>().unwrap()
    }

    let fleet = Fleet::new(&["a", "b"]);
    let shards = fleet.manager();
    let mut conn = shards.get_on("a").unwrap();
    shards.on("b", || conn.inner().map(|_| ())).unwrap();
    conn.transaction(|conn| {
        let _route = shards.route("b").unwrap().enter().unwrap();
        let error = conn.inner().map(|_| ()).unwrap_err();
        assert!(matches!(ours(&error), Error::RouteMismatch { .. }));
        let text = panics(|| {
            let _: &mut Conn = conn;
        });
        assert!(text.contains("names b"), "{text}");
        let text = panics(|| {
            let _: &Conn = conn;
        });
        assert!(text.contains("names b"), "{text}");
        Ok::<_, DieselError>(())
    })
    .unwrap();
}

#[test]
fn an_unbound_handle_has_none_and_says_why() {
    let fleet = Fleet::new(&["a"]);
    let shards = fleet.manager();
    let pool = shards.clone().into_pool();
    let mut conn = pool.get().unwrap();
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _: &mut Conn = &mut conn;
    }));
    let text = *panicked.unwrap_err().downcast::<String>().unwrap();
    assert!(text.contains("no route is in force"), "{text}");
    shards
        .on("a", || {
            let plain: &mut Conn = &mut conn;
            insert(plain, 1)
        })
        .unwrap();
    assert_eq!(fleet.rows("a"), [1]);
}
