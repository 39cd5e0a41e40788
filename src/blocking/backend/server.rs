//! What a database server says of itself.

/// What a database server says of itself, and which of its databases this is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerInfo {
    /// Its name and version: `PostgreSQL 15.6`.
    pub version: String,
    /// Whether it takes no writes: a standby, or one that was set so.
    pub read_only: bool,
    /// A text that is equal for two connections exactly where they reach the same database, however
    /// it is called in their URLs; good for comparing within a minute, not for keeping.
    pub database: String,
}

impl ServerInfo {
    /// What a server said.
    pub fn new(version: String, read_only: bool, database: String) -> Self {
        Self {
            version,
            read_only,
            database,
        }
    }
}

/// Gives a connection type the function that asks for its three columns.
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
macro_rules! server_function {
    ($conn:ty, $sql:expr) => {
        use diesel::prelude::*;
        use diesel::sql_types::{Bool, Nullable, Text};

        #[derive(diesel::QueryableByName)]
        struct Row {
            #[diesel(sql_type = Text)]
            version: String,
            #[diesel(sql_type = Bool)]
            read_only: bool,
            #[diesel(sql_type = Nullable<Text>)]
            place: Option<String>,
        }

        pub(in crate::blocking::backend) fn server(
            conn: &mut $conn,
        ) -> QueryResult<super::ServerInfo> {
            let row: Row = diesel::sql_query($sql).get_result(conn)?;
            Ok(super::ServerInfo::new(
                row.version,
                row.read_only,
                row.place.unwrap_or_default(),
            ))
        }
    };
}

#[cfg(feature = "sqlite")]
pub(super) mod sqlite {
    use std::path::Path;

    use super::ServerInfo;

    /// A file may have several names.
    pub(in crate::blocking::backend) fn of_file(server: ServerInfo) -> ServerInfo {
        let database = identity(Path::new(&server.database));
        ServerInfo {
            database: database.unwrap_or_default(),
            ..server
        }
    }

    #[cfg(unix)]
    fn identity(file: &Path) -> Option<String> {
        use std::os::unix::fs::MetadataExt as _;

        let file = file.metadata().ok()?;
        Some(format!("{}/{}", file.dev(), file.ino()))
    }

    #[cfg(not(unix))]
    fn identity(file: &Path) -> Option<String> {
        Some(file.canonicalize().ok()?.display().to_string())
    }

    /// Whether SQLite has the file open for reading only, because of its rights or of its URL.
    ///
    /// The function that tells is out of reach, but SQLite makes a reading transaction of `BEGIN IMMEDIATE`
    /// then, and shows that without beginning one: nobody else's work is in the way, and nobody's is
    /// disturbed. Opening the file beside SQLite would be no way to ask, since closing it again lets go of
    /// all locks that this process has on it.
    pub(in crate::blocking::backend) fn is_open_for_reading(
        conn: &mut diesel::SqliteConnection,
    ) -> QueryResult<bool> {
        let steps: Vec<Step> = diesel::sql_query("EXPLAIN BEGIN IMMEDIATE").load(conn)?;
        Ok(steps
            .iter()
            .any(|step| step.opcode == "Transaction" && step.p1 == 0 && step.p2 == 0))
    }

    /// A step of SQLite's virtual machine. Of `Transaction`, `p1` is the database (0 is the main one) and
    /// `p2` whether it is to write.
    #[derive(diesel::QueryableByName)]
    struct Step {
        #[diesel(sql_type = Text)]
        opcode: String,
        #[diesel(sql_type = diesel::sql_types::BigInt)]
        p1: i64,
        #[diesel(sql_type = diesel::sql_types::BigInt)]
        p2: i64,
    }

    server_function!(
        diesel::SqliteConnection,
        "SELECT 'SQLite ' || sqlite_version() AS version, \
                (SELECT query_only FROM pragma_query_only) AS read_only, \
                (SELECT file FROM pragma_database_list WHERE name = 'main') AS place"
    );
}

#[cfg(feature = "postgres")]
pub(super) mod postgres {
    // A standby has the system identifier of its primary, but not its start.
    server_function!(
        diesel::PgConnection,
        "SELECT 'PostgreSQL ' || split_part(current_setting('server_version'), ' ', 1) AS version, \
                pg_is_in_recovery() OR current_setting('default_transaction_read_only')::bool AS read_only, \
                concat(extract(epoch from pg_postmaster_start_time()), '/', current_setting('port'), '/', \
                       (SELECT oid FROM pg_database WHERE datname = current_database())) AS place"
    );
}

#[cfg(feature = "mysql")]
pub(super) mod mysql {
    server_function!(
        diesel::MysqlConnection,
        "SELECT concat(if(version() LIKE '%MariaDB%', 'MariaDB ', 'MySQL '), \
                       substring_index(version(), '-', 1)) AS version, \
                @@global.read_only <> 0 AS read_only, \
                concat(@@hostname, '/', @@port, '/', @@socket, '/', @@datadir, '/', database()) AS place"
    );
}
