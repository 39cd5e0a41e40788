//! What is known about a physical connection apart from the connection itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use diesel::result::Error as DieselError;

use super::room::NodeHealth;
use crate::error::Error;
use crate::name::{Role, ShardName};
use crate::replica::statement_failure;
use crate::topology::UrlKind;

/// What has happened on a connection since it was last known to be clean.
///
/// Cursors and pipelined statements hold a reference while the connection itself is borrowed, hence
/// the atomic. Looking first is cheaper than writing what is there already.
#[derive(Debug)]
pub(crate) struct Flags(AtomicU16);

impl Flags {
    /// Something ran that may have opened or closed a transaction behind Diesel's back.
    pub(crate) const DIRTY: u16 = 1;
    /// Like `DIRTY`, and nobody has looked since: look before the next statement of a transaction.
    pub(crate) const UNPROBED: u16 = 1 << 1;
    /// A statement failed: check the connection before it is handed out again.
    pub(crate) const FAILED: u16 = 1 << 2;
    /// Close the connection when it comes back.
    pub(crate) const RETIRE: u16 = 1 << 3;
    /// The server ended the transaction by itself.
    pub(crate) const ENDED_BY_SERVER: u16 = 1 << 4;
    /// A hand-written statement ended the transaction.
    pub(crate) const ENDED_BY_HAND: u16 = 1 << 5;
    /// The statement cache was reconfigured by the last user.
    pub(crate) const CACHE_CHANGED: u16 = 1 << 6;
    /// The open transaction was declared read-only, so a refused write says nothing of the node.
    pub(crate) const READ_ONLY_WANTED: u16 = 1 << 7;
    /// The connection is lost.
    pub(crate) const LOST: u16 = 1 << 8;
    /// A statement failed in a way that a repetition of its transaction may not.
    pub(crate) const RETRYABLE: u16 = 1 << 9;
    /// The session is read-only because its shard is.
    pub(crate) const SHARD_READ_ONLY: u16 = 1 << 10;
    /// A statement of the open transaction has failed.
    pub(crate) const FAILED_IN_SCOPE: u16 = 1 << 11;

    /// The future of a statement was dropped half-way: what became of the statement is not known.
    #[cfg(feature = "bb8")]
    pub(crate) const INTERRUPTED: u16 = 1 << 12;
    /// The next answer would be that of an earlier statement: nothing may be sent any more.
    pub(crate) const UNUSABLE: u16 = 1 << 13;

    /// Something ran that may have set something in the session.
    #[cfg(feature = "bb8")]
    pub(crate) const SESSION_SET: u16 = 1 << 14;

    pub(crate) fn new() -> Self {
        Self(AtomicU16::new(0))
    }

    pub(crate) fn set(&self, bits: u16) {
        if self.0.load(Ordering::Relaxed) & bits != bits {
            self.0.fetch_or(bits, Ordering::Relaxed);
        }
    }

    pub(crate) fn clear(&self, bits: u16) {
        if self.any(bits) {
            self.0.fetch_and(!bits, Ordering::Relaxed);
        }
    }

    pub(crate) fn any(&self, bits: u16) -> bool {
        self.0.load(Ordering::Relaxed) & bits != 0
    }
}

/// What is known about a physical connection apart from the connection itself: cursors look at it
/// while the connection is borrowed.
#[derive(Debug)]
pub(crate) struct Notes {
    pub(crate) flags: Flags,
    pub(crate) kind: UrlKind,
    pub(crate) shard: ShardName,
    pub(crate) role: Role,
    pub(crate) health: Arc<NodeHealth>,
}

impl Notes {
    /// The future of a statement was dropped half-way. `usable`: the client library can go on.
    #[cfg(feature = "bb8")]
    #[cold]
    pub(crate) fn interrupted(&self, usable: bool) {
        self.flags
            .set(Flags::DIRTY | Flags::UNPROBED | Flags::FAILED_IN_SCOPE | Flags::INTERRUPTED);
        if !usable {
            self.flags.set(Flags::UNUSABLE | Flags::RETIRE);
        }
    }
}

/// Takes note of errors on behalf of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Noter<'a>(pub(crate) &'a Notes);

impl Noter<'_> {
    #[cold]
    pub(crate) fn failed(&self, error: DieselError) -> DieselError {
        if self.note(&error) && self.0.flags.any(Flags::SHARD_READ_ONLY) {
            return Error::ShardReadOnly {
                shard: self.0.shard,
                source: Some(error.into()),
            }
            .into();
        }
        error
    }

    /// Answers whether the error says that nothing may be written here.
    #[cold]
    pub(crate) fn note(&self, error: &DieselError) -> bool {
        let failure = statement_failure(self.0.kind == UrlKind::Mysql, error);
        self.0
            .flags
            .set(Flags::DIRTY | Flags::UNPROBED | Flags::FAILED | Flags::FAILED_IN_SCOPE);
        if failure.transaction_lost {
            self.0.flags.set(Flags::ENDED_BY_SERVER);
        }
        if failure.retryable {
            self.0.flags.set(Flags::RETRYABLE);
        }
        if failure.unusable {
            self.0.flags.set(Flags::RETIRE);
        }
        if failure.connection_lost {
            self.0.flags.set(Flags::LOST);
            self.0.health.connection_failed();
        }
        let wanted = Flags::READ_ONLY_WANTED | Flags::SHARD_READ_ONLY;
        if failure.read_only && self.0.role == Role::Primary && !self.0.flags.any(wanted) {
            // A primary that refuses writes has been demoted: this connection leads nowhere any
            // more, and neither do the others that were opened before.
            self.0.flags.set(Flags::RETIRE);
            self.0.health.connection_failed();
        }
        failure.read_only
    }
}
