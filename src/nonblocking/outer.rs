//! Handles of an outer bb8 pool: the swap-in.
//!
//! What the outer pool holds are handles. bb8 makes them in tasks of its own, where no route is in
//! force, so a handle starts unbound. It is bound at its checkout (bb8 calls
//! [`is_valid`](bb8::ManageConnection::is_valid) in the caller's task), or by its first transaction or
//! batch; at return it gives its connection back to the node's pool and is unbound again.

use std::sync::PoisonError;
use std::time::Duration;

use diesel::connection::DynInstrumentation;
use diesel::result::Error as DieselError;
use diesel_async::AsyncConnection;
use diesel_async::pooled_connection::PoolError;

use super::backend::AsyncNodeConnection;
use super::connection::AsyncShardedConnection;
use super::manager::AsyncShardedConnectionManager;
use crate::driver::ShardedTmState;
use crate::driver::node_set::PoolNode;
use crate::error::Error;
use crate::route::Located;
use crate::telemetry::Reason;

impl<C: AsyncNodeConnection> bb8::ManageConnection for AsyncShardedConnectionManager<C> {
    type Connection = AsyncShardedConnection<C>;
    type Error = PoolError;

    async fn connect(&self) -> Result<AsyncShardedConnection<C>, PoolError> {
        Ok(AsyncShardedConnection::unbound(self.clone()))
    }

    /// Binds the handle by the caller's stack. Always `Ok`: an error would make bb8 throw the handle
    /// away and try the next until the caller's timeout, so a binding that fails is kept and given by
    /// the first statement.
    async fn is_valid(&self, conn: &mut AsyncShardedConnection<C>) -> Result<(), PoolError> {
        conn.bind_at_checkout().await;
        Ok(())
    }

    /// Gives the inner connection back to its node. Always `false`: a handle does not break.
    fn has_broken(&self, conn: &mut AsyncShardedConnection<C>) -> bool {
        conn.unbind();
        false
    }
}

impl<C: AsyncNodeConnection> AsyncShardedConnectionManager<C> {
    /// Puts the manager into an outer bb8 pool, sized so that the node pools are what limits a
    /// caller. Needs no runtime yet.
    ///
    /// The outer pool hands out handles, which cost nothing while idle; the database connections
    /// stay in the node pools. For other settings build it with `bb8::Pool::builder()` as usual, with
    /// `test_on_check_out(true)` (bb8's default), which is what binds a handle.
    #[must_use]
    pub fn into_pool(self) -> bb8::Pool<Self> {
        let (mut capacity, mut longest) = (0u32, Duration::ZERO);
        for (node, _) in self.inner.fleet.load().pools() {
            let settings = &node.state().settings;
            capacity = capacity.saturating_add(settings.max_size);
            longest = longest.max(settings.connection_timeout);
        }
        bb8::Pool::builder()
            .max_size(capacity.max(1))
            .idle_timeout(None)
            .max_lifetime(None)
            // A binding waits for its node inside of this; the node's own timeout is to be the first.
            .connection_timeout(longest.max(Duration::from_secs(1)).saturating_mul(2))
            .retry_connection(false)
            .build_unchecked(self)
    }

    /// Where a handle of an outer pool belongs by the stack of this moment. `Ok(None)`: no route, no
    /// default.
    fn target_of_stack(&self) -> Result<Option<(Located, Reason)>, Error> {
        match self.route_in_force(&*self.nodes()?) {
            Ok(target) => Ok(Some(target)),
            Err(Error::NoRoute { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Checks out for a handle of an outer pool.
    async fn get_target(
        &self,
        (at, reason): (Located, Reason),
    ) -> Result<AsyncShardedConnection<C>, Error> {
        self.checkout(at, reason).await
    }
}

impl<C: AsyncNodeConnection> AsyncShardedConnection<C> {
    pub(super) async fn bind_at_checkout(&mut self) {
        let Some(handle) = &mut self.handle else {
            return;
        };
        handle.fresh = false;
        handle.failed = None;
        let bound = match handle.manager.target_of_stack() {
            // A transaction or batch will look again, under the route of its own moment.
            Ok(None) => return,
            Ok(Some(target)) => {
                handle.target = Some(target);
                handle.manager.get_target(target).await
            }
            Err(error) => Err(error),
        };
        match bound {
            Ok(bound) => self.take_over(bound),
            Err(error) => handle.failed = Some(error),
        }
    }

    /// Binds a handle because something is about to run on it that can wait for that.
    #[inline]
    pub(super) async fn bind_for_statement(&mut self) -> Result<(), Error> {
        if self.lease.is_some() {
            return Ok(());
        }
        self.bind_now().await
    }

    #[cold]
    async fn bind_now(&mut self) -> Result<(), Error> {
        let Some(handle) = &mut self.handle else {
            unreachable!("a connection without a handle is always bound");
        };
        if let Some(error) = handle.failed.take() {
            return Err(error);
        }
        // Once it is known where a handle belongs it is bound there or nowhere: a second attempt
        // under another route, or under none, must not end up elsewhere.
        if handle.target.is_none() {
            handle.target = handle.manager.target_of_stack()?;
        }
        let bound = match handle.target {
            Some(target) => handle.manager.get_target(target).await?,
            None => handle.manager.get().await?,
        };
        self.take_over(bound);
        Ok(())
    }

    fn take_over(&mut self, mut bound: AsyncShardedConnection<C>) {
        self.lease = bound.lease.take();
        self.by_stack = true;
        let (Some(handle), Some(lease)) = (&mut self.handle, &mut self.lease) else {
            return;
        };
        let kept = handle
            .instrumentation
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner);
        let mine = std::mem::replace(kept, DynInstrumentation::none());
        lease.slot_mut().swap_instrumentation(mine);
        if let Some(size) = handle.cache_size {
            self.set_prepared_statement_cache_size(size);
        }
    }

    pub(super) fn unbind(&mut self) {
        if self.tm.depth() > 0 {
            self.abandon();
        }
        self.tm = ShardedTmState::default();
        if let (Some(lease), Some(handle)) = (&mut self.lease, &mut self.handle) {
            let mine = lease
                .slot_mut()
                .swap_instrumentation(DynInstrumentation::none());
            *handle
                .instrumentation
                .get_mut()
                .unwrap_or_else(PoisonError::into_inner) = mine;
        }
        if let Some(handle) = &mut self.handle {
            handle.failed = None;
            handle.target = None;
        }
        self.hooks.clear();
        self.lease = None;
    }
}

/// An error of a checkout once more, for the next statement of a handle that could not be bound.
pub(super) fn again(error: &Error) -> Error {
    match error {
        Error::Unavailable {
            shard,
            role,
            cause,
            source,
        } => Error::Unavailable {
            shard: *shard,
            role: *role,
            cause: *cause,
            source: source.as_ref().map(|source| source.to_string().into()),
        },
        Error::PoolExhausted {
            shard,
            role,
            size,
            waited,
            held,
        } => Error::PoolExhausted {
            shard: *shard,
            role: *role,
            size: *size,
            waited: *waited,
            held: held.clone(),
        },
        Error::WouldDeadlock { shard, role, size } => Error::WouldDeadlock {
            shard: *shard,
            role: *role,
            size: *size,
        },
        Error::AlreadyInTransaction { shard } => Error::AlreadyInTransaction { shard: *shard },
        Error::PinnedElsewhere { pinned, wanted } => Error::PinnedElsewhere {
            pinned: *pinned,
            wanted: *wanted,
        },
        Error::ShardOffline { shard } => Error::ShardOffline { shard: *shard },
        Error::WrongDatabase { expected, found } => Error::WrongDatabase {
            expected: *expected,
            found: found.clone(),
        },
        Error::PlacementChanged {
            keyspace,
            shard,
            configured,
            recorded,
        } => Error::PlacementChanged {
            keyspace: *keyspace,
            shard: *shard,
            configured: configured.clone(),
            recorded: recorded.clone(),
        },
        other => Error::Database {
            shard: other.shard(),
            source: DieselError::QueryBuilderError(other.to_string().into()),
        },
    }
}
