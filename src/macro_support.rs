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
