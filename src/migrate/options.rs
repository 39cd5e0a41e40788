//! What a caller can choose.

use std::time::Duration;

/// How a fleet is migrated: which shards, how many at a time, how patiently.
///
/// ```
/// use std::time::Duration;
/// use diesel_sharded::migrate::Options;
///
/// let options = Options::new()
///     .parallel(8)
///     .canary("order-0")
///     .lock_timeout(Duration::from_secs(1))
///     .retries(3);
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Options {
    pub(super) shards: Option<Vec<String>>,
    pub(super) parallel: usize,
    pub(super) canary: Option<String>,
    pub(super) max_failures: Option<u32>,
    pub(super) skip_unreachable: bool,
    pub(super) allow_out_of_order: bool,
    pub(super) allow_unknown: bool,
    pub(super) allow_edited: bool,
    pub(super) force: bool,
    pub(super) lock: bool,
    pub(super) wait: Duration,
    pub(super) lock_timeout: Option<Duration>,
    pub(super) statement_timeout: Option<Duration>,
    pub(super) retries: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            shards: None,
            parallel: 1,
            canary: None,
            max_failures: Some(1),
            skip_unreachable: false,
            allow_out_of_order: false,
            allow_unknown: false,
            allow_edited: false,
            force: false,
            lock: true,
            wait: Duration::from_secs(600),
            lock_timeout: None,
            statement_timeout: None,
            retries: 0,
        }
    }
}

impl Options {
    /// All shards, one after the other, careful in everything.
    pub fn new() -> Self {
        Self::default()
    }

    /// Only these shards, by name. A database that several shards share is worked on as a whole as
    /// soon as one of them is named. Defaults to all shards.
    pub fn shards(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.shards = Some(names.into_iter().map(Into::into).collect());
        self
    }

    /// How many shards are worked on at the same time; each has one connection and one thread. Zero
    /// counts as one. Defaults to 1.
    pub fn parallel(mut self, shards: usize) -> Self {
        self.parallel = shards.max(1);
        self
    }

    /// Works on this shard first, alone; on nothing else if it fails. Defaults to none.
    pub fn canary(mut self, shard: impl Into<String>) -> Self {
        self.canary = Some(shard.into());
        self
    }

    /// After how many failed shards no further one is started; `None` never gives up. Shards that
    /// the preflight refuses count as failed, so with 1 nothing at all is changed while one of them
    /// is refused. Zero counts as one. Defaults to 1.
    pub fn max_failures(mut self, failures: impl Into<Option<u32>>) -> Self {
        self.max_failures = failures.into().map(|count| count.max(1));
        self
    }

    /// Leaves out shards that cannot be reached, or are offline, instead of refusing to start. They
    /// are listed as skipped, and the report is not a success. Defaults to `false`.
    pub fn skip_unreachable(mut self, skip: bool) -> Self {
        self.skip_unreachable = skip;
        self
    }

    /// Applies migrations that are older than one that is applied already. Defaults to `false`: such
    /// a shard is refused, since the order it would get is not the order of the others.
    pub fn allow_out_of_order(mut self, allow: bool) -> Self {
        self.allow_out_of_order = allow;
        self
    }

    /// Works on shards whose database has versions that no source knows. Defaults to `false`: a
    /// newer release, or another application, has migrated there.
    pub fn allow_unknown(mut self, allow: bool) -> Self {
        self.allow_unknown = allow;
        self
    }

    /// Works on shards where a migration was applied with another text than it has now. Defaults to
    /// `false`.
    pub fn allow_edited(mut self, allow: bool) -> Self {
        self.allow_edited = allow;
        self
    }

    /// Reverts or redoes although shards would not all revert the same versions; lets
    /// [`unlock`](super::Migrator::unlock) end the session that holds the lock, and
    /// [`repair`](super::Migrator::repair) send statements again that have run. Defaults to `false`.
    pub fn force(mut self, force: bool) -> Self {
        self.force = force;
        self
    }

    /// Takes each shard's lock. Defaults to `true`. Switch it off only where session locks do not
    /// work (behind a pooler that hands out a session per transaction), and make sure of one runner
    /// at a time by other means.
    pub fn lock(mut self, lock: bool) -> Self {
        self.lock = lock;
        self
    }

    /// How long to wait for another runner to finish with a shard. Defaults to ten minutes.
    pub fn wait(mut self, patience: Duration) -> Self {
        self.wait = patience;
        self
    }

    /// How long one statement may wait for a lock of the database: `lock_timeout` on PostgreSQL,
    /// `lock_wait_timeout` and `innodb_lock_wait_timeout` on MySQL (whole seconds, rounded up),
    /// `busy_timeout` on SQLite. Defaults to the database's own setting.
    pub fn lock_timeout(mut self, timeout: Duration) -> Self {
        self.lock_timeout = Some(timeout);
        self
    }

    /// How long one statement may run: `statement_timeout` on PostgreSQL, `max_statement_time` on
    /// MariaDB, `max_execution_time` on MySQL (which only bounds reads). SQLite has no such limit; a
    /// warning says so. Defaults to the database's own setting.
    pub fn statement_timeout(mut self, timeout: Duration) -> Self {
        self.statement_timeout = Some(timeout);
        self
    }

    /// How often to try again what failed on a lock, a deadlock or a serialization conflict, where
    /// that is safe: a migration in a transaction, or one statement that certainly had no effect.
    /// Defaults to 0.
    pub fn retries(mut self, times: u32) -> Self {
        self.retries = times;
        self
    }
}
