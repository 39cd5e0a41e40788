//! The circuit of a node: after a failed connect, callers fail fast instead of each paying for the
//! same attempt, and one probe in the background finds out when the node is back.
//!
//! States: closed (connect freely) and open (fail with the kept cause). Each failed probe doubles
//! the pause to the next, from [`FIRST`] up to [`LONGEST`]. Should no probe report for
//! [`OVERDUE`] after its time, callers may try themselves, one per pause: no lost thread keeps a
//! node down.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::error::UnavailableCause;

const FIRST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(2);
const OVERDUE: Duration = Duration::from_secs(10);

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
    /// When the next probe is due.
    due: Instant,
    pause: Duration,
}

/// What a caller who wants to connect is told.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// Go ahead, and report how it went.
    Try,
    /// Do not; this is why.
    FailFast(Failure),
}

/// What a failed connect has changed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Opened {
    /// The circuit was closed: a probe must be sent after this pause.
    Now { probe_in: Duration },
    /// It was open already, and somebody probes.
    Before,
}

impl Circuit {
    /// Asks whether to try a connect.
    pub(crate) fn ask(&mut self, now: Instant) -> Verdict {
        match &mut self.open {
            None => Verdict::Try,
            Some(open) if now >= open.due + OVERDUE => {
                open.due = now;
                Verdict::Try
            }
            Some(open) => Verdict::FailFast(open.failure.clone()),
        }
    }

    /// What a caller would be told, without taking anybody's turn.
    #[cfg(any(test, feature = "tower", feature = "actix"))]
    pub(crate) fn peek(&self, now: Instant) -> Option<&Failure> {
        let open = self.open.as_ref()?;
        (now < open.due + OVERDUE).then_some(&open.failure)
    }

    /// A connect succeeded. Answers whether that has closed the circuit.
    pub(crate) fn succeeded(&mut self) -> bool {
        self.open.take().is_some()
    }

    /// A caller's connect failed.
    pub(crate) fn failed(&mut self, now: Instant, failure: Failure) -> Opened {
        match &mut self.open {
            Some(open) => {
                open.failure = failure;
                Opened::Before
            }
            None => {
                self.open = Some(Open {
                    failure,
                    due: now + FIRST,
                    pause: FIRST,
                });
                Opened::Now { probe_in: FIRST }
            }
        }
    }

    /// The probe has failed too. Answers the pause to the next one; `None` if the circuit has been
    /// closed meanwhile. A probe that got no further than an unanswered greeting keeps the cause.
    pub(crate) fn probe_failed(
        &mut self,
        now: Instant,
        failure: Option<Failure>,
    ) -> Option<Duration> {
        let open = self.open.as_mut()?;
        if let Some(failure) = failure {
            open.failure = failure;
        }
        open.pause = (open.pause * 2).min(LONGEST);
        open.due = now + open.pause;
        Some(open.pause)
    }

    /// What keeps the circuit open, if it is.
    pub(crate) fn failure(&self) -> Option<&Failure> {
        self.open.as_ref().map(|open| &open.failure)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused() -> Failure {
        Failure {
            cause: UnavailableCause::Refused,
            message: Arc::from("refused"),
        }
    }

    fn is_try(verdict: &Verdict) -> bool {
        matches!(verdict, Verdict::Try)
    }

    #[test]
    fn callers_fail_fast_until_a_connect_succeeds() {
        let now = Instant::now();
        let mut circuit = Circuit::default();
        assert!(is_try(&circuit.ask(now)));
        assert_eq!(
            circuit.failed(now, refused()),
            Opened::Now { probe_in: FIRST }
        );
        assert!(matches!(
            circuit.ask(now + LONGEST),
            Verdict::FailFast(Failure {
                cause: UnavailableCause::Refused,
                ..
            })
        ));
        assert!(circuit.succeeded());
        assert!(!circuit.succeeded(), "one change of state is told once");
        assert!(is_try(&circuit.ask(now)));
    }

    #[test]
    fn the_pause_doubles_with_each_failed_probe_and_is_bounded() {
        let now = Instant::now();
        let mut circuit = Circuit::default();
        circuit.failed(now, refused());
        let mut expected = FIRST;
        for _ in 0..10 {
            expected = (expected * 2).min(LONGEST);
            assert_eq!(circuit.probe_failed(now, None), Some(expected));
        }
        circuit.succeeded();
        assert_eq!(circuit.probe_failed(now, Some(refused())), None);
    }

    #[test]
    fn parallel_failures_of_one_moment_ask_for_one_probe() {
        let now = Instant::now();
        let mut circuit = Circuit::default();
        circuit.failed(now, refused());
        for _ in 0..20 {
            assert_eq!(circuit.failed(now, refused()), Opened::Before);
        }
    }

    #[test]
    fn callers_take_over_from_a_probe_that_never_reports() {
        let now = Instant::now();
        let mut circuit = Circuit::default();
        circuit.failed(now, refused());
        let late = now + FIRST + OVERDUE;
        assert!(is_try(&circuit.ask(late)));
        assert!(!is_try(&circuit.ask(late)), "one per pause");
    }
}
