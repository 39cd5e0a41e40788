//! Passwords: fetched as raw text and put into the URL, or left to a program; never shown.

use figment::value::{Dict, Value};

use super::reader::{Reader, Table};
use crate::topology::{DatabaseUrl, PasswordCommand};

const FORMS: &str = "a password is text, { env = \"VARIABLE\" }, { file = \"path\" } or { command = [\"program\", \"argument\"] }";

/// What a table in place of a password may have.
const SOURCES: [&str; 4] = ["env", "file", "command", "none"];

enum Password {
    Text(String),
    /// To be run at each connect, and not before: what it prints may be valid for minutes.
    Command(PasswordCommand),
}

/// The URL of a node, with its password in it, or with the program that prints the password beside
/// it. `label` is how messages call the node.
pub(super) fn url_and_command(
    reader: &mut Reader<'_>,
    node: Table<'_>,
    label: &str,
) -> (DatabaseUrl, Option<PasswordCommand>) {
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
        return (url, None);
    };
    let key = node.key("password");
    let Some(password) = password(reader, &key, value, label) else {
        return (url, None);
    };
    if url.has_password() {
        reader.problem(
            key,
            format!("{label} has a password in its url and one in `password`: remove one of them"),
        );
        return (url, None);
    }
    // A URL that cannot be read is reported as such, not as one that takes no password.
    if reader.partial || !url.is_readable() || url.expose().is_empty() {
        return (url, None);
    }
    let (text, command) = match password {
        Password::Text(text) => (text, None),
        Password::Command(command) => (String::new(), Some(command)),
    };
    match (url.try_with_password(&text), command) {
        (Ok(_), Some(command)) => (url, Some(command)),
        (Ok(url), None) => (url, None),
        (Err(message), _) => {
            reader.problem(key, message);
            (url, None)
        }
    }
}

fn password(reader: &mut Reader<'_>, key: &str, value: &Value, label: &str) -> Option<Password> {
    let sources = match value {
        Value::String(_, text) => return Some(Password::Text(text.clone())),
        Value::Char(_, c) => return Some(Password::Text(c.to_string())),
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
    if sources.is_empty() || sources.keys().any(|name| !SOURCES.contains(&name.as_str())) {
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
    let none = reader.boolean(table, "none") == Some(true);
    match chosen(sources, none).as_slice() {
        ["env"] => {
            let name = reader.text(table, "env")?;
            from_variable(reader, key, &name, label).map(Password::Text)
        }
        ["file"] => {
            let path = reader.text(table, "file")?;
            from_file(reader, key, &path, label).map(Password::Text)
        }
        ["command"] => command(reader, table).map(Password::Command),
        [] | ["none"] => None,
        several => {
            let count = if several.len() == 2 { "both" } else { "all" };
            reader.problem(
                key,
                format!(
                    "`{}` are {count} given: leave one of them",
                    several.join("` and `")
                ),
            );
            None
        }
    }
}

/// Which source counts: where several layers name one each, the uppermost layer's. figment numbers
/// the layers upwards. `none` says whether "none" is one of them.
fn chosen(sources: &Dict, none: bool) -> Vec<&'static str> {
    let given = || {
        SOURCES
            .into_iter()
            .filter(|name| *name != "none" || none)
            .filter_map(|name| Some((name, sources.get(name)?.tag())))
    };
    let uppermost = given().map(|(_, layer)| layer).max();
    given()
        .filter(|(_, layer)| Some(*layer) == uppermost)
        .map(|(name, _)| name)
        .collect()
}

fn command(reader: &mut Reader<'_>, sources: Table<'_>) -> Option<PasswordCommand> {
    let key = sources.key("command");
    let Some(Value::Array(_, items)) = sources.dict.get("command") else {
        reader.problem(
            key,
            "write a list, [\"program\", \"argument\"]: nothing is split or expanded by a shell",
        );
        return None;
    };
    let words = reader.texts(sources, "command")?;
    // One that was no text has been reported.
    if words.len() < items.len() {
        return None;
    }
    match PasswordCommand::new(words) {
        Ok(command) => Some(command),
        Err(message) => {
            reader.problem(key, message);
            None
        }
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
    let source = format!("the environment variable {name}");
    reader.failed_source(key, &source, label, fault.to_owned());
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
    reader.failed_source(key, &format!("the file {path}"), label, fault);
    None
}

fn ends_with_line_break(text: &str) -> bool {
    text.ends_with(['\n', '\r'])
}
