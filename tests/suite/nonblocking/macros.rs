//! The attributes on async functions: the route survives each await and goes with the future.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

use diesel::prelude::*;
use diesel_async::SimpleAsyncConnection;
use diesel_sharded::nonblocking::Keyspace;
use diesel_sharded::{
    Error, HasShardKey, KeyspaceConfig, Route, RuleSpec, ShardKey, routed, sharded_transaction,
};
use tokio::sync::Barrier;
use tokio::task::yield_now;

use super::{Conn, Connection, Fleet, Manager, NAME, builder, insert, whoami};
use crate::nonblocking::spawned;
use crate::support::{conflict_of, items, ours, pool};

/// Remainder 0 lives on `a`, remainder 1 on `b`.
#[derive(Clone)]
struct Service {
    shards: Manager,
    keys: Keyspace<Conn>,
}

impl Service {
    async fn new(fleet: &Fleet, size: u32) -> Self {
        let shards = builder(fleet, pool(size))
            .keyspace("items", KeyspaceConfig::new(RuleSpec::modulo(["a", "b"])))
            .build()
            .await
            .unwrap();
        let keys = shards.keyspace("items").unwrap();
        Self { shards, keys }
    }

    /// Where a checkout goes at this moment, says the database.
    async fn here(&self) -> Result<String, Error> {
        yield_now().await;
        Ok(whoami(&mut self.shards.get().await?).await?)
    }

    #[routed(shards = self.shards, shard = "b")]
    async fn by_name(&self) -> Result<String, Error> {
        self.here().await
    }

    #[routed(keyspace = self.keys, key = key)]
    async fn by_key(&self, key: i64) -> Result<String, Error> {
        self.here().await
    }

    #[routed(keyspace = self.keys, key = key)]
    async fn before_and_after(&self, key: i64) -> Result<[String; 3], Error> {
        Ok([
            self.here().await?,
            self.by_key(key + 1).await?,
            self.here().await?,
        ])
    }

    #[routed(keyspace = self.keys, key = 1)]
    async fn early(&self, way: Way) -> Result<String, Error> {
        match way {
            Way::Return => return self.here().await,
            Way::Question => Err(Error::NoRoute { known: vec![] })?,
            Way::Panic => panic!("half-way"),
            Way::End => {}
        }
        self.here().await
    }

    #[sharded_transaction(keyspace = self.keys, key = id)]
    async fn create(
        &self,
        #[conn] conn: &mut Connection,
        id: i64,
        way: Way,
    ) -> Result<String, Error> {
        insert(conn, id).await?;
        match way {
            Way::Return => return Ok(whoami(conn).await?),
            Way::Question => Err(Error::NoRoute { known: vec![] })?,
            Way::Panic => panic!("half-way"),
            Way::End => {}
        }
        Ok(whoami(conn).await?)
    }

    #[sharded_transaction(keyspace = self.keys, key = 0)]
    async fn calls_the_same(&self, #[conn] conn: &mut Connection) -> Result<(), Error> {
        insert(conn, 10).await?;
        self.create(12, Way::End).await.map(drop)
    }

    #[sharded_transaction(keyspace = self.keys, key = 0)]
    async fn calls_another(&self, #[conn] conn: &mut Connection) -> Result<(), Error> {
        insert(conn, 10).await?;
        self.create(11, Way::End).await.map(drop)
    }

    #[sharded_transaction(keyspace = self.keys, key = 0)]
    async fn routes_elsewhere(&self, #[conn] conn: &mut Connection) -> Result<String, Error> {
        insert(conn, 10).await?;
        self.by_key(1).await
    }

    #[routed(keyspace = self.keys, key = None::<i64>)]
    async fn without_a_key(&self, ran: &AtomicUsize) -> Result<(), Error> {
        ran.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }

    /// Says that it has begun, and never ends by itself.
    #[sharded_transaction(keyspace = self.keys, key = 1)]
    async fn for_ever(
        &self,
        #[conn] conn: &mut Connection,
        begun: Arc<Barrier>,
    ) -> Result<(), Error> {
        insert(conn, 1).await?;
        begun.wait().await;
        std::future::pending().await
    }

    #[sharded_transaction(keyspace = self.keys, key = 0, retries = 5)]
    async fn again(
        &self,
        #[conn] conn: &mut Connection,
        fleet: &Fleet,
        runs: &AtomicI64,
        consumed: Vec<i64>,
        mut text: String,
    ) -> QueryResult<(Vec<i64>, String)> {
        let run = runs.fetch_add(1, Ordering::SeqCst);
        text.push('!');
        if run < 2 {
            conflict(fleet, conn).await?;
        }
        insert(conn, 100 + 2 * run).await?;
        Ok((consumed, text))
    }

    fn boxed(&self) -> Result<i64, Error> {
        Ok(1)
    }

    /// A future by hand, as `async_trait` makes them.
    #[routed(keyspace = self.keys, key = 1)]
    fn by_hand(
        &self,
    ) -> std::pin::Pin<Box<dyn Future<Output = Result<String, Error>> + Send + '_>> {
        let offset = 1;
        Box::pin(async move {
            if offset == self.boxed()? {
                return self.here().await;
            }
            Ok(String::new())
        })
    }

    #[tracing::instrument(skip_all, err)]
    #[routed(keyspace = self.keys, key = 1)]
    async fn instrumented_above(&self) -> Result<String, Error> {
        self.here().await
    }

    #[routed(keyspace = self.keys, key = 1)]
    #[tracing::instrument(skip_all, err)]
    async fn instrumented_below(&self) -> Result<String, Error> {
        self.here().await
    }

    #[tracing::instrument(skip_all, err)]
    #[sharded_transaction(keyspace = self.keys, key = 1)]
    async fn transaction_instrumented(
        &self,
        #[conn] conn: &mut Connection,
    ) -> Result<String, Error> {
        Ok(whoami(conn).await?)
    }

    #[routed(keyspace = self.keys, key = 1)]
    async fn generic<'a, T: Into<String> + Send>(
        self,
        text: &'a str,
        more: T,
    ) -> Result<(String, &'a str), Error> {
        Ok((self.here().await? + &more.into(), text))
    }
}

/// A statement that fails as a conflict with another transaction does.
async fn conflict(fleet: &Fleet, conn: &mut Connection) -> QueryResult<()> {
    if let Some(text) = conflict_of(NAME) {
        return conn.batch_execute(text).await;
    }
    conn.batch_execute("PRAGMA busy_timeout = 0").await?;
    let mut other = fleet.direct("a");
    diesel::connection::SimpleConnection::batch_execute(&mut other, "BEGIN IMMEDIATE")?;
    insert(conn, 999).await.map(drop)
}

#[async_trait::async_trait]
trait Store: Sync {
    async fn place(&self, key: i64) -> Result<String, Error>;

    async fn add(&self, id: i64) -> Result<String, Error>;

    async fn add_in_one(&self, id: i64, note: &str) -> Result<String, Error>;

    async fn add_again(&self, fleet: &Fleet, runs: &AtomicI64, ids: Vec<i64>) -> QueryResult<usize>;
}

#[async_trait::async_trait]
impl Store for Service {
    #[routed(keyspace = self.keys, key = key)]
    async fn place(&self, key: i64) -> Result<String, Error> {
        self.here().await
    }

    #[routed(keyspace = self.keys, key = id)]
    async fn add(&self, id: i64) -> Result<String, Error> {
        self.create(id, Way::End).await
    }

    #[sharded_transaction(keyspace = self.keys, key = id)]
    async fn add_in_one(
        &self,
        id: i64,
        note: &str,
        #[conn] conn: &mut Connection,
    ) -> Result<String, Error> {
        insert(conn, id).await?;
        Ok(whoami(conn).await? + note)
    }

    #[sharded_transaction(keyspace = self.keys, key = 0, retries = 5)]
    async fn add_again(
        &self,
        #[conn] conn: &mut Connection,
        fleet: &Fleet,
        runs: &AtomicI64,
        ids: Vec<i64>,
    ) -> QueryResult<usize> {
        if runs.fetch_add(1, Ordering::SeqCst) < 2 {
            conflict(fleet, conn).await?;
        }
        let mut added = 0;
        for id in ids {
            added += insert(conn, id).await?;
        }
        Ok(added)
    }
}

#[derive(Clone, Copy)]
enum Way {
    End,
    Return,
    Question,
    Panic,
}

#[test]
fn the_body_runs_under_the_route_that_its_head_names() {
    let fleet = Fleet::new(&["a", "b"]);
    spawned(async move {
        let service = Service::new(&fleet, 4).await;
        assert_eq!(service.by_name().await.unwrap(), "b");
        for key in -4..4 {
            let home = ["a", "b"][usize::from(key & 1 == 1)];
            assert_eq!(service.by_key(key).await.unwrap(), home);
            assert_eq!(service.place(key).await.unwrap(), home);
        }
        assert_eq!(service.before_and_after(0).await.unwrap(), ["a", "b", "a"]);
        assert!(matches!(service.here().await, Err(Error::NoRoute { .. })));
    });
}

#[test]
fn futures_that_are_polled_in_turn_do_not_see_each_others_route() {
    let fleet = Fleet::new(&["a", "b"]);
    spawned(async move {
        let service = Service::new(&fleet, 4).await;
        for _ in 0..20 {
            let (one, two, three) =
                tokio::join!(service.by_key(0), service.by_key(1), service.place(2));
            assert_eq!([one.unwrap(), two.unwrap(), three.unwrap()], ["a", "b", "a"]);
        }
        assert_eq!(Route::stack_depth(), 0);
    });
}

#[test]
fn the_route_is_left_on_return_error_and_panic() {
    let fleet = Fleet::new(&["a", "b"]);
    spawned(async move {
        let service = Service::new(&fleet, 4).await;
        for way in [Way::End, Way::Return] {
            assert_eq!(service.early(way).await.unwrap(), "b");
            assert_eq!(Route::stack_depth(), 0);
        }
        assert!(service.early(Way::Question).await.is_err());
        assert_eq!(Route::stack_depth(), 0);
        let other = service.clone();
        let died = tokio::spawn(async move { other.early(Way::Panic).await.map(drop) });
        assert!(died.await.unwrap_err().is_panic());
        assert!(matches!(service.here().await, Err(Error::NoRoute { .. })));
    });
}

#[test]
fn a_transaction_is_committed_by_ok_alone() {
    let fleet = Fleet::new(&["a", "b"]);
    let fleet = spawned(async move {
        let service = Service::new(&fleet, 1).await;
        assert_eq!(service.create(1, Way::End).await.unwrap(), "b");
        assert_eq!(service.create(3, Way::Return).await.unwrap(), "b");
        assert_eq!(service.add(2).await.unwrap(), "a");
        assert!(service.create(5, Way::Question).await.is_err());
        let other = service.clone();
        let died = tokio::spawn(async move { other.create(7, Way::Panic).await.map(drop) });
        assert!(died.await.unwrap_err().is_panic());
        assert_eq!(service.create(9, Way::End).await.unwrap(), "b");
        fleet
    });
    assert_eq!(fleet.rows("b"), [1, 3, 9]);
    assert_eq!(fleet.rows("a"), [2]);
}

#[test]
fn a_method_of_an_async_trait_can_be_a_transaction() {
    let fleet = Fleet::new(&["a", "b"]);
    let fleet = spawned(async move {
        let service = Service::new(&fleet, 1).await;
        let store: &dyn Store = &service;
        assert_eq!(store.add_in_one(3, "!").await.unwrap(), "b!");
        assert!(store.add_in_one(3, "!").await.is_err());
        let runs = AtomicI64::new(0);
        let added = store.add_again(&fleet, &runs, vec![2, 4]).await;
        assert_eq!((added.unwrap(), runs.into_inner()), (2, 3));
        fleet
    });
    assert_eq!(fleet.rows("b"), [3]);
    assert_eq!(fleet.rows("a"), [2, 4]);
}

#[test]
fn a_switch_inside_a_transaction_is_a_typed_error_and_all_of_it_is_undone() {
    let fleet = Fleet::new(&["a", "b"]);
    let fleet = spawned(async move {
        let service = Service::new(&fleet, 2).await;
        for error in [
            service.routes_elsewhere().await.unwrap_err(),
            service.calls_another().await.unwrap_err(),
        ] {
            assert!(
                matches!(&error, Error::PinnedElsewhere { pinned, wanted }
                    if *pinned == "a" && *wanted == "b"),
                "{error:?}"
            );
        }
        let error = service.calls_the_same().await.unwrap_err();
        assert!(
            matches!(&error, Error::AlreadyInTransaction { shard } if *shard == "a"),
            "{error:?}"
        );
        fleet
    });
    assert_eq!(fleet.rows("a"), [0_i64; 0]);
    assert_eq!(fleet.rows("b"), [0_i64; 0]);
}

#[test]
fn a_cancelled_transaction_is_rolled_back_and_its_route_left() {
    let fleet = Fleet::new(&["a", "b"]);
    let fleet = spawned(async move {
        let service = Service::new(&fleet, 1).await;
        let begun = Arc::new(Barrier::new(2));
        let (other, other_begun) = (service.clone(), Arc::clone(&begun));
        let task = tokio::spawn(async move { other.for_ever(other_begun).await });
        begun.wait().await;
        task.abort();
        assert!(task.await.unwrap_err().is_cancelled());
        assert_eq!(service.create(3, Way::End).await.unwrap(), "b");
        fleet
    });
    assert_eq!(fleet.rows("b"), [3]);
}

#[test]
fn without_a_key_the_body_does_not_run() {
    let fleet = Fleet::new(&["a", "b"]);
    spawned(async move {
        let service = Service::new(&fleet, 1).await;
        let ran = AtomicUsize::new(0);
        let error = service.without_a_key(&ran).await.unwrap_err();
        assert!(matches!(error, Error::NullShardKey { .. }), "{error:?}");
        assert_eq!(ran.load(Ordering::SeqCst), 0);
    });
}

#[test]
fn arguments_are_whole_in_each_run() {
    let fleet = Fleet::new(&["a", "b"]);
    let fleet = spawned(async move {
        let service = Service::new(&fleet, 1).await;
        let runs = AtomicI64::new(0);
        let (consumed, text) = service
            .again(&fleet, &runs, vec![1, 2], "text".to_owned())
            .await
            .unwrap();
        assert_eq!((consumed, text), (vec![1, 2], "text!".to_owned()));
        assert_eq!(runs.load(Ordering::SeqCst), 3);
        fleet
    });
    assert_eq!(fleet.rows("a"), [104]);
}

#[test]
fn functions_of_every_form_can_be_routed() {
    let fleet = Fleet::new(&["a", "b"]);
    spawned(async move {
        let service = Service::new(&fleet, 4).await;
        assert_eq!(service.by_hand().await.unwrap(), "b");
        assert_eq!(service.instrumented_above().await.unwrap(), "b");
        assert_eq!(service.instrumented_below().await.unwrap(), "b");
        assert_eq!(service.transaction_instrumented().await.unwrap(), "b");
        let (text, same) = service.generic("x", String::from("-")).await.unwrap();
        assert_eq!((text.as_str(), same), ("b-", "x"));
    });
}

/// Not `Sync`: its reference could not go to another thread, and it is never borrowed there.
struct Unshared(Cell<i64>);

#[routed(keyspace = keys, key = 1)]
async fn moves_what_is_not_sync(keys: Keyspace<Conn>, value: Unshared) -> Result<i64, Error> {
    yield_now().await;
    Ok(value.0.get())
}

#[test]
fn a_routed_future_is_send_where_its_body_is() {
    let fleet = Fleet::new(&["a", "b"]);
    spawned(async move {
        let Service { keys, .. } = Service::new(&fleet, 1).await;
        let task = tokio::spawn(moves_what_is_not_sync(keys, Unshared(Cell::new(7))));
        assert_eq!(task.await.unwrap().unwrap(), 7);
    });
}

#[derive(Insertable, ShardKey)]
#[diesel(table_name = items)]
#[sharded(keyspace = "items")]
struct Item {
    #[shard_key]
    id: i64,
}

#[test]
fn a_checked_insert_refuses_a_row_of_another_shard() {
    let fleet = Fleet::new(&["a", "b"]);
    let fleet = spawned(async move {
        let service = Service::new(&fleet, 1).await;
        assert_eq!(service.keys.route_of(&Item { id: 3 }).unwrap().shard(), "b");
        let mut conn = service.shards.get_on("a").await.unwrap();
        assert_eq!(Item { id: 2 }.insert_checked(&mut conn).await.unwrap(), 1);
        let error = Item { id: 3 }.insert_checked(&mut conn).await.unwrap_err();
        assert!(
            matches!(ours(&error), Error::WrongShard { owner, bound, .. }
                if *owner == "b" && *bound == "a"),
            "{error:?}"
        );
        drop(conn);
        let rows = service.keys.group_rows([5, 4].map(|id| Item { id })).unwrap();
        for (shard, rows) in rows.by_shard {
            service
                .shards
                .transaction_on(shard, async |conn| {
                    for row in &rows {
                        assert_ne!(row.shard_key(), ShardKey::Null);
                        row.insert_checked(conn).await?;
                    }
                    Ok::<_, diesel::result::Error>(())
                })
                .await
                .unwrap();
        }
        fleet
    });
    assert_eq!(fleet.rows("a"), [2, 4]);
    assert_eq!(fleet.rows("b"), [5]);
}
