//! The local transaction probe.
//!
//! Diesel reads the client library's transaction state after each statement and corrects its own
//! bookkeeping by it, but does not show it. So the probe lets Diesel believe in a transaction,
//! makes a statement fail before anything is sent, and looks at what Diesel made of its belief.
//! That rests on Diesel's internals (hence the version pin); a contract test per backend guards it.

#[cfg(any(feature = "sqlite", feature = "postgres", feature = "async-sqlite"))]
use diesel::connection::{
    AnsiTransactionManager, Connection, TransactionDepthChange, TransactionManager,
    TransactionManagerStatus, ValidTransactionManagerStatus,
};

/// What the client library knows about the transaction of a connection.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum TransactionProbe {
    /// No transaction is open.
    Idle,
    /// A transaction is open and can be committed.
    Open,
    /// A transaction is open and can only be rolled back (PostgreSQL after an error).
    Failed,
    /// The connection is broken.
    Broken,
    /// The client library cannot tell (MySQL).
    Unknown,
}

/// Probes by `fail`, which must fail locally and leave Diesel to look at the connection.
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "async-sqlite"))]
pub(crate) fn probe<C>(conn: &mut C, fail: impl FnOnce(&mut C)) -> TransactionProbe
where
    C: Connection<TransactionManager = AnsiTransactionManager>,
{
    let status = AnsiTransactionManager::transaction_manager_status_mut(conn);
    let believed = match status {
        TransactionManagerStatus::InError => return TransactionProbe::Broken,
        TransactionManagerStatus::Valid(valid) => valid.in_transaction.take(),
    };
    let mut pretended = ValidTransactionManagerStatus::default();
    // Never an error: the depth is not decreased.
    let _ = pretended.change_transaction_depth(TransactionDepthChange::IncreaseDepth);
    *status = TransactionManagerStatus::Valid(pretended);

    fail(conn);

    let status = AnsiTransactionManager::transaction_manager_status_mut(conn);
    let found = match status {
        TransactionManagerStatus::InError => TransactionProbe::Broken,
        TransactionManagerStatus::Valid(valid) => match &valid.in_transaction {
            None => TransactionProbe::Idle,
            Some(open) if open.requires_rollback_maybe_up_to_top_level => TransactionProbe::Failed,
            Some(_) => TransactionProbe::Open,
        },
    };
    match found {
        TransactionProbe::Broken => {}
        TransactionProbe::Idle => *status = TransactionManagerStatus::default(),
        _ => {
            if let TransactionManagerStatus::Valid(valid) = status {
                valid.in_transaction = believed;
            }
            if found == TransactionProbe::Failed {
                status.set_requires_rollback_maybe_up_to_top_level(true);
            }
        }
    }
    found
}
