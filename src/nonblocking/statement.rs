//! The futures of statements: checked where they are made and where they are first polled, noted where
//! they end.
//!
//! One type serves `execute` and `load`. It is our own and not a combinator, because a combinator
//! would name the lifetimes of the query in its type, and pipelined statements would no longer pass
//! the borrow checker.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};

use diesel::QueryResult;
use diesel::result::Error as DieselError;
use futures_util::Stream;
use pin_project_lite::pin_project;

use super::backend::StatementStart;
use super::first_poll::MadeUnder;
use super::flight::InFlight;
use crate::driver::{Flags, Noter};
use crate::topology::UrlKind;

pin_project! {
    /// The future of a statement that answers with a number of rows.
    #[must_use = "futures do nothing unless they are polled"]
    pub struct ExecuteFuture<'conn, F> {
        #[pin]
        state: Statement<'conn, F>,
    }
}

pin_project! {
    /// The future of a statement that answers with a stream of rows.
    #[must_use = "futures do nothing unless they are polled"]
    pub struct LoadFuture<'conn, F> {
        #[pin]
        state: Statement<'conn, F>,
    }
}

pin_project! {
    struct Statement<'conn, F> {
        // Until the first poll.
        made_under: Option<MadeUnder<'conn>>,
        #[pin]
        state: State<'conn, F>,
    }
}

pin_project! {
    #[project = StateProjection]
    enum State<'conn, F> {
        /// It may not run; nothing is sent.
        Refused { error: Option<DieselError> },
        /// What it runs is made by its first poll.
        Waiting { start: Option<(Start<'conn, F>, InFlight<'conn>)> },
        Running { #[pin] inner: F, flight: InFlight<'conn> },
    }
}

type Start<'conn, F> = Box<dyn FnOnce() -> F + Send + 'conn>;

/// A statement that may run, so far.
type Made<'conn, F> = (StatementStart<'conn, F>, InFlight<'conn>);

impl<'conn, F> Statement<'conn, F> {
    fn new(made_under: MadeUnder<'conn>, made: Result<Made<'conn, F>, DieselError>) -> Self {
        let state = match made {
            Ok((StatementStart::Made(inner), flight)) => State::Running { inner, flight },
            Ok((StatementStart::AtFirstPoll(start), flight)) => State::Waiting {
                start: Some((start, flight)),
            },
            Err(error) => State::Refused { error: Some(error) },
        };
        Self {
            made_under: Some(made_under),
            state,
        }
    }

    /// Looks once more whether the statement may run, and starts what has waited for that.
    fn first_poll(mut state: Pin<&mut State<'conn, F>>, made_under: &MadeUnder<'conn>) {
        let refusal = match state.as_mut().project() {
            StateProjection::Refused { error: Some(error) } => made_under.refused_again(error),
            _ => made_under.refusal(),
        };
        if let Some(error) = refusal {
            // The flight has not taken off: the connection is as it was.
            let error = Some(error.into());
            state.set(State::Refused { error });
            return;
        }
        if let StateProjection::Waiting { start } = state.as_mut().project()
            && let Some((start, mut flight)) = start.take()
        {
            flight.take_off();
            let inner = start();
            state.set(State::Running { inner, flight });
        }
    }

    /// Polls the statement to its end; also answers whose it was.
    fn poll_end<T>(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<QueryResult<(T, InFlight<'conn>)>>
    where
        F: Future<Output = QueryResult<T>>,
    {
        let mut this = self.project();
        if let Some(made_under) = this.made_under.take() {
            Self::first_poll(this.state.as_mut(), &made_under);
        }
        match this.state.project() {
            StateProjection::Refused { error } => Poll::Ready(Err(error
                .take()
                .unwrap_or(DieselError::BrokenTransactionManager))),
            StateProjection::Waiting { .. } => unreachable!("the first poll has started it"),
            StateProjection::Running { inner, flight } => {
                flight.take_off();
                let answer = ready!(inner.poll(context));
                Poll::Ready(match answer {
                    Ok(value) => Ok((value, flight.hand_over())),
                    Err(error) => {
                        flight.land();
                        Err(Noter(flight.notes()).failed(error))
                    }
                })
            }
        }
    }
}

impl<'conn, F> ExecuteFuture<'conn, F> {
    pub(super) fn new(
        made_under: MadeUnder<'conn>,
        made: Result<Made<'conn, F>, DieselError>,
    ) -> Self {
        Self {
            state: Statement::new(made_under, made),
        }
    }
}

impl<F> Future for ExecuteFuture<'_, F>
where
    F: Future<Output = QueryResult<usize>>,
{
    type Output = QueryResult<usize>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let ended = ready!(self.project().state.poll_end(context));
        Poll::Ready(ended.map(|(count, flight)| {
            flight.landed();
            count
        }))
    }
}

impl<'conn, F> LoadFuture<'conn, F> {
    pub(super) fn new(
        made_under: MadeUnder<'conn>,
        made: Result<Made<'conn, F>, DieselError>,
    ) -> Self {
        Self {
            state: Statement::new(made_under, made),
        }
    }
}

impl<'conn, F, S> Future for LoadFuture<'conn, F>
where
    F: Future<Output = QueryResult<S>>,
    S: Stream,
{
    type Output = QueryResult<ShardedStream<'conn, S>>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let ended = ready!(self.project().state.poll_end(context));
        Poll::Ready(ended.map(|(rows, flight)| {
            let notes = flight.notes();
            flight.landed();
            ShardedStream {
                rows: Some(rows),
                noter: Noter(notes),
            }
        }))
    }
}

pin_project! {
    /// The rows of a query, as the inner connection gives them; an error among them is taken note of.
    #[must_use = "streams do nothing unless they are polled"]
    pub struct ShardedStream<'conn, S: Stream> {
        // Empty once it has ended.
        #[pin]
        rows: Option<S>,
        noter: Noter<'conn>,
    }

    impl<S: Stream> PinnedDrop for ShardedStream<'_, S> {
        fn drop(this: Pin<&mut Self>) {
            let mut this = this.project();
            let notes = this.noter.0;
            // Left before its end, as after `get_result`. On PostgreSQL an error in what was not read
            // spoils the transaction; mostly the end is here already, and then it is known.
            if notes.kind == UrlKind::Postgres
                && let Some(rows) = this.rows.as_mut().as_pin_mut()
            {
                let next = rows.poll_next(&mut Context::from_waker(Waker::noop()));
                if !matches!(next, Poll::Ready(None)) {
                    notes.flags.set(Flags::UNPROBED);
                }
            }
        }
    }
}

impl<S, T> Stream for ShardedStream<'_, S>
where
    S: Stream<Item = QueryResult<T>>,
{
    type Item = QueryResult<T>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let mut this = self.project();
        let Some(rows) = this.rows.as_mut().as_pin_mut() else {
            return Poll::Ready(None);
        };
        let next = ready!(rows.poll_next(context));
        Poll::Ready(match next {
            Some(Ok(row)) => Some(Ok(row)),
            Some(Err(error)) => Some(Err(this.noter.failed(error))),
            None => {
                this.rows.set(None);
                None
            }
        })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.rows.as_ref().map_or((0, Some(0)), Stream::size_hint)
    }
}

impl<F> fmt::Debug for ExecuteFuture<'_, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExecuteFuture").finish_non_exhaustive()
    }
}

impl<F> fmt::Debug for LoadFuture<'_, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoadFuture").finish_non_exhaustive()
    }
}

impl<S: Stream> fmt::Debug for ShardedStream<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ShardedStream").finish_non_exhaustive()
    }
}
