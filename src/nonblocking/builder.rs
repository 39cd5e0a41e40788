//! The manager's builder.

use std::fmt;
use std::sync::Arc;

use diesel::ConnectionResult;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use super::backend::AsyncNodeConnection;
use super::manager::AsyncShardedConnectionManager;
use super::node::Options;
use crate::driver::NodeInfo;
use crate::driver::builder::describes_topology;
use crate::error::Error;
use crate::topology::{Topology, TopologyBuilder};

/// Describes a topology in code and makes the manager for it.
#[must_use = "a builder does nothing until it is built"]
pub struct ManagerBuilder<C: AsyncNodeConnection> {
    topology: TopologyBuilder,
    options: Options<C>,
}

impl<C: AsyncNodeConnection> ManagerBuilder<C> {
    pub(super) fn new() -> Self {
        Self {
            topology: Topology::builder(),
            options: Options::default(),
        }
    }

    describes_topology!();

    /// Connects nodes in the application's own way: TLS, short-lived tokens, `SET` after connect.
    ///
    /// Called for each physical connection, in a task of its own; an attempt that outlives
    /// `connect_timeout` is given up. The future may not borrow the node: take out of it what is
    /// needed before the `async move` block.
    ///
    /// ```
    /// # #[cfg(feature = "async-postgres")]
    /// # async fn check() -> Result<(), diesel_sharded::Error> {
    /// use diesel_async::{AsyncConnection, AsyncPgConnection, SimpleAsyncConnection};
    /// use diesel_sharded::nonblocking::AsyncShardedConnectionManager;
    ///
    /// let shards = AsyncShardedConnectionManager::<AsyncPgConnection>::builder()
    ///     .shard("order-0", "postgres://app@db-0/orders")
    ///     .connect_with(|node| {
    ///         let url = node.url().expose().to_owned();
    ///         async move {
    ///             let mut conn = AsyncPgConnection::establish(&url).await?;
    ///             conn.batch_execute("SET application_name = 'orders'")
    ///                 .await
    ///                 .map_err(diesel::ConnectionError::CouldntSetupConfiguration)?;
    ///             Ok(conn)
    ///         }
    ///     })
    ///     .build()
    ///     .await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn connect_with<F>(
        mut self,
        connect: impl Fn(NodeInfo<'_>) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = ConnectionResult<C>> + Send + 'static,
    {
        self.options.connector = Some(Arc::new(move |node| connect(node).boxed()));
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

    /// Runs an async function on every connection that goes back to its pool, after
    /// [`reset_sessions`](Self::reset_sessions), in a task of its own; where it fails, the connection
    /// is closed.
    ///
    /// ```
    /// # #[cfg(feature = "async-postgres")]
    /// # fn check(builder: diesel_sharded::nonblocking::ManagerBuilder<diesel_async::AsyncPgConnection>) {
    /// # use diesel_async::SimpleAsyncConnection;
    /// let builder = builder.on_return(|conn| {
    ///     Box::pin(async move { conn.batch_execute("SET application_name = 'idle'").await })
    /// });
    /// # }
    /// ```
    pub fn on_return(
        mut self,
        f: impl for<'a> Fn(&'a mut C) -> BoxFuture<'a, diesel::QueryResult<()>> + Send + Sync + 'static,
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
    pub async fn build(self) -> Result<AsyncShardedConnectionManager<C>, Error> {
        AsyncShardedConnectionManager::new(&self.topology.build()?, self.options).await
    }
}

impl<C: AsyncNodeConnection> fmt::Debug for ManagerBuilder<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ManagerBuilder")
            .field("topology", &self.topology)
            .finish_non_exhaustive()
    }
}

impl<C: AsyncNodeConnection> AsyncShardedConnectionManager<C> {
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
    /// # Errors
    ///
    /// [`Error::Config`] where what was valid when the topology was made no longer is.
    pub async fn test_transactions(&self) -> Result<Self, Error> {
        let options = Options {
            test_transactions: true,
            ..self.inner.options.clone()
        };
        Self::new(&self.topology().copy()?, options).await
    }
}
