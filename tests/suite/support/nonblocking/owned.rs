//! A sharded connection as the tests hold it, and the loan of one to a blocking body.

use std::mem::swap;
use std::ops::{Deref, DerefMut};

use diesel::{ConnectionResult, QueryResult};
use diesel_async::{AsyncConnection, AsyncConnectionCore};
use diesel_sharded::nonblocking::{
    AsyncNodeConnection, AsyncShardedConnection, AsyncShardedConnectionManager,
};
use diesel_sharded::{Error, Role, ShardName, ToShardKey};

use super::view::{Borrowed, Holds, View};
use super::{in_context, wait};

type Manager<C> = AsyncShardedConnectionManager<C>;

/// A connection of the manager, or a handle of an outer pool.
pub(crate) struct Owned<C: AsyncNodeConnection> {
    conn: Option<AsyncShardedConnection<C>>,
    pub(super) manager: Manager<C>,
    /// Where the handle goes back to.
    home: Option<bb8::PooledConnection<'static, Manager<C>>>,
}

pub(crate) type Sharded<C> = View<Owned<C>>;

/// A connection that belongs to nothing and costs nothing, to hold a place.
fn placeholder<C: AsyncNodeConnection>(manager: &Manager<C>) -> AsyncShardedConnection<C> {
    wait(bb8::ManageConnection::connect(manager)).expect("a handle can always be made")
}

impl<C: AsyncNodeConnection> Owned<C> {
    pub(super) fn new(conn: AsyncShardedConnection<C>, manager: &Manager<C>) -> Sharded<C> {
        View(Self {
            conn: Some(conn),
            manager: manager.clone(),
            home: None,
        })
    }

    pub(super) fn of_pool(
        mut home: bb8::PooledConnection<'static, Manager<C>>,
        manager: &Manager<C>,
    ) -> Sharded<C> {
        let mut conn = placeholder(manager);
        swap(&mut *home, &mut conn);
        View(Self {
            conn: Some(conn),
            manager: manager.clone(),
            home: Some(home),
        })
    }

    fn conn(&self) -> &AsyncShardedConnection<C> {
        self.conn.as_ref().expect("there until it is dropped")
    }

    pub(super) fn conn_mut(&mut self) -> &mut AsyncShardedConnection<C> {
        self.conn.as_mut().expect("there until it is dropped")
    }
}

impl<C: AsyncNodeConnection> Drop for Owned<C> {
    fn drop(&mut self) {
        in_context(|| {
            let mut conn = self.conn.take();
            if let (Some(conn), Some(home)) = (&mut conn, &mut self.home) {
                swap(&mut **home, conn);
            }
            drop(self.home.take());
            drop(conn);
        });
    }
}

impl<C: AsyncNodeConnection> Holds for Owned<C>
where
    AsyncShardedConnection<C>: AsyncConnection + AsyncConnectionCore,
{
    type Conn = AsyncShardedConnection<C>;

    fn establish(url: &str) -> ConnectionResult<Self> {
        let conn = wait(AsyncShardedConnection::establish(url))?;
        let manager = wait(Manager::builder().shard("placeholder", url).build())
            .expect("the URL has just been used");
        Ok(Self {
            conn: Some(conn),
            manager,
            home: None,
        })
    }

    fn held(&mut self) -> &mut AsyncShardedConnection<C> {
        self.conn_mut()
    }

    fn transaction<T, E>(
        view: &mut View<Self>,
        body: impl FnOnce(&mut View<Self>) -> Result<T, E>,
    ) -> Result<T, E>
    where
        E: From<diesel::result::Error>,
    {
        super::transaction!(view, body, |conn, body| conn.transaction(body))
    }
}

/// Runs a transaction of the connection in the view with a blocking body.
macro_rules! transaction {
    ($view:expr, $body:expr, |$conn:ident, $async:ident| $begin:expr) => {{
        use crate::support::nonblocking::{carry, owned::lend, unpack, wait};

        let manager = $view.0.manager.clone();
        let body = send_wrapper::SendWrapper::new($body);
        let $async = async move |conn: &mut _| carry(lend(conn, &manager, body.take()));
        let $conn = $view.0.conn_mut();
        unpack(wait($begin))
    }};
}
pub(crate) use transaction;

/// Runs a blocking body on a connection that the driver gives to an async closure.
pub(super) fn lend<C: AsyncNodeConnection, T>(
    place: &mut AsyncShardedConnection<C>,
    manager: &Manager<C>,
    body: impl FnOnce(&mut Sharded<C>) -> T,
) -> T {
    let view = Owned::new(placeholder(manager), manager);
    let mut lent = Lent { place, view };
    lent.change_places();
    body(&mut lent.view)
}

/// Takes the connection back, also from a body that panics.
struct Lent<'a, C: AsyncNodeConnection> {
    place: &'a mut AsyncShardedConnection<C>,
    view: Sharded<C>,
}

impl<C: AsyncNodeConnection> Lent<'_, C> {
    fn change_places(&mut self) {
        if let Some(conn) = &mut self.view.0.conn {
            swap(self.place, conn);
        }
    }
}

impl<C: AsyncNodeConnection> Drop for Lent<'_, C> {
    fn drop(&mut self) {
        self.change_places();
    }
}

impl<C: AsyncNodeConnection> Sharded<C> {
    pub(crate) fn shard(&self) -> Option<ShardName> {
        self.0.conn().shard()
    }

    pub(crate) fn role(&self) -> Option<Role> {
        self.0.conn().role()
    }

    pub(crate) fn ensure_owns<K>(&mut self, keyspace: &str, key: &K) -> Result<(), Error>
    where
        K: ToShardKey + ?Sized,
    {
        self.0.conn_mut().ensure_owns(keyspace, key)
    }

    pub(crate) fn after_commit(&mut self, f: impl FnOnce() + Send + 'static) {
        self.0.conn_mut().after_commit(f);
    }

    pub(crate) fn inner(&mut self) -> QueryResult<Inner<'_, C>> {
        Ok(Inner(View(Borrowed(self.0.conn_mut().inner()?))))
    }
}

/// What stands for `&mut C` of the blocking driver.
pub(crate) struct Inner<'a, C>(View<Borrowed<'a, C>>);

impl<'a, C> Deref for Inner<'a, C> {
    type Target = View<Borrowed<'a, C>>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl<C> DerefMut for Inner<'_, C> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}
