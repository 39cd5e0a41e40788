//! A query whose text has been replaced.

use diesel::QueryResult;
use diesel::backend::Backend;
use diesel::query_builder::{AstPass, Query, QueryFragment, QueryId};

/// A query with another text: everything else (binds, their types, the columns of its result) is as in
/// the query within.
#[derive(Debug)]
pub(crate) struct Rewritten<T> {
    pub(crate) query: T,
    pub(crate) text: String,
    /// Whether a prepared statement of this text may be kept.
    pub(crate) keep: bool,
}

impl<T, DB> QueryFragment<DB> for Rewritten<T>
where
    DB: Backend,
    T: QueryFragment<DB>,
{
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, DB>) -> QueryResult<()> {
        // Only the pass that makes the text keeps this flag, which is how it is recognized.
        let before = out.should_skip_from();
        out.skip_from(true);
        let makes_text = out.should_skip_from();
        out.skip_from(before);
        if makes_text {
            out.push_sql(&self.text);
            return Ok(());
        }
        if !self.keep {
            out.unsafe_to_cache_prepared();
        }
        self.query.walk_ast(out)
    }
}

/// Never a static one: Diesel would keep one statement for all physical tables. Without it, statements
/// are kept by their text.
impl<T> QueryId for Rewritten<T> {
    type QueryId = ();
    const HAS_STATIC_QUERY_ID: bool = false;
}

impl<T: Query> Query for Rewritten<T> {
    type SqlType = T::SqlType;
}
