//! What holds for every text whatever it says; for the property tests and the fuzz target.

use sqlparser::tokenizer::{Token, Tokenizer};

use super::super::{Dialect, TableNumbers, TableSet};
use super::template::own_name;
use super::tokens::parser_dialect;
use super::{Analysis, Origin, analyze, lexical};

/// Rewrites a text and compares the tokens of before and after: the same number, and each the same but
/// those that name a sharded table or what it owns, which name its physical table and what that owns now.
///
/// # Panics
///
/// Where that does not hold.
pub(crate) fn check(set: &TableSet, numbers: TableNumbers, text: &str) {
    for origin in [Origin::Builder, Origin::Anyone] {
        let Ok(Analysis::Template(template)) = analyze(set, text, origin) else {
            continue;
        };
        let Ok(after) = template.render(set, Some(numbers)) else {
            continue;
        };
        assert_ne!(after, text, "a template that changes nothing");
        let (old, new) = (tokens(set.dialect, text), tokens(set.dialect, &after));
        assert_eq!(old.len(), new.len(), "{text}\n{after}");
        for (old, new) in old.iter().zip(&new) {
            if old == new {
                continue;
            }
            let (Some(old), Some(new)) = (name(old), name(new)) else {
                panic!("{old:?} became {new:?} in {text}\n{after}");
            };
            let physical = set.tables().iter().any(|table| {
                table.name.eq_ignore_ascii_case(&old)
                    && table.physical(numbers).is_some_and(|name| name == new)
                    // Something that the table owns: an index, a constraint.
                    || table
                        .mark(numbers)
                        .is_some_and(|mark| own_name(&old, &mark) == new)
            });
            assert!(physical, "{old} became {new} in {text}\n{after}");
        }
    }
}

fn tokens(dialect: Dialect, text: &str) -> Vec<Token> {
    // Of comments the tokenizer knows less than the server.
    let plain = lexical::without_comments(text, &lexical::pieces(dialect, text));
    Tokenizer::new(parser_dialect(dialect), &plain)
        .with_unescape(false)
        .tokenize()
        .unwrap_or_else(|error| panic!("{error} in {text}"))
}

fn name(token: &Token) -> Option<String> {
    match token {
        Token::Word(word) => Some(word.value.clone()),
        Token::SingleQuotedString(text) | Token::DoubleQuotedString(text) => Some(text.clone()),
        _ => None,
    }
}
