//! Servers of the test's own that crash, start again, and turn read-only.

use std::time::Duration;

use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use diesel_sharded::{Error, PoolConfig, UnavailableCause};

use super::backend::{Conn, Manager, NAME, direct, ids, insert, session, whoami};
use crate::production_support::{OwnServers, as_user, changed};
use crate::support::eventually;
use crate::support::server::{MYSQL, POSTGRES};

const PASSWORD: &str = "r3start-Pw!x";

/// A database on a server of the test's own, and an ordinary user's URL of it.
struct Own {
    servers: OwnServers,
    url: String,
}

impl Own {
    fn new() -> Self {
        let servers = OwnServers::start(if NAME == "postgres" { POSTGRES } else { MYSQL });
        let mut admin = direct(servers.url());
        let here = changed(servers.url(), |url| url.set_path("orders"));
        let tables = "CREATE TABLE whoami (name VARCHAR(64) NOT NULL);
                      INSERT INTO whoami VALUES ('a');
                      CREATE TABLE items (id BIGINT PRIMARY KEY, note TEXT)";
        admin.batch_execute("CREATE DATABASE orders").unwrap();
        let mut owner = direct(&here);
        owner.batch_execute(tables).unwrap();
        if NAME == "postgres" {
            owner
                .batch_execute(&format!(
                    "CREATE ROLE app LOGIN PASSWORD '{PASSWORD}';
                     GRANT ALL ON ALL TABLES IN SCHEMA public TO app"
                ))
                .unwrap();
        } else {
            // No right that would let it write on a read-only server.
            for sql in [
                format!("CREATE USER app@'%' IDENTIFIED BY '{PASSWORD}'"),
                "GRANT SELECT, INSERT, UPDATE, DELETE ON orders.* TO app@'%'".to_owned(),
            ] {
                admin.batch_execute(&sql).unwrap();
            }
        }
        let url = as_user(&here, "app", PASSWORD);
        Self { servers, url }
    }

    fn admin(&self) -> Conn {
        let mut admin = direct(self.servers.url());
        if NAME == "postgres" {
            // Also while the server is read-only.
            admin
                .batch_execute("SET default_transaction_read_only = off")
                .unwrap();
        }
        admin
    }

    fn rows(&self) -> Vec<i64> {
        let url = changed(self.servers.url(), |url| url.set_path("orders"));
        ids(&mut direct(&url)).unwrap()
    }

    fn manager(&self, url: &str, size: u32) -> Manager {
        Manager::builder()
            .pool(
                PoolConfig::new()
                    .max_size(size)
                    .connection_timeout(Duration::from_secs(20))
                    .connect_timeout(Duration::from_secs(2))
                    // The worst case: nobody looks before use.
                    .alive_bypass(Duration::from_secs(600)),
            )
            .shard("a", url)
            .build()
            .unwrap()
    }
}

fn write(shards: &Manager, id: i64) -> Result<(), Error> {
    shards.transaction_on("a", |conn| Ok(insert(conn, id).map(drop)?))
}

#[test]
fn a_server_that_crashes_and_starts_again_is_used_again_without_a_rebuild() {
    let own = Own::new();
    // The admin's account: `scripts/servers` makes MariaDB forget the others when it starts.
    let url = changed(own.servers.url(), |url| url.set_path("orders"));
    let shards = own.manager(&url, 3);
    for (turn, end) in ["crash", "stop"].into_iter().enumerate() {
        let base = i64::try_from(turn).unwrap() * 100;
        let three = [(); 3].map(|()| shards.get_on("a").unwrap());
        drop(three);
        write(&shards, base).unwrap();
        own.servers.tell(end);
        // Each old connection may cost a call, then the node is known to be down.
        let mut lost = 0;
        let down = loop {
            match write(&shards, base + 50) {
                Err(Error::Unavailable { cause, .. }) => break cause,
                Err(error) => {
                    println!("{end}: {error:?}");
                    lost += 1;
                }
                Ok(()) => panic!("the server is gone"),
            }
            assert!(lost <= 3, "{lost} calls");
        };
        assert!(
            matches!(down, UnavailableCause::Refused | UnavailableCause::NotReady),
            "{down:?}"
        );
        assert!(shards.status().nodes[0].down.is_some());
        own.servers.tell("start");
        eventually("it is up again", || shards.status().nodes[0].down.is_none());
        for id in 1..10 {
            write(&shards, base + id).unwrap();
        }
    }
    assert_eq!(own.rows(), (0..10).chain(100..110).collect::<Vec<_>>());
}

#[test]
fn a_primary_that_turns_read_only_costs_each_old_connection_one_write_and_no_more() {
    let own = Own::new();
    let shards = own.manager(&own.url, 3);
    let mut three = [(); 3].map(|()| shards.get_on("a").unwrap());
    let old = three.each_mut().map(|conn| session(conn).unwrap());
    drop(three);
    write(&shards, 1).unwrap();

    // The fail-over: from now on this server takes no writes, on sessions that exist either.
    let mut admin = own.admin();
    if NAME == "postgres" {
        for sql in [
            "ALTER SYSTEM SET default_transaction_read_only = on",
            "SELECT pg_reload_conf()",
        ] {
            admin.batch_execute(sql).unwrap();
        }
    } else {
        admin.batch_execute("SET GLOBAL read_only = 1").unwrap();
    }
    let mut raw = direct(&own.url);
    eventually("the server has heard", || {
        insert(&mut raw, 999).is_err() || {
            diesel::delete(crate::support::items::table.find(999))
                .execute(&mut raw)
                .unwrap();
            false
        }
    });
    // Reads go on.
    assert_eq!(whoami(&mut shards.get_on("a").unwrap()).unwrap(), "a");
    let failed_on = |shards: &Manager| {
        let mut conn = shards.get_on("a").unwrap();
        let on = session(&mut conn).unwrap();
        let error = insert(&mut conn, 2).unwrap_err();
        // Diesel's own error: the application may match on it.
        assert!(
            matches!(error, diesel::result::Error::DatabaseError(..)),
            "{error:?}"
        );
        on
    };
    let first = failed_on(&shards);
    assert!(old.contains(&first));
    assert_ne!(failed_on(&shards), first, "that connection is closed");
    assert_eq!(shards.status().nodes[0].down, None);

    // New sessions may write again: on PostgreSQL alone, old ones still may not.
    if NAME == "postgres" {
        admin
            .batch_execute("ALTER DATABASE orders SET default_transaction_read_only = off")
            .unwrap();
    } else {
        admin.batch_execute("SET GLOBAL read_only = 0").unwrap();
    }
    let mut failures = 0;
    for id in 10..30 {
        failures += usize::from(write(&shards, id).is_err());
    }
    assert!(
        failures <= 1,
        "{failures} writes failed after the way was open"
    );
    for id in 30..40 {
        write(&shards, id).unwrap();
    }
    let mut three = [(); 3].map(|()| shards.get_on("a").unwrap());
    for (at, conn) in three.iter_mut().enumerate() {
        insert(conn, 50 + i64::try_from(at).unwrap()).unwrap();
    }
    let rows = own.rows();
    assert!(
        rows.contains(&1) && !rows.contains(&2) && rows.len() >= 33,
        "{rows:?}"
    );
}
