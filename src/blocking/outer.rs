//! The manager inside an outer r2d2 pool: the swap-in.
//!
//! What the outer pool holds are handles. r2d2 makes them on its own threads, where no route is in
//! force, so a handle starts unbound. It is bound on the caller's thread, at checkout (r2d2 calls
//! [`is_valid`](r2d2::ManageConnection::is_valid) there), or by its first statement; at return
//! ([`has_broken`](r2d2::ManageConnection::has_broken)) it gives its connection back to the node's
//! pool and is unbound again.

use std::time::Duration;

use diesel::connection::{Connection, DynInstrumentation};

use super::backend::NodeConnection;
use super::connection::ShardedConnection;
use super::manager::ShardedConnectionManager;
use crate::driver::node_set::PoolNode;
use crate::error::Error;
use crate::route::Located;
use crate::telemetry::Reason;

impl<C: NodeConnection> r2d2::ManageConnection for ShardedConnectionManager<C> {
    type Connection = ShardedConnection<C>;
    type Error = diesel::r2d2::Error;

    fn connect(&self) -> Result<ShardedConnection<C>, Self::Error> {
        Ok(ShardedConnection::unbound(self.clone()))
    }

    /// Binds the handle by the caller's stack. Always `Ok`: an error would make r2d2 throw the
    /// handle away and try the next until the caller's timeout, so a binding that fails is kept and
    /// given by the first statement.
    fn is_valid(&self, conn: &mut ShardedConnection<C>) -> Result<(), Self::Error> {
        conn.bind_at_checkout();
        Ok(())
    }

    /// Gives the inner connection back to its node. Always `false`: a handle does not break.
    fn has_broken(&self, conn: &mut ShardedConnection<C>) -> bool {
        conn.unbind();
        false
    }
}

impl<C: NodeConnection> ShardedConnectionManager<C> {
    /// Puts the manager into an outer r2d2 pool, sized so that the node pools are what limits a
    /// caller.
    ///
    /// The outer pool hands out handles, which cost nothing while idle; the database connections
    /// stay in the node pools. For other settings build it with `r2d2::Pool::builder()` as usual.
    #[must_use]
    pub fn into_pool(self) -> r2d2::Pool<Self> {
        let (mut capacity, mut longest) = (0u32, Duration::ZERO);
        for (node, _) in self.inner.fleet.load().pools() {
            capacity = capacity.saturating_add(node.state().settings.max_size);
            longest = longest.max(node.state().settings.connection_timeout);
        }
        r2d2::Pool::builder()
            .max_size(capacity.max(1))
            .min_idle(Some(1))
            .idle_timeout(None)
            .max_lifetime(None)
            .connection_timeout(longest.max(Duration::from_secs(1)))
            .thread_pool(self.inner.threads.pool())
            .build_unchecked(self)
    }

    /// Where a handle of an outer pool belongs by the stack of this moment. `Ok(None)`: no route, no
    /// default.
    pub(super) fn target_of_stack(&self) -> Result<Option<(Located, Reason)>, Error> {
        match self.route_in_force(&*self.nodes()?) {
            Ok(target) => Ok(Some(target)),
            Err(Error::NoRoute { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Checks out for a handle of an outer pool.
    pub(super) fn get_target(
        &self,
        (at, reason): (Located, Reason),
    ) -> Result<ShardedConnection<C>, Error> {
        self.checkout(self.nodes()?, at, reason)
    }
}

impl<C: NodeConnection> ShardedConnection<C> {
    fn bind_at_checkout(&mut self) {
        let Some(handle) = &mut self.handle else {
            return;
        };
        handle.fresh = false;
        handle.failed = None;
        let bound = match handle.manager.target_of_stack() {
            // The first statement will look again, under the route of its own moment.
            Ok(None) => return,
            Ok(Some(target)) => {
                handle.target = Some(target);
                handle.manager.get_target(target)
            }
            Err(error) => Err(error),
        };
        match bound {
            Ok(bound) => self.take_over(bound),
            Err(error) => handle.failed = Some(error),
        }
    }

    /// Binds a handle because a statement is about to run on it.
    #[cold]
    pub(super) fn bind_for_statement(&mut self) -> Result<(), Error> {
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
            Some(target) => handle.manager.get_target(target)?,
            None => handle.manager.get()?,
        };
        self.take_over(bound);
        Ok(())
    }

    fn take_over(&mut self, mut bound: ShardedConnection<C>) {
        self.lease = bound.lease.take();
        self.by_stack = true;
        let (Some(handle), Some(lease)) = (&mut self.handle, &mut self.lease) else {
            return;
        };
        let slot = lease.slot_mut();
        let mine = std::mem::replace(&mut handle.instrumentation, DynInstrumentation::none());
        slot.swap_instrumentation(mine);
        if let Some(size) = handle.cache_size {
            self.set_prepared_statement_cache_size(size);
        }
    }

    fn unbind(&mut self) {
        if self.tm.depth() > 0 {
            self.retire();
        }
        self.tm = crate::driver::ShardedTmState::default();
        if let (Some(lease), Some(handle)) = (&mut self.lease, &mut self.handle) {
            handle.instrumentation = lease
                .slot_mut()
                .swap_instrumentation(DynInstrumentation::none());
        }
        if let Some(handle) = &mut self.handle {
            handle.failed = None;
            handle.target = None;
        }
        self.hooks.clear();
        self.lease = None;
    }
}
