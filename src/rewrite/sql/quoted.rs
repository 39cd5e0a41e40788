//! Text that Diesel's query builder made: decided by its quoted names alone.
//!
//! Such text may hold operators and functions that no parser knows, so nothing else is looked at. Where
//! a quoted name could mean two things the answer is "not here", and the parser gets the text.

use sqlparser::tokenizer::Token;

use super::super::TableSet;
use super::super::table_set::Meaning;
use super::template::{Hole, Template};
use super::tokens::Tokens;

/// The template of a statement that reads or deletes; `None` where the quoted names do not decide.
pub(super) fn read(set: &TableSet, tokens: &Tokens<'_>) -> Option<Template> {
    let scan = Scan { set, tokens };
    // What writes keys is parsed, because the values have to be found.
    let first = tokens.after_start()?;
    if !scan.is_keyword(first, &["select", "delete"]) || scan.has_word(&["with", "as"]) {
        return None;
    }
    let mut named: Vec<usize> = tokens.named().collect();
    named.sort_unstable();
    let mut holes = Vec::new();
    for at in named {
        if let Some(table) = scan.decide(at)? {
            holes.push(Hole {
                bytes: tokens.range(at),
                table,
                quote: tokens.quote(at),
                own: None,
            });
        }
    }
    if holes.is_empty() {
        return None;
    }
    Some(Template::new(tokens.text, holes, Vec::new()))
}

struct Scan<'a, 't> {
    set: &'a TableSet,
    tokens: &'a Tokens<'t>,
}

impl Scan<'_, '_> {
    /// Which sharded table a quoted name stands for (`Some(None)`: for something else).
    fn decide(&self, at: usize) -> Option<Option<usize>> {
        let Token::Word(word) = &self.tokens.list[at].token else {
            return None;
        };
        let quote = word.quote_style?;
        if !matches!(quote, '"' | '`') {
            return None;
        }
        let name = self.set.dialect.fold(&word.value, true);
        let (before, after) = (self.tokens.before(at)?, self.tokens.after(at));
        let qualifies = self.tokens.is_period(after);
        if !self.tokens.is_period(Some(before)) {
            // First part of what may have several.
            return match (self.is_relation(before), qualifies) {
                // A schema of that name.
                (true, true) | (false, false) => None,
                (true, false) | (false, true) => self.table(None, &name),
            };
        }
        let schema = self.tokens.before(before)?;
        let Token::Word(written) = &self.tokens.list[schema].token else {
            return None;
        };
        let in_front = self.tokens.before(schema)?;
        if self.tokens.is_period(Some(in_front)) {
            // Third part: a column of a table with a schema.
            return (!qualifies).then_some(None);
        }
        let folded = self.set.dialect.fold(&written.value, true);
        match (self.is_relation(in_front), qualifies) {
            (true, false) | (false, true) => self.table(Some(&folded), &name),
            // The column of a table.
            (false, false) => Some(None),
            (true, true) => None,
        }
    }

    fn table(&self, schema: Option<&str>, name: &str) -> Option<Option<usize>> {
        match self.set.find(schema, name) {
            Meaning::Table(index) => Some(Some(index)),
            Meaning::Other => Some(None),
            Meaning::Unclear => None,
        }
    }

    /// Whether a table follows after this token, behind any opened parentheses.
    fn is_relation(&self, before: usize) -> bool {
        let mut at = Some(before);
        while let Some(position) = at
            && self.tokens.list[position].token == Token::LParen
        {
            at = self.tokens.before(position);
        }
        let Some(position) = at else { return false };
        if self.is_keyword(position, &["from"]) {
            // `IS DISTINCT FROM` compares.
            return !self
                .tokens
                .before(position)
                .is_some_and(|at| self.is_keyword(at, &["distinct"]));
        }
        self.is_keyword(position, &["join", "only"])
    }

    fn is_keyword(&self, at: usize, words: &[&str]) -> bool {
        match &self.tokens.list[at].token {
            Token::Word(word) => {
                word.quote_style.is_none()
                    && words
                        .iter()
                        .any(|known| word.value.eq_ignore_ascii_case(known))
            }
            _ => false,
        }
    }

    fn has_word(&self, words: &[&str]) -> bool {
        (0..self.tokens.list.len()).any(|at| self.is_keyword(at, words))
    }
}
