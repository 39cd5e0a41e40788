//! What only MySQL does: a deadlock that ends the whole transaction, and a client library that does
//! not tell.

use std::sync::Barrier;

use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use diesel_sharded::{Error, RollbackReason};

use super::backend::{Fleet, Isolation, Manager, Sharded, ids, insert};
use crate::support::{items, ours};

fn update(conn: &mut Sharded, id: i64) -> QueryResult<usize> {
    diesel::update(items::table.find(id))
        .set(items::note.eq("seen"))
        .execute(conn)
}

/// Two transactions that lock rows 1 and 2 crosswise; whoever is chosen as the victim goes on with
/// `after`. Both results, the victim's first.
fn deadlock(
    shards: &Manager,
    lock: fn(&mut Sharded, i64) -> QueryResult<usize>,
    after: impl Fn(&mut Sharded) -> Result<(), Error> + Sync,
) -> [Result<bool, Error>; 2] {
    let both_hold_one = Barrier::new(2);
    let crossed = |first: i64, second: i64| {
        shards.transaction_on("a", |conn| {
            conn.transaction(|conn| lock(conn, first))?;
            both_hold_one.wait();
            let inner = conn.transaction(|conn| lock(conn, second));
            if inner.is_ok() {
                return Ok(false);
            }
            after(conn)?;
            Ok::<_, Error>(true)
        })
    };
    let results = std::thread::scope(|scope| {
        let one = scope.spawn(|| crossed(1, 2));
        let other = scope.spawn(|| crossed(2, 1));
        [one.join().unwrap(), other.join().unwrap()]
    });
    let [one, other] = results;
    if one.is_err() {
        [one, other]
    } else {
        [other, one]
    }
}

fn fleet() -> Fleet {
    let fleet = Fleet::new(&["a"]);
    for id in [1, 2] {
        insert(&mut fleet.direct("a"), id).unwrap();
    }
    fleet
}

#[test]
fn a_deadlock_ends_the_whole_transaction_and_its_rest_is_not_committed() {
    type Lock = fn(&mut Sharded, i64) -> QueryResult<usize>;
    let locks: [(&str, Lock); 4] = [
        ("typed", update),
        ("batch_execute", |conn, id| {
            let sql = format!("UPDATE items SET note = 'seen' WHERE id = {id}");
            conn.batch_execute(&sql).map(|()| 1)
        }),
        ("sql_query", |conn, id| {
            diesel::sql_query(format!("UPDATE items SET note = 'seen' WHERE id = {id}"))
                .execute(conn)
        }),
        ("for update", |conn, id| {
            items::table
                .find(id)
                .select(items::id)
                .for_update()
                .load::<i64>(conn)
                .map(|rows| rows.len())
        }),
    ];
    for (way, lock) in locks {
        let fleet = fleet();
        let shards = fleet.manager_of_size(2);
        let [victim, winner] = deadlock(&shards, lock, |conn| {
            let refused = insert(conn, 3).unwrap_err();
            assert!(
                matches!(ours(&refused), Error::RolledBack { .. }),
                "{way}: {refused:?}"
            );
            let refused = conn
                .batch_execute("INSERT INTO items (id) VALUES (4)")
                .unwrap_err();
            assert!(
                matches!(ours(&refused), Error::RolledBack { .. }),
                "{way}: {refused:?}"
            );
            let refused = conn.transaction(|conn| insert(conn, 5)).unwrap_err();
            assert!(
                matches!(ours(&refused), Error::RolledBack { .. }),
                "{way}: {refused:?}"
            );
            Ok(())
        });
        let error = victim.expect_err(way);
        assert!(
            matches!(
                error,
                Error::RolledBack {
                    reason: RollbackReason::EndedByServer,
                    ..
                }
            ),
            "{way}: {error:?}"
        );
        assert!(!winner.unwrap(), "{way}");
        assert_eq!(fleet.rows("a"), [1, 2], "{way}: nothing of the victim's");
        fleet.assert_nothing_open("a");
        for id in 10..14 {
            insert(&mut shards.get_on("a").unwrap(), id).unwrap();
        }
        assert_eq!(fleet.rows("a"), [1, 2, 10, 11, 12, 13], "{way}");
    }
}

#[test]
fn the_error_of_a_deadlock_that_is_not_swallowed_comes_out() {
    let fleet = fleet();
    let shards = fleet.manager_of_size(2);
    let [victim, winner] = deadlock(&shards, update, |conn| {
        Err(Error::from(insert(conn, 3).unwrap_err()))
    });
    assert!(
        matches!(victim, Err(Error::RolledBack { .. })),
        "{victim:?}"
    );
    winner.unwrap();
    assert_eq!(fleet.rows("a"), [1, 2]);
    shards
        .transaction_on("a", |conn| Ok::<_, Error>(insert(conn, 3)?))
        .unwrap();
}

#[test]
fn a_lock_that_is_waited_for_too_long_costs_the_statement_only() {
    let fleet = fleet();
    let shards = fleet.manager_of_size(1);
    let mut holder = fleet.direct("a");
    holder
        .batch_execute("BEGIN; UPDATE items SET note = 'held' WHERE id = 1")
        .unwrap();
    shards
        .transaction_on("a", |conn| {
            conn.batch_execute("SET innodb_lock_wait_timeout = 1")?;
            insert(conn, 3)?;
            update(conn, 1).unwrap_err();
            insert(conn, 4)?;
            Ok::<_, Error>(())
        })
        .unwrap();
    holder.batch_execute("ROLLBACK").unwrap();
    assert_eq!(
        fleet.rows("a"),
        [1, 2, 3, 4],
        "as MySQL has it: the transaction goes on"
    );
}

/// The documented exception: what is said to the raw connection cannot be seen here.
#[test]
fn what_the_raw_mysql_connection_hides_still_reaches_no_next_user() {
    let fleet = Fleet::new(&["a"]);
    let shards = fleet.manager_of_size(1);
    for (at, end) in ["COMMIT", "ROLLBACK"].into_iter().enumerate() {
        let id = 10 * i64::try_from(at).unwrap();
        let result = shards.transaction_on("a", |conn| {
            insert(conn, id)?;
            conn.inner()?.batch_execute(end)?;
            Ok::<_, Error>(())
        });
        result.unwrap();
        assert_eq!(fleet.rows("a").contains(&id), end == "COMMIT");
        fleet.assert_nothing_open("a");
        insert(&mut shards.get_on("a").unwrap(), id + 1).unwrap();
        assert!(fleet.rows("a").contains(&(id + 1)));
    }
}

#[test]
fn a_session_left_without_autocommit_is_put_right_for_the_next_user() {
    let fleet = Fleet::new(&["a"]);
    let shards = fleet.manager_of_size(1);
    for (id, sql) in (1..).zip([
        "SET autocommit = 0",
        "SET @@autocommit = OFF",
        "SET SESSION autocommit = 0; SELECT 1",
        "SET @x = 1, autocommit = 0",
    ]) {
        let mut conn = shards.get_on("a").unwrap();
        conn.batch_execute(sql).unwrap();
        insert(&mut conn, 100 + id).unwrap();
        drop(conn);
        insert(&mut shards.get_on("a").unwrap(), id).unwrap();
        assert_eq!(fleet.rows("a"), (1..=id).collect::<Vec<_>>(), "{sql}");
    }
}

#[test]
fn isolation_is_in_force_for_one_transaction() {
    let fleet = Fleet::new(&["a"]);
    let shards = fleet.manager_of_size(1);
    insert(&mut fleet.direct("a"), 1).unwrap();
    let mut next = 10;
    // What the transaction shows of itself: whether it sees what others commit meanwhile, and
    // whether its reads lock.
    let mut observed = |conn: &mut Sharded| -> (bool, bool) {
        let before = ids(conn).unwrap();
        let mut other = fleet.direct("a");
        other
            .batch_execute("SET innodb_lock_wait_timeout = 1")
            .unwrap();
        let locks = other
            .batch_execute("SELECT * FROM items WHERE id = 1 FOR UPDATE NOWAIT")
            .is_err();
        if locks {
            return (false, true);
        }
        insert(&mut other, next).unwrap();
        next += 1;
        (ids(conn).unwrap() != before, false)
    };
    let default = shards
        .transaction_on("a", |conn| Ok::<_, Error>(observed(conn)))
        .unwrap();
    for (level, expected) in [
        (Isolation::ReadCommitted, (true, false)),
        (Isolation::RepeatableRead, (false, false)),
        (Isolation::Serializable, (false, true)),
    ] {
        let seen = shards
            .transaction_builder("a")
            .isolation(level)
            .run(|conn| Ok::<_, Error>(observed(conn)))
            .unwrap();
        assert_eq!(seen, expected, "{level:?}");
        let seen = shards
            .transaction_on("a", |conn| Ok::<_, Error>(observed(conn)))
            .unwrap();
        assert_eq!(seen, default, "after {level:?}");
    }
}
