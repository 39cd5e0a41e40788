//! Diesel's test transactions: a whole test in a transaction that is never committed.

use diesel::connection::{Connection, TransactionManager};
use diesel::result::Error as DieselError;
use diesel_sharded::Error;

use super::{Fleet, Sharded, ids, insert};

fn depth(conn: &mut Sharded) -> Option<u32> {
    <Sharded as Connection>::TransactionManager::transaction_manager_status_mut(conn)
        .transaction_depth()
        .expect("not broken")
        .map(Into::into)
}

#[test]
fn a_pool_of_one_keeps_its_connection_with_the_test_transaction() {
    let fleet = Fleet::new(&["a", "b"]);
    let shards = fleet.manager_of_size(1);
    shards
        .get_on("a")
        .unwrap()
        .begin_test_transaction()
        .unwrap();

    insert(&mut shards.get_on("a").unwrap(), 1).unwrap();
    shards.on("a", || insert(&mut shards.get()?, 2)).unwrap();
    assert_eq!(ids(&mut shards.get_on("a").unwrap()), Ok(vec![1, 2]));
    assert_eq!(depth(&mut shards.get_on("a").unwrap()), Some(1));
    let node = shards.status().nodes.remove(0);
    assert_eq!((node.connections, node.idle), (1, 1));

    // The other shard is not concerned, and nobody else ever sees the rows.
    insert(&mut shards.get_on("b").unwrap(), 3).unwrap();
    assert_eq!((fleet.rows("a"), fleet.rows("b")), (vec![], vec![3]));
    drop(shards);
    assert_eq!(fleet.rows("a"), [0_i64; 0]);
}

#[test]
fn a_transaction_in_it_is_a_savepoint() {
    let fleet = Fleet::new(&["a", "b"]);
    let shards = fleet.manager_of_size(1);
    shards
        .get_on("a")
        .unwrap()
        .begin_test_transaction()
        .unwrap();

    shards
        .transaction_on("a", |conn| {
            assert_eq!(depth(conn), Some(2));
            insert(conn, 1)?;
            conn.transaction(|conn| {
                assert_eq!(depth(conn), Some(3));
                insert(conn, 2)
            })
        })
        .unwrap();
    let refused = shards.transaction_on("a", |conn| {
        insert(conn, 3)?;
        Err::<(), _>(DieselError::RollbackTransaction)
    });
    assert_eq!(refused, Err(DieselError::RollbackTransaction));
    // A failed statement takes only its own transaction with it.
    let failed = shards.transaction_on("a", |conn| insert(conn, 1));
    assert!(matches!(failed, Err(DieselError::DatabaseError(..))));
    let in_a_panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        shards.transaction_on("a", |conn| -> Result<(), Error> {
            insert(conn, 4)?;
            panic!("of the application")
        })
    }));
    assert!(in_a_panic.is_err());

    assert_eq!(ids(&mut shards.get_on("a").unwrap()), Ok(vec![1, 2]));
    assert_eq!(depth(&mut shards.get_on("a").unwrap()), Some(1));
    assert_eq!(fleet.rows("a"), [0_i64; 0]);
}

#[test]
fn it_works_through_an_outer_pool_too() {
    let fleet = Fleet::new(&["a", "b"]);
    let shards = fleet.manager_of_size(1);
    let pool = shards.clone().into_pool();
    shards
        .on("a", || pool.get().unwrap().begin_test_transaction())
        .unwrap();
    shards
        .on("a", || insert(&mut pool.get().unwrap(), 1))
        .unwrap();
    shards.transaction_on("a", |conn| insert(conn, 2)).unwrap();
    let seen = shards.on("a", || ids(&mut pool.get().unwrap()));
    assert_eq!(seen, Ok(vec![1, 2]));
    assert_eq!(fleet.rows("a"), [0_i64; 0]);
}

#[test]
fn it_is_the_outermost_transaction() {
    let fleet = Fleet::new(&["a"]);
    let shards = fleet.manager_of_size(1);
    let mut conn = shards.get_on("a").unwrap();
    conn.begin_test_transaction().unwrap();
    // Diesel's own connections refuse this by a panic as well.
    let twice = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _ = conn.begin_test_transaction();
    }));
    assert!(twice.is_err());
}
