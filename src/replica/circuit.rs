//! The circuit of a node: after a failed connect, callers fail fast for a while instead of each
//! paying for the same attempt.
//!
//! States: closed (connect freely); open until an instant (fail with the kept cause); half-open
//! (one caller tries, the others still fail fast). The open time doubles from [`FIRST`] up to
//! [`LONGEST`], so a node that comes back is used again within [`LONGEST`] at worst.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::error::UnavailableCause;

const FIRST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(2);

/// What the last failed connect said.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) cause: UnavailableCause,
    pub(crate) message: Arc<str>,
}

#[derive(Debug, Default)]
pub(crate) struct Circuit {
    open: Option<Open>,
}

#[derive(Debug)]
struct Open {
    failure: Failure,
    until: Instant,
    pause: Duration,
    /// Somebody is trying right now.
    trying: bool,
}

/// What a caller who wants to connect is told.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// Go ahead, and report how it went.
    Try,
    /// Do not; this is why.
    FailFast(Failure),
}

impl Circuit {
    /// Asks whether to try a connect. After [`Verdict::Try`] the caller must call
    /// [`succeeded`](Self::succeeded) or [`failed`](Self::failed).
    pub(crate) fn ask(&mut self, now: Instant) -> Verdict {
        match &mut self.open {
            None => Verdict::Try,
            Some(open) if now >= open.until && !open.trying => {
                open.trying = true;
                Verdict::Try
            }
            Some(open) => Verdict::FailFast(open.failure.clone()),
        }
    }

    /// A connect succeeded: the circuit closes.
    pub(crate) fn succeeded(&mut self) {
        self.open = None;
    }

    /// A connect failed: the circuit opens, or stays open for longer.
    pub(crate) fn failed(&mut self, now: Instant, cause: UnavailableCause, message: &str) {
        let pause = match &self.open {
            Some(open) if open.trying => (open.pause * 2).min(LONGEST),
            Some(open) => open.pause,
            None => FIRST,
        };
        self.open = Some(Open {
            failure: Failure {
                cause,
                message: Arc::from(message),
            },
            until: now + pause,
            pause,
            trying: false,
        });
    }

    /// What keeps the circuit open, if it is.
    pub(crate) fn failure(&self) -> Option<&Failure> {
        self.open.as_ref().map(|open| &open.failure)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_try(verdict: &Verdict) -> bool {
        matches!(verdict, Verdict::Try)
    }

    #[test]
    fn one_caller_tries_when_the_pause_is_over_and_success_closes() {
        let start = Instant::now();
        let mut circuit = Circuit::default();
        assert!(is_try(&circuit.ask(start)));
        circuit.failed(start, UnavailableCause::Refused, "refused");

        assert!(matches!(
            circuit.ask(start + FIRST / 2),
            Verdict::FailFast(Failure {
                cause: UnavailableCause::Refused,
                ..
            })
        ));
        assert!(is_try(&circuit.ask(start + FIRST)));
        assert!(
            !is_try(&circuit.ask(start + FIRST)),
            "only one caller tries"
        );

        circuit.succeeded();
        assert!(is_try(&circuit.ask(start + FIRST)));
        assert!(circuit.failure().is_none());
    }

    #[test]
    fn the_pause_doubles_with_each_failed_trial_and_is_bounded() {
        let mut now = Instant::now();
        let mut circuit = Circuit::default();
        circuit.failed(now, UnavailableCause::Timeout, "silent");
        let mut pause = FIRST;
        for _ in 0..10 {
            assert!(!is_try(
                &circuit.ask(now + pause - Duration::from_millis(1))
            ));
            now += pause;
            assert!(is_try(&circuit.ask(now)));
            circuit.failed(now, UnavailableCause::Timeout, "silent");
            pause = (pause * 2).min(LONGEST);
        }
        assert!(is_try(&circuit.ask(now + LONGEST)));
    }

    #[test]
    fn parallel_failures_of_one_moment_do_not_lengthen_the_pause() {
        let now = Instant::now();
        let mut circuit = Circuit::default();
        for _ in 0..20 {
            circuit.failed(now, UnavailableCause::Refused, "refused");
        }
        assert!(is_try(&circuit.ask(now + FIRST)));
    }
}
