//! The one validation, for the builder and for configuration files: every check runs, whatever the
//! others found, and all problems are reported at once.

mod budget;
mod classes;
mod keyspaces;
mod names;
mod nodes;
mod pool;
mod tables;
#[cfg(test)]
mod tests;

use std::collections::HashMap;

use super::snapshot::{Shard, Snapshot, nearest};
use super::spec::{ShardState, TopologySpec};
use crate::error::ConfigProblem;
use crate::name::{KeyspaceName, Role, ShardName, WorkloadName};
use nodes::Node;
#[cfg(feature = "config")]
pub(crate) use tables::MAX_PARTS;

/// PostgreSQL cuts longer identifiers, and names of shards end up in names of databases.
const MAX_NAME: usize = 63;

/// One thing that is wrong, or doubtful, in a description.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    /// The key, in dotted form: `shards.order-0.url`.
    pub(crate) key: String,
    /// What is wrong, and what to do.
    pub(crate) message: String,
}

impl Problem {
    pub(crate) fn new(key: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            key: key.into(),
            message: message.into(),
        }
    }

    /// The public form; `origin` says where a key was set.
    pub(crate) fn at(self, origin: impl Fn(&str) -> String) -> ConfigProblem {
        ConfigProblem {
            origin: origin(&self.key),
            key: self.key,
            message: self.message,
        }
    }
}

/// What the checks found so far.
#[derive(Debug, Default)]
struct Findings {
    problems: Vec<Problem>,
    warnings: Vec<Problem>,
}

impl Findings {
    fn problem(&mut self, key: impl Into<String>, message: impl Into<String>) {
        let problem = Problem::new(key, message);
        // A setting of the whole topology that is wrong for each of its nodes is wrong once.
        if !self.problems.contains(&problem) {
            self.problems.push(problem);
        }
    }

    fn warning(&mut self, key: impl Into<String>, message: impl Into<String>) {
        let warning = Problem::new(key, message);
        if !self.warnings.contains(&warning) {
            self.warnings.push(warning);
        }
    }
}

/// Checks a description and makes the first snapshot of it.
///
/// # Errors
///
/// Everything that is wrong with it.
pub(crate) fn validate(spec: &TopologySpec) -> Result<Snapshot, Vec<Problem>> {
    let mut findings = Findings::default();
    if spec.shards.is_empty() {
        findings.problem("shards", "no shard is declared: declare at least one");
    }
    let shard_names = names(&spec.shards);
    let keyspace_names = names(&spec.keyspaces);
    let class_names = names(&spec.pools);
    check_names("shards", "shard", &shard_names, &mut findings);
    check_names("keyspaces", "keyspace", &keyspace_names, &mut findings);
    check_names("pools", "workload class", &class_names, &mut findings);
    if let Some(name) = &spec.default_shard
        && !shard_names.contains(&name.as_str())
    {
        findings.problem("default_shard", unknown("shard", name, &shard_names));
    }
    for name in &spec.accept_placement {
        if !keyspace_names.contains(&name.as_str()) {
            findings.problem(
                "accept_placement",
                unknown("keyspace", name, &keyspace_names),
            );
        }
    }
    check_states(spec, &mut findings);

    pool::check_values("pool", &spec.pool, &mut findings);
    let classes = classes::check(&spec.pools, &mut findings);
    let mut nodes = nodes::check(spec, &mut findings);
    classes::assign(&classes, &mut nodes, &mut findings);
    nodes::check_same_database(&nodes, spec.shared_database, &mut findings);
    if let Some(budget) = &spec.budget {
        budget::check(budget, &nodes, &mut findings);
    }
    let primaries = nodes.iter().filter(|node| node.role == Role::Primary);
    let kinds = primaries
        .map(|node| (node.shard, node.url.kind()))
        .collect();
    let keyspaces = keyspaces::check(&spec.keyspaces, &shard_names, &kinds, &mut findings);

    if !findings.problems.is_empty() {
        return Err(findings.problems);
    }
    let default_shard = spec.default_shard.as_deref().map(ShardName::intern);
    let mut snapshot = Snapshot::new(
        1,
        assemble(spec, &nodes),
        default_shard,
        spec.startup,
        keyspaces,
    )
    .with_warnings(findings.warnings);
    snapshot.shared_database = spec.shared_database;
    snapshot.workloads = sorted(class_names, WorkloadName::intern);
    snapshot.accept_placement = sorted(
        spec.accept_placement.iter().map(String::as_str).collect(),
        KeyspaceName::intern,
    );
    Ok(snapshot)
}

fn names<T>(declared: &[(String, T)]) -> Vec<&str> {
    declared.iter().map(|(name, _)| name.as_str()).collect()
}

/// Names in their order, each once, interned.
fn sorted<T>(mut names: Vec<&str>, intern: fn(&str) -> T) -> Vec<T> {
    names.sort_unstable();
    names.dedup();
    names.into_iter().map(intern).collect()
}

/// A shard that takes less than all work is meant for a while, and must not be forgotten.
fn check_states(spec: &TopologySpec, findings: &mut Findings) {
    for (name, config) in &spec.shards {
        let effect = match config.state {
            ShardState::Open => continue,
            ShardState::ReadOnly => "its writes are refused",
            ShardState::Offline => "every checkout of it is refused",
        };
        findings.warning(
            format!("{}.state", key_of("shards", name)),
            format!(
                "shard {name} is {}: {effect} until its state is \"open\" again",
                config.state.as_str()
            ),
        );
    }
}

/// Names are interned here and not earlier, so that a refused description leaves none behind.
fn assemble(spec: &TopologySpec, nodes: &[Node<'_>]) -> Vec<Shard> {
    let mut shards = Vec::with_capacity(spec.shards.len());
    for (name, config) in &spec.shards {
        let mut own = nodes.iter().filter(|node| node.shard == name);
        let Some(primary) = own.find(|node| node.role == Role::Primary) else {
            continue;
        };
        shards.push(Shard {
            name: ShardName::intern(name),
            primary: primary.to_spec(),
            replicas: own.map(Node::to_spec).collect(),
            migrations: config.migrations.clone(),
            state: config.state,
            tables: None,
        });
    }
    shards
}

/// The key of something that has a name; one that would fall apart at its dots is quoted.
pub(crate) fn key_of(table: &str, name: &str) -> String {
    if name.is_empty() || name.contains(|c: char| c == '.' || c.is_whitespace()) {
        format!("{table}.{name:?}")
    } else {
        format!("{table}.{name}")
    }
}

/// What counts as one name: upper and lower case, `-` and `_` are told apart neither by the
/// environment nor by every operator.
pub(crate) fn normalized(name: &str) -> String {
    name.chars()
        .map(|c| match c {
            '-' => '_',
            other => other.to_ascii_lowercase(),
        })
        .collect()
}

fn is_name(name: &str) -> bool {
    (1..=MAX_NAME).contains(&name.len())
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
}

fn check_names(table: &str, what: &str, names: &[&str], findings: &mut Findings) {
    let mut seen: HashMap<String, &str> = HashMap::new();
    for name in names {
        let key = key_of(table, name);
        if !is_name(name) {
            findings.problem(
                &key,
                format!(
                    "{name:?} is no name for a {what}: use 1 to {MAX_NAME} letters, digits, `-` and `_`, and begin with a letter or digit"
                ),
            );
        }
        match seen.insert(normalized(name), name) {
            Some(other) if other == *name => {
                findings.problem(&key, format!("{what} {name} is declared more than once"));
            }
            Some(other) => findings.problem(
                &key,
                format!(
                    "{what} {name} and {what} {other} have the same name once case and `-` and `_` are disregarded, as in environment variables: rename one"
                ),
            ),
            None => {}
        }
    }
}

/// The message about a name that is not there.
pub(crate) fn unknown(what: &str, name: &str, known: &[&str]) -> String {
    let mut sorted = known.to_vec();
    sorted.sort_unstable();
    let hint = match nearest(name, sorted.iter().copied()) {
        Some(i) => format!(", did you mean {}?", sorted[i]),
        None => String::new(),
    };
    format!("unknown {what} {name:?}{hint} ({what}s: {})", list(&sorted))
}

/// Names in a message; a fleet of a thousand shards must not fill a log line.
pub(crate) fn list(names: &[&str]) -> String {
    const SHOWN: usize = 16;
    match names {
        [] => "none".to_owned(),
        names if names.len() > SHOWN => format!(
            "{} and {} more",
            names[..SHOWN].join(", "),
            names.len() - SHOWN
        ),
        names => names.join(", "),
    }
}
