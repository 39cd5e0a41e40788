//! How a future that is dropped half-way is known.

use super::backend::AsyncNodeConnection;
use crate::driver::Notes;

/// A statement that is on its way: dropped before it has landed, it marks its connection.
///
/// That costs nothing on the good path, and is how a cancelled future is known.
#[derive(Debug)]
pub(crate) struct InFlight<'a> {
    notes: &'a Notes,
    /// Nothing is known to be on its way before the first poll.
    flying: bool,
    survives: bool,
}

impl<'a> InFlight<'a> {
    /// For something that is polled at once.
    pub(crate) fn new<C: AsyncNodeConnection>(notes: &'a Notes) -> Self {
        Self {
            notes,
            flying: true,
            survives: C::SURVIVES_INTERRUPTION,
        }
    }

    /// For a future that may never be polled, and starts nothing until it is.
    pub(crate) fn waiting<C: AsyncNodeConnection>(notes: &'a Notes) -> Self {
        Self {
            notes,
            flying: false,
            survives: C::SURVIVES_INTERRUPTION,
        }
    }

    #[inline]
    pub(crate) fn take_off(&mut self) {
        self.flying = true;
    }

    #[inline]
    pub(crate) fn land(&mut self) {
        self.flying = false;
    }

    pub(crate) fn landed(mut self) {
        self.land();
    }

    /// The same flight under another owner; this one has landed.
    pub(crate) fn hand_over(&mut self) -> Self {
        let flying = std::mem::replace(&mut self.flying, false);
        Self { flying, ..*self }
    }

    pub(crate) fn notes(&self) -> &'a Notes {
        self.notes
    }
}

impl Drop for InFlight<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.flying {
            self.notes.interrupted(self.survives);
        }
    }
}
