//! Errors on their way through Diesel, pools and the application, and back.

use std::error::Error as StdError;
use std::fmt;

use diesel::result::{DatabaseErrorKind, Error as DieselError};
use diesel_sharded::Error;

use super::{Fleet, PoolError, ids, insert, whoami};

fn is_unique(error: &DieselError) -> bool {
    matches!(
        error,
        DieselError::DatabaseError(DatabaseErrorKind::UniqueViolation, _)
    )
}

#[test]
fn a_database_error_stays_diesels_own() {
    let fleet = Fleet::new(&["a", "b"]);
    let shards = fleet.manager();
    insert(&mut shards.get_on("a").unwrap(), 1).unwrap();

    assert!(is_unique(
        &insert(&mut shards.get_on("a").unwrap(), 1).unwrap_err()
    ));
    assert!(is_unique(
        &shards
            .on("a", || insert(&mut shards.get()?, 1))
            .unwrap_err()
    ));
    assert!(is_unique(
        &shards
            .transaction_on("a", |conn| insert(conn, 1))
            .unwrap_err()
    ));
    let pool = shards.clone().into_pool();
    assert!(is_unique(
        &shards
            .on("a", || insert(&mut pool.get().unwrap(), 1))
            .unwrap_err()
    ));
    // In our own error it is still there, and comes out again as it was.
    let error = shards
        .transaction_on("a", |conn| Ok::<_, Error>(insert(conn, 1)?))
        .unwrap_err();
    assert!(matches!(&error, Error::Database { source, .. } if is_unique(source)));
    assert!(is_unique(&DieselError::from(error)));
    // With the details of the database.
    let error = shards
        .transaction_on("a", |conn| insert(conn, 1))
        .unwrap_err();
    let DieselError::DatabaseError(_, information) = error else {
        panic!("{error:?}");
    };
    assert!(!information.message().is_empty());
}

/// The usual error of an application.
#[derive(Debug)]
enum AppError {
    Diesel(DieselError),
    Sharded(Error),
    Pool(PoolError),
    Domain(&'static str),
}

impl fmt::Display for AppError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Diesel(_) => f.write_str("the database says no"),
            Self::Sharded(_) => f.write_str("the shards say no"),
            Self::Pool(_) => f.write_str("the pool says no"),
            Self::Domain(text) => f.write_str(text),
        }
    }
}

impl StdError for AppError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Self::Diesel(error) => Some(error),
            Self::Sharded(error) => Some(error),
            Self::Pool(error) => Some(error),
            Self::Domain(_) => None,
        }
    }
}

impl From<DieselError> for AppError {
    fn from(error: DieselError) -> Self {
        Self::Diesel(error)
    }
}

impl From<Error> for AppError {
    fn from(error: Error) -> Self {
        Self::Sharded(error)
    }
}

impl From<PoolError> for AppError {
    fn from(error: PoolError) -> Self {
        Self::Pool(error)
    }
}

#[test]
fn question_marks_work_with_an_applications_error() {
    let fleet = Fleet::new(&["a", "b"]);
    let shards = fleet.manager();
    let pool = shards.clone().into_pool();
    let all_is_well = || -> Result<String, AppError> {
        insert(&mut shards.get_on("a")?, 1)?;
        shards.transaction_on("b", |conn| {
            insert(conn, 2)?;
            conn.ensure_owns("none", &1)
                .map_or(Ok(()), |()| Err(AppError::Domain("owned?")))
        })?;
        shards.on("a", || {
            let mut conn = pool.get()?;
            Ok(whoami(&mut conn)?)
        })
    };
    assert_eq!(all_is_well().unwrap(), "a");

    let unknown = shards
        .transaction_on("c", |_| Ok::<_, AppError>(()))
        .unwrap_err();
    assert!(matches!(&unknown, AppError::Diesel(_)));
    assert!(matches!(
        Error::find(&unknown),
        Some(Error::UnknownShard { .. })
    ));
    let unknown = || -> Result<(), AppError> {
        shards.get_on("c")?;
        Ok(())
    };
    let unknown = unknown().unwrap_err();
    assert!(matches!(
        &unknown,
        AppError::Sharded(Error::UnknownShard { .. })
    ));
    assert!(matches!(
        Error::find(&unknown),
        Some(Error::UnknownShard { .. })
    ));

    let refused = shards.transaction_on("a", |conn| {
        insert(conn, 3)?;
        Err::<(), _>(AppError::Domain("not today"))
    });
    assert!(matches!(refused, Err(AppError::Domain("not today"))));
    assert_eq!(fleet.rows("a"), [1]);
    assert!(Error::find(&AppError::Domain("x")).is_none());
}

/// What anyhow and eyre do: one type that takes every error.
#[derive(Debug)]
struct Anything(Box<dyn StdError + Send + Sync>);

impl<E: StdError + Send + Sync + 'static> From<E> for Anything {
    fn from(error: E) -> Self {
        Self(Box::new(error))
    }
}

#[test]
fn question_marks_work_with_boxed_errors() {
    let fleet = Fleet::new(&["a", "b"]);
    let shards = fleet.manager();
    let boxed = || -> Result<(), Box<dyn StdError>> {
        shards.transaction_on("a", |conn| {
            insert(conn, 1)?;
            shards.get_on("b")?;
            Ok::<_, Box<dyn StdError>>(())
        })
    };
    let error = boxed().unwrap_err();
    assert!(
        matches!(Error::find(&*error), Some(Error::PinnedElsewhere { .. })),
        "{error:?}"
    );

    let anything = || -> Result<(), Anything> {
        shards.on("a", || {
            let mut conn = shards.get()?;
            shards.on("b", || Ok::<_, Anything>(ids(&mut conn)?))?;
            Ok(())
        })
    };
    let error = anything().unwrap_err();
    assert!(
        matches!(Error::find(&*error.0), Some(Error::RouteMismatch { .. })),
        "{error:?}"
    );

    let own = shards.transaction_on("a", |_| Err::<(), _>(Anything::from(fmt::Error)));
    assert!(own.unwrap_err().0.is::<fmt::Error>());
    assert_eq!(fleet.rows("a"), [0_i64; 0]);
}

fn no_route() -> Error {
    Error::NoRoute { known: vec![] }
}

fn in_diesel() -> DieselError {
    no_route().into()
}

#[test]
fn ours_is_found_in_every_wrapping() {
    let wrappings: Vec<Box<dyn StdError>> = vec![
        Box::new(no_route()),
        Box::new(in_diesel()),
        Box::new(DieselError::QueryBuilderError(Box::new(in_diesel()))),
        Box::new(DieselError::DeserializationError(Box::new(no_route()))),
        Box::new(DieselError::SerializationError(Box::new(no_route()))),
        Box::new(DieselError::RollbackErrorOnCommit {
            rollback_error: Box::new(diesel::NotFound),
            commit_error: Box::new(in_diesel()),
        }),
        Box::new(DieselError::RollbackErrorOnCommit {
            rollback_error: Box::new(in_diesel()),
            commit_error: Box::new(diesel::NotFound),
        }),
        Box::new(diesel::ConnectionError::CouldntSetupConfiguration(
            in_diesel(),
        )),
        Box::new(diesel::r2d2::Error::QueryError(in_diesel())),
        Box::new(diesel::r2d2::Error::ConnectionError(
            diesel::ConnectionError::CouldntSetupConfiguration(in_diesel()),
        )),
        Box::new(AppError::Diesel(in_diesel())),
        Box::new(AppError::Sharded(no_route())),
        Box::new(Error::Database {
            shard: None,
            source: in_diesel(),
        }),
    ];
    for wrapping in wrappings {
        let found = Error::find(&*wrapping);
        // The wrapping in the last one is one of ours itself.
        assert!(
            matches!(found, Some(Error::NoRoute { .. } | Error::Database { .. })),
            "{wrapping:?}"
        );
    }
    let foreign: [Box<dyn StdError>; 3] = [
        Box::new(fmt::Error),
        Box::new(diesel::NotFound),
        Box::new(DieselError::QueryBuilderError("of somebody else".into())),
    ];
    for foreign in foreign {
        assert!(Error::find(&*foreign).is_none(), "{foreign:?}");
    }
}

/// Like `QueryBuilderError`, these answer with the source of what they hold.
#[test]
fn ours_is_found_in_the_boxes_of_the_standard_library() {
    let wrappings: Vec<Box<dyn StdError>> = vec![
        Box::new(std::io::Error::other(no_route())),
        Box::new(std::io::Error::other(in_diesel())),
        Box::new(Box::new(no_route())),
        Box::new(Box::new(in_diesel())),
        Box::new(std::sync::Arc::new(no_route())),
    ];
    for wrapping in wrappings {
        let found = Error::find(&*wrapping);
        assert!(matches!(found, Some(Error::NoRoute { .. })), "{wrapping:?}");
    }
}

#[test]
fn conversions_lose_nothing() {
    let there_and_back = Error::from(DieselError::from(Error::NoRoute { known: vec![] }));
    assert!(matches!(there_and_back, Error::NoRoute { .. }));
    let back_and_there = DieselError::from(Error::from(diesel::NotFound));
    assert_eq!(back_and_there, diesel::NotFound);
    let foreign = DieselError::QueryBuilderError("of somebody else".into());
    let Error::Database { source, .. } = Error::from(foreign) else {
        panic!("a foreign error was taken for ours");
    };
    assert!(source.to_string().contains("of somebody else"));
}
