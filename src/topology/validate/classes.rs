//! Workload classes: for each, a second pool per node.

use super::super::snapshot::PoolSettings;
use super::super::spec::PoolConfig;
use super::super::url::DatabaseUrl;
use super::nodes::Node;
use super::{Findings, key_of, list, pool};

/// A workload class with a size.
#[derive(Debug)]
pub(super) struct Class<'s> {
    name: &'s str,
    max_size: u32,
    pool: &'s PoolConfig,
}

/// Checks each class for itself, and answers those that have a size, sorted by name.
pub(super) fn check<'s>(
    classes: &'s [(String, PoolConfig)],
    findings: &mut Findings,
) -> Vec<Class<'s>> {
    let mut sized = Vec::with_capacity(classes.len());
    for (name, config) in classes {
        let key = key_of("pools", name);
        pool::check_values(&key, config, findings);
        let Some(max_size) = config.max_size else {
            findings.problem(
                format!("{key}.max_size"),
                format!(
                    "is missing: say how many connections the pool of class {name} has on each node"
                ),
            );
            continue;
        };
        if let Some(min_idle) = config.min_idle.filter(|min_idle| *min_idle > max_size) {
            findings.problem(
                format!("{key}.min_idle"),
                format!(
                    "min_idle is {min_idle}, more than max_size, which is {max_size}: lower it"
                ),
            );
        }
        sized.push(Class {
            name,
            max_size,
            pool: config,
        });
    }
    sized.sort_by_key(|class| class.name);
    sized
}

impl Class<'_> {
    /// The settings of the class's pool on the node with this ordinary pool.
    fn settle(&self, ordinary: &PoolSettings, url: &DatabaseUrl) -> PoolSettings {
        let lifetimes = (
            self.pool.idle_timeout.unwrap_or(ordinary.idle_timeout),
            self.pool.max_lifetime.unwrap_or(ordinary.max_lifetime),
        );
        // An in-memory database is lost with its last connection, and that may be one of the class.
        let (idle_timeout, max_lifetime) = if url.is_sqlite_memory() {
            (None, None)
        } else {
            lifetimes
        };
        PoolSettings {
            max_size: self.max_size,
            min_idle: self.pool.min_idle.unwrap_or(0),
            connection_timeout: self
                .pool
                .connection_timeout
                .unwrap_or(ordinary.connection_timeout),
            connect_timeout: self
                .pool
                .connect_timeout
                .unwrap_or(ordinary.connect_timeout),
            idle_timeout,
            max_lifetime,
            alive_bypass: self.pool.alive_bypass.unwrap_or(ordinary.alive_bypass),
            table_statements: self
                .pool
                .table_statements
                .unwrap_or(ordinary.table_statements),
        }
    }
}

/// Gives each node a pool of each class, where it can have one.
pub(super) fn assign<'s>(classes: &[Class<'s>], nodes: &mut [Node<'s>], findings: &mut Findings) {
    for class in classes {
        let key = key_of("pools", class.name);
        let (mut private, mut in_memory) = (Vec::new(), false);
        for node in &mut *nodes {
            // An empty url has a problem of its own.
            if node.url.is_sqlite_memory() && !node.url.expose().is_empty() {
                in_memory = true;
                if node.url.sqlite_memory_name().is_none() {
                    private.push(node.label.as_str());
                    continue;
                }
            }
            node.classes
                .push((class.name, class.settle(&node.pool, node.url)));
        }
        if !private.is_empty() {
            findings.problem(
                &key,
                format!(
                    "the pool of class {} would open another, empty database where a node is a private in-memory SQLite database ({}): leave the class out, use a file, or share one database by a url like `file:name?mode=memory&cache=shared`",
                    class.name,
                    list(&private)
                ),
            );
        } else if in_memory
            && (matches!(class.pool.idle_timeout, Some(Some(_)))
                || matches!(class.pool.max_lifetime, Some(Some(_))))
        {
            findings.warning(
                key,
                "idle_timeout and max_lifetime do not apply to in-memory SQLite databases, which are lost with their last connection",
            );
        }
    }
}
