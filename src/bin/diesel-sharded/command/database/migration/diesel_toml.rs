//! What of Diesel's own configuration concerns us: where migrations are, where schema files go.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use diesel_sharded::Config;
use serde::Deserialize;

use crate::failure::Failure;

/// Diesel's name for the entry `[print_schema]` itself.
pub(super) const DEFAULT_ENTRY: &str = "default";

/// The part of `diesel.toml` that is used here.
#[derive(Debug)]
pub(super) struct DieselToml {
    /// The file, where there is one.
    path: Option<PathBuf>,
    /// What its relative paths are relative to.
    base: PathBuf,
    content: Content,
}

#[derive(Debug, Default, Deserialize)]
struct Content {
    #[serde(default)]
    migrations_directory: Option<Directory>,
    #[serde(default)]
    print_schema: Option<toml::Table>,
}

#[derive(Debug, Deserialize)]
struct Directory {
    dir: PathBuf,
}

impl DieselToml {
    /// The file that `DIESEL_CONFIG_FILE` names, else `diesel.toml` beside the configuration or in
    /// the nearest folder above that has it.
    pub(super) fn of(config: &Config) -> Result<Self, Failure> {
        let folder = config
            .path()
            .and_then(Path::parent)
            .unwrap_or(Path::new(""));
        let folder = std::path::absolute(folder.join("."))
            .map_err(|error| Failure::usage(format!("the current folder: {error}")))?;
        let path = match std::env::var_os("DIESEL_CONFIG_FILE") {
            Some(path) => Some(PathBuf::from(path)),
            None => folder
                .ancestors()
                .map(|folder| folder.join("diesel.toml"))
                .find(|path| path.is_file()),
        };
        let content = match &path {
            None => Content::default(),
            Some(path) => {
                let wrong = |error: &dyn std::fmt::Display| {
                    Failure::usage(format!("{}: {error}", path.display()))
                };
                let text = std::fs::read_to_string(path).map_err(|error| wrong(&error))?;
                toml::from_str(&text).map_err(|error: toml::de::Error| wrong(&error))?
            }
        };
        let base = path.as_deref().and_then(Path::parent).unwrap_or(&folder);
        Ok(Self {
            base: base.to_owned(),
            path,
            content,
        })
    }

    /// The file itself, where there is one.
    pub(super) fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// The folder of migrations; it need not exist.
    pub(super) fn migrations(&self) -> PathBuf {
        match &self.content.migrations_directory {
            Some(directory) => self.base.join(&directory.dir),
            None => self.base.join("migrations"),
        }
    }

    /// The schema files to write, by the name of their entry. One entry is `[print_schema]`, several
    /// are `[print_schema.NAME]`.
    pub(super) fn schema_files(&self) -> BTreeMap<String, PathBuf> {
        let Some(table) = &self.content.print_schema else {
            return BTreeMap::new();
        };
        let file = |table: &toml::Table| {
            let file = table.get("file")?.as_str()?;
            Some(self.base.join(file))
        };
        if let Some(path) = file(table) {
            return BTreeMap::from([(DEFAULT_ENTRY.to_owned(), path)]);
        }
        table
            .iter()
            .filter_map(|(name, entry)| Some((name.clone(), file(entry.as_table()?)?)))
            .collect()
    }
}
