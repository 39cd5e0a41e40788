//! What the driver needs to know of each connection type: one small trait, one file per backend.

#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
mod identity;
mod multi;
#[cfg(feature = "mysql")]
mod mysql;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
mod scan;
mod server;
#[cfg(feature = "sqlite")]
mod sqlite;

use std::any::Any;

use diesel::backend::Backend;
use diesel::connection::LoadConnection;
use diesel::migration::MigrationConnection;
use diesel::query_builder::QueryFragment;
use diesel::r2d2::R2D2Connection;
use diesel::{ConnectionResult, QueryResult};

use crate::driver::verify::ScannedKey;
use crate::driver::{BindValue, IdentityRow, QueryText, TransactionProbe};
use crate::topology::UrlKind;

pub use server::ServerInfo;

/// A Diesel connection type that can be the physical connection of a node.
///
/// Implemented for [`PgConnection`](diesel::PgConnection),
/// [`MysqlConnection`](diesel::MysqlConnection) and
/// [`SqliteConnection`](diesel::SqliteConnection) behind their features, and by
/// [`sharded_multi_connection!`](crate::sharded_multi_connection) for enums with
/// `#[derive(diesel::MultiConnection)]`.
pub trait NodeConnection: R2D2Connection + LoadConnection + MigrationConnection + 'static {
    /// Whether this type can connect to URLs of this kind.
    fn accepts(kind: UrlKind) -> bool;

    /// Connects. Called once per physical connection; may block as long as the driver does.
    ///
    /// # Errors
    ///
    /// What the driver says.
    fn connect(kind: UrlKind, url: &str) -> ConnectionResult<Self>;

    /// The backend behind this connection.
    fn kind(&self) -> UrlKind;

    /// Starts a transaction with this statement, so that Diesel knows of it.
    ///
    /// # Errors
    ///
    /// What the driver says, and `AlreadyInTransaction` where Diesel knows of an open one.
    fn begin_with(&mut self, sql: &str) -> QueryResult<()>;

    /// Asks the client library whether a transaction is open, without a round trip.
    ///
    /// Diesel's own bookkeeping is corrected where it believed in a transaction that is gone.
    fn probe(&mut self) -> TransactionProbe;

    /// Takes back what a user may have set in the session: settings, role, locks, temporary tables.
    /// `dirty`: something ran that the crate has not seen through.
    ///
    /// `Ok(false)`: that cannot be done on this backend, close the connection.
    ///
    /// # Errors
    ///
    /// What the driver says; the connection is closed then too.
    fn reset_session(&mut self, dirty: bool) -> QueryResult<bool>;

    /// Asks the server what it is, and which of its databases this is.
    ///
    /// # Errors
    ///
    /// What the driver says.
    fn server(&mut self) -> QueryResult<ServerInfo>;

    /// Asks the session whether it reads texts by its backend's default settings; answers what differs and
    /// what is to be done. Asked on shards with sharded tables only.
    ///
    /// # Errors
    ///
    /// What the driver says.
    fn unfit_settings(&mut self) -> QueryResult<Option<String>>;

    /// Reads `diesel_sharded_identity`; no rows where there is no such table.
    ///
    /// # Errors
    ///
    /// What the driver says.
    fn read_identity(&mut self) -> QueryResult<Vec<IdentityRow>>;

    /// Writes rows of `diesel_sharded_identity`, each in place of one that is there; makes the table
    /// where it is missing.
    ///
    /// # Errors
    ///
    /// What the driver says.
    fn write_identity(&mut self, rows: &[IdentityRow]) -> QueryResult<()>;

    /// Runs a query of one column and hands each row's key on as it arrives: as a number, or as text.
    /// For [`verify`](crate::blocking::verify).
    ///
    /// # Errors
    ///
    /// What the driver says.
    fn scan_keys(
        &mut self,
        sql: &str,
        numbers: bool,
        each: &mut dyn FnMut(ScannedKey<'_>),
    ) -> QueryResult<()>;

    /// The text of a query.
    ///
    /// # Errors
    ///
    /// What Diesel says of a query that has none.
    fn text_of<T>(&self, query: &T) -> QueryResult<QueryText>
    where
        T: QueryFragment<Self::Backend>;

    /// The values that a query binds, in their order.
    ///
    /// # Errors
    ///
    /// What Diesel says of a value that cannot be sent.
    fn binds_of<T>(&mut self, query: &T) -> QueryResult<Vec<BindValue>>
    where
        T: QueryFragment<Self::Backend>;

    /// Reads the values that Diesel has collected for this backend.
    fn read_binds(collector: &<Self::Backend as Backend>::BindCollector<'_>) -> Vec<BindValue>;

    /// Hands what Diesel looks types up with to a function; for
    /// [`sharded_multi_connection!`](crate::sharded_multi_connection).
    ///
    /// # Errors
    ///
    /// Those of the function.
    fn with_lookup(
        &mut self,
        f: &mut dyn FnMut(&mut dyn Any) -> QueryResult<()>,
    ) -> QueryResult<()>;
}
