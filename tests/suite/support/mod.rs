//! What the behaviour tests stand on: real databases, one fleet of shards for each test.
//!
//! Each pair of a backend and a driver is a module with the same names, so that a behaviour file is
//! compiled once for each pair and Diesel's typed queries work on concrete types. What a driver has to
//! offer stands in [`blocking`]; [`nonblocking`] offers the same.

pub(crate) mod blocking;
pub(crate) mod mysql;
pub(crate) mod nonblocking;
pub(crate) mod postgres;
pub(crate) mod proxy;
pub(crate) mod server;
pub(crate) mod sqlite;
pub(crate) mod watch;

use std::error::Error as StdError;
use std::time::{Duration, Instant};

use diesel_sharded::{Error, PoolConfig};

diesel::table! {
    /// One row: the name of the shard.
    whoami (name) {
        name -> Text,
    }
}

diesel::table! {
    items (id) {
        id -> BigInt,
        note -> Nullable<Text>,
    }
}

/// The pool settings of a test that does not care.
pub(crate) fn pool(size: u32) -> PoolConfig {
    PoolConfig::new()
        .max_size(size)
        .connection_timeout(Duration::from_secs(5))
}

/// Polls until the answer is yes; fails after ten seconds.
pub(crate) fn eventually(what: &str, mut answer: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !answer() {
        assert!(Instant::now() < deadline, "still not after 10 s: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Our error inside whatever came out.
pub(crate) fn ours(error: &(impl StdError + 'static)) -> &Error {
    match Error::find(error) {
        Some(found) => found,
        None => panic!("none of our errors is in {error:?}"),
    }
}

/// The passwords of the test servers: they may show up nowhere.
pub(crate) fn secrets() -> Vec<String> {
    let mut secrets = Vec::new();
    for url in server::configured() {
        let url = url::Url::parse(&url).expect("the admin URL is a URL");
        if let Some(password) = url.password() {
            secrets.push(password.to_owned());
        }
    }
    secrets
}

/// Everything an error says, in every form; fails when a password is in it.
pub(crate) fn said(error: &Error) -> String {
    let mut text = format!("{error}\n{error:?}\n{error:#?}");
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}\n{cause}\n{cause:?}");
        source = cause.source();
    }
    assert_no_secret(&text);
    text
}

/// Fails when a password of a test server is in the text.
pub(crate) fn assert_no_secret(text: &str) {
    for secret in secrets() {
        assert!(!text.contains(&secret), "a password is in: {text}");
    }
}

/// What every backend has, whichever driver is asked: the tables, seen through Diesel, and the rows
/// as they are.
macro_rules! fixtures {
    ($backend:ty) => {
        use diesel::connection::LoadConnection;
        use diesel::prelude::*;

        use crate::support::{items, whoami as whoami_table};

        /// Which shard's database the connection talks to, says the database.
        pub(crate) fn whoami<C>(conn: &mut C) -> QueryResult<String>
        where
            C: LoadConnection<Backend = $backend>,
        {
            whoami_table::table.select(whoami_table::name).first(conn)
        }

        /// Inserts a row, with a typed statement.
        pub(crate) fn insert<C>(conn: &mut C, id: i64) -> QueryResult<usize>
        where
            C: Connection<Backend = $backend>,
        {
            diesel::insert_into(items::table)
                .values(items::id.eq(id))
                .execute(conn)
        }

        /// The rows that the connection sees.
        pub(crate) fn ids<C>(conn: &mut C) -> QueryResult<Vec<i64>>
        where
            C: LoadConnection<Backend = $backend>,
        {
            items::table.select(items::id).order(items::id).load(conn)
        }

        impl Fleet {
            /// The committed rows of a shard, read past the crate.
            pub(crate) fn rows(&self, shard: &str) -> Vec<i64> {
                ids(&mut self.direct(shard)).expect("the table items can be read")
            }

            /// Fails unless the shard has no open transaction, now or in a moment: servers take
            /// note of a closed connection with a delay.
            pub(crate) fn assert_nothing_open(&self, shard: &str) {
                crate::support::eventually("no transaction is open", || {
                    self.open_transactions(shard) == 0
                });
            }
        }
    };
}
pub(crate) use fixtures;

/// The managers of a fleet, by the driver whose `Manager` and `Builder` are in scope.
macro_rules! managers {
    () => {
        impl Fleet {
            /// A manager builder with all shards and pools of 4.
            pub(crate) fn builder(&self) -> Builder {
                self.builder_of_size(4)
            }

            pub(crate) fn builder_of_size(&self, size: u32) -> Builder {
                self.builder_with(crate::support::pool(size), |_, url| url)
            }

            /// A builder with these pool settings, and the URLs changed on the way.
            pub(crate) fn builder_with(
                &self,
                pool: diesel_sharded::PoolConfig,
                url: impl Fn(&str, String) -> String,
            ) -> Builder {
                let mut builder = self.connecting(Manager::builder()).pool(pool);
                for shard in self.shards() {
                    builder = builder.shard(shard.as_str(), url(&shard, self.url(&shard)));
                }
                builder
            }

            pub(crate) fn manager(&self) -> Manager {
                self.builder().build().expect("the topology is valid")
            }

            pub(crate) fn manager_of_size(&self, size: u32) -> Manager {
                self.builder_of_size(size)
                    .build()
                    .expect("the topology is valid")
            }
        }
    };
}
pub(crate) use managers;

/// A statement that fails as a conflict with another transaction does: by the server's own words, at a moment of our
/// choosing. SQLite has none.
pub(crate) fn conflict_of(backend: &str) -> Option<&'static str> {
    match backend {
        "postgres" => Some("DO $$ BEGIN RAISE SQLSTATE '40001'; END $$"),
        "mysql" => Some(
            "SIGNAL SQLSTATE '40001' SET MYSQL_ERRNO = 1213, MESSAGE_TEXT =
             'Deadlock found when trying to get lock; try restarting transaction'",
        ),
        _ => None,
    }
}
