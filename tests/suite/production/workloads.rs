//! Workload classes: batch work has pools of its own and never takes the web's connections.

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use diesel_sharded::{Config, Error, Format, PoolConfig};

use super::backend::{Fleet, Manager, insert, whoami};
use crate::support::{eventually, pool, said};

fn with_batch(fleet: &Fleet) -> Manager {
    fleet
        .builder_of_size(2)
        .workload("batch", PoolConfig::new().max_size(1))
        .build()
        .unwrap()
}

/// `shard/class: connections in use of max_size`, for pools that have any open.
fn used(shards: &Manager) -> Vec<String> {
    let nodes = shards.status().nodes;
    nodes
        .iter()
        .filter(|node| node.connections > node.idle)
        .map(|node| {
            let class = node.class.map_or("-", |class| class.as_str());
            format!(
                "{}/{class}: {} of {}",
                node.shard,
                node.connections - node.idle,
                node.max_size
            )
        })
        .collect()
}

#[test]
fn a_class_has_a_pool_of_its_own_on_every_node() {
    let fleet = Fleet::new(&["a", "b"]);
    let shards = with_batch(&fleet);
    let nodes: Vec<_> = shards
        .status()
        .nodes
        .iter()
        .map(|node| {
            let class = node.class.map(|class| class.to_string());
            (
                node.shard.to_string(),
                class,
                node.max_size,
                node.connections,
            )
        })
        .collect();
    let node = |shard: &str, class: Option<&str>, size| {
        (shard.to_owned(), class.map(str::to_owned), size, 0)
    };
    assert_eq!(
        nodes,
        [
            node("a", None, 2),
            node("a", Some("batch"), 1),
            node("b", None, 2),
            node("b", Some("batch"), 1)
        ]
    );
    let batch = shards.route("b").unwrap().workload("batch").unwrap();
    assert_eq!(batch.workload_class().unwrap().as_str(), "batch");
    batch
        .run(|| {
            let mut conn = shards.get()?;
            assert_eq!(whoami(&mut conn)?, "b");
            assert_eq!(used(&shards), ["b/batch: 1 of 1"]);
            Ok::<_, Error>(())
        })
        .unwrap();
    let _web = shards.get_on("b").unwrap();
    assert_eq!(used(&shards), ["b/-: 1 of 2"]);
}

#[test]
fn work_that_uses_up_a_class_takes_nothing_from_the_others() {
    let fleet = Fleet::new(&["a"]);
    let short = PoolConfig::new()
        .max_size(1)
        .connection_timeout(Duration::from_millis(700));
    let shards = fleet.builder().workload("batch", short).build().unwrap();
    let batch = shards.route("a").unwrap().workload("batch").unwrap();
    let held = batch.run(|| shards.get()).unwrap();
    let waits = Barrier::new(2);
    thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            waits.wait();
            let began = Instant::now();
            let error = batch.run(|| shards.get().map(drop)).unwrap_err();
            (error, began.elapsed())
        });
        waits.wait();
        eventually("the second batch job waits", || {
            shards.status().nodes[1].waiting == 1 || waiting.is_finished()
        });
        for id in 0..50 {
            let began = Instant::now();
            insert(&mut shards.get_on("a").unwrap(), id).unwrap();
            assert!(began.elapsed() < Duration::from_secs(2));
        }
        let (error, waited) = waiting.join().unwrap();
        assert!(
            matches!(error, Error::PoolExhausted { size: 1, .. }),
            "{error:?}"
        );
        assert!(waited < Duration::from_secs(5), "{waited:?}");
    });
    drop(held);
    batch.run(|| whoami(&mut shards.get()?)).unwrap();
}

#[test]
fn a_class_is_inherited_by_everything_beneath_and_left_with_its_scope() {
    let fleet = Fleet::new(&["a", "b"]);
    let shards = with_batch(&fleet);
    let batch = shards.route("a").unwrap().workload("batch").unwrap();
    batch
        .run(|| {
            shards.on("b", || {
                let _conn = shards.get()?;
                assert_eq!(used(&shards), ["b/batch: 1 of 1"]);
                Ok::<_, Error>(())
            })?;
            shards.transaction_on("b", |conn| {
                assert_eq!(used(&shards), ["b/batch: 1 of 1"]);
                assert_eq!(whoami(conn)?, "b");
                Ok::<_, Error>(())
            })?;
            let named = shards.get_on("b")?;
            assert_eq!(used(&shards), ["b/batch: 1 of 1"]);
            drop(named);
            // As on a fresh thread: no class either.
            shards.independent(|| {
                let _conn = shards.get_on("b")?;
                assert_eq!(used(&shards), ["b/-: 1 of 2"]);
                Ok::<_, Error>(())
            })?;
            let captured = diesel_sharded::Route::capture();
            thread::scope(|scope| {
                let carried = scope.spawn(|| {
                    captured.run(|| {
                        let _conn = shards.get()?;
                        Ok::<_, Error>(used(&shards))
                    })
                });
                assert_eq!(carried.join().unwrap().unwrap(), ["a/batch: 1 of 1"]);
            });
            Ok::<_, Error>(())
        })
        .unwrap();
    shards
        .transaction_on("a", |_| {
            assert_eq!(used(&shards), ["a/-: 1 of 2"]);
            Ok::<_, Error>(())
        })
        .unwrap();
}

#[test]
fn an_unknown_class_is_told_with_those_that_exist() {
    let fleet = Fleet::new(&["a"]);
    let shards = with_batch(&fleet);
    for name in ["bach", "", "Batch"] {
        let error = shards.route("a").unwrap().workload(name).unwrap_err();
        let Error::UnknownWorkload { workload, known } = &error else {
            panic!("{error:?}");
        };
        assert_eq!(workload, name);
        assert_eq!(known.len(), 1);
        assert!(said(&error).contains("batch"));
    }
    let none = fleet.manager().route("a").unwrap().workload("batch");
    assert!(matches!(none, Err(Error::UnknownWorkload { known, .. }) if known.is_empty()));
}

#[test]
fn a_class_travels_in_the_text_form_of_a_route() {
    let fleet = Fleet::new(&["a"]);
    let shards = with_batch(&fleet);
    let text = shards
        .route("a")
        .unwrap()
        .workload("batch")
        .unwrap()
        .to_string();
    assert_eq!(text, "v1;shard=a;class=batch");
    let read = shards.parse_route(&text).unwrap();
    read.run(|| {
        let _conn = shards.get()?;
        assert_eq!(used(&shards), ["a/batch: 1 of 1"]);
        Ok::<_, Error>(())
    })
    .unwrap();
    let unknown = shards.parse_route("v1;shard=a;class=nightly");
    assert!(matches!(unknown, Err(Error::UnknownWorkload { .. })));
    let twice = shards.parse_route("v1;shard=a;class=batch;class=batch");
    assert!(matches!(twice, Err(Error::InvalidRoute { .. })));
    // A process that has no such class refuses, rather than use the web's connections.
    assert!(fleet.manager().parse_route(&text).is_err());
}

#[test]
fn a_scope_deadlocks_only_with_the_pool_it_holds() {
    let fleet = Fleet::new(&["a"]);
    let shards = with_batch(&fleet);
    let batch = shards.route("a").unwrap().workload("batch").unwrap();
    batch
        .run(|| {
            shards.transaction_on("a", |_| {
                // The web's pool has room; its own has not, and never will.
                shards.independent(|| shards.get_on("a").map(drop))?;
                let began = Instant::now();
                let own = shards.independent(|| batch.run(|| shards.get().map(drop)));
                let error = own.unwrap_err();
                assert!(
                    matches!(&error, Error::WouldDeadlock { shard, size: 1, .. } if *shard == "a"),
                    "{error:?}"
                );
                assert!(began.elapsed() < Duration::from_secs(4), "at once");
                Ok::<_, Error>(())
            })
        })
        .unwrap();
    // And the other way round: web transactions do not count against the class.
    shards
        .transaction_on("a", |_| {
            shards.independent(|| batch.run(|| shards.get().map(drop)))
        })
        .unwrap();
}

#[test]
fn classes_come_and_go_with_the_configuration() {
    let fleet = Fleet::new(&["a"]);
    let config = |more: &str| {
        let text = format!("[shards.a]\nurl = {:?}\n{more}", fleet.url("a"));
        Config::from_str(&text, Format::Toml).unwrap()
    };
    let shards = Manager::from_config(&config("")).unwrap();
    assert!(shards.route("a").unwrap().workload("batch").is_err());
    shards
        .reload(&config("[pools.batch]\nmax_size = 3\n"))
        .unwrap();
    let batch = shards.route("a").unwrap().workload("batch").unwrap();
    let name = batch.run(|| Ok::<_, Error>(whoami(&mut shards.get()?)?));
    assert_eq!(name.unwrap(), "a");
    assert_eq!(shards.status().nodes[1].max_size, 3);
    shards
        .reload_with(|topology| topology.workload("nightly", pool(1)))
        .unwrap();
    batch.run(|| shards.get().map(drop)).unwrap();
    // The class of a route that is still around is gone: an error, not the web's pool.
    shards.reload(&config("")).unwrap();
    let gone = batch.run(|| shards.get().map(drop)).unwrap_err();
    assert!(matches!(gone, Error::UnknownWorkload { .. }), "{gone:?}");
    assert_eq!(shards.status().nodes.len(), 1);
}

#[test]
fn an_outer_pool_obeys_the_class() {
    let fleet = Fleet::new(&["a"]);
    let shards = with_batch(&fleet);
    let outer = shards.clone().into_pool();
    let batch = shards.route("a").unwrap().workload("batch").unwrap();
    batch
        .run(|| {
            let mut conn = outer.get().unwrap();
            assert_eq!(whoami(&mut conn)?, "a");
            assert_eq!(used(&shards), ["a/batch: 1 of 1"]);
            Ok::<_, Error>(())
        })
        .unwrap();
}
