//! Which node of a shard may be used, and what its failures mean: pure decisions, no I/O.

mod circuit;
mod failure;

pub(crate) use circuit::{Circuit, Failure, Opened, Verdict};
pub(crate) use failure::{connect_cause, statement_failure};
