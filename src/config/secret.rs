//! Passwords: fetched as raw text, put into the URL, never shown.

use figment::value::{Dict, Value};

use super::reader::{Reader, Table};
use crate::topology::DatabaseUrl;

const FORMS: &str = "a password is text, { env = \"VARIABLE\" } or { file = \"path\" }";

/// The URL of a node, with its password in it. `label` is how messages call the node.
pub(super) fn url_with_password(
    reader: &mut Reader<'_>,
    node: Table<'_>,
    label: &str,
) -> DatabaseUrl {
    let url = match node.dict.get("url") {
        None => {
            reader.missing(
                node.key("url"),
                format!("{label} has no url: say where its database is"),
            );
            String::new()
        }
        Some(value) => reader.text_of(&node.key("url"), value).unwrap_or_default(),
    };
    let url = DatabaseUrl::from(url);
    let Some(value) = node.dict.get("password") else {
        return url;
    };
    let key = node.key("password");
    let Some(password) = password(reader, &key, value, label) else {
        return url;
    };
    if url.has_password() {
        reader.problem(
            key,
            format!("{label} has a password in its url and one in `password`: remove one of them"),
        );
        return url;
    }
    // A URL that cannot be read is reported as such, not as one that takes no password.
    if reader.partial || !url.is_readable() || url.expose().is_empty() {
        return url;
    }
    match url.try_with_password(&password) {
        Ok(url) => url,
        Err(message) => {
            reader.problem(key, message);
            url
        }
    }
}

fn password(reader: &mut Reader<'_>, key: &str, value: &Value, label: &str) -> Option<String> {
    let sources = match value {
        Value::String(_, text) => return Some(text.clone()),
        Value::Char(_, c) => return Some(c.to_string()),
        Value::Num(..) | Value::Bool(..) | Value::Empty(..) => {
            reader.problem(key, format!("quote this value: {FORMS}"));
            return None;
        }
        Value::Array(..) => {
            reader.problem(
                key,
                format!("quote this value if it is meant as text: {FORMS}"),
            );
            return None;
        }
        Value::Dict(_, sources) => sources,
    };
    // A password like `{abc}` without quotes is a table in YAML and TOML, and its keys are the
    // password: none is shown.
    if sources.is_empty()
        || sources
            .keys()
            .any(|name| !matches!(name.as_str(), "env" | "file" | "none"))
    {
        reader.problem(
            key,
            format!(
                "there is an unknown key in it; quote this value if it is meant as text: {FORMS}"
            ),
        );
        return None;
    }
    let table = Table {
        path: key,
        dict: sources,
    };
    if reader.boolean(table, "none") == Some(true) {
        return None;
    }
    match chosen(sources) {
        Chosen::Variable => {
            let name = reader.text(table, "env")?;
            from_variable(reader, key, &name, label)
        }
        Chosen::File => {
            let path = reader.text(table, "file")?;
            from_file(reader, key, &path, label)
        }
        Chosen::Both => {
            reader.problem(key, "`env` and `file` are both given: remove one of them");
            None
        }
        Chosen::Nothing => None,
    }
}

enum Chosen {
    Variable,
    File,
    Both,
    Nothing,
}

/// Which source counts: where two layers name one each, the upper layer's. figment numbers the
/// layers upwards.
fn chosen(sources: &Dict) -> Chosen {
    match (sources.get("env"), sources.get("file")) {
        (Some(variable), Some(file)) => match variable.tag().cmp(&file.tag()) {
            std::cmp::Ordering::Greater => Chosen::Variable,
            std::cmp::Ordering::Less => Chosen::File,
            std::cmp::Ordering::Equal => Chosen::Both,
        },
        (Some(_), None) => Chosen::Variable,
        (None, Some(_)) => Chosen::File,
        (None, None) => Chosen::Nothing,
    }
}

fn from_variable(reader: &mut Reader<'_>, key: &str, name: &str, label: &str) -> Option<String> {
    if reader.partial {
        return None;
    }
    let fault = match reader.environment.get(name) {
        Ok(Some(text)) if ends_with_line_break(&text) => {
            "ends with a line break, which would be part of the password: set it without, for example with `printf %s`"
        }
        Ok(Some(text)) => return Some(text),
        Ok(None) => "is not set",
        Err(_) => "is not UTF-8",
    };
    reader.problem(
        key,
        format!("the environment variable {name}, which holds the password of {label}, {fault}"),
    );
    None
}

fn from_file(reader: &mut Reader<'_>, key: &str, path: &str, label: &str) -> Option<String> {
    if reader.partial {
        return None;
    }
    let fault = match std::fs::read(path).map(String::from_utf8) {
        Ok(Ok(text)) if ends_with_line_break(&text) => {
            "ends with a line break, which would be part of the password: write it without, for example with `printf %s`".to_owned()
        }
        Ok(Ok(text)) => return Some(text),
        Ok(Err(_)) => "is not UTF-8".to_owned(),
        Err(error) => format!("cannot be read: {error}"),
    };
    reader.problem(
        key,
        format!("the file {path}, which holds the password of {label}, {fault}"),
    );
    None
}

fn ends_with_line_break(text: &str) -> bool {
    text.ends_with(['\n', '\r'])
}
