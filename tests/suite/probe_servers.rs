//! The local transaction probe and the server: nothing is sent, and what is dead shows.

use diesel::connection::{AnsiTransactionManager, SimpleConnection, TransactionManager};
use diesel::prelude::*;
use diesel_sharded::blocking::{NodeConnection, TransactionProbe};

use super::backend::{Conn, Fleet, NAME, direct, insert};
use super::wire::cost;
use crate::support::proxy::Proxy;

#[test]
fn the_probe_sends_nothing() {
    let fleet = Fleet::new(&["a"]);
    let proxy = Proxy::new(&fleet.url("a"));
    let mut conn = direct(&proxy.url(&fleet.url("a")));
    let probe = |conn: &mut Conn, what: &str| {
        let sent = cost(&proxy, || {
            for _ in 0..10 {
                conn.probe();
            }
        });
        assert_eq!(sent, 0, "{what}");
    };
    probe(&mut conn, "idle");
    conn.batch_execute("BEGIN").unwrap();
    probe(&mut conn, "open");
    insert(&mut conn, 1).unwrap();
    insert(&mut conn, 1).unwrap_err();
    probe(&mut conn, "failed");
    conn.batch_execute("ROLLBACK").unwrap();
    conn.transaction(|conn| {
        insert(conn, 1)?;
        probe(conn, "in Diesel's transaction");
        Ok::<_, diesel::result::Error>(())
    })
    .unwrap();
    fleet.kill_all("a");
    probe(&mut conn, "killed");
}

#[test]
fn a_killed_session_is_broken_for_the_probe_once_somebody_has_noticed() {
    let fleet = Fleet::new(&["a"]);
    let mut conn = fleet.direct("a");
    AnsiTransactionManager::begin_transaction(&mut conn).unwrap();
    insert(&mut conn, 1).unwrap();
    fleet.kill_all("a");
    insert(&mut conn, 2).unwrap_err();
    let found = conn.probe();
    assert!(
        matches!(found, TransactionProbe::Broken | TransactionProbe::Unknown),
        "{found:?}"
    );
    assert!(
        NAME == "mysql" || found == TransactionProbe::Broken,
        "{found:?}"
    );
}
