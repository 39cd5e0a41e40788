//! Migrations that were compiled into the program.
//!
//! Diesel's type does not show its texts: it only runs them on a connection. So it gets one that
//! takes down what it is told, and every migration of a program can be listed, planned, compared and
//! sent statement by statement like one from a folder.

use diesel::connection::{
    AnsiTransactionManager, CacheSize, Connection, ConnectionSealed, Instrumentation,
    SimpleConnection,
};
use diesel::migration::{Migration as _, MigrationSource};
use diesel::query_builder::{QueryFragment, QueryId};
use diesel::{ConnectionError, ConnectionResult, QueryResult};
use diesel_migrations::EmbeddedMigrations;

use super::set::{Body, Migration, named, script};
use crate::topology::UrlKind;

/// Any backend does: the texts are the same for all.
#[cfg(feature = "sqlite")]
type Db = diesel::sqlite::Sqlite;
#[cfg(all(feature = "postgres", not(feature = "sqlite")))]
type Db = diesel::pg::Pg;
#[cfg(all(feature = "mysql", not(any(feature = "sqlite", feature = "postgres"))))]
type Db = diesel::mysql::Mysql;

/// Takes down the text that is to be executed.
#[derive(Default)]
struct Recorder {
    text: String,
    state: AnsiTransactionManager,
    instrumentation: Option<Box<dyn Instrumentation>>,
}

impl SimpleConnection for Recorder {
    fn batch_execute(&mut self, query: &str) -> QueryResult<()> {
        self.text.push_str(query);
        Ok(())
    }
}

impl ConnectionSealed for Recorder {}

impl Connection for Recorder {
    type Backend = Db;
    type TransactionManager = AnsiTransactionManager;

    fn establish(_: &str) -> ConnectionResult<Self> {
        Err(ConnectionError::InvalidConnectionUrl(
            "nothing is behind this connection".to_owned(),
        ))
    }

    fn execute_returning_count<T>(&mut self, _: &T) -> QueryResult<usize>
    where
        T: QueryFragment<Self::Backend> + QueryId,
    {
        Err(diesel::result::Error::QueryBuilderError(
            "an embedded migration consists of texts".into(),
        ))
    }

    fn transaction_state(&mut self) -> &mut AnsiTransactionManager {
        &mut self.state
    }

    fn instrumentation(&mut self) -> &mut dyn Instrumentation {
        &mut self.instrumentation
    }

    fn set_instrumentation(&mut self, instrumentation: impl Instrumentation) {
        self.instrumentation = Some(Box::new(instrumentation));
    }

    fn set_prepared_statement_cache_size(&mut self, _: CacheSize) {}
}

pub(super) fn read(
    migrations: &EmbeddedMigrations,
    kind: UrlKind,
    found: &mut Vec<(Migration, String)>,
    problems: &mut Vec<String>,
) {
    let list = match MigrationSource::<Db>::migrations(migrations) {
        Ok(list) => list,
        Err(error) => {
            problems.push(format!("the embedded migrations cannot be listed: {error}"));
            return;
        }
    };
    for migration in list {
        let name = migration.name().to_string();
        let place = format!("the embedded migration {name}");
        let mut up = Recorder::default();
        let mut down = Recorder::default();
        let read = (|| {
            let (version, name) = named(&name)?;
            migration.run(&mut up).map_err(|error| error.to_string())?;
            let in_transaction = migration.metadata().run_in_transaction();
            let of = |text: String| script(text, kind, in_transaction);
            // An error says that there is no way back.
            let reverts = migration.revert(&mut down).is_ok() && !down.text.is_empty();
            Ok::<_, String>(Migration {
                version,
                name,
                body: Body::Sql {
                    up: of(std::mem::take(&mut up.text))?,
                    down: match reverts {
                        true => Some(of(std::mem::take(&mut down.text))?),
                        false => None,
                    },
                },
            })
        })();
        match read {
            Ok(migration) => found.push((migration, place)),
            Err(problem) => problems.push(format!("{place} {problem}")),
        }
    }
}
