//! r2d2 as the outer pool: its own ways to take a handle, Diesel's manager, and customizers, which are
//! given handles that belong to no shard yet.

use std::sync::mpsc;
use std::time::Duration;

use diesel::r2d2::{CustomizeConnection, HandleError, Pool, TestCustomizer};
use diesel::result::Error as DieselError;

use super::super::surface::outer_pool::idle;
use super::{Fleet, Manager, Sharded, ids, insert, whoami};

#[test]
fn a_pool_of_defaults_takes_the_manager() {
    let fleet = Fleet::new(&["a", "b"]);
    let shards = fleet.manager();
    let pool = Pool::new(shards.clone()).unwrap();
    let found = shards.on("b", || whoami(&mut pool.get().unwrap()));
    assert_eq!(found.unwrap(), "b");
}

#[test]
fn every_way_to_take_a_handle_obeys_the_route() {
    let fleet = Fleet::new(&["a", "b"]);
    let shards = fleet.manager();
    let pool = shards.clone().into_pool();
    shards
        .on("b", || {
            assert_eq!(whoami(&mut pool.get().unwrap())?, "b");
            assert_eq!(whoami(&mut pool.try_get().unwrap())?, "b");
            assert_eq!(
                whoami(&mut pool.get_timeout(Duration::from_secs(1)).unwrap())?,
                "b"
            );
            Ok::<_, DieselError>(())
        })
        .unwrap();
    assert_eq!(idle(&shards, "b"), (1, 1));
}

/// Diesel's own manager over ours: each connection has a topology of its own.
#[test]
fn diesels_own_manager_takes_our_connection() {
    let fleet = Fleet::new(&["a"]);
    let pool = Pool::builder()
        .max_size(1)
        .connection_customizer(Box::new(TestCustomizer))
        .build(diesel::r2d2::ConnectionManager::<Sharded>::new(
            fleet.url("a"),
        ))
        .unwrap();
    for id in 1..4 {
        insert(&mut pool.get().unwrap(), id).unwrap();
    }
    assert_eq!(ids(&mut pool.get().unwrap()), Ok(vec![1, 2, 3]));
    assert_eq!(fleet.rows("a"), [0_i64; 0]);
}

#[test]
fn into_pool_has_room_for_every_node_and_class() {
    let fleet = Fleet::new(&["a", "b"]);
    let pool = fleet.manager_of_size(3).into_pool();
    assert_eq!(pool.max_size(), 6);
    assert!(pool.test_on_check_out());

    let workload = fleet
        .builder_of_size(3)
        .workload("batch", crate::support::pool(1));
    assert_eq!(workload.build().unwrap().into_pool().max_size(), 8);
}

#[derive(Debug)]
struct ToChannel(mpsc::Sender<String>);

impl HandleError<diesel::r2d2::Error> for ToChannel {
    fn handle_error(&self, error: diesel::r2d2::Error) {
        let _ = self.0.send(error.to_string());
    }
}

#[test]
fn a_test_customizer_is_told_why_it_cannot_work() {
    let fleet = Fleet::new(&["a"]);
    for shards in [
        fleet.manager(),
        fleet.builder().default_shard("a").build().unwrap(),
    ] {
        let (errors, said) = mpsc::channel();
        let pool: Pool<Manager> = Pool::builder()
            .max_size(1)
            .connection_customizer(Box::new(TestCustomizer))
            .error_handler(Box::new(ToChannel(errors)))
            .build_unchecked(shards.clone());
        let text = said.recv_timeout(Duration::from_secs(10)).unwrap();
        assert!(
            text.contains("TestCustomizer") && text.contains("outer pool"),
            "{text}"
        );
        // No connection was opened for it either.
        assert_eq!(idle(&shards, "a"), (0, 0));
        drop(pool);
    }
}

#[derive(Debug)]
struct CountsHandles(mpsc::Sender<()>);

impl CustomizeConnection<Sharded, diesel::r2d2::Error> for CountsHandles {
    fn on_acquire(&self, conn: &mut Sharded) -> Result<(), diesel::r2d2::Error> {
        assert_eq!(conn.shard(), None);
        let _ = self.0.send(());
        Ok(())
    }
}

#[test]
fn other_customizers_see_unbound_handles() {
    let fleet = Fleet::new(&["a"]);
    let (acquired, seen) = mpsc::channel();
    let shards = fleet.manager();
    let pool = Pool::builder()
        .max_size(2)
        .connection_customizer(Box::new(CountsHandles(acquired)))
        .build(shards.clone())
        .unwrap();
    shards
        .on("a", || insert(&mut pool.get().unwrap(), 1))
        .unwrap();
    assert_eq!(seen.try_iter().count(), 2);
}
