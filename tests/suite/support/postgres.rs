//! PostgreSQL: databases of their own on the test servers.

use diesel::PgConnection;
use diesel::connection::SimpleConnection;
use diesel::pg::Pg;
use diesel::sql_types::BigInt;

pub(crate) type Conn = PgConnection;
pub(crate) const NAME: &str = "postgres";

/// Loads rows as the server sends them.
pub(crate) type RowByRow = diesel::pg::PgRowByRowLoadingMode;

super::server::fleet!(super::server::POSTGRES);
crate::support::fixtures!(Pg);
crate::support::blocking::driver!();
crate::support::managers!();

impl Fleet {
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
