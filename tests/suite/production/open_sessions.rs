//! How many connections somebody has open: servers, which know their sessions.

use super::backend::Fleet;

/// The sessions of the shard's database.
pub(crate) fn open(fleet: &Fleet, shard: &str) -> i64 {
    fleet.sessions(shard)
}
