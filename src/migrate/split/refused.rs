//! Statements that must not be sent, since no good can come of it.

use sqlparser::tokenizer::{Span, Token, TokenWithSpan, Whitespace};

use super::Uncut;
use crate::topology::UrlKind;

/// What to do about a `COPY` that wants a client at the other end. The server would wait for rows, or
/// for somebody to take them, and no further statement gets through.
const COPY: &str = "nobody is here to send or to take the rows: write INSERT, or COPY with a file of the server or a PROGRAM, or load them with psql";

/// Refuses a statement of which these are the tokens; `escapes`: a backslash comes after it.
pub(super) fn check(
    tokens: &[TokenWithSpan],
    escapes: bool,
    number: usize,
    kind: UrlKind,
) -> Result<(), Uncut> {
    if kind == UrlKind::Postgres
        && let Some(end) = copies_with_client(tokens)
    {
        return Err(Uncut::Refused(format!(
            "with a COPY .. {end} (its statement {number}), and {COPY}"
        )));
    }
    // Without a backslash the text reads alike under both rules.
    if escapes && let Some((setting, instead)) = changes_quoting(tokens, kind) {
        return Err(Uncut::Refused(format!(
            "that changes how texts are quoted ({setting} in its statement {number}) and has a backslash after that: it is cut into statements by the database's default rules and would be cut in the wrong places; leave the setting out and {instead}"
        )));
    }
    Ok(())
}

/// Refuses a comment whose content MariaDB runs, and nobody else does. Those of version 999999 it does not run either:
/// dumps begin with one.
pub(super) fn check_comment(
    token: &TokenWithSpan,
    number: usize,
    kind: UrlKind,
) -> Result<(), Uncut> {
    match &token.token {
        Token::Whitespace(Whitespace::MultiLineComment(comment))
            if kind == UrlKind::Mysql
                && comment.starts_with("M!")
                && !comment.starts_with("M!999999") =>
        {
            Err(Uncut::Refused(format!(
                "with a comment /*M! .. */ (at its statement {number}), whose content MariaDB runs and MySQL does not: write what is in it without the comment, or as /*! .. */"
            )))
        }
        _ => Ok(()),
    }
}

/// Refuses a text that could not be read and could only be sent as a whole, if it may have such a `COPY`.
pub(super) fn check_unread(text: &str) -> Result<(), Uncut> {
    let mut words = text
        .split(|c: char| !(c.is_alphanumeric() || c == '_'))
        .map(str::to_ascii_uppercase);
    if words.any(|word| word == "COPY") && words.any(|word| word == "STDIN" || word == "STDOUT") {
        return Err(Uncut::Refused(format!(
            "that cannot be cut into statements and seems to have a COPY .. FROM STDIN or TO STDOUT, and {COPY}"
        )));
    }
    Ok(())
}

fn significant(tokens: &[TokenWithSpan]) -> impl Iterator<Item = &Token> {
    tokens
        .iter()
        .map(|token| &token.token)
        .filter(|token| !matches!(token, Token::Whitespace(_) | Token::EOF))
}

/// A word that is not quoted, in upper case.
fn word(token: &Token) -> Option<String> {
    match token {
        Token::Word(word) if word.quote_style.is_none() => Some(word.value.to_ascii_uppercase()),
        _ => None,
    }
}

/// `FROM STDIN` or `TO STDOUT` of a `COPY`, as it is written. What is in parentheses is a query, or
/// columns; only the first `FROM` or `TO` outside of them counts, since a `WHERE` may follow.
fn copies_with_client(tokens: &[TokenWithSpan]) -> Option<String> {
    // The tokenizer has taken what follows for rows, so it must not count as cut.
    if tokens
        .iter()
        .any(|token| matches!(token.token, Token::CopyData { .. }))
    {
        return Some("FROM STDIN".to_owned());
    }
    let mut tokens = significant(tokens);
    if word(tokens.next()?)? != "COPY" {
        return None;
    }
    let mut depth = 0_usize;
    while let Some(token) = tokens.next() {
        match token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            // A name behind a dot may be a reserved word.
            Token::Period => {
                tokens.next();
            }
            token if depth == 0 => {
                let Some(direction) = word(token).filter(|word| word == "FROM" || word == "TO")
                else {
                    continue;
                };
                // PostgreSQL takes either word in either direction.
                return tokens
                    .next()
                    .and_then(word)
                    .filter(|end| end == "STDIN" || end == "STDOUT")
                    .map(|end| format!("{direction} {end}"));
            }
            _ => {}
        }
    }
    None
}

/// Where a word is that the tokenizer has taken for the end of a `COPY .. FROM STDIN` and that is a column:
/// `COPY t FROM 'file' WHERE a IS DISTINCT FROM stdin`.
pub(super) fn column_taken_for_stdin(tokens: &[TokenWithSpan]) -> Option<Span> {
    let is_data = |one: &&TokenWithSpan| matches!(one.token, Token::CopyData { .. });
    let mut from = 0;
    for (at, _) in tokens.iter().enumerate().filter(|(_, one)| is_data(one)) {
        let before = &tokens[from..at];
        let is_end = |one: &TokenWithSpan| one.token == Token::SemiColon;
        let begin = before.iter().rposition(is_end).map_or(0, |end| end + 1);
        let statement = &before[begin..];
        if copies_with_client(statement).is_none() {
            let mut words = statement.iter().rev();
            return words
                .find(|one| word(&one.token).is_some_and(|word| word == "STDIN"))
                .map(|one| one.span);
        }
        // The `;` of a statement follows its rows.
        from = at + 1;
    }
    None
}

/// The setting with which a statement changes how texts are quoted, and what to write instead.
fn changes_quoting(
    tokens: &[TokenWithSpan],
    kind: UrlKind,
) -> Option<(&'static str, &'static str)> {
    let texts: Vec<String> = significant(tokens)
        .map(|token| token.to_string().to_ascii_uppercase())
        .collect();
    let sets = texts.first().is_some_and(|first| first == "SET");
    let has = |what: &str| texts.iter().any(|text| text.contains(what));
    match kind {
        UrlKind::Sqlite => None,
        // Whoever takes the mode out comes back to the default.
        UrlKind::Mysql => (sets
            && has("SQL_MODE")
            && has("NO_BACKSLASH_ESCAPES")
            && !texts.iter().any(|text| text == "REPLACE"))
        .then_some(("NO_BACKSLASH_ESCAPES", "write each backslash twice")),
        UrlKind::Postgres => {
            let at = texts
                .iter()
                .position(|text| text.contains("STANDARD_CONFORMING_STRINGS"))?;
            let value = texts[at + 1..]
                .iter()
                .find(|text| !matches!(text.as_str(), "TO" | "=" | ","))?;
            let is_default = matches!(
                value.trim_matches('\''),
                "ON" | "TRUE" | "YES" | "1" | "DEFAULT"
            );
            ((sets || has("SET_CONFIG")) && !is_default).then_some((
                "standard_conforming_strings",
                "write texts with a backslash escape as E'..'",
            ))
        }
    }
}
