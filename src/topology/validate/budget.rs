//! The connection budget: what all processes together may open to one server.

use std::collections::BTreeMap;

use super::super::spec::BudgetConfig;
use super::super::url::Server;
use super::Findings;
use super::nodes::Node;

pub(super) fn check(budget: &BudgetConfig, nodes: &[Node<'_>], findings: &mut Findings) {
    let mut sound = true;
    if budget.connections_per_server == 0 {
        findings.problem(
            "budget.connections_per_server",
            "a server that takes no connection serves nobody: give it at least 1",
        );
        sound = false;
    }
    if budget.instances == 0 {
        findings.problem(
            "budget.instances",
            "there is at least this one process: say 1 or more",
        );
        sound = false;
    }
    if !(budget.headroom > 0.0 && budget.headroom <= 1.0) {
        findings.problem(
            "budget.headroom",
            "must be above 0 and at most 1: it is the part of the server's connections that may be used",
        );
        sound = false;
    }
    if !sound {
        return;
    }

    let mut by_server: BTreeMap<Server, Vec<&Node<'_>>> = BTreeMap::new();
    for node in nodes {
        // A node with several hosts connects to one of them at a time, and it may be any.
        for server in node.url.servers() {
            by_server.entry(server).or_default().push(node);
        }
    }
    // Rounded up by less than a connection, since 0.8 has no exact value in binary.
    let allowed = (f64::from(budget.connections_per_server) * budget.headroom + 1e-6).floor();
    for (server, nodes) in by_server {
        let pools = pools(&nodes);
        let sum: u64 = pools.iter().map(|(_, size)| size).sum();
        let total = sum.saturating_mul(u64::from(budget.instances));
        if total as f64 <= allowed {
            continue;
        }
        findings.problem(
            "budget",
            format!(
                "{server} may be asked for {total} connections ({} = {sum}, times {} instance(s)), but {allowed} are allowed ({} x {}): lower max_size, or raise the budget",
                contributors(&pools),
                budget.instances,
                budget.connections_per_server,
                budget.headroom,
            ),
        );
    }
}

/// Every pool of these nodes: how a message calls it, and its size.
fn pools(nodes: &[&Node<'_>]) -> Vec<(String, u64)> {
    let mut pools = Vec::new();
    for node in nodes {
        pools.push((node.label.clone(), u64::from(node.pool.max_size)));
        for (class, pool) in &node.classes {
            let label = format!("{} class {class}", node.label);
            pools.push((label, u64::from(pool.max_size)));
        }
    }
    pools
}

fn contributors(pools: &[(String, u64)]) -> String {
    const SHOWN: usize = 8;
    let (shown, rest) = pools.split_at(pools.len().min(SHOWN));
    let mut parts: Vec<String> = shown
        .iter()
        .map(|(label, size)| format!("{label} {size}"))
        .collect();
    if !rest.is_empty() {
        let sum: u64 = rest.iter().map(|(_, size)| size).sum();
        parts.push(format!("{} more pools {sum}", rest.len()));
    }
    parts.join(" + ")
}
