//! The eight databases and their spare: what is on them, and how they are reached.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use diesel::sql_types::BigInt;
use diesel::{MysqlConnection, PgConnection, SqliteConnection};
use diesel_sharded::blocking::{NodeConnection, NodeInfo, ShardedConnection};
use diesel_sharded::{BoxError, DatabaseUrl, UrlKind};
use tempfile::TempDir;
use url::Url;

#[derive(diesel::MultiConnection)]
pub(crate) enum AnyConnection {
    Sqlite(SqliteConnection),
    Postgres(PgConnection),
    Mysql(MysqlConnection),
}

diesel_sharded::sharded_multi_connection!(AnyConnection {
    Sqlite(SqliteConnection),
    Postgres(PgConnection),
    Mysql(MysqlConnection),
});

pub(crate) type Manager = diesel_sharded::blocking::ShardedConnectionManager<AnyConnection>;
pub(crate) type Sharded = ShardedConnection<AnyConnection>;

diesel::table! {
    /// One row: the name of the shard.
    whoami (name) { name -> Text, }
}

diesel::table! {
    /// Nothing is unique but `n`, so that a write that happened twice is there twice.
    writes (n) {
        n -> BigInt,
        id -> BigInt,
        part -> Integer,
        shard -> Text,
    }
}

diesel::table! {
    /// Counters that everybody wants at once.
    hot (id) { id -> BigInt, n -> BigInt, }
}

/// The shards of the keyspace; the first four have a server each.
pub(crate) const SHARDS: [&str; 8] = [
    "pg-0", "pg-1", "my-0", "my-1", "file-0", "file-1", "file-2", "file-3",
];
/// A shard that comes and goes.
pub(crate) const SPARE: usize = SHARDS.len();
pub(crate) const ALL: [&str; 9] = [
    "pg-0", "pg-1", "my-0", "my-1", "file-0", "file-1", "file-2", "file-3", "spare",
];
/// The servers, as `scripts/servers` calls them; server `i` has shard `i`.
pub(crate) const SERVERS: [&str; 4] = ["pg1", "pg2", "my1", "my2"];
pub(crate) const HOT_ROWS: i64 = 4;

const APP: &str = "soak_app";

pub(crate) struct Fleet {
    folder: TempDir,
    admin: Vec<Url>,
    database: String,
}

impl Fleet {
    pub(crate) fn new() -> Result<Self, BoxError> {
        let mut admin = Vec::new();
        for variable in ["DIESEL_SHARDED_TEST_PG", "DIESEL_SHARDED_TEST_MYSQL"] {
            let urls = std::env::var(variable).unwrap_or_default();
            for url in urls.split_whitespace() {
                admin.push(Url::parse(url)?);
            }
        }
        if admin.len() != SERVERS.len() || std::env::var("DIESEL_SHARDED_TEST_SCRATCH").is_err() {
            return Err("four servers that can be stopped are needed: run scripts/soak".into());
        }
        let fleet = Self {
            folder: tempfile::tempdir()?,
            admin,
            database: format!("soak_{}", std::process::id()),
        };
        fleet.create()?;
        Ok(fleet)
    }

    fn create(&self) -> Result<(), BoxError> {
        for server in 0..SERVERS.len() {
            let mut admin = open(&self.admin[server])?;
            admin.batch_execute(&format!("CREATE DATABASE {}", self.database))?;
            if server < 2 {
                self.set_password(server, "the-first")?;
                admin.batch_execute(&format!("ALTER DATABASE {} OWNER TO {APP}", self.database))?;
            }
        }
        for (index, shard) in ALL.iter().enumerate() {
            let mut conn = self.direct(index)?;
            let key = match conn.kind() {
                UrlKind::Postgres => "BIGSERIAL PRIMARY KEY",
                UrlKind::Mysql => "BIGINT AUTO_INCREMENT PRIMARY KEY",
                _ => "INTEGER PRIMARY KEY",
            };
            if conn.kind() == UrlKind::Sqlite {
                conn.batch_execute("PRAGMA journal_mode = WAL")?;
            }
            conn.batch_execute(&format!(
                "CREATE TABLE whoami (name VARCHAR(64) NOT NULL);
                 INSERT INTO whoami VALUES ('{shard}');
                 CREATE TABLE writes (n {key}, id BIGINT NOT NULL, part INTEGER NOT NULL,
                                      shard VARCHAR(64) NOT NULL);
                 CREATE INDEX writes_id ON writes (id);
                 CREATE TABLE hot (id BIGINT PRIMARY KEY, n BIGINT NOT NULL);
                 INSERT INTO hot VALUES (0, 0), (1, 0), (2, 0), (3, 0);"
            ))?;
            if index < 2 {
                conn.batch_execute(&format!(
                    "GRANT ALL ON whoami, writes, hot TO {APP}; GRANT ALL ON SEQUENCE writes_n_seq TO {APP}"
                ))?;
            }
        }
        Ok(())
    }

    /// The password of the application on a PostgreSQL server: changed there, then in the file that
    /// the password command prints.
    pub(crate) fn set_password(&self, server: usize, password: &str) -> Result<(), BoxError> {
        let mut admin = PgConnection::establish(self.admin[server].as_str())?;
        admin.batch_execute(&format!(
            "DO $$ BEGIN CREATE ROLE {APP} LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$;
             ALTER ROLE {APP} PASSWORD '{password}'"
        ))?;
        let file = self.password_file(server);
        std::fs::write(file.with_extension("next"), password)?;
        std::fs::rename(file.with_extension("next"), file)?;
        Ok(())
    }

    fn password_file(&self, server: usize) -> PathBuf {
        self.folder
            .path()
            .join(format!("{}.password", SERVERS[server]))
    }

    /// A shard's table in the configuration. `tag` makes it another URL for the same database.
    pub(crate) fn section(&self, shard: usize, state: &str, size: u32, tag: u32) -> String {
        let name = ALL[shard];
        let (url, password) = match shard {
            0 | 1 => {
                let mut url = self.url(shard);
                url.set_query(Some(&format!("application_name=soak_{tag}")));
                let _ = url.set_username(APP);
                let _ = url.set_password(None);
                let file = self.password_file(shard).display().to_string();
                let command = format!("password = {{ command = [\"cat\", \"{file}\"] }}\n");
                (url.to_string(), command)
            }
            2 | 3 => (self.url(shard).to_string(), String::new()),
            _ => (self.file(shard), String::new()),
        };
        format!(
            "[shards.{name}]\nurl = \"{url}\"\n{password}state = \"{state}\"\npool = {{ max_size = {size} }}\n"
        )
    }

    /// The file of a SQLite shard.
    pub(crate) fn file(&self, shard: usize) -> String {
        let file = self.folder.path().join(format!("{}.db", ALL[shard]));
        file.display().to_string()
    }

    fn url(&self, server: usize) -> Url {
        let mut url = self.admin[server].clone();
        url.set_path(&self.database);
        url
    }

    /// A connection that the crate's pools know nothing of, with all rights.
    pub(crate) fn direct(&self, shard: usize) -> ConnectionResult<AnyConnection> {
        let mut conn = if shard < SERVERS.len() {
            open(&self.url(shard))?
        } else {
            AnyConnection::Sqlite(SqliteConnection::establish(&self.file(shard))?)
        };
        if let AnyConnection::Sqlite(file) = &mut conn {
            file.batch_execute("PRAGMA busy_timeout = 5000")
                .map_err(ConnectionError::CouldntSetupConfiguration)?;
        }
        Ok(conn)
    }

    /// The sessions of the application on a server, by their numbers.
    pub(crate) fn sessions(&self, server: usize) -> Result<Vec<i64>, BoxError> {
        let name = &self.database;
        Ok(match open(&self.admin[server])? {
            AnyConnection::Postgres(mut admin) => diesel::dsl::sql::<BigInt>(&format!(
                "SELECT pid::bigint FROM pg_stat_activity WHERE datname = '{name}'"
            ))
            .load(&mut admin)?,
            AnyConnection::Mysql(mut admin) => diesel::dsl::sql::<BigInt>(&format!(
                "SELECT CAST(id AS SIGNED) FROM information_schema.processlist WHERE db = '{name}'"
            ))
            .load(&mut admin)?,
            AnyConnection::Sqlite(_) => Vec::new(),
        })
    }

    /// Ends sessions of a server.
    pub(crate) fn kill(&self, server: usize, sessions: &[i64]) -> Result<(), BoxError> {
        let mut admin = open(&self.admin[server])?;
        let is_postgres = admin.kind() == UrlKind::Postgres;
        for id in sessions {
            let _ = admin.batch_execute(&if is_postgres {
                format!("SELECT pg_terminate_backend({id})")
            } else {
                format!("KILL {id}")
            });
        }
        Ok(())
    }

    /// How many transactions are open on a shard, by its server's word.
    pub(crate) fn open_transactions(&self, shard: usize) -> Result<i64, BoxError> {
        let name = &self.database;
        let count = match self.direct(shard)? {
            AnyConnection::Postgres(mut admin) => {
                diesel::select(diesel::dsl::sql::<BigInt>(&format!(
                    "(SELECT count(*) FROM pg_stat_activity WHERE datname = '{name}'
                      AND pid <> pg_backend_pid() AND xact_start IS NOT NULL)
                     + (SELECT count(*) FROM pg_prepared_xacts WHERE database = '{name}')"
                )))
                .get_result(&mut admin)?
            }
            AnyConnection::Mysql(mut admin) => {
                diesel::select(diesel::dsl::sql::<BigInt>(&format!(
                    "(SELECT count(*) FROM information_schema.innodb_trx t
                      JOIN information_schema.processlist p ON p.id = t.trx_mysql_thread_id
                      WHERE p.db = '{name}' AND p.id <> connection_id())"
                )))
                .get_result(&mut admin)?
            }
            AnyConnection::Sqlite(mut file) => i64::from(
                file.batch_execute("PRAGMA busy_timeout = 0; BEGIN EXCLUSIVE; ROLLBACK")
                    .is_err(),
            ),
        };
        Ok(count)
    }
}

fn open(url: &Url) -> ConnectionResult<AnyConnection> {
    let kind = DatabaseUrl::from(url.as_str()).kind();
    AnyConnection::connect(kind.unwrap_or(UrlKind::Sqlite), url.as_str())
}

/// How the manager's connections are made: nobody waits long for a lock.
pub(crate) fn connect(node: NodeInfo<'_>) -> ConnectionResult<AnyConnection> {
    let kind = node.url().kind().unwrap_or(UrlKind::Sqlite);
    let mut conn = <AnyConnection as NodeConnection>::connect(kind, node.url().expose())?;
    conn.batch_execute(match kind {
        UrlKind::Postgres => "SET lock_timeout = '2s'",
        UrlKind::Mysql => "SET SESSION innodb_lock_wait_timeout = 2",
        _ => "PRAGMA busy_timeout = 2000; PRAGMA synchronous = OFF",
    })
    .map_err(ConnectionError::CouldntSetupConfiguration)?;
    Ok(conn)
}

/// `scripts/servers VERB NAME`; whether it went well.
pub(crate) fn servers(verb: &str, name: &str) -> bool {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/servers");
    Command::new(script)
        .args([verb, name])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}
