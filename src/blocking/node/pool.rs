//! The r2d2 side of a node: its manager, and the connection a caller holds.

use std::sync::Arc;

use diesel::ConnectionError;

use super::Node;
use super::shared::Shared;
use crate::blocking::backend::NodeConnection;
use crate::blocking::slot::Slot;
use crate::driver::Flags;
use crate::driver::node::lock;

/// What r2d2 knows of a node.
pub(super) struct NodeManager<C: NodeConnection> {
    pub(super) shared: Arc<Shared<C>>,
}

impl<C: NodeConnection> r2d2::ManageConnection for NodeManager<C> {
    /// Boxed, because r2d2 moves it four times between its pool and the caller.
    type Connection = Box<Slot<C>>;
    type Error = diesel::r2d2::Error;

    /// Runs on the manager's pool threads and therefore never waits for a server.
    fn connect(&self) -> Result<Box<Slot<C>>, Self::Error> {
        if let Some(slot) = lock(&self.shared.ready).pop() {
            return Ok(slot);
        }
        // r2d2 wants an idle connection that no caller has made. It asks again in a while.
        self.shared.fill_later();
        Err(diesel::r2d2::Error::ConnectionError(
            ConnectionError::BadConnection("not yet".to_owned()),
        ))
    }

    fn is_valid(&self, slot: &mut Box<Slot<C>>) -> Result<(), Self::Error> {
        slot.check_alive(
            self.shared.state.settings.alive_bypass,
            &self.shared.state.meters,
        )
        .map_err(diesel::r2d2::Error::QueryError)
    }

    fn has_broken(&self, slot: &mut Box<Slot<C>>) -> bool {
        let test = self.shared.options.test_transactions;
        if test && !slot.is_in_test_transaction() {
            self.shared.state.meters.test_transaction_ended();
            slot.notes.flags.set(Flags::RETIRE);
        }
        let keep = !self.shared.is_retired()
            && slot.settle(
                self.shared.options.reset_sessions,
                self.shared.options.on_return.as_deref(),
            );
        if !keep {
            self.shared.state.meters.connection_closed();
        }
        !keep
    }
}

/// A connection out of a node's pool; going out of scope gives it back.
pub(crate) struct Lease<C: NodeConnection> {
    /// `None` only while it is being given back.
    pooled: Option<r2d2::PooledConnection<NodeManager<C>>>,
    node: Arc<Node<C>>,
}

impl<C: NodeConnection> Lease<C> {
    pub(super) fn new(node: &Arc<Node<C>>, pooled: r2d2::PooledConnection<NodeManager<C>>) -> Self {
        Self {
            pooled: Some(pooled),
            node: Arc::clone(node),
        }
    }

    #[inline]
    pub(crate) fn node(&self) -> &Arc<Node<C>> {
        &self.node
    }

    #[inline]
    pub(crate) fn split(&mut self) -> (&mut Slot<C>, &Node<C>) {
        match &mut self.pooled {
            Some(pooled) => (pooled, &self.node),
            None => unreachable!("a lease holds its connection until it is dropped"),
        }
    }

    #[inline]
    pub(crate) fn slot(&self) -> &Slot<C> {
        match &self.pooled {
            Some(pooled) => pooled,
            None => unreachable!("a lease holds its connection until it is dropped"),
        }
    }

    #[inline]
    pub(crate) fn slot_mut(&mut self) -> &mut Slot<C> {
        match &mut self.pooled {
            Some(pooled) => pooled,
            None => unreachable!("a lease holds its connection until it is dropped"),
        }
    }
}

impl<C: NodeConnection> Drop for Lease<C> {
    fn drop(&mut self) {
        drop(self.pooled.take());
        self.node.returned();
    }
}
