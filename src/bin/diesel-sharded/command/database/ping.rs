//! `ping`: reach every node, replicas included, and say what it is.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use diesel_sharded::blocking::{NodeAnswer, ping_node};
use diesel_sharded::migrate::AnyConnection;
use diesel_sharded::{Error, NodeDescription, Role, ShardState, Topology, UrlKind};
use serde::Serialize;

use crate::context::Context;
use crate::exit::Exit;
use crate::failure::{CommandResult, Failure};
use crate::output::{BAD, DOUBTFUL, GOOD, counted, styled, table};
use crate::selection::Selection;

#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  diesel-sharded ping
  diesel-sharded ping --shard 'order-*'
  diesel-sharded ping --format json | jq 'select(.event == \"node_failed\")'

Each node gets one connection of its own, past all pools. LATENCY is one round trip, CONNECT the way \
there, login included. A primary that takes no writes counts as failed, and so do two shards whose \
URLs lead to one database. Exits with 1 when a node failed.")]
pub(crate) struct Args {
    #[command(flatten)]
    selection: Selection,

    /// How many nodes to ask at the same time
    #[arg(long, short = 'p', value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..))]
    parallel: u16,
}

#[derive(Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
enum Event<'a> {
    NodeAnswered {
        shard: &'a str,
        role: &'a str,
        url: String,
        version: &'a str,
        read_only: bool,
        connect_seconds: f64,
        latency_seconds: f64,
    },
    NodeFailed {
        shard: &'a str,
        role: &'a str,
        url: String,
        /// The word for why it is unavailable, where it is.
        #[serde(skip_serializing_if = "Option::is_none")]
        cause: Option<&'static str>,
        message: String,
    },
    Warning {
        message: &'a str,
    },
    PingFinished {
        nodes: usize,
        answered: usize,
        failed: usize,
    },
}

/// One node and what came of asking it.
struct Asked {
    node: NodeDescription,
    result: Result<NodeAnswer, Failure>,
}

pub(crate) fn run(args: &Args, context: &Context) -> CommandResult {
    let topology = context.topology()?;
    let shards = args.selection.resolve(&topology)?;
    let nodes: Vec<NodeDescription> = topology
        .nodes()
        .into_iter()
        .filter(|node| shards.contains(&node.shard))
        .collect();
    let mut asked = ask(&topology, nodes, args.parallel);
    let warnings = compare(&topology, &mut asked);
    show(context, &asked, &warnings);
    let worst = asked
        .iter()
        .filter_map(|one| one.result.as_ref().err().map(Failure::exit))
        .min_by_key(|exit| exit.code());
    Ok(worst.unwrap_or(Exit::Done))
}

/// Asks all nodes, some at a time; the answers are in the order of the nodes.
fn ask(topology: &Topology, nodes: Vec<NodeDescription>, parallel: u16) -> Vec<Asked> {
    let next = AtomicUsize::new(0);
    let (sender, answers) = mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..usize::from(parallel).min(nodes.len()) {
            let (sender, next, nodes) = (sender.clone(), &next, &nodes);
            scope.spawn(move || {
                while let Some((index, node)) = {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    nodes.get(index).map(|node| (index, node))
                } {
                    let result = ping_node::<AnyConnection>(topology, node);
                    let _ = sender.send((index, checked(node, result)));
                }
            });
        }
    });
    drop(sender);
    let mut results: BTreeMap<usize, Result<NodeAnswer, Failure>> = answers.into_iter().collect();
    nodes
        .into_iter()
        .enumerate()
        .filter_map(|(index, node)| {
            let result = results.remove(&index)?;
            Some(Asked { node, result })
        })
        .collect()
}

/// A primary has to take writes, unless the shard is closed to them.
fn checked(
    node: &NodeDescription,
    result: Result<NodeAnswer, Error>,
) -> Result<NodeAnswer, Failure> {
    let answer = result?;
    if answer.server.read_only && node.role == Role::Primary && node.state == ShardState::Open {
        let why = if node.url.kind() == Some(UrlKind::Sqlite) {
            "this user may not write its file, or its url says mode=ro or immutable; correct the rights, or the url"
        } else {
            "it is a standby, or set read-only; correct the url, or promote it"
        };
        return Err(Failure::Message {
            exit: Exit::ShardFailed,
            text: format!("shard {} (primary) takes no writes: {why}", node.shard),
        });
    }
    Ok(answer)
}

/// Two nodes that are one database. Two shards on one are a failure of the second; a replica that is
/// its own primary is worth a warning.
fn compare(topology: &Topology, asked: &mut [Asked]) -> Vec<String> {
    let mut warnings = Vec::new();
    let mut seen: BTreeMap<String, NodeDescription> = BTreeMap::new();
    // Primaries first, so that a replica is compared with its primary and not the other way round.
    let mut order: Vec<usize> = (0..asked.len()).collect();
    order.sort_by_key(|index| asked[*index].node.role);
    for index in order {
        let one = &mut asked[index];
        let Ok(answer) = &one.result else { continue };
        if answer.server.database.is_empty() {
            // A private in-memory database is nobody else's.
            continue;
        }
        let Some(other) = seen.get(&answer.server.database) else {
            seen.insert(answer.server.database.clone(), one.node.clone());
            continue;
        };
        if other.shard == one.node.shard {
            warnings.push(format!(
                "shard {}: the url of a {} leads to the same database as that of the {}",
                one.node.shard, one.node.role, other.role
            ));
        } else if !topology.shared_database() {
            one.result = Err(Failure::Message {
                exit: Exit::ShardFailed,
                text: format!(
                    "shard {} ({}) is the same database as shard {} ({}): correct one of the urls",
                    one.node.shard, one.node.role, other.shard, other.role
                ),
            });
        }
    }
    warnings
}

fn show(context: &Context, asked: &[Asked], warnings: &[String]) {
    let output = context.output();
    let mut rows = table(["SHARD", "ROLE", "LATENCY", "CONNECT", "SERVER", "SAYS"]);
    for Asked { node, result } in asked {
        let (shard, role) = (node.shard.as_str(), node.role.as_str());
        match result {
            Ok(answer) => {
                let says = if answer.server.read_only {
                    "read-only"
                } else {
                    "read-write"
                };
                rows.add_row([
                    shard,
                    role,
                    &millis(answer.latency),
                    &millis(answer.connect),
                    &answer.server.version,
                    says,
                ]);
                output.event(&Event::NodeAnswered {
                    shard,
                    role,
                    url: node.url.to_string(),
                    version: &answer.server.version,
                    read_only: answer.server.read_only,
                    connect_seconds: answer.connect.as_secs_f64(),
                    latency_seconds: answer.latency.as_secs_f64(),
                });
            }
            Err(failure) => {
                rows.add_row([shard, role, "-", "-", "-", "FAILED"]);
                output.event(&Event::NodeFailed {
                    shard,
                    role,
                    url: node.url.to_string(),
                    cause: failure.unavailable(),
                    message: failure.to_string(),
                });
            }
        }
    }
    output.table(&rows);
    output.line("");
    for failure in asked.iter().filter_map(|one| one.result.as_ref().err()) {
        output.line(format_args!("{}: {failure}", styled(BAD, "failed")));
    }
    for message in warnings {
        output.line(format_args!("{}: {message}", styled(DOUBTFUL, "warning")));
        output.event(&Event::Warning { message });
    }
    let answered = asked.iter().filter(|one| one.result.is_ok()).count();
    let style = if answered == asked.len() { GOOD } else { BAD };
    output.line(styled(
        style,
        format_args!("{answered} of {} well", counted(asked.len(), "node")),
    ));
    output.event(&Event::PingFinished {
        nodes: asked.len(),
        answered,
        failed: asked.len() - answered,
    });
}

fn millis(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1e3)
}
