//! What an async closure must be so that the future around it is `Send`.
//!
//! `AsyncFnOnce` alone cannot say that the closure's future is `Send`, and a bound on a named future
//! type cannot say that it may borrow the closure's argument. These traits say both. They are
//! implemented by every async closure; nobody implements or names them.

use std::future::Future;

/// An async closure with one argument, whose future has a name.
///
/// Written as a bound next to `AsyncFnOnce`: `SendAsyncFn<&mut Conn, R, Fut: Send>`.
#[diagnostic::on_unimplemented(
    message = "an async closure is wanted here",
    label = "write `async |conn| {{ .. }}`",
    note = "its future must be `Send`: no `Rc`, no route guard and no lock guard may live across an `.await` in it"
)]
pub trait SendAsyncFn<T, R>:
    AsyncFnOnce(T) -> R + FnOnce(T) -> <Self as SendAsyncFn<T, R>>::Fut
{
    /// The closure's future.
    type Fut: Future<Output = R>;
}

impl<F, T, Fut, R> SendAsyncFn<T, R> for F
where
    F: AsyncFnOnce(T) -> R + FnOnce(T) -> Fut,
    Fut: Future<Output = R>,
{
    type Fut = Fut;
}

/// The same for an async closure with two arguments.
#[diagnostic::on_unimplemented(
    message = "an async closure is wanted here",
    label = "write `async |conn, place| {{ .. }}`",
    note = "its future must be `Send`: no `Rc`, no route guard and no lock guard may live across an `.await` in it"
)]
pub trait SendAsyncFn2<T, U, R>:
    AsyncFnOnce(T, U) -> R + FnOnce(T, U) -> <Self as SendAsyncFn2<T, U, R>>::Fut
{
    /// The closure's future.
    type Fut: Future<Output = R>;
}

impl<F, T, U, Fut, R> SendAsyncFn2<T, U, R> for F
where
    F: AsyncFnOnce(T, U) -> R + FnOnce(T, U) -> Fut,
    Fut: Future<Output = R>,
{
    type Fut = Fut;
}

/// The same for an async closure without arguments.
#[diagnostic::on_unimplemented(
    message = "an async closure is wanted here",
    label = "write `async || {{ .. }}`",
    note = "its future must be `Send`: no `Rc`, no route guard and no lock guard may live across an `.await` in it"
)]
pub trait SendAsyncFn0<R>: AsyncFnOnce() -> R + FnOnce() -> <Self as SendAsyncFn0<R>>::Fut {
    /// The closure's future.
    type Fut: Future<Output = R>;
}

impl<F, Fut, R> SendAsyncFn0<R> for F
where
    F: AsyncFnOnce() -> R + FnOnce() -> Fut,
    Fut: Future<Output = R>,
{
    type Fut = Fut;
}
