//! What the expansions of the attributes call. Not part of the public API.

use crate::error::Error;
use crate::route::Route;

/// What a function under `#[routed]` or `#[sharded_transaction]` has to return.
#[diagnostic::on_unimplemented(
    message = "the function must return a `Result` whose error is `From<diesel::result::Error>`, not `{Self}`",
    label = "where the work must not go, the error has to go somewhere",
    note = "`diesel::QueryResult<T>`, `Result<T, diesel_sharded::Error>` and `Result<T, Box<dyn Error + Send + Sync>>` are such types"
)]
pub trait Fallible {
    /// The function's answer where its body may not run.
    fn refused(error: Error) -> Self;
}

impl<T, E: From<diesel::result::Error>> Fallible for Result<T, E> {
    fn refused(error: Error) -> Self {
        Err(into_caller(error))
    }
}

/// Is only named, never called.
pub fn returns<R: Fallible>() {}

/// Our error as the error of the function.
#[must_use]
pub fn into_caller<E: From<diesel::result::Error>>(error: Error) -> E {
    crate::route::into_caller(error)
}

/// Runs the body of an async function under its route.
///
/// The future is `Send` where the body is.
pub async fn in_route<R: Fallible, F: Future<Output = R>>(route: Route, body: F) -> R {
    route.run_future(body).await.unwrap_or_else(R::refused)
}

/// An argument for one run of a body that may run again.
pub fn for_this_run<T: Again>(argument: &T) -> T {
    argument.again()
}

/// What can be given to each run anew.
#[diagnostic::on_unimplemented(
    message = "with `retries` the body may run several times, and it consumes an argument that cannot be cloned for each run",
    label = "`{Self}` is not `Clone`",
    note = "implement `Clone` for it, or let the body only look at it: behind a `&`, as in `&order`, `&order.lines` or `(&order).total()`"
)]
pub trait Again {
    /// Another one.
    #[must_use]
    fn again(&self) -> Self;
}

#[diagnostic::do_not_recommend]
impl<T: Clone> Again for T {
    fn again(&self) -> Self {
        self.clone()
    }
}

/// What `keyspace` is in a function that is not `async`.
#[diagnostic::on_unimplemented(
    message = "`keyspace = ..` takes a `diesel_sharded::blocking::Keyspace` here",
    label = "this is `{Self}`",
    note = "an `async fn` takes the keyspace or manager of the nonblocking driver, any other function that of the blocking one",
    note = "a keyspace goes with a key (`keyspace = .., key = ..`), a manager with a shard's name (`shards = .., shard = ..`)"
)]
pub trait BlockingKeyspace {}

#[cfg(feature = "r2d2")]
impl<C: crate::blocking::NodeConnection> BlockingKeyspace for crate::blocking::Keyspace<C> {}

/// Asks whether it is one.
#[inline]
pub fn blocking_keyspace<P: BlockingKeyspace>(place: &P) -> &P {
    place
}

/// What `keyspace` is in an `async fn`.
#[diagnostic::on_unimplemented(
    message = "`keyspace = ..` takes a `diesel_sharded::nonblocking::Keyspace` here",
    label = "this is `{Self}`",
    note = "an `async fn` takes the keyspace or manager of the nonblocking driver, any other function that of the blocking one",
    note = "a keyspace goes with a key (`keyspace = .., key = ..`), a manager with a shard's name (`shards = .., shard = ..`)"
)]
pub trait NonblockingKeyspace {}

#[cfg(feature = "bb8")]
impl<C: crate::nonblocking::AsyncNodeConnection> NonblockingKeyspace
    for crate::nonblocking::Keyspace<C>
{
}

/// Asks whether it is one.
#[inline]
pub fn nonblocking_keyspace<P: NonblockingKeyspace>(place: &P) -> &P {
    place
}

/// What `shards` is where a transaction blocks.
#[diagnostic::on_unimplemented(
    message = "`shards = ..` takes a `ShardedConnectionManager` here",
    label = "this is `{Self}`",
    note = "an `async fn` takes the keyspace or manager of the nonblocking driver, any other function that of the blocking one",
    note = "a keyspace goes with a key (`keyspace = .., key = ..`), a manager with a shard's name (`shards = .., shard = ..`)"
)]
pub trait BlockingManager {}

#[cfg(feature = "r2d2")]
impl<C: crate::blocking::NodeConnection> BlockingManager
    for crate::blocking::ShardedConnectionManager<C>
{
}

/// Asks whether it is one.
#[inline]
pub fn blocking_manager<P: BlockingManager>(place: &P) -> &P {
    place
}

/// What `shards` is where a transaction is awaited.
#[diagnostic::on_unimplemented(
    message = "`shards = ..` takes an `AsyncShardedConnectionManager` here",
    label = "this is `{Self}`",
    note = "an `async fn` takes the keyspace or manager of the nonblocking driver, any other function that of the blocking one",
    note = "a keyspace goes with a key (`keyspace = .., key = ..`), a manager with a shard's name (`shards = .., shard = ..`)"
)]
pub trait NonblockingManager {}

#[cfg(feature = "bb8")]
impl<C: crate::nonblocking::AsyncNodeConnection> NonblockingManager
    for crate::nonblocking::AsyncShardedConnectionManager<C>
{
}

/// Asks whether it is one.
#[inline]
pub fn nonblocking_manager<P: NonblockingManager>(place: &P) -> &P {
    place
}

/// What `shards` is where only a route is made.
#[diagnostic::on_unimplemented(
    message = "`shards = ..` takes a manager, a `ShardedConnectionManager` or an `AsyncShardedConnectionManager`",
    label = "this is `{Self}`",
    note = "an `async fn` takes the keyspace or manager of the nonblocking driver, any other function that of the blocking one",
    note = "a keyspace goes with a key (`keyspace = .., key = ..`), a manager with a shard's name (`shards = .., shard = ..`)"
)]
pub trait AnyManager {}

#[cfg(feature = "r2d2")]
impl<C: crate::blocking::NodeConnection> AnyManager
    for crate::blocking::ShardedConnectionManager<C>
{
}

#[cfg(feature = "bb8")]
impl<C: crate::nonblocking::AsyncNodeConnection> AnyManager
    for crate::nonblocking::AsyncShardedConnectionManager<C>
{
}

/// Asks whether it is one.
#[inline]
pub fn any_manager<P: AnyManager>(place: &P) -> &P {
    place
}

/// What the attributes call on what stands behind `keyspace` and `shards`: found through references
/// and smart pointers, it gives the thing itself.
#[cfg(any(feature = "r2d2", feature = "bb8"))]
macro_rules! place_of {
    ($type:ident: $bound:ident in $module:ident) => {
        impl<C: crate::$module::$bound> crate::$module::$type<C> {
            #[doc(hidden)]
            #[inline]
            pub fn __keyspace_or_manager(&self) -> &Self {
                self
            }
        }
    };
}

#[cfg(feature = "r2d2")]
place_of!(Keyspace: NodeConnection in blocking);
#[cfg(feature = "r2d2")]
place_of!(ShardedConnectionManager: NodeConnection in blocking);
#[cfg(feature = "bb8")]
place_of!(Keyspace: AsyncNodeConnection in nonblocking);
#[cfg(feature = "bb8")]
place_of!(AsyncShardedConnectionManager: AsyncNodeConnection in nonblocking);
