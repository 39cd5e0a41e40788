//! The contract of the local transaction probe: what it must find, and what it must not touch.
//!
//! It rests on Diesel's internals. When a new Diesel fails here, nothing else may be trusted.

use diesel::connection::{AnsiTransactionManager, SimpleConnection, TransactionManager};
use diesel::prelude::*;
use diesel_sharded::blocking::{NodeConnection, TransactionProbe};
use diesel_sharded::{DatabaseUrl, Error};

use super::backend::{Conn, Fleet, NAME, ids, insert};
use crate::support::watch::Statements;

/// What the probe can say where the client library's knowledge is in reach: MySQL's is not.
fn known(answer: TransactionProbe) -> TransactionProbe {
    match (NAME, answer) {
        ("mysql", TransactionProbe::Broken) => answer,
        ("mysql", _) => TransactionProbe::Unknown,
        // Only PostgreSQL keeps a failed transaction.
        ("sqlite", TransactionProbe::Failed) => TransactionProbe::Open,
        _ => answer,
    }
}

/// The depth Diesel believes in.
fn depth(conn: &mut Conn) -> u32 {
    AnsiTransactionManager::transaction_manager_status_mut(conn)
        .transaction_depth()
        .expect("not broken")
        .map_or(0, |depth| depth.get())
}

/// Probes twice and checks that Diesel believes what it believed before.
fn probe(conn: &mut Conn) -> TransactionProbe {
    let before = depth(conn);
    let found = conn.probe();
    assert_eq!(conn.probe(), found, "asking changes nothing");
    assert_eq!(depth(conn), before, "the depth is Diesel's business");
    found
}

#[test]
fn an_idle_connection_is_idle_whatever_it_did_before() {
    let fleet = Fleet::new(&["a"]);
    let mut conn = fleet.direct("a");
    assert_eq!(probe(&mut conn), known(TransactionProbe::Idle));
    insert(&mut conn, 1).unwrap();
    assert_eq!(probe(&mut conn), known(TransactionProbe::Idle));
    insert(&mut conn, 1).unwrap_err();
    assert_eq!(probe(&mut conn), known(TransactionProbe::Idle));
    conn.batch_execute("no such statement").unwrap_err();
    assert_eq!(probe(&mut conn), known(TransactionProbe::Idle));
    conn.transaction(|conn| insert(conn, 2)).unwrap();
    assert_eq!(probe(&mut conn), known(TransactionProbe::Idle));
    conn.transaction(|conn| insert(conn, 1)).unwrap_err();
    assert_eq!(probe(&mut conn), known(TransactionProbe::Idle));
    assert_eq!(
        ids(&mut conn).unwrap(),
        [1, 2],
        "the connection works as before"
    );
}

#[test]
fn a_transaction_of_diesels_is_open_at_every_depth() {
    let fleet = Fleet::new(&["a"]);
    let mut conn = fleet.direct("a");
    conn.transaction(|conn| {
        assert_eq!(
            probe(conn),
            known(TransactionProbe::Open),
            "before its first statement"
        );
        insert(conn, 1)?;
        assert_eq!(probe(conn), known(TransactionProbe::Open));
        conn.transaction(|conn| {
            insert(conn, 2)?;
            assert_eq!(probe(conn), known(TransactionProbe::Open));
            conn.transaction(|conn| {
                insert(conn, 3)?;
                assert_eq!(probe(conn), known(TransactionProbe::Open));
                Err::<(), _>(diesel::result::Error::RollbackTransaction)
            })
            .unwrap_err();
            assert_eq!(probe(conn), known(TransactionProbe::Open));
            Ok::<_, diesel::result::Error>(())
        })?;
        assert_eq!(probe(conn), known(TransactionProbe::Open));
        assert_eq!(ids(conn)?, [1, 2]);
        Ok::<_, diesel::result::Error>(())
    })
    .unwrap();
    assert_eq!(fleet.rows("a"), [1, 2]);
    assert_eq!(probe(&mut conn), known(TransactionProbe::Idle));
}

#[test]
fn a_transaction_written_by_hand_is_seen_and_its_end_too() {
    let fleet = Fleet::new(&["a"]);
    let mut conn = fleet.direct("a");
    for (id, end) in (1..).zip(["COMMIT", "ROLLBACK"]) {
        conn.batch_execute("BEGIN").unwrap();
        assert_eq!(probe(&mut conn), known(TransactionProbe::Open));
        insert(&mut conn, id).unwrap();
        assert_eq!(probe(&mut conn), known(TransactionProbe::Open));
        conn.batch_execute(end).unwrap();
        assert_eq!(probe(&mut conn), known(TransactionProbe::Idle));
    }
    assert_eq!(fleet.rows("a"), [1]);
    diesel::sql_query("BEGIN").execute(&mut conn).unwrap();
    assert_eq!(probe(&mut conn), known(TransactionProbe::Open));
}

#[test]
fn an_end_written_by_hand_corrects_diesels_belief() {
    let fleet = Fleet::new(&["a"]);
    let mut conn = fleet.direct("a");
    AnsiTransactionManager::begin_transaction(&mut conn).unwrap();
    insert(&mut conn, 1).unwrap();
    conn.batch_execute("COMMIT").unwrap();
    let found = conn.probe();
    assert_eq!(found, known(TransactionProbe::Idle));
    if found == TransactionProbe::Idle {
        assert_eq!(depth(&mut conn), 0);
        conn.transaction(|conn| insert(conn, 2)).unwrap();
        assert_eq!(fleet.rows("a"), [1, 2]);
    }
}

#[test]
fn a_failed_transaction_can_only_be_rolled_back() {
    let fleet = Fleet::new(&["a"]);
    let mut conn = fleet.direct("a");
    let _ = conn.transaction(|conn| {
        insert(conn, 1)?;
        insert(conn, 1).unwrap_err();
        assert_eq!(probe(conn), known(TransactionProbe::Failed));
        Err::<(), _>(diesel::result::Error::RollbackTransaction)
    });
    assert_eq!(probe(&mut conn), known(TransactionProbe::Idle));
    // By hand likewise.
    conn.batch_execute("BEGIN").unwrap();
    insert(&mut conn, 1).unwrap();
    conn.batch_execute("INSERT INTO items (id) VALUES (1)")
        .unwrap_err();
    assert_eq!(probe(&mut conn), known(TransactionProbe::Failed));
    conn.batch_execute("ROLLBACK").unwrap();
    assert_eq!(probe(&mut conn), known(TransactionProbe::Idle));
    // A savepoint heals it.
    conn.transaction(|conn| {
        let _ = conn.transaction(|conn| {
            insert(conn, 1)?;
            insert(conn, 1)
        });
        assert_eq!(probe(conn), known(TransactionProbe::Open));
        insert(conn, 5)
    })
    .unwrap();
    assert_eq!(fleet.rows("a"), [5]);
}

#[test]
fn a_test_transaction_is_open_and_stays_one() {
    let fleet = Fleet::new(&["a"]);
    let mut conn = fleet.direct("a");
    conn.begin_test_transaction().unwrap();
    assert_eq!(probe(&mut conn), known(TransactionProbe::Open));
    insert(&mut conn, 1).unwrap();
    conn.transaction(|conn| insert(conn, 2)).unwrap();
    assert_eq!(probe(&mut conn), known(TransactionProbe::Open));
    drop(conn);
    assert_eq!(fleet.rows("a"), [0; 0]);
}

#[test]
fn probing_between_statements_does_not_disturb_the_statement_cache() {
    let fleet = Fleet::new(&["a"]);
    let mut conn = fleet.direct("a");
    for id in 0..50 {
        insert(&mut conn, id).unwrap();
        probe(&mut conn);
        assert_eq!(
            ids(&mut conn).unwrap().len(),
            usize::try_from(id).unwrap() + 1
        );
        probe(&mut conn);
    }
}

#[test]
fn a_connection_begun_with_a_statement_of_ours_is_known_to_diesel() {
    let fleet = Fleet::new(&["a"]);
    let mut conn = fleet.direct("a");
    conn.begin_with("BEGIN").unwrap();
    assert_eq!(depth(&mut conn), 1);
    assert_eq!(probe(&mut conn), known(TransactionProbe::Open));
    insert(&mut conn, 1).unwrap();
    assert_eq!(
        conn.begin_with("BEGIN"),
        Err(diesel::result::Error::AlreadyInTransaction)
    );
    AnsiTransactionManager::commit_transaction(&mut conn).unwrap();
    assert_eq!(fleet.rows("a"), [1]);
}

#[test]
fn the_users_instrumentation_hears_of_no_probe() {
    let fleet = Fleet::new(&["a"]);
    let shards = fleet.manager_of_size(1);
    // The same work, plain and through the crate, with everything that makes the crate look.
    macro_rules! work {
        ($conn:expr) => {{
            let heard = Statements::default();
            $conn.set_instrumentation(heard.clone());
            $conn
                .transaction(|conn| {
                    conn.batch_execute("INSERT INTO items (id, note) VALUES (900, 'by hand')")?;
                    let _ = conn.transaction(|conn| {
                        insert(conn, 1)?;
                        insert(conn, 1)
                    });
                    diesel::sql_query("DELETE FROM items").execute(conn)?;
                    insert(conn, 2)
                })
                .unwrap();
            diesel::sql_query("DELETE FROM items")
                .execute(&mut $conn)
                .unwrap();
            heard
        }};
    }
    let mut plain = fleet.direct("a");
    let expected = work!(plain).take();
    drop(plain);
    assert!(expected.len() > 8, "{expected:?}");

    let mut ours = shards.get_on("a").unwrap();
    let heard = work!(ours);
    assert_eq!(heard.take(), expected);
    drop(ours);
    assert_eq!(heard.take(), [""; 0], "giving back is silent");
    for _ in 0..3 {
        shards.get_on("a").unwrap();
    }
    assert_eq!(heard.take(), [""; 0], "and so is what the next users do");
}

#[test]
fn a_url_of_another_kind_is_refused_before_any_connect() {
    for (url, kind) in [
        ("postgres://u@h/d", "postgres"),
        ("postgresql://u@h/d", "postgres"),
        ("mysql://u@h/d", "mysql"),
        ("some/file.db", "sqlite"),
    ] {
        let url = DatabaseUrl::from(url);
        assert_eq!(url.kind().is_some_and(Conn::accepts), kind == NAME, "{url}");
        let built = super::backend::Manager::builder().shard("a", url).build();
        assert_eq!(built.is_ok(), kind == NAME);
        if let Err(error) = built {
            assert!(matches!(error, Error::Config(_)), "{error:?}");
        }
    }
}
