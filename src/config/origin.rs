//! Where a value was set.

use std::collections::BTreeMap;

use figment::value::Value;
use figment::{Figment, Metadata, Source};

/// Answers where a key was set: the environment variable, else what figment knows.
#[derive(Clone)]
pub(super) struct Origins {
    /// Everything but the environment.
    base: Figment,
    /// What the environment set: the dotted key, and the name of the variable.
    ///
    /// It is kept here since figment has one origin for the whole list when one replica of it is
    /// changed.
    variables: BTreeMap<String, String>,
    /// The origin of what was set nowhere, such as a key that is missing.
    fallback: String,
}

impl Origins {
    pub(super) fn new(base: Figment, fallback: String) -> Self {
        Self {
            base,
            variables: BTreeMap::new(),
            fallback,
        }
    }

    pub(super) fn add_variables(&mut self, variables: BTreeMap<String, String>) {
        self.variables.extend(variables);
    }

    /// Where this key, or the nearest table around it, was set.
    pub(super) fn of(&self, key: &str) -> String {
        let set_by_variable = self
            .variables
            .iter()
            .find(|(set, _)| is_within(key, set))
            .map(|(_, variable)| of_variable(variable));
        if let Some(origin) = set_by_variable {
            return origin;
        }
        let Ok(root) = self.base.find_value("") else {
            return self.fallback.clone();
        };
        let (depth, tag) = deepest(&root, key);
        // A table that only variables made stands in no file.
        if depth < key.split('.').count()
            && let Some((_, variable)) = self.variables.iter().find(|(set, _)| is_within(set, key))
        {
            return of_variable(variable);
        }
        tag.and_then(|tag| self.base.get_metadata(tag))
            .map_or_else(|| self.fallback.clone(), of_metadata)
    }
}

/// Whether a dotted key is another one or lies below it.
pub(super) fn is_within(key: &str, outer: &str) -> bool {
    key.strip_prefix(outer)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

pub(super) fn of_variable(name: &str) -> String {
    format!("the environment variable {name}")
}

/// How many levels of the key exist, and the tag of the last one.
fn deepest(root: &Value, key: &str) -> (usize, Option<figment::value::Tag>) {
    let mut value = root;
    let (mut depth, mut tag) = (0, None);
    for part in key.split('.') {
        let next = match value {
            Value::Dict(_, dict) => dict.get(part),
            Value::Array(_, items) => part.parse().ok().and_then(|i: usize| items.get(i)),
            _ => None,
        };
        match next {
            Some(next) => value = next,
            None => break,
        }
        depth += 1;
        tag = Some(value.tag());
    }
    (depth, tag)
}

fn of_metadata(metadata: &Metadata) -> String {
    match &metadata.source {
        Some(Source::File(path)) => path.display().to_string(),
        Some(other) => other.to_string(),
        None => metadata.name.to_string(),
    }
}
