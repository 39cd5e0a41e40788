//! How our errors travel through Diesel's, and are found again.

use std::error::Error as StdError;

use super::Error;

impl Error {
    /// Finds an `Error` in the chain of causes of any error, Diesel's and r2d2's included.
    ///
    /// Walking [`source`](StdError::source) by hand is not enough:
    /// [`QueryBuilderError`](diesel::result::Error::QueryBuilderError) answers with the source *of*
    /// the error it holds, and so skips it.
    #[must_use]
    pub fn find<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a Self> {
        let mut next = Some(error);
        while let Some(error) = next {
            if let Some(found) = Self::find_here(error) {
                return Some(found);
            }
            next = error.source();
        }
        None
    }

    fn find_here<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a Self> {
        if let Some(found) = error.downcast_ref::<Self>() {
            return Some(found);
        }
        if let Some(diesel) = error.downcast_ref::<diesel::result::Error>() {
            return Self::find_in_diesel(diesel);
        }
        // Boxes of the standard library answer with the source of what they hold, and so skip it.
        if let Some(found) = error.downcast_ref::<Box<Self>>() {
            return Some(found);
        }
        if let Some(found) = error.downcast_ref::<std::sync::Arc<Self>>() {
            return Some(found);
        }
        if let Some(diesel) = error.downcast_ref::<Box<diesel::result::Error>>() {
            return Self::find_in_diesel(diesel);
        }
        if let Some(io) = error.downcast_ref::<std::io::Error>() {
            return Self::find(io.get_ref()?);
        }
        if let Some(diesel::result::ConnectionError::CouldntSetupConfiguration(diesel)) =
            error.downcast_ref()
        {
            return Self::find_in_diesel(diesel);
        }
        #[cfg(feature = "r2d2")]
        match error.downcast_ref::<diesel::r2d2::Error>() {
            Some(diesel::r2d2::Error::QueryError(diesel)) => return Self::find_in_diesel(diesel),
            Some(diesel::r2d2::Error::ConnectionError(connection)) => {
                return Self::find(connection);
            }
            None => {}
        }
        None
    }

    fn find_in_diesel(error: &diesel::result::Error) -> Option<&Self> {
        use diesel::result::Error as D;
        match error {
            D::QueryBuilderError(inner)
            | D::DeserializationError(inner)
            | D::SerializationError(inner) => Self::find(&**inner),
            D::RollbackErrorOnCommit {
                rollback_error,
                commit_error,
            } => {
                Self::find_in_diesel(commit_error).or_else(|| Self::find_in_diesel(rollback_error))
            }
            _ => None,
        }
    }
}

impl From<Error> for diesel::result::Error {
    fn from(error: Error) -> Self {
        match error {
            Error::Database { source, .. } => source,
            other => Self::QueryBuilderError(Box::new(other)),
        }
    }
}

impl From<diesel::result::Error> for Error {
    fn from(error: diesel::result::Error) -> Self {
        match error {
            diesel::result::Error::QueryBuilderError(inner) => match inner.downcast::<Self>() {
                Ok(own) => *own,
                Err(inner) => Self::Database {
                    shard: None,
                    source: diesel::result::Error::QueryBuilderError(inner),
                },
            },
            source => Self::Database {
                shard: None,
                source,
            },
        }
    }
}
