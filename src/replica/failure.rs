//! What a driver's error means for the connection and its node.
//!
//! Diesel shows no SQLSTATE. Where it has an error kind, the kind decides; elsewhere the servers'
//! English texts do, and what they do not settle is treated as unknown, which is the careful side:
//! the connection is checked before it is used again.

use diesel::result::{DatabaseErrorKind, Error as DieselError};

use crate::error::UnavailableCause;

/// What a failed statement says about its connection.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct StatementFailure {
    /// The connection is lost: close it, and check the others of its node.
    pub(crate) connection_lost: bool,
    /// The server has rolled the whole transaction back by itself.
    pub(crate) transaction_lost: bool,
    /// The node takes no writes (any more).
    pub(crate) read_only: bool,
    /// The session has lost something that the client still counts on: close it when it comes back.
    pub(crate) unusable: bool,
    /// The same transaction may succeed when it is run again from its start.
    pub(crate) retryable: bool,
}

const LOST: [&str; 17] = [
    "server closed the connection",
    "terminating connection",
    "connection to server was lost",
    "no connection to the server",
    "could not receive data from server",
    "could not send data to server",
    "ssl connection has been closed",
    "server has gone away",
    "lost connection to",
    "connection was killed",
    "server shutdown in progress",
    "broken pipe",
    // tokio-postgres, mysql_async, and diesel-async about the task that talks to the server.
    "connection closed",
    "error communicating with the server",
    "connection to the server is closed",
    "input/output error",
    "channel closed",
];

/// Texts of MySQL 1290 and 1836, MariaDB's and PostgreSQL's words for the same.
const READ_ONLY: [&str; 6] = [
    "in a read only transaction",
    "attempt to write a readonly database",
    "--read-only option",
    "--super-read-only option",
    "running in read-only mode",
    "in a read-only transaction",
];

/// Deadlocks and conflicts that have no kind of their own: PostgreSQL 40P01, SQLite's `BUSY`.
const RETRYABLE: [&str; 3] = [
    "deadlock detected",
    "database is locked",
    "database table is locked",
];

/// MySQL 1213. Its prepared statements carry the kind, its text protocol only the text.
const MYSQL_DEADLOCK: &str = "deadlock found when trying to get lock";

/// Reads the error of a statement.
pub(crate) fn statement_failure(is_mysql: bool, error: &DieselError) -> StatementFailure {
    let mut failure = StatementFailure::default();
    match error {
        DieselError::DatabaseError(kind, information) => match kind {
            DatabaseErrorKind::ClosedConnection => failure.connection_lost = true,
            DatabaseErrorKind::ReadOnlyTransaction => failure.read_only = true,
            DatabaseErrorKind::SerializationFailure => {
                failure.transaction_lost = is_mysql;
                failure.retryable = true;
            }
            // The second is what diesel-async calls all that comes without a code of the server's.
            DatabaseErrorKind::Unknown | DatabaseErrorKind::UnableToSendCommand => {
                let text = information.message().to_ascii_lowercase();
                failure.connection_lost = LOST.iter().any(|words| text.contains(words));
                failure.read_only = READ_ONLY.iter().any(|words| text.contains(words));
                failure.transaction_lost = is_mysql && text.contains(MYSQL_DEADLOCK);
                failure.unusable =
                    text.contains("prepared statement \"") && text.contains("does not exist");
                failure.retryable =
                    failure.transaction_lost || RETRYABLE.iter().any(|words| text.contains(words));
            }
            _ => {}
        },
        DieselError::BrokenTransactionManager => failure.connection_lost = true,
        DieselError::RollbackErrorOnCommit {
            rollback_error,
            commit_error,
        } => {
            let (first, second) = (
                statement_failure(is_mysql, commit_error),
                statement_failure(is_mysql, rollback_error),
            );
            failure.connection_lost = first.connection_lost || second.connection_lost;
            failure.transaction_lost = first.transaction_lost || second.transaction_lost;
            failure.read_only = first.read_only || second.read_only;
            failure.retryable = first.retryable;
        }
        _ => {}
    }
    failure
}

const CONNECT: [(UnavailableCause, &[&str]); 6] = [
    (
        UnavailableCause::Authentication,
        &[
            "password authentication failed",
            "authentication failed",
            "no password supplied",
            "no pg_hba.conf entry",
            "requires a valid client certificate",
            "is not permitted to log in",
            "access denied",
            "is not allowed to connect to",
        ],
    ),
    (
        UnavailableCause::ServerFull,
        &[
            "too many connections",
            "too many clients",
            "remaining connection slots are reserved",
            "max_user_connections",
        ],
    ),
    (
        UnavailableCause::NotReady,
        &[
            "the database system is starting up",
            "the database system is shutting down",
            "the database system is not yet accepting connections",
            "the database system is in recovery mode",
            "server shutdown in progress",
            // It was there a moment ago: it stops, or somebody ends sessions.
            "server closed the connection",
            "terminating connection",
            "lost connection to",
            "server has gone away",
        ],
    ),
    (
        UnavailableCause::Refused,
        &[
            "connection refused",
            "(111)",
            // MariaDB's client says 115 ("in progress") where it had to wait for the refusal; a host
            // that does not answer at all is known by our own clock.
            "(115)",
            "(115 \"",
            "(111 \"connection refused\")",
        ],
    ),
    (
        UnavailableCause::Timeout,
        &["timeout expired", "timed out", "(110)", "(110 \""],
    ),
    (
        UnavailableCause::Unreachable,
        &[
            "could not translate host name",
            "failed to lookup address information",
            "unknown mysql server host",
            "unknown server host",
            "no route to host",
            "network is unreachable",
            "host is unreachable",
            "no such file or directory",
            "unable to open database file",
            "unable to open the database file",
            "(113)",
            "(2 \"no such file",
        ],
    ),
];

/// Whether encryption is all that the login lacks.
fn lacks_encryption(text: &str) -> bool {
    // `require_secure_transport` of MySQL and MariaDB.
    if text.contains("insecure transport") {
        return true;
    }
    // Where libpq has tried with encryption too (`prefer`), its text has both answers, and TLS would
    // not help.
    let unencrypted = text.matches(", no encryption").count() + text.matches(", ssl off").count();
    unencrypted > 0 && unencrypted >= text.matches("fatal:").count()
}

/// Sorts the text of a failed connect as an operator would.
pub(crate) fn connect_cause(text: &str) -> UnavailableCause {
    let text = text.to_ascii_lowercase();
    // PostgreSQL: `role "x" does not exist` is a wrong user, `database "x" does not exist` is not.
    if text.contains("role \"") && text.contains("does not exist") {
        return UnavailableCause::Authentication;
    }
    if lacks_encryption(&text) {
        return UnavailableCause::NotEncrypted;
    }
    CONNECT
        .iter()
        .find(|(_, words)| words.iter().any(|words| text.contains(words)))
        .map_or(UnavailableCause::Other, |(cause, _)| *cause)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connect_texts_are_told_apart() {
        use UnavailableCause as U;
        for (text, cause) in [
            (
                "connection to server at \"127.0.0.1\", port 1 failed: Connection refused",
                U::Refused,
            ),
            ("Can't connect to server on '127.0.0.1' (111)", U::Refused),
            ("Can't connect to server on '127.0.0.1' (115)", U::Refused),
            (
                "FATAL:  password authentication failed for user \"x\"",
                U::Authentication,
            ),
            ("FATAL:  role \"x\" does not exist", U::Authentication),
            (
                "FATAL:  no pg_hba.conf entry for host \"::1\", user \"x\", database \"x\", no encryption",
                U::NotEncrypted,
            ),
            (
                "FATAL:  no pg_hba.conf entry for host \"::1\", user \"x\", database \"x\", SSL off",
                U::NotEncrypted,
            ),
            (
                "FATAL:  no pg_hba.conf entry for host \"::1\", user \"x\", database \"x\", SSL encryption",
                U::Authentication,
            ),
            (
                "connection to server at \"db\" failed: FATAL:  password authentication failed for user \"x\"\n\
                 connection to server at \"db\" failed: FATAL:  no pg_hba.conf entry for host \"::1\", user \"x\", database \"x\", no encryption",
                U::Authentication,
            ),
            (
                "Connections using insecure transport are prohibited while --require_secure_transport=ON.",
                U::NotEncrypted,
            ),
            ("FATAL:  database \"x\" does not exist", U::Other),
            ("Access denied for user 'x'@'localhost'", U::Authentication),
            ("FATAL:  sorry, too many clients already", U::ServerFull),
            ("Too many connections", U::ServerFull),
            ("FATAL:  the database system is starting up", U::NotReady),
            (
                "could not translate host name \"no.such\" to address: Name or service not known",
                U::Unreachable,
            ),
            ("Unknown server host 'no.such' (-2)", U::Unreachable),
            ("timeout expired", U::Timeout),
            ("Unable to open the database file", U::Unreachable),
            ("something new", U::Other),
        ] {
            assert_eq!(connect_cause(text), cause, "{text}");
        }
    }

    fn database(kind: DatabaseErrorKind, text: &str) -> DieselError {
        DieselError::DatabaseError(kind, Box::new(text.to_owned()))
    }

    #[test]
    fn a_deadlock_ends_the_transaction_on_mysql_only() {
        let text = "Deadlock found when trying to get lock; try restarting transaction";
        for error in [
            database(DatabaseErrorKind::Unknown, text),
            database(DatabaseErrorKind::SerializationFailure, text),
        ] {
            assert!(statement_failure(true, &error).transaction_lost);
            assert!(!statement_failure(false, &error).transaction_lost);
        }
        let duplicate = database(DatabaseErrorKind::UniqueViolation, "Duplicate entry");
        assert_eq!(
            statement_failure(true, &duplicate),
            StatementFailure::default()
        );
    }

    #[test]
    fn a_statement_cache_emptied_on_the_server_alone_makes_a_session_unusable() {
        let text = "prepared statement \"__diesel_stmt_0\" does not exist";
        let failure = statement_failure(false, &database(DatabaseErrorKind::Unknown, text));
        assert!(failure.unusable && !failure.connection_lost);
    }

    #[test]
    fn lost_connections_and_read_only_nodes_are_recognised() {
        for error in [
            database(DatabaseErrorKind::ClosedConnection, ""),
            database(DatabaseErrorKind::Unknown, "MySQL server has gone away"),
            database(
                DatabaseErrorKind::Unknown,
                "Lost connection to server during query",
            ),
            database(
                DatabaseErrorKind::Unknown,
                "terminating connection due to administrator command",
            ),
            DieselError::BrokenTransactionManager,
        ] {
            assert!(
                statement_failure(false, &error).connection_lost,
                "{error:?}"
            );
        }
        for error in [
            database(DatabaseErrorKind::ReadOnlyTransaction, ""),
            database(
                DatabaseErrorKind::Unknown,
                "Cannot execute statement in a READ ONLY transaction",
            ),
            database(
                DatabaseErrorKind::Unknown,
                "The MariaDB server is running with the --read-only option so it cannot execute this statement",
            ),
        ] {
            assert!(statement_failure(true, &error).read_only, "{error:?}");
        }
    }
}
