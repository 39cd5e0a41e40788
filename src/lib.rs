#![doc = "Connection middleware for Diesel."]

mod error;
mod key;
mod name;
mod telemetry;

mod algorithm;
mod replica;

mod topology;

mod route;

#[cfg(feature = "config")]
mod config;

#[cfg(feature = "r2d2")]
pub mod blocking;

pub use algorithm::*;
pub use error::{
    BoxError, ConfigErrors, ConfigProblem, Error, RollbackReason, UnavailableCause,
};
pub use key::*;
pub use name::{KeyspaceName, Role, ShardName};
pub use route::{CapturedRoutes, Route, RouteGuard};
pub use topology::{
    DatabaseUrl, Grouped, KeyspaceConfig, PoolConfig, Refused, ReplicaConfig, ShardConfig, Startup,
    Topology, TopologyBuilder, UrlKind,
};
#[cfg(feature = "config")]
pub use config::{Config, ConfigLoader, Format};
