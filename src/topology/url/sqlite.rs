//! Where a SQLite database lives.

use std::borrow::Cow;
use std::path::{Component, Path, PathBuf};

use super::parse::decode;
use super::redact::{MASK, PRINTABLE};

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Location {
    /// Each connection has a database of its own.
    PrivateMemory,
    /// The connections of this process that use this name share one.
    SharedMemory(String),
    File(PathBuf),
}

impl Location {
    pub(super) fn of(text: &str) -> Self {
        // Diesel makes `file:` of `sqlite://`; SQLite reads `file:` as a URI and all else as a name.
        let uri = match text.strip_prefix("sqlite://") {
            Some(rest) => Some(rest),
            None => text.strip_prefix("file:"),
        };
        let Some(uri) = uri else {
            return match text {
                "" | ":memory:" => Self::PrivateMemory,
                path => Self::File(PathBuf::from(path)),
            };
        };
        let uri = uri.split('#').next().unwrap_or_default();
        let (path, query) = uri.split_once('?').unwrap_or((uri, ""));
        let path = match path.strip_prefix("//") {
            // The authority is empty or `localhost`; SQLite refuses any other.
            Some(rest) => rest.find('/').map_or("", |at| &rest[at..]),
            None => path,
        };
        let path = decode(path);
        let param = |key: &str| -> Option<Cow<'_, str>> {
            query
                .split('&')
                .filter_map(|pair| pair.split_once('='))
                .find(|(name, _)| decode(name) == key)
                .map(|(_, value)| decode(value))
        };
        if param("vfs").as_deref() == Some("memdb") {
            // Names that begin with a slash are shared by all connections of the process.
            return if path.starts_with('/') {
                Self::SharedMemory(format!("memdb:{path}"))
            } else {
                Self::PrivateMemory
            };
        }
        let memory = path == ":memory:" || param("mode").as_deref() == Some("memory");
        let shared = param("cache").as_deref() == Some("shared");
        match (memory, shared) {
            (true, true) => Self::SharedMemory(path.into_owned()),
            (true, false) => Self::PrivateMemory,
            (false, _) if path.is_empty() => Self::PrivateMemory,
            (false, _) => Self::File(PathBuf::from(path.as_ref())),
        }
    }

    pub(super) fn is_memory(&self) -> bool {
        !matches!(self, Self::File(_))
    }

    pub(super) fn identity(&self) -> Option<String> {
        match self {
            Self::PrivateMemory => None,
            Self::SharedMemory(name) => Some(format!("sqlite-memory:{name}")),
            Self::File(path) => Some(format!("sqlite:{}", absolute(path).display())),
        }
    }
}

/// The one path of a file, found without opening or making it.
pub(super) fn absolute(path: &Path) -> PathBuf {
    let path = match std::path::absolute(path) {
        Ok(path) => path,
        Err(_) => path.to_owned(),
    };
    if let Ok(found) = path.canonicalize() {
        return found;
    }
    // A new file has no canonical path yet, but mostly its folder has.
    if let (Some(parent), Some(name)) = (path.parent(), path.file_name())
        && let Ok(parent) = parent.canonicalize()
    {
        return parent.join(name);
    }
    let mut lexical = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                lexical.pop();
            }
            other => lexical.push(other),
        }
    }
    lexical
}

/// The text without the values of parameters that might be secret, such as an encryption key; `None`
/// where the text looks like something else that was mistaken for a path.
pub(super) fn redacted(text: &str) -> Option<String> {
    let is_uri = text.starts_with("file:") || text.starts_with("sqlite://");
    let (path, query) = match text.split_once('?') {
        Some((path, query)) if is_uri => (path, Some(query)),
        _ => (text, None),
    };
    let scheme_colon = usize::from(is_uri);
    let looks_like_login = match (path.match_indices(':').nth(scheme_colon), path.find('@')) {
        (Some((colon, _)), Some(at)) => colon < at,
        _ => false,
    };
    if looks_like_login || path.contains('=') {
        return None;
    }
    let mut shown = path.to_owned();
    for (i, pair) in query
        .into_iter()
        .flat_map(|query| query.split('&'))
        .enumerate()
    {
        shown.push(if i == 0 { '?' } else { '&' });
        match pair.split_once('=') {
            Some((key, value)) if PRINTABLE.contains(&key) && !value.contains('@') => {
                shown.push_str(key);
                shown.push('=');
                shown.push_str(value);
            }
            _ => shown.push_str(MASK),
        }
    }
    Some(shown)
}
