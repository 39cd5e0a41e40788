//! Migrations in folders, in Diesel's form.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use migrations_internals::TomlMetadata;

use super::set::{Body, Migration, Script, named, script, shown};
use crate::topology::UrlKind;

/// Finds a folder: an absolute one, else the first of `bases` that has it.
pub(super) fn find(path: &Path, kind: UrlKind, bases: &[PathBuf]) -> Result<PathBuf, String> {
    let path = match path.to_str() {
        Some(text) => PathBuf::from(text.replace("{backend}", kind.folder_name())),
        None => path.to_owned(),
    };
    let here = [PathBuf::new()];
    let bases = if bases.is_empty() { &here } else { bases };
    for base in bases {
        let candidate = base.join(&path);
        if candidate.is_dir() {
            // One folder under two names is one source.
            return candidate.canonicalize().map_err(|error| {
                format!("the folder {} cannot be read: {error}", shown(&candidate))
            });
        }
    }
    let tried: Vec<String> = bases.iter().map(|base| shown(&base.join(&path))).collect();
    Err(format!(
        "there is no folder of migrations {}: make it, or correct the path",
        tried.join(" or ")
    ))
}

/// Reads all migrations of a folder. What Diesel passes over is passed over: files, and folders
/// whose name begins with a dot.
pub(super) fn read(
    folder: &Path,
    kind: UrlKind,
    found: &mut Vec<(Migration, String)>,
    problems: &mut Vec<String>,
) {
    let entries = match migrations_internals::migrations_directories(folder)
        .and_then(|entries| entries.collect::<Result<Vec<_>, _>>())
    {
        Ok(entries) => entries,
        Err(error) => {
            problems.push(format!(
                "the folder {} cannot be read: {error}",
                shown(folder)
            ));
            return;
        }
    };
    let mut paths: Vec<PathBuf> = entries.into_iter().map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths {
        match migration(&path, kind) {
            Ok(migration) => found.push((migration, shown(&path))),
            Err(problem) => problems.push(format!("{} {problem}", shown(&path))),
        }
    }
}

fn migration(path: &Path, kind: UrlKind) -> Result<Migration, String> {
    let name = path
        .file_name()
        .and_then(|name| name.to_str())
        .ok_or("has a name that is not UTF-8")?;
    let (version, name) = named(name)?;
    let up = text(&path.join("up.sql"))?.ok_or("is no migration: there is no up.sql in it")?;
    if up.is_empty() {
        return Err("has an empty up.sql: write the migration, or remove its folder".to_owned());
    }
    let in_transaction = metadata(&path.join("metadata.toml"))?;
    let of = |text: String, file: &str| -> Result<Script, String> {
        script(text, kind, in_transaction).map_err(|problem| format!("has a {file} {problem}"))
    };
    let down = match text(&path.join("down.sql"))? {
        // Diesel refuses to run an empty file.
        Some(text) if !text.is_empty() => Some(of(text, "down.sql")?),
        _ => None,
    };
    Ok(Migration {
        version,
        name,
        body: Body::Sql {
            up: of(up, "up.sql")?,
            down,
        },
    })
}

fn text(path: &Path) -> Result<Option<String>, String> {
    let file = path.file_name().unwrap_or_default().to_string_lossy();
    match fs::read(path).map(String::from_utf8) {
        Ok(Ok(text)) => Ok(Some(text)),
        Ok(Err(_)) => Err(format!("has a {file} that is not UTF-8")),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(format!("has a {file} that cannot be read: {error}")),
    }
}

/// Whether the migration is to run in a transaction. Diesel takes a file that it cannot read for one
/// that says nothing; a typing mistake there would lose `run_in_transaction = false`.
fn metadata(path: &Path) -> Result<bool, String> {
    if !path.exists() {
        return Ok(TomlMetadata::default().run_in_transaction);
    }
    TomlMetadata::read_from_file(path)
        .map(|metadata| metadata.run_in_transaction)
        .map_err(|error| format!("has a metadata.toml that cannot be read: {error}"))
}
