//! The only file that names `tracing`; without the feature every function here is empty.

use crate::error::UnavailableCause;
use crate::name::{Role, ShardName};

/// A checkout without a route went to the default shard.
#[inline]
pub(crate) fn fell_to_default(shard: ShardName) {
    #[cfg(feature = "tracing")]
    tracing::debug!(shard = %shard, reason = "default", "no route in force, using the default shard");
    #[cfg(not(feature = "tracing"))]
    let _ = shard;
}

/// A connect attempt failed.
pub(crate) fn connect_failed(shard: ShardName, role: Role, cause: UnavailableCause) {
    #[cfg(feature = "tracing")]
    tracing::warn!(shard = %shard, role = %role, cause = cause.as_str(), "connecting failed");
    #[cfg(not(feature = "tracing"))]
    let _ = (shard, role, cause);
}

/// A rollback failed after the caller's own error or panic, which is what the caller gets.
pub(crate) fn rollback_failed(shard: ShardName, error: &diesel::result::Error) {
    #[cfg(feature = "tracing")]
    tracing::error!(shard = %shard, error = %error, "rolling back failed, the connection is closed");
    #[cfg(not(feature = "tracing"))]
    let _ = (shard, error);
}

/// A connection came back with a transaction open and was closed.
pub(crate) fn closed_dirty(shard: ShardName, role: Role) {
    #[cfg(feature = "tracing")]
    tracing::warn!(shard = %shard, role = %role, "a connection came back with an open transaction and was closed");
    #[cfg(not(feature = "tracing"))]
    let _ = (shard, role);
}
