//! The blocking driver: Diesel's own connection types, one r2d2 pool per node.

mod backend;
mod builder;
mod connection;
mod diesel_impls;
mod direct;
mod hooks;
mod identity;
mod insert;
mod keyspace;
mod manager;
mod native;
mod node;
mod outer;
mod reload;
mod retry;
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
mod save_changes;
mod slot;
mod transaction;
mod transaction_manager;
mod verify;
pub(crate) mod wal;

pub use backend::{NodeConnection, ServerInfo};
pub use builder::ManagerBuilder;
pub use connection::ShardedConnection;
pub use diesel_impls::ShardedCursor;
#[cfg(feature = "migrations")]
pub(crate) use direct::missing_backend;
pub use direct::{NodeAnswer, connect_node, ping_node};
pub use keyspace::Keyspace;
pub use manager::ShardedConnectionManager;
#[cfg(feature = "postgres")]
pub use native::PgTransactionBuilder;
#[cfg(feature = "migrations")]
pub(crate) use node::connect_once;
pub use reload::Reloaded;
pub use retry::RetryingTransactionBuilder;
pub use transaction::TransactionBuilder;
pub use transaction_manager::ShardedTm;
pub use verify::{find_key, verify};

pub use crate::driver::verify::{
    Finding, FindingKind, KeyPlaces, RowsFound, ScannedKey, VerifyOptions, VerifyProgress,
    VerifyReport, VerifyState,
};
pub use crate::driver::{
    BindValue, GroupedByPlacement, IdentityRow, Isolation, NodeInfo, NodeStatus, Outcome,
    QueryText, ShardedTmState, Status, TablePlace, TableResult, TransactionProbe,
};
