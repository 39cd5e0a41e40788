//! SQLite: files in a temporary folder.

use diesel::SqliteConnection;
use diesel::connection::SimpleConnection;
use diesel::sqlite::Sqlite;
use tempfile::TempDir;

pub(crate) type Conn = SqliteConnection;
pub(crate) const NAME: &str = "sqlite";

/// The wait first: switching to WAL takes a lock.
pub(crate) const SETTINGS: &str =
    "PRAGMA busy_timeout = 5000; PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF";

/// Databases of one test, gone with it.
pub(crate) struct Fleet {
    folder: TempDir,
    shards: Vec<String>,
}

crate::support::fixtures!(Sqlite);
crate::support::blocking::driver!();
crate::support::managers!();

impl Fleet {
    pub(crate) fn new(shards: &[&str]) -> Self {
        let fleet = Self {
            folder: tempfile::tempdir().expect("a temporary folder"),
            shards: shards.iter().map(|shard| (*shard).to_owned()).collect(),
        };
        for shard in shards {
            fleet
                .direct(shard)
                .batch_execute(&format!(
                    "CREATE TABLE whoami (name TEXT NOT NULL); INSERT INTO whoami VALUES ('{shard}');
                     CREATE TABLE items (id INTEGER PRIMARY KEY, note TEXT)"
                ))
                .expect("the tables are created");
        }
        fleet
    }

    pub(crate) fn shards(&self) -> Vec<String> {
        self.shards.clone()
    }

    pub(crate) fn url(&self, shard: &str) -> String {
        assert!(self.shards.iter().any(|known| known == shard), "{shard:?}");
        let file = self.folder.path().join(format!("{shard}.db"));
        file.display().to_string()
    }

    /// A connection that the crate knows nothing of.
    pub(crate) fn direct(&self, shard: &str) -> Conn {
        direct(&self.url(shard))
    }

    /// How the connections of a manager are made.
    pub(crate) fn connecting(&self, builder: Builder) -> Builder {
        builder.connect_with(|node| open(node.url().expose()))
    }

    /// 1 while somebody has a write transaction open, else 0.
    pub(crate) fn open_transactions(&self, shard: &str) -> i64 {
        let mut conn = self.direct(shard);
        let free = conn.batch_execute("PRAGMA busy_timeout = 0; BEGIN IMMEDIATE; ROLLBACK");
        i64::from(free.is_err())
    }
}

/// A connection that the crate knows nothing of, for what a test does beside it.
pub(crate) fn direct(url: &str) -> Conn {
    open(url).expect("the file can be opened")
}

/// How a connection is made, for tests that connect by a function of their own.
pub(crate) fn open(url: &str) -> ConnectionResult<Conn> {
    opened(url, "")
}

/// The same, with more settings.
pub(crate) fn opened(url: &str, settings: &str) -> ConnectionResult<Conn> {
    let mut conn = Conn::establish(url)?;
    conn.batch_execute(&format!("{SETTINGS}; {settings}"))
        .map_err(diesel::ConnectionError::CouldntSetupConfiguration)?;
    Ok(conn)
}
