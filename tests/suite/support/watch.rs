//! The user's view of the statements: an instrumentation that keeps the texts.

use std::sync::{Arc, Mutex};

use diesel::connection::{Instrumentation, InstrumentationEvent};

/// Keeps what a connection was asked, as the user's instrumentation hears it.
#[derive(Clone, Default)]
pub(crate) struct Statements(Arc<Mutex<Vec<String>>>);

impl Statements {
    /// What was heard since the last call.
    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().expect("not poisoned"))
    }
}

impl Instrumentation for Statements {
    fn on_connection_event(&mut self, event: InstrumentationEvent<'_>) {
        let text = match event {
            InstrumentationEvent::StartQuery { query, .. } => query.to_string(),
            InstrumentationEvent::BeginTransaction { depth, .. } => format!("begin {depth}"),
            InstrumentationEvent::CommitTransaction { depth, .. } => format!("commit {depth}"),
            InstrumentationEvent::RollbackTransaction { depth, .. } => format!("rollback {depth}"),
            _ => return,
        };
        self.0.lock().expect("not poisoned").push(text);
    }
}
