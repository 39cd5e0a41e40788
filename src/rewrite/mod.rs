//! Logical to physical table names in SQL text.
//!
//! An application names `orders`; its databases hold `orders_0` to `orders_7`. What stands here turns
//! the text of a statement into a template: the text with a hole wherever a sharded table is named,
//! and what has to hold for the keys that the statement writes. Nothing here knows a connection.
//!
//! # How a text is read
//!
//! 1. A text in which no sharded name occurs outside literals and comments is sent as it is.
//! 2. Text that Diesel's query builder made for a type of fixed text quotes every name and writes every
//!    column with its table. There the quoted names alone decide (`sql/quoted.rs`), where nothing else can be
//!    meant: such text may hold operators that no parser knows.
//! 3. Everything else goes through the `sqlparser` crate, in the dialect of the backend, and each
//!    occurrence is looked up in its scope (`sql/resolver.rs`): tables and their qualifiers are replaced,
//!    columns, aliases and common table expressions of the same name are not.
//! 4. An occurrence that nobody could account for is an error. A guess would read or write the table
//!    that happens to bear the logical name.
//! 5. A parser may misread. So the words of the statement are read a second time without it (`sql/clauses.rs`), and
//!    a name that stands where a table does has to be one to both.
//!
//! Only the bytes of table names and qualifiers are replaced; every other byte stays as it was.

mod dialect;
#[cfg(any(feature = "r2d2", feature = "bb8"))]
mod fragment;
mod numbers;
mod pattern;
mod table_set;
#[cfg(any(feature = "r2d2", feature = "bb8"))]
mod text_id;

#[cfg(any(feature = "r2d2", feature = "bb8"))]
pub(crate) mod sql;

pub(crate) use dialect::Dialect;
#[cfg(feature = "r2d2")]
pub(crate) use fragment::TextScope;
#[cfg(any(feature = "r2d2", feature = "bb8"))]
pub(crate) use fragment::{Rewritten, TextId};
pub(crate) use numbers::{PlacedBy, TableNumbers, Which};
pub(crate) use pattern::Pattern;
#[cfg(any(feature = "r2d2", feature = "bb8"))]
pub(crate) use sql::{
    Analysis, KeyUse, KeyWrite, Origin, Refusal, Template, Unfilled, Written, analyze,
};
#[cfg(all(feature = "migrations", any(feature = "r2d2", feature = "bb8")))]
pub(crate) use sql::{OwnNames, analyze_knowing, comparable, end_made_by_postgres};
#[cfg(any(feature = "r2d2", feature = "bb8"))]
pub(crate) use table_set::contains_ignoring_case;
pub(crate) use table_set::{Parts, ShardedTable, TableSet};
