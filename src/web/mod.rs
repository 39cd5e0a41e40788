//! Routes for web servers: each request gets a route stack of its own and, by its shard key, the route
//! of its shard.
//!
//! A request never sees what another one left in its thread: the stack is put in force at each poll of
//! the request's future and of its response's body, and taken out after it. Its route is known before
//! the handler runs; a request without a key, with a key that no shard covers, or for a shard that is
//! known to be down is answered at once, in plain words ([`Refusal`]).
//!
//! - [`RouteLayer`] is a layer for tower services: axum, tonic, hyper (feature `tower`).
//! - [`actix::RouteMiddleware`] is a middleware for actix-web (feature `actix`), where the
//!   blocking driver is used inside [`actix::block`].
//!
//! Both take anything that is a [`ShardSource`]: a [`Topology`], or a manager of either driver, which
//! also knows what is down.
//!
//! What a handler spawns starts with an empty stack and carries the route only on purpose, by
//! [`in_current_route`](crate::FutureExt::in_current_route); so does what goes on after the response,
//! such as an upgraded connection.

#[cfg(feature = "actix")]
pub mod actix;
#[cfg(feature = "tower")]
mod body;
mod refusal;
mod rule;
#[cfg(feature = "tower")]
mod tower;

use crate::error::Error;
use crate::route::Route;
use crate::topology::{ShardState, Topology};

#[cfg(feature = "tower")]
pub use body::RoutedBody;
pub use refusal::Refusal;
pub use rule::Named;
#[cfg(feature = "tower")]
pub use tower::{RouteFuture, RouteLayer, RouteService};

/// What a web layer asks of the rest of the crate.
///
/// Implemented by [`Topology`] and by the managers of both drivers.
pub trait ShardSource: Send + Sync + 'static {
    /// Where the routes come from.
    fn topology(&self) -> &Topology;

    /// Why the shard of this route cannot be worked on, as far as that is known without asking it.
    ///
    /// Called once for each request before its handler runs, so it must neither wait nor do I/O.
    /// Defaults to what the configuration says: a shard may be offline.
    fn unavailable(&self, route: &Route) -> Option<Error> {
        offline(self.topology(), route)
    }
}

impl ShardSource for Topology {
    fn topology(&self) -> &Topology {
        self
    }
}

fn offline(topology: &Topology, route: &Route) -> Option<Error> {
    topology.with_current(|snapshot| {
        let index = snapshot.find(route.shard().as_str()).ok()?;
        let shard = snapshot.shard(index);
        (shard.state == ShardState::Offline).then_some(Error::ShardOffline { shard: shard.name })
    })
}
