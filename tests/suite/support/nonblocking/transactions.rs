//! Transactions with options, whose bodies block.

use std::cell::RefCell;

use diesel_sharded::nonblocking::{
    self, AsyncNodeConnection, AsyncShardedConnectionManager, Isolation, Outcome,
};
use send_wrapper::SendWrapper;

use super::owned::{Sharded, lend};
use super::{carry, unpack, wait};

pub(crate) struct TransactionBuilder<C: AsyncNodeConnection> {
    builder: nonblocking::TransactionBuilder<C>,
    manager: AsyncShardedConnectionManager<C>,
}

impl<C: AsyncNodeConnection> TransactionBuilder<C> {
    pub(super) fn new(
        builder: nonblocking::TransactionBuilder<C>,
        manager: &AsyncShardedConnectionManager<C>,
    ) -> Self {
        let manager = manager.clone();
        Self { builder, manager }
    }

    pub(crate) fn isolation(mut self, level: Isolation) -> Self {
        self.builder = self.builder.isolation(level);
        self
    }

    pub(crate) fn read_only(mut self) -> Self {
        self.builder = self.builder.read_only();
        self
    }

    pub(crate) fn immediate(mut self) -> Self {
        self.builder = self.builder.immediate();
        self
    }

    pub(crate) fn retries(self, times: usize) -> Retrying<C> {
        Retrying {
            builder: self,
            times,
        }
    }

    pub(crate) fn run<T, E>(
        self,
        body: impl FnOnce(&mut Sharded<C>) -> Result<T, E>,
    ) -> Result<T, E>
    where
        E: From<diesel::result::Error>,
    {
        let (manager, body) = (self.manager, SendWrapper::new(body));
        let transaction = self
            .builder
            .run(async move |conn| carry(lend(conn, &manager, body.take())));
        unpack(wait(transaction))
    }

    pub(crate) fn run_outcome<T, E>(
        self,
        body: impl FnOnce(&mut Sharded<C>) -> Result<Outcome<T>, E>,
    ) -> Result<T, E>
    where
        E: From<diesel::result::Error>,
    {
        let (manager, body) = (self.manager, SendWrapper::new(body));
        let transaction = self
            .builder
            .run_outcome(async move |conn| carried_outcome(lend(conn, &manager, body.take())));
        unpack(wait(transaction))
    }
}

fn carried_outcome<T, E>(
    outcome: Result<Outcome<T>, E>,
) -> Result<Outcome<SendWrapper<T>>, super::Carried<E>> {
    match carry(outcome)?.take() {
        Outcome::Commit(value) => Ok(Outcome::Commit(SendWrapper::new(value))),
        Outcome::Rollback(value) => Ok(Outcome::Rollback(SendWrapper::new(value))),
    }
}

pub(crate) struct Retrying<C: AsyncNodeConnection> {
    builder: TransactionBuilder<C>,
    times: usize,
}

impl<C: AsyncNodeConnection> Retrying<C> {
    pub(crate) fn run<T, E>(self, body: impl FnMut(&mut Sharded<C>) -> Result<T, E>) -> Result<T, E>
    where
        E: From<diesel::result::Error>,
    {
        let TransactionBuilder { builder, manager } = self.builder;
        let body = SendWrapper::new(RefCell::new(body));
        let (manager, body) = (&manager, &body);
        let transaction = builder
            .retries(self.times)
            .run(async move |conn| carry(lend(conn, manager, |conn| (body.borrow_mut())(conn))));
        unpack(wait(transaction))
    }

    pub(crate) fn run_outcome<T, E>(
        self,
        body: impl FnMut(&mut Sharded<C>) -> Result<Outcome<T>, E>,
    ) -> Result<T, E>
    where
        E: From<diesel::result::Error>,
    {
        let TransactionBuilder { builder, manager } = self.builder;
        let body = SendWrapper::new(RefCell::new(body));
        let (manager, body) = (&manager, &body);
        let transaction = builder.retries(self.times).run_outcome(async move |conn| {
            carried_outcome(lend(conn, manager, |conn| (body.borrow_mut())(conn)))
        });
        unpack(wait(transaction))
    }
}
