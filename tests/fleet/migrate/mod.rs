//! Migrations through the library, on every backend.

pub(crate) use super::backend;

mod dirty;
mod locks;
mod partial;
mod rust;
pub(crate) mod stage;
mod versions;
