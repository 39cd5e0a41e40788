//! The nonblocking driver, given the shape of the blocking one, so that each behaviour is written
//! once.
//!
//! A test's thread waits for every future where it stands ([`wait`]); a runtime of several threads in
//! the background does the input and output. Routes belong to the thread, so what a body sees of
//! them goes through the driver's own futures and back. What takes real tasks (a future that is
//! dropped half-way, `select!`, `spawn`) is not asked here but in `tests/suite/nonblocking`.

mod manager;
mod owned;
mod pool;
mod transactions;
mod view;

pub(crate) mod mysql;
pub(crate) mod postgres;
pub(crate) mod sqlite;

use std::future::Future;
use std::sync::LazyLock;

use send_wrapper::SendWrapper;
use tokio::runtime::{self, Handle, Runtime};

pub(crate) use manager::{Builder, Keyspace, Manager, Reloaded};
pub(crate) use owned::{Sharded, transaction};
pub(crate) use pool::{Pool, PoolError};
pub(crate) use view::{Borrowed, Plain, View, ViewTransactions};

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    runtime::Builder::new_multi_thread()
        .worker_threads(4)
        .enable_all()
        .build()
        .expect("a runtime")
});

/// Waits on this thread, also inside of a future that this thread is polling.
pub(crate) fn wait<F: Future>(future: F) -> F::Output {
    in_context(|| pollster::block_on(future))
}

/// Runs where the driver finds the runtime.
fn in_context<T>(f: impl FnOnce() -> T) -> T {
    // A thread that is at its end has none any more, and the driver has to do without.
    let at_its_end = Handle::try_current().is_err_and(|error| error.is_thread_local_destroyed());
    let _context = (!at_its_end).then(|| RUNTIME.enter());
    f()
}

/// An error that stays on this thread, whatever the driver demands of errors.
pub(crate) struct Carried<E>(SendWrapper<E>);

impl<E: From<diesel::result::Error>> From<diesel::result::Error> for Carried<E> {
    fn from(error: diesel::result::Error) -> Self {
        Self(SendWrapper::new(error.into()))
    }
}

/// A body that stays on this thread, and its answer.
pub(crate) fn carry<T, E>(result: Result<T, E>) -> Result<SendWrapper<T>, Carried<E>> {
    match result {
        Ok(value) => Ok(SendWrapper::new(value)),
        Err(error) => Err(Carried(SendWrapper::new(error))),
    }
}

/// The way back from [`carry`].
pub(crate) fn unpack<T, E>(result: Result<SendWrapper<T>, Carried<E>>) -> Result<T, E> {
    match result {
        Ok(value) => Ok(value.take()),
        Err(error) => Err(error.0.take()),
    }
}

/// What the blocking driver alone can pass is no test here; `matrix` has the reasons.
macro_rules! blocking_only {
    ($(#[test] fn $name:ident() $body:block)+) => {
        $(
            #[expect(dead_code, reason = "a test of the blocking driver")]
            fn $name() $body
        )+
    };
}
pub(crate) use blocking_only;

/// The driver's types for a backend whose fixtures `$fixtures` holds and whose connection of
/// diesel-async's is `$conn`.
macro_rules! driver {
    ($fixtures:ident, $conn:ty) => {
        use std::ops::Deref;

        use diesel::{ConnectionResult, QueryResult};

        use crate::support::nonblocking::{self, Borrowed, Plain, View, ViewTransactions};

        pub(crate) use crate::support::nonblocking::blocking_only;
        pub(crate) use crate::support::$fixtures::{Conn, NAME, direct, ids, insert, whoami};
        pub(crate) use diesel_sharded::nonblocking::{Isolation, Outcome};

        pub(crate) const DRIVER: &str = "nonblocking";

        pub(crate) type Manager = nonblocking::Manager<$conn>;
        pub(crate) type Builder = nonblocking::Builder<$conn>;
        pub(crate) type Keyspace = nonblocking::Keyspace<$conn>;
        pub(crate) type Reloaded = nonblocking::Reloaded<$conn>;
        pub(crate) type Sharded = nonblocking::Sharded<$conn>;

        /// The application's own pool over the manager, and what it hands out.
        pub(crate) type Pool = nonblocking::Pool<$conn>;
        pub(crate) type Pooled = Sharded;
        pub(crate) type PoolError = nonblocking::PoolError<$conn>;

        /// The connection that the driver works with, and its transaction manager.
        pub(crate) type Raw<'a> = View<Borrowed<'a, $conn>>;
        pub(crate) type RawTransactions = ViewTransactions;

        /// A plain connection of diesel-async's, to compare with.
        pub(crate) fn plain(url: &str) -> ConnectionResult<View<Plain<$conn>>> {
            open(url).map(View::plain)
        }

        /// A way from ours to the connection beneath, for one visit.
        pub(crate) type Way = fn(&mut Sharded, &mut Visit<'_>) -> QueryResult<()>;
        pub(crate) type Visit<'v> = dyn FnMut(&mut Raw<'_>) -> QueryResult<()> + 'v;

        pub(crate) const RAW_WAYS: &[(&str, Way)] =
            &[("inner", |conn, visit| visit(&mut *conn.inner()?))];

        /// Databases of one test, gone with it.
        pub(crate) struct Fleet(crate::support::$fixtures::Fleet);

        impl Deref for Fleet {
            type Target = crate::support::$fixtures::Fleet;

            fn deref(&self) -> &Self::Target {
                &self.0
            }
        }

        impl Fleet {
            pub(crate) fn new(shards: &[&str]) -> Self {
                Self(crate::support::$fixtures::Fleet::new(shards))
            }
        }

        crate::support::managers!();
    };
}
use driver;
