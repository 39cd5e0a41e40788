//! The only file that names `tracing` or `metrics`; without the features every function is empty.
//!
//! The names are part of the crate's contract; docs/operations.md lists them.

use std::time::Duration;

use crate::error::{Error, UnavailableCause};
use crate::name::{Role, ShardName};

macro_rules! event {
    ($level:ident, $($field:tt)*) => {
        #[cfg(feature = "tracing")]
        tracing::$level!($($field)*);
    };
}

macro_rules! count {
    ($name:literal $(, $label:literal => $value:expr)* $(,)?) => {
        #[cfg(feature = "metrics")]
        metrics::counter!($name $(, $label => $value)*).increment(1);
    };
}

macro_rules! unused {
    ($($value:expr),*) => {
        #[cfg(not(all(feature = "tracing", feature = "metrics")))]
        let _ = ($(&$value,)*);
    };
}

/// Why a call went where it went.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Reason {
    /// The topmost route.
    Route,
    /// No route, so the default shard.
    Default,
    /// The shard, or a key of it, was named in the call.
    Named,
}

impl Reason {
    fn as_str(self) -> &'static str {
        match self {
            Self::Route => "route",
            Self::Default => "default",
            Self::Named => "named",
        }
    }
}

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
        _span: tracing::enabled!(tracing::Level::INFO)
            .then(|| tracing::info_span!("route", shard = shard.as_str()).entered()),
    }
}

/// A shard-scoped transaction is open from here.
#[inline]
pub(crate) fn transaction_span(shard: ShardName) -> Entered {
    unused!(shard);
    Entered {
        #[cfg(feature = "tracing")]
        _span: tracing::enabled!(tracing::Level::INFO).then(|| {
            tracing::info_span!("transaction", shard = shard.as_str(), role = "primary").entered()
        }),
    }
}

/// A checkout found where to go, and got a connection or not.
#[inline]
pub(crate) fn checkout(shard: ShardName, role: Role, reason: Reason, ok: bool) {
    unused!(shard, role, reason.as_str(), ok);
    event!(
        trace,
        shard = shard.as_str(),
        role = role.as_str(),
        reason = reason.as_str(),
        ok,
        "checkout"
    );
    count!(
        "diesel_sharded_checkouts_total",
        "shard" => shard.as_str(),
        "role" => role.as_str(),
        "reason" => reason.as_str(),
        "outcome" => if ok { "ok" } else { "error" },
    );
}

/// A checkout without a route went to the default shard.
#[inline]
pub(crate) fn fell_to_default(shard: ShardName) {
    unused!(shard);
    event!(
        debug,
        shard = shard.as_str(),
        reason = "default",
        "no route in force, using the default shard"
    );
    count!("diesel_sharded_default_fallbacks_total", "shard" => shard.as_str());
}

/// A route, checkout or transaction was refused for what is on the stack.
#[cold]
pub(crate) fn refused(error: &Error) {
    let shard = error.shard().map_or("", |shard| shard.as_str());
    let reason = match error {
        Error::AlreadyInTransaction { .. } => "already_in_transaction",
        Error::PinnedElsewhere { .. } => "pinned_elsewhere",
        Error::RouteMismatch { .. } => "route_mismatch",
        Error::WouldDeadlock { .. } => "would_deadlock",
        Error::UnknownShard { .. } => "unknown_shard",
        Error::NoRoute { .. } => "no_route",
        _ => "other",
    };
    unused!(shard, reason);
    event!(debug, shard, reason, "refused");
    count!("diesel_sharded_refusals_total", "shard" => shard, "reason" => reason);
}

/// A caller had to wait for a connection.
pub(crate) fn waited(shard: ShardName, role: Role, time: Duration) {
    unused!(shard, role, time);
    event!(
        debug,
        shard = shard.as_str(),
        role = role.as_str(),
        millis = u64::try_from(time.as_millis()).unwrap_or(u64::MAX),
        "waited for a connection"
    );
    #[cfg(feature = "metrics")]
    metrics::histogram!(
        "diesel_sharded_checkout_wait_seconds",
        "shard" => shard.as_str(),
        "role" => role.as_str(),
    )
    .record(time);
}

/// A caller gave up waiting.
pub(crate) fn exhausted(shard: ShardName, role: Role) {
    unused!(shard, role);
    event!(
        warn,
        shard = shard.as_str(),
        role = role.as_str(),
        "all connections were in use for the whole connection_timeout"
    );
    count!(
        "diesel_sharded_pool_exhausted_total",
        "shard" => shard.as_str(),
        "role" => role.as_str(),
    );
}

/// The health check of a checkout was skipped, or done.
#[inline]
pub(crate) fn health_check(shard: ShardName, role: Role, outcome: &'static str) {
    unused!(shard, role, outcome);
    count!(
        "diesel_sharded_health_checks_total",
        "shard" => shard.as_str(),
        "role" => role.as_str(),
        "outcome" => outcome,
    );
}

/// A connect attempt failed.
pub(crate) fn connect_failed(shard: ShardName, role: Role, cause: UnavailableCause) {
    unused!(shard, role, cause);
    event!(
        warn,
        shard = shard.as_str(),
        role = role.as_str(),
        cause = cause.as_str(),
        "connecting failed"
    );
    count!(
        "diesel_sharded_connect_failures_total",
        "shard" => shard.as_str(),
        "role" => role.as_str(),
        "cause" => cause.as_str(),
    );
}

/// A node is taken to be down.
pub(crate) fn circuit_opened(shard: ShardName, role: Role, cause: UnavailableCause) {
    unused!(shard, role, cause);
    event!(
        error,
        shard = shard.as_str(),
        role = role.as_str(),
        cause = cause.as_str(),
        "the node is down"
    );
    circuit(shard, role, 1.0);
}

/// A node is back.
pub(crate) fn circuit_closed(shard: ShardName, role: Role) {
    unused!(shard, role);
    event!(
        info,
        shard = shard.as_str(),
        role = role.as_str(),
        "the node is back"
    );
    circuit(shard, role, 0.0);
}

fn circuit(shard: ShardName, role: Role, open: f64) {
    unused!(shard, role, open);
    #[cfg(feature = "metrics")]
    metrics::gauge!(
        "diesel_sharded_circuit_open",
        "shard" => shard.as_str(),
        "role" => role.as_str(),
    )
    .set(open);
}

/// A connection was closed instead of returned.
pub(crate) fn connection_closed(shard: ShardName, role: Role) {
    unused!(shard, role);
    event!(
        debug,
        shard = shard.as_str(),
        role = role.as_str(),
        "a connection was closed instead of returned"
    );
    count!(
        "diesel_sharded_connections_closed_total",
        "shard" => shard.as_str(),
        "role" => role.as_str(),
    );
}

/// A shard-scoped transaction ended.
#[inline]
pub(crate) fn transaction_ended(shard: ShardName, outcome: &'static str) {
    unused!(shard, outcome);
    event!(debug, shard = shard.as_str(), outcome, "transaction ended");
    count!(
        "diesel_sharded_transactions_total",
        "shard" => shard.as_str(),
        "outcome" => outcome,
    );
}

/// A transaction is run again.
pub(crate) fn retrying(shard: ShardName, attempt: usize, pause: Duration) {
    unused!(shard, attempt, pause);
    event!(
        info,
        shard = shard.as_str(),
        attempt,
        millis = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX),
        "running the transaction again"
    );
    count!("diesel_sharded_retries_total", "shard" => shard.as_str());
}

/// A rollback failed after the caller's own error or panic, which is what the caller gets.
pub(crate) fn rollback_failed(shard: ShardName, error: &diesel::result::Error) {
    unused!(shard, error);
    event!(
        error,
        shard = shard.as_str(),
        error = %error,
        "rolling back failed, the connection is closed"
    );
    count!("diesel_sharded_rollback_failures_total", "shard" => shard.as_str());
}

/// A hook that ran after a commit has panicked; the commit stands.
pub(crate) fn hook_panicked(shard: ShardName) {
    unused!(shard);
    event!(
        error,
        shard = shard.as_str(),
        "an after_commit hook has panicked; the transaction is committed"
    );
    count!("diesel_sharded_hook_panics_total", "shard" => shard.as_str());
}

/// The topology was reloaded.
pub(crate) fn reloaded(epoch: u64, added: usize, removed: usize, replaced: usize) {
    unused!(epoch, added, removed, replaced);
    event!(
        info,
        epoch,
        added,
        removed,
        replaced,
        "the topology was reloaded"
    );
    count!("diesel_sharded_reloads_total");
}

/// The pool of a node at this moment.
pub(crate) fn pool_state(
    shard: ShardName,
    role: Role,
    class: &'static str,
    connections: u32,
    idle: u32,
    waiting: usize,
) {
    unused!(shard, role, class, connections, idle, waiting);
    #[cfg(feature = "metrics")]
    for (state, value) in [
        ("active", f64::from(connections.saturating_sub(idle))),
        ("idle", f64::from(idle)),
        ("waiting", waiting as f64),
    ] {
        metrics::gauge!(
            "diesel_sharded_pool_connections",
            "shard" => shard.as_str(),
            "role" => role.as_str(),
            "class" => class,
            "state" => state,
        )
        .set(value);
    }
}
