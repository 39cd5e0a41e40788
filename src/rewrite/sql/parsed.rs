//! Text that anybody may have written: parsed, and each name looked up in its scope.

use std::ops::ControlFlow;

use sqlparser::ast::Visit;
use sqlparser::keywords::Keyword as K;
use sqlparser::parser::Parser;
use sqlparser::tokenizer::{Token, Word};

use super::super::TableSet;
use super::resolver::Resolver;
use super::tokens::{Tokens, parser_dialect};
use super::{Analysis, Refusal, check_bound};

/// How deep expressions may be nested; each level costs stack.
const MAX_DEPTH: usize = 4_000;

/// What is nested deeper than this is read on a thread with a stack that is large enough for it.
const DEPTH_OF_A_STACK: usize = 25;

/// What one level takes at most. Only what is used of it takes memory.
const STACK_OF_A_LEVEL: usize = if cfg!(debug_assertions) {
    128 * 1024
} else {
    32 * 1024
};

/// Parses a text and resolves every name of the set in it.
pub(super) fn read(set: &TableSet, tokens: &Tokens<'_>) -> Result<Analysis, Refusal> {
    let depth = depth(tokens);
    if depth <= DEPTH_OF_A_STACK {
        return resolve(set, tokens);
    }
    if depth > MAX_DEPTH {
        return Err(Refusal::because(
            "it is nested more than 4000 deep; use IN (..) or a values list in place of long chains of OR",
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

/// An upper bound for how deep the syntax tree of the tokens is: operators, words of the language and opened
/// parentheses nest, a comma ends what was nested beside it.
fn depth(tokens: &Tokens<'_>) -> usize {
    let (mut levels, mut now, mut deepest) = (vec![0usize], 0usize, 0usize);
    // Bodies of triggers and procedures: a semicolon does not end them.
    let mut blocks = 0usize;
    let mut solid = tokens
        .list
        .iter()
        .map(|token| &token.token)
        .filter(|token| !matches!(token, Token::Whitespace(_)))
        .peekable();
    let mut before = None;
    while let Some(token) = solid.next() {
        let behind = before.replace(token);
        match token {
            Token::Period | Token::Number(..) => continue,
            Token::SingleQuotedString(_) | Token::Placeholder(_) => continue,
            Token::Word(word) => {
                blocks = blocks_after(blocks, word, behind, solid.peek().copied());
                if matches!(word.keyword, K::NoKeyword | K::AS | K::BY | K::NULL) {
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
                deepest = deepest.max(now + blocks);
                continue;
            }
            Token::RParen | Token::RBracket => {
                if levels.len() > 1 {
                    now -= levels.pop().unwrap_or(0) + 1;
                }
                if *token == Token::RParen {
                    continue;
                }
                // `int[][]` nests without one being in the other.
            }
            _ => {}
        }
        now += 1;
        if let Some(level) = levels.last_mut() {
            *level += 1;
        }
        deepest = deepest.max(now + blocks);
    }
    deepest
}

/// How many bodies of statements are open behind a word.
fn blocks_after(
    blocks: usize,
    word: &Word,
    before: Option<&Token>,
    after: Option<&Token>,
) -> usize {
    let keyword = |token: Option<&Token>| match token {
        Some(Token::Word(word)) => Some(word.keyword),
        _ => None,
    };
    match word.keyword {
        K::BEGIN
            if after.is_some_and(|token| *token != Token::SemiColon)
                && !matches!(keyword(after), Some(K::TRANSACTION | K::WORK)) =>
        {
            blocks + 1
        }
        K::IF | K::WHILE | K::CASE
            if matches!(before, None | Some(Token::SemiColon))
                || matches!(keyword(before), Some(K::THEN | K::ELSE | K::BEGIN | K::DO)) =>
        {
            blocks + 1
        }
        K::END if before == Some(&Token::SemiColon) => blocks.saturating_sub(1),
        _ => blocks,
    }
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
