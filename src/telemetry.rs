//! The only file that names `tracing` or `metrics`; without the features every function is empty.
//!
//! The names are part of the crate's contract; docs/operations.md lists them. What happens at every
//! checkout is counted under keys that each node has made once: making one hashes its labels, which
//! would cost more than the checkout.

use std::time::Duration;

use crate::error::{Error, UnavailableCause};
use crate::name::{Role, ShardName, WorkloadName};

macro_rules! event {
    ($level:ident, $($field:tt)*) => {
        #[cfg(feature = "tracing")]
        tracing::$level!($($field)*);
    };
}

macro_rules! count {
    ($name:literal $(, $label:literal => $value:expr)* $(,)?) => {
        #[cfg(feature = "metrics")]
        metrics::counter!($name $(, $label => $value)*).increment(1);
    };
}

macro_rules! unused {
    ($($value:expr),*) => {
        #[cfg(not(all(feature = "tracing", feature = "metrics")))]
        let _ = ($(&$value,)*);
    };
}

/// Why a call went where it went.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Reason {
    /// The topmost route.
    Route,
    /// No route, so the default shard.
    Default,
    /// The shard, or a key of it, was named in the call.
    Named,
}

impl Reason {
    #[cfg(feature = "metrics")]
    const ALL: [Self; 3] = [Self::Route, Self::Default, Self::Named];

    fn as_str(self) -> &'static str {
        match self {
            Self::Route => "route",
            Self::Default => "default",
            Self::Named => "named",
        }
    }
}

/// What became of the health check of a checkout.
#[derive(Clone, Copy, Debug)]
pub(crate) enum HealthCheck {
    /// Skipped, because the connection was in use a moment ago.
    Bypassed,
    /// Done, and well.
    Ok,
    /// Done, and the connection is dead.
    Failed,
}

impl HealthCheck {
    #[cfg(feature = "metrics")]
    const ALL: [Self; 3] = [Self::Bypassed, Self::Ok, Self::Failed];

    fn as_str(self) -> &'static str {
        match self {
            Self::Bypassed => "bypassed",
            Self::Ok => "ok",
            Self::Failed => "failed",
        }
    }
}

/// A span that the work of a scope runs in; it is left when this goes.
#[must_use]
#[derive(Debug)]
pub(crate) struct Entered {
    #[cfg(feature = "tracing")]
    _span: Option<tracing::span::EnteredSpan>,
}

/// A route is in force from here.
#[inline]
pub(crate) fn route_span(shard: ShardName) -> Entered {
    unused!(shard);
    Entered {
        #[cfg(feature = "tracing")]
        _span: listening().then(|| span("route", shard)),
    }
}

/// Runs a closure in the span of a route.
#[inline]
pub(crate) fn in_route<T>(shard: ShardName, f: impl FnOnce() -> T) -> T {
    unused!(shard);
    #[cfg(feature = "tracing")]
    if listening() {
        return spanned(shard, f);
    }
    f()
}

/// Apart, so that nothing of it is on the way of those who do not listen.
#[cfg(feature = "tracing")]
#[cold]
#[inline(never)]
fn spanned<T>(shard: ShardName, f: impl FnOnce() -> T) -> T {
    let _entered = span("route", shard);
    f()
}

/// A shard-scoped transaction is open from here.
#[cfg(feature = "r2d2")]
#[inline]
pub(crate) fn transaction_span(shard: ShardName) -> Entered {
    unused!(shard);
    Entered {
        #[cfg(feature = "tracing")]
        _span: listening().then(|| span("transaction", shard)),
    }
}

/// The span of a future, which is entered at each of its polls.
#[derive(Debug)]
pub(crate) struct PolledSpan {
    #[cfg(feature = "tracing")]
    span: Option<tracing::Span>,
}

/// Made by [`PolledSpan::enter`].
#[must_use]
#[derive(Debug)]
pub(crate) struct PolledEntered<'a> {
    #[cfg(feature = "tracing")]
    _span: Option<tracing::span::Entered<'a>>,
    #[cfg(not(feature = "tracing"))]
    _span: std::marker::PhantomData<&'a ()>,
}

impl PolledSpan {
    /// For a future with a route; `None`: for one without any, which has no span.
    #[inline]
    pub(crate) fn of_route(shard: Option<ShardName>) -> Self {
        unused!(shard);
        Self {
            #[cfg(feature = "tracing")]
            span: shard
                .filter(|_| listening())
                .map(|shard| new_span("route", shard)),
        }
    }

    /// For a future that is a shard-scoped transaction.
    #[cfg(feature = "bb8")]
    #[inline]
    pub(crate) fn of_transaction(shard: ShardName) -> Self {
        unused!(shard);
        Self {
            #[cfg(feature = "tracing")]
            span: listening().then(|| new_span("transaction", shard)),
        }
    }

    /// For a poll.
    #[inline]
    pub(crate) fn enter(&self) -> PolledEntered<'_> {
        PolledEntered {
            #[cfg(feature = "tracing")]
            _span: self.span.as_ref().map(tracing::Span::enter),
            #[cfg(not(feature = "tracing"))]
            _span: std::marker::PhantomData,
        }
    }
}

/// One comparison where no subscriber is installed.
#[cfg(feature = "tracing")]
#[inline]
fn listening() -> bool {
    tracing::level_filters::LevelFilter::current() >= tracing::level_filters::LevelFilter::INFO
}

#[cfg(feature = "tracing")]
fn span(what: &str, shard: ShardName) -> tracing::span::EnteredSpan {
    new_span(what, shard).entered()
}

#[cfg(feature = "tracing")]
#[cold]
fn new_span(what: &str, shard: ShardName) -> tracing::Span {
    if what == "route" {
        tracing::info_span!("route", shard = shard.as_str())
    } else {
        tracing::info_span!("transaction", shard = shard.as_str(), role = "primary")
    }
}

/// What is told of one pool of one node.
#[derive(Debug)]
pub(crate) struct NodeMeters {
    shard: ShardName,
    role: Role,
    /// Empty for the ordinary pool.
    class: &'static str,
    #[cfg(feature = "metrics")]
    keys: Keys,
}

/// The keys of what is counted at every checkout.
#[cfg(feature = "metrics")]
#[derive(Debug)]
struct Keys {
    checkouts: [[metrics::Key; 2]; 3],
    health_checks: [metrics::Key; 3],
}

#[cfg(feature = "metrics")]
fn increment(key: &metrics::Key) {
    static METADATA: metrics::Metadata<'static> =
        metrics::Metadata::new(module_path!(), metrics::Level::INFO, Some(module_path!()));
    metrics::with_recorder(|recorder| recorder.register_counter(key, &METADATA).increment(1));
}

impl NodeMeters {
    pub(crate) fn new(shard: ShardName, role: Role, class: Option<WorkloadName>) -> Self {
        let class = class.map_or("", |class| class.as_str());
        Self {
            shard,
            role,
            class,
            #[cfg(feature = "metrics")]
            keys: {
                let key = |name, more: &[(&'static str, &'static str)]| {
                    let node = [
                        ("shard", shard.as_str()),
                        ("role", role.as_str()),
                        ("class", class),
                    ];
                    let labels: Vec<metrics::Label> = node
                        .iter()
                        .chain(more)
                        .map(|(name, value)| metrics::Label::from_static_parts(name, value))
                        .collect();
                    metrics::Key::from_parts(name, labels)
                };
                Keys {
                    checkouts: Reason::ALL.map(|reason| {
                        ["ok", "error"].map(|outcome| {
                            key(
                                "diesel_sharded_checkouts_total",
                                &[("reason", reason.as_str()), ("outcome", outcome)],
                            )
                        })
                    }),
                    health_checks: HealthCheck::ALL.map(|outcome| {
                        key(
                            "diesel_sharded_health_checks_total",
                            &[("outcome", outcome.as_str())],
                        )
                    }),
                }
            },
        }
    }

    /// A checkout found where to go, and got a connection or not.
    #[inline]
    pub(crate) fn checkout(&self, reason: Reason, ok: bool) {
        unused!(reason.as_str(), ok, self.shard, self.role);
        event!(
            trace,
            shard = self.shard.as_str(),
            role = self.role.as_str(),
            reason = reason.as_str(),
            ok,
            "checkout"
        );
        #[cfg(feature = "metrics")]
        increment(&self.keys.checkouts[reason as usize][usize::from(!ok)]);
    }

    /// The health check of a checkout was skipped, or done.
    #[inline]
    pub(crate) fn health_check(&self, outcome: HealthCheck) {
        unused!(outcome.as_str());
        #[cfg(feature = "metrics")]
        increment(&self.keys.health_checks[outcome as usize]);
    }

    /// A caller had to wait for a connection.
    pub(crate) fn waited(&self, time: Duration) {
        unused!(time, self.class);
        event!(
            debug,
            shard = self.shard.as_str(),
            role = self.role.as_str(),
            class = self.class,
            millis = u64::try_from(time.as_millis()).unwrap_or(u64::MAX),
            "waited for a connection"
        );
        #[cfg(feature = "metrics")]
        metrics::histogram!(
            "diesel_sharded_checkout_wait_seconds",
            "shard" => self.shard.as_str(),
            "role" => self.role.as_str(),
            "class" => self.class,
        )
        .record(time);
    }

    /// A caller gave up waiting.
    pub(crate) fn exhausted(&self) {
        event!(
            warn,
            shard = self.shard.as_str(),
            role = self.role.as_str(),
            class = self.class,
            "all connections were in use for the whole connection_timeout"
        );
        count!(
            "diesel_sharded_pool_exhausted_total",
            "shard" => self.shard.as_str(),
            "role" => self.role.as_str(),
            "class" => self.class,
        );
    }

    /// A connect attempt failed.
    pub(crate) fn connect_failed(&self, cause: UnavailableCause) {
        unused!(cause);
        event!(
            warn,
            shard = self.shard.as_str(),
            role = self.role.as_str(),
            class = self.class,
            cause = cause.as_str(),
            "connecting failed"
        );
        count!(
            "diesel_sharded_connect_failures_total",
            "shard" => self.shard.as_str(),
            "role" => self.role.as_str(),
            "class" => self.class,
            "cause" => cause.as_str(),
        );
    }

    /// The node is taken to be down.
    pub(crate) fn circuit_opened(&self, cause: UnavailableCause) {
        unused!(cause);
        event!(
            error,
            shard = self.shard.as_str(),
            role = self.role.as_str(),
            class = self.class,
            cause = cause.as_str(),
            "the node is down"
        );
        self.circuit(1.0);
    }

    /// The node is back, or of no more interest.
    pub(crate) fn circuit_closed(&self) {
        event!(
            info,
            shard = self.shard.as_str(),
            role = self.role.as_str(),
            class = self.class,
            "the node is back"
        );
        self.circuit(0.0);
    }

    fn circuit(&self, open: f64) {
        unused!(open);
        #[cfg(feature = "metrics")]
        metrics::gauge!(
            "diesel_sharded_circuit_open",
            "shard" => self.shard.as_str(),
            "role" => self.role.as_str(),
            "class" => self.class,
        )
        .set(open);
    }

    /// A connection was closed instead of returned.
    pub(crate) fn connection_closed(&self) {
        event!(
            debug,
            shard = self.shard.as_str(),
            role = self.role.as_str(),
            class = self.class,
            "a connection was closed instead of returned"
        );
        count!(
            "diesel_sharded_connections_closed_total",
            "shard" => self.shard.as_str(),
            "role" => self.role.as_str(),
            "class" => self.class,
        );
    }

    /// Somebody has ended the test transaction that a connection was to live in.
    pub(crate) fn test_transaction_ended(&self) {
        event!(
            error,
            shard = self.shard.as_str(),
            role = self.role.as_str(),
            class = self.class,
            "a test transaction was ended; what was done in it may be committed"
        );
    }

    /// The pool at this moment.
    pub(crate) fn pool_state(&self, connections: u32, idle: u32, waiting: usize) {
        unused!(connections, idle, waiting);
        #[cfg(feature = "metrics")]
        for (state, value) in [
            ("active", f64::from(connections.saturating_sub(idle))),
            ("idle", f64::from(idle)),
            ("waiting", waiting as f64),
        ] {
            metrics::gauge!(
                "diesel_sharded_pool_connections",
                "shard" => self.shard.as_str(),
                "role" => self.role.as_str(),
                "class" => self.class,
                "state" => state,
            )
            .set(value);
        }
    }
}

/// A checkout without a route went to the default shard.
#[inline]
pub(crate) fn fell_to_default(shard: ShardName) {
    unused!(shard);
    event!(
        debug,
        shard = shard.as_str(),
        reason = "default",
        "no route in force, using the default shard"
    );
    count!("diesel_sharded_default_fallbacks_total", "shard" => shard.as_str());
}

/// A route, checkout or transaction was refused before anything was asked of a database.
#[cold]
pub(crate) fn refused(error: &Error) {
    let shard = error.shard().map_or("", |shard| shard.as_str());
    let reason = match error {
        Error::AlreadyInTransaction { .. } => "already_in_transaction",
        Error::PinnedElsewhere { .. } => "pinned_elsewhere",
        Error::RouteMismatch { .. } => "route_mismatch",
        Error::WouldDeadlock { .. } => "would_deadlock",
        Error::UnknownShard { .. } => "unknown_shard",
        Error::NoRoute { .. } => "no_route",
        Error::ShardOffline { .. } => "shard_offline",
        _ => "other",
    };
    unused!(shard, reason);
    event!(debug, shard, reason, "refused");
    count!("diesel_sharded_refusals_total", "shard" => shard, "reason" => reason);
}

/// A shard-scoped transaction ended.
#[inline]
pub(crate) fn transaction_ended(shard: ShardName, outcome: &'static str) {
    unused!(shard, outcome);
    event!(debug, shard = shard.as_str(), outcome, "transaction ended");
    count!(
        "diesel_sharded_transactions_total",
        "shard" => shard.as_str(),
        "outcome" => outcome,
    );
}

/// A transaction is run again.
pub(crate) fn retrying(shard: ShardName, attempt: usize, pause: Duration) {
    unused!(shard, attempt, pause);
    event!(
        info,
        shard = shard.as_str(),
        attempt,
        millis = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX),
        "running the transaction again"
    );
    count!("diesel_sharded_retries_total", "shard" => shard.as_str());
}

/// A rollback failed after the caller's own error or panic, which is what the caller gets.
pub(crate) fn rollback_failed(shard: ShardName, error: &diesel::result::Error) {
    unused!(shard, error);
    event!(
        error,
        shard = shard.as_str(),
        error = %error,
        "rolling back failed, the connection is closed"
    );
    count!("diesel_sharded_rollback_failures_total", "shard" => shard.as_str());
}

/// A hook that ran after a commit has panicked; the commit stands.
pub(crate) fn hook_panicked(shard: ShardName) {
    unused!(shard);
    event!(
        error,
        shard = shard.as_str(),
        "an after_commit hook has panicked; the transaction is committed"
    );
    count!("diesel_sharded_hook_panics_total", "shard" => shard.as_str());
}

/// The topology was reloaded.
pub(crate) fn reloaded(epoch: u64, added: usize, removed: usize, replaced: usize) {
    unused!(epoch, added, removed, replaced);
    event!(
        info,
        epoch,
        added,
        removed,
        replaced,
        "the topology was reloaded"
    );
    count!("diesel_sharded_reloads_total");
}
