//! What only a connection that dereferences to the backend's own can do, and what only r2d2 does.

use super::backend::{Conn, Fleet, Manager, NAME, Sharded, ids, insert, whoami};
use super::surface::{both, through_both};
use both::schema;

#[path = "surface/plain_code.rs"]
mod plain_code;
#[path = "surface/r2d2_pool.rs"]
mod r2d2_pool;
#[path = "surface/raw_access.rs"]
mod raw_access;
