//! What is told of the pools of the nodes.

use std::time::Duration;

use crate::error::UnavailableCause;
use crate::name::{Role, ShardName, WorkloadName};

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
