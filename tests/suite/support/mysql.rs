//! MySQL and MariaDB: databases of their own on the test servers.

use diesel::MysqlConnection;
use diesel::connection::SimpleConnection;
use diesel::mysql::Mysql;
use diesel::sql_types::BigInt;

pub(crate) type Conn = MysqlConnection;
pub(crate) const NAME: &str = "mysql";

super::server::fleet!(super::server::MYSQL);
crate::support::fixtures!(Mysql);
crate::support::blocking::driver!();
crate::support::managers!();

impl Fleet {
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
