//! The causes that an operator tells apart.

use std::fmt;

/// Why a transaction was rolled back.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum RollbackReason {
    /// A statement failed, its error was swallowed, and the server refuses to commit what is left.
    FailedStatement,
    /// The server ended the transaction by itself, for example to break a deadlock.
    EndedByServer,
    /// A `COMMIT` or `ROLLBACK` written by hand ended the transaction before its scope. What ran before
    /// it may be committed: do not simply run the transaction again.
    EndedByHand,
    /// The connection was lost.
    ConnectionLost,
    /// The closure left a transaction open that it had begun by hand, or ended one that was not its
    /// own.
    Unbalanced,
    /// A future inside it was dropped half-way (a timeout, a `select!`): that of a transaction, or on
    /// MySQL that of a statement.
    Cancelled,
}

impl fmt::Display for RollbackReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::FailedStatement => {
                "was rolled back: a statement in it had failed, and the server does not commit what is left; let the error out of the closure, or wrap the statement in a savepoint"
            }
            Self::EndedByServer => {
                "was rolled back: the server ended it after an error, nothing more was sent; run the whole transaction again"
            }
            Self::EndedByHand => {
                "is over: a COMMIT or ROLLBACK written by hand ended it before its scope, nothing more was sent (what ran before may be committed)"
            }
            Self::Unbalanced => {
                "was given up: its closure began or ended transactions by hand, and not in pairs"
            }
            Self::Cancelled => {
                "(if one was open) cannot go on: a future on the connection was dropped half-way, nothing more was sent; run the whole transaction again, or check out another connection"
            }
            Self::ConnectionLost => {
                "is gone: the connection was lost; run the whole transaction again"
            }
        })
    }
}

/// What means other tables than the route in force.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum TableMismatchCause {
    /// The statement: the nonblocking driver makes it where it is called, and there another route was in
    /// force than where its future was first polled.
    Statement,
    /// The connection: it was checked out for a key (`keyspace.get(&key)`), and a route to another key
    /// was entered since.
    Connection,
}

impl fmt::Display for TableMismatchCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Statement => {
                "it was made under another route than the one it was first polled under, nothing was sent; make it within, `async { query.load(&mut conn).await }.with_route(route)`, and check out a handle of an outer pool there too"
            }
            Self::Connection => {
                "its connection was checked out for another key (`keyspace.get(&key)`) than that of the route entered since, nothing was sent; check out within the route, or leave it"
            }
        })
    }
}

/// Why a node could not be used, as an operator tells the cases apart.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Hash)]
#[non_exhaustive]
pub enum UnavailableCause {
    /// No such host, no route to it, or no such socket or file.
    Unreachable,
    /// The host answers, but nothing listens there.
    Refused,
    /// The server does not let this login in: the user, the password, or its own access rules
    /// (`pg_hba.conf`) say no.
    Authentication,
    /// The server does not let this login in without encryption; with it, it might.
    NotEncrypted,
    /// The host accepted and said nothing within `connect_timeout`.
    Timeout,
    /// The server has no free connection slot (`too many connections`).
    ServerFull,
    /// The server refuses connections for now: starting up, shutting down, or recovering.
    NotReady,
    /// A setting of its sessions or of its server is not one that statements over sharded tables can be
    /// sent under; the source names it and says what to set.
    Settings,
    /// The server answered, but not as wanted (no such database, TLS refused, set-up failed ..).
    Other,
}

impl UnavailableCause {
    /// A short, stable word for metrics and logs.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unreachable => "unreachable",
            Self::Refused => "refused",
            Self::Authentication => "authentication",
            Self::NotEncrypted => "not encrypted",
            Self::Timeout => "timeout",
            Self::ServerFull => "server full",
            Self::NotReady => "not ready",
            Self::Settings => "settings",
            Self::Other => "other",
        }
    }
}

impl serde::Serialize for UnavailableCause {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl fmt::Display for UnavailableCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unreachable => "the host or file cannot be reached",
            Self::Refused => "connection refused",
            Self::Authentication => {
                "the server refuses the login: check the user, the password and the server's access rules"
            }
            Self::NotEncrypted => {
                "the server refuses the login without encryption: ask for TLS (PostgreSQL: `sslmode=require` in the url), or check the server's access rules"
            }
            Self::Timeout => "no answer within the connect timeout",
            Self::ServerFull => "the server has no free connection slot",
            Self::NotReady => "the server is not accepting connections at the moment",
            Self::Settings => {
                "a setting there is not one that statements over sharded tables can be sent under"
            }
            Self::Other => "connecting failed",
        })
    }
}
