//! From the text of a statement to its template.

mod clauses;
mod counters;
mod ddl;
#[cfg(feature = "migrations")]
mod elsewhere;
#[cfg(any(test, fuzzing))]
pub(crate) mod invariant;
pub(crate) mod lexical;
mod new_rows;
#[cfg(feature = "migrations")]
mod own_names;
mod owned;
mod parsed;
#[cfg(test)]
mod properties;
mod quoted;
mod resolver;
#[cfg(any(test, fuzzing))]
pub(crate) mod samples;
mod scope;
mod template;
#[cfg(test)]
mod tests;
mod tokens;
mod writes;

use std::borrow::Cow;

use super::{Dialect, TableSet};

#[cfg(feature = "migrations")]
pub(crate) use own_names::OwnNames;
#[cfg(feature = "migrations")]
pub(crate) use owned::end_made_by_postgres;
#[cfg(feature = "migrations")]
pub(crate) use template::comparable;
pub(crate) use template::{KeyUse, KeyWrite, Template, Unfilled, Written};

/// What a text is to the rewriter.
#[derive(Clone, Debug)]
pub(crate) enum Analysis {
    /// It names no sharded table: it is sent as it is.
    Untouched,
    /// It names sharded tables.
    Template(Template),
}

/// Where a text comes from.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Origin {
    /// Diesel's query builder made all of it, for a type whose text is always the same.
    Builder,
    /// Somebody may have written some of it.
    Anyone,
}

/// Why a text is not sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// It cannot be decided what some name in it means.
    Unclear(Cow<'static, str>),
    /// It names two sharded tables whose numbers do not move together.
    Unbound { one: usize, other: usize },
    /// It sets the key column of a table to something whose placement cannot be known.
    KeyExpression { table: usize },
    /// It sets SQLite's number of the row, which may be the key column.
    RowNumber { table: usize },
}

impl Refusal {
    fn because(reason: impl Into<Cow<'static, str>>) -> Self {
        Self::Unclear(reason.into())
    }
}

/// Reads a text.
pub(crate) fn analyze(set: &TableSet, text: &str, origin: Origin) -> Result<Analysis, Refusal> {
    analyze_knowing(set, text, origin, &|_| false)
}

/// Reads a text where it is known which names of constraints were given by a clause: of the others, those that look
/// as if the server had made them are refused.
pub(crate) fn analyze_knowing(
    set: &TableSet,
    text: &str,
    origin: Origin,
    is_given: &dyn Fn(&str) -> bool,
) -> Result<Analysis, Refusal> {
    let analysis = read(set, text, origin)?;
    if let Analysis::Template(template) = &analysis
        && let Some(name) = template.doubts().find(|name| !is_given(name))
    {
        return Err(Refusal::because(format!(
            "{name} may be a name that the server made or one of a CONSTRAINT clause, and these differ in each physical table: write the physical names, a statement each"
        )));
    }
    Ok(analysis)
}

fn read(set: &TableSet, text: &str, origin: Origin) -> Result<Analysis, Refusal> {
    if set.is_empty() || !may_concern(set, text) {
        return Ok(Analysis::Untouched);
    }
    let tokens = tokens::Tokens::read(set, text)?;
    if !tokens.has_names() {
        return Ok(Analysis::Untouched);
    }
    let quoted = match origin {
        Origin::Builder => quoted::read(set, &tokens),
        Origin::Anyone => None,
    };
    let analysis = match quoted {
        Some(template) => bound(set, template)?,
        None => parsed::read(set, &tokens)?,
    };
    Ok(match analysis {
        Analysis::Template(template) => {
            let beside = tokens.beside(set, template.tables());
            Analysis::Template(template.with_beside(beside))
        }
        Analysis::Untouched => Analysis::Untouched,
    })
}

/// A quick look: whether any name of the set can be in the text.
fn may_concern(set: &TableSet, text: &str) -> bool {
    set.occurs_in(text)
        // PostgreSQL's `U&"\006Frders"` is `orders` in disguise.
        || (set.dialect == Dialect::Postgres
            && text.as_bytes().windows(3).any(|three| three.eq_ignore_ascii_case(b"u&\"")))
}

/// Refuses tables that do not move together. For the template of one statement.
fn bound(set: &TableSet, template: Template) -> Result<Analysis, Refusal> {
    check_bound(set, template.tables())?;
    Ok(Analysis::Template(template))
}

fn check_bound(set: &TableSet, used: &[usize]) -> Result<(), Refusal> {
    if let Some((&one, others)) = used.split_first() {
        for &other in others {
            if !set.tables()[one].is_bound_to(&set.tables()[other]) {
                return Err(Refusal::Unbound { one, other });
            }
        }
    }
    Ok(())
}
