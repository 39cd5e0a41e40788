//! The manager's builder.

use std::fmt;
use std::sync::Arc;

use diesel::ConnectionResult;

use super::backend::NodeConnection;
use super::manager::ShardedConnectionManager;
use super::node::{Options, Threads};
use crate::driver::NodeInfo;
use crate::driver::builder::describes_topology;
use crate::error::Error;
use crate::topology::{Topology, TopologyBuilder};

/// Describes a topology in code and makes the manager for it.
#[must_use = "a builder does nothing until it is built"]
pub struct ManagerBuilder<C: NodeConnection> {
    topology: TopologyBuilder,
    options: Options<C>,
    threads: Option<Arc<Threads>>,
}

impl<C: NodeConnection> ManagerBuilder<C> {
    pub(super) fn new() -> Self {
        Self {
            topology: Topology::builder(),
            options: Options::default(),
            threads: None,
        }
    }

    /// Uses threads that other managers use too.
    pub(super) fn threads(mut self, threads: Arc<Threads>) -> Self {
        self.threads = Some(threads);
        self
    }

    describes_topology!();

    /// Connects nodes in the application's own way: TLS, short-lived tokens, `SET` after connect.
    ///
    /// Called for each physical connection, on a thread that may wait; an attempt that outlives
    /// `connect_timeout` is given up.
    ///
    /// ```
    /// # #[cfg(feature = "postgres")] fn check() -> Result<(), diesel_sharded::Error> {
    /// use diesel::{Connection, PgConnection};
    /// use diesel::connection::SimpleConnection;
    /// use diesel_sharded::blocking::ShardedConnectionManager;
    ///
    /// let shards = ShardedConnectionManager::<PgConnection>::builder()
    ///     .shard("order-0", "postgres://app@db-0/orders")
    ///     .connect_with(|node| {
    ///         let mut conn = PgConnection::establish(node.url().expose())?;
    ///         conn.batch_execute("SET application_name = 'orders'")
    ///             .map_err(diesel::ConnectionError::CouldntSetupConfiguration)?;
    ///         Ok(conn)
    ///     })
    ///     .build()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn connect_with(
        mut self,
        connect: impl Fn(NodeInfo<'_>) -> ConnectionResult<C> + Send + Sync + 'static,
    ) -> Self {
        self.options.connector = Some(Arc::new(connect));
        self
    }

    /// Resets the session of every connection that goes back to its pool. Defaults to `false`: what
    /// somebody `SET` is there for the next user of the same connection.
    ///
    /// - PostgreSQL: settings, role, cursors, listens, advisory locks, temporary tables and sequence
    ///   caches are reset, at one round trip per return; prepared statements are kept. What
    ///   [`connect_with`](Self::connect_with) has `SET` is reset too: set it again in
    ///   [`on_return`](Self::on_return).
    /// - MySQL: named locks are let go, at one round trip per return. There is no statement for the
    ///   rest, so a connection that may have set something (`batch_execute`, a hand-written statement
    ///   that is no query, raw access) is closed.
    /// - SQLite: a connection that may have set something is closed; otherwise nothing is done.
    pub fn reset_sessions(mut self, reset: bool) -> Self {
        self.options.reset_sessions = reset;
        self
    }

    /// Runs a function on every connection that goes back to its pool, after
    /// [`reset_sessions`](Self::reset_sessions); where it fails, the connection is closed.
    pub fn on_return(
        mut self,
        f: impl Fn(&mut C) -> diesel::QueryResult<()> + Send + Sync + 'static,
    ) -> Self {
        self.options.on_return = Some(Arc::new(f));
        self
    }

    /// Checks the description and makes the manager. Opens no connection, unless the topology says
    /// [`Startup::Require`](crate::Startup::Require).
    ///
    /// # Errors
    ///
    /// [`Error::Config`] with everything that is wrong; [`Error::Unavailable`] under
    /// [`Startup::Require`](crate::Startup::Require).
    pub fn build(self) -> Result<ShardedConnectionManager<C>, Error> {
        let threads = self.threads.unwrap_or_else(|| Arc::new(Threads::new()));
        ShardedConnectionManager::new(&self.topology.build()?, self.options, threads)
    }
}

impl<C: NodeConnection> fmt::Debug for ManagerBuilder<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ManagerBuilder")
            .field("topology", &self.topology)
            .finish_non_exhaustive()
    }
}

impl<C: NodeConnection> ShardedConnectionManager<C> {
    /// Another manager for the same databases, for tests: each node's pool is one connection that
    /// lives in a test transaction, so nothing that is done through it is ever committed.
    ///
    /// Give it to the code under test in place of the real one: handlers write through it, the test
    /// reads through it, and when it is dropped nothing is left. `transaction_on` opens savepoints,
    /// `after_commit` runs when they are released. What cannot work with one connection per node does
    /// not: `independent` on the same shard is `WouldDeadlock`, a second thread waits for the first.
    /// On MySQL a statement of data definition ends the test transaction; migrate before. On PostgreSQL
    /// a statement that fails outside of `transaction_on` spoils it: what the test has written until
    /// then is gone, and a new test transaction begins.
    ///
    /// ```
    /// # #[cfg(feature = "sqlite")] fn main() -> Result<(), diesel_sharded::Error> {
    /// # use diesel::connection::SimpleConnection;
    /// # use diesel::prelude::*;
    /// # use diesel_sharded::blocking::ShardedConnectionManager;
    /// # let dir = tempfile::tempdir().expect("a temporary folder");
    /// # let shards = ShardedConnectionManager::<diesel::SqliteConnection>::builder()
    /// #     .shard("order-0", dir.path().join("o").display().to_string()).build()?;
    /// # diesel::table! { orders (id) { id -> Integer, } }
    /// # shards.get_on("order-0")?.batch_execute("CREATE TABLE orders (id INTEGER PRIMARY KEY)")?;
    /// # let handler = |shards: &ShardedConnectionManager<diesel::SqliteConnection>| shards
    /// #     .transaction_on("order-0", |conn| diesel::insert_into(orders::table)
    /// #         .values(orders::id.eq(1)).execute(conn));
    /// let test = shards.test_transactions()?;
    /// handler(&test)?;
    /// assert_eq!(orders::table.count().get_result::<i64>(&mut test.get_on("order-0")?)?, 1);
    /// drop(test);
    /// assert_eq!(orders::table.count().get_result::<i64>(&mut shards.get_on("order-0")?)?, 0);
    /// # Ok(())
    /// # }
    /// # #[cfg(not(feature = "sqlite"))] fn main() {}
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Config`] where what was valid when the topology was made no longer is.
    pub fn test_transactions(&self) -> Result<Self, Error> {
        let options = Options {
            test_transactions: true,
            ..self.inner.options.clone()
        };
        Self::new(
            &self.topology().copy()?,
            options,
            Arc::clone(&self.inner.threads),
        )
    }
}
