use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use scheduled_thread_pool::{OnPoolDropBehavior, ScheduledThreadPool};

/// The threads of a manager: a fixed number, whatever the number of nodes.
pub(crate) struct Threads {
    /// Moves connections into pools and reaps idle ones; nothing here waits for a server.
    pool: Arc<ScheduledThreadPool>,
    /// Opens idle connections ahead of need (`min_idle`) and probes nodes that are down; waits for
    /// servers, each time for a bounded while.
    waiting: ScheduledThreadPool,
}

impl Threads {
    pub(crate) fn new() -> Self {
        let named = |name: &str, threads| {
            ScheduledThreadPool::builder()
                .num_threads(threads)
                .thread_name_pattern(name)
                .on_drop_behavior(OnPoolDropBehavior::DiscardPendingScheduled)
                .build()
        };
        Self {
            pool: Arc::new(named("diesel-sharded-pool-{}", 2)),
            waiting: named("diesel-sharded-probe-{}", 1),
        }
    }

    /// The threads of all connections that were established one by one; threads of their own would
    /// outnumber them.
    pub(crate) fn of_lone_connections() -> Arc<Self> {
        static THREADS: OnceLock<Arc<Threads>> = OnceLock::new();
        Arc::clone(THREADS.get_or_init(|| Arc::new(Self::new())))
    }

    pub(crate) fn pool(&self) -> Arc<ScheduledThreadPool> {
        Arc::clone(&self.pool)
    }

    /// Runs something that may wait for a server, after a pause.
    pub(super) fn later(&self, pause: Duration, f: impl FnOnce() + Send + 'static) {
        self.waiting.execute_after(pause, f);
    }
}

impl fmt::Debug for Threads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Threads").finish_non_exhaustive()
    }
}
