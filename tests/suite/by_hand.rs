//! BEGIN, COMMIT and ROLLBACK written by hand, past Diesel's bookkeeping.

use diesel::connection::{SimpleConnection, TransactionManager};
use diesel::prelude::*;
use diesel_sharded::{Error, RollbackReason};

use super::backend::{
    DRIVER, Fleet, Manager, NAME, RAW_WAYS, Raw, RawTransactions, Sharded, ids, insert, whoami,
};
use crate::support::{items, ours, said};

/// A way to send a text, and whether the crate can read it on its way.
type Way = (&'static str, bool, Send);
type Send = Box<dyn Fn(&mut Sharded, &str) -> QueryResult<()>>;

/// Something done to a connection.
type Do = Box<dyn Fn(&mut Sharded) -> QueryResult<()>>;

fn ways() -> Vec<Way> {
    let mut ways: Vec<Way> = vec![
        (
            "batch_execute",
            true,
            Box::new(|conn, sql| conn.batch_execute(sql)),
        ),
        (
            "sql_query",
            true,
            Box::new(|conn, sql| diesel::sql_query(sql).execute(conn).map(drop)),
        ),
    ];
    for (way, reach) in RAW_WAYS {
        let send = |conn: &mut Sharded, sql: &str| reach(conn, &mut |raw| raw.batch_execute(sql));
        ways.push((way, false, Box::new(send)));
    }
    ways
}

/// The same step by our transaction manager, and by the raw connection's own in every way there is.
fn steps(ours: fn(&mut Sharded) -> QueryResult<()>, raw: RawStep) -> Vec<(String, Do)> {
    let mut steps: Vec<(String, Do)> = vec![("ours".to_owned(), Box::new(ours))];
    for (way, reach) in RAW_WAYS {
        let step = move |conn: &mut Sharded| reach(conn, &mut |conn| raw(conn));
        steps.push(((*way).to_owned(), Box::new(step)));
    }
    steps
}

type RawStep = fn(&mut Raw<'_>) -> QueryResult<()>;
type Ours = <Sharded as Connection>::TransactionManager;

/// The next user of the one connection writes in autocommit, and everybody sees it.
fn assert_clean(fleet: &Fleet, shards: &Manager, id: i64) {
    fleet.assert_nothing_open("a");
    insert(&mut shards.get_on("a").unwrap(), id).unwrap();
    assert!(fleet.rows("a").contains(&id), "row {id} is committed");
    fleet.assert_nothing_open("a");
    shards
        .transaction_on("a", |conn| Ok::<_, Error>(insert(conn, id + 1)?))
        .unwrap();
    assert!(fleet.rows("a").contains(&(id + 1)));
}

fn forget_rows(fleet: &Fleet) {
    diesel::delete(items::table)
        .execute(&mut fleet.direct("a"))
        .unwrap();
}

#[test]
fn a_transaction_begun_by_hand_does_not_reach_the_next_user() {
    let fleet = Fleet::new(&["a"]);
    let shards = fleet.manager_of_size(1);
    let begins: &[&str] = match NAME {
        "mysql" => &[
            "BEGIN",
            "START TRANSACTION",
            "SET autocommit = 0",
            "/*! BEGIN */",
        ],
        "postgres" => &[
            "BEGIN",
            "START TRANSACTION",
            "/* hello */ BEGIN ISOLATION LEVEL SERIALIZABLE",
        ],
        _ => &[
            "BEGIN",
            "BEGIN IMMEDIATE",
            "SAVEPOINT one",
            "-- hello\nBEGIN",
        ],
    };
    for (way, _, send) in ways() {
        for begin in begins {
            let mut conn = shards.get_on("a").unwrap();
            send(&mut conn, begin).unwrap();
            insert(&mut conn, 1).unwrap();
            drop(conn);
            assert_clean(&fleet, &shards, 2);
            assert_eq!(fleet.rows("a"), [2, 3], "{way}: {begin}");
            forget_rows(&fleet);
        }
    }
}

#[test]
fn a_transaction_begun_by_hand_and_failed_does_not_reach_the_next_user() {
    let fleet = Fleet::new(&["a"]);
    let shards = fleet.manager_of_size(1);
    for (way, _, send) in ways() {
        let mut conn = shards.get_on("a").unwrap();
        send(&mut conn, "BEGIN").unwrap();
        insert(&mut conn, 1).unwrap();
        insert(&mut conn, 1).unwrap_err();
        drop(conn);
        assert_clean(&fleet, &shards, 2);
        assert_eq!(fleet.rows("a"), [2, 3], "{way}");
        forget_rows(&fleet);
    }
}

#[test]
fn a_transaction_begun_and_ended_by_hand_is_nobodys_business() {
    let fleet = Fleet::new(&["a"]);
    let shards = fleet.manager_of_size(1);
    for (at, (_, _, send)) in (1..).zip(ways()) {
        let mut conn = shards.get_on("a").unwrap();
        send(&mut conn, "BEGIN").unwrap();
        insert(&mut conn, at * 10).unwrap();
        send(&mut conn, "COMMIT").unwrap();
        drop(conn);
        assert!(fleet.rows("a").contains(&(at * 10)));
        assert_clean(&fleet, &shards, at * 10 + 1);
    }
    assert_eq!(shards.status().nodes[0].connections, 1);
}

#[test]
fn a_transaction_begun_by_hand_under_diesels_is_refused_or_closed() {
    let fleet = Fleet::new(&["a"]);
    let shards = fleet.manager_of_size(1);
    // Diesel's transaction on top of one that it does not know of: what happens is the server's
    // business, but nothing is left open and the next user is clean.
    let mut conn = shards.get_on("a").unwrap();
    conn.batch_execute("BEGIN").unwrap();
    let _ = conn.transaction(|conn| insert(conn, 1));
    drop(conn);
    assert_clean(&fleet, &shards, 2);
}

#[test]
fn an_end_written_by_hand_is_not_a_success() {
    let fleet = Fleet::new(&["a"]);
    let shards = fleet.manager_of_size(1);
    for (way, readable, send) in ways() {
        if NAME == "mysql" && !readable {
            // `what_the_raw_mysql_connection_hides` is about these.
            continue;
        }
        for end in ["COMMIT", "ROLLBACK", "/* done */ COMMIT", "commit"] {
            let result = shards.transaction_on("a", |conn| {
                insert(conn, 1)?;
                send(conn, end)?;
                Ok::<_, Error>(())
            });
            let error = result.expect_err(&format!("{way}: {end}"));
            assert!(
                matches!(
                    &error,
                    Error::RolledBack {
                        reason: RollbackReason::EndedByHand,
                        ..
                    }
                ),
                "{way}: {end}: {error:?}"
            );
            assert!(said(&error).contains("shard a"));
            assert_clean(&fleet, &shards, 2);
            forget_rows(&fleet);
        }
    }
}

#[test]
fn an_end_by_hand_after_an_earlier_error_is_still_by_hand() {
    let fleet = Fleet::new(&["a"]);
    let shards = fleet.manager_of_size(1);
    let mut conn = shards.get_on("a").unwrap();
    insert(&mut conn, 1).unwrap();
    insert(&mut conn, 1).unwrap_err();
    let error = conn
        .transaction(|conn| conn.batch_execute("COMMIT"))
        .unwrap_err();
    assert!(
        matches!(
            ours(&error),
            Error::RolledBack {
                reason: RollbackReason::EndedByHand,
                ..
            }
        ),
        "{error:?}"
    );
}

#[test]
fn after_an_end_written_by_hand_nothing_more_is_sent() {
    let fleet = Fleet::new(&["a"]);
    let shards = fleet.manager_of_size(1);
    for (way, readable, send) in ways() {
        // What is done to the raw connection is found out by looking. The nonblocking driver cannot
        // look without waiting, so it does before the commit: the test before this one.
        if (NAME == "mysql" || DRIVER == "nonblocking") && !readable {
            continue;
        }
        let result = shards.transaction_on("a", |conn| {
            insert(conn, 1)?;
            send(conn, "COMMIT")?;
            // Outside any transaction these would be kept whatever comes.
            let refused = [
                insert(conn, 10).map(drop),
                conn.batch_execute("INSERT INTO items (id) VALUES (11)"),
                conn.transaction(|conn| insert(conn, 12)).map(drop),
                ids(conn).map(drop),
                insert(&mut *conn.inner()?, 13).map(drop),
            ];
            for error in refused {
                let error = error.expect_err(way);
                assert!(
                    matches!(ours(&error), Error::RolledBack { .. }),
                    "{way}: {error:?}"
                );
            }
            Ok::<_, Error>(())
        });
        let error = result.expect_err(way);
        assert!(
            matches!(error, Error::RolledBack { .. }),
            "{way}: {error:?}"
        );
        assert_eq!(fleet.rows("a"), [1], "{way}");
        assert_clean(&fleet, &shards, 2);
        forget_rows(&fleet);
    }
}

#[test]
fn a_caller_that_says_err_after_ending_by_hand_gets_its_own_error() {
    let fleet = Fleet::new(&["a"]);
    let shards = fleet.manager_of_size(1);
    for (_, _, send) in ways() {
        let error = shards
            .transaction_on("a", |conn| {
                insert(conn, 1)?;
                send(conn, "ROLLBACK")?;
                Err::<(), _>(diesel::result::Error::RollbackTransaction)
            })
            .unwrap_err();
        assert_eq!(error, diesel::result::Error::RollbackTransaction);
        assert_clean(&fleet, &shards, 2);
        forget_rows(&fleet);
    }
}

#[test]
fn savepoints_written_by_hand_are_left_alone() {
    let fleet = Fleet::new(&["a"]);
    let shards = fleet.manager_of_size(1);
    for (way, _, send) in ways() {
        shards
            .transaction_on("a", |conn| {
                insert(conn, 1)?;
                send(conn, "SAVEPOINT mine")?;
                insert(conn, 2)?;
                send(conn, "ROLLBACK TO SAVEPOINT mine")?;
                send(conn, "RELEASE SAVEPOINT mine")?;
                insert(conn, 3)?;
                Ok::<_, Error>(())
            })
            .unwrap_or_else(|error| panic!("{way}: {error}"));
        assert_eq!(fleet.rows("a"), [1, 3], "{way}");
        forget_rows(&fleet);
    }
}

#[test]
fn a_level_opened_through_a_transaction_manager_and_left_open_is_unbalanced() {
    let fleet = Fleet::new(&["a"]);
    let shards = fleet.manager_of_size(1);
    let opens = steps(Ours::begin_transaction, |raw| {
        RawTransactions::begin_transaction(raw)
    });
    for (way, open) in opens {
        let result = shards.transaction_on("a", |conn| {
            insert(conn, 1)?;
            open(conn)?;
            insert(conn, 2)?;
            Ok::<_, Error>(())
        });
        let error = result.expect_err(&way);
        assert!(
            matches!(
                &error,
                Error::RolledBack {
                    reason: RollbackReason::Unbalanced,
                    ..
                }
            ),
            "{way}: {error:?}"
        );
        assert_eq!(fleet.rows("a"), [0; 0], "{way}");
        assert_clean(&fleet, &shards, 2);
        forget_rows(&fleet);
    }
}

#[test]
fn a_level_closed_too_many_through_a_transaction_manager_is_an_error() {
    let fleet = Fleet::new(&["a"]);
    let shards = fleet.manager_of_size(1);
    let commits = steps(Ours::commit_transaction, |raw| {
        RawTransactions::commit_transaction(raw)
    });
    let rollbacks = steps(Ours::rollback_transaction, |raw| {
        RawTransactions::rollback_transaction(raw)
    });
    let mut kept = Vec::new();
    for (way, close) in commits.into_iter().chain(rollbacks) {
        let result = shards.transaction_on("a", |conn| {
            insert(conn, 1)?;
            close(conn)?;
            // Once the transaction is over, this must not be kept on its own.
            let _ = insert(conn, 10);
            Ok::<_, Error>(())
        });
        let error = result.expect_err(&way);
        assert!(
            matches!(error, Error::RolledBack { .. }),
            "{way}: {error:?}"
        );
        if fleet.rows("a").contains(&10) {
            kept.push(way);
        }
        assert_clean(&fleet, &shards, 2);
        forget_rows(&fleet);
    }
    assert_eq!(kept, [""; 0], "a row was written outside the transaction");
}

#[test]
fn diesels_own_manager_on_the_inner_connection_nests_in_ours() {
    let fleet = Fleet::new(&["a"]);
    let shards = fleet.manager_of_size(1);
    shards
        .transaction_on("a", |conn| {
            insert(conn, 1)?;
            let mut kept = vec![1];
            for (id, (_, reach)) in (10..).step_by(10).zip(RAW_WAYS) {
                reach(conn, &mut |raw| {
                    raw.transaction(|raw| insert(raw, id)).map(drop)
                })?;
                reach(conn, &mut |raw| RawTransactions::begin_transaction(raw))?;
                insert(conn, id + 1)?;
                reach(conn, &mut |raw| RawTransactions::rollback_transaction(raw))?;
                conn.transaction(|conn| {
                    reach(conn, &mut |raw| {
                        raw.transaction(|raw| insert(raw, id + 2)).map(drop)
                    })?;
                    insert(conn, id + 3)
                })?;
                kept.extend([id, id + 2, id + 3]);
            }
            assert_eq!(ids(conn)?, kept);
            Ok::<_, Error>(())
        })
        .unwrap();
    assert_eq!(fleet.rows("a").len(), 1 + 3 * RAW_WAYS.len());
    assert_clean(&fleet, &shards, 200);
}

#[test]
fn a_transaction_left_open_through_a_manager_does_not_reach_the_next_user() {
    let fleet = Fleet::new(&["a"]);
    let shards = fleet.manager_of_size(1);
    let opens = steps(Ours::begin_transaction, |raw| {
        RawTransactions::begin_transaction(raw)
    });
    for (way, open) in opens {
        let mut conn = shards.get_on("a").unwrap();
        open(&mut conn).unwrap();
        insert(&mut conn, 1).unwrap();
        drop(conn);
        assert_clean(&fleet, &shards, 2);
        assert_eq!(fleet.rows("a"), [2, 3], "{way}");
        forget_rows(&fleet);
    }
    // Balanced by hand, it is a transaction like any other.
    let mut conn = shards.get_on("a").unwrap();
    Ours::begin_transaction(&mut conn).unwrap();
    insert(&mut conn, 1).unwrap();
    Ours::commit_transaction(&mut conn).unwrap();
    assert_eq!(whoami(&mut conn).unwrap(), "a");
    drop(conn);
    assert_eq!(fleet.rows("a"), [1]);
    assert_eq!(shards.status().nodes[0].connections, 1);
}
