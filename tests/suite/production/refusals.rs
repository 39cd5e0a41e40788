//! Servers that answer and refuse: full, starting up, another password.

use std::time::{Duration, Instant};

use diesel::connection::SimpleConnection;
use diesel_sharded::{Error, PoolConfig, UnavailableCause};

use super::backend::{Fleet, Manager, NAME, insert, whoami};
use crate::production_support::{as_user, at_port, refusing_server, told, user_name};
use crate::support::eventually;

const FIRST: &str = "F1rst-pw!x";
const SECOND: &str = "S3cond-pw!x";

/// A user of one test with rights on the shard `b`, gone with it.
pub(super) struct User<'f> {
    fleet: &'f Fleet,
    name: String,
}

impl<'f> User<'f> {
    /// `connections`: how many it may have at once; 0 for any number.
    pub(super) fn new(fleet: &'f Fleet, password: &str, connections: u32) -> Self {
        let user = Self {
            fleet,
            name: user_name(),
        };
        let name = &user.name;
        if NAME == "postgres" {
            let limit = if connections == 0 {
                -1
            } else {
                i64::from(connections)
            };
            user.admin(&format!(
                "CREATE ROLE {name} LOGIN PASSWORD '{password}' CONNECTION LIMIT {limit}"
            ));
            fleet
                .direct("b")
                .batch_execute(&format!(
                    "GRANT ALL ON ALL TABLES IN SCHEMA public TO {name}"
                ))
                .unwrap();
        } else {
            let url = url::Url::parse(&fleet.url("b")).unwrap();
            let database = url.path().trim_start_matches('/');
            user.admin(&format!(
                "CREATE USER {name}@'%' IDENTIFIED BY '{password}' WITH MAX_USER_CONNECTIONS {connections}"
            ));
            user.admin(&format!("GRANT ALL ON {database}.* TO {name}@'%'"));
        }
        user
    }

    fn admin(&self, sql: &str) {
        self.fleet.admin("b").batch_execute(sql).unwrap();
    }

    pub(super) fn change_password(&self, password: &str) {
        let name = &self.name;
        self.admin(&match NAME {
            "postgres" => format!("ALTER ROLE {name} PASSWORD '{password}'"),
            _ => format!("ALTER USER {name}@'%' IDENTIFIED BY '{password}'"),
        });
    }

    pub(super) fn url(&self, password: &str) -> String {
        as_user(&self.fleet.url("b"), &self.name, password)
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }
}

impl Drop for User<'_> {
    fn drop(&mut self) {
        let name = &self.name;
        let dropped = if NAME == "postgres" {
            let owned = self
                .fleet
                .direct("b")
                .batch_execute(&format!("DROP OWNED BY {name}"));
            owned.and_then(|()| {
                self.fleet
                    .admin("b")
                    .batch_execute(&format!("DROP ROLE {name}"))
            })
        } else {
            self.fleet
                .admin("b")
                .batch_execute(&format!("DROP USER {name}@'%'"))
        };
        if let Err(error) = dropped {
            eprintln!("the user {name} stays behind: {error}");
        }
    }
}

fn settings(wait: Duration) -> PoolConfig {
    PoolConfig::new()
        .max_size(2)
        .connection_timeout(wait)
        .connect_timeout(Duration::from_secs(5))
}

fn at(fleet: &Fleet, url: &str, wait: Duration) -> Manager {
    fleet
        .builder_with(settings(wait), |shard, right| {
            if shard == "b" { url.to_owned() } else { right }
        })
        .build()
        .unwrap()
}

fn assert_cause(error: &Error, expected: UnavailableCause) -> String {
    let Error::Unavailable { shard, cause, .. } = error else {
        panic!("{error:?}");
    };
    let text = told(error, &[FIRST, SECOND, "F1rst", "S3cond"]);
    assert_eq!((shard.as_str(), *cause), ("b", expected), "{text}");
    text
}

/// Whether the shard gives its name.
fn serves(shards: &Manager, shard: &str) -> bool {
    match shards.get_on(shard) {
        Ok(mut conn) => whoami(&mut conn).unwrap() == shard,
        Err(_) => false,
    }
}

#[test]
fn a_server_without_a_free_slot_is_told_at_once_and_used_again_when_there_is_one() {
    let fleet = Fleet::new(&["a", "b"]);
    let user = User::new(&fleet, FIRST, 1);
    let url = user.url(FIRST);
    let taken = super::backend::direct(&url);
    let shards = at(&fleet, &url, Duration::from_secs(20));
    let began = Instant::now();
    let text = assert_cause(
        &shards.get_on("b").unwrap_err(),
        UnavailableCause::ServerFull,
    );
    println!("{text}");
    assert!(began.elapsed() < Duration::from_secs(5));
    assert_eq!(
        shards.status().nodes[1].down,
        Some(UnavailableCause::ServerFull)
    );
    assert_eq!(whoami(&mut shards.get_on("a").unwrap()).unwrap(), "a");
    drop(taken);
    eventually("b serves", || serves(&shards, "b"));
    assert_eq!(shards.status().nodes[1].down, None);
}

#[test]
fn a_full_server_does_not_stop_the_connections_that_are_there() {
    let fleet = Fleet::new(&["a", "b"]);
    let user = User::new(&fleet, FIRST, 1);
    // The pool wants two, the server gives one.
    let shards = at(&fleet, &user.url(FIRST), Duration::from_millis(1_500));
    let held = shards.get_on("b").unwrap();
    let error = shards.get_on("b").unwrap_err();
    assert_cause(&error, UnavailableCause::ServerFull);
    drop(held);
    for id in 0..20 {
        insert(&mut shards.get_on("b").unwrap(), id).unwrap();
    }
    // Who waits gets the one that comes back, long before the timeout.
    let patient = at(&fleet, &user.url(FIRST), Duration::from_secs(60));
    drop(shards);
    eventually("the slot is free", || patient.get_on("b").is_ok());
    let held = patient.get_on("b").unwrap();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| whoami(&mut patient.get_on("b").unwrap()).unwrap());
        eventually("somebody waits", || patient.status().nodes[1].waiting == 1);
        let began = Instant::now();
        drop(held);
        assert_eq!(waiting.join().unwrap(), "b");
        assert!(
            began.elapsed() < Duration::from_secs(5),
            "{:?}",
            began.elapsed()
        );
    });
}

#[test]
fn a_password_that_is_put_right_on_the_server_is_found_by_the_probe() {
    let fleet = Fleet::new(&["a", "b"]);
    let user = User::new(&fleet, FIRST, 0);
    let shards = at(&fleet, &user.url(SECOND), Duration::from_secs(20));
    let began = Instant::now();
    let text = assert_cause(
        &shards.get_on("b").unwrap_err(),
        UnavailableCause::Authentication,
    );
    assert!(
        began.elapsed() < Duration::from_secs(5),
        "{:?}",
        began.elapsed()
    );
    assert!(text.contains("shard b"), "{text}");
    let shown = format!("{shards:?} {:?} {:?}", shards.status(), shards.topology());
    for secret in [FIRST, SECOND] {
        assert!(!shown.contains(secret), "{shown}");
    }
    user.change_password(SECOND);
    eventually("the node is up", || shards.status().nodes[1].down.is_none());
    assert_eq!(whoami(&mut shards.get_on("b").unwrap()).unwrap(), "b");
    drop(shards);
}

#[test]
fn what_a_server_says_while_it_starts_or_is_full_is_told_apart() {
    let fleet = Fleet::new(&["a", "b"]);
    let postgres = NAME == "postgres";
    let cases: &[(&str, &str, UnavailableCause)] = if postgres {
        &[
            (
                "57P03",
                "the database system is starting up",
                UnavailableCause::NotReady,
            ),
            (
                "57P03",
                "the database system is shutting down",
                UnavailableCause::NotReady,
            ),
            (
                "57P03",
                "the database system is in recovery mode",
                UnavailableCause::NotReady,
            ),
            (
                "53300",
                "sorry, too many clients already",
                UnavailableCause::ServerFull,
            ),
            (
                "53300",
                "remaining connection slots are reserved for roles with the SUPERUSER attribute",
                UnavailableCause::ServerFull,
            ),
            (
                "28000",
                "no pg_hba.conf entry for host \"10.0.0.1\", user \"app\"",
                UnavailableCause::Authentication,
            ),
        ]
    } else {
        &[
            (
                "1040",
                "#08004Too many connections",
                UnavailableCause::ServerFull,
            ),
            (
                "1053",
                "#08S01Server shutdown in progress",
                UnavailableCause::NotReady,
            ),
            (
                "1130",
                "Host '10.0.0.1' is not allowed to connect to this MariaDB server",
                UnavailableCause::Authentication,
            ),
        ]
    };
    let mut wrong = Vec::new();
    for (code, words, expected) in cases {
        let port = refusing_server(postgres, code, words);
        let shards = at(
            &fleet,
            &at_port(&fleet.url("b"), port),
            Duration::from_secs(20),
        );
        let began = Instant::now();
        let error = shards.get_on("b").unwrap_err();
        assert!(began.elapsed() < Duration::from_secs(3), "{words}");
        let text = told(&error, &[]);
        let Error::Unavailable { cause, .. } = &error else {
            panic!("{error:?}");
        };
        println!("{words}: {cause:?}");
        let tail = words
            .split_once("#08")
            .map_or(*words, |(_, tail)| &tail[3..]);
        assert!(text.contains(tail), "the server's words are kept: {text}");
        if cause != expected {
            wrong.push(format!("{words}: {cause:?}, not {expected:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
