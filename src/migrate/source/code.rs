//! Migrations written in Rust.

use crate::error::BoxError;
use crate::migrate::AnyConnection;

/// A migration written in Rust: it gets the connection of the shard that is being migrated.
///
/// While it runs, the thread is bound to its shard: a manager on the same topology that is asked for
/// a connection inside a migration in a transaction answers
/// [`AlreadyInTransaction`](crate::Error::AlreadyInTransaction), outside of one it gives a connection
/// of the same shard; another shard is [`PinnedElsewhere`](crate::Error::PinnedElsewhere) in both.
pub trait CodeMigration: Send + Sync {
    /// The version and a name, in the form of a folder's name: `2026-01-31-120000_fill_totals`.
    fn name(&self) -> &str;

    /// Applies it to one shard.
    ///
    /// # Errors
    ///
    /// Whatever went wrong; in a transaction it is rolled back then.
    fn run(&self, conn: &mut AnyConnection) -> Result<(), BoxError>;

    /// Takes it back on one shard. The default answers that there is no way back.
    ///
    /// # Errors
    ///
    /// Whatever went wrong; in a transaction it is rolled back then.
    fn revert(&self, conn: &mut AnyConnection) -> Result<(), BoxError> {
        let _ = conn;
        Err("this migration has no way back".into())
    }

    /// Whether [`revert`](Self::revert) does something. Defaults to `false`.
    fn is_revertible(&self) -> bool {
        false
    }

    /// Whether it runs in one transaction with its entry in the version table. Defaults to `true`;
    /// on MySQL, a statement that changes the schema commits by itself all the same.
    fn run_in_transaction(&self) -> bool {
        true
    }
}
