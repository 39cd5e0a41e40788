//! What is remembered of the transactions of a connection, and what follows from it.

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU64, Ordering};

use diesel::connection::TransactionManagerStatus;

use super::notes::{Flags, Notes};
use crate::error::RollbackReason;
use crate::topology::UrlKind;

/// What the transaction manager of a connection remembers; a connection has one even while it is bound to nothing.
#[derive(Debug, Default)]
pub struct ShardedTmState {
    /// Transactions and savepoints begun through us.
    pub(crate) depth: u32,
    /// The depth Diesel already had when the first of them began (a test transaction).
    pub(crate) base: u32,
    /// Which closure that is; it moves with the connection, should somebody exchange two.
    pub(crate) scope: u64,
    /// The level of the innermost closure, which is the closure's scope to end and nobody else's.
    pub(crate) floor: u32,
    /// Why the transaction is gone in the middle of its scope.
    pub(crate) lost: Option<RollbackReason>,
    /// What Diesel sees while there is no inner connection to ask.
    pub(crate) unbound: TransactionManagerStatus,
}

impl ShardedTmState {
    #[inline]
    pub(crate) fn depth(&self) -> u32 {
        self.depth
    }

    pub(crate) fn expected_depth(&self) -> u32 {
        self.base + self.depth
    }

    /// What was begun is a test transaction: not a scope of ours, but the ground for later ones.
    pub(crate) fn hand_over_to_test(&mut self) {
        self.depth = 0;
        self.base = 0;
    }

    pub(crate) fn ended(&mut self) {
        self.depth = self.depth.saturating_sub(1);
        if self.depth == 0 {
            self.lost = None;
            self.base = 0;
        }
    }

    /// Why the transaction is gone, as far as that is known without Diesel.
    pub(crate) fn known_lost(&self, flags: &Flags) -> Option<RollbackReason> {
        const SIGNS: [(u16, RollbackReason); 4] = [
            (Flags::ENDED_BY_SERVER, RollbackReason::EndedByServer),
            (Flags::ENDED_BY_HAND, RollbackReason::EndedByHand),
            (Flags::LOST, RollbackReason::ConnectionLost),
            (Flags::UNUSABLE, RollbackReason::Cancelled),
        ];
        self.lost.or_else(|| {
            let (_, reason) = SIGNS.iter().find(|(sign, _)| flags.any(*sign))?;
            Some(*reason)
        })
    }

    /// Finds out whether the transaction that our bookkeeping has open is still there, from what is
    /// known of the connection and what Diesel believes.
    pub(crate) fn lost(
        &mut self,
        notes: &Notes,
        status: &TransactionManagerStatus,
    ) -> Option<RollbackReason> {
        self.lost = if let Some(reason) = self.known_lost(&notes.flags) {
            Some(reason)
        } else if matches!(status, TransactionManagerStatus::InError) {
            Some(RollbackReason::ConnectionLost)
        } else if believed_depth(status) < self.expected_depth() {
            // On PostgreSQL no error ends a transaction, it only spoils it.
            let after_error =
                notes.kind != UrlKind::Postgres && notes.flags.any(Flags::FAILED_IN_SCOPE);
            Some(if after_error {
                RollbackReason::EndedByServer
            } else {
                RollbackReason::EndedByHand
            })
        } else {
            None
        };
        self.lost
    }
}

/// How the closure of a transaction wants it to end.
///
/// Rolling back without an error is an outcome too: a dry run, a conditional write.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Outcome<T> {
    /// Commit, and return the value.
    Commit(T),
    /// Roll back, and return the value.
    Rollback(T),
}

/// A number that no other closure of the process has.
pub(crate) fn next_scope() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// The depth Diesel believes in.
pub(crate) fn believed_depth(status: &TransactionManagerStatus) -> u32 {
    match status {
        TransactionManagerStatus::Valid(valid) => valid
            .in_transaction
            .as_ref()
            .map_or(0, |open| open.transaction_depth.get()),
        TransactionManagerStatus::InError => 0,
    }
}

/// The depth of the transactions Diesel believes in, without a test transaction.
pub(crate) fn open_depth(status: &TransactionManagerStatus) -> u32 {
    match status {
        TransactionManagerStatus::Valid(valid) => valid.in_transaction.as_ref().map_or(0, |open| {
            open.transaction_depth.get() - u32::from(open.test_transaction)
        }),
        TransactionManagerStatus::InError => 0,
    }
}

/// Lets Diesel forget the savepoints above a depth.
pub(crate) fn forget_savepoints(status: &mut TransactionManagerStatus, depth: u32) {
    if let (TransactionManagerStatus::Valid(valid), Some(depth)) = (status, NonZeroU32::new(depth))
        && let Some(open) = &mut valid.in_transaction
    {
        open.transaction_depth = depth;
    }
}
