//! One attempt to connect, with a deadline.

use std::borrow::Cow;
use std::sync::Arc;

use diesel::ConnectionResult;
use futures_util::future::BoxFuture;

use super::shared::Shared;
use crate::driver::NodeInfo;
use crate::driver::connect::{Failed, failed, too_late, with_password};
use crate::nonblocking::backend::AsyncNodeConnection;

/// An application's own way to connect.
pub(crate) type Connector<C> =
    dyn Fn(NodeInfo<'_>) -> BoxFuture<'static, ConnectionResult<C>> + Send + Sync;

/// Connects within `connect_timeout`. An attempt that outlives it is dropped, and its socket with it.
pub(super) async fn establish<C: AsyncNodeConnection>(shared: &Shared<C>) -> Result<C, Failed> {
    let timeout = shared.state.settings.connect_timeout;
    match tokio::time::timeout(timeout, attempt(shared)).await {
        Ok(result) => result,
        Err(_) => Err(too_late(timeout)),
    }
}

async fn attempt<C: AsyncNodeConnection>(shared: &Shared<C>) -> Result<C, Failed> {
    let (spec, kind) = (&shared.state.spec, shared.state.kind);
    let timeout = shared.state.settings.connect_timeout;
    let spec = match spec.password_command.clone() {
        Some(command) => {
            // A program is waited for on a thread that may wait.
            let printed = tokio::task::spawn_blocking(move || command.run(timeout)).await;
            let printed = printed.unwrap_or_else(|error| Err(error.to_string()));
            Cow::Owned(with_password(spec, printed)?)
        }
        None => Cow::Borrowed(spec),
    };
    let connected = match &shared.options.connector {
        Some(connector) => {
            let connector = Arc::clone(connector);
            connector(NodeInfo::new(&spec)).await
        }
        None => C::connect(kind, &spec.url.connect_url(timeout)).await,
    };
    connected.map_err(|error| failed(&spec, &error))
}
