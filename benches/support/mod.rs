//! What the benchmarks share: how long a measurement lasts, and where its keys come from.

pub(crate) mod keys;

use std::time::Duration;

/// How a benchmark was started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// `cargo bench`, `scripts/bench`.
    Full,
    /// The same with `--quick`: a first look.
    Quick,
    /// `cargo test --benches`: everything runs once, and no figure means anything.
    Smoke,
}

impl Mode {
    pub(crate) fn of_process() -> Self {
        // Cargo says `--bench` to a benchmark that is to measure.
        if !std::env::args().any(|argument| argument == "--bench") {
            Self::Smoke
        } else if std::env::args().any(|argument| argument == "--quick")
            || std::env::var_os("DIESEL_SHARDED_BENCH_QUICK").is_some_and(|quick| quick == "1")
        {
            Self::Quick
        } else {
            Self::Full
        }
    }

    /// A span for a full measurement, shortened for the other modes.
    pub(crate) fn span(self, full: Duration) -> Duration {
        match self {
            Self::Full => full,
            Self::Quick => full / 10,
            Self::Smoke => Duration::from_millis(1),
        }
    }
}

pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
