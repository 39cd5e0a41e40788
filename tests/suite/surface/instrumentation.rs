//! The user's instrumentation hears what it would hear on a plain connection, and stays with the
//! handle it was given to.

use std::cell::RefCell;

use diesel::connection::{
    Connection, Instrumentation, InstrumentationEvent, SimpleConnection,
    set_default_instrumentation,
};
use diesel::prelude::*;
use diesel::result::Error as DieselError;

use super::both;
use super::recorder::{Recorder, describe};
use super::schema::{self, User, users};
use super::{Fleet, Pool, backend, ids, insert, plain, whoami};

use crate::support::{eventually, items};

/// A bit of everything that emits events.
macro_rules! work {
    ($conn:expr) => {{
        let conn = $conn;
        schema::fill(conn);
        for _ in 0..2 {
            users::table.find(2).first::<User>(conn).unwrap();
        }
        diesel::sql_query("SELECT 1").execute(conn).unwrap();
        conn.transaction(|conn| {
            conn.batch_execute("SELECT 2")?;
            conn.transaction(|conn| insert(conn, 1))?;
            let _ = conn.transaction(|conn| {
                insert(conn, 2)?;
                Err::<(), _>(DieselError::RollbackTransaction)
            });
            let failed = conn.transaction(|conn| insert(conn, 1));
            assert!(failed.is_err());
            diesel::delete(items::table).execute(conn)
        })
        .unwrap();
        conn.transaction(|conn| {
            conn.batch_execute("NONSENSE")?;
            Ok::<_, DieselError>(())
        })
        .unwrap_err();
        conn.test_transaction(|conn| insert(conn, 3));
        assert!(conn.batch_execute("NONSENSE").is_err());
        let rows = users::table
            .order(users::id)
            .load_iter::<User, diesel::connection::DefaultLoadingMode>(conn)
            .unwrap();
        assert_eq!(rows.count(), 3);
    }};
}

#[test]
fn it_hears_what_it_hears_on_a_plain_connection() {
    let plain = {
        let fleet = Fleet::new(&["c"]);
        let mut conn = plain(&fleet.url("c")).unwrap();
        schema::create(&mut fleet.direct("c"));
        let recorder = Recorder::default();
        conn.set_instrumentation(recorder.clone());
        work!(&mut conn);
        recorder.take()
    };
    assert!(plain.len() > 40, "{plain:#?}");
    through_both!(|conn| {
        let recorder = Recorder::default();
        conn.set_instrumentation(recorder.clone());
        work!(&mut *conn);
        let heard = recorder.take();
        // On PostgreSQL the nonblocking driver asks together with a COMMIT whether there is anything
        // to commit, where a text may have ended the transaction.
        let asked = "SAVEPOINT diesel_sharded_probe; COMMIT";
        let heard: Vec<_> = heard
            .iter()
            .map(|event| event.replace(asked, "COMMIT"))
            .collect();
        assert_eq!(heard, plain);
    });
}

#[test]
fn going_back_to_the_pool_is_not_heard() {
    let fleet = Fleet::new(&["a"]);
    let shards = fleet.manager_of_size(1);
    let recorder = Recorder::default();
    let mut conn = shards.get_on("a").unwrap();
    conn.set_instrumentation(recorder.clone());
    // An error, a text and raw access: each of them has the connection looked at.
    assert!(conn.batch_execute("NONSENSE").is_err());
    conn.batch_execute("SELECT 1").unwrap();
    conn.inner().unwrap();
    recorder.take();
    drop(conn);
    assert_eq!(recorder.take(), [""; 0]);
}

#[test]
fn the_next_user_of_the_connection_is_not_overheard() {
    let fleet = Fleet::new(&["a"]);
    let shards = fleet.manager_of_size(1);
    let (mine, yours) = (Recorder::default(), Recorder::default());
    {
        let mut conn = shards.get_on("a").unwrap();
        conn.set_instrumentation(mine.clone());
        insert(&mut conn, 1).unwrap();
        assert!(!mine.take().is_empty());
    }
    shards.transaction_on("a", |conn| insert(conn, 2)).unwrap();
    let mut conn = shards.get_on("a").unwrap();
    conn.set_instrumentation(yours.clone());
    insert(&mut conn, 3).unwrap();
    assert_eq!(mine.take(), [""; 0]);
    assert!(!yours.take().is_empty());
}

#[test]
fn the_next_user_is_not_overheard_by_one_that_was_set_on_the_raw_connection() {
    let fleet = Fleet::new(&["a"]);
    let shards = fleet.manager_of_size(1);
    let mine = Recorder::default();
    {
        let mut conn = shards.get_on("a").unwrap();
        conn.inner().unwrap().set_instrumentation(mine.clone());
        insert(&mut conn, 1).unwrap();
        assert!(!mine.take().is_empty());
    }
    // What is done to a connection on its way back is done to that user's connection.
    eventually("it is back", || {
        let node = &shards.status().nodes[0];
        node.idle == node.connections
    });
    mine.take();
    insert(&mut shards.get_on("a").unwrap(), 2).unwrap();
    assert_eq!(mine.take(), [""; 0]);
}

#[test]
fn it_can_be_reached_through_the_connection() {
    through_both!(|conn| {
        let recorder = Recorder::default();
        conn.set_instrumentation(recorder.clone());
        let sql = "a statement of a crate on top of Diesel";
        conn.instrumentation()
            .on_connection_event(InstrumentationEvent::cache_query(sql));
        assert_eq!(recorder.take(), [format!("cache {sql}")]);
    });
}

backend::blocking_only! {
    #[test]
    fn it_stays_with_a_handle_of_an_outer_pool() {
        let fleet = Fleet::new(&["a", "b"]);
        let shards = fleet.manager_of_size(1);
        let pool = Pool::builder()
            .max_size(1)
            .build(shards.clone())
            .unwrap();
        let recorder = Recorder::default();
        // Set while the handle is bound to nothing.
        {
            let mut conn = pool.get().unwrap();
            assert_eq!(conn.shard(), None);
            conn.set_instrumentation(recorder.clone());
            assert_eq!(shards.on("a", || whoami(&mut conn)).unwrap(), "a");
            assert!(!recorder.take().is_empty());
        }
        // There is one handle, and it is bound to another shard now.
        let second = shards.on("b", || {
            let mut conn = pool.get().unwrap();
            whoami(&mut conn)
        });
        assert_eq!(second.unwrap(), "b");
        assert!(!recorder.take().is_empty());
        // The physical connections are other people's meanwhile.
        for shard in ["a", "b"] {
            assert_eq!(ids(&mut shards.get_on(shard).unwrap()), Ok(vec![]));
        }
        assert_eq!(recorder.take(), [""; 0]);
    }
}

thread_local! {
    static HEARD_HERE: RefCell<Option<Vec<String>>> = const { RefCell::new(None) };
}

/// The default of this test binary: hears only in threads that want it.
fn of_this_thread() -> Option<Box<dyn Instrumentation>> {
    Some(Box::new(|event: InstrumentationEvent<'_>| {
        HEARD_HERE.with_borrow_mut(|heard| {
            if let Some(heard) = heard {
                heard.push(describe(&event));
            }
        });
    }))
}

backend::blocking_only! {
    #[test]
    fn the_default_comes_back() {
        fn heard() -> Vec<String> {
            HEARD_HERE
                .with_borrow_mut(|heard| heard.replace(vec![]))
                .unwrap_or_default()
        }
        set_default_instrumentation(of_this_thread).unwrap();
        let fleet = Fleet::new(&["a"]);
        let shards = fleet.manager_of_size(1);
        heard();
        insert(&mut shards.get_on("a").unwrap(), 1).unwrap();
        let inserted = heard();
        assert!(
            inserted.iter().any(|event| event.contains("INSERT")),
            "{inserted:?}"
        );
        {
            let mut conn = shards.get_on("a").unwrap();
            conn.set_instrumentation(Recorder::default());
            insert(&mut conn, 2).unwrap();
        }
        assert_eq!(heard(), [""; 0]);
        insert(&mut shards.get_on("a").unwrap(), 3).unwrap();
        let inserted = heard();
        assert!(
            inserted.iter().any(|event| event.contains("INSERT")),
            "{inserted:?}"
        );

        // A handle of an outer pool that nobody gave another one has it, too.
        let pool = shards.clone().into_pool();
        shards
            .on("a", || insert(&mut pool.get().unwrap(), 4))
            .unwrap();
        assert!(heard().iter().any(|event| event.contains("INSERT")));
        HEARD_HERE.take();
    }
}
