//! `build_transaction` with all its options.

use diesel::connection::Connection;
use diesel::dsl::sql;
use diesel::prelude::*;
use diesel::result::{DatabaseErrorKind, Error as DieselError};
use diesel::sql_types::Text;
use diesel_sharded::Error;

use super::{Fleet, Isolation, Sharded, both, ids, insert, through_both};

fn setting(conn: &mut Sharded, name: &str) -> String {
    diesel::select(sql::<Text>(&format!("current_setting('{name}')")))
        .get_result(conn)
        .expect("a setting")
}

#[test]
fn each_option_reaches_the_server() {
    through_both!(|conn| {
        let level = |conn: &mut Sharded| {
            Ok::<_, DieselError>((
                setting(conn, "transaction_isolation"),
                setting(conn, "transaction_read_only"),
                setting(conn, "transaction_deferrable"),
            ))
        };
        let of = |level: &str, read_only: &str, deferrable: &str| {
            Ok((
                level.to_owned(),
                read_only.to_owned(),
                deferrable.to_owned(),
            ))
        };
        assert_eq!(
            conn.build_transaction().run(level),
            of("read committed", "off", "off")
        );
        assert_eq!(
            conn.build_transaction()
                .read_committed()
                .read_write()
                .run(level),
            of("read committed", "off", "off")
        );
        assert_eq!(
            conn.build_transaction()
                .repeatable_read()
                .not_deferrable()
                .run(level),
            of("repeatable read", "off", "off")
        );
        assert_eq!(
            conn.build_transaction()
                .serializable()
                .read_only()
                .deferrable()
                .run(level),
            of("serializable", "on", "on")
        );
        let plain = conn.transaction(|conn| level(conn));
        assert_eq!(plain, of("read committed", "off", "off"));
    });
}

#[test]
fn it_commits_rolls_back_and_nests() {
    through_both!(|conn| {
        conn.build_transaction()
            .serializable()
            .run(|conn| {
                insert(conn, 1)?;
                conn.transaction(|conn| insert(conn, 2))?;
                let nested = conn.build_transaction().run(|_| Ok::<_, DieselError>(()));
                assert!(
                    matches!(nested, Err(DieselError::AlreadyInTransaction)),
                    "{nested:?}"
                );
                Ok::<_, DieselError>(())
            })
            .unwrap();
        let undone = conn.build_transaction().run(|conn| {
            insert(conn, 3)?;
            Err::<(), _>(DieselError::RollbackTransaction)
        });
        assert_eq!(undone, Err(DieselError::RollbackTransaction));
        assert_eq!(ids(conn), Ok(vec![1, 2]));
        // A builder can be kept and run twice.
        let mut builder = conn.build_transaction();
        builder.run(|conn| insert(conn, 4)).unwrap();
        builder.run(|conn| insert(conn, 5)).unwrap();
        assert_eq!(ids(conn), Ok(vec![1, 2, 4, 5]));
    });
}

#[test]
fn a_read_only_transaction_refuses_writes_and_the_connection_lives_on() {
    through_both!(|conn| {
        let refused = conn
            .build_transaction()
            .read_only()
            .run(|conn| insert(conn, 1));
        assert!(matches!(
            refused,
            Err(DieselError::DatabaseError(
                DatabaseErrorKind::ReadOnlyTransaction,
                _
            ))
        ));
        insert(conn, 2).unwrap();
        assert_eq!(ids(conn), Ok(vec![2]));
    });
    let fleet = Fleet::new(&["a"]);
    let shards = fleet.manager_of_size(1);
    let session = |conn: &mut Sharded| super::super::backend::session(conn);
    let before = session(&mut shards.get_on("a").unwrap()).unwrap();
    let refused = shards
        .transaction_builder("a")
        .isolation(Isolation::Serializable)
        .read_only()
        .run(|conn| insert(conn, 1).map_err(Error::from));
    assert!(refused.is_err());
    assert_eq!(
        session(&mut shards.get_on("a").unwrap()),
        Ok(before),
        "no reason to close it"
    );
}

#[test]
fn within_a_test_transaction_it_is_a_savepoint() {
    let fleet = Fleet::new(&["a"]);
    let shards = fleet.manager_of_size(1);
    let mut conn = shards.get_on("a").unwrap();
    conn.begin_test_transaction().unwrap();
    conn.build_transaction()
        .serializable()
        .run(|conn| insert(conn, 1))
        .unwrap();
    let undone = conn.build_transaction().run(|conn| {
        insert(conn, 2)?;
        Err::<(), _>(DieselError::RollbackTransaction)
    });
    assert!(undone.is_err());
    assert_eq!(ids(&mut conn), Ok(vec![1]));
}
