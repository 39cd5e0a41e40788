//! A query whose text has been replaced.

use std::any::TypeId;
use std::cell::Cell;
use std::sync::Arc;

use diesel::QueryResult;
use diesel::backend::Backend;
use diesel::query_builder::{AstPass, Query, QueryFragment, QueryId};

use super::text_id;

/// A query with another text: everything else (binds, their types, the columns of its result) is as in
/// the query within.
///
/// Diesel keeps its prepared statement by its text, and never by the type of the query: that would be one
/// statement for all physical tables. If it is `NUMBERED`, and the text has a number with the connection,
/// then by the number: that is the text again, without making and comparing it.
#[derive(Debug)]
pub(crate) struct Rewritten<T, const NUMBERED: bool> {
    query: T,
    text: Arc<str>,
    /// Whether a prepared statement of this text may be kept.
    keep: bool,
}

impl<T, const NUMBERED: bool> Rewritten<T, NUMBERED> {
    pub(crate) fn new(query: T, text: Arc<str>, keep: bool) -> Self {
        Self { query, text, keep }
    }
}

impl<T, DB, const NUMBERED: bool> QueryFragment<DB> for Rewritten<T, NUMBERED>
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

impl<T, const NUMBERED: bool> QueryId for Rewritten<T, NUMBERED> {
    type QueryId = ();
    const HAS_STATIC_QUERY_ID: bool = false;

    fn query_id() -> Option<TypeId> {
        if NUMBERED {
            CURRENT.get().map(TextId::type_id)
        } else {
            None
        }
    }
}

impl<T: Query, const NUMBERED: bool> Query for Rewritten<T, NUMBERED> {
    type SqlType = T::SqlType;
}

/// The number of a query's text with one connection. A connection gives no number twice.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct TextId(u8);

impl TextId {
    /// `None`: there are no more.
    pub(crate) fn of(number: usize) -> Option<Self> {
        number.try_into().ok().map(Self)
    }

    fn type_id(self) -> TypeId {
        text_id::type_of(self.0)
    }
}

thread_local! {
    /// The number of the text that is about to be run: Diesel asks a type for it, which has no value.
    static CURRENT: Cell<Option<TextId>> = const { Cell::new(None) };
}

/// Diesel takes a query that is [`NUMBERED`](Rewritten) for the text of this number until it ends. What
/// an observer of Diesel's runs on another connection meanwhile has a scope of its own.
#[cfg(feature = "r2d2")]
#[must_use = "the scope ends as soon as it is dropped"]
pub(crate) struct TextScope(Option<TextId>);

#[cfg(feature = "r2d2")]
impl TextScope {
    #[inline]
    pub(crate) fn enter(id: Option<TextId>) -> Self {
        Self(CURRENT.replace(id))
    }
}

#[cfg(feature = "r2d2")]
impl Drop for TextScope {
    #[inline]
    fn drop(&mut self) {
        CURRENT.set(self.0);
    }
}
