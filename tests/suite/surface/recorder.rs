//! An instrumentation that writes down every event.

use std::sync::{Arc, Mutex};

use diesel::connection::{Instrumentation, InstrumentationEvent};

/// The events of the connections that have a clone of it.
#[derive(Clone, Default)]
pub(crate) struct Recorder(Arc<Mutex<Vec<String>>>);

impl Recorder {
    /// What was written down since the last call.
    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().expect("not poisoned"))
    }

    /// How many statements were put into a connection's statement cache since the last `take`.
    pub(crate) fn cached(&self) -> usize {
        let events = self.0.lock().expect("not poisoned");
        events
            .iter()
            .filter(|event| event.starts_with("cache "))
            .count()
    }
}

impl Instrumentation for Recorder {
    fn on_connection_event(&mut self, event: InstrumentationEvent<'_>) {
        self.0.lock().expect("not poisoned").push(describe(&event));
    }
}

pub(crate) fn describe(event: &InstrumentationEvent<'_>) -> String {
    match event {
        InstrumentationEvent::StartEstablishConnection { .. } => "connect".to_owned(),
        InstrumentationEvent::FinishEstablishConnection { error, .. } => {
            format!("connected: {error:?}")
        }
        InstrumentationEvent::StartQuery { query, .. } => format!("start {query}"),
        InstrumentationEvent::CacheQuery { sql, .. } => format!("cache {sql}"),
        InstrumentationEvent::FinishQuery { query, error, .. } => {
            format!("finish {query}: {error:?}")
        }
        InstrumentationEvent::BeginTransaction { depth, .. } => format!("begin {depth}"),
        InstrumentationEvent::CommitTransaction { depth, .. } => format!("commit {depth}"),
        InstrumentationEvent::RollbackTransaction { depth, .. } => format!("rollback {depth}"),
        other => format!("{other:?}"),
    }
}
