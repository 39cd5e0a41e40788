//! Connections past the pools: for tools that look at one database after the other.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use super::backend::{NodeConnection, ServerInfo};
use super::node::connect_once;
use super::wal;
use crate::driver::identity;
use crate::error::{ConfigErrors, ConfigProblem, Error, UnavailableCause};
use crate::topology::{NodeDescription, NodeSpec, Snapshot, Topology, UrlKind};

/// What a node said when it was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeAnswer {
    /// How long connecting took, login included.
    pub connect: Duration,
    /// How long a statement takes that does nothing: one round trip.
    pub latency: Duration,
    /// What the server says of itself.
    pub server: ServerInfo,
}

/// Connects to one node past all pools, within the node's `connect_timeout`.
///
/// The password of a `password = { command = [..] }` is asked for, as a pool does it. The connection
/// is Diesel's own: no route is looked at, and what it leaves open ends with it.
///
/// ```
/// # #[cfg(feature = "sqlite")] fn main() -> Result<(), diesel_sharded::Error> {
/// use diesel::SqliteConnection;
/// use diesel_sharded::Topology;
/// use diesel_sharded::blocking::connect_node;
///
/// let topology = Topology::builder().shard("a", ":memory:").build()?;
/// for node in topology.nodes() {
///     let _conn: SqliteConnection = connect_node(&node)?;
/// }
/// # Ok(())
/// # }
/// # #[cfg(not(feature = "sqlite"))] fn main() {}
/// ```
///
/// # Errors
///
/// [`Error::Unavailable`] with its cause; [`Error::Config`] for a URL that `C` does not connect to,
/// or whose backend was not compiled in: it names the missing feature.
pub fn connect_node<C: NodeConnection>(node: &NodeDescription) -> Result<C, Error> {
    connect(node.spec())
}

/// Connects to one node, asks it what it is, and whether it is the one the configuration takes it
/// for. A SQLite file that is not there is not made. A server that accepts the login and then says
/// nothing is given up after another `connect_timeout`.
///
/// # Errors
///
/// What [`connect_node`] answers; [`Error::WrongDatabase`] and [`Error::PlacementChanged`] where the
/// database says so of itself.
pub fn ping_node<C: NodeConnection>(
    topology: &Topology,
    node: &NodeDescription,
) -> Result<NodeAnswer, Error> {
    let patience = node.spec().pool.connect_timeout.saturating_mul(2);
    let (answer, result) = mpsc::sync_channel(1);
    let (snapshot, spec) = (topology.snapshot(), node.spec().clone());
    let spawned = std::thread::Builder::new()
        .name("diesel-sharded-ping".to_owned())
        .spawn(move || answer.send(ask::<C>(&snapshot, &spec)));
    if let Err(error) = spawned {
        return Err(unavailable(
            node.spec(),
            UnavailableCause::Other,
            error.to_string(),
        ));
    }
    result.recv_timeout(patience).unwrap_or_else(|_| {
        Err(unavailable(
            node.spec(),
            UnavailableCause::Timeout,
            format!("it accepted the connection, but said nothing within {patience:?}"),
        ))
    })
}

fn ask<C: NodeConnection>(snapshot: &Snapshot, spec: &NodeSpec) -> Result<NodeAnswer, Error> {
    let failed = |error: diesel::result::Error| {
        let text = spec.url.scrub(&error.to_string());
        let text = match wal::file(spec) {
            Some(file) => format!("{}: {text}", wal::hint(&file)),
            None => text,
        };
        unavailable(spec, UnavailableCause::Other, text)
    };
    let begun = Instant::now();
    let mut conn: C = connect_existing(spec)?;
    let connect = begun.elapsed();
    let begun = Instant::now();
    conn.batch_execute("SELECT 1").map_err(failed)?;
    let latency = begun.elapsed();
    let server = conn.server().map_err(failed)?;
    let rows = conn.read_identity().map_err(failed)?;
    identity::compare(snapshot, spec.shard, &rows)?;
    Ok(NodeAnswer {
        connect,
        latency,
        server,
    })
}

/// The same for those who only look: a SQLite file that is not there is not made.
pub(crate) fn connect_existing<C: NodeConnection>(spec: &NodeSpec) -> Result<C, Error> {
    if let Some(file) = spec.url.sqlite_file()
        && !file.exists()
    {
        return Err(unavailable(
            spec,
            UnavailableCause::Unreachable,
            "there is no such file; the first migration or connection makes it".to_owned(),
        ));
    }
    connect(spec)
}

/// Connects to one node past all pools.
pub(crate) fn connect<C: NodeConnection>(spec: &NodeSpec) -> Result<C, Error> {
    let Some(kind) = spec.url.kind() else {
        return Err(refused(spec, "names no database that is known"));
    };
    if let Some(problem) = missing_backend(spec, kind) {
        return Err(ConfigErrors(vec![problem]).into());
    }
    if !C::accepts(kind) {
        return Err(refused(
            spec,
            &format!("this connection type does not connect to {}", kind.as_str()),
        ));
    }
    connect_once(spec, kind).map_err(|(cause, text)| unavailable(spec, cause, text))
}

/// What is wrong with a URL whose backend was not compiled in: it names the missing feature.
pub(crate) fn missing_backend(spec: &NodeSpec, kind: UrlKind) -> Option<ConfigProblem> {
    let compiled = match kind {
        UrlKind::Sqlite => cfg!(feature = "sqlite"),
        UrlKind::Postgres => cfg!(feature = "postgres"),
        UrlKind::Mysql => cfg!(feature = "mysql"),
    };
    let feature = feature(kind);
    let message = format!(
        "{} is not compiled into this program: build it with the feature `{feature}`",
        kind.as_str()
    );
    (!compiled).then(|| problem(spec, message))
}

/// The feature of this crate that drives such databases.
fn feature(kind: UrlKind) -> &'static str {
    match kind {
        UrlKind::Sqlite => "sqlite",
        UrlKind::Postgres => "postgres",
        UrlKind::Mysql => "mysql",
    }
}

fn unavailable(spec: &NodeSpec, cause: UnavailableCause, text: String) -> Error {
    Error::Unavailable {
        shard: spec.shard,
        role: spec.role,
        cause,
        source: Some(text.into()),
    }
}

fn refused(spec: &NodeSpec, message: &str) -> Error {
    ConfigErrors(vec![problem(spec, message.to_owned())]).into()
}

fn problem(spec: &NodeSpec, message: String) -> ConfigProblem {
    ConfigProblem {
        origin: String::new(),
        key: format!("shards.{}.url", spec.shard),
        message,
    }
}
