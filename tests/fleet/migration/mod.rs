//! `migration ..` and `schema ..` on real databases.

mod choices;
mod dirty;
mod diverged;
mod failures;
mod lifecycle;
mod locked;
mod processes;
mod schema;
mod support;
