//! Passwords: in no text of any kind, in whatever form they were given.

use std::fmt::Debug;
use std::net::TcpListener;
use std::time::Duration;

use diesel::connection::LoadConnection;
use diesel::migration::MigrationConnection;
use diesel::r2d2::R2D2Connection;
use diesel::{MysqlConnection, PgConnection, SqliteConnection};
use diesel_sharded::blocking::{NodeConnection, ShardedConnectionManager};
use diesel_sharded::{
    DatabaseUrl, Error, KeyspaceConfig, PoolConfig, ReplicaConfig, RuleSpec, ShardConfig, Topology,
};

/// A password and its percent-encoded form; parts of it would be too much as well.
const SECRETS: [&str; 4] = ["S3cr3t!x", "S3cr3t%21x", "s3cr3t", "S3cr3t"];

fn assert_clean(what: &str, text: &str) {
    let lower = text.to_lowercase();
    for secret in SECRETS {
        assert!(!lower.contains(&secret.to_lowercase()), "{what}: {text}");
    }
    // Not its length either: one fixed mask.
    assert!(!text.contains("********"), "{what}: {text}");
}

fn shown(what: &str, value: &impl Debug) {
    assert_clean(what, &format!("{value:?}"));
    assert_clean(what, &format!("{value:#?}"));
}

fn told(what: &str, error: &Error) {
    shown(what, error);
    let mut next: Option<&dyn std::error::Error> = Some(error);
    while let Some(error) = next {
        assert_clean(what, &error.to_string());
        shown(what, &error);
        next = error.source();
    }
    shown(what, &diesel::result::Error::from(copy(error)));
}

/// The error again, in the form it takes through Diesel.
fn copy(error: &Error) -> Error {
    match error {
        Error::Config(problems) => Error::Config(problems.clone()),
        other => Error::InvalidRoute {
            text: other.to_string(),
            reason: "a copy",
        },
    }
}

/// URLs of a scheme with the password in every place a URL can have it.
fn urls(scheme: &str, port: u16) -> Vec<String> {
    let at = format!("127.0.0.1:{port}/db");
    let mut urls = vec![
        format!("{scheme}://user:S3cr3t!x@{at}"),
        format!("{scheme}://user:S3cr3t%21x@{at}"),
        format!("{scheme}://user:S3cr3t%21x@no-such-host.invalid:{port}/db"),
    ];
    if scheme == "postgres" {
        urls.push(format!("{scheme}://{at}?user=user&password=S3cr3t%21x"));
        urls.push(format!(
            "{scheme}://user@{at}?password=S3cr3t!x&application_name=x"
        ));
    }
    urls
}

fn everything_about<C>(scheme: &str)
where
    C: NodeConnection + R2D2Connection + LoadConnection + MigrationConnection,
{
    let closed = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    for url in urls(scheme, closed) {
        let parsed = DatabaseUrl::from(url.as_str());
        shown("the URL", &parsed);
        assert_clean("the URL", &parsed.to_string());
        let shard = ShardConfig::new(url.as_str()).replica(ReplicaConfig::new(url.as_str()));
        shown("a shard", &shard);
        let pool = PoolConfig::new()
            .connection_timeout(Duration::from_secs(3))
            .connect_timeout(Duration::from_secs(1));
        let builder = || {
            ShardedConnectionManager::<C>::builder()
                .shard("a", url.as_str())
                .keyspace("k", KeyspaceConfig::new(RuleSpec::modulo(["a"])))
                .default_shard("a")
                .pool(pool.clone())
        };
        shown("the builder", &builder());
        shown(
            "the topology's builder",
            &Topology::builder().shard("a", shard.clone()),
        );
        let shards = builder().build().unwrap();
        shown("the manager", &shards);
        shown("the topology", shards.topology());
        shown("the status", &shards.status());
        shown("the keyspace", &shards.keyspace("k").unwrap());
        shown("the route", &shards.route("a").unwrap());
        shown("a transaction builder", &shards.transaction_builder("a"));
        for _ in 0..2 {
            told("get", &shards.get().unwrap_err());
            told("get_on", &shards.get_on("a").unwrap_err());
            let failed = shards.transaction_on("a", |_| Ok::<_, Error>(()));
            told("transaction_on", &failed.unwrap_err());
            shown("the status", &shards.status());
        }
        // Through an outer pool: the first statement says it.
        let pool = shards.clone().into_pool();
        shown("the outer pool", &pool);
        let mut conn = pool.get().unwrap();
        shown("a connection", &*conn);
        let error = conn.ping().unwrap_err();
        shown("a statement", &error);
        assert_clean("a statement", &error.to_string());
        let plain = diesel::Connection::establish(&url);
        let plain: diesel::ConnectionResult<diesel_sharded::blocking::ShardedConnection<C>> = plain;
        let error = plain.err().unwrap();
        shown("establish", &error);
        assert_clean("establish", &error.to_string());
        // An own connect function that says too much.
        let chatty = builder()
            .connect_with(|node| {
                let said = format!("could not connect to {}", node.url().expose());
                Err(diesel::ConnectionError::BadConnection(said))
            })
            .build()
            .unwrap();
        told(
            "a chatty connect function",
            &chatty.get_on("a").unwrap_err(),
        );
        // Two shards at one URL, and a URL of another backend.
        let twice = builder().shard("b", url.as_str()).build().unwrap_err();
        told("the same database twice", &twice);
        let foreign = ShardedConnectionManager::<SqliteConnection>::builder()
            .shard("a", url.as_str())
            .build()
            .unwrap_err();
        told("a URL of another backend", &foreign);
    }
}

#[test]
fn a_postgres_password_shows_up_nowhere() {
    everything_about::<PgConnection>("postgres");
}

#[test]
fn a_mysql_password_shows_up_nowhere() {
    everything_about::<MysqlConnection>("mysql");
}

#[test]
fn a_password_in_a_broken_url_shows_up_nowhere() {
    for url in [
        "postgres://user:S3cr3t!x@",
        "postgres://user:S3cr3t!x@host:notaport/db",
        "postgres://user:S3cr3t!x@[::1/db",
        "postgres:/user:S3cr3t!x@host/db",
        "postgress://user:S3cr3t!x@host/db",
        "oracle://user:S3cr3t!x@host/db",
        "://user:S3cr3t!x@host/db",
        "postgres://user:S3cr3t!x@host/db?password=S3cr3t!x&sslmode=bogus",
        "postgres://us er:S3cr3t!x@host/db",
        "postgres://user:S3cr3t!x:more@host/db",
        "postgres://user:p@S3cr3t!x@host/db",
        "mysql://user:S3cr3t!x@host",
        "host=h user=u password=S3cr3t!x",
        "host=h user=u password='S3cr3t!x'",
    ] {
        let parsed = DatabaseUrl::from(url);
        shown(url, &parsed);
        assert_clean(url, &parsed.to_string());
        macro_rules! on {
            ($conn:ty) => {
                let built = ShardedConnectionManager::<$conn>::builder()
                    .shard("a", url)
                    .pool(PoolConfig::new().connect_timeout(Duration::from_secs(1)))
                    .build();
                match built {
                    Ok(shards) => {
                        shown(url, &shards);
                        if let Err(error) = shards.get_on("a") {
                            told(url, &error);
                        }
                    }
                    Err(error) => told(url, &error),
                }
            };
        }
        on!(PgConnection);
        on!(MysqlConnection);
    }
}
