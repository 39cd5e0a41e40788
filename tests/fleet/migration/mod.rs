//! `migration ..` and `schema ..` on real databases.

mod choices;
mod dated;
mod dirty;
mod diverged;
mod failures;
mod lifecycle;
mod locked;
mod processes;
mod schema;
mod siblings;
mod support;
mod templates;
mod unread;
