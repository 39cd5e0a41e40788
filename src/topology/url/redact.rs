//! The printed form of a URL.

use std::fmt::{self, Write as _};

use super::parse::{Conninfo, Uri};
use super::{DatabaseUrl, UrlKind, parse, sqlite};

/// The text that stands for a password wherever a URL is printed; its length says nothing.
pub(super) const MASK: &str = "***";

/// What is printed of a text that cannot be taken apart: any part of it might be the password.
const UNREADABLE: &str = "<unreadable url>";

/// Parameters whose values may be printed. Every other value is masked: a list of the secret ones
/// would have to know them all. The path of a file is no secret, whatever the file holds.
pub(super) const PRINTABLE: &[&str] = &[
    "application_name",
    "cache",
    "channel_binding",
    "connect_timeout",
    "dbname",
    "fallback_application_name",
    "gssencmode",
    "host",
    "hostaddr",
    "immutable",
    "keepalives",
    "keepalives_count",
    "keepalives_idle",
    "keepalives_interval",
    "load_balance_hosts",
    "mode",
    "nolock",
    "port",
    "ssl",
    "ssl_ca",
    "ssl_cert",
    "ssl_key",
    "ssl_max_protocol_version",
    "ssl_min_protocol_version",
    "ssl_mode",
    "sslcert",
    "sslcrl",
    "sslcrldir",
    "sslkey",
    "sslmode",
    "sslnegotiation",
    "sslrootcert",
    "sslsni",
    "target_session_attrs",
    "tcp_user_timeout",
    "unix_socket",
    "user",
    "vfs",
];

impl DatabaseUrl {
    /// The redacted form, or `None` where nothing of the text may be shown.
    pub(super) fn redacted(&self) -> Option<String> {
        match self.kind()? {
            UrlKind::Sqlite => sqlite::redacted(&self.0),
            UrlKind::Postgres if parse::is_uri(&self.0) => {
                let uri = parse::postgres(&self.0)?;
                uri.hosts()?;
                redact_uri(&uri)
            }
            UrlKind::Postgres => Some(redact_conninfo(&parse::conninfo(&self.0)?)),
            UrlKind::Mysql => redact_uri(&parse::mysql(&self.0)?),
        }
    }
}

fn redact_uri(uri: &Uri<'_>) -> Option<String> {
    // An `@` further on is the sign of a password that was not escaped and ended the user
    // information too early: what looks like a host or a database is then a piece of it.
    let misread = |text: &str| text.contains('@');
    if misread(uri.authority)
        || uri.database.is_some_and(misread)
        || uri.fragment.is_some()
        || uri
            .query
            .iter()
            .any(|(key, value)| misread(key) || value.is_some_and(misread))
    {
        return None;
    }
    let mut text = format!("{}://", uri.scheme);
    if uri.user.is_some() || uri.password.is_some() {
        text.push_str(uri.user.unwrap_or_default());
        if uri.password.is_some() {
            let _ = write!(text, ":{MASK}");
        }
        text.push('@');
    }
    text.push_str(uri.authority);
    if let Some(database) = uri.database {
        let _ = write!(text, "/{database}");
    }
    for (i, (key, value)) in uri.query.iter().enumerate() {
        text.push(if i == 0 { '?' } else { '&' });
        redact_parameter(&mut text, key, value.unwrap_or_default());
    }
    Some(text)
}

fn redact_conninfo(info: &Conninfo) -> String {
    let mut text = String::new();
    for (i, (key, value)) in info.pairs().enumerate() {
        if i > 0 {
            text.push(' ');
        }
        redact_parameter(&mut text, key, value);
    }
    text
}

fn redact_parameter(text: &mut String, key: &str, value: &str) {
    if PRINTABLE.contains(&key) {
        let _ = write!(text, "{key}={value}");
    } else if matches!(key, "password" | "sslpassword" | "passfile") {
        let _ = write!(text, "{key}={MASK}");
    } else {
        // Not even the key: a password with a raw `&` or blank in it ends up here.
        text.push_str(MASK);
    }
}

impl fmt::Display for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.redacted().as_deref().unwrap_or(UNREADABLE))
    }
}

impl fmt::Debug for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DatabaseUrl({self})")
    }
}
