//! What an application does with a connection that only PostgreSQL has.

#[path = "surface/postgres_queries.rs"]
mod postgres_queries;
#[path = "surface/postgres_sessions.rs"]
mod postgres_sessions;
#[path = "surface/postgres_transactions.rs"]
mod postgres_transactions;

use super::backend::{Fleet, Isolation, Pool, RowByRow, Sharded, ids, insert};
use super::surface::{both, through_both};
