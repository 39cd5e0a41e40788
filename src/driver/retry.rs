//! How long a transaction waits before it is run again.

use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBuilder};

/// The pauses between the runs: longer each time, and by chance, so that two that met do not meet
/// again.
pub(crate) fn pauses(retries: usize) -> impl Iterator<Item = Duration> + Send {
    ExponentialBuilder::default()
        .with_min_delay(Duration::from_millis(5))
        .with_max_delay(Duration::from_millis(500))
        .with_factor(2.0)
        .with_jitter()
        .with_max_times(retries)
        .build()
}
