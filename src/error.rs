//! The one error type of the crate, and how it travels through Diesel's.

mod cause;
mod config;
mod display;
mod through_diesel;

use std::error::Error as StdError;
use std::time::Duration;

use crate::name::{KeyspaceName, Role, ShardName, WorkloadName};

pub use cause::{RollbackReason, TableMismatchCause, UnavailableCause};
pub use config::{ConfigErrors, ConfigProblem};
use display::{Covered, DidYouMean, Held, Millis, Names, OnShard, WayOut};

/// Everything this crate can refuse or report.
///
/// Each variant names the shard it is about where one is known, and keeps its cause in
/// [`source`](StdError::source). An error that a database raised for a statement is not one of
/// these: it passes through as Diesel's own, so that matches on
/// [`UniqueViolation`](diesel::result::DatabaseErrorKind::UniqueViolation) keep working.
///
/// # Through Diesel and back
///
/// Diesel's traits answer with [`diesel::result::Error`]. An `Error` converts into it with `?` and
/// converts back losslessly; [`Error::find`] digs it out of any error chain.
///
/// ```
/// use diesel_sharded::Error;
///
/// fn in_diesel() -> diesel::QueryResult<()> {
///     Err(Error::NoRoute { known: vec![] })?
/// }
///
/// let error = in_diesel().unwrap_err();
/// assert!(matches!(Error::find(&error), Some(Error::NoRoute { .. })));
/// assert!(matches!(Error::from(error), Error::NoRoute { .. }));
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A checkout found no route on the stack, and the configuration names no default shard.
    #[error(
        "no route is in force and no default shard is configured: run inside `on(shard, ..)`, or use `get_on(shard)` (shards: {})",
        Names(known)
    )]
    NoRoute {
        /// The shards that exist.
        known: Vec<ShardName>,
    },

    /// The topology has no shard of this name.
    #[error(
        "unknown shard {shard:?}{} (shards: {})",
        DidYouMean(nearest),
        Names(known)
    )]
    UnknownShard {
        /// What was asked for, as it was given.
        shard: String,
        /// The shards that exist.
        known: Vec<ShardName>,
        /// The name that looks most like what was asked for.
        nearest: Option<ShardName>,
    },

    /// The topology has no keyspace of this name.
    #[error(
        "unknown keyspace {keyspace:?}{} (keyspaces: {})",
        DidYouMean(nearest),
        Names(known)
    )]
    UnknownKeyspace {
        /// What was asked for, as it was given.
        keyspace: String,
        /// The keyspaces that exist.
        known: Vec<KeyspaceName>,
        /// The name that looks most like what was asked for.
        nearest: Option<KeyspaceName>,
    },

    /// A value that lives in one keyspace was asked of another.
    #[error(
        "the value lives in keyspace {own}, and keyspace {asked} was asked for it: ask its own, or correct its `#[sharded(keyspace = ..)]`"
    )]
    WrongKeyspace {
        /// The keyspace that was asked.
        asked: KeyspaceName,
        /// The keyspace that the value's type names.
        own: &'static str,
    },

    /// A connection of one shard was used while the route names another. Nothing was sent.
    #[error(
        "this connection belongs to shard {bound}, but the route in force names {routed}: nothing was sent; check out a connection inside the route, or leave the route first"
    )]
    RouteMismatch {
        /// The shard the connection was bound to at its checkout.
        bound: ShardName,
        /// The shard the topmost route names.
        routed: ShardName,
    },

    /// A route, checkout or transaction for another shard, inside `transaction_on`.
    #[error(
        "a transaction on shard {pinned} is open in this scope, so shard {wanted} is out of reach: finish it first, or say `independent(..)`"
    )]
    PinnedElsewhere {
        /// The shard of the open transaction.
        pinned: ShardName,
        /// The shard that was asked for.
        wanted: ShardName,
    },

    /// A second checkout or transaction for the shard whose transaction is open in this scope.
    #[error(
        "a transaction on shard {shard} is already open in this scope: use its connection (`conn.transaction(..)` opens a savepoint), or say `independent(..)`"
    )]
    AlreadyInTransaction {
        /// The shard of the open transaction.
        shard: ShardName,
    },

    /// The caller waits for a connection that only the caller itself can give back.
    #[error(
        "this scope itself holds all {size} connection(s) of the pool of shard {shard} ({role}): waiting would never end; raise `max_size` or finish the outer transaction first"
    )]
    WouldDeadlock {
        /// The shard whose pool is used up.
        shard: ShardName,
        /// The node of the shard.
        role: Role,
        /// The size of the pool.
        size: u32,
    },

    /// The transaction was rolled back although its closure said `Ok`, or is gone in the middle of
    /// its scope.
    #[error("the transaction on shard {shard} {reason}")]
    RolledBack {
        /// The shard of the transaction.
        shard: ShardName,
        /// What ended it.
        reason: RollbackReason,
        /// The error that ended it, where one is known.
        source: Option<BoxError>,
    },

    /// The shard key is missing (`NULL`, `None`).
    #[error(
        "the shard key of keyspace {keyspace} is null: a row without a key has no shard; give it one, or name a shard"
    )]
    NullShardKey {
        /// The keyspace that was asked.
        keyspace: KeyspaceName,
    },

    /// The shard key has another type than the keyspace declares.
    #[error("keyspace {keyspace} takes {expected} keys, not {found}")]
    KeyType {
        /// The keyspace that was asked.
        keyspace: KeyspaceName,
        /// The declared type.
        expected: &'static str,
        /// What was given, and what to do about it.
        found: &'static str,
    },

    /// No range, list or span of the keyspace's rule holds this key.
    #[error(
        "no shard of keyspace {keyspace} covers the key {key}{}",
        Covered(covered)
    )]
    NotCovered {
        /// The keyspace that was asked.
        keyspace: KeyspaceName,
        /// The key.
        key: String,
        /// What the rule covers, or why it does not cover the key, where there is more to say.
        covered: Option<String>,
    },

    /// A key that belongs to another shard than the connection.
    #[error(
        "the key belongs to shard {owner} of keyspace {keyspace}, but this connection is bound to {bound}"
    )]
    WrongShard {
        /// The keyspace of the key.
        keyspace: KeyspaceName,
        /// The shard that owns the key.
        owner: ShardName,
        /// The shard of the connection.
        bound: ShardName,
    },

    /// A statement names a sharded table, and the route in force does not say which of its physical
    /// tables is meant. Nothing was sent.
    #[error(
        "{table} of keyspace {keyspace} is split into several tables, and the route in force (shard {shard}) does not say which: run inside `on(&key, ..)`, `transaction_for(&key, ..)` or `on_table(..)` of the keyspace"
    )]
    NoTableRoute {
        /// The shard of the connection.
        shard: ShardName,
        /// The keyspace of the table.
        keyspace: KeyspaceName,
        /// The logical name of the table.
        table: String,
    },

    /// A statement gives the key column of a sharded table a value of another placement, or one whose
    /// placement cannot be known. Nothing was sent.
    #[error(
        "the statement sets {table}.{column}, the shard key, to something that does not provably stay in the table of the route (shard {shard}): the row could not be found again; delete it here and insert it under its new key"
    )]
    ShardKeyUpdate {
        /// The shard of the connection.
        shard: ShardName,
        /// The logical name of the table.
        table: String,
        /// Its key column.
        column: String,
    },

    /// A new row has a key that belongs to another table than the route means. Nothing was sent.
    #[error(
        "a new row of {table} has a key that belongs to {belongs} on shard {owner}, but the route means {routed} on shard {shard}: group rows by placement and insert each under its own key"
    )]
    WrongTable {
        /// The shard of the connection.
        shard: ShardName,
        /// The logical name of the table.
        table: String,
        /// The shard that the key belongs to.
        owner: ShardName,
        /// The physical table that the key belongs to.
        belongs: Box<str>,
        /// The physical table that the route means.
        routed: Box<str>,
    },

    /// A new row of a sharded table does not show its shard key, so it cannot be said which table it
    /// belongs to: the key column is not named, or given by an expression. Nothing was sent.
    #[error(
        "the shard key of a new row of {table} cannot be read off the statement (shard {shard}): under a route by key name the column {column} and give it a literal or a bind, or take it over from the key column of a table that is split alike; or go by number (`on_table(..)`)"
    )]
    UnreadableShardKey {
        /// The shard of the connection.
        shard: ShardName,
        /// The logical name of the table.
        table: String,
        /// Its key column.
        column: String,
    },

    /// A reload has changed how the keyspace is placed, or its tables, between the making of the route and
    /// the checkout of the connection: a table number of the one means another table to the other. Nothing
    /// was sent.
    #[error(
        "keyspace {keyspace} was changed by a reload between the making of the route and the checkout of the connection (shard {shard}): make the route anew, and check out another connection"
    )]
    StaleRoute {
        /// The shard of the connection.
        shard: ShardName,
        /// The keyspace.
        keyspace: KeyspaceName,
    },

    /// The route in force means other tables of a keyspace than the statement was made for, or than those
    /// of the key that the connection was checked out for. Nothing was sent.
    #[error(
        "the route in force means other tables of keyspace {keyspace} than a statement on shard {shard}: {cause}"
    )]
    TableMismatch {
        /// The shard of the connection.
        shard: ShardName,
        /// The keyspace of the tables.
        keyspace: KeyspaceName,
        /// What does not go together, and what to do.
        cause: TableMismatchCause,
    },

    /// A statement names two sharded tables whose numbers do not move together. Nothing was sent.
    #[error(
        "{one} and {other} are not split alike (same keyspace, same count), so rows of one key are not in tables of one number: they cannot be named in one statement (shard {shard})"
    )]
    UnboundTables {
        /// The shard of the connection.
        shard: ShardName,
        /// One logical name.
        one: String,
        /// Another.
        other: String,
    },

    /// It cannot be decided which names of a statement are those of a sharded table. Nothing was sent.
    #[error(
        "the table names of a statement on shard {shard} cannot be rewritten: {reason}{}",
        WayOut(.statement)
    )]
    Unrewritable {
        /// The shard of the connection.
        shard: ShardName,
        /// The beginning of the statement; empty where the raw connection was asked for.
        statement: String,
        /// What could not be decided.
        reason: String,
    },

    /// The keyspace has no physical tables of this number, or several kinds of them.
    #[error("keyspace {keyspace} has no table number {number}: {reason}")]
    UnknownTable {
        /// The keyspace.
        keyspace: KeyspaceName,
        /// The number that was asked for.
        number: u32,
        /// Which numbers there are.
        reason: String,
    },

    /// The node of a shard cannot be reached or refuses us.
    #[error("shard {shard} ({role}) is unavailable: {cause}")]
    Unavailable {
        /// The shard.
        shard: ShardName,
        /// The node of the shard.
        role: Role,
        /// What an operator would want to know first.
        cause: UnavailableCause,
        /// What the driver said.
        source: Option<BoxError>,
    },

    /// Every connection of the node was in use for the whole `connection_timeout`.
    #[error(
        "all {size} connection(s) to shard {shard} ({role}) were in use for {}{}: raise `max_size`, or hold connections for less time",
        Millis(*waited),
        Held(held)
    )]
    PoolExhausted {
        /// The shard.
        shard: ShardName,
        /// The node of the shard.
        role: Role,
        /// The size of the pool.
        size: u32,
        /// How long the caller waited.
        waited: Duration,
        /// The shards whose transactions the waiting scope itself has open.
        held: Vec<ShardName>,
    },

    /// The shard takes no work at the moment: its state is `offline`.
    #[error("shard {shard} is offline by configuration: try again later, or open it")]
    ShardOffline {
        /// The shard.
        shard: ShardName,
    },

    /// A write to a shard whose state is `read-only`.
    #[error("shard {shard} is read-only by configuration: the statement was refused")]
    ShardReadOnly {
        /// The shard.
        shard: ShardName,
        /// What the database said.
        source: Option<BoxError>,
    },

    /// The topology has no workload class of this name.
    #[error("unknown workload class {workload:?} (classes: {})", Names(known))]
    UnknownWorkload {
        /// What was asked for, as it was given.
        workload: String,
        /// The classes that exist.
        known: Vec<WorkloadName>,
    },

    /// The database behind a shard's URL says that it belongs to another shard.
    #[error(
        "the database configured for shard {expected} holds the data of {}: correct the url, nothing was done there",
        Names(found)
    )]
    WrongDatabase {
        /// The shard whose URL leads there.
        expected: ShardName,
        /// The shards that the database belongs to by its own word.
        found: Vec<String>,
    },

    /// The rule, map or tables of a keyspace are not those by which its data was placed.
    #[error(
        "keyspace {keyspace} places rows by {configured}, but{} its data was placed by {recorded}: restore the rule, or, once the data has been moved, accept the change by name",
        OnShard(shard)
    )]
    PlacementChanged {
        /// The keyspace.
        keyspace: KeyspaceName,
        /// The shard whose database says so; `None` when a reload would change the rule.
        shard: Option<ShardName>,
        /// The fingerprint of the rule in force or asked for.
        configured: String,
        /// The fingerprint the data was placed by.
        recorded: String,
    },

    /// The text form of a route could not be read.
    #[error("{text:?} is not a route: {reason}")]
    InvalidRoute {
        /// What was given.
        text: String,
        /// What is wrong with it.
        reason: &'static str,
    },

    /// The backend has no such kind of transaction.
    #[error("{backend} has no {what} transactions (shard {shard})")]
    Unsupported {
        /// The shard of the transaction.
        shard: ShardName,
        /// The backend.
        backend: &'static str,
        /// The option that does not exist there.
        what: &'static str,
    },

    /// Everything that is wrong with the configuration.
    #[error("{0}")]
    Config(ConfigErrors),

    /// A database error with the shard it came from.
    #[error("database error{}", OnShard(shard))]
    Database {
        /// The shard, where it is known.
        shard: Option<ShardName>,
        /// Diesel's error.
        source: diesel::result::Error,
    },
}

/// A cause of any type.
pub type BoxError = Box<dyn StdError + Send + Sync + 'static>;

impl Error {
    /// The shard this error is about, where one is known.
    #[must_use]
    pub fn shard(&self) -> Option<ShardName> {
        match self {
            Self::RouteMismatch { bound: shard, .. }
            | Self::PinnedElsewhere { wanted: shard, .. }
            | Self::AlreadyInTransaction { shard }
            | Self::WouldDeadlock { shard, .. }
            | Self::RolledBack { shard, .. }
            | Self::WrongShard { bound: shard, .. }
            | Self::Unavailable { shard, .. }
            | Self::PoolExhausted { shard, .. }
            | Self::ShardOffline { shard }
            | Self::NoTableRoute { shard, .. }
            | Self::ShardKeyUpdate { shard, .. }
            | Self::WrongTable { shard, .. }
            | Self::UnreadableShardKey { shard, .. }
            | Self::StaleRoute { shard, .. }
            | Self::TableMismatch { shard, .. }
            | Self::UnboundTables { shard, .. }
            | Self::Unrewritable { shard, .. }
            | Self::ShardReadOnly { shard, .. }
            | Self::WrongDatabase {
                expected: shard, ..
            }
            | Self::Unsupported { shard, .. } => Some(*shard),
            Self::Database { shard, .. } | Self::PlacementChanged { shard, .. } => *shard,
            Self::NoRoute { .. }
            | Self::UnknownShard { .. }
            | Self::UnknownKeyspace { .. }
            | Self::WrongKeyspace { .. }
            | Self::NullShardKey { .. }
            | Self::KeyType { .. }
            | Self::NotCovered { .. }
            | Self::InvalidRoute { .. }
            | Self::UnknownTable { .. }
            | Self::UnknownWorkload { .. }
            | Self::Config(_) => None,
        }
    }
}
