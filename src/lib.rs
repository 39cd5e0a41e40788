#![doc = include_str!("../README.md")]
//!
//! # Words
//!
//! | word | meaning |
//! |---|---|
//! | node | one physical database behind one URL, with one pool |
//! | shard | a named part of the data: a primary node, and replica nodes. Its identity is its name |
//! | keyspace | a named set of shards over which one sharding rule spreads rows |
//! | shard key | the value that decides where a row lives; [`ShardKey`](enum@ShardKey) is its typed form |
//! | placement | what a rule answers for a key: the shard, and a spread number for sharded tables |
//! | bucket | one of a fixed number of hash slots; keys hash to buckets for ever, buckets can move |
//! | route | where work is to go: a checked value that belongs to one topology |
//! | route stack | the routes of the current thread; for one topology its topmost entry counts |
//! | pin | the fact that the current scope is inside `transaction_on` |
//!
//! # Map of the crate
//!
//! [`blocking`] is the driver: the manager, the connection, transactions; [`nonblocking`] is its twin for
//! async code, and [`web`] gives each request its route. [`Topology`] says what
//! exists, [`Route`] where a call goes, [`RuleSpec`] and [`Placement`] where a row lives,
//! [`Config`] reads all of it from files, and [`Error`] is the one error type. The module `migrate`
//! (feature `migrations`) brings every shard to its schema.
#![cfg_attr(docsrs, feature(doc_cfg))]

// Names and errors: they know nobody.
mod error;
mod name;
#[cfg_attr(
    not(any(feature = "r2d2", feature = "bb8")),
    expect(dead_code, reason = "most events are the drivers'")
)]
mod telemetry;

// Where a row lives.
mod algorithm;
mod key;
#[cfg_attr(
    not(any(feature = "r2d2", feature = "bb8")),
    expect(dead_code, reason = "statements are the drivers'")
)]
mod rewrite;

// What a node's failures mean.
#[cfg(any(feature = "r2d2", feature = "bb8"))]
mod replica;

// What exists, and where a call goes.
mod route;
mod topology;

#[cfg(feature = "config")]
mod config;

// Each request with its route.
#[cfg(any(feature = "tower", feature = "actix"))]
pub mod web;

// What the drivers decide alike, and the drivers.
#[cfg(any(feature = "r2d2", feature = "bb8"))]
mod driver;

#[cfg(feature = "r2d2")]
pub mod blocking;
#[cfg(feature = "bb8")]
pub mod nonblocking;

#[cfg(all(
    feature = "migrations",
    any(feature = "sqlite", feature = "postgres", feature = "mysql")
))]
pub mod migrate;

pub use algorithm::{
    AlgorithmOptions, AlgorithmSpec, CompatRange, CompatSpec, CustomPlace, CustomSpec, DateSpec,
    Every, ExplainStep, Explanation, Fingerprint, JavaType, Layout, Normalize, Placement,
    RangeSpec, Rounding, RuleSpec, ShardingAlgorithm, System, jump_consistent_hash,
};
#[cfg(feature = "config")]
pub use config::{Config, ConfigLoader, Format};
#[cfg(any(feature = "r2d2", feature = "bb8"))]
pub use driver::Isolation;
pub use error::{
    BoxError, ConfigErrors, ConfigProblem, Error, RollbackReason, TableMismatchCause,
    UnavailableCause,
};
#[cfg(feature = "config")]
pub use key::ParseKeyError;
pub use key::{
    CompositeType, HasShardKey, InsertChecked, KeyType, ParseWordError, ShardKey, ToShardKey,
};
pub use name::{KeyspaceName, Role, ShardName, WorkloadName};
pub use route::{CapturedRoutes, FutureExt, IntoRoutes, Route, RouteGuard, Routed, StreamExt};
pub use topology::{
    BucketMap, DatabaseUrl, Grouped, HeavyKey, KeyspaceConfig, KeyspaceDescription, Move,
    NodeDescription, PlacementDiff, PlacementSample, PoolConfig, RangeTarget, Refused,
    ReplicaConfig, ShardConfig, ShardState, Share, Skew, SkewReport, Startup, TableDescription,
    Topology, TopologyBuilder, UrlKind,
};

#[cfg(feature = "macros")]
pub use diesel_sharded_macros::{ShardKey, ToShardKey, routed, sharded_transaction};

#[cfg(feature = "macros")]
#[doc(hidden)]
#[path = "macro_support.rs"]
pub mod __private;

/// The snippet of docs/fleet.md, compiled and run with the other tests.
#[cfg(all(doctest, feature = "sqlite", feature = "migrations"))]
#[doc = include_str!("../docs/fleet.md")]
struct FleetGuide;

/// The snippets of docs/operations.md, compiled and run with the other tests.
#[cfg(all(doctest, feature = "sqlite", feature = "postgres", feature = "config"))]
#[doc = include_str!("../docs/operations.md")]
struct OperationsGuide;

/// The snippets of docs/placement.md, compiled and run with the other tests.
#[cfg(all(doctest, feature = "config"))]
#[doc = include_str!("../docs/placement.md")]
struct PlacementGuide;

/// The snippets of docs/async.md.
#[cfg(all(doctest, feature = "bb8", feature = "tower"))]
#[doc = include_str!("../docs/async.md")]
struct AsyncGuide;

/// The snippets of docs/tables.md, compiled and run with the other tests.
#[cfg(all(doctest, feature = "sqlite"))]
#[doc = include_str!("../docs/tables.md")]
struct TablesGuide;

/// The way in for the fuzz target; there in fuzzing builds only.
#[cfg(fuzzing)]
#[doc(hidden)]
pub mod fuzzing {
    use crate::name::KeyspaceName;
    use crate::rewrite::sql::{invariant, samples};
    use crate::rewrite::{Dialect, TableNumbers, Which};

    /// Rewrites any text, in the dialect of a number.
    pub fn rewrite(dialect: u8, text: &str) {
        let dialect = match dialect % 3 {
            0 => Dialect::Sqlite,
            1 => Dialect::Postgres,
            _ => Dialect::Mysql,
        };
        let numbers = TableNumbers {
            keyspace: KeyspaceName::intern("orders"),
            which: Which::Spread(3),
            placed_by: samples::PLACED_BY,
        };
        invariant::check(&samples::set(dialect), numbers, text);
    }
}
