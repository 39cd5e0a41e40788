//! What an operator sees: every metric, event and span, against what really happened.
//!
//! What is counted does not depend on the backend, so SQLite stands for all; what only a server can
//! do (a session that is killed) is asked of PostgreSQL.

mod contract;
mod counts;
mod log;
mod nodes;
mod recorder;
mod spans;

use diesel_sharded::blocking::ManagerBuilder;

use crate::support::sqlite::{Conn, Fleet, Manager};

/// A builder over the shards of a fleet, without a word on how to connect.
fn plain(fleet: &Fleet) -> ManagerBuilder<Conn> {
    fleet
        .shards()
        .into_iter()
        .fold(Manager::builder(), |builder, shard| {
            let url = fleet.url(&shard);
            builder.shard(shard, url)
        })
}
