//! Sharded tables: `orders` in the code, `orders_0` to `orders_3` in the databases.
//!
//! Beside the physical tables there is always one with the logical name, the decoy: whatever reaches it
//! was not rewritten.

use super::backend::{Conn, DRIVER, Fleet, Manager, NAME, Pool, Pooled, Sharded, Visit};

mod cache;
mod differential;
mod held;
mod jobs;
mod keys;
mod names;
mod new_rows;
mod routes;
mod seen;
pub(crate) mod surface;
mod templates;
mod texts;
pub(crate) mod world;
