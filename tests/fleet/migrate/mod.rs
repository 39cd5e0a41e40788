//! Migrations through the library, on every backend.

pub(crate) use super::backend;

mod by_hand;
mod dirty;
mod doubt;
mod locks;
mod partial;
mod rust;
pub(crate) mod stage;
mod versions;
