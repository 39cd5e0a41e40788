//! What an error says about a write, and what to call it in the table.

use diesel::result::{DatabaseErrorKind as Kind, Error as DieselError};
use diesel_sharded::{Error, UnavailableCause};

/// Whether an error at, or after, the commit means that nothing was committed.
pub(crate) fn says_not_there(error: &Error) -> bool {
    match error {
        Error::Database { source, .. } => match source {
            DieselError::DatabaseError(kind, information) => match kind {
                Kind::ClosedConnection | Kind::UnableToSendCommand => false,
                Kind::Unknown => {
                    let text = information.message().to_ascii_lowercase();
                    ["deadlock", "is locked", "lock timeout", "lock wait timeout"]
                        .iter()
                        .any(|words| text.contains(words))
                }
                _ => true,
            },
            _ => false,
        },
        // What the crate itself refuses or reports is said instead of a commit, or before.
        _ => true,
    }
}

/// Whether an error is one that no killing, stopping or reloading explains.
pub(crate) fn is_a_fault(error: &Error) -> bool {
    !matches!(
        error,
        Error::Unavailable { .. }
            | Error::PoolExhausted { .. }
            | Error::RolledBack { .. }
            | Error::ShardOffline { .. }
            | Error::ShardReadOnly { .. }
            | Error::UnknownShard { .. }
            | Error::Database { .. }
    )
}

/// A line of the table: one word for a kind of error, however its text differs.
pub(crate) fn name(error: &Error) -> String {
    match error {
        Error::Unavailable {
            cause: UnavailableCause::Other,
            source: Some(source),
            ..
        } => format!("Unavailable: other, {}", gist(&source.to_string())),
        Error::Unavailable { cause, .. } => format!("Unavailable: {}", cause.as_str()),
        Error::RolledBack { reason, .. } => format!("RolledBack: {reason:?}"),
        Error::Database { source, .. } => match source {
            DieselError::RollbackTransaction => "the closure's own error".to_owned(),
            DieselError::DatabaseError(Kind::Unknown, information) => {
                format!("database: {}", gist(information.message()))
            }
            DieselError::DatabaseError(kind, _) => format!("database: {kind:?}"),
            other => format!("database: {}", gist(&other.to_string())),
        },
        other => {
            let text = format!("{other:?}");
            let end = text.find([' ', '(']).unwrap_or(text.len());
            text[..end].to_owned()
        }
    }
}

/// The words of a text without its numbers, so that few different ones are left.
fn gist(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    let words: Vec<&str> = line
        .split_whitespace()
        .filter(|word| !word.contains(|c: char| c.is_ascii_digit()))
        .take(9)
        .collect();
    words.join(" ")
}
