//! `migration ..` and `schema ..` on real databases.

mod choices;
mod dated;
mod dirty;
mod diverged;
mod failures;
mod lifecycle;
mod locked;
mod names;
mod processes;
mod schema;
mod siblings;
mod sick;
mod support;
mod templates;
mod unread;
