//! What stands around transactions: test transactions, migrations, instrumentation, panics.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use diesel::connection::InstrumentationEvent;
use diesel::migration::{Migration, MigrationMetadata, MigrationName, MigrationSource, MigrationVersion};
use diesel_async::{
    AsyncConnection, AsyncConnectionCore, AsyncMigrationHarness, SimpleAsyncConnection,
};
use diesel_migrations::MigrationHarness;
use diesel_sharded::{Error, Route};
use futures_util::FutureExt;
use tokio::sync::oneshot;

use super::{Connection, Fleet, ids, insert, manager};
use crate::nonblocking::{half_way, spawned, stay};

type Backend = <Connection as AsyncConnectionCore>::Backend;

#[test]
fn what_runs_in_test_transactions_is_never_committed() {
    let fleet = Fleet::new(&["a"]);
    let shards = manager(&fleet, 4);
    spawned(async move {
        let test = shards.await.test_transactions().await.unwrap();
        test.transaction_on("a", async |conn| insert(conn, 1).await)
            .await
            .unwrap();
        let refused = test
            .transaction_on("a", async |conn| {
                insert(conn, 2).await?;
                Err::<(), _>(diesel::result::Error::RollbackTransaction)
            })
            .await;
        assert!(refused.is_err());
        let (reached, is_reached) = oneshot::channel();
        let dropped = test.transaction_on("a", async |conn| {
            insert(conn, 3).await?;
            stay::<Result<(), Error>>(reached).await
        });
        half_way(is_reached, dropped).await;
        insert(&mut test.get_on("a").await.unwrap(), 4).await.unwrap();
        let seen = ids(&mut test.get_on("a").await.unwrap()).await;
        assert_eq!(seen, Ok(vec![1, 4]));
    });
    fleet.assert_nothing_open("a");
    assert_eq!(fleet.rows("a"), [0; 0]);
}

#[test]
fn the_depth_is_what_is_in_force_and_not_how_deep_scopes_are_nested() {
    let fleet = Fleet::new(&["a", "b"]);
    let shards = manager(&fleet, 1);
    spawned(async move {
        let shards = &shards.await;
        let depths = shards.on("a", async || {
            let one = Route::stack_depth();
            let more = shards.on("b", async || {
                let two = Route::stack_depth();
                let three = shards.on("a", async || Ok::<_, Error>(Route::stack_depth()));
                Ok::<_, Error>([two, three.await?])
            });
            Ok::<_, Error>((one, more.await?))
        });
        assert_eq!(depths.await.unwrap(), (1, [2, 2]));
        assert_eq!(Route::stack_depth(), 0);
    });
}

/// One migration, which makes a table.
struct MakesATable;

impl Migration<Backend> for MakesATable {
    fn run(
        &self,
        conn: &mut dyn diesel::connection::BoxableConnection<Backend>,
    ) -> diesel::migration::Result<()> {
        conn.batch_execute("CREATE TABLE migrated (id INTEGER)")?;
        Ok(())
    }

    fn revert(
        &self,
        conn: &mut dyn diesel::connection::BoxableConnection<Backend>,
    ) -> diesel::migration::Result<()> {
        conn.batch_execute("DROP TABLE migrated")?;
        Ok(())
    }

    fn metadata(&self) -> &dyn MigrationMetadata {
        self
    }

    fn name(&self) -> &dyn MigrationName {
        self
    }
}

impl MigrationMetadata for MakesATable {}

impl std::fmt::Display for MakesATable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("2026-01-01-000000_makes_a_table")
    }
}

impl MigrationName for MakesATable {
    fn version(&self) -> MigrationVersion<'_> {
        MigrationVersion::from("20260101000000")
    }
}

struct Source;

impl MigrationSource<Backend> for Source {
    fn migrations(&self) -> diesel::migration::Result<Vec<Box<dyn Migration<Backend>>>> {
        Ok(vec![Box::new(MakesATable)])
    }
}

#[test]
fn diesels_migration_harness_runs_on_every_shard() {
    let fleet = Fleet::new(&["a", "b"]);
    let shards = manager(&fleet, 1);
    spawned(async move {
        let shards = shards.await;
        for shard in shards.shards() {
            let conn = shards.get_on(shard).await.unwrap();
            let mut harness = AsyncMigrationHarness::new(conn);
            assert_eq!(harness.run_pending_migrations(Source).unwrap().len(), 1);
            assert_eq!(harness.run_pending_migrations(Source).unwrap().len(), 0);
            assert_eq!(harness.into_inner().shard(), Some(shard));
        }
        for shard in shards.shards() {
            let mut conn = shards.get_on(shard).await.unwrap();
            conn.batch_execute("INSERT INTO migrated (id) VALUES (1)")
                .await
                .unwrap();
        }
    });
}

#[test]
fn instrumentation_is_the_users_for_one_checkout_and_sees_nothing_of_ours() {
    let fleet = Fleet::new(&["a"]);
    let shards = manager(&fleet, 1);
    let seen = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&seen);
    spawned(async move {
        let shards = shards.await;
        let mut conn = shards.get_on("a").await.unwrap();
        conn.set_instrumentation(move |event: InstrumentationEvent<'_>| {
            if matches!(event, InstrumentationEvent::StartQuery { .. }) {
                counted.fetch_add(1, Ordering::SeqCst);
            }
        });
        insert(&mut conn, 1).await.unwrap();
        // Makes it ask the connection as it comes back.
        conn.inner().unwrap();
        drop(conn);
        let mut next = shards.get_on("a").await.unwrap();
        insert(&mut next, 2).await.unwrap();
    });
    assert_eq!(seen.load(Ordering::SeqCst), 1);
}

#[test]
fn a_panic_in_a_value_that_diesel_asks_for_does_not_spoil_the_connection() {
    use diesel::prelude::*;
    use diesel::serialize::{Output, ToSql};
    use diesel::sql_types::BigInt;
    use diesel_async::RunQueryDsl;

    #[derive(Debug, diesel::expression::AsExpression)]
    #[diesel(sql_type = BigInt)]
    struct Panics;

    impl ToSql<BigInt, Backend> for Panics {
        fn to_sql<'b>(&'b self, _: &mut Output<'b, '_, Backend>) -> diesel::serialize::Result {
            panic!("on purpose")
        }
    }

    let fleet = Fleet::new(&["a"]);
    let shards = manager(&fleet, 1);
    spawned(async move {
        let shards = shards.await;
        let panicking = shards.transaction_on("a", async |conn| {
            insert(conn, 1).await?;
            diesel::select(Panics.into_sql::<BigInt>())
                .get_result::<i64>(conn)
                .await
        });
        let panic = AssertUnwindSafe(panicking).catch_unwind().await;
        assert_eq!(*panic.unwrap_err().downcast::<&str>().unwrap(), "on purpose");
        insert(&mut shards.get_on("a").await.unwrap(), 2).await.unwrap();
    });
    fleet.assert_nothing_open("a");
    assert_eq!(fleet.rows("a"), [2]);
}
