//! Database URLs: read once, compared safely, never printed with a secret.

#[cfg(feature = "async-mysql")]
mod mysql;
mod parse;
#[cfg(feature = "async-postgres")]
mod postgres;
mod redact;
mod scrub;
mod sqlite;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::fmt::{self, Write as _};
use std::time::Duration;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::error::{ConfigErrors, ConfigProblem, Error};
use parse::{Uri, decode};
#[cfg(feature = "async-postgres")]
pub(crate) use postgres::PostgresTarget;
#[cfg(feature = "rustls")]
pub(crate) use postgres::{Roots, TlsSettings, Verify};
use redact::{MASK, PRINTABLE};

/// The bytes of a password that stand for themselves in a URL.
///
/// libpq and Diesel's MySQL driver both percent-decode the user information and change nothing
/// else, so everything beyond the unreserved characters of RFC 3986 is encoded.
const PASSWORD: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// Where a database is and how to log in there: a PostgreSQL, MySQL or SQLite URL, a libpq
/// `key=value` string, or the path of a SQLite file.
///
/// It may hold a password, so `Debug` and `Display` print a redacted form: scheme, user, host and
/// database, with a fixed mask in place of the password and of every parameter that is not known to
/// be harmless. A text that cannot be taken apart is not printed at all.
///
/// ```
/// use diesel_sharded::DatabaseUrl;
///
/// let url = DatabaseUrl::from("postgres://app:S3cr3t@db:5432/orders");
/// assert_eq!(url.to_string(), "postgres://app:***@db:5432/orders");
/// assert_eq!(url.expose(), "postgres://app:S3cr3t@db:5432/orders");
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct DatabaseUrl(String);

/// Which kind of database a [`DatabaseUrl`] names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum UrlKind {
    /// A path, `:memory:`, or a URL that begins with `sqlite://` or `file:`.
    Sqlite,
    /// A URL that begins with `postgres://` or `postgresql://`, or a libpq `key=value` string.
    Postgres,
    /// A URL that begins with `mysql://`, for MySQL and MariaDB.
    Mysql,
}

impl UrlKind {
    /// The usual name of the database.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Sqlite => "SQLite",
            Self::Postgres => "PostgreSQL",
            Self::Mysql => "MySQL",
        }
    }

    /// What `{backend}` in the path of a folder of migrations stands for; the feature has the same
    /// name.
    #[must_use]
    pub fn folder_name(self) -> &'static str {
        match self {
            Self::Sqlite => "sqlite",
            Self::Postgres => "postgres",
            Self::Mysql => "mysql",
        }
    }
}

/// A database server, as the connection budget counts it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Server {
    /// A host name in lower case, or the path of a socket.
    pub(crate) host: String,
    /// `None` for a socket that is a server by itself.
    pub(crate) port: Option<u16>,
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.port {
            Some(port) => write!(f, "{}:{port}", self.host),
            None => f.write_str(&self.host),
        }
    }
}

impl DatabaseUrl {
    /// The whole text, with the password: the one way to the secret. Never print or log it.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Which kind of database this is, or `None` if the text names none that is known.
    #[must_use]
    pub fn kind(&self) -> Option<UrlKind> {
        parse::kind(&self.0)
    }

    /// The same URL with this password, given as plain text; it replaces the one that is there.
    ///
    /// The password is escaped as the URL's own reader undoes it: percent-encoded in a PostgreSQL
    /// or MySQL URL, quoted in a libpq `key=value` string.
    ///
    /// ```
    /// use diesel_sharded::DatabaseUrl;
    ///
    /// let url = DatabaseUrl::from("postgres://app@db/orders").with_password("p@ss/word")?;
    /// assert_eq!(url.expose(), "postgres://app:p%40ss%2Fword@db/orders");
    /// # Ok::<(), diesel_sharded::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Config`] where the URL cannot be read, where its database takes no password
    /// (SQLite), and for a password with a zero byte, which no driver can send.
    pub fn with_password(&self, password: &str) -> Result<Self, Error> {
        self.try_with_password(password).map_err(|message| {
            ConfigErrors(vec![ConfigProblem {
                origin: String::new(),
                key: "password".to_owned(),
                message: message.to_owned(),
            }])
            .into()
        })
    }

    pub(crate) fn try_with_password(&self, password: &str) -> Result<Self, &'static str> {
        const UNREADABLE: &str = "the url cannot be read, so the password has no place in it";
        if password.contains('\0') {
            return Err("a password cannot contain a zero byte");
        }
        match self.kind() {
            Some(UrlKind::Postgres) if parse::is_uri(&self.0) => parse::postgres(&self.0)
                .map(|uri| Self(rebuild(&uri, password)))
                .ok_or(UNREADABLE),
            Some(UrlKind::Postgres) => parse::conninfo(&self.0)
                .map(|mut info| {
                    info.remove("password");
                    info.push("password", password);
                    Self(info.to_string())
                })
                .ok_or(UNREADABLE),
            Some(UrlKind::Mysql) => parse::mysql(&self.0)
                .map(|uri| Self(rebuild(&uri, password)))
                .ok_or(UNREADABLE),
            Some(UrlKind::Sqlite) => {
                Err("a SQLite database takes no password: remove it, or check the url")
            }
            None => Err(UNREADABLE),
        }
    }

    /// Whether the text itself brings a password.
    #[cfg(feature = "config")]
    pub(crate) fn has_password(&self) -> bool {
        match self.kind() {
            Some(UrlKind::Postgres) if parse::is_uri(&self.0) => parse::postgres(&self.0)
                .is_some_and(|uri| uri.password.is_some() || uri.param("password").is_some()),
            Some(UrlKind::Postgres) => {
                parse::conninfo(&self.0).is_some_and(|info| info.get("password").is_some())
            }
            Some(UrlKind::Mysql) => parse::mysql(&self.0).is_some_and(|uri| uri.password.is_some()),
            Some(UrlKind::Sqlite) | None => false,
        }
    }

    /// The database that a MySQL session starts in.
    pub(crate) fn mysql_database(&self) -> Option<&str> {
        if self.kind() != Some(UrlKind::Mysql) {
            return None;
        }
        // Diesel hands it on as it is, without decoding it.
        parse::mysql(&self.0)?
            .database
            .filter(|name| !name.is_empty())
    }

    /// Whether the parts of the text can be told apart; one that cannot is refused at load.
    pub(crate) fn is_readable(&self) -> bool {
        match self.kind() {
            // What could not be printed without risk was misread somewhere: an `@` that is not
            // escaped makes a piece of the password the host, and drivers print hosts.
            Some(UrlKind::Postgres | UrlKind::Mysql) => self.redacted().is_some(),
            Some(UrlKind::Sqlite) => true,
            None => false,
        }
    }

    /// Whether every port that the text names is one: libpq refuses others, where another driver
    /// would take port 0 for the default.
    pub(crate) fn has_valid_ports(&self) -> bool {
        let of_uri = |uri: Uri<'_>| {
            let hosts = uri.hosts().unwrap_or_default();
            hosts.iter().all(|(_, port)| *port != Some(0))
                && uri.param("port").is_none_or(|list| parse::are_ports(&list))
        };
        match self.kind() {
            Some(UrlKind::Postgres) if parse::is_uri(&self.0) => {
                parse::postgres(&self.0).is_none_or(of_uri)
            }
            Some(UrlKind::Postgres) => parse::conninfo(&self.0)
                .is_none_or(|info| info.get("port").is_none_or(parse::are_ports)),
            Some(UrlKind::Mysql) => parse::mysql(&self.0).is_none_or(of_uri),
            Some(UrlKind::Sqlite) | None => true,
        }
    }

    /// Whether this is a SQLite database that lives in memory, or in a temporary file of one
    /// connection: it is gone with its last connection.
    #[must_use]
    pub fn is_sqlite_memory(&self) -> bool {
        self.kind() == Some(UrlKind::Sqlite) && sqlite::Location::of(&self.0).is_memory()
    }

    /// The file of a SQLite database that has one, links followed.
    #[cfg_attr(
        not(any(feature = "r2d2", test)),
        expect(dead_code, reason = "only a driver connects")
    )]
    pub(crate) fn sqlite_file(&self) -> Option<std::path::PathBuf> {
        match self.kind() {
            Some(UrlKind::Sqlite) => match sqlite::Location::of(&self.0) {
                sqlite::Location::File(path) => Some(sqlite::absolute(&path)),
                sqlite::Location::PrivateMemory | sqlite::Location::SharedMemory(_) => None,
            },
            _ => None,
        }
    }

    /// The name under which several connections of this process share an in-memory SQLite database.
    pub(crate) fn sqlite_memory_name(&self) -> Option<String> {
        match self.kind() {
            Some(UrlKind::Sqlite) => match sqlite::Location::of(&self.0) {
                sqlite::Location::SharedMemory(name) => Some(name),
                sqlite::Location::PrivateMemory | sqlite::Location::File(_) => None,
            },
            _ => None,
        }
    }

    /// Every server this URL may connect to, with default ports filled in; none for SQLite.
    pub(crate) fn servers(&self) -> Vec<Server> {
        let mut servers = match self.kind() {
            Some(UrlKind::Postgres) if parse::is_uri(&self.0) => {
                parse::postgres(&self.0).and_then(|uri| {
                    let hosts = uri.hosts()?;
                    Some(parse::postgres_servers(hosts, |key| uri.param(key)))
                })
            }
            Some(UrlKind::Postgres) => parse::conninfo(&self.0).map(|info| {
                parse::postgres_servers(Vec::new(), |key| info.get(key).map(Cow::Borrowed))
            }),
            Some(UrlKind::Mysql) => {
                parse::mysql(&self.0).map(|uri| vec![parse::mysql_server(&uri)])
            }
            Some(UrlKind::Sqlite) | None => None,
        }
        .unwrap_or_default();
        servers.sort();
        servers.dedup();
        servers
    }

    /// A key that is equal for two URLs of one database. User, password and most parameters have no
    /// part in it; names of one host (`localhost`, `127.0.0.1`) are not resolved.
    ///
    /// `None` for a private in-memory database, which is another one for each shard, and for a URL
    /// that cannot be read.
    pub(crate) fn database_identity(&self) -> Option<String> {
        let (database, user, standby) = match self.kind()? {
            UrlKind::Sqlite => {
                return sqlite::Location::of(&self.0).identity();
            }
            UrlKind::Postgres if parse::is_uri(&self.0) => {
                let uri = parse::postgres(&self.0)?;
                let database = uri.param("dbname").or_else(|| uri.database.map(decode));
                let user = uri.param("user").or_else(|| uri.user.map(decode));
                let attributes = uri.param("target_session_attrs");
                (
                    database.map(Cow::into_owned),
                    user.map(Cow::into_owned),
                    wants_standby(attributes.as_deref()),
                )
            }
            UrlKind::Postgres => {
                let info = parse::conninfo(&self.0)?;
                (
                    info.get("dbname").map(str::to_owned),
                    info.get("user").map(str::to_owned),
                    wants_standby(info.get("target_session_attrs")),
                )
            }
            // Diesel hands the path of a MySQL URL on as it is, without decoding it.
            UrlKind::Mysql => {
                let uri = parse::mysql(&self.0)?;
                (uri.database.map(str::to_owned), None, false)
            }
        };
        let family = match self.kind()? {
            UrlKind::Mysql => "mysql",
            UrlKind::Postgres | UrlKind::Sqlite => "postgres",
        };
        // libpq's rule: the database is named like the user where nothing else is said.
        let database = database
            .filter(|name| !name.is_empty())
            .or(user)
            .unwrap_or_default();
        let mut identity = format!("{family}:");
        for server in self.servers() {
            let _ = write!(identity, "{server},");
        }
        // One list of hosts names two databases where it is asked for the primary and for a standby.
        let _ = write!(
            identity,
            "/{database}{}",
            if standby { "?standby" } else { "" }
        );
        Some(identity)
    }

    /// The text to connect with: for PostgreSQL with a `connect_timeout`, unless it brings its own,
    /// so that a host that accepts and says nothing cannot hold an attempt for ever.
    ///
    /// libpq counts whole seconds and takes 1 for 2.
    #[cfg_attr(
        not(any(feature = "r2d2", feature = "bb8", test)),
        expect(dead_code, reason = "only a driver connects")
    )]
    pub(crate) fn connect_url(&self, connect_timeout: Duration) -> String {
        let seconds = connect_timeout
            .as_secs()
            .saturating_add(u64::from(connect_timeout.subsec_nanos() > 0))
            .clamp(2, i32::MAX as u64);
        if self.kind() != Some(UrlKind::Postgres) {
            return self.0.clone();
        }
        if parse::is_uri(&self.0) {
            match parse::postgres(&self.0) {
                Some(uri) if uri.param("connect_timeout").is_none() => {
                    let joint = match uri.raw_query {
                        None => "?",
                        Some("") => "",
                        Some(_) => "&",
                    };
                    format!("{}{joint}connect_timeout={seconds}", self.0)
                }
                _ => self.0.clone(),
            }
        } else {
            match parse::conninfo(&self.0) {
                Some(info) if info.get("connect_timeout").is_none() => {
                    format!("{} connect_timeout={seconds}", self.0)
                }
                _ => self.0.clone(),
            }
        }
    }
}

fn wants_standby(attributes: Option<&str>) -> bool {
    matches!(attributes, Some("standby" | "read-only" | "prefer-standby"))
}

fn rebuild(uri: &Uri<'_>, password: &str) -> String {
    let mut text = format!(
        "{}://{}:{}@{}",
        uri.scheme,
        uri.user.unwrap_or_default(),
        utf8_percent_encode(password, PASSWORD),
        uri.authority,
    );
    if let Some(database) = uri.database {
        let _ = write!(text, "/{database}");
    }
    // A `password` parameter would win over the one that was just set.
    let kept = uri
        .query
        .iter()
        .filter(|(key, _)| decode(key) != "password");
    for (i, (key, value)) in kept.enumerate() {
        let _ = write!(text, "{}{key}", if i == 0 { '?' } else { '&' });
        if let Some(value) = value {
            let _ = write!(text, "={value}");
        }
    }
    text
}

impl From<&str> for DatabaseUrl {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl From<String> for DatabaseUrl {
    fn from(text: String) -> Self {
        Self(text)
    }
}
