//! One attempt to connect, with a deadline.

use std::borrow::Cow;
use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::time::Duration;

use diesel::ConnectionResult;

use super::shared::Shared;
use crate::blocking::backend::NodeConnection;
use crate::driver::NodeInfo;
use crate::driver::connect::{Failed, failed, panicked, too_late, with_password};
use crate::error::UnavailableCause;
use crate::topology::{NodeSpec, UrlKind};

/// An application's own way to connect.
pub(crate) type Connector<C> = dyn Fn(NodeInfo<'_>) -> ConnectionResult<C> + Send + Sync;

/// Attempts of one node that may hang at the same time: what hangs may be the application's own
/// connect function, however well the host greets.
const MOST_STUCK: usize = 4;

/// Connects within `connect_timeout`.
pub(super) fn establish<C: NodeConnection>(shared: &Shared<C>) -> Result<C, Failed> {
    let (spec, kind) = (&shared.state.spec, shared.state.kind);
    let connector = &shared.options.connector;
    let timeout = shared.state.settings.connect_timeout;
    if kind == UrlKind::Sqlite {
        let attempt = AssertUnwindSafe(|| attempt(connector, spec, kind, timeout));
        return catch_unwind(attempt).unwrap_or_else(|_| Err(panicked()));
    }
    let stuck = shared.stuck.load(Ordering::Acquire);
    if stuck >= MOST_STUCK || (stuck > 0 && !greets(spec, kind, timeout)) {
        return Err((
            UnavailableCause::Timeout,
            "earlier attempts still hang".to_owned(),
        ));
    }
    // No client library bounds every part of a connect (name resolution, TLS, a server that accepts
    // and says nothing), so the attempt has a thread of its own and we have a clock.
    let (answer, result) = mpsc::sync_channel(1);
    let (connector, spec) = (connector.clone(), spec.clone());
    let stuck = Arc::clone(&shared.stuck);
    let spawned = std::thread::Builder::new()
        .name("diesel-sharded-connect".to_owned())
        .spawn(move || {
            let result = attempt(&connector, &spec, kind, timeout);
            // The receiver is gone once its deadline has passed; it has counted us as stuck.
            if answer.send(result).is_err() {
                stuck.fetch_sub(1, Ordering::AcqRel);
            }
        });
    if let Err(error) = spawned {
        return Err((UnavailableCause::Other, error.to_string()));
    }
    match result.recv_timeout(timeout) {
        Ok(result) => result,
        Err(mpsc::RecvTimeoutError::Timeout) => {
            shared.stuck.fetch_add(1, Ordering::AcqRel);
            // It may have answered in this very moment.
            match result.try_recv() {
                Ok(result) => {
                    shared.stuck.fetch_sub(1, Ordering::AcqRel);
                    result
                }
                Err(_) => Err(too_late(timeout)),
            }
        }
        Err(mpsc::RecvTimeoutError::Disconnected) => Err(panicked()),
    }
}

/// Connects one time, past pool and circuit, within the node's `connect_timeout`. An attempt that
/// hangs is left to itself.
pub(crate) fn once<C: NodeConnection>(spec: &NodeSpec, kind: UrlKind) -> Result<C, Failed> {
    let timeout = spec.pool.connect_timeout;
    if kind == UrlKind::Sqlite {
        return attempt(&None, spec, kind, timeout);
    }
    let (answer, result) = mpsc::sync_channel(1);
    let spec = spec.clone();
    std::thread::Builder::new()
        .name("diesel-sharded-connect".to_owned())
        .spawn(move || answer.send(attempt(&None, &spec, kind, timeout)))
        .map_err(|error| (UnavailableCause::Other, error.to_string()))?;
    match result.recv_timeout(timeout) {
        Ok(result) => result,
        Err(mpsc::RecvTimeoutError::Timeout) => Err(too_late(timeout)),
        Err(mpsc::RecvTimeoutError::Disconnected) => Err(panicked()),
    }
}

fn attempt<C: NodeConnection>(
    connector: &Option<Arc<Connector<C>>>,
    spec: &NodeSpec,
    kind: UrlKind,
    timeout: Duration,
) -> Result<C, Failed> {
    let printed = spec.password_command.as_ref().map(|c| c.run(timeout));
    let spec = match printed {
        Some(printed) => Cow::Owned(with_password(spec, printed)?),
        None => Cow::Borrowed(spec),
    };
    let connected = match connector {
        Some(connector) => connector(NodeInfo::new(&spec)),
        None => C::connect(kind, &spec.url.connect_url(timeout)),
    };
    connected.map_err(|error| failed(&spec, &error))
}

/// Whether a server at the node's address says something: asked while an earlier attempt hangs, and
/// before a probe pays for a whole connect.
pub(super) fn greets(spec: &NodeSpec, kind: UrlKind, patience: Duration) -> bool {
    /// PostgreSQL waits for the client; this asks it whether it speaks TLS, which every server
    /// answers with one byte (protocol documentation, "SSLRequest").
    const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 47];

    let servers = spec.url.servers();
    servers.is_empty()
        || servers.iter().any(|server| {
            let Some(port) = server.port.filter(|_| !server.host.starts_with('/')) else {
                return true;
            };
            let Ok(addresses) = (server.host.as_str(), port).to_socket_addrs() else {
                return false;
            };
            addresses.into_iter().any(|address| {
                let Ok(mut stream) = TcpStream::connect_timeout(&address, patience) else {
                    return false;
                };
                let asked = kind != UrlKind::Postgres || stream.write_all(&SSL_REQUEST).is_ok();
                let mut greeting = [0];
                asked
                    && stream.set_read_timeout(Some(patience)).is_ok()
                    && matches!(stream.read(&mut greeting), Ok(read) if read > 0)
            })
        })
}
