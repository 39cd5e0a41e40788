//! Taking database URLs apart, each as its own driver does: libpq's rules for PostgreSQL (several
//! hosts, sockets, `key=value` strings), the `url` crate's for MySQL.

use std::borrow::Cow;
use std::fmt;

use percent_encoding::percent_decode_str;

use super::{Server, UrlKind};

/// Keywords whose presence makes a text a libpq `key=value` string.
const CONNINFO_KEYS: &[&str] = &[
    "dbname", "host", "hostaddr", "password", "port", "service", "user",
];

/// Decides what kind of database a text names.
pub(super) fn kind(text: &str) -> Option<UrlKind> {
    if let Some((scheme, _)) = text.split_once("://") {
        // libpq knows its schemes in lower case only.
        if matches!(scheme, "postgres" | "postgresql") {
            return Some(UrlKind::Postgres);
        }
        if scheme.eq_ignore_ascii_case("mysql") {
            return Some(UrlKind::Mysql);
        }
        if matches!(scheme, "sqlite" | "file") {
            return Some(UrlKind::Sqlite);
        }
        if !is_conninfo(text) {
            return None;
        }
    }
    if is_conninfo(text) {
        return Some(UrlKind::Postgres);
    }
    // `postgres//app:secret@db` is no path, however much it looks like one.
    match (text.find(':'), text.find('@')) {
        (Some(colon), Some(at)) if colon < at && !text.starts_with("file:") => None,
        _ => Some(UrlKind::Sqlite),
    }
}

/// Whether a PostgreSQL text is a URL rather than a `key=value` string.
pub(super) fn is_uri(text: &str) -> bool {
    text.starts_with("postgres://") || text.starts_with("postgresql://")
}

/// libpq allows blanks on both sides of a `=`.
fn is_conninfo(text: &str) -> bool {
    text.match_indices('=').any(|(at, _)| {
        let key = text[..at].split_whitespace().next_back();
        key.is_some_and(|key| CONNINFO_KEYS.contains(&key))
    })
}

/// Percent-decodes; what is not UTF-8 afterwards is left as it was.
pub(super) fn decode(text: &str) -> Cow<'_, str> {
    percent_decode_str(text)
        .decode_utf8()
        .unwrap_or(Cow::Borrowed(text))
}

/// The raw parts of a URL; nothing is decoded.
#[derive(Debug)]
pub(super) struct Uri<'a> {
    pub(super) scheme: &'a str,
    pub(super) user: Option<&'a str>,
    pub(super) password: Option<&'a str>,
    /// Hosts and ports.
    pub(super) authority: &'a str,
    pub(super) database: Option<&'a str>,
    /// What stands behind the `?`, if there is one.
    pub(super) raw_query: Option<&'a str>,
    pub(super) query: Vec<(&'a str, Option<&'a str>)>,
    pub(super) fragment: Option<&'a str>,
}

impl<'a> Uri<'a> {
    fn new(scheme: &'a str, userinfo: Option<&'a str>, rest: &'a str) -> Self {
        let (user, password) = match userinfo.map(|info| info.split_once(':')) {
            None => (None, None),
            Some(None) => (userinfo, None),
            Some(Some((user, password))) => (Some(user), Some(password)),
        };
        let (rest, raw_query) = match rest.split_once('?') {
            Some((rest, query)) => (rest, Some(query)),
            None => (rest, None),
        };
        let (authority, database) = match rest.split_once('/') {
            Some((authority, database)) => (authority, Some(database)),
            None => (rest, None),
        };
        let query = raw_query
            .filter(|query| !query.is_empty())
            .map(|query| {
                query
                    .split('&')
                    .map(|pair| match pair.split_once('=') {
                        Some((key, value)) => (key, Some(value)),
                        None => (pair, None),
                    })
                    .collect()
            })
            .unwrap_or_default();
        Self {
            scheme,
            user,
            password,
            authority,
            database,
            raw_query,
            query,
            fragment: None,
        }
    }

    /// The decoded value of a parameter; the last one wins, as in libpq.
    pub(super) fn param(&self, key: &str) -> Option<Cow<'a, str>> {
        self.query
            .iter()
            .rev()
            .find(|(name, _)| decode(name) == key)
            .map(|(_, value)| decode(value.unwrap_or_default()))
    }

    /// Hosts and ports, decoded; `None` where a port is no number.
    pub(super) fn hosts(&self) -> Option<Vec<(String, Option<u16>)>> {
        self.authority
            .split(',')
            .map(|part| {
                let (host, port) = match part.strip_prefix('[').and_then(|v6| v6.split_once(']')) {
                    Some((host, "")) => (host, ""),
                    Some((host, port)) => (host, port.strip_prefix(':')?),
                    None => part.split_once(':').unwrap_or((part, "")),
                };
                let port = match port {
                    "" => None,
                    port => Some(port.parse().ok()?),
                };
                Some((decode(host).into_owned(), port))
            })
            .collect()
    }
}

/// Takes a PostgreSQL URL apart as libpq does: the first `@` before any `/` ends the user
/// information.
pub(super) fn postgres(text: &str) -> Option<Uri<'_>> {
    let (scheme, rest) = text.split_once("://")?;
    let (userinfo, rest) = match rest.find(['@', '/']) {
        Some(at) if rest.as_bytes()[at] == b'@' => (Some(&rest[..at]), &rest[at + 1..]),
        _ => (None, rest),
    };
    Some(Uri::new(scheme, userinfo, rest))
}

/// Takes a MySQL URL apart as the `url` crate, and so Diesel, does: the last `@` before any `/`,
/// `?` or `#` ends the user information.
pub(super) fn mysql(text: &str) -> Option<Uri<'_>> {
    url::Url::parse(text).ok()?;
    let (scheme, rest) = text.split_once("://")?;
    let (rest, fragment) = match rest.split_once('#') {
        Some((rest, fragment)) => (rest, Some(fragment)),
        None => (rest, None),
    };
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (userinfo, rest) = match rest[..end].rfind('@') {
        Some(at) => (Some(&rest[..at]), &rest[at + 1..]),
        None => (None, rest),
    };
    let uri = Uri {
        fragment,
        ..Uri::new(scheme, userinfo, rest)
    };
    uri.hosts()
        .is_some_and(|hosts| hosts.len() == 1)
        .then_some(uri)
}

/// Whether libpq takes a text for a list of ports; an empty entry is the default.
pub(super) fn are_ports(list: &str) -> bool {
    list.split(',')
        .map(str::trim)
        .all(|port| port.is_empty() || port.parse::<u16>().is_ok_and(|port| port != 0))
}

/// The one server of a MySQL URL.
pub(super) fn mysql_server(uri: &Uri<'_>) -> Server {
    let (host, port) = uri
        .hosts()
        .and_then(|hosts| hosts.into_iter().next())
        .unwrap_or_default();
    let host = host.to_ascii_lowercase();
    // Diesel's rule: the socket is used where the host is `localhost` or missing.
    match uri.param("unix_socket") {
        Some(socket) if host.is_empty() || host == "localhost" => Server {
            host: socket.into_owned(),
            port: None,
        },
        _ => Server {
            host: if host.is_empty() {
                "localhost".to_owned()
            } else {
                host
            },
            port: Some(port.unwrap_or(3306)),
        },
    }
}

/// The servers of a PostgreSQL URL or string: `hosts` from the authority, overridden by the
/// parameters of the same meaning.
pub(super) fn postgres_servers<'p>(
    mut hosts: Vec<(String, Option<u16>)>,
    param: impl Fn(&str) -> Option<Cow<'p, str>>,
) -> Vec<Server> {
    let mut named = hosts.iter().any(|(host, _)| !host.is_empty());
    if let Some(list) = param("host").or_else(|| param("hostaddr").filter(|_| !named)) {
        let ports: Vec<_> = hosts.iter().map(|(_, port)| *port).collect();
        hosts = list
            .split(',')
            .enumerate()
            .map(|(i, host)| {
                let port = ports.get(i).or(ports.first().filter(|_| ports.len() == 1));
                (host.to_owned(), port.copied().flatten())
            })
            .collect();
        named = true;
    }
    if !named && hosts.is_empty() {
        hosts.push((String::new(), None));
    }
    if let Some(list) = param("port") {
        let ports: Vec<_> = list
            .split(',')
            .map(|port| port.trim().parse().ok())
            .collect();
        for (i, (_, port)) in hosts.iter_mut().enumerate() {
            let given = ports.get(i).or(ports.first().filter(|_| ports.len() == 1));
            *port = given.copied().flatten();
        }
    }
    hosts
        .into_iter()
        .map(|(host, port)| Server {
            // Where no host is named, libpq takes a local socket or `localhost`.
            host: if host.is_empty() {
                "localhost".to_owned()
            } else if host.starts_with('/') {
                host
            } else {
                host.to_ascii_lowercase()
            },
            port: Some(port.unwrap_or(5432)),
        })
        .collect()
}

/// A libpq `key=value` string.
#[derive(Debug)]
pub(super) struct Conninfo(Vec<(String, String)>);

impl Conninfo {
    /// The last value of a key, as in libpq.
    pub(super) fn get(&self, key: &str) -> Option<&str> {
        let found = self.0.iter().rev().find(|(name, _)| name == key);
        found.map(|(_, value)| value.as_str())
    }

    pub(super) fn remove(&mut self, key: &str) {
        self.0.retain(|(name, _)| name != key);
    }

    pub(super) fn push(&mut self, key: &str, value: &str) {
        self.0.push((key.to_owned(), value.to_owned()));
    }

    pub(super) fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0
            .iter()
            .map(|(key, value)| (key.as_str(), value.as_str()))
    }
}

impl fmt::Display for Conninfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (key, value)) in self.0.iter().enumerate() {
            write!(f, "{}{key}='", if i == 0 { "" } else { " " })?;
            for c in value.chars() {
                if matches!(c, '\'' | '\\') {
                    f.write_str("\\")?;
                }
                write!(f, "{c}")?;
            }
            f.write_str("'")?;
        }
        Ok(())
    }
}

/// Reads a `key=value` string by libpq's rules; `None` where libpq would refuse it.
pub(super) fn conninfo(text: &str) -> Option<Conninfo> {
    let mut pairs = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let (key, value) = rest.split_once('=')?;
        let key = key.trim_end();
        if key.is_empty() || key.contains(char::is_whitespace) {
            return None;
        }
        let value = value.trim_start();
        let quoted = value.starts_with('\'');
        let mut chars = value[usize::from(quoted)..].chars();
        let mut unescaped = String::new();
        loop {
            match chars.next() {
                Some('\\') => unescaped.extend(chars.next()),
                Some('\'') if quoted => break,
                Some(c) if !quoted && c.is_whitespace() => break,
                Some(c) => unescaped.push(c),
                None if quoted => return None,
                None => break,
            }
        }
        pairs.push((key.to_owned(), unescaped));
        rest = chars.as_str().trim_start();
    }
    Some(Conninfo(pairs))
}
