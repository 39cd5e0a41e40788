//! The swap-in: the application's own pool over the manager.

use std::time::{Duration, Instant};

use diesel::connection::{Connection, SimpleConnection};
use diesel::prelude::*;
use diesel::result::Error as DieselError;
use diesel_sharded::Error;

use super::{Fleet, Manager, Pool, Pooled, backend, ids, insert, whoami};
use crate::support::ours;

/// An application's state: what was a pool of plain connections before.
#[derive(Clone)]
struct App {
    pool: Pool,
}

impl App {
    fn store(&self, id: i64) -> Result<usize, Box<dyn std::error::Error>> {
        let mut conn = self.pool.get()?;
        Ok(insert(&mut conn, id)?)
    }
}

#[test]
fn each_checkout_goes_where_the_route_says() {
    let fleet = Fleet::new(&["a", "b"]);
    let shards = fleet.manager();
    let mut pools = vec![
        shards.clone().into_pool(),
        Pool::builder().max_size(3).build(shards.clone()).unwrap(),
    ];
    // The nonblocking driver binds in bb8's test, and says so where there is none.
    let untested = Pool::builder()
        .min_idle(Some(0))
        .test_on_check_out(false)
        .build(shards.clone())
        .unwrap();
    if backend::DRIVER == "blocking" {
        pools.push(untested);
    } else {
        let error = shards
            .on("a", || insert(&mut untested.get().unwrap(), 9))
            .unwrap_err();
        assert!(matches!(ours(&error), Error::NoRoute { .. }), "{error:?}");
    }
    for pool in pools {
        let app = App { pool };
        shards
            .on("a", || {
                app.store(1).unwrap();
                shards.on("b", || Ok::<_, DieselError>(app.clone().store(2).unwrap()))?;
                app.store(3).unwrap();
                Ok::<_, DieselError>(())
            })
            .unwrap();
        assert_eq!((fleet.rows("a"), fleet.rows("b")), (vec![1, 3], vec![2]));
        for shard in ["a", "b"] {
            fleet
                .direct(shard)
                .batch_execute("DELETE FROM items")
                .unwrap();
        }
    }
}

backend::blocking_only! {
    #[test]
    fn a_handle_taken_under_no_route_is_bound_by_its_first_statement() {
        let fleet = Fleet::new(&["a", "b"]);
        let shards = fleet.manager();
        let pool = shards.clone().into_pool();
        let mut conn = pool.get().unwrap();
        assert_eq!((conn.shard(), conn.role()), (None, None));
        let error = whoami(&mut conn).unwrap_err();
        assert!(matches!(ours(&error), Error::NoRoute { .. }));
        assert_eq!(shards.on("b", || whoami(&mut conn)), Ok("b".to_owned()));
        assert_eq!(conn.shard().unwrap().as_str(), "b");
        // From now on it belongs there, under no route as well.
        assert_eq!(whoami(&mut conn).unwrap(), "b");
        let error = shards.on("a", || whoami(&mut conn)).unwrap_err();
        assert!(matches!(ours(&error), Error::RouteMismatch { .. }));
        assert_eq!(whoami(&mut conn).unwrap(), "b");
    }
}

backend::blocking_only! {
    #[test]
    fn everything_that_can_come_first_binds() {
        use diesel::r2d2::R2D2Connection;

        let fleet = Fleet::new(&["a"]);
        let shards = fleet.manager();
        let pool = shards.clone().into_pool();
        for first in [
            (|conn| conn.batch_execute("SELECT 1")) as fn(&mut Pooled) -> QueryResult<()>,
            |conn| conn.ping(),
            |conn| conn.inner().map(|_| ()),
            |conn| conn.transaction(|_| Ok(())),
            |conn| conn.begin_test_transaction(),
            |conn| insert(conn, 1).map(|_| ()),
            |conn| ids(conn).map(|_| ()),
        ] {
            let mut conn = pool.get().unwrap();
            let error = first(&mut conn).unwrap_err();
            assert!(matches!(ours(&error), Error::NoRoute { .. }));
            assert_eq!(conn.shard(), None);
            shards.on("a", || first(&mut conn)).unwrap();
            assert_eq!(conn.shard().unwrap().as_str(), "a");
        }
    }
}

#[test]
fn the_default_shard_is_for_checkouts_without_a_route() {
    let fleet = Fleet::new(&["a", "b"]);
    let shards = fleet.builder().default_shard("b").build().unwrap();
    let pool = shards.clone().into_pool();
    let mut conn = pool.get().unwrap();
    assert_eq!(conn.shard().unwrap().as_str(), "b");
    assert_eq!(whoami(&mut conn).unwrap(), "b");
    let error = shards.on("a", || whoami(&mut conn)).unwrap_err();
    assert!(matches!(ours(&error), Error::RouteMismatch { .. }));
}

#[test]
fn an_unknown_shard_is_answered_at_once() {
    let fleet = Fleet::new(&["a", "b"]);
    let shards = fleet.manager();
    let pool = Pool::builder()
        .connection_timeout(Duration::from_secs(30))
        .build(shards.clone())
        .unwrap();
    // The best of a few: other tests want the processor, too.
    let times = (0..5).map(|_| {
        let start = Instant::now();
        let error = shards
            .on("bb", || whoami(&mut pool.get().expect("not reached")))
            .unwrap_err();
        let Error::UnknownShard { shard, nearest, .. } = ours(&error) else {
            panic!("{error:?}");
        };
        assert_eq!((shard.as_str(), nearest.unwrap().as_str()), ("bb", "b"));
        start.elapsed()
    });
    let best = times.min().unwrap();
    assert!(best < Duration::from_millis(50), "{best:?}");
}

/// A manager whose shard `down` does not connect as long as the switch says so.
fn with_a_shard_down(fleet: &Fleet) -> (Manager, std::sync::Arc<std::sync::atomic::AtomicBool>) {
    let down = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(true));
    let switch = std::sync::Arc::clone(&down);
    let shards = fleet
        .builder()
        .connect_with(move |node| {
            if node.shard() == "b" && switch.load(std::sync::atomic::Ordering::SeqCst) {
                let text = "connection refused: the switch says so";
                return Err(diesel::ConnectionError::BadConnection(text.to_owned()));
            }
            super::open(node.url().expose())
        })
        .build()
        .expect("the topology is valid");
    (shards, down)
}

backend::blocking_only! {
    #[test]
    fn a_failed_binding_is_told_by_the_first_statement_and_forgotten() {
        let fleet = Fleet::new(&["a", "b"]);
        let (shards, down) = with_a_shard_down(&fleet);
        let pool = Pool::builder()
            .max_size(1)
            .connection_timeout(Duration::from_secs(30))
            .build(shards.clone())
            .unwrap();
        let start = Instant::now();
        let mut conn = shards
            .on("b", || {
                Ok::<_, DieselError>(pool.get().expect("a handle is always there"))
            })
            .unwrap();
        assert!(
            start.elapsed() < Duration::from_secs(5),
            "{:?}",
            start.elapsed()
        );
        assert_eq!(conn.shard(), None);
        // It is told wherever the statement stands, because that is what the checkout was for.
        let error = insert(&mut conn, 1).unwrap_err();
        let Error::Unavailable { shard, .. } = ours(&error) else {
            panic!("{error:?}");
        };
        assert_eq!(shard.as_str(), "b");
        // The next one asks anew, at the same shard: it belongs there, whatever route is in force now.
        for error in [
            insert(&mut conn, 1).unwrap_err(),
            shards.on("a", || insert(&mut conn, 1)).unwrap_err(),
        ] {
            assert!(
                matches!(ours(&error), Error::Unavailable { shard, .. } if *shard == "b"),
                "{error:?}"
            );
        }
        drop(conn);
        let mut conn = shards
            .on("a", || Ok::<_, DieselError>(pool.get().unwrap()))
            .unwrap();
        assert_eq!(insert(&mut conn, 1), Ok(1), "given back, it is forgotten");
        drop(conn);

        down.store(false, std::sync::atomic::Ordering::SeqCst);
        crate::support::eventually("shard b is back", || {
            shards
                .on("b", || insert(&mut pool.get().unwrap(), 2))
                .is_ok()
        });
        assert_eq!((fleet.rows("a"), fleet.rows("b")), (vec![1], vec![2]));
    }
}

#[test]
fn a_failed_binding_that_nobody_asked_for_is_not_the_next_ones() {
    let fleet = Fleet::new(&["a", "b"]);
    let (shards, _down) = with_a_shard_down(&fleet);
    let pool = Pool::builder().max_size(1).build(shards.clone()).unwrap();
    shards
        .on("b", || {
            drop(pool.get().unwrap());
            Ok::<_, DieselError>(())
        })
        .unwrap();
    assert_eq!(
        shards.on("a", || insert(&mut pool.get().unwrap(), 1)),
        Ok(1)
    );
}

#[test]
fn a_pinned_scope_is_told_by_the_first_statement() {
    let fleet = Fleet::new(&["a", "b"]);
    let shards = fleet.manager();
    let pool = shards.clone().into_pool();
    shards
        .transaction_on("a", |conn| {
            let error = insert(&mut pool.get().unwrap(), 1).unwrap_err();
            assert!(matches!(ours(&error), Error::AlreadyInTransaction { .. }));
            insert(conn, 2)
        })
        .unwrap();
    assert_eq!(fleet.rows("a"), [2]);
}

/// The connections of a shard's node, and how many of them are idle.
pub(crate) fn idle(shards: &Manager, shard: &str) -> (u32, u32) {
    let status = shards.status();
    let node = status.nodes.iter().find(|node| node.shard == shard);
    node.map(|node| (node.connections, node.idle))
        .expect("a node")
}

#[test]
fn a_returned_handle_gives_its_connection_back_to_the_node() {
    let fleet = Fleet::new(&["a", "b"]);
    let shards = fleet.manager_of_size(1);
    let pool = Pool::builder().max_size(2).build(shards.clone()).unwrap();
    for _ in 0..3 {
        shards
            .on("a", || {
                let mut conn = pool.get().unwrap();
                assert_eq!(idle(&shards, "a"), (1, 0));
                insert(&mut conn, 1)?;
                diesel::sql_query("DELETE FROM items").execute(&mut conn)
            })
            .unwrap();
        assert_eq!(idle(&shards, "a"), (1, 1));
        // So the manager's own users are not kept waiting by idle handles.
        ids(&mut shards.get_on("a").unwrap()).unwrap();
    }
    assert!(pool.state().idle_connections >= 1, "handles are kept");

    // A handle that comes back in a transaction loses the connection, not the handle.
    shards
        .on("a", || {
            let mut conn = pool.get().unwrap();
            conn.batch_execute("BEGIN")?;
            insert(&mut conn, 1)
        })
        .unwrap();
    assert!(pool.state().connections >= 1);
    fleet.assert_nothing_open("a");
    assert_eq!(fleet.rows("a"), [0_i64; 0]);
    shards
        .on("a", || insert(&mut pool.get().unwrap(), 2))
        .unwrap();
}

#[test]
fn a_panic_gives_the_connection_back_clean() {
    let fleet = Fleet::new(&["a"]);
    let shards = fleet.manager_of_size(1);
    let pool = shards.clone().into_pool();
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        shards.on("a", || {
            let mut conn = pool.get().unwrap();
            conn.transaction(|conn| -> QueryResult<()> {
                insert(conn, 1)?;
                panic!("of the application")
            })
        })
    }));
    assert!(panicked.is_err());
    fleet.assert_nothing_open("a");
    assert_eq!(fleet.rows("a"), [0_i64; 0]);
    shards
        .on("a", || insert(&mut pool.get().unwrap(), 2))
        .unwrap();
}

backend::blocking_only! {
    #[test]
    fn a_handle_that_was_not_tested_at_checkout_takes_a_test_transaction() {
        let fleet = Fleet::new(&["a"]);
        let shards = fleet.manager_of_size(1);
        let pool = Pool::builder()
            .max_size(1)
            .test_on_check_out(false)
            .build(shards.clone())
            .unwrap();
        shards
            .on("a", || pool.get().unwrap().begin_test_transaction())
            .unwrap();
        shards
            .on("a", || insert(&mut pool.get().unwrap(), 1))
            .unwrap();
        assert_eq!(fleet.rows("a"), [0_i64; 0]);
    }
}
