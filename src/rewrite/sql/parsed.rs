//! Text that anybody may have written: parsed, and each name looked up in its scope.

use std::ops::ControlFlow;

use sqlparser::ast::Visit;
use sqlparser::parser::Parser;
use sqlparser::tokenizer::Token;

use super::super::TableSet;
use super::resolver::Resolver;
use super::tokens::{Tokens, parser_dialect};
use super::{Analysis, Refusal, check_bound};

/// How deep expressions may be nested; each level costs stack.
const MAX_DEPTH: usize = 400;

/// What is nested deeper than this is read on a thread with a stack that is large enough for it.
const DEPTH_OF_A_STACK: usize = 25;

/// What one level takes at most, in builds without optimization.
const STACK_OF_A_LEVEL: usize = 128 * 1024;

/// Parses a text and resolves every name of the set in it.
pub(super) fn read(set: &TableSet, tokens: &Tokens<'_>) -> Result<Analysis, Refusal> {
    let depth = depth(tokens);
    if depth <= DEPTH_OF_A_STACK {
        return resolve(set, tokens);
    }
    if depth > MAX_DEPTH {
        return Err(Refusal::because(
            "it is nested too deeply; use IN (..) or a values list in place of long chains of OR",
        ));
    }
    std::thread::scope(|scope| {
        std::thread::Builder::new()
            .stack_size(STACK_OF_A_LEVEL * (depth + DEPTH_OF_A_STACK))
            .spawn_scoped(scope, || resolve(set, tokens))
            .map_err(|error| {
                Refusal::because(format!("no thread can be started for it ({error})"))
            })?
            .join()
            .unwrap_or_else(|_| Err(Refusal::because("reading it panicked")))
    })
}

fn resolve(set: &TableSet, tokens: &Tokens<'_>) -> Result<Analysis, Refusal> {
    let statements = Parser::new(parser_dialect(set.dialect))
        // The depth has been looked at.
        .with_recursion_limit(4 * MAX_DEPTH)
        .with_tokens_with_locations(tokens.for_parser(set.dialect))
        .parse_statements()
        .map_err(|error| {
            Refusal::because(format!(
                "the parser does not know it ({})",
                without_place(&error.to_string())
            ))
        })?;
    let mut resolver = Resolver::new(set, tokens);
    for statement in &statements {
        if let ControlFlow::Break(refusal) = statement.visit(&mut resolver) {
            return Err(*refusal);
        }
        check_bound(set, &resolver.used)?;
        resolver.used.clear();
    }
    let analysis = resolver.finish()?;
    #[cfg(feature = "migrations")]
    if let Analysis::Template(template) = analysis {
        let elsewhere = super::elsewhere::of(set, &statements);
        return Ok(Analysis::Template(template.with_elsewhere(elsewhere)));
    }
    Ok(analysis)
}

/// An upper bound for how deep the syntax tree of the tokens is: operators and opened parentheses
/// nest, a comma ends what was nested beside it.
fn depth(tokens: &Tokens<'_>) -> usize {
    let (mut levels, mut now, mut deepest) = (vec![0usize], 0usize, 0usize);
    for token in &tokens.list {
        match &token.token {
            Token::Whitespace(_) | Token::Period | Token::Number(..) => continue,
            Token::Word(word) => {
                use sqlparser::keywords::Keyword as K;
                let nests = matches!(
                    word.keyword,
                    K::AND
                        | K::OR
                        | K::NOT
                        | K::UNION
                        | K::EXCEPT
                        | K::INTERSECT
                        | K::CASE
                        | K::WHEN
                        | K::IS
                        | K::LIKE
                        | K::COLLATE
                        | K::BETWEEN
                        | K::JOIN
                );
                if !nests {
                    continue;
                }
            }
            Token::Comma | Token::SemiColon => {
                if let Some(level) = levels.last_mut() {
                    now -= std::mem::take(level);
                }
                continue;
            }
            Token::LParen | Token::LBracket => {
                levels.push(0);
                now += 1;
                deepest = deepest.max(now);
                continue;
            }
            Token::RParen | Token::RBracket => {
                if levels.len() > 1 {
                    now -= levels.pop().unwrap_or(0) + 1;
                }
                continue;
            }
            Token::SingleQuotedString(_) | Token::Placeholder(_) => continue,
            _ => {}
        }
        now += 1;
        if let Some(level) = levels.last_mut() {
            *level += 1;
        }
        deepest = deepest.max(now);
    }
    deepest
}

/// The parser's message without a place: the places are positions of tokens here.
fn without_place(message: &str) -> &str {
    let message = message
        .strip_prefix("sql parser error: ")
        .unwrap_or(message);
    message
        .rsplit_once(" at Line: ")
        .map_or(message, |(message, _)| message)
}
