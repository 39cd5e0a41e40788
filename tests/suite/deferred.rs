//! A constraint that is checked at COMMIT: its failure is the outcome, and nothing stays open.

use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use diesel::result::{DatabaseErrorKind, Error as DieselError};
use diesel_sharded::Error;

use super::backend::{Fleet, Sharded, insert};

const CHILDREN: &str = "CREATE TABLE children (parent BIGINT NOT NULL
    REFERENCES items (id) DEFERRABLE INITIALLY DEFERRED)";

fn orphan(conn: &mut Sharded) -> QueryResult<()> {
    // Only SQLite has to be asked to look, and only outside a transaction.
    conn.batch_execute("INSERT INTO children VALUES (9)")
}

#[test]
fn a_constraint_that_fails_at_commit_is_the_outcome() {
    let fleet = Fleet::new(&["a"]);
    fleet.direct("a").batch_execute(CHILDREN).unwrap();
    let (shards, connects) = super::pool::counted(&fleet, 1);
    if super::backend::NAME == "sqlite" {
        let mut conn = shards.get_on("a").unwrap();
        conn.batch_execute("PRAGMA foreign_keys = ON").unwrap();
    }
    let violated = |error: &DieselError| {
        matches!(
            error,
            DieselError::DatabaseError(DatabaseErrorKind::ForeignKeyViolation, _)
        )
    };
    for _ in 0..3 {
        let error = shards
            .transaction_on("a", |conn| {
                insert(conn, 1)?;
                orphan(conn)
            })
            .unwrap_err();
        assert!(violated(&error), "{error:?}");
        assert_eq!(fleet.rows("a"), [0; 0]);
        fleet.assert_nothing_open("a");
        // The only connection works: in autocommit and in a transaction.
        shards
            .transaction_on("a", |conn| conn.batch_execute("SELECT 1"))
            .unwrap();
        insert(&mut shards.get_on("a").unwrap(), 2).unwrap();
        assert_eq!(fleet.rows("a"), [2]);
        diesel::delete(crate::support::items::table)
            .execute(&mut fleet.direct("a"))
            .unwrap();
        // Through Diesel's own form the same.
        let mut conn = shards.get_on("a").unwrap();
        let error = conn.transaction(orphan).unwrap_err();
        assert!(violated(&error), "{error:?}");
        conn.transaction(|conn| conn.batch_execute("SELECT 1"))
            .unwrap();
    }
    // The good case, at last.
    shards
        .transaction_on("a", |conn| {
            orphan(conn)?;
            Ok::<_, Error>(insert(conn, 9)?)
        })
        .unwrap();
    assert_eq!(fleet.rows("a"), [9]);
    assert_eq!(connects(), 1, "a constraint is no reason to reconnect");
}
