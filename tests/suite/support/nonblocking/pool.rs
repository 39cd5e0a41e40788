//! The application's own bb8 pool over the manager, whose every call waits.

use std::time::Duration;

use bb8::ManageConnection;
use diesel_sharded::nonblocking::{AsyncNodeConnection, AsyncShardedConnectionManager};

use super::manager::Manager;
use super::owned::{Owned, Sharded};
use super::wait;

type Inner<C> = AsyncShardedConnectionManager<C>;

pub(crate) type PoolError<C> = bb8::RunError<<Inner<C> as ManageConnection>::Error>;

pub(crate) struct Pool<C: AsyncNodeConnection> {
    pool: bb8::Pool<Inner<C>>,
    manager: Inner<C>,
}

impl<C: AsyncNodeConnection> Clone for Pool<C> {
    fn clone(&self) -> Self {
        Self::of(self.pool.clone(), self.manager.clone())
    }
}

impl<C: AsyncNodeConnection> Pool<C> {
    pub(super) fn of(pool: bb8::Pool<Inner<C>>, manager: Inner<C>) -> Self {
        Self { pool, manager }
    }

    pub(crate) fn builder() -> PoolBuilder<C> {
        PoolBuilder(bb8::Pool::builder())
    }

    pub(crate) fn get(&self) -> Result<Sharded<C>, PoolError<C>> {
        let handle = wait(self.pool.get_owned())?;
        Ok(Owned::of_pool(handle, &self.manager))
    }

    pub(crate) fn state(&self) -> bb8::State {
        self.pool.state()
    }
}

pub(crate) struct PoolBuilder<C: AsyncNodeConnection>(bb8::Builder<Inner<C>>);

impl<C: AsyncNodeConnection> PoolBuilder<C> {
    pub(crate) fn max_size(self, size: u32) -> Self {
        Self(self.0.max_size(size))
    }

    pub(crate) fn min_idle(self, idle: Option<u32>) -> Self {
        Self(self.0.min_idle(idle))
    }

    pub(crate) fn test_on_check_out(self, test: bool) -> Self {
        Self(self.0.test_on_check_out(test))
    }

    pub(crate) fn connection_timeout(self, timeout: Duration) -> Self {
        Self(self.0.connection_timeout(timeout))
    }

    pub(crate) fn build(
        self,
        manager: Manager<C>,
    ) -> Result<Pool<C>, <Inner<C> as ManageConnection>::Error> {
        let pool = wait(self.0.build(manager.0.clone()))?;
        Ok(Pool::of(pool, manager.0))
    }
}
