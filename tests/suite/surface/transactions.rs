//! Diesel's own transactions on a connection of ours.

use diesel::connection::{Connection, TransactionManager};
use diesel::prelude::*;
use diesel::result::{DatabaseErrorKind, Error as DieselError};

use super::both;
use super::schema::{self, NewUser, users};

fn depth<C: Connection>(conn: &mut C) -> Option<u32> {
    C::TransactionManager::transaction_manager_status_mut(conn)
        .transaction_depth()
        .expect("the transaction manager is not broken")
        .map(Into::into)
}

#[test]
fn ok_commits_and_err_rolls_back() {
    through_both!(|conn| {
        let value = conn.transaction(|conn| {
            assert_eq!(depth(conn), Some(1));
            diesel::insert_into(users::table)
                .values(users::name.eq("kept"))
                .execute(conn)
        });
        assert_eq!((value, depth(conn)), (Ok(1), None));
        let error = conn.transaction(|conn| {
            diesel::insert_into(users::table)
                .values(users::name.eq("lost"))
                .execute(conn)?;
            Err::<(), _>(DieselError::RollbackTransaction)
        });
        assert_eq!(
            (error, depth(conn)),
            (Err(DieselError::RollbackTransaction), None)
        );
        assert_eq!(schema::names(conn), ["kept"]);
    });
}

#[test]
fn savepoints_nest() {
    through_both!(|conn| {
        conn.transaction(|conn| {
            diesel::insert_into(users::table)
                .values(users::name.eq("1"))
                .execute(conn)?;
            conn.transaction(|conn| {
                diesel::insert_into(users::table)
                    .values(users::name.eq("2"))
                    .execute(conn)?;
                let inner = conn.transaction(|conn| {
                    assert_eq!(depth(conn), Some(3));
                    diesel::insert_into(users::table)
                        .values(users::name.eq("3"))
                        .execute(conn)?;
                    Err::<(), _>(DieselError::RollbackTransaction)
                });
                assert_eq!(inner, Err(DieselError::RollbackTransaction));
                diesel::insert_into(users::table)
                    .values(users::name.eq("4"))
                    .execute(conn)
            })?;
            // A failed statement spoils its savepoint only.
            let violation = conn.transaction(|conn| {
                diesel::insert_into(users::table)
                    .values(users::name.eq("1"))
                    .execute(conn)
            });
            assert!(matches!(
                violation,
                Err(DieselError::DatabaseError(
                    DatabaseErrorKind::UniqueViolation,
                    _
                ))
            ));
            assert_eq!(depth(conn), Some(1));
            diesel::insert_into(users::table)
                .values(users::name.eq("5"))
                .execute(conn)
        })
        .unwrap();
        assert_eq!(schema::names(conn), ["1", "2", "4", "5"]);
    });
}

#[test]
fn a_closure_may_give_the_connection_its_own_error() {
    #[derive(Debug, PartialEq)]
    enum Refusal {
        Diesel(DieselError),
        NotToday,
    }
    impl From<DieselError> for Refusal {
        fn from(error: DieselError) -> Self {
            Self::Diesel(error)
        }
    }

    through_both!(|conn| {
        let refused = conn.transaction(|conn| {
            diesel::insert_into(users::table)
                .values(users::name.eq("x"))
                .execute(conn)?;
            Err::<(), _>(Refusal::NotToday)
        });
        assert_eq!(refused, Err(Refusal::NotToday));
        let missing = conn.transaction(|conn| {
            users::table.find(9).first::<schema::User>(conn)?;
            Ok::<_, Refusal>(())
        });
        assert_eq!(missing, Err(Refusal::Diesel(diesel::NotFound)));
        assert_eq!(schema::names(conn), [""; 0]);
    });
}

#[test]
fn a_test_transaction_of_one_closure_leaves_nothing() {
    through_both!(|conn| {
        let seen = conn.test_transaction(|conn| {
            diesel::insert_into(users::table)
                .values(&NewUser {
                    name: "Sean",
                    hair_color: None,
                })
                .execute(conn)?;
            Ok::<_, DieselError>(schema::names(conn))
        });
        assert_eq!(seen, ["Sean"]);
        assert_eq!((schema::names(conn).len(), depth(conn)), (0, None));
    });
}

#[test]
fn begin_and_commit_by_the_transaction_manager() {
    // What frameworks do that cannot use closures.
    fn begin<C: Connection>(conn: &mut C) -> QueryResult<()> {
        C::TransactionManager::begin_transaction(conn)
    }
    fn commit<C: Connection>(conn: &mut C) -> QueryResult<()> {
        C::TransactionManager::commit_transaction(conn)
    }
    fn roll_back<C: Connection>(conn: &mut C) -> QueryResult<()> {
        C::TransactionManager::rollback_transaction(conn)
    }

    through_both!(|conn| {
        assert!(matches!(commit(conn), Err(DieselError::NotInTransaction)));
        assert!(matches!(
            roll_back(conn),
            Err(DieselError::NotInTransaction)
        ));
        begin(conn).unwrap();
        diesel::insert_into(users::table)
            .values(users::name.eq("1"))
            .execute(conn)
            .unwrap();
        begin(conn).unwrap();
        diesel::insert_into(users::table)
            .values(users::name.eq("2"))
            .execute(conn)
            .unwrap();
        roll_back(conn).unwrap();
        commit(conn).unwrap();
        begin(conn).unwrap();
        diesel::insert_into(users::table)
            .values(users::name.eq("3"))
            .execute(conn)
            .unwrap();
        roll_back(conn).unwrap();
        assert_eq!(
            (schema::names(conn), depth(conn)),
            (vec!["1".to_owned()], None)
        );
    });
}
