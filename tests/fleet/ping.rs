//! `ping` on real databases, and on some that are not there.

use super::backend::Fleet;
use crate::harness::{Stage, shards};
use crate::support::proxy::Proxy;

fn config(fleet: &Fleet) -> String {
    let names = fleet.shards();
    shards(names.iter().map(|name| (name.as_str(), fleet.url(name))))
}

/// A URL of this backend where nobody is.
fn nowhere(fleet: &Fleet) -> String {
    let url = fleet.url("a");
    match url::Url::parse(&url) {
        Ok(mut url) => {
            url.set_port(Some(1)).expect("a URL with a host");
            url.into()
        }
        Err(_) => format!("{url}.not-there"),
    }
}

#[test]
fn every_node_answers() {
    let fleet = Fleet::new(&["a", "b"]);
    let stage = Stage::new(&config(&fleet));
    let output = stage.run(&["ping"]).exits(0);
    assert!(output.stdout.contains("2 of 2 nodes well"), "{output:#?}");
    assert!(output.stdout.contains("read-write"), "{output:#?}");

    let output = stage.run(&["ping", "--format", "json", "-s", "b"]).exits(0);
    let answered = output.events_named("node_answered");
    assert_eq!(answered.len(), 1);
    assert_eq!(answered[0]["shard"], "b");
    assert_eq!(answered[0]["read_only"], false);
    assert!(answered[0]["latency_seconds"].as_f64().unwrap() > 0.0);
    let version = answered[0]["version"].as_str().unwrap().to_lowercase();
    assert!(
        ["sqlite 3.", "postgresql 1", "mariadb 1", "mysql "]
            .iter()
            .any(|known| version.starts_with(known)),
        "{version}"
    );
}

#[test]
fn one_node_down_is_named_and_the_others_answer() {
    let fleet = Fleet::new(&["a", "b"]);
    let gone = nowhere(&fleet);
    let config = format!("{}{}", config(&fleet), shards([("c", gone.clone())]));
    let stage = Stage::new(&config);
    let output = stage.run(&["ping"]).exits(1);
    assert!(output.stdout.contains("2 of 3 nodes well"), "{output:#?}");
    assert!(output.stdout.contains("shard c (primary)"), "{output:#?}");
    let output = stage.run(&["ping", "--format", "json"]).exits(1);
    assert_eq!(output.events_named("node_answered").len(), 2);
    let failed = output.events_named("node_failed");
    assert_eq!(failed[0]["shard"], "c");
    assert!(
        ["refused", "unreachable"].contains(&failed[0]["cause"].as_str().unwrap()),
        "{failed:?}"
    );
    assert_eq!(output.events_named("ping_finished")[0]["failed"], 1);
    // Asking makes nothing.
    assert!(!std::path::Path::new(&gone).exists());
}

/// Two ways to one database are found where the URLs do not show it: through another port, or under
/// another name.
#[test]
fn two_shards_on_one_database_are_found() {
    let fleet = Fleet::new(&["a"]);
    let url = fleet.url("a");
    let (other, _proxy) = if url.contains("://") {
        let proxy = Proxy::new(&url);
        (proxy.url(&url), Some(proxy))
    } else {
        let link = format!("{url}.link");
        std::fs::hard_link(&url, &link).expect("a hard link");
        (link, None)
    };
    let config = format!("{}{}", config(&fleet), shards([("b", other)]));
    let output = Stage::new(&config).run(&["ping"]).exits(1);
    assert!(
        output
            .stdout
            .contains("shard b (primary) is the same database as shard a (primary)"),
        "{output:#?}"
    );
    let shared = format!("shared_database = true\n{config}");
    Stage::new(&shared).run(&["ping"]).exits(0);
}

#[test]
fn patterns_choose_and_mistakes_are_named() {
    let fleet = Fleet::new(&["order-0", "order-1", "stock"]);
    let config = format!(
        "{}[keyspaces.orders]\nshards = [\"order-0\", \"order-1\"]\n",
        config(&fleet)
    );
    let stage = Stage::new(&config);
    let asked = |args: &[&str]| -> Vec<String> {
        let args = [&["ping", "--format", "json"], args].concat();
        let output = stage.run(&args).exits(0);
        let answered = output.events_named("node_answered");
        let shards = answered.iter().map(|event| event["shard"].as_str());
        shards.map(|shard| shard.unwrap().to_owned()).collect()
    };
    assert_eq!(asked(&["--shard", "order-*"]), ["order-0", "order-1"]);
    assert_eq!(asked(&["--shard", "{stock,order-1}"]), ["order-1", "stock"]);
    assert_eq!(asked(&["-s", "stock", "-s", "order-0"]), ["order-0", "stock"]);
    assert_eq!(asked(&["--keyspace", "ord*"]), ["order-0", "order-1"]);
    assert_eq!(asked(&["-k", "orders", "-s", "*-1"]), ["order-1"]);
    for (args, expected) in [
        (&["--shard", "oder-0"][..], "did you mean order-0?"),
        (&["--shard", "x-*"], "unknown shard"),
        (&["--keyspace", "oders"], "did you mean orders?"),
        (&["--shard", "stock", "--keyspace", "orders"], "nothing to do"),
        (&["--shard", "[a"], "no pattern"),
    ] {
        let args = [&["ping"], args].concat();
        let output = stage.run(&args).exits(2);
        assert!(output.stderr.contains(expected), "{expected}: {output:#?}");
    }
}
