//! Pool settings: the values of each level, and what they come to for one node.

use std::time::Duration;

use super::super::snapshot::PoolSettings;
use super::super::spec::PoolConfig;
use super::super::url::DatabaseUrl;
use super::Findings;

/// Waiting longer than this is a mistake in the unit.
const LONGEST_WAIT: Duration = Duration::from_secs(24 * 60 * 60);
/// Keeping a connection longer than this is "never".
const LONGEST_LIFE: Duration = Duration::from_secs(366 * 24 * 60 * 60);

/// Pool settings with the key they were given under.
#[derive(Debug)]
pub(super) struct Level<'s> {
    key: String,
    pool: &'s PoolConfig,
}

impl<'s> Level<'s> {
    pub(super) fn new(key: impl Into<String>, pool: &'s PoolConfig) -> Self {
        Self {
            key: key.into(),
            pool,
        }
    }
}

/// Checks each value of one level for itself.
pub(super) fn check_values(key: &str, pool: &PoolConfig, findings: &mut Findings) {
    if pool.max_size == Some(0) {
        findings.problem(
            format!("{key}.max_size"),
            "a pool of no connections serves nobody: give it at least 1",
        );
    }
    let waits = [
        ("connection_timeout", pool.connection_timeout, false),
        ("connect_timeout", pool.connect_timeout, false),
        ("alive_bypass", pool.alive_bypass, true),
    ];
    for (name, value, zero) in waits {
        if value == Some(Duration::ZERO) && !zero {
            findings.problem(format!("{key}.{name}"), "must be longer than zero");
        }
        if value.is_some_and(|value| value > LONGEST_WAIT) {
            findings.problem(
                format!("{key}.{name}"),
                "is longer than a day: check the unit (`ms`, `s`, `m`)",
            );
        }
    }
    let lives = [
        ("idle_timeout", pool.idle_timeout.flatten()),
        ("max_lifetime", pool.max_lifetime.flatten()),
    ];
    for (name, value) in lives {
        if value == Some(Duration::ZERO) {
            findings.problem(
                format!("{key}.{name}"),
                "must be longer than zero; to switch it off, say \"never\"",
            );
        }
        if value.is_some_and(|value| value > LONGEST_LIFE) {
            findings.problem(
                format!("{key}.{name}"),
                "is longer than a year: check the unit, or say \"never\"",
            );
        }
    }
}

/// What the levels, the most specific one first, come to for the node behind this URL.
pub(super) fn settle(
    levels: &[&Level<'_>],
    url: &DatabaseUrl,
    findings: &mut Findings,
) -> PoolSettings {
    let merged = levels
        .iter()
        .fold(PoolConfig::new(), |merged, level| merged.or(level.pool));
    let mut settings = PoolSettings {
        max_size: merged.max_size.unwrap_or(10),
        min_idle: merged.min_idle.unwrap_or(0),
        connection_timeout: merged.connection_timeout.unwrap_or(Duration::from_secs(30)),
        connect_timeout: merged.connect_timeout.unwrap_or(Duration::from_secs(5)),
        idle_timeout: merged
            .idle_timeout
            .unwrap_or(Some(Duration::from_secs(10 * 60))),
        max_lifetime: merged
            .max_lifetime
            .unwrap_or(Some(Duration::from_secs(30 * 60))),
        alive_bypass: merged.alive_bypass.unwrap_or(Duration::from_millis(500)),
        table_statements: merged.table_statements.unwrap_or(256),
    };
    if url.is_sqlite_memory() && !url.expose().is_empty() {
        settle_memory(levels, url, &mut settings, findings);
    }
    if settings.min_idle > settings.max_size {
        let key = levels
            .iter()
            .find(|level| level.pool.min_idle.is_some() || level.pool.max_size.is_some())
            .map_or("pool", |level| level.key.as_str());
        findings.problem(
            format!("{key}.min_idle"),
            format!(
                "min_idle is {}, more than max_size, which is {}: lower it",
                settings.min_idle, settings.max_size
            ),
        );
    }
    settings
}

/// An in-memory SQLite database is gone with its last connection, and where it has no shared name
/// each connection has another one: so one connection, which is never recycled.
fn settle_memory(
    levels: &[&Level<'_>],
    url: &DatabaseUrl,
    settings: &mut PoolSettings,
    findings: &mut Findings,
) {
    let shared = url.sqlite_memory_name().is_some();
    // What is said for the whole topology was not said about this database: it gives way here,
    // with a warning. What was said for this very node is a mistake.
    let (top, own) = match levels {
        [own @ .., top] => (Some(top), own),
        [] => (None, levels),
    };
    let said = |pick: fn(&PoolConfig) -> bool| own.iter().find(|level| pick(level.pool));
    settings.max_size = match own.iter().find_map(|level| level.pool.max_size) {
        Some(size) if size > 1 && !shared => {
            if let Some(level) = said(|pool| pool.max_size.is_some()) {
                findings.problem(
                    format!("{}.max_size", level.key),
                    format!(
                        "max_size is {size}, but each connection to a private in-memory SQLite database is another, empty database: leave it at 1, or share one database by a url like `file:name?mode=memory&cache=shared`"
                    ),
                );
            }
            1
        }
        Some(size) => size,
        None => 1,
    };
    let own_min_idle = own.iter().find_map(|level| level.pool.min_idle);
    settings.min_idle = own_min_idle.unwrap_or(settings.min_idle.min(settings.max_size));
    let recycled = [
        (
            "idle_timeout",
            said(|pool| matches!(pool.idle_timeout, Some(Some(_)))),
        ),
        (
            "max_lifetime",
            said(|pool| matches!(pool.max_lifetime, Some(Some(_)))),
        ),
    ];
    for (name, level) in recycled {
        if let Some(level) = level {
            findings.problem(
                format!("{}.{name}", level.key),
                format!(
                    "an in-memory SQLite database is lost with its last connection, so {name} does not go with it: say \"never\", or leave it out"
                ),
            );
        }
    }
    settings.idle_timeout = None;
    settings.max_lifetime = None;
    if let Some(top) = top
        && (top
            .pool
            .max_size
            .is_some_and(|size| size > settings.max_size)
            || matches!(top.pool.idle_timeout, Some(Some(_)))
            || matches!(top.pool.max_lifetime, Some(Some(_))))
    {
        findings.warning(
            "pool",
            "max_size, idle_timeout and max_lifetime do not apply to in-memory SQLite databases: those keep one connection for ever",
        );
    }
}
