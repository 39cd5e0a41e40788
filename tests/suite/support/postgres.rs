//! PostgreSQL: databases of their own on the test servers.

use diesel::PgConnection;
use diesel::connection::SimpleConnection;
use diesel::pg::Pg;
use diesel::sql_types::BigInt;

use super::server::{self, Database};

pub(crate) type Conn = PgConnection;
pub(crate) const NAME: &str = "postgres";

/// Databases of one test, gone with it.
pub(crate) struct Fleet {
    databases: Vec<Database>,
}

crate::support::fixtures!(Pg);
crate::support::blocking::driver!();
crate::support::managers!();

impl Fleet {
    pub(crate) fn new(shards: &[&str]) -> Self {
        let fleet = Self {
            databases: server::databases(server::POSTGRES, shards),
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

    /// How many sessions of the shard's database lie idle in a transaction.
    pub(crate) fn open_transactions(&self, shard: &str) -> i64 {
        self.count(shard, "AND state LIKE 'idle in transaction%'")
    }

    /// How many sessions the shard's database has.
    pub(crate) fn sessions(&self, shard: &str) -> i64 {
        self.count(shard, "")
    }

    fn count(&self, shard: &str, more: &str) -> i64 {
        let name = &self.database(shard).name;
        diesel::select(diesel::dsl::sql::<BigInt>(&format!(
            "(SELECT count(*) FROM pg_stat_activity WHERE datname = '{name}' {more})"
        )))
        .get_result(&mut self.admin(shard))
        .expect("the server knows its sessions")
    }

    /// Ends every session of the shard's database.
    pub(crate) fn kill_all(&self, shard: &str) {
        let name = &self.database(shard).name;
        self.admin(shard)
            .batch_execute(&format!(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'"
            ))
            .expect("the admin may end sessions");
        crate::support::eventually("all sessions are gone", || self.sessions(shard) == 0);
    }
}

/// The number of the session on its server.
pub(crate) fn session<C: LoadConnection<Backend = Pg>>(conn: &mut C) -> QueryResult<i64> {
    diesel::define_sql_function! { fn pg_backend_pid() -> Integer; }
    let pid: i32 = diesel::select(pg_backend_pid()).get_result(conn)?;
    Ok(pid.into())
}

/// A connection that the crate knows nothing of, for what a test does beside it.
pub(crate) fn direct(url: &str) -> Conn {
    Conn::establish(url).expect("the test server answers")
}

/// How a connection is made, for tests that connect by a function of their own.
pub(crate) fn open(url: &str) -> ConnectionResult<Conn> {
    Conn::establish(url)
}

fn admin(database: &Database) -> Conn {
    direct(&database.admin)
}

impl Drop for Fleet {
    fn drop(&mut self) {
        for database in &self.databases {
            let dropped = Conn::establish(&database.admin).map(|mut admin| {
                admin.batch_execute(&format!(
                    "DROP DATABASE IF EXISTS {} WITH (FORCE)",
                    database.name
                ))
            });
            if !matches!(dropped, Ok(Ok(()))) {
                eprintln!("the database {} stays behind: {dropped:?}", database.name);
            }
        }
    }
}
