//! What one user sets in a session: there for the next by default, gone with the opt-in hook.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Text};
use diesel_sharded::Error;

use super::backend::{Fleet, Manager, NAME, Raw, ids, insert, whoami};
use crate::support::eventually;

/// What a user may set: settings, role, temporary table, lock, listener.
fn set(conn: &mut impl SimpleConnection, lock: u32) {
    let sql = match NAME {
        "postgres" => format!(
            "SET search_path = pg_catalog; SET ROLE pg_read_all_data; SET TIME ZONE 'Asia/Tokyo';
             SET application_name = 'mine'; LISTEN wake_up; SELECT pg_advisory_lock({lock})"
        ),
        "mysql" => format!(
            "SET @mine = 5; SET SESSION time_zone = '+09:00'; SET SESSION sql_mode = '';
             CREATE TEMPORARY TABLE scratch (x INT); DO GET_LOCK('dst_{lock}', 0)"
        ),
        _ => "PRAGMA foreign_keys = OFF; PRAGMA cache_size = 17; CREATE TEMP TABLE scratch (x)"
            .to_owned(),
    };
    conn.batch_execute(&sql).unwrap();
}

/// What the next user finds.
fn found(conn: &mut super::super::backend::Sharded, lock: u32) -> String {
    let sql = match NAME {
        "postgres" => "(SELECT concat_ws('|', current_setting('search_path'), current_user,
            current_setting('TimeZone'), current_setting('application_name'),
            (SELECT count(*) FROM pg_listening_channels()), (SELECT count(*) FROM pg_locks
             WHERE locktype = 'advisory' AND pid = pg_backend_pid())))"
            .to_owned(),
        "mysql" => format!(
            "(SELECT concat_ws('|', coalesce(@mine, 'nothing'), @@SESSION.time_zone,
             @@SESSION.sql_mode, coalesce(is_used_lock('dst_{lock}') = connection_id(), 0)))"
        ),
        _ => "(SELECT f.foreign_keys || '|' || c.cache_size || '|' ||
               (SELECT count(*) FROM temp.sqlite_master)
               FROM pragma_foreign_keys f, pragma_cache_size c)"
            .to_owned(),
    };
    let found = diesel::select(diesel::dsl::sql::<Text>(&sql))
        .get_result::<String>(conn)
        .unwrap();
    // A temporary table is seen by its name alone, where the catalogue does not list it.
    let scratch = match NAME {
        "mysql" => diesel::dsl::sql::<BigInt>("SELECT count(*) FROM scratch")
            .get_result::<i64>(conn)
            .is_ok(),
        _ => false,
    };
    format!("{found}|{scratch}")
}

fn with_reset(fleet: &Fleet) -> Manager {
    fleet
        .builder_of_size(1)
        .reset_sessions(true)
        .build()
        .unwrap()
}

#[test]
fn by_default_the_next_user_of_a_connection_finds_what_was_set() {
    let fleet = Fleet::new(&["a"]);
    let shards = fleet.manager_of_size(1);
    let start = found(&mut shards.get_on("a").unwrap(), 770);
    let mut conn = shards.get_on("a").unwrap();
    set(&mut conn, 770);
    let mine = found(&mut conn, 770);
    assert_ne!(mine, start);
    drop(conn);
    assert_eq!(found(&mut shards.get_on("a").unwrap(), 770), mine);
}

#[test]
fn with_the_reset_the_next_user_finds_the_start() {
    let fleet = Fleet::new(&["a"]);
    let shards = with_reset(&fleet);
    let start = found(&mut shards.get_on("a").unwrap(), 771);
    type Use = fn(&Manager);
    let uses: [(&str, Use); 5] = [
        ("a checkout", |shards| {
            set(&mut shards.get_on("a").unwrap(), 771);
        }),
        ("the raw connection", |shards| {
            set(&mut *shards.get_on("a").unwrap().inner().unwrap(), 771);
        }),
        ("a transaction", |shards| {
            shards
                .transaction_on("a", |conn| {
                    set(conn, 771);
                    Ok::<_, Error>(())
                })
                .unwrap();
        }),
        ("a transaction that fails", |shards| {
            let failed: Result<(), Error> = shards.transaction_on("a", |conn| {
                set(conn, 771);
                Err(Error::NoRoute { known: vec![] })
            });
            failed.unwrap_err();
        }),
        ("a panic", |shards| {
            let panicked = catch_unwind(AssertUnwindSafe(|| {
                let mut conn = shards.get_on("a").unwrap();
                set(&mut conn, 771);
                panic!("of the application")
            }));
            panicked.unwrap_err();
        }),
    ];
    for (what, user) in uses {
        user(&shards);
        assert_eq!(
            found(&mut shards.get_on("a").unwrap(), 771),
            start,
            "{what}"
        );
    }
    assert!(shards.status().nodes[0].connections <= 1);
}

#[test]
fn with_the_reset_a_connection_through_an_outer_pool_is_reset_too() {
    let fleet = Fleet::new(&["a"]);
    let shards = with_reset(&fleet);
    let pool = shards.clone().into_pool();
    shards
        .on("a", || {
            let start = found(&mut pool.get().unwrap(), 772);
            set(&mut pool.get().unwrap(), 772);
            assert_eq!(found(&mut pool.get().unwrap(), 772), start);
            Ok::<_, Error>(())
        })
        .unwrap();
}

#[test]
fn with_the_reset_cached_statements_keep_working() {
    let fleet = Fleet::new(&["a"]);
    let shards = with_reset(&fleet);
    for id in 0..5 {
        let mut conn = shards.get_on("a").unwrap();
        insert(&mut conn, id).unwrap();
        assert_eq!(
            ids(&mut conn).unwrap().len(),
            usize::try_from(id).unwrap() + 1
        );
        assert_eq!(whoami(&mut conn).unwrap(), "a");
        drop(conn);
        shards
            .transaction_on("a", |conn| Ok::<_, Error>(ids(conn)?))
            .unwrap();
        // Somebody clears the server's side, or as much of it as there is.
        let clear = match NAME {
            "postgres" => "DISCARD TEMP",
            _ => "SELECT 1",
        };
        shards.get_on("a").unwrap().batch_execute(clear).unwrap();
    }
}

#[test]
fn with_the_reset_an_untouched_connection_stays_the_same() {
    let fleet = Fleet::new(&["a"]);
    let connects = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&connects);
    let shards = fleet
        .builder_of_size(1)
        .reset_sessions(true)
        .connect_with(move |node| {
            count.fetch_add(1, Ordering::SeqCst);
            super::backend::open(node.url().expose())
        })
        .build()
        .unwrap();
    for id in 0..20 {
        insert(&mut shards.get_on("a").unwrap(), id).unwrap();
        shards
            .transaction_on("a", |conn| Ok::<_, Error>(ids(conn)?))
            .unwrap();
    }
    assert_eq!(connects.load(Ordering::SeqCst), 1);
}

/// A manager whose return hook counts, and does what the counter's bits say.
fn with_hook(
    fleet: &Fleet,
    hook: impl Fn(usize, &mut Raw<'_>) -> QueryResult<()> + Send + Sync + 'static,
) -> (Manager, Arc<AtomicUsize>) {
    let runs = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&runs);
    let shards = fleet
        .builder_of_size(1)
        .reset_sessions(true)
        .on_return(move |conn| hook(count.fetch_add(1, Ordering::SeqCst) + 1, conn))
        .build()
        .unwrap();
    (shards, runs)
}

#[test]
fn the_return_hook_runs_once_for_each_return_and_after_the_reset() {
    let fleet = Fleet::new(&["a"]);
    let (shards, runs) = with_hook(&fleet, |_, conn| {
        conn.batch_execute(match NAME {
            "postgres" => "SET application_name = 'ours'",
            "mysql" => "SET @mine = 9",
            _ => "PRAGMA cache_size = 23",
        })
    });
    // A typed statement, so that no backend closes the connection.
    whoami(&mut shards.get_on("a").unwrap()).unwrap();
    eventually("the hook has run", || runs.load(Ordering::SeqCst) == 1);
    let mut conn = shards.get_on("a").unwrap();
    let seen = found(&mut conn, 773);
    let ours = match NAME {
        "postgres" => "|ours|",
        "mysql" => "9|",
        _ => "|23|",
    };
    assert!(seen.contains(ours), "{seen}");
    drop(conn);
    shards
        .transaction_on("a", |conn| Ok::<_, Error>(whoami(conn)?))
        .unwrap();
    assert!(runs.load(Ordering::SeqCst) <= 3);
}

#[test]
fn a_return_hook_that_fails_costs_its_connection_and_no_more() {
    let fleet = Fleet::new(&["a"]);
    let (shards, runs) = with_hook(&fleet, |run, conn| match run {
        2 => conn.batch_execute("this is no SQL"),
        3 => Err(diesel::result::Error::NotFound),
        _ => Ok(()),
    });
    for id in 0..6 {
        insert(&mut shards.get_on("a").unwrap(), id).unwrap();
        assert!(shards.status().nodes[0].connections <= 1);
    }
    eventually("each return had its hook", || {
        runs.load(Ordering::SeqCst) == 6
    });
    assert_eq!(fleet.rows("a").len(), 6);
}

#[test]
fn a_return_hook_that_panics_does_not_use_up_the_pool() {
    let fleet = Fleet::new(&["a"]);
    let (shards, _) = with_hook(&fleet, |run, _| {
        assert!(run > 3, "the hook of the application panics");
        Ok(())
    });
    for id in 0..5 {
        let used = catch_unwind(AssertUnwindSafe(|| {
            insert(&mut shards.get_on("a").unwrap(), id).unwrap();
        }));
        // Whether the panic comes out is not promised; that the next call is served, is.
        drop(used);
    }
    assert_eq!(fleet.rows("a"), [0, 1, 2, 3, 4]);
    assert_eq!(whoami(&mut shards.get_on("a").unwrap()).unwrap(), "a");
}
