//! Where this call goes: [`Route`] values, the guard, and the stack they are put on.
//!
//! Routes nest to any depth. The main form is a closure ([`Route::run`], the managers' `on`): it
//! cannot be left open. The second is a guard ([`Route::enter`]), for scopes that are not closures.

#[cfg_attr(
    not(any(feature = "r2d2", feature = "bb8")),
    expect(dead_code, reason = "pins, barriers and checkouts are the drivers'")
)]
pub(crate) mod stack;

mod future;
mod text;

use std::fmt;

use crate::algorithm::Placement;
use crate::error::Error;
use crate::name::{ShardName, WorkloadName};
use crate::rewrite::{TableNumbers, Which};
use crate::telemetry;
use crate::topology::{KeyspaceEntry, ShardIndex, Snapshot, Topology};

#[cfg(any(feature = "bb8", feature = "macros"))]
pub(crate) use future::in_route;
pub use future::{FutureExt, IntoRoutes, Routed, StreamExt};
#[cfg(feature = "bb8")]
pub(crate) use future::{in_barrier, in_pin};
pub(crate) use stack::Located;
pub(crate) use text::parse;

/// Where work is to go: a shard that exists, in one topology.
///
/// A `Route` is always a checked value: it comes from a topology ([`Topology::route`]), a
/// manager or a keyspace, or is read from its
/// text form by [`Topology::parse_route`], which
/// checks it against the topology of today. Making one is always allowed; entering it is refused
/// while a transaction pins the scope to another shard.
///
/// Its `Display` and its serde form are one line of text with a version, made for message headers:
/// `v1;shard=order-0`.
#[derive(Clone)]
#[must_use = "a route does nothing until it is entered"]
pub struct Route {
    topology: Topology,
    at: Located,
}

impl Route {
    pub(crate) fn new(topology: Topology, at: Located) -> Self {
        Self { topology, at }
    }

    /// The shard.
    #[must_use]
    pub fn shard(&self) -> ShardName {
        self.at.shard
    }

    /// Where the driver finds the shard.
    #[cfg(all(
        any(feature = "tower", feature = "actix"),
        any(feature = "r2d2", feature = "bb8")
    ))]
    pub(crate) fn located(&self) -> Located {
        self.at
    }

    /// The workload class this route names; `None`: that of the scope it is entered in.
    #[must_use]
    pub fn workload_class(&self) -> Option<WorkloadName> {
        self.at.class
    }

    /// The same route for a workload class, whose checkouts come from that class's own pools: so
    /// that a report never takes the connections of the web.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownWorkload`].
    pub fn workload(mut self, class: impl AsRef<str>) -> Result<Self, Error> {
        let class = class.as_ref();
        self.at.class = Some(
            self.topology
                .with_current(|snapshot| snapshot.find_workload(class))?,
        );
        Ok(self)
    }

    /// Runs a closure under this route.
    ///
    /// # Errors
    ///
    /// Those of the closure, and [`Error::PinnedElsewhere`] inside a transaction on another shard
    /// (then the closure is not run).
    pub fn run<T, E>(&self, f: impl FnOnce() -> Result<T, E>) -> Result<T, E>
    where
        E: From<diesel::result::Error>,
    {
        let _scope = stack::enter(self.topology.id(), self.at)
            .inspect_err(telemetry::refused)
            .map_err(into_caller)?;
        telemetry::in_route(self.at.shard, f)
    }

    /// Runs a future under this route, on top of what is in force where it is first polled: what
    /// `on` of the nonblocking manager does.
    #[cfg(feature = "macros")]
    pub(crate) async fn run_future<F: Future>(self, inner: F) -> Result<F::Output, Error> {
        let inside =
            in_route(self.topology.id(), self.at, inner).inspect_err(telemetry::refused)?;
        Ok(inside.await)
    }

    /// Makes a closure that runs under this route wherever and whenever it is called: on another
    /// thread, in a worker pool.
    pub fn wrap<T, E>(self, f: impl FnOnce() -> Result<T, E>) -> impl FnOnce() -> Result<T, E>
    where
        E: From<diesel::result::Error>,
    {
        move || self.run(f)
    }

    /// Enters the route until the guard is dropped.
    ///
    /// Prefer [`run`](Self::run), and in async code [`with_route`](FutureExt::with_route): a guard
    /// that lives across an `.await` leaves its route on whatever the thread does meanwhile, unless
    /// the future has a stack of its own.
    ///
    /// # Errors
    ///
    /// [`Error::PinnedElsewhere`] inside a transaction on another shard.
    pub fn enter(&self) -> Result<RouteGuard, Error> {
        Ok(RouteGuard {
            shard: self.at.shard,
            _scope: stack::enter(self.topology.id(), self.at).inspect_err(telemetry::refused)?,
            _span: telemetry::route_span(self.at.shard),
        })
    }

    /// Takes the routes in force with it: the topmost of each topology, never a pin.
    ///
    /// New threads start with an empty stack. This is how a route crosses on purpose:
    ///
    /// ```
    /// # #[cfg(feature = "sqlite")] fn main() -> Result<(), diesel_sharded::Error> {
    /// use diesel_sharded::Route;
    /// # use diesel_sharded::blocking::ShardedConnectionManager;
    /// # let dir = tempfile::tempdir().expect("a temporary folder");
    /// # let file = |name: &str| dir.path().join(name).display().to_string();
    /// # let shards = ShardedConnectionManager::<diesel::SqliteConnection>::builder()
    /// #     .shard("a", file("a")).shard("b", file("b")).build()?;
    /// shards.on("b", || {
    ///     let routes = Route::capture();
    ///     std::thread::spawn(move || {
    ///         routes.run(|| {
    ///             // the routes of the spawning scope are in force here
    /// #           Ok::<_, diesel_sharded::Error>(())
    ///         })
    ///     })
    ///     .join()
    ///     .expect("the thread ends well")
    /// })
    /// # }
    /// # #[cfg(not(feature = "sqlite"))] fn main() {}
    /// ```
    ///
    /// For a future that is spawned, [`in_current_route`](FutureExt::in_current_route) does the same
    /// in one word; captured routes go into [`with_route`](FutureExt::with_route) like one route.
    pub fn capture() -> CapturedRoutes {
        CapturedRoutes {
            routes: stack::capture(),
        }
    }

    /// How many entries the stack of this thread holds, of all topologies; 0 outside any scope.
    ///
    /// Not how deep scopes are nested: a future's stack begins with the topmost entry of each topology
    /// that was in force, so that inside any number of async `on` of one topology there are two.
    ///
    /// For tests and assertions: after a request has been served nothing may be left.
    #[must_use]
    pub fn stack_depth() -> usize {
        stack::depth()
    }
}

impl fmt::Debug for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Route")
            .field("shard", &self.at.shard)
            .finish_non_exhaustive()
    }
}

/// Keeps a route in force until it is dropped; made by [`Route::enter`].
///
/// A guard that is forgotten ([`mem::forget`](std::mem::forget)) leaves its route in force until its
/// thread ends; [`Route::stack_depth`] shows it.
///
/// It stays on its thread (`!Send`). Dropping removes exactly its own entry, in whatever order
/// several guards are dropped:
///
/// ```compile_fail
/// # fn send<T: Send>(_: T) {}
/// # fn check(guard: diesel_sharded::RouteGuard) {
/// send(guard);
/// # }
/// ```
#[must_use = "the route is left as soon as the guard is dropped"]
#[derive(Debug)]
pub struct RouteGuard {
    shard: ShardName,
    _scope: stack::Scope,
    _span: telemetry::Entered,
}

impl RouteGuard {
    /// The shard of the route.
    #[must_use]
    pub fn shard(&self) -> ShardName {
        self.shard
    }
}

/// The routes that were in force where [`Route::capture`] was called.
#[derive(Clone, Debug)]
#[must_use = "captured routes do nothing until they are run"]
pub struct CapturedRoutes {
    routes: stack::Captured,
}

impl CapturedRoutes {
    /// No route: for a stack that starts empty.
    #[cfg(any(feature = "tower", feature = "actix"))]
    pub(crate) fn none() -> Self {
        Self {
            routes: stack::Captured::new(),
        }
    }

    /// Whether no route was in force; then [`run`](Self::run) runs with an empty stack.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.routes.is_empty()
    }

    /// Runs a closure with a stack of its own that holds the captured routes, above the pins of the
    /// calling scope if it has any. Afterwards the caller's stack is back.
    ///
    /// # Errors
    ///
    /// Those of the closure, and [`Error::PinnedElsewhere`] inside a transaction on another shard
    /// (then the closure is not run).
    pub fn run<T, E>(&self, f: impl FnOnce() -> Result<T, E>) -> Result<T, E>
    where
        E: From<diesel::result::Error>,
    {
        let mut own = stack::replacing(&self.routes)
            .inspect_err(telemetry::refused)
            .map_err(into_caller)?;
        let _inside = own.enter();
        let _span = self.topmost().map(telemetry::route_span);
        f()
    }

    /// The shard of the route that was topmost of all.
    fn topmost(&self) -> Option<ShardName> {
        self.routes.first().map(|(_, at)| at.shard)
    }

    /// Makes a closure that runs with the captured routes wherever and whenever it is called.
    pub fn wrap<T, E>(self, f: impl FnOnce() -> Result<T, E>) -> impl FnOnce() -> Result<T, E>
    where
        E: From<diesel::result::Error>,
    {
        move || self.run(f)
    }
}

/// Our error as the error type of a caller that knows only Diesel's.
pub(crate) fn into_caller<E: From<diesel::result::Error>>(error: Error) -> E {
    E::from(diesel::result::Error::from(error))
}

impl Snapshot {
    /// Finds a shard by what somebody typed, ready for the stack.
    #[inline]
    pub(crate) fn locate(&self, name: &str) -> Result<Located, Error> {
        let index = self.find(name)?;
        Ok(self.located(index))
    }

    #[inline]
    pub(crate) fn located(&self, index: ShardIndex) -> Located {
        Located {
            shard: self.shard(index).name,
            index,
            epoch: self.epoch,
            class: None,
            tables: None,
        }
    }

    /// Finds the shard of a placement, and the tables of its spread.
    #[inline]
    pub(crate) fn locate_placement(
        &self,
        keyspace: &KeyspaceEntry,
        placement: Placement,
    ) -> Result<Located, Error> {
        let mut at = self.locate(placement.shard().as_str())?;
        if keyspace.has_tables {
            at.tables = Some(TableNumbers {
                keyspace: keyspace.name,
                which: Which::Spread(placement.spread()),
                placed_by: keyspace.placed_by(),
            });
        }
        Ok(at)
    }

    /// Where this snapshot has a shard that another epoch may have located.
    #[cfg(any(feature = "r2d2", feature = "bb8"))]
    #[inline]
    pub(crate) fn relocate(&self, at: Located) -> Result<ShardIndex, Error> {
        if at.epoch == self.epoch {
            Ok(at.index)
        } else {
            self.find(at.shard.as_str())
        }
    }
}
