//! What the tests know of the database servers, and names for databases on them.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

pub(crate) const POSTGRES: &str = "DIESEL_SHARDED_TEST_PG";
pub(crate) const MYSQL: &str = "DIESEL_SHARDED_TEST_MYSQL";

/// One database of one test.
pub(crate) struct Database {
    pub(crate) shard: String,
    /// The admin URL of the server it is on.
    pub(crate) admin: String,
    pub(crate) name: String,
}

impl Database {
    pub(crate) fn url(&self) -> String {
        let mut url = url::Url::parse(&self.admin).expect("the admin URL is a URL");
        url.set_path(&self.name);
        url.into()
    }
}

/// The admin URLs of all servers that are configured.
pub(crate) fn configured() -> Vec<String> {
    [POSTGRES, MYSQL]
        .iter()
        .filter_map(|variable| std::env::var(variable).ok())
        .flat_map(|urls| split(&urls))
        .collect()
}

/// The admin URLs in this variable.
pub(crate) fn servers(variable: &str) -> Vec<String> {
    let urls = split(&std::env::var(variable).unwrap_or_default());
    assert!(
        !urls.is_empty(),
        "this test needs a server and {variable} names none: run scripts/test, or \
         scripts/servers run -- cargo test --features full,bundled"
    );
    urls
}

fn split(urls: &str) -> Vec<String> {
    urls.split([' ', ',', '\n'])
        .filter(|url| !url.is_empty())
        .map(str::to_owned)
        .collect()
}

/// Names for the databases of one test: shard 0 and the third and later ones on the first server,
/// shard 1 on the second where there is one.
pub(crate) fn databases(variable: &str, shards: &[&str]) -> Vec<Database> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let servers = servers(variable);
    let test = NEXT.fetch_add(1, Ordering::Relaxed);
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .expect("the clock is right")
        .as_millis();
    shards
        .iter()
        .enumerate()
        .map(|(index, shard)| Database {
            shard: (*shard).to_owned(),
            admin: servers[usize::from(index == 1 && servers.len() > 1)].clone(),
            name: format!("dst_{}_{now}_{test}_{index}", std::process::id()),
        })
        .collect()
}

/// The databases of one test on the servers that a variable names, for a backend whose `Conn` is in
/// scope.
macro_rules! fleet {
    ($variable:expr) => {
        use crate::support::server::{self, Database};

        /// Databases of one test, gone with it.
        pub(crate) struct Fleet {
            databases: Vec<Database>,
        }

        impl Fleet {
            pub(crate) fn new(shards: &[&str]) -> Self {
                let fleet = Self {
                    databases: server::databases($variable, shards),
                };
                for database in &fleet.databases {
                    admin(database)
                        .batch_execute(&format!("CREATE DATABASE {}", database.name))
                        .expect("a database is created");
                    fleet
                        .direct(&database.shard)
                        .batch_execute(&format!(
                            "CREATE TABLE whoami (name VARCHAR(64) NOT NULL); INSERT INTO whoami VALUES ('{}');
                             CREATE TABLE items (id BIGINT PRIMARY KEY, note TEXT)",
                            database.shard
                        ))
                        .expect("the tables are created");
                }
                fleet
            }

            pub(crate) fn shards(&self) -> Vec<String> {
                self.databases.iter().map(|one| one.shard.clone()).collect()
            }

            fn database(&self, shard: &str) -> &Database {
                let found = self.databases.iter().find(|one| one.shard == shard);
                found.expect("the fleet has this shard")
            }

            pub(crate) fn url(&self, shard: &str) -> String {
                self.database(shard).url()
            }

            /// A connection that the crate knows nothing of.
            pub(crate) fn direct(&self, shard: &str) -> Conn {
                direct(&self.url(shard))
            }

            /// A connection to the server itself.
            pub(crate) fn admin(&self, shard: &str) -> Conn {
                admin(self.database(shard))
            }

            /// How the connections of a manager are made.
            pub(crate) fn connecting(&self, builder: Builder) -> Builder {
                builder
            }
        }

        /// A connection that the crate knows nothing of, for what a test does beside it.
        pub(crate) fn direct(url: &str) -> Conn {
            Conn::establish(url).expect("the test server answers")
        }

        /// How a connection is made, for tests that connect by a function of their own.
        pub(crate) fn open(url: &str) -> ConnectionResult<Conn> {
            Conn::establish(url)
        }

        /// The same with statements that are sent first.
        pub(crate) fn opened(url: &str, settings: &str) -> ConnectionResult<Conn> {
            let mut conn = Conn::establish(url)?;
            conn.batch_execute(settings)
                .map_err(diesel::ConnectionError::CouldntSetupConfiguration)?;
            Ok(conn)
        }

        fn admin(database: &Database) -> Conn {
            direct(&database.admin)
        }
    };
}
pub(crate) use fleet;
