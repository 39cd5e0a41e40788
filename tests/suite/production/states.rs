//! Shards that are open, read-only or offline, and what that does to work under way.

use std::sync::Barrier;
use std::thread;

use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use diesel_sharded::{
    Config, Error, Format, KeyspaceConfig, RuleSpec, ShardConfig, ShardState, Startup,
};

use super::super::pool::counted;
use super::backend::{Fleet, Manager, ids, insert, whoami};
use crate::support::{items, ours, said};

fn assert_read_only(error: &(impl std::error::Error + 'static)) {
    let error = ours(error);
    let Error::ShardReadOnly { shard, source } = error else {
        panic!("{error:?}");
    };
    assert_eq!(*shard, "a");
    assert!(source.is_some(), "what the database said is kept");
    assert!(said(error).contains("shard a"));
}

type Write = fn(&Manager, i64) -> Result<(), Error>;

fn sql(id: i64) -> String {
    format!("INSERT INTO items (id) VALUES ({id})")
}

fn is_read_only(error: &Error) -> bool {
    matches!(error, Error::ShardReadOnly { shard, source: Some(_) } if *shard == "a")
}

/// Every way to write.
const WRITES: [(&str, Write); 9] = [
    ("execute", |shards, id| {
        Ok(insert(&mut shards.get_on("a")?, id).map(drop)?)
    }),
    ("batch_execute", |shards, id| {
        Ok(shards.get_on("a")?.batch_execute(&sql(id))?)
    }),
    ("sql_query", |shards, id| {
        let mut conn = shards.get_on("a")?;
        Ok(diesel::sql_query(sql(id)).execute(&mut conn).map(drop)?)
    }),
    ("update", |shards, id| {
        let mut conn = shards.get_on("a")?;
        let note = items::note.eq(id.to_string());
        Ok(diesel::update(items::table)
            .set(note)
            .execute(&mut conn)
            .map(drop)?)
    }),
    ("transaction_on", |shards, id| {
        shards.transaction_on("a", |conn| Ok(insert(conn, id).map(drop)?))
    }),
    ("batch_execute in transaction_on", |shards, id| {
        shards.transaction_on("a", |conn| Ok(conn.batch_execute(&sql(id))?))
    }),
    ("a savepoint", |shards, id| {
        shards.transaction_on("a", |conn| {
            conn.transaction(|conn| Ok::<_, Error>(insert(conn, id).map(drop)?))
        })
    }),
    ("transaction", |shards, id| {
        let mut conn = shards.get_on("a")?;
        conn.transaction(|conn| Ok::<_, Error>(insert(conn, id).map(drop)?))
    }),
    ("definition", |shards, _| {
        let mut conn = shards.get_on("a")?;
        Ok(conn.batch_execute("CREATE TABLE more (id INT)")?)
    }),
];

#[test]
fn a_read_only_shard_reads_and_refuses_every_write() {
    let fleet = Fleet::new(&["a", "b"]);
    let shards = fleet.manager_of_size(1);
    insert(&mut shards.get_on("a").unwrap(), 1).unwrap();
    shards.set_shard_state("a", ShardState::ReadOnly).unwrap();
    assert_eq!(shards.status().nodes[0].state, ShardState::ReadOnly);
    for turn in 0..2 {
        let mut passed = Vec::new();
        for (what, write) in WRITES {
            match write(&shards, 2) {
                Err(error) if is_read_only(&error) => {}
                other => passed.push(format!("{what} (turn {turn}): {other:?}")),
            }
        }
        assert!(passed.is_empty(), "{}", passed.join("\n"));
        assert_eq!(ids(&mut shards.get_on("a").unwrap()), Ok(vec![1]));
        let read = shards.transaction_on("a", |conn| Ok::<_, Error>(ids(conn)?));
        assert_eq!(read.unwrap(), [1]);
    }
    assert_eq!(fleet.rows("a"), [1]);
    // The other shard is not concerned.
    insert(&mut shards.get_on("b").unwrap(), 1).unwrap();
}

#[test]
fn a_raw_connection_of_a_read_only_shard_does_not_write_either() {
    let fleet = Fleet::new(&["a"]);
    let shards = fleet.manager_of_size(1);
    shards.set_shard_state("a", ShardState::ReadOnly).unwrap();
    let mut conn = shards.get_on("a").unwrap();
    insert(&mut *conn.inner().unwrap(), 1).unwrap_err();
    drop(conn);
    assert_eq!(fleet.rows("a"), [0_i64; 0]);
}

#[test]
fn back_to_open_the_same_connection_writes_again() {
    let fleet = Fleet::new(&["a"]);
    let (shards, connects) = counted(&fleet, 1);
    for turn in 0..3 {
        insert(&mut shards.get_on("a").unwrap(), turn * 10).unwrap();
        shards.set_shard_state("a", ShardState::ReadOnly).unwrap();
        assert_read_only(&insert(&mut shards.get_on("a").unwrap(), 99).unwrap_err());
        shards.set_shard_state("a", ShardState::Open).unwrap();
        insert(&mut shards.get_on("a").unwrap(), turn * 10 + 1).unwrap();
        shards
            .transaction_on("a", |conn| Ok::<_, Error>(insert(conn, turn * 10 + 2)?))
            .unwrap();
    }
    assert_eq!(fleet.rows("a"), [0, 1, 2, 10, 11, 12, 20, 21, 22]);
    assert_eq!(connects(), 1, "no connection was thrown away for it");
}

#[test]
fn the_session_reset_does_not_open_a_read_only_shard() {
    let fleet = Fleet::new(&["a"]);
    let shards = fleet
        .builder_of_size(1)
        .reset_sessions(true)
        .build()
        .unwrap();
    shards.set_shard_state("a", ShardState::ReadOnly).unwrap();
    for _ in 0..3 {
        whoami(&mut shards.get_on("a").unwrap()).unwrap();
        let written = insert(&mut shards.get_on("a").unwrap(), 1);
        assert_read_only(&written.expect_err("a write to a read-only shard"));
    }
    assert_eq!(fleet.rows("a"), [0_i64; 0]);
    shards.set_shard_state("a", ShardState::Open).unwrap();
    insert(&mut shards.get_on("a").unwrap(), 1).unwrap();
}

#[test]
fn an_offline_shard_refuses_at_once_and_opens_nothing() {
    let fleet = Fleet::new(&["a", "b"]);
    let shards = fleet
        .builder()
        .keyspace("k", KeyspaceConfig::new(RuleSpec::modulo(["a"])))
        .default_shard("a")
        .build()
        .unwrap();
    let route = shards.route("a").unwrap();
    shards.set_shard_state("a", ShardState::Offline).unwrap();
    let keyspace = shards.keyspace("k").unwrap();
    let nothing = |_: &mut super::backend::Sharded| Ok::<(), Error>(());
    let refusals = [
        ("get_on", shards.get_on("a").map(drop)),
        ("get", shards.get().map(drop)),
        ("on", shards.on("a", || shards.get().map(drop))),
        ("a route", route.run(|| shards.get().map(drop))),
        ("transaction_on", shards.transaction_on("a", nothing)),
        ("keyspace", keyspace.get(&1_i64).map(drop)),
        ("transaction_for", keyspace.transaction_for(&1_i64, nothing)),
        (
            "retries",
            shards.transaction_builder("a").retries(3).run(nothing),
        ),
    ];
    for (what, refused) in refusals {
        let error = refused.expect_err(what);
        assert!(
            matches!(&error, Error::ShardOffline { shard } if *shard == "a"),
            "{what}: {error:?}"
        );
        assert_eq!(error.shard().unwrap(), "a");
    }
    assert_eq!(shards.status().nodes[0].connections, 0);
    assert_eq!(shards.status().nodes[0].down, None, "it is not down");
    assert_eq!(whoami(&mut shards.get_on("b").unwrap()).unwrap(), "b");
    shards.set_shard_state("a", ShardState::Open).unwrap();
    assert_eq!(whoami(&mut shards.get().unwrap()).unwrap(), "a");
}

#[test]
fn work_under_way_finishes_as_it_began() {
    let fleet = Fleet::new(&["a", "b"]);
    let shards = fleet.manager();
    for (shard, state) in [("a", ShardState::ReadOnly), ("b", ShardState::Offline)] {
        let (inside, changed) = (Barrier::new(2), Barrier::new(2));
        thread::scope(|scope| {
            let running = scope.spawn(|| {
                shards.transaction_on(shard, |conn| {
                    insert(conn, 1)?;
                    inside.wait();
                    changed.wait();
                    insert(conn, 2)?;
                    Ok::<_, Error>(())
                })
            });
            inside.wait();
            shards.set_shard_state(shard, state).unwrap();
            changed.wait();
            running.join().unwrap().unwrap();
        });
        assert_eq!(fleet.rows(shard), [1, 2], "{state:?}");
        // And the connection it came back on knows better now.
        match state {
            ShardState::ReadOnly => {
                assert_read_only(&insert(&mut shards.get_on("a").unwrap(), 3).unwrap_err());
            }
            _ => assert!(matches!(
                shards.get_on("b"),
                Err(Error::ShardOffline { .. })
            )),
        }
    }
}

#[test]
fn a_shard_that_does_not_exist_has_no_state() {
    let fleet = Fleet::new(&["a"]);
    let shards = fleet.manager();
    let error = shards
        .set_shard_state("aa", ShardState::Offline)
        .unwrap_err();
    assert!(matches!(error, Error::UnknownShard { .. }), "{error:?}");
    whoami(&mut shards.get_on("a").unwrap()).unwrap();
}

#[test]
fn states_come_from_the_configuration_too() {
    let fleet = Fleet::new(&["a", "b", "c"]);
    let config = |state: &str| {
        let text = format!(
            "[shards.a]\nurl = {:?}\nstate = {state:?}\n[shards.b]\nurl = {:?}\nstate = \"offline\"",
            fleet.url("a"),
            fleet.url("b")
        );
        Config::from_str(&text, Format::Toml).unwrap()
    };
    let shards = Manager::from_config(&config("read-only")).unwrap();
    assert_read_only(&insert(&mut shards.get_on("a").unwrap(), 1).unwrap_err());
    assert!(matches!(
        shards.get_on("b"),
        Err(Error::ShardOffline { .. })
    ));
    shards.reload(&config("open")).unwrap();
    insert(&mut shards.get_on("a").unwrap(), 1).unwrap();
    assert!(matches!(
        shards.get_on("b"),
        Err(Error::ShardOffline { .. })
    ));
    // In code, with a start that requires every node: an offline one is not asked.
    let shards = fleet
        .connecting(Manager::builder())
        .shard("a", fleet.url("a"))
        .shard(
            "b",
            ShardConfig::new(fleet.url("b")).state(ShardState::Offline),
        )
        .startup(Startup::Require)
        .build()
        .unwrap();
    let connections: Vec<u32> = shards
        .status()
        .nodes
        .iter()
        .map(|node| node.connections)
        .collect();
    assert_eq!(connections, [1, 0]);
}

#[test]
fn all_managers_of_a_topology_go_by_its_states() {
    let fleet = Fleet::new(&["a"]);
    let shards = fleet.manager();
    let other = Manager::from_topology(shards.topology()).unwrap();
    insert(&mut other.get_on("a").unwrap(), 1).unwrap();
    shards.set_shard_state("a", ShardState::ReadOnly).unwrap();
    assert_read_only(&insert(&mut other.get_on("a").unwrap(), 2).unwrap_err());
    other.set_shard_state("a", ShardState::Offline).unwrap();
    assert!(matches!(
        shards.get_on("a"),
        Err(Error::ShardOffline { .. })
    ));
    shards.set_shard_state("a", ShardState::Open).unwrap();
    insert(&mut other.get_on("a").unwrap(), 2).unwrap();
}

#[test]
fn a_state_holds_for_the_pools_of_workload_classes() {
    let fleet = Fleet::new(&["a"]);
    let shards = fleet
        .builder()
        .workload("batch", crate::support::pool(1))
        .build()
        .unwrap();
    let batch = shards.route("a").unwrap().workload("batch").unwrap();
    shards.set_shard_state("a", ShardState::ReadOnly).unwrap();
    let written = batch.run(|| insert(&mut shards.get()?, 1));
    assert_read_only(&written.unwrap_err());
    shards.set_shard_state("a", ShardState::Offline).unwrap();
    let refused = batch.run(|| shards.get().map(drop));
    assert!(matches!(refused, Err(Error::ShardOffline { .. })));
}
