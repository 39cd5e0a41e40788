//! Where migrations come from, and what one is.

mod code;
mod embedded;
mod folder;
mod set;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use diesel_migrations::EmbeddedMigrations;

pub use code::CodeMigration;
pub(super) use set::{Body, Keyed, Migration, MigrationSet, Script, checksums, hex, version_of};

/// Migrations from one place.
///
/// ```no_run
/// use diesel_migrations::{EmbeddedMigrations, embed_migrations};
/// use diesel_sharded::migrate::Source;
///
/// let folder = Source::folder("migrations/{backend}");
/// # #[cfg(any())]
/// const MIGRATIONS: EmbeddedMigrations = embed_migrations!("migrations/orders");
/// # #[cfg(any())]
/// let embedded = Source::embedded(MIGRATIONS);
/// ```
#[derive(Clone)]
pub struct Source {
    kind: Kind,
}

#[derive(Clone)]
enum Kind {
    Folder(PathBuf),
    Embedded(Arc<EmbeddedMigrations>),
    Code(Arc<[Arc<dyn CodeMigration>]>),
}

impl Source {
    /// A folder in Diesel's form: one folder in it for each migration, called `VERSION_NAME`, with
    /// `up.sql`, `down.sql` where there is a way back, and `metadata.toml` where it is needed.
    /// `{backend}` in the path stands for `sqlite`, `postgres` or `mysql`.
    #[must_use]
    pub fn folder(path: impl Into<PathBuf>) -> Self {
        Self {
            kind: Kind::Folder(path.into()),
        }
    }

    /// What [`embed_migrations!`](diesel_migrations::embed_migrations) has compiled into the program.
    #[must_use]
    pub fn embedded(migrations: EmbeddedMigrations) -> Self {
        Self {
            kind: Kind::Embedded(Arc::new(migrations)),
        }
    }

    /// Migrations written in Rust.
    #[must_use]
    pub fn code(migrations: impl IntoIterator<Item = Arc<dyn CodeMigration>>) -> Self {
        Self {
            kind: Kind::Code(migrations.into_iter().collect()),
        }
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            Kind::Folder(path) => f.debug_tuple("Folder").field(path).finish(),
            Kind::Embedded(_) => f.write_str("Embedded"),
            Kind::Code(list) => f.debug_tuple("Code").field(&list.len()).finish(),
        }
    }
}
