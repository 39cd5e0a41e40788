//! Rows that know their own shard key.

use super::ShardKey;
#[cfg(any(feature = "r2d2", feature = "bb8"))]
use crate::error::Error;
#[cfg(any(feature = "r2d2", feature = "bb8"))]
use crate::name::KeyspaceName;

/// A value that says which keyspace it lives in and what its shard key is.
///
/// `#[derive(ShardKey)]` (feature `macros`) implements it from attributes; by hand it is two lines.
/// [`Keyspace::route_of`](crate::blocking::Keyspace::route_of) and
/// [`Keyspace::group_rows`](crate::blocking::Keyspace::group_rows) take such values, so that the
/// key is named once, at the struct, and not at each call.
///
/// ```
/// use diesel_sharded::{HasShardKey, ShardKey, ToShardKey};
///
/// struct Order {
///     user_id: i64,
/// }
///
/// impl HasShardKey for Order {
///     const KEYSPACE: &'static str = "orders";
///
///     fn shard_key(&self) -> ShardKey<'_> {
///         self.user_id.to_shard_key()
///     }
/// }
///
/// assert_eq!(Order { user_id: 7 }.shard_key(), 7.to_shard_key());
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not say which keyspace it lives in, and by which key",
    label = "has no shard key",
    note = "`#[derive(ShardKey)]` with `#[sharded(keyspace = \"..\")]` and `#[shard_key]` on a field implements it"
)]
pub trait HasShardKey {
    /// The name of the keyspace that the value lives in.
    const KEYSPACE: &'static str;

    /// The key that decides where the value lives; [`ShardKey::Null`] where it has none.
    fn shard_key(&self) -> ShardKey<'_>;
}

impl<T: HasShardKey + ?Sized> HasShardKey for &T {
    const KEYSPACE: &'static str = T::KEYSPACE;

    fn shard_key(&self) -> ShardKey<'_> {
        (**self).shard_key()
    }
}

#[cfg(any(feature = "r2d2", feature = "bb8"))]
/// A value asked of another keyspace than its own would be placed by the wrong rule.
pub(crate) fn check_keyspace<V: HasShardKey + ?Sized>(asked: KeyspaceName) -> Result<(), Error> {
    if asked == V::KEYSPACE {
        Ok(())
    } else {
        Err(Error::WrongKeyspace {
            asked,
            own: V::KEYSPACE,
        })
    }
}

/// A connection that inserts a row only where the row belongs; what the method `insert_checked` of
/// `#[derive(ShardKey)]` calls.
///
/// It is implemented for the connections of both drivers, for every row that Diesel can insert by
/// reference.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot insert `{R}` into this table",
    label = "is no sharded connection, or the row is not `Insertable` here",
    note = "`insert_checked` takes `&mut ShardedConnection<..>` or `&mut AsyncShardedConnection<..>`, and the row needs `#[derive(Insertable)]` with a `table_name`"
)]
pub trait InsertChecked<T, R> {
    /// What an insert gives: a `QueryResult<usize>`, or a future of one.
    type Inserted<'call>
    where
        Self: 'call,
        R: 'call;

    /// Inserts the row if this connection's shard owns its key; else nothing is sent, and the error
    /// is [`Error::WrongShard`](crate::Error::WrongShard) in Diesel's.
    fn insert_checked<'call>(&'call mut self, table: T, row: &'call R) -> Self::Inserted<'call>;
}
