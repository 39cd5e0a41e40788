//! What an application does with a connection that only PostgreSQL has.

#[path = "surface/copy.rs"]
mod copy;
#[path = "surface/postgres_queries.rs"]
mod postgres_queries;
#[path = "surface/postgres_sessions.rs"]
mod postgres_sessions;
#[path = "surface/postgres_transactions.rs"]
mod postgres_transactions;

use super::backend::{Conn, Fleet, Isolation, Pool, Sharded, ids, insert};
use super::surface::{both, through_both};
use super::surface_returning::WholeUser;
