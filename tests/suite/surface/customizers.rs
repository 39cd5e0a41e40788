//! Customizers of an outer pool: what they are given are handles that belong to no shard yet.

use std::sync::mpsc;
use std::time::Duration;

use diesel::r2d2::{CustomizeConnection, HandleError, Pool, TestCustomizer};

use super::outer_pool::idle;
use super::{Fleet, Manager, Sharded, insert};

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
