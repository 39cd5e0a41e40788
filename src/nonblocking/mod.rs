//! The nonblocking driver: diesel-async's connection types, one bb8 pool per node.

mod backend;
mod builder;
mod closure;
mod connection;
mod diesel_impls;
mod first_poll;
mod flight;
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
#[cfg(any(
    feature = "async-sqlite",
    feature = "async-postgres",
    feature = "async-mysql"
))]
mod save_changes;
mod slot;
mod statement;
mod transaction;
mod transaction_manager;

pub use backend::{AsyncNodeConnection, CommitRefused, StatementStart};
pub use builder::ManagerBuilder;
pub use closure::{SendAsyncFn, SendAsyncFn0, SendAsyncFn2};
pub use connection::AsyncShardedConnection;
pub use keyspace::Keyspace;
pub use manager::AsyncShardedConnectionManager;
#[cfg(feature = "async-postgres")]
pub use native::PgTransactionBuilder;
pub use reload::Reloaded;
pub use retry::RetryingTransactionBuilder;
pub use statement::{ExecuteFuture, LoadFuture, ShardedStream};
pub use transaction::TransactionBuilder;
pub use transaction_manager::ShardedTm;

pub use crate::driver::{
    BindValue, GroupedByPlacement, IdentityRow, Isolation, NodeInfo, NodeStatus, Outcome,
    QueryText, ShardedTmState, Status, TablePlace, TableResult, TransactionProbe,
};
