//! All migrations of one database.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::{CodeMigration, Kind, Source, embedded, folder};
use crate::migrate::event::Direction;
use crate::migrate::split::{self, Statement, Uncut};
use crate::topology::UrlKind;

/// What is wrong with a source: the key that names the source, and the problem.
pub(in crate::migrate) type Problem = (String, String);

/// A source and the key of the configuration that names it.
pub(in crate::migrate) struct Keyed {
    pub(in crate::migrate) key: String,
    pub(in crate::migrate) source: Source,
}

/// Diesel's version table holds no more.
const LONGEST_VERSION: usize = 50;

/// One migration.
#[derive(Clone)]
pub(in crate::migrate) struct Migration {
    pub(in crate::migrate) version: Arc<str>,
    pub(in crate::migrate) name: Arc<str>,
    pub(in crate::migrate) body: Body,
}

#[derive(Clone)]
pub(in crate::migrate) enum Body {
    Sql { up: Script, down: Option<Script> },
    Code(Arc<dyn CodeMigration>),
}

/// The text of one direction, and how it is sent.
#[derive(Clone, Debug)]
pub(in crate::migrate) struct Script {
    pub(in crate::migrate) text: Arc<str>,
    /// Its statements; `None` where it could not be cut and is sent as a whole, in a transaction.
    pub(in crate::migrate) statements: Option<Arc<[Statement]>>,
    pub(in crate::migrate) checksum: Box<str>,
    /// Runs in one transaction with its entry in the version table.
    pub(in crate::migrate) in_transaction: bool,
    /// Why it cannot be run on this database.
    pub(in crate::migrate) refused: Option<Arc<str>>,
    /// What is worth knowing before it is run, each once.
    pub(in crate::migrate) warnings: Arc<[String]>,
}

impl Migration {
    /// The [checksum] of what is applied; code has none.
    pub(in crate::migrate) fn checksum(&self) -> Option<&str> {
        match &self.body {
            Body::Sql { up, .. } => Some(&up.checksum),
            Body::Code(_) => None,
        }
    }

    /// The text of one direction; code has none.
    pub(in crate::migrate) fn text(&self, direction: Direction) -> Option<&str> {
        match (&self.body, direction) {
            (Body::Sql { up, .. }, Direction::Up) => Some(&up.text),
            (Body::Sql { down, .. }, Direction::Down) => down.as_ref().map(|down| &*down.text),
            (Body::Code(_), _) => None,
        }
    }

    pub(in crate::migrate) fn is_revertible(&self) -> bool {
        match &self.body {
            Body::Sql { down, .. } => down.is_some(),
            Body::Code(code) => code.is_revertible(),
        }
    }
}

/// SHA-256 of a text, in hexadecimal.
///
/// Line ends count as `\n` and blanks at the end of the text do not count, since version control and
/// editors change both; everything else does, comments too.
fn checksum(text: &str) -> String {
    let text = text.trim_start_matches('\u{feff}').replace("\r\n", "\n");
    let digest = Sha256::digest(text.trim_end().as_bytes());
    hex(&digest)
}

/// What tells whether a statement is still the one that ran: the beginnings of SHA-256 digests, each of a
/// statement without its layout and its comments, which whoever corrects a migration may well change.
pub(in crate::migrate) fn checksums(statements: &[Statement], kind: UrlKind) -> Vec<String> {
    let of = |statement: &Statement| {
        let digest = Sha256::digest(split::essence(&statement.text, kind).as_bytes());
        hex(&digest[..8])
    };
    statements.iter().map(of).collect()
}

pub(in crate::migrate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// The migrations of one database, oldest first, each version once.
pub(in crate::migrate) struct MigrationSet {
    pub(in crate::migrate) migrations: Vec<Migration>,
    /// The folders they come from.
    pub(in crate::migrate) folders: Vec<PathBuf>,
}

impl MigrationSet {
    pub(in crate::migrate) fn get(&self, version: &str) -> Option<&Migration> {
        self.migrations
            .binary_search_by(|migration| (*migration.version).cmp(version))
            .ok()
            .map(|at| &self.migrations[at])
    }

    /// Whether these are the same migrations, wherever they were named: the same folders, each with its text.
    pub(in crate::migrate) fn is_same(&self, other: &Self) -> bool {
        self.folders == other.folders
            && self.migrations.len() == other.migrations.len()
            && self
                .migrations
                .iter()
                .zip(&other.migrations)
                .all(|(one, other)| {
                    one.version == other.version
                        && one.checksum().is_some()
                        && one.checksum() == other.checksum()
                })
    }

    /// Reads the sources of one database and makes one list of them; `Err` says everything that is
    /// wrong with them.
    pub(in crate::migrate) fn load(
        sources: &[&Keyed],
        kind: UrlKind,
        bases: &[PathBuf],
    ) -> Result<Self, Vec<Problem>> {
        let mut all_problems: Vec<Problem> = Vec::new();
        let mut all_found: Vec<(Migration, String, &str)> = Vec::new();
        let mut folders: Vec<PathBuf> = Vec::new();
        for Keyed { key, source } in sources {
            let mut problems = Vec::new();
            let mut found: Vec<(Migration, String)> = Vec::new();
            match &source.kind {
                Kind::Folder(path) => match folder::find(path, kind, bases) {
                    Ok(path) if folders.contains(&path) => {}
                    Ok(path) => {
                        folder::read(&path, kind, &mut found, &mut problems);
                        folders.push(path);
                    }
                    Err(problem) => problems.push(problem),
                },
                Kind::Embedded(migrations) => {
                    embedded::read(migrations, kind, &mut found, &mut problems);
                }
                Kind::Code(migrations) => {
                    for code in migrations.iter() {
                        let place = format!("the code migration {}", code.name());
                        match named(code.name()) {
                            Ok((version, name)) => found.push((
                                Migration {
                                    version,
                                    name,
                                    body: Body::Code(Arc::clone(code)),
                                },
                                place,
                            )),
                            Err(problem) => problems.push(format!("{place} {problem}")),
                        }
                    }
                }
            }
            all_problems.extend(problems.into_iter().map(|problem| (key.clone(), problem)));
            all_found.extend(
                found
                    .into_iter()
                    .map(|(migration, place)| (migration, place, key.as_str())),
            );
        }
        let mut by_version: BTreeMap<Arc<str>, (Migration, String)> = BTreeMap::new();
        for (migration, place, key) in all_found {
            let version = Arc::clone(&migration.version);
            match by_version.get(&version) {
                Some((_, first)) => all_problems.push((key.to_owned(), format!(
                    "version {version} is there twice, in {first} and in {place}: a database records a version once, so give one of them another"
                ))),
                None => {
                    by_version.insert(version, (migration, place));
                }
            }
        }
        if all_problems.is_empty() {
            Ok(Self {
                migrations: by_version
                    .into_values()
                    .map(|(migration, _)| migration)
                    .collect(),
                folders,
            })
        } else {
            Err(all_problems)
        }
    }
}

/// The version in the name of a migration, by Diesel's rule: what stands before the first `_`,
/// without dashes.
pub(in crate::migrate) fn version_of(name: &str) -> String {
    migrations_internals::version_from_string(name).unwrap_or_default()
}

/// The version and the name of a migration.
pub(super) fn named(name: &str) -> Result<(Arc<str>, Arc<str>), String> {
    let version = version_of(name);
    if version.is_empty() {
        return Err(
            "has no version: its name is to be VERSION_NAME, as in 2026-01-31-120000_orders"
                .to_owned(),
        );
    }
    if version.len() > LONGEST_VERSION {
        return Err(format!(
            "has a version longer than {LONGEST_VERSION} bytes, which Diesel's version table cannot hold"
        ));
    }
    Ok((version.into(), name.into()))
}

/// Decides how a text is sent.
///
/// It can run in a transaction with its entry in the version table if its author wants that, if it
/// does not begin or end transactions by itself, and, on MySQL, if nothing in it commits implicitly.
/// Statements are sent one by one in either case, so that the one that fails is known.
pub(super) fn script(text: String, kind: UrlKind, in_transaction: bool) -> Result<Script, String> {
    let statements = match split::split(&text, kind) {
        Ok(statements) => Some(statements),
        // In a transaction the database may take the whole: it will say what is wrong, and nothing
        // of it stays.
        Err(Uncut::Unclear(_)) if in_transaction && kind != UrlKind::Mysql => None,
        Err(problem) => return Err(problem.into()),
    };
    let fits = statements
        .iter()
        .flatten()
        .all(|one| one.fits_a_transaction(kind));
    let in_transaction = in_transaction && fits;
    let mut numbered = (1..).zip(statements.iter().flatten());
    let refused = numbered
        .find_map(|(number, one)| Some((number, one.hides_the_books(kind)?)))
        .filter(|_| !in_transaction)
        .map(|(number, instead)| {
            format!("it is sent statement by statement, and after its statement {number} nobody could record how far it has come: {instead}").into()
        });
    Ok(Script {
        checksum: checksum(&text).into(),
        text: text.into(),
        statements: statements.map(Into::into),
        in_transaction,
        refused,
        warnings: Arc::default(),
    })
}

/// The name of a file in a message.
pub(super) fn shown(path: &Path) -> String {
    path.display().to_string()
}
