//! Round trips, counted on the wire: the good path pays none of its own.

use std::time::Duration;

use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use diesel_sharded::{Error, PoolConfig};

use super::backend::{DRIVER, Fleet, Manager, NAME, Sharded, insert, plain, session, whoami};
use crate::support::{eventually, pool, proxy::Proxy};

const LONG: Duration = Duration::from_secs(600);

fn watched(fleet: &Fleet, settings: PoolConfig) -> (Proxy, Manager) {
    let proxy = Proxy::new(&fleet.url("a"));
    let shards = fleet
        .builder_with(settings, |_, url| proxy.url(&url))
        .build()
        .unwrap();
    (proxy, shards)
}

/// Gives a connection back, and waits until it is idle or closed.
fn given_back(shards: &Manager, conn: Sharded) {
    let out = |shards: &Manager| {
        let node = &shards.status().nodes[0];
        node.connections - node.idle
    };
    let before = out(shards);
    drop(conn);
    eventually("it is back", || out(shards) < before);
}

/// How many round trips the work takes.
pub(crate) fn cost(proxy: &Proxy, work: impl FnOnce()) -> u64 {
    let before = proxy.round_trips();
    work();
    proxy.round_trips() - before
}

#[test]
fn checking_out_and_giving_back_costs_nothing() {
    let fleet = Fleet::new(&["a"]);
    let (proxy, shards) = watched(&fleet, pool(1).alive_bypass(LONG));
    whoami(&mut shards.get_on("a").unwrap()).unwrap();
    let idle = cost(&proxy, || {
        for _ in 0..50 {
            shards.get_on("a").unwrap();
            shards.on("a", || shards.get().map(drop)).unwrap();
        }
    });
    assert_eq!(idle, 0);
    // A typed statement costs what it costs, and the return still nothing.
    let mut plain = plain(&proxy.url(&fleet.url("a"))).unwrap();
    whoami(&mut plain).unwrap();
    let one = cost(&proxy, || drop(whoami(&mut plain).unwrap()));
    let twenty = cost(&proxy, || {
        for _ in 0..20 {
            whoami(&mut shards.get_on("a").unwrap()).unwrap();
        }
    });
    assert_eq!(twenty, 20 * one);
}

#[test]
fn a_transaction_costs_what_it_costs_plain_diesel() {
    let fleet = Fleet::new(&["a"]);
    let (proxy, shards) = watched(&fleet, pool(1).alive_bypass(LONG));
    let mut plain = plain(&proxy.url(&fleet.url("a"))).unwrap();
    macro_rules! work {
        ($conn:expr, $id:expr) => {{
            insert($conn, $id)?;
            $conn.transaction(|conn| insert(conn, $id + 1))?;
            whoami($conn)
        }};
    }
    let mut by_diesel = |id: i64| {
        plain.transaction(|conn| work!(conn, id)).map(drop).unwrap();
    };
    let by_us = |id: i64| {
        shards
            .transaction_on("a", |conn| work!(conn, id))
            .map(drop)
            .unwrap();
    };
    // The first time statements are prepared.
    by_diesel(0);
    by_us(10);
    let (theirs, ours) = (cost(&proxy, || by_diesel(20)), cost(&proxy, || by_us(30)));
    assert_eq!(
        ours, theirs,
        "BEGIN, the statements, COMMIT and nothing else"
    );
    assert!(theirs >= 6);

    // Rolled back likewise.
    let mut theirs_back = || {
        let _ = plain.transaction(|conn| {
            insert(conn, 40)?;
            Err::<(), _>(diesel::result::Error::RollbackTransaction)
        });
    };
    let ours_back = || {
        let _ = shards.transaction_on("a", |conn| {
            insert(conn, 40)?;
            Err::<(), _>(diesel::result::Error::RollbackTransaction)
        });
    };
    assert_eq!(cost(&proxy, ours_back), cost(&proxy, &mut theirs_back));
}

/// What the statement costs that puts a MySQL connection right at its return.
fn one_batch(fleet: &Fleet, proxy: &Proxy) -> u64 {
    let mut plain = plain(&proxy.url(&fleet.url("a"))).unwrap();
    plain.batch_execute("SELECT 1").unwrap();
    cost(proxy, || {
        let batch = plain.batch_execute("ROLLBACK; SET autocommit=1");
        assert_eq!(batch.is_ok(), NAME == "mysql");
    })
}

/// What a first ping costs.
fn one_ping(fleet: &Fleet, proxy: &Proxy) -> u64 {
    let mut plain = plain(&proxy.url(&fleet.url("a"))).unwrap();
    plain.batch_execute("SELECT 1").unwrap();
    cost(proxy, || {
        diesel::r2d2::R2D2Connection::ping(&mut plain).unwrap()
    })
}

#[test]
fn hand_written_statements_cost_a_return_at_most_one_batch() {
    let fleet = Fleet::new(&["a"]);
    let (proxy, shards) = watched(&fleet, pool(1).alive_bypass(LONG));
    shards.get_on("a").unwrap();
    type Use = fn(&mut Sharded);
    let one_batch = one_batch(&fleet, &proxy);
    let uses: [(&str, u64, Use); 4] = [
        ("batch_execute SELECT", 0, |conn| {
            conn.batch_execute("SELECT 1").unwrap()
        }),
        ("sql_query DELETE", 0, |conn| {
            diesel::sql_query("DELETE FROM items")
                .execute(conn)
                .map(drop)
                .unwrap();
        }),
        ("batch_execute SET", one_batch, |conn| match NAME {
            "mysql" => conn.batch_execute("SET @x = 1").unwrap(),
            _ => conn.batch_execute("SET search_path = public").unwrap(),
        }),
        ("raw", one_batch, |conn| {
            conn.inner().unwrap();
        }),
    ];
    for (what, on_mysql, by_hand) in uses {
        let mut conn = shards.get_on("a").unwrap();
        by_hand(&mut conn);
        let back = cost(&proxy, || given_back(&shards, conn));
        // PostgreSQL's client library knows; MySQL has to be asked, where the text says nothing, and so
        // has every server that is reached without a client library.
        let expected = match (NAME, DRIVER, what) {
            ("mysql", ..) => on_mysql,
            (_, "nonblocking", "raw") => 1,
            _ => 0,
        };
        assert_eq!(back, expected, "{what}");
        // And it is clean now: the next return costs nothing.
        assert_eq!(
            cost(&proxy, || drop(shards.get_on("a").unwrap())),
            0,
            "{what}"
        );
    }
}

#[test]
fn the_health_check_runs_when_it_is_due_and_only_then() {
    let fleet = Fleet::new(&["a"]);
    let (proxy, shards) = watched(&fleet, pool(2).alive_bypass(Duration::ZERO));
    shards.get_on("a").unwrap();
    let checked = cost(&proxy, || {
        for _ in 0..5 {
            shards.get_on("a").unwrap();
        }
    });
    assert_eq!(checked, 5, "no window: one check for each checkout");

    let (proxy, shards) = watched(&fleet, pool(2).alive_bypass(LONG));
    let (mut one, two) = (shards.get_on("a").unwrap(), shards.get_on("a").unwrap());
    insert(&mut one, 1).unwrap();
    insert(&mut one, 1).unwrap_err();
    let back = cost(&proxy, || {
        given_back(&shards, two);
        given_back(&shards, one);
    });
    let next = cost(&proxy, || drop(shards.get_on("a").unwrap()));
    // MySQL asks at the return instead, in the statement that cleans the connection; the nonblocking
    // driver always does.
    let expected = match (NAME, DRIVER) {
        ("mysql", _) => (one_batch(&fleet, &proxy), 0),
        (_, "nonblocking") => (1, 0),
        _ => (0, one_ping(&fleet, &proxy)),
    };
    assert_eq!((back, next), expected, "an error forces one check");
    assert_eq!(cost(&proxy, || drop(shards.get_on("a").unwrap())), 0);
}

#[test]
fn a_failed_connection_has_the_others_of_its_node_checked() {
    let fleet = Fleet::new(&["a"]);
    let (proxy, shards) = watched(&fleet, pool(3).alive_bypass(LONG));
    let all: Vec<_> = (0..3).map(|_| shards.get_on("a").unwrap()).collect();
    drop(all);
    assert_eq!(cost(&proxy, || drop(shards.get_on("a").unwrap())), 0);
    let mut victim = shards.get_on("a").unwrap();
    proxy.cut();
    whoami(&mut victim).unwrap_err();
    drop(victim);
    // The dead ones are found before anybody gets them.
    for _ in 0..3 {
        whoami(&mut shards.get_on("a").unwrap()).unwrap();
    }
}

#[test]
fn a_statement_that_is_wrong_costs_no_reconnect() {
    let fleet = Fleet::new(&["a"]);
    let (proxy, shards) = watched(&fleet, pool(1).alive_bypass(LONG));
    let wrong = || {
        let wrong = shards.transaction_on("a", |conn| {
            conn.batch_execute("nonsense")?;
            Ok::<_, Error>(())
        });
        assert!(matches!(wrong, Err(Error::Database { .. })), "{wrong:?}");
        // What it costs to look the connection through may be paid after the call.
        eventually("it is back", || {
            let node = &shards.status().nodes[0];
            node.idle == node.connections
        });
    };
    let before = session(&mut shards.get_on("a").unwrap()).unwrap();
    // Twice, because the first check prepares its statement.
    wrong();
    wrong();
    let (third, fourth) = (cost(&proxy, wrong), cost(&proxy, wrong));
    assert_eq!(third, fourth, "nothing adds up");
    let after = session(&mut shards.get_on("a").unwrap()).unwrap();
    assert_eq!(before, after);
}
