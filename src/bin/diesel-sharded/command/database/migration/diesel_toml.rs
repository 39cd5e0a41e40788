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
            content,
        })
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

    /// A `diesel.toml` with nothing but one entry of [`schema_files`](Self::schema_files), which leaves out
    /// tables of this pattern as well. Of a file with several entries, `diesel print-schema` prints all.
    ///
    /// Whoever names the tables to take (`only_tables`) is taken at their word.
    pub(super) fn alone(&self, entry: &str, except: &str) -> toml::Table {
        let root = self.content.print_schema.clone().unwrap_or_default();
        let mut table = match root.get(entry) {
            Some(toml::Value::Table(table)) if entry != DEFAULT_ENTRY => table.clone(),
            // Without what would be further entries.
            _ => root
                .into_iter()
                .filter(|(_, value)| value.get("file").is_none())
                .collect(),
        };
        for key in ["file", "patch_file"] {
            if let Some(toml::Value::String(path)) = table.get_mut(key) {
                *path = self.base.join(&*path).display().to_string();
            }
        }
        let filter = table
            .entry("filter")
            .or_insert_with(|| toml::Table::new().into());
        if let Some(filter) = filter.as_table_mut()
            && !filter.contains_key("only_tables")
        {
            let names = filter
                .entry("except_tables")
                .or_insert_with(|| toml::Value::Array(Vec::new()));
            if let Some(names) = names.as_array_mut() {
                names.push(except.into());
            }
        }
        toml::Table::from_iter([("print_schema".to_owned(), table.into())])
    }
}
