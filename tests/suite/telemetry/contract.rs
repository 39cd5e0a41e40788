//! The names are a contract: what the source emits, docs/operations.md lists, and the dashboard asks
//! for are the same.

use std::collections::{BTreeMap, BTreeSet};

use diesel::connection::SimpleConnection;
use diesel_sharded::PoolConfig;

use super::plain;
use super::recorder::Metrics;
use crate::support::sqlite::{Fleet, insert};

const SOURCE: &str = concat!(
    include_str!("../../../src/telemetry.rs"),
    include_str!("../../../src/telemetry/meters.rs"),
    include_str!("../../../src/telemetry/spans.rs"),
);
const DOCS: &str = include_str!("../../../docs/operations.md");
const DASHBOARD: &str = include_str!("../../../docs/grafana-dashboard.json");

/// All words of a text that begin like our metrics.
fn metrics_in(text: &str) -> BTreeSet<String> {
    let word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    text.match_indices("diesel_sharded_")
        .filter(|(at, _)| !text[..*at].ends_with(word))
        .map(|(at, _)| {
            let rest = &text[at..];
            let end = rest.find(|c| !word(c)).unwrap_or(rest.len());
            rest[..end].to_owned()
        })
        .collect()
}

/// The metrics of the source: its string literals.
fn emitted() -> BTreeSet<String> {
    let literals = SOURCE.split('"').skip(1).step_by(2);
    literals
        .filter(|literal| literal.starts_with("diesel_sharded_"))
        .map(str::to_owned)
        .collect()
}

/// The table of the docs: of each metric its type and its labels.
fn documented() -> BTreeMap<String, (String, BTreeSet<String>)> {
    DOCS.lines()
        .filter(|line| line.starts_with("| `diesel_sharded_"))
        .map(|line| {
            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            let labels = cells[3].split('`').skip(1).step_by(2).map(str::to_owned);
            (
                cells[1].trim_matches('`').to_owned(),
                (cells[2].to_owned(), labels.collect()),
            )
        })
        .collect()
}

#[test]
fn every_metric_is_documented_and_every_documented_metric_exists() {
    let documented: BTreeSet<String> = documented().into_keys().collect();
    assert_eq!(emitted(), documented);
    // In running text too nothing is mentioned that is not there, as an exporter spells it.
    let others = ["diesel_sharded_identity"];
    for name in metrics_in(DOCS) {
        if !documented.contains(&name) && !others.contains(&name.as_str()) {
            base(&name);
        }
    }
}

/// The events of the source: level, message, fields.
fn events() -> BTreeSet<(String, String, Vec<String>)> {
    let calls = SOURCE.split("event!(").skip(1);
    calls
        .map(|call| {
            let end = call.find(");\n").expect("the call ends");
            let mut parts = call[..end].split(',').map(str::trim);
            let level = parts.next().unwrap_or_default().to_uppercase();
            // A message may have a comma of its own.
            let (mut fields, mut message) = (Vec::new(), Vec::new());
            for part in parts.filter(|part| !part.is_empty()) {
                if part.starts_with('"') || !message.is_empty() {
                    message.push(part.trim_matches('"'));
                } else {
                    let name = part.split('=').next().unwrap_or_default();
                    fields.push(name.trim().to_owned());
                }
            }
            (level, message.join(", "), fields)
        })
        .collect()
}

#[test]
fn every_event_is_documented_and_every_documented_event_exists() {
    let documented: BTreeSet<_> = DOCS
        .lines()
        .filter(|line| {
            let levels = ["ERROR", "WARN", "INFO", "DEBUG", "TRACE"];
            levels
                .iter()
                .any(|level| line.starts_with(&format!("| `{level}` |")))
        })
        .map(|line| {
            let mut marked = line.split('`').skip(1).step_by(2).map(str::to_owned);
            let level = marked.next().unwrap_or_default();
            let message = marked.next().unwrap_or_default();
            (level, message, marked.collect())
        })
        .collect();
    assert_eq!(events(), documented);
}

/// The metric behind a name in Prometheus; fails where there is none.
fn base(name: &str) -> String {
    let documented = documented();
    if let Some((kind, _)) = documented.get(name) {
        assert_ne!(kind, "histogram", "{name} needs _bucket, _sum or _count");
        return name.to_owned();
    }
    let base = ["_bucket", "_sum", "_count"]
        .iter()
        .find_map(|suffix| name.strip_suffix(suffix));
    match base.and_then(|base| documented.get_key_value(base)) {
        Some((base, (kind, _))) if kind == "histogram" => base.clone(),
        _ => panic!("there is no metric {name}"),
    }
}

/// The queries of all panels and variables.
fn queries() -> Vec<String> {
    fn collect(value: &serde_json::Value, found: &mut Vec<String>) {
        match value {
            serde_json::Value::Object(fields) => {
                for (name, value) in fields {
                    match value.as_str() {
                        Some(text) if name == "expr" || name == "query" => {
                            found.push(text.to_owned());
                        }
                        _ => collect(value, found),
                    }
                }
            }
            serde_json::Value::Array(values) => {
                values.iter().for_each(|value| collect(value, found));
            }
            _ => {}
        }
    }
    let mut found = Vec::new();
    collect(
        &serde_json::from_str(DASHBOARD).expect("the dashboard is JSON"),
        &mut found,
    );
    found.retain(|query| query != "prometheus");
    found
}

#[test]
fn every_query_of_the_dashboard_names_a_metric_and_labels_that_exist() {
    let documented = documented();
    let queries = queries();
    assert!(queries.len() > 10, "{queries:?}");
    let mut asked_for = BTreeSet::new();
    for query in &queries {
        let names = metrics_in(query);
        assert!(!names.is_empty(), "{query}");
        let mut labels: BTreeSet<String> = ["instance", "job", "le"].map(str::to_owned).into();
        for name in &names {
            let base = base(name);
            labels.extend(documented[&base].1.iter().cloned());
            asked_for.insert(base);
        }
        for label in labels_in(query) {
            assert!(labels.contains(&label), "{label:?} in {query}");
        }
    }
    let missing: Vec<_> = documented
        .keys()
        .filter(|name| !asked_for.contains(*name))
        .collect();
    assert!(missing.is_empty(), "no panel shows {missing:?}");
}

/// The labels of a query: in `by (..)`, and before `=`, `=~`, `!=` in braces or a call.
fn labels_in(query: &str) -> BTreeSet<String> {
    let mut labels = BTreeSet::new();
    for (at, _) in query.match_indices("by (") {
        let list = &query[at + 4..];
        let end = list.find(')').expect("the list ends");
        labels.extend(list[..end].split(',').map(|label| label.trim().to_owned()));
    }
    for (at, _) in query.match_indices('{') {
        let list = &query[at + 1..];
        let end = list.find('}').expect("the list ends");
        for pair in list[..end].split(',') {
            let name = pair.split(['=', '!']).next().unwrap_or_default();
            labels.insert(name.trim().to_owned());
        }
    }
    if let Some((_, label)) = query
        .strip_prefix("label_values(")
        .and_then(|inner| inner.strip_suffix(')'))
        .and_then(|inner| inner.rsplit_once(','))
    {
        labels.insert(label.trim().to_owned());
    }
    labels
}

/// Labels are read off what is really recorded.
#[test]
fn every_metric_has_the_labels_of_the_docs() {
    let fleet = Fleet::new(&["a"]);
    let metrics = Metrics::default();
    metrics.during(|| {
        let shards = plain(&fleet)
            .default_shard("a")
            .pool(PoolConfig::new().connection_timeout(std::time::Duration::from_secs(1)))
            .shard("gone", "/no/such/folder/gone.db")
            .shard("tight", fleet.url("a") + ".tight")
            .build()
            .unwrap();
        let _ = shards.get_on("gone");
        let _ = shards.get_on("nowhere");
        shards
            .transaction_on("a", |conn| {
                conn.after_commit(|| std::panic::resume_unwind(Box::new("on purpose")));
                insert(conn, 1)
            })
            .unwrap();
        let mut conn = shards.get().unwrap();
        conn.batch_execute("BEGIN IMMEDIATE").unwrap();
        let again = shards.transaction_builder("a").retries(1);
        let _ = again.run(|conn| insert(conn, 2));
        drop(conn);
        let size_one = PoolConfig::new().max_size(1);
        let tight = diesel_sharded::ShardConfig::new(fleet.url("a") + ".tight").pool(size_one);
        shards
            .reload_with(|topology| topology.replace_shard("tight", tight))
            .unwrap();
        let held = shards.get_on("tight").unwrap();
        assert!(shards.get_on("tight").is_err());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                crate::support::eventually("somebody waits", || {
                    shards.status().nodes.iter().any(|node| node.waiting > 0)
                });
                drop(held);
            });
            // Whoever waits may give up before: the next one tries again.
            crate::support::eventually("it comes back", || shards.get_on("tight").is_ok());
        });
        let _ = shards.status();
    });
    let documented = documented();
    let shapes = metrics.shapes();
    for (name, labels) in &shapes {
        let expected: Vec<String> = documented[name].1.iter().cloned().collect();
        assert_eq!(*labels, expected, "{name}");
    }
    // A rollback that fails takes a server; its label is the shard, and `nodes` looks at it.
    let unseen: Vec<_> = documented
        .keys()
        .filter(|name| !shapes.contains_key(*name))
        .collect();
    assert_eq!(unseen, ["diesel_sharded_rollback_failures_total"]);
}
