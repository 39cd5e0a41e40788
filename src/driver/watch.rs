//! The instrumentation of physical connections.

use diesel::connection::{DynInstrumentation, Instrumentation, InstrumentationEvent};

/// The instrumentation of every physical connection: passes events on to the user's, unless the
/// crate talks to the connection for itself.
pub(crate) struct Watch {
    pub(crate) user: DynInstrumentation,
    pub(crate) muted: bool,
}

impl Instrumentation for Watch {
    fn on_connection_event(&mut self, event: InstrumentationEvent<'_>) {
        if !self.muted {
            self.user.on_connection_event(event);
        }
    }
}
