//! Nodes: their URLs, and whether two of them are one database.

use std::collections::BTreeMap;

use super::super::password::PasswordCommand;
use super::super::snapshot::{NodeSpec, PoolSettings};
use super::super::spec::TopologySpec;
use super::super::url::{DatabaseUrl, UrlKind};
use super::{Findings, key_of, list, pool};
use crate::name::{Role, ShardName, WorkloadName};

/// A node under examination.
#[derive(Debug)]
pub(super) struct Node<'s> {
    /// Its dotted key: `shards.a` or `shards.a.replicas.0`.
    pub(super) key: String,
    /// How a message calls it: `shard a`, `replica 1 of shard a`.
    pub(super) label: String,
    pub(super) shard: &'s str,
    pub(super) role: Role,
    pub(super) url: &'s DatabaseUrl,
    pub(super) pool: PoolSettings,
    /// The pools of the workload classes, sorted by name.
    pub(super) classes: Vec<(&'s str, PoolSettings)>,
    pub(super) password_command: Option<&'s PasswordCommand>,
    pub(super) weight: u32,
}

impl Node<'_> {
    pub(super) fn to_spec(&self) -> NodeSpec {
        NodeSpec {
            shard: ShardName::intern(self.shard),
            role: self.role,
            url: self.url.clone(),
            pool: self.pool.clone(),
            classes: self
                .classes
                .iter()
                .map(|(name, pool)| (WorkloadName::intern(name), pool.clone()))
                .collect(),
            password_command: self.password_command.cloned(),
            weight: self.weight,
        }
    }
}

/// Checks every node for itself.
pub(super) fn check<'s>(spec: &'s TopologySpec, findings: &mut Findings) -> Vec<Node<'s>> {
    let mut nodes = Vec::new();
    for (shard, config) in &spec.shards {
        let key = key_of("shards", shard);
        let label = format!("shard {shard}");
        check_url(&key, &label, &config.url, findings);
        pool::check_values(&format!("{key}.pool"), &config.pool, findings);
        let top = pool::Level::new("pool", &spec.pool);
        let own = pool::Level::new(format!("{key}.pool"), &config.pool);
        nodes.push(Node {
            label,
            shard,
            role: Role::Primary,
            url: &config.url,
            pool: pool::settle(&[&own, &top], &config.url, findings),
            classes: Vec::new(),
            password_command: config.password_command.as_ref(),
            weight: 1,
            key: key.clone(),
        });
        for (i, replica) in config.replicas.iter().enumerate() {
            let key = format!("{key}.replicas.{i}");
            let label = format!("replica {} of shard {shard}", i + 1);
            check_url(&key, &label, &replica.url, findings);
            let level = pool::Level::new(format!("{key}.pool"), &replica.pool);
            pool::check_values(&format!("{key}.pool"), &replica.pool, findings);
            nodes.push(Node {
                label,
                shard,
                role: Role::Replica,
                url: &replica.url,
                pool: pool::settle(&[&level, &own, &top], &replica.url, findings),
                classes: Vec::new(),
                password_command: replica.password_command.as_ref(),
                weight: replica.weight,
                key,
            });
        }
    }
    nodes
}

/// Messages never repeat the URL: what cannot be read may be a password anywhere.
fn check_url(key: &str, label: &str, url: &DatabaseUrl, findings: &mut Findings) {
    let key = format!("{key}.url");
    let text = url.expose();
    if text.trim().is_empty() {
        findings.problem(
            key,
            format!("empty url for {label}: say where its database is"),
        );
    } else if text.trim() != text || text.contains(char::is_control) {
        findings.problem(
            key,
            format!(
                "the url of {label} has a blank or line break at an end, or a control character in it: remove it"
            ),
        );
    } else if url.kind().is_none() {
        findings.problem(key, unknown_kind(label, text));
    } else if !url.is_readable() {
        let hint = match url.kind() {
            Some(UrlKind::Mysql) => "it has the form mysql://user:password@host:port/database",
            _ => {
                "it has the form postgres://user:password@host:port/database, or `host=.. dbname=..`"
            }
        };
        findings.problem(
            key,
            format!(
                "the url of {label} cannot be read: {hint}, with every special character of user and password percent-encoded (or give the password by itself in `password`)"
            ),
        );
    } else if !url.has_valid_ports() {
        findings.problem(
            key,
            format!(
                "the url of {label} names a port that is none: use a number from 1 to 65535, or leave it out for the default"
            ),
        );
    }
}

fn unknown_kind(label: &str, text: &str) -> String {
    const KNOWN: &str = "use postgres://, mysql:// (for MariaDB too), or the path of a SQLite file";
    let scheme = text.split_once("://").map(|(scheme, _)| scheme);
    // Only what is surely a scheme is repeated; anything else might be part of a password.
    let scheme = scheme.filter(|scheme| {
        scheme.len() <= 20
            && scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme.bytes().all(|b| b.is_ascii_lowercase() || b == b'+')
            || scheme.eq_ignore_ascii_case("postgres")
            || scheme.eq_ignore_ascii_case("postgresql")
    });
    match scheme {
        Some("mariadb") => format!(
            "the url of {label} begins with mariadb://, which Diesel does not know: write mysql://"
        ),
        Some(scheme) if scheme.to_ascii_lowercase().starts_with("postgres") => {
            format!("the url of {label} begins with {scheme}://: write postgres://, in lower case")
        }
        Some(scheme) => format!("the url of {label} has the unknown scheme {scheme}://: {KNOWN}"),
        None => format!("the url of {label} is no database url: {KNOWN}"),
    }
}

/// Two nodes that are one database: rows would be read twice and migrations run twice.
pub(super) fn check_same_database(nodes: &[Node<'_>], shared: bool, findings: &mut Findings) {
    let mut by_database: BTreeMap<String, Vec<&Node<'_>>> = BTreeMap::new();
    for node in nodes {
        if let Some(identity) = node.url.database_identity() {
            by_database.entry(identity).or_default().push(node);
        }
    }
    let groups: Vec<_> = by_database
        .into_values()
        .filter(|group| group.len() > 1)
        .collect();
    if shared {
        let groups: Vec<String> = groups
            .iter()
            .map(|group| {
                let labels: Vec<&str> = group.iter().map(|node| node.label.as_str()).collect();
                format!("; one database: {}", list(&labels))
            })
            .collect();
        findings.warning(
            "shared_database",
            format!(
                "shared_database is in force, which is for development only{}",
                groups.concat()
            ),
        );
        return;
    }
    for group in groups {
        let (first, others) = (group[0], &group[1..]);
        for other in others {
            findings.problem(
                format!("{}.url", other.key),
                format!(
                    "{} is the same database as {}: its rows would count twice; give it a database of its own, or, for development, say `shared_database = true`",
                    other.label, first.label
                ),
            );
        }
    }
}
