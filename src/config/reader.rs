//! Reading typed values out of figment's, without stopping at the first that is wrong.
//!
//! figment's own extraction stops there, and shows the value in its error. Here every problem is
//! kept, and none shows a value.

use std::collections::BTreeMap;
use std::time::Duration;

use figment::value::{Dict, Num, Value};

use super::algorithms::Algorithms;
use super::env::Environment;
use crate::topology::{Problem, key_of, list, nearest};

/// Collects problems while a tree is read.
pub(super) struct Reader<'e> {
    pub(super) environment: &'e Environment,
    /// The custom algorithms that the program knows.
    pub(super) algorithms: &'e Algorithms,
    /// A profile that was not chosen is read too, for its mistakes only: nothing is missing from it,
    /// and its secrets are not fetched.
    pub(super) partial: bool,
    pub(super) problems: Vec<Problem>,
    /// Keys that were reported under another one, so that their absence is no second mistake.
    pub(super) unreadable: Vec<String>,
    /// Sources of passwords that failed.
    failed: BTreeMap<String, FailedSource>,
}

/// A source of passwords that failed, which may be the source of several nodes.
struct FailedSource {
    /// The place of its problem among all.
    problem: usize,
    fault: String,
    /// The nodes, as messages call them.
    nodes: Vec<String>,
}

/// A table under examination: its dotted key and its entries.
#[derive(Clone, Copy)]
pub(super) struct Table<'v> {
    pub(super) path: &'v str,
    pub(super) dict: &'v Dict,
}

impl Table<'_> {
    /// The dotted key of an entry.
    pub(super) fn key(&self, name: &str) -> String {
        if self.path.is_empty() {
            name.to_owned()
        } else {
            format!("{}.{name}", self.path)
        }
    }
}

/// A hint for an unknown key that the list of known ones does not give.
pub(super) type Hint = fn(&str, &Value) -> Option<String>;

impl<'e> Reader<'e> {
    pub(super) fn new(environment: &'e Environment, algorithms: &'e Algorithms) -> Self {
        Self {
            environment,
            algorithms,
            partial: false,
            problems: Vec::new(),
            unreadable: Vec::new(),
            failed: BTreeMap::new(),
        }
    }
}

impl Reader<'_> {
    pub(super) fn problem(&mut self, key: impl Into<String>, message: impl Into<String>) {
        self.problems.push(Problem::new(key, message));
    }

    /// Reports a source of passwords that failed: once, at the first key, with all the nodes that
    /// take their password from it.
    pub(super) fn failed_source(&mut self, key: &str, source: &str, node: &str, fault: String) {
        let failed = self
            .failed
            .entry(source.to_owned())
            .or_insert_with(|| FailedSource {
                problem: self.problems.len(),
                fault,
                nodes: Vec::new(),
            });
        failed.nodes.push(node.to_owned());
        let nodes: Vec<&str> = failed.nodes.iter().map(String::as_str).collect();
        let message = format!(
            "{source}, which holds the password of {}, {}",
            list(&nodes),
            failed.fault
        );
        match self.problems.get_mut(failed.problem) {
            Some(problem) => problem.message = message,
            None => self.problem(key, message),
        }
    }

    /// Reports a key that has to be there and is not.
    pub(super) fn missing(&mut self, key: impl Into<String>, message: impl Into<String>) {
        if !self.partial {
            self.problem(key, message);
        }
    }

    /// The entries of a table, whatever they are called. A table without any, as YAML has it where
    /// all its lines are comments, is empty.
    pub(super) fn entries<'v>(
        &mut self,
        path: &str,
        value: &'v Value,
    ) -> Vec<(&'v String, &'v Value)> {
        match value {
            Value::Dict(_, dict) => dict.iter().collect(),
            Value::Empty(..) => Vec::new(),
            _ => {
                self.problem(path, "a table is expected here");
                Vec::new()
            }
        }
    }

    /// Reports every entry of a table that is none of the known ones.
    pub(super) fn known(&mut self, table: Table<'_>, known: &[&str], hint: Hint) {
        for (name, value) in table.dict {
            if known.contains(&name.as_str()) {
                continue;
            }
            let hint =
                hint(name, value).unwrap_or_else(|| match nearest(name, known.iter().copied()) {
                    Some(i) => format!("did you mean `{}`?", known[i]),
                    None => format!("known keys: {}", known.join(", ")),
                });
            let key = if table.path.is_empty() {
                name.clone()
            } else {
                key_of(table.path, name)
            };
            self.problem(key, format!("unknown key `{name}`: {hint}"));
        }
    }

    /// Text, exactly as it stands there.
    pub(super) fn text(&mut self, table: Table<'_>, name: &str) -> Option<String> {
        let value = table.dict.get(name)?;
        self.text_of(&table.key(name), value)
    }

    pub(super) fn text_of(&mut self, key: &str, value: &Value) -> Option<String> {
        match value {
            Value::String(_, text) => return Some(text.clone()),
            Value::Char(_, c) => return Some(c.to_string()),
            Value::Num(..) | Value::Bool(..) | Value::Empty(..) => {
                self.problem(key, "text is expected here: quote this value");
            }
            Value::Dict(..) | Value::Array(..) => {
                self.problem(
                    key,
                    "text is expected here: quote this value if it is meant as text",
                );
            }
        }
        None
    }

    /// A list of texts.
    pub(super) fn texts(&mut self, table: Table<'_>, name: &str) -> Option<Vec<String>> {
        let key = table.key(name);
        match table.dict.get(name)? {
            Value::Array(_, items) => {
                let mut texts = Vec::with_capacity(items.len());
                for (i, item) in items.iter().enumerate() {
                    texts.extend(self.text_of(&format!("{key}.{i}"), item));
                }
                Some(texts)
            }
            _ => {
                self.problem(key, "a list is expected here: [\"..\", \"..\"]");
                None
            }
        }
    }

    /// A list of texts, or one text that stands for a list of one.
    pub(super) fn text_or_texts(&mut self, table: Table<'_>, name: &str) -> Vec<String> {
        match table.dict.get(name) {
            None => Vec::new(),
            Some(Value::Array(..)) => self.texts(table, name).unwrap_or_default(),
            Some(value) => self.text_of(&table.key(name), value).into_iter().collect(),
        }
    }

    /// A whole number; YAML and the environment give it as text.
    pub(super) fn number(&mut self, table: Table<'_>, name: &str) -> Option<u32> {
        let expected = format!("a whole number from 0 to {} is expected here", u32::MAX);
        self.number_or(table, name, &expected)
    }

    /// The same with words of its own where it is none.
    pub(super) fn number_or(
        &mut self,
        table: Table<'_>,
        name: &str,
        expected: &str,
    ) -> Option<u32> {
        let number = match table.dict.get(name)? {
            Value::Num(_, number) => whole(*number).and_then(|number| u32::try_from(number).ok()),
            Value::String(_, text) if text.bytes().all(|byte| byte.is_ascii_digit()) => {
                text.parse().ok()
            }
            _ => None,
        };
        if number.is_none() {
            self.problem(table.key(name), expected);
        }
        number
    }

    pub(super) fn fraction(&mut self, table: Table<'_>, name: &str) -> Option<f64> {
        let number = match table.dict.get(name)? {
            Value::Num(_, number) => number
                .to_f64()
                .or_else(|| whole(*number).map(|number| number as f64)),
            Value::String(_, text) => text.parse().ok(),
            _ => None,
        };
        if number.is_none() {
            self.problem(table.key(name), "a number such as 0.8 is expected here");
        }
        number
    }

    pub(super) fn boolean(&mut self, table: Table<'_>, name: &str) -> Option<bool> {
        let value = match table.dict.get(name)? {
            Value::Bool(_, value) => Some(*value),
            Value::String(_, text) if text == "true" => Some(true),
            Value::String(_, text) if text == "false" => Some(false),
            _ => None,
        };
        if value.is_none() {
            self.problem(table.key(name), "true or false is expected here");
        }
        value
    }

    pub(super) fn duration(&mut self, table: Table<'_>, name: &str) -> Option<Duration> {
        let value = table.dict.get(name)?;
        self.duration_of(&table.key(name), value, "")
    }

    /// A duration, or `Some(None)` for "never".
    pub(super) fn duration_or_never(
        &mut self,
        table: Table<'_>,
        name: &str,
    ) -> Option<Option<Duration>> {
        match table.dict.get(name)? {
            Value::Bool(_, false) => Some(None),
            Value::String(_, text) if matches!(text.as_str(), "never" | "false") => Some(None),
            value => self
                .duration_of(&table.key(name), value, ", or \"never\"")
                .map(Some),
        }
    }

    fn duration_of(&mut self, key: &str, value: &Value, or: &str) -> Option<Duration> {
        let bare = match value {
            Value::String(_, text) => {
                if let Ok(duration) = humantime::parse_duration(text) {
                    return Some(duration);
                }
                text.parse::<f64>().is_ok()
            }
            Value::Num(..) => true,
            _ => false,
        };
        self.problem(
            key,
            if bare {
                format!("a duration needs its unit: write \"3s\", \"500ms\" or \"10m\"{or}")
            } else {
                format!("a duration such as \"3s\", \"500ms\" or \"10m\"{or} is expected here")
            },
        );
        None
    }
}

/// A number without a fraction.
pub(super) fn whole(number: Num) -> Option<i128> {
    match number.to_u128() {
        Some(number) => i128::try_from(number).ok(),
        None => number.to_i128(),
    }
}
