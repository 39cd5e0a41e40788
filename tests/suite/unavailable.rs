//! Nodes that cannot be reached: told apart, at once, and without a word about passwords.

use std::net::TcpListener;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use diesel_sharded::{Error, PoolConfig, Startup, UnavailableCause};

use super::backend::{Fleet, Manager, NAME, whoami};
use crate::support::{eventually, proxy::Proxy, said};

fn settings() -> PoolConfig {
    PoolConfig::new()
        .max_size(2)
        .connection_timeout(Duration::from_secs(20))
        .connect_timeout(Duration::from_secs(2))
}

/// A fleet whose shard `b` is at this URL instead.
fn with_b_at(fleet: &Fleet, url: &str) -> Manager {
    fleet
        .builder_with(settings(), |shard, right| {
            if shard == "b" { url.to_owned() } else { right }
        })
        .build()
        .unwrap()
}

/// `url`, changed.
fn changed(url: &str, change: impl FnOnce(&mut url::Url)) -> String {
    let mut url = url::Url::parse(url).unwrap();
    change(&mut url);
    url.into()
}

fn unavailable(shards: &Manager) -> (UnavailableCause, String) {
    let error = shards.get_on("b").unwrap_err();
    let Error::Unavailable { shard, cause, .. } = &error else {
        panic!("{error:?}");
    };
    assert_eq!(*shard, "b");
    let text = said(&error);
    assert!(text.contains("shard b"), "{text}");
    (*cause, text)
}

/// A port of this machine where nobody listens.
fn closed_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

#[test]
fn a_refused_port_is_told_at_once_to_everybody() {
    let fleet = Fleet::new(&["a", "b"]);
    let url = changed(&fleet.url("b"), |url| {
        url.set_host(Some("127.0.0.1")).unwrap();
        url.set_port(Some(closed_port())).unwrap();
    });
    let shards = with_b_at(&fleet, &url);
    let start = Barrier::new(16);
    thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                start.wait();
                for _ in 0..5 {
                    let began = Instant::now();
                    let (cause, text) = unavailable(&shards);
                    assert_eq!(cause, UnavailableCause::Refused, "{text}");
                    assert!(
                        began.elapsed() < Duration::from_secs(2),
                        "{:?}",
                        began.elapsed()
                    );
                }
            });
        }
    });
    assert_eq!(
        shards.status().nodes[1].down,
        Some(UnavailableCause::Refused)
    );
    // One shard down is one shard down.
    assert_eq!(whoami(&mut shards.get_on("a").unwrap()).unwrap(), "a");
    let error = shards
        .transaction_on("b", |_| -> Result<(), Error> { panic!("not run") })
        .unwrap_err();
    assert!(matches!(error, Error::Unavailable { .. }), "{error:?}");
    shards.transaction_on("a", |_| Ok::<_, Error>(())).unwrap();
}

#[test]
fn a_node_that_comes_back_is_used_again_by_itself() {
    let fleet = Fleet::new(&["a", "b"]);
    let port = closed_port();
    let here = changed(&fleet.url("b"), |url| {
        url.set_host(Some("127.0.0.1")).unwrap();
        url.set_port(Some(port)).unwrap();
    });
    let shards = with_b_at(&fleet, &here);
    let (cause, text) = unavailable(&shards);
    assert_eq!(cause, UnavailableCause::Refused, "{text}");
    let _back = Proxy::on(port, &fleet.url("b"));
    eventually("b serves again", || match shards.get_on("b") {
        Ok(mut conn) => whoami(&mut conn).unwrap() == "b",
        Err(_) => false,
    });
    assert_eq!(shards.status().nodes[1].down, None);
}

#[test]
fn a_wrong_password_is_told_in_the_servers_words_without_the_password() {
    let fleet = Fleet::new(&["a", "b"]);
    let wrong = "S3cr3t!x";
    let url = changed(&fleet.url("b"), |url| {
        url.set_password(Some(wrong)).unwrap()
    });
    let shards = with_b_at(&fleet, &url);
    let began = Instant::now();
    let (cause, text) = unavailable(&shards);
    assert_eq!(cause, UnavailableCause::Authentication, "{text}");
    assert!(began.elapsed() < Duration::from_secs(5));
    let words = if NAME == "postgres" {
        "password authentication failed"
    } else {
        "Access denied"
    };
    assert!(text.contains(words), "{text}");
    for secret in [wrong, "S3cr3t%21x", "S3cr3t"] {
        assert!(!text.contains(secret), "{text}");
        assert!(!format!("{shards:?}").contains(secret));
        assert!(!format!("{:?}", shards.status()).contains(secret));
    }
}

#[test]
fn an_unknown_user_and_an_unknown_database_are_told_apart() {
    let fleet = Fleet::new(&["a", "b"]);
    let url = changed(&fleet.url("b"), |url| {
        url.set_username("nobody_of_that_name").unwrap()
    });
    let (cause, text) = unavailable(&with_b_at(&fleet, &url));
    assert_eq!(cause, UnavailableCause::Authentication, "{text}");
    let url = changed(&fleet.url("b"), |url| url.set_path("no_such_database"));
    let (cause, text) = unavailable(&with_b_at(&fleet, &url));
    assert_eq!(cause, UnavailableCause::Other, "{text}");
    assert!(text.contains("no_such_database"), "{text}");
}

#[test]
fn an_unknown_host_is_unreachable() {
    let fleet = Fleet::new(&["a", "b"]);
    let url = changed(&fleet.url("b"), |url| {
        url.set_host(Some("no-such-host.invalid")).unwrap();
    });
    let shards = with_b_at(&fleet, &url);
    let began = Instant::now();
    let (cause, text) = unavailable(&shards);
    // A resolver that does not answer is bounded like everything else.
    assert!(
        matches!(
            cause,
            UnavailableCause::Unreachable | UnavailableCause::Timeout
        ),
        "{text}"
    );
    assert!(
        began.elapsed() < Duration::from_secs(10),
        "{:?}",
        began.elapsed()
    );
}

#[test]
fn a_host_that_accepts_and_says_nothing_costs_the_connect_timeout_and_no_more() {
    let fleet = Fleet::new(&["a", "b"]);
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = changed(&fleet.url("b"), |url| {
        url.set_host(Some("127.0.0.1")).unwrap();
        url.set_port(Some(silent.local_addr().unwrap().port()))
            .unwrap();
    });
    let shards = with_b_at(&fleet, &url);
    for _ in 0..2 {
        let began = Instant::now();
        let (cause, text) = unavailable(&shards);
        assert_eq!(cause, UnavailableCause::Timeout, "{text}");
        assert!(
            began.elapsed() < Duration::from_secs(6),
            "{:?}",
            began.elapsed()
        );
    }
    // Several callers at once do not queue up behind each other, and the other shard is not touched.
    let start = Barrier::new(9);
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                start.wait();
                let began = Instant::now();
                assert_eq!(unavailable(&shards).0, UnavailableCause::Timeout);
                assert!(
                    began.elapsed() < Duration::from_secs(6),
                    "{:?}",
                    began.elapsed()
                );
            });
        }
        scope.spawn(|| {
            start.wait();
            let began = Instant::now();
            for _ in 0..20 {
                assert_eq!(whoami(&mut shards.get_on("a").unwrap()).unwrap(), "a");
            }
            assert!(
                began.elapsed() < Duration::from_secs(2),
                "{:?}",
                began.elapsed()
            );
        });
    });
}

#[test]
fn a_required_start_fails_with_the_shard_that_is_down() {
    let fleet = Fleet::new(&["a", "b"]);
    let url = changed(&fleet.url("b"), |url| {
        url.set_host(Some("127.0.0.1")).unwrap();
        url.set_port(Some(closed_port())).unwrap();
    });
    let error = fleet
        .builder_with(
            settings(),
            |shard, right| {
                if shard == "b" { url.clone() } else { right }
            },
        )
        .startup(Startup::Require)
        .build()
        .unwrap_err();
    assert!(matches!(error, Error::Unavailable { .. }), "{error:?}");
    assert!(said(&error).contains("shard b"));
}
