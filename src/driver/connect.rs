//! What surrounds one attempt to connect: what the application is told of the node, the password of
//! the moment, and what a failure means.

use std::fmt;

use diesel::ConnectionError;

use crate::error::UnavailableCause;
use crate::name::{Role, ShardName};
use crate::replica::connect_cause;
use crate::topology::{DatabaseUrl, NodeSpec};

/// The cause, and what the driver said, without secrets.
pub(crate) type Failed = (UnavailableCause, String);

/// How a node is told to an application's own connect function (`connect_with` of a manager's
/// builder).
#[derive(Clone, Copy)]
pub struct NodeInfo<'a> {
    spec: &'a NodeSpec,
}

impl<'a> NodeInfo<'a> {
    pub(crate) fn new(spec: &'a NodeSpec) -> Self {
        Self { spec }
    }
}

impl NodeInfo<'_> {
    /// The shard of the node.
    #[must_use]
    pub fn shard(&self) -> ShardName {
        self.spec.shard
    }

    /// The node's role in its shard.
    #[must_use]
    pub fn role(&self) -> Role {
        self.spec.role
    }

    /// The URL of the node; [`expose`](DatabaseUrl::expose) gives the text with its password.
    #[must_use]
    pub fn url(&self) -> &DatabaseUrl {
        &self.spec.url
    }
}

impl fmt::Debug for NodeInfo<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeInfo")
            .field("shard", &self.shard())
            .field("role", &self.role())
            .field("url", self.url())
            .finish()
    }
}

/// The node with the password that its command has printed for this attempt.
pub(crate) fn with_password(
    spec: &NodeSpec,
    printed: Result<String, String>,
) -> Result<NodeSpec, Failed> {
    let password = printed.map_err(|error| (UnavailableCause::Authentication, error))?;
    let mut spec = spec.clone();
    spec.url = spec
        .url
        .try_with_password(&password)
        .map_err(|error| (UnavailableCause::Authentication, error.to_owned()))?;
    Ok(spec)
}

/// What it means that a driver, or the application's own function, could not connect.
pub(crate) fn failed(spec: &NodeSpec, error: &ConnectionError) -> Failed {
    let text = spec.url.scrub(&error.to_string());
    let cause = match error {
        ConnectionError::BadConnection(_) | ConnectionError::CouldntSetupConfiguration(_) => {
            connect_cause(&text)
        }
        _ => UnavailableCause::Other,
    };
    (cause, text)
}

pub(crate) fn panicked() -> Failed {
    let text = "the connect function panicked";
    (UnavailableCause::Other, text.to_owned())
}

pub(crate) fn too_late(timeout: std::time::Duration) -> Failed {
    (
        UnavailableCause::Timeout,
        format!("no answer within {timeout:?}"),
    )
}
