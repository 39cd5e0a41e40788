//! Requests of web servers: each has its route, and nothing of it is left for the next.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![expect(
    clippy::await_holding_invalid_type,
    reason = "what becomes of that mistake is tested here"
)]

mod actix;
mod actix_orders;
mod consumer;
mod http;
mod orders;
mod tower;

use std::time::Duration;

use diesel_sharded::blocking::ShardedConnectionManager;
use diesel_sharded::{
    Error, KeyType, KeyspaceConfig, PoolConfig, RuleSpec, ShardConfig, ShardState, Topology,
    TopologyBuilder,
};

/// Customers 0 to 3 by turns on `a` and `b`, 7 on the offline shard `c`, 8 on `d`; no others.
fn builder() -> TopologyBuilder {
    let customers = [("a", [0, 2]), ("b", [1, 3]), ("c", [7, -7]), ("d", [8, -8])];
    let mut builder = Topology::builder();
    for shard in ["a", "b", "d"] {
        builder = builder.shard(shard, format!("{shard}.db"));
    }
    builder
        .shard("c", ShardConfig::new("c.db").state(ShardState::Offline))
        .keyspace(
            "orders",
            KeyspaceConfig::new(RuleSpec::list(customers).key(KeyType::Integer)),
        )
}

fn topology() -> Topology {
    builder().build().unwrap()
}

/// A port of this machine that nobody listens on.
fn closed_port() -> u16 {
    let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    socket.local_addr().unwrap().port()
}

/// A topology whose only shard, `gone`, is a server that is not there.
fn gone() -> Topology {
    let url = format!("postgres://u:w0rd@127.0.0.1:{}/d", closed_port());
    Topology::builder()
        .shard("gone", url)
        .pool(PoolConfig::new().max_size(1))
        .build()
        .unwrap()
}

/// A shard, `busy`, with one connection, which is not waited for long.
fn busy_shard(folder: &tempfile::TempDir) -> ShardedConnectionManager<diesel::SqliteConnection> {
    let file = folder.path().join("busy.db").display().to_string();
    let pool = PoolConfig::new()
        .max_size(1)
        .connection_timeout(Duration::from_millis(50));
    ShardedConnectionManager::builder()
        .shard("busy", file)
        .pool(pool)
        .build()
        .unwrap()
}

/// The name of the shard whose route is in force, if one is.
fn here(topology: &Topology) -> Option<String> {
    let route = topology.route_in_force()?;
    Some(route.shard().to_string())
}

/// What a handler says when the database does not let it.
fn unavailable(error: &Error) -> bool {
    matches!(error, Error::Unavailable { .. })
}
