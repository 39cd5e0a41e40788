//! The only module that names `tracing` or `metrics`; without the features every function is empty.
//!
//! The names are part of the crate's contract; docs/operations.md lists them. What happens at every
//! checkout is counted under keys that each node has made once: making one hashes its labels, which
//! would cost more than the checkout.

use std::time::Duration;

use crate::error::Error;
use crate::name::ShardName;

/// The target of everything that is told through `tracing`, wherever in this module.
#[cfg(feature = "tracing")]
const TARGET: &str = "diesel_sharded::telemetry";

macro_rules! event {
    ($level:ident, $($field:tt)*) => {
        #[cfg(feature = "tracing")]
        tracing::$level!(target: $crate::telemetry::TARGET, $($field)*);
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

mod meters;
mod spans;

#[cfg(any(feature = "r2d2", feature = "bb8"))]
pub(crate) use meters::{HealthCheck, NodeMeters, Reason};
#[cfg(feature = "r2d2")]
pub(crate) use spans::transaction_span;
pub(crate) use spans::{Entered, PolledSpan, in_route, route_span};

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

/// A route, checkout or transaction was refused before anything was asked of a database.
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
        Error::ShardOffline { .. } => "shard_offline",
        _ => "other",
    };
    unused!(shard, reason);
    event!(debug, shard, reason, "refused");
    count!("diesel_sharded_refusals_total", "shard" => shard, "reason" => reason);
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
