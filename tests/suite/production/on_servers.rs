//! Production, on backends that have servers: what is down, full, killed, cut off, rotated.

mod circuit;
mod conflicts;
mod credentials;
mod killed;
mod many_shards;
mod refusals;
mod restart;

pub(crate) use super::backend;
