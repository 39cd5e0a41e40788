//! The nonblocking driver: diesel-async's connection types, one bb8 pool per node.

mod backend;
mod closure;
mod slot;

pub use backend::AsyncNodeConnection;
pub use closure::{SendAsyncFn, SendAsyncFn0};
