//! Routes across `await`: a future, or a stream, with a route stack of its own.
//!
//! A thread-local alone would not do: a task moves between threads, and a thread polls many tasks. So
//! the stack goes with the future. It is put in force at each poll and taken out after it, also when
//! the poll panics and when the future is dropped half-way, so that nothing of it is ever in the
//! thread while something else runs there.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_core::Stream;
use pin_project_lite::pin_project;

#[cfg(any(feature = "bb8", feature = "macros"))]
use super::Located;
#[cfg(any(feature = "bb8", feature = "macros"))]
use super::stack;
#[cfg(feature = "bb8")]
use super::stack::NodeId;
use super::stack::OwnStack;
use super::{CapturedRoutes, Route};
#[cfg(any(feature = "bb8", feature = "macros"))]
use crate::error::Error;
use crate::telemetry::PolledSpan;
#[cfg(any(feature = "bb8", feature = "macros"))]
use crate::topology::TopologyId;

/// What a future can be given for its stack: a [`Route`], or [`CapturedRoutes`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a route",
    label = "expected a `Route` or `CapturedRoutes`",
    note = "a route comes from a manager, keyspace or topology: `shards.route(\"order-0\")?`; it is checked there, so handle that error first",
    note = "to carry the routes in force here, use `.in_current_route()`"
)]
pub trait IntoRoutes: sealed::Sealed {
    /// The routes, topmost first.
    fn into_routes(self) -> CapturedRoutes;
}

mod sealed {
    #[expect(unnameable_types, reason = "only this crate says what a route is")]
    pub trait Sealed {}
}

impl sealed::Sealed for Route {}
impl sealed::Sealed for &Route {}
impl sealed::Sealed for CapturedRoutes {}
impl sealed::Sealed for &CapturedRoutes {}

impl IntoRoutes for Route {
    fn into_routes(self) -> CapturedRoutes {
        (&self).into_routes()
    }
}

impl IntoRoutes for &Route {
    fn into_routes(self) -> CapturedRoutes {
        CapturedRoutes {
            routes: smallvec::smallvec![(self.topology.id(), self.at)],
        }
    }
}

impl IntoRoutes for CapturedRoutes {
    fn into_routes(self) -> CapturedRoutes {
        self
    }
}

impl IntoRoutes for &CapturedRoutes {
    fn into_routes(self) -> CapturedRoutes {
        self.clone()
    }
}

/// Gives futures a route that survives `await`.
///
/// The future gets a route stack of its own, on whichever thread it is polled. Two futures that are
/// polled in turn never see each other's route, and the `Output` is unchanged. No runtime is needed.
///
/// - `tokio::spawn(fut)`, `spawn_local` and `spawn_blocking` start with an empty stack; what is to be
///   carried there is carried by one of these methods (for a closure: [`Route::capture`]).
/// - Inside a shard-scoped transaction the pin is seen through: a checkout for another shard in such
///   a future is [`PinnedElsewhere`](crate::Error::PinnedElsewhere). A spawned future has no pin.
/// - A [`RouteGuard`](crate::RouteGuard) that is held across an `await` inside such a future stays in
///   the future's own stack, and one that somebody else holds is not seen by it.
///
/// ```
/// use diesel_sharded::{FutureExt, Route, Topology};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), diesel_sharded::Error> {
/// let topology = Topology::builder().shard("a", "a.db").shard("b", "b.db").build()?;
/// let depth = async {
///     tokio::task::yield_now().await; // the route is still in force behind it
///     Route::stack_depth()
/// };
/// assert_eq!(depth.with_route(topology.route("b")?).await, 1);
/// assert_eq!(Route::stack_depth(), 0);
/// # Ok(())
/// # }
/// ```
pub trait FutureExt: Future + Sized {
    /// Runs the future under this route, with a stack of its own that holds nothing else.
    ///
    /// A statement of Diesel is built where it is called, for the sharded tables that are meant there. So
    /// put the call inside, `async { query.load(&mut conn).await }.with_route(route)`; with
    /// `query.load(&mut conn).with_route(route)` a route to other tables is
    /// [`TableMismatch`](crate::Error::TableMismatch), and nothing is sent.
    ///
    /// Takes a [`Route`] or [`CapturedRoutes`] (then the stack holds those), by value or reference.
    ///
    /// Making such a future never fails: what is out of reach of an open transaction is refused at
    /// the checkout. `on` of the nonblocking manager refuses it at once.
    fn with_route(self, route: impl IntoRoutes) -> Routed<Self> {
        Routed::new(self, &route.into_routes())
    }

    /// Runs the future under the routes that are in force where this is called (not where it is first
    /// polled): the topmost of each topology, never a pin. With none in force it runs with an empty
    /// stack.
    ///
    /// ```
    /// # use diesel_sharded::{FutureExt, Route, Topology};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let topology = Topology::builder().shard("a", "a.db").build()?;
    /// async {
    ///     // A spawned task starts with an empty stack; this one carries the route of its parent.
    ///     let task = tokio::spawn(async { Route::stack_depth() }.in_current_route());
    ///     assert_eq!(task.await?, 1);
    ///     Ok(())
    /// }
    /// .with_route(topology.route("a")?)
    /// .await
    /// # }
    /// ```
    fn in_current_route(self) -> Routed<Self> {
        Routed::new(self, &Route::capture())
    }
}

impl<F: Future> FutureExt for F {}

/// The same for streams: each item is made under the route, wherever the stream is read.
///
/// A stream that was made inside a scope and is read outside of it would else do its work under
/// whatever route is in force there.
///
/// ```
/// # use diesel_sharded::{Route, StreamExt as _, Topology};
/// # use futures_util::StreamExt as _;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), diesel_sharded::Error> {
/// # let topology = Topology::builder().shard("a", "a.db").build()?;
/// let pages = futures_util::stream::iter(0..3).map(|page| (page, Route::stack_depth()));
/// let mut pages = pages.with_route(topology.route("a")?);
/// assert_eq!(pages.next().await, Some((0, 1)));
/// # Ok(())
/// # }
/// ```
pub trait StreamExt: Stream + Sized {
    /// Polls the stream under this route; see [`FutureExt::with_route`].
    fn with_route(self, route: impl IntoRoutes) -> Routed<Self> {
        Routed::new(self, &route.into_routes())
    }

    /// Polls the stream under the routes that are in force where this is called; see
    /// [`FutureExt::in_current_route`].
    fn in_current_route(self) -> Routed<Self> {
        Routed::new(self, &Route::capture())
    }
}

impl<S: Stream> StreamExt for S {}

pin_project! {
    /// A future or stream with a route stack of its own; made by [`FutureExt`] and [`StreamExt`].
    ///
    /// It is dropped under its stack too, so what runs in a `Drop` half-way still has its route.
    #[must_use = "futures and streams do nothing unless they are polled"]
    pub struct Routed<T> {
        // Empty only while it is being dropped.
        #[pin]
        inner: Option<T>,
        own: OwnStack,
        span: PolledSpan,
    }

    impl<T> PinnedDrop for Routed<T> {
        fn drop(this: Pin<&mut Self>) {
            let mut this = this.project();
            let _inside = this.own.enter();
            let _span = this.span.enter();
            this.inner.set(None);
        }
    }
}

impl<T> Routed<T> {
    pub(crate) fn new(inner: T, routes: &CapturedRoutes) -> Self {
        Self {
            inner: Some(inner),
            own: OwnStack::of(&routes.routes),
            span: PolledSpan::of_route(routes.topmost()),
        }
    }

    /// Makes what is inside under its stack too.
    #[cfg(any(feature = "tower", feature = "actix"))]
    pub(crate) fn made_in(routes: &CapturedRoutes, make: impl FnOnce() -> T) -> Self {
        let mut own = OwnStack::of(&routes.routes);
        let span = PolledSpan::of_route(routes.topmost());
        let inner = {
            let _inside = own.enter();
            let _span = span.enter();
            make()
        };
        Self {
            inner: Some(inner),
            own,
            span,
        }
    }

    /// What is inside, without its stack: for questions that do no work.
    #[cfg(any(feature = "tower", feature = "actix"))]
    pub(crate) fn inner(&self) -> Option<&T> {
        self.inner.as_ref()
    }

    /// Looks at what is inside, under its stack.
    #[inline]
    pub(crate) fn with_inner<R>(
        self: Pin<&mut Self>,
        f: impl FnOnce(Pin<&mut T>) -> R,
    ) -> Option<R> {
        let this = self.project();
        let _inside = this.own.enter();
        let _span = this.span.enter();
        this.inner.as_pin_mut().map(f)
    }
}

impl<F: Future> Future for Routed<F> {
    type Output = F::Output;

    #[inline]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        // It is there until the drop.
        self.with_inner(|inner| inner.poll(context))
            .unwrap_or(Poll::Pending)
    }
}

impl<S: Stream> Stream for Routed<S> {
    type Item = S::Item;

    #[inline]
    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<S::Item>> {
        self.with_inner(|inner| inner.poll_next(context))
            .unwrap_or(Poll::Ready(None))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.inner.as_ref().map_or((0, Some(0)), Stream::size_hint)
    }
}

impl<T> fmt::Debug for Routed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Routed").finish_non_exhaustive()
    }
}

/// Runs a future under what is in force here with a route on top, as the blocking `on` does. Call it
/// where the future is first polled, in an `async` block.
///
/// # Errors
///
/// [`Error::PinnedElsewhere`] when a pin of the calling scope holds it on another shard.
#[cfg(any(feature = "bb8", feature = "macros"))]
pub(crate) fn in_route<F>(topology: TopologyId, at: Located, inner: F) -> Result<Routed<F>, Error> {
    Ok(Routed {
        inner: Some(inner),
        own: stack::with_route(topology, at)?,
        span: PolledSpan::of_route(Some(at.shard)),
    })
}

/// Runs a future under what is in force here with a pin on top: a shard-scoped transaction. Call it
/// where the future is first polled, in an `async` block.
///
/// # Errors
///
/// [`Error::AlreadyInTransaction`] and [`Error::PinnedElsewhere`] when the calling scope is pinned.
#[cfg(feature = "bb8")]
pub(crate) fn in_pin<F>(
    topology: TopologyId,
    at: Located,
    node: NodeId,
    inner: F,
) -> Result<Routed<F>, Error> {
    Ok(Routed {
        inner: Some(inner),
        own: stack::with_pin(topology, at, node)?,
        span: PolledSpan::of_transaction(at.shard),
    })
}

/// Runs a future under what is in force here, without the routes and pins of this topology, as the
/// blocking `independent` does. Call it where the future is first polled, in an `async` block.
#[cfg(feature = "bb8")]
pub(crate) fn in_barrier<F>(topology: TopologyId, inner: F) -> Routed<F> {
    Routed {
        inner: Some(inner),
        own: stack::with_barrier(topology),
        span: PolledSpan::of_route(None),
    }
}
