//! Text into figment values, by parsers that keep what figment's own lose: the exact text of a
//! scalar, and the fact that a key was given twice.
//!
//! None of them repeats a piece of the file in an error, since it may be a password.

mod json;
mod toml;
mod yaml;

use std::path::{Path, PathBuf};

use figment::value::{Dict, Map, Tag, Value};
use figment::{Metadata, Profile, Provider, Source};

use crate::topology::Problem;

/// The format of a configuration text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Format {
    /// [TOML](https://toml.io).
    Toml,
    /// [YAML](https://yaml.org) 1.2. A scalar is the text that stands there; whether it is a number
    /// is decided by the key, so `password: 0123` keeps its zero and a shard may be called `no`.
    Yaml,
    /// [JSON](https://www.json.org).
    Json,
}

impl Format {
    /// The format that a file's extension stands for.
    pub(super) fn of(path: &Path) -> Option<Self> {
        let extension = path.extension()?.to_str()?.to_ascii_lowercase();
        match extension.as_str() {
            "toml" => Some(Self::Toml),
            "yaml" | "yml" => Some(Self::Yaml),
            "json" => Some(Self::Json),
            _ => None,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Toml => "TOML",
            Self::Yaml => "YAML",
            Self::Json => "JSON",
        }
    }

    /// Reads a text. `Err` where it is none of this format, so that nothing can be said about its
    /// values; problems beside the values where it can.
    pub(super) fn parse(self, text: &str) -> Result<(Dict, Vec<Problem>), Vec<Problem>> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        match self {
            Self::Toml => toml::parse(text),
            Self::Yaml => yaml::parse(text),
            Self::Json => json::parse(text),
        }
    }
}

/// One layer of the configuration.
#[derive(Debug)]
pub(super) struct Layer {
    name: String,
    source: Source,
    /// figment's profile, not one of ours: `Global` is what lies over everything else, whatever
    /// profiles an application's own figment has.
    profile: Profile,
    dict: Dict,
}

impl Layer {
    pub(super) fn file(format: Format, path: PathBuf, dict: Dict) -> Self {
        Self {
            name: format!("{} file", format.name()),
            source: Source::File(path),
            profile: Profile::Default,
            dict,
        }
    }

    pub(super) fn text(format: Format, origin: String, dict: Dict) -> Self {
        Self {
            name: format!("{} text", format.name()),
            source: Source::Custom(origin),
            profile: Profile::Default,
            dict,
        }
    }

    /// A layer over all others.
    pub(super) fn over(name: impl Into<String>, origin: String, dict: Dict) -> Self {
        Self {
            name: name.into(),
            source: Source::Custom(origin),
            profile: Profile::Global,
            dict,
        }
    }
}

impl Provider for Layer {
    fn metadata(&self) -> Metadata {
        Metadata::from(self.name.clone(), self.source.clone())
    }

    fn data(&self) -> Result<Map<Profile, Dict>, figment::Error> {
        Ok(self.profile.collect(self.dict.clone()))
    }
}

/// Values without their tags: as part of another layer they get that layer's.
pub(super) fn untagged(dict: &Dict) -> Dict {
    fn bare(value: &Value) -> Value {
        match value {
            Value::String(_, text) => Value::String(Tag::Default, text.clone()),
            Value::Char(_, c) => Value::Char(Tag::Default, *c),
            Value::Bool(_, value) => Value::Bool(Tag::Default, *value),
            Value::Num(_, number) => Value::Num(Tag::Default, *number),
            Value::Empty(_, empty) => Value::Empty(Tag::Default, *empty),
            Value::Dict(_, dict) => Value::Dict(Tag::Default, untagged(dict)),
            Value::Array(_, items) => Value::Array(Tag::Default, items.iter().map(bare).collect()),
        }
    }
    dict.iter()
        .map(|(name, item)| (name.clone(), bare(item)))
        .collect()
}

/// The problem of a key that is given twice.
fn duplicate(parent: &str, name: &str, place: &str) -> Problem {
    // What stands inside a password may be the password, typed without quotes.
    if parent.split('.').any(|part| part == "password") {
        return Problem::new(parent, format!("a key is given twice{place}"));
    }
    let key = if parent.is_empty() {
        name.to_owned()
    } else {
        crate::topology::key_of(parent, name)
    };
    Problem::new(
        key,
        format!("{name} is given twice{place}: one of the two would be lost, remove it"),
    )
}

fn join(parent: &str, name: &str) -> String {
    if parent.is_empty() {
        name.to_owned()
    } else {
        format!("{parent}.{name}")
    }
}
