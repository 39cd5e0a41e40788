//! What the blocking and the nonblocking driver decide alike: the state of a node, the nodes of a
//! topology, what a reload changes, where a key or a checkout goes; what is known about a connection,
//! what a transaction has come to, how one begins. No file here opens a connection or waits.

mod begin;
pub(crate) mod binds;
pub(crate) mod builder;
pub(crate) mod connect;
pub(crate) mod fleet;
mod hooks;
pub(crate) mod identity;
mod kept_texts;
pub(crate) mod keyspace;
pub(crate) mod node;
pub(crate) mod node_set;
mod notes;
mod own_tables;
mod probe;
pub(crate) mod reload;
mod retry;
mod room;
pub(crate) mod session;
mod status;
mod table_places;
mod tables;
mod text;
pub(crate) mod text_settings;
mod transaction_state;
#[cfg(feature = "r2d2")]
pub(crate) mod verify;
mod watch;
mod written_keys;

pub use begin::Isolation;
pub(crate) use begin::{Begin, BeginOptions};
pub use binds::{BindValue, QueryText};
pub use connect::NodeInfo;
pub(crate) use hooks::{Hook, Hooks, run_hooks};
pub use identity::IdentityRow;
pub use keyspace::GroupedByPlacement;
pub(crate) use notes::{Flags, Noter, Notes};
pub(crate) use own_tables::{Denied, OwnTables};
pub use probe::TransactionProbe;
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "async-sqlite"))]
pub(crate) use probe::probe;
pub(crate) use retry::pauses;
pub(crate) use room::{NodeHealth, Room};
pub use status::{NodeStatus, Status};
pub use table_places::{TablePlace, TableResult};
#[cfg(feature = "r2d2")]
pub(crate) use tables::panic_of_deref;
pub(crate) use tables::{Plan, Rewriter, raw_under_table_route};
pub(crate) use text::TextEffect;
pub use transaction_state::{Outcome, ShardedTmState};
pub(crate) use transaction_state::{believed_depth, forget_savepoints, next_scope, open_depth};
pub(crate) use watch::Watch;
