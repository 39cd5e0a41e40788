//! The spans that work runs in.

use crate::name::ShardName;

/// A span that the work of a scope runs in; it is left when this goes.
#[must_use]
#[derive(Debug)]
pub(crate) struct Entered {
    #[cfg(feature = "tracing")]
    _span: Option<tracing::span::EnteredSpan>,
}

/// A route is in force from here.
#[inline]
pub(crate) fn route_span(shard: ShardName) -> Entered {
    unused!(shard);
    Entered {
        #[cfg(feature = "tracing")]
        _span: listening().then(|| span("route", shard)),
    }
}

/// Runs a closure in the span of a route.
#[inline]
pub(crate) fn in_route<T>(shard: ShardName, f: impl FnOnce() -> T) -> T {
    unused!(shard);
    #[cfg(feature = "tracing")]
    if listening() {
        return spanned(shard, f);
    }
    f()
}

/// Apart, so that nothing of it is on the way of those who do not listen.
#[cfg(feature = "tracing")]
#[cold]
#[inline(never)]
fn spanned<T>(shard: ShardName, f: impl FnOnce() -> T) -> T {
    let _entered = span("route", shard);
    f()
}

/// A shard-scoped transaction is open from here.
#[cfg(feature = "r2d2")]
#[inline]
pub(crate) fn transaction_span(shard: ShardName) -> Entered {
    unused!(shard);
    Entered {
        #[cfg(feature = "tracing")]
        _span: listening().then(|| span("transaction", shard)),
    }
}

/// The span of a future, which is entered at each of its polls.
#[derive(Debug)]
pub(crate) struct PolledSpan {
    #[cfg(feature = "tracing")]
    span: Option<tracing::Span>,
}

/// Made by [`PolledSpan::enter`].
#[must_use]
#[derive(Debug)]
pub(crate) struct PolledEntered<'a> {
    #[cfg(feature = "tracing")]
    _span: Option<tracing::span::Entered<'a>>,
    #[cfg(not(feature = "tracing"))]
    _span: std::marker::PhantomData<&'a ()>,
}

impl PolledSpan {
    /// For a future with a route; `None`: for one without any, which has no span.
    #[inline]
    pub(crate) fn of_route(shard: Option<ShardName>) -> Self {
        unused!(shard);
        Self {
            #[cfg(feature = "tracing")]
            span: shard
                .filter(|_| listening())
                .map(|shard| new_span("route", shard)),
        }
    }

    /// For a future that is a shard-scoped transaction.
    #[cfg(feature = "bb8")]
    #[inline]
    pub(crate) fn of_transaction(shard: ShardName) -> Self {
        unused!(shard);
        Self {
            #[cfg(feature = "tracing")]
            span: listening().then(|| new_span("transaction", shard)),
        }
    }

    /// For a poll.
    #[inline]
    pub(crate) fn enter(&self) -> PolledEntered<'_> {
        PolledEntered {
            #[cfg(feature = "tracing")]
            _span: self.span.as_ref().map(tracing::Span::enter),
            #[cfg(not(feature = "tracing"))]
            _span: std::marker::PhantomData,
        }
    }
}

/// One comparison where no subscriber is installed.
#[cfg(feature = "tracing")]
#[inline]
fn listening() -> bool {
    tracing::level_filters::LevelFilter::current() >= tracing::level_filters::LevelFilter::INFO
}

#[cfg(feature = "tracing")]
fn span(what: &str, shard: ShardName) -> tracing::span::EnteredSpan {
    new_span(what, shard).entered()
}

#[cfg(feature = "tracing")]
#[cold]
fn new_span(what: &str, shard: ShardName) -> tracing::Span {
    if what == "route" {
        tracing::info_span!(target: super::TARGET, "route", shard = shard.as_str())
    } else {
        tracing::info_span!(target: super::TARGET, "transaction", shard = shard.as_str(), role = "primary")
    }
}
