//! MySQL and MariaDB: databases of their own on the test servers.

use diesel::MysqlConnection;
use diesel::connection::SimpleConnection;
use diesel::mysql::Mysql;
use diesel::sql_types::BigInt;

use super::server::{self, Database};

pub(crate) type Conn = MysqlConnection;
pub(crate) const NAME: &str = "mysql";

/// Databases of one test, gone with it.
pub(crate) struct Fleet {
    databases: Vec<Database>,
}

crate::support::fixtures!(Mysql);
crate::support::blocking::driver!();
crate::support::managers!();

impl Fleet {
    pub(crate) fn new(shards: &[&str]) -> Self {
        let fleet = Self {
            databases: server::databases(server::MYSQL, shards),
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

    /// How many sessions of the shard's database have a transaction that has touched a table.
    pub(crate) fn open_transactions(&self, shard: &str) -> i64 {
        // The server keeps the answer for 100 ms.
        std::thread::sleep(std::time::Duration::from_millis(110));
        let name = &self.database(shard).name;
        diesel::select(diesel::dsl::sql::<BigInt>(&format!(
            "(SELECT count(*) FROM information_schema.innodb_trx t
              JOIN information_schema.processlist p ON p.id = t.trx_mysql_thread_id
              WHERE p.db = '{name}')"
        )))
        .get_result(&mut self.admin(shard))
        .expect("the server knows its transactions")
    }

    /// How many sessions the shard's database has.
    pub(crate) fn sessions(&self, shard: &str) -> i64 {
        self.session_ids(shard)
            .len()
            .try_into()
            .expect("not that many")
    }

    fn session_ids(&self, shard: &str) -> Vec<i64> {
        diesel::dsl::sql::<BigInt>(&format!(
            "SELECT CAST(id AS SIGNED) FROM information_schema.processlist WHERE db = '{}'",
            self.database(shard).name
        ))
        .load(&mut self.admin(shard))
        .expect("the server knows its sessions")
    }

    /// Ends every session of the shard's database.
    pub(crate) fn kill_all(&self, shard: &str) {
        let mut admin = self.admin(shard);
        for id in self.session_ids(shard) {
            // It may have ended by itself.
            let _ = admin.batch_execute(&format!("KILL {id}"));
        }
        crate::support::eventually("all sessions are gone", || self.sessions(shard) == 0);
    }
}

/// The number of the session on its server.
pub(crate) fn session<C: LoadConnection<Backend = Mysql>>(conn: &mut C) -> QueryResult<i64> {
    diesel::define_sql_function! { fn connection_id() -> BigInt; }
    diesel::select(connection_id()).get_result(conn)
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
            // A session that still holds a lock would keep the server from dropping.
            self.kill_all(&database.shard);
            let dropped = self
                .admin(&database.shard)
                .batch_execute(&format!("DROP DATABASE IF EXISTS {}", database.name));
            if let Err(error) = dropped {
                eprintln!("the database {} stays behind: {error}", database.name);
            }
        }
    }
}
