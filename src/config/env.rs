//! Settings from the environment: which key a variable means, and its text, untouched.
//!
//! figment's own provider takes values apart as if they were TOML, so that the password `0123` has
//! lost its zero before anybody can look; and it makes a new shard of every name it does not know.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

use figment::value::{Dict, Tag, Value};

use super::origin::{is_within, of_variable};
use crate::error::ConfigProblem;
use crate::topology::{nearest, normalized};

const PREFIX: &str = "DIESEL_SHARDED_";
pub(super) const CONFIG: &str = "DIESEL_SHARDED_CONFIG";
pub(super) const PROFILE: &str = "DIESEL_SHARDED_PROFILE";

/// The variables of a process, or of a test.
#[derive(Clone)]
pub(super) struct Environment(BTreeMap<OsString, OsString>);

/// A variable whose value is not UTF-8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NotUtf8;

impl Environment {
    pub(super) fn of_process() -> Self {
        Self(std::env::vars_os().collect())
    }

    pub(super) fn of(variables: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        Self(variables.into_iter().collect())
    }

    pub(super) fn get(&self, name: &str) -> Result<Option<String>, NotUtf8> {
        match self.0.get(OsStr::new(name)) {
            None => Ok(None),
            Some(value) => value
                .to_str()
                .map(|text| Some(text.to_owned()))
                .ok_or(NotUtf8),
        }
    }
}

/// What the environment says over a configuration.
#[derive(Debug, Default)]
pub(super) struct Overlay {
    pub(super) dict: Dict,
    /// The dotted key that each variable set.
    pub(super) variables: BTreeMap<String, String>,
    pub(super) problems: Vec<ConfigProblem>,
}

/// Reads the settings of the environment; `tree` is what they override.
pub(super) fn overlay(environment: &Environment, tree: &Dict) -> Overlay {
    let mut overlay = Overlay::default();
    for (name, value) in &environment.0 {
        let shown = name.to_string_lossy();
        let Some(path) = setting(&shown) else {
            continue;
        };
        let result = resolve(path, tree).and_then(|path| {
            let value = value
                .to_str()
                .ok_or("the value is not UTF-8: give it as UTF-8")?;
            let leaf = path.last().map(String::as_str);
            // An empty password is a password, and an empty url has an error of its own.
            if value.is_empty() && !matches!(leaf, Some("password" | "url")) {
                return Err("is empty: unset it, or give it a value".to_owned());
            }
            let key = path.join(".");
            if let Some(other) = overlay.variables.get(&key) {
                return Err(format!("sets {key}, and so does {other}: unset one"));
            }
            set(&mut overlay, tree, &path, value)?;
            Ok(key)
        });
        match result {
            Ok(key) => {
                overlay.variables.insert(key, shown.into_owned());
            }
            Err(message) => overlay.problems.push(ConfigProblem {
                origin: of_variable(&shown),
                key: String::new(),
                message,
            }),
        }
    }
    overlay
}

/// The part of a variable's name that says the key; `None` for one that is no setting.
fn setting(name: &str) -> Option<&str> {
    let head = name.get(..PREFIX.len())?;
    let rest = &name[PREFIX.len()..];
    let reserved = rest.eq_ignore_ascii_case("CONFIG")
        || rest.eq_ignore_ascii_case("PROFILE")
        || rest.to_ascii_uppercase().starts_with("TEST_");
    (head.eq_ignore_ascii_case(PREFIX) && !reserved).then_some(rest)
}

/// The path of a key: fixed words in lower case, names as they were declared.
fn resolve(name: &str, tree: &Dict) -> Result<Vec<String>, String> {
    let parts: Vec<&str> = name.split("__").collect();
    if parts.iter().any(|part| part.is_empty()) {
        return Err("is no key: it has the form DIESEL_SHARDED_POOL__MAX_SIZE, with two underscores between levels".to_owned());
    }
    let mut path = vec![parts[0].to_ascii_lowercase()];
    let mut rest = &parts[1..];
    match path[0].as_str() {
        "profiles" => {
            return Err(
                "profiles cannot be set from the environment: set the key itself".to_owned(),
            );
        }
        "shards" => take_name("shard", &mut path, &mut rest, tree)?,
        "pools" => take_name("workload class", &mut path, &mut rest, tree)?,
        "keyspaces" => {
            take_name("keyspace", &mut path, &mut rest, tree)?;
            if rest
                .first()
                .is_some_and(|part| part.eq_ignore_ascii_case("tables"))
            {
                path.push("tables".to_owned());
                rest = &rest[1..];
                take_name("table", &mut path, &mut rest, tree)?;
            }
        }
        _ => {}
    }
    path.extend(rest.iter().map(|part| part.to_ascii_lowercase()));
    Ok(path)
}

/// Finds the declared name that the next parts mean. A name may itself hold two underscores, so the
/// longest match counts.
fn take_name(
    what: &str,
    path: &mut Vec<String>,
    rest: &mut &[&str],
    tree: &Dict,
) -> Result<(), String> {
    let declared: Vec<&String> = match find(tree, path) {
        Some(Value::Dict(_, dict)) => dict.keys().collect(),
        _ => Vec::new(),
    };
    for taken in (1..=rest.len()).rev() {
        let wanted = comparable(&rest[..taken].join("__"));
        if let Some(name) = declared.iter().find(|name| comparable(name) == wanted) {
            if taken == rest.len() {
                return Err(format!("names {what} {name}, but no key of it"));
            }
            path.push((*name).clone());
            *rest = &rest[taken..];
            return Ok(());
        }
    }
    let Some(wanted) = rest.first().map(|name| name.to_ascii_lowercase()) else {
        return Err(format!("names no {what}"));
    };
    let hint = match nearest(&wanted, declared.iter().map(|name| name.as_str())) {
        Some(i) => format!(" (did you mean {}?)", declared[i]),
        None => String::new(),
    };
    Err(format!(
        "names the unknown {what} {wanted}{hint}: a variable overrides what is declared, and makes no new {what}"
    ))
}

/// Tables may have a schema, whose dot no variable can have.
fn comparable(name: &str) -> String {
    normalized(name).replace('.', "_")
}

fn find<'v>(tree: &'v Dict, path: &[String]) -> Option<&'v Value> {
    let (first, rest) = path.split_first()?;
    rest.iter()
        .try_fold(tree.get(first)?, |value, part| match value {
            Value::Dict(_, dict) => dict.get(part),
            Value::Array(_, items) => part.parse().ok().and_then(|i: usize| items.get(i)),
            _ => None,
        })
}

/// Puts a text at a path. A list is overridden as a whole by figment, so where the path goes through
/// one, the overlay takes a copy of it and changes that. What the copy brought gives way; what
/// another variable has set does not.
fn set(overlay: &mut Overlay, tree: &Dict, path: &[String], text: &str) -> Result<(), String> {
    let variables = &overlay.variables;
    let leaf = || Value::String(Tag::Default, text.to_owned());
    let Some((last, parents)) = path.split_last() else {
        return Ok(());
    };
    let mut dict = &mut overlay.dict;
    let mut i = 0;
    while i < parents.len() {
        let list = match find(tree, &path[..=i]) {
            Some(list @ Value::Array(..)) => Some(list),
            _ => None,
        };
        let slot = dict.entry(path[i].clone()).or_insert_with(|| match list {
            Some(list) => list.clone(),
            None => Value::Dict(Tag::Default, Dict::new()),
        });
        i += 1;
        let parent = path[..i].join(".");
        let holds_others = matches!(slot, Value::Dict(..) | Value::Array(..));
        if !holds_others && !variables.contains_key(&parent) {
            *slot = Value::Dict(Tag::Default, Dict::new());
        }
        dict = match slot {
            Value::Dict(_, dict) => dict,
            Value::Array(_, items) => {
                let index = path[i].as_str();
                let count = items.len();
                let item = index.parse().ok().and_then(|i: usize| items.get_mut(i));
                match item {
                    Some(Value::Dict(_, dict)) if i < parents.len() => {
                        i += 1;
                        dict
                    }
                    _ => {
                        return Err(format!(
                            "names entry {index} of {parent}, which has {count}, counted from 0, and a variable sets one key of one of them"
                        ));
                    }
                }
            }
            _ => return Err(format!("goes below {parent}, which another variable sets")),
        };
    }
    let key = path.join(".");
    if variables.keys().any(|other| is_within(other, &key)) {
        return Err(format!("sets {key}, and another variable goes below it"));
    }
    dict.insert(last.clone(), leaf());
    Ok(())
}
