//! What the blocking and the nonblocking driver decide alike: what is known about a connection, what
//! a transaction has come to, how one begins. No file here waits for anything.

mod begin;
mod hooks;
mod notes;
mod probe;
mod room;
mod text;
mod transaction_state;
mod watch;

pub use begin::Isolation;
pub(crate) use begin::{Begin, BeginOptions};
pub(crate) use hooks::{Hook, Hooks, run_hooks};
pub(crate) use notes::{Flags, Noter, Notes};
pub use probe::TransactionProbe;
pub(crate) use probe::probe;
pub(crate) use room::{NodeHealth, Room};
pub(crate) use text::TextEffect;
pub use transaction_state::{Outcome, ShardedTmState};
pub(crate) use transaction_state::{believed_depth, forget_savepoints, next_scope, open_depth};
pub(crate) use watch::Watch;
