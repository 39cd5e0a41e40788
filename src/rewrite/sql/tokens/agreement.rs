//! What the tokenizer says against the lexical rules of the server.

use sqlparser::tokenizer::Token;

use super::super::super::{Parts, TableSet};
use super::super::Refusal;
use super::super::lexical::{Kind, Piece};
use super::Tokens;

impl Tokens<'_> {
    /// Refuses a text that the server cuts into other pieces than the tokenizer has: a table that is named in the
    /// difference is a literal to one of them.
    pub(super) fn compare(&self, set: &TableSet, pieces: &[Piece]) -> Result<(), Refusal> {
        let pieces = || pieces.iter().filter(|piece| piece.kind != Kind::Comment);
        let closed = pieces()
            .filter(|piece| piece.kind != Kind::Word)
            .map(|piece| (piece.kind, piece.bytes.clone()));
        let named = pieces()
            .filter(|piece| piece.kind != Kind::Literal && self.is_name(set, piece))
            .map(|piece| piece.bytes.start);
        let own_closed = self
            .list
            .iter()
            .zip(&self.ranges)
            .filter_map(|(token, bytes)| {
                let kind = match &token.token {
                    Token::Word(word) => word.quote_style.map(|_| Kind::Quoted),
                    token => is_literal(token).then_some(Kind::Literal),
                }?;
                // Before it may be a letter that says what kind of literal it is.
                let prefix = self.text[bytes.clone()].find(['\'', '"', '$', '`', '['])?;
                Some((kind, bytes.start + prefix..bytes.end))
            });
        let mut own_named: Vec<usize> = self
            .named()
            .filter(|at| matches!(self.list[*at].token, Token::Word(_)))
            .map(|at| self.ranges[at].start)
            .collect();
        own_named.sort_unstable();
        if closed.eq(own_closed) && named.eq(own_named) {
            return Ok(());
        }
        Err(Refusal::because(
            "where its literals and names end is not read as the server reads it",
        ))
    }

    fn is_name(&self, set: &TableSet, piece: &Piece) -> bool {
        set.is_name(&self.folded(set, piece))
    }

    /// A name or word as the server compares it.
    fn folded(&self, set: &TableSet, piece: &Piece) -> String {
        let written = &self.text[piece.bytes.clone()];
        if piece.kind == Kind::Word {
            return set.dialect.fold(written, false).into_owned();
        }
        let mut inside = written.chars();
        let quote = inside.next();
        inside.next_back();
        let inside = match quote {
            Some(quote @ ('"' | '`')) => {
                let quote = quote.to_string();
                inside.as_str().replace(&quote.repeat(2), &quote)
            }
            _ => inside.as_str().to_owned(),
        };
        set.dialect.fold(&inside, true).into_owned()
    }

    /// The words and names in it, folded, that may be physical names of these tables.
    pub(in super::super) fn beside(&self, set: &TableSet, tables: &[usize]) -> Vec<Box<str>> {
        let mut beside: Vec<Box<str>> = Vec::new();
        for piece in &self.words {
            let word = self.folded(set, piece);
            let may_be_part = tables.iter().any(|at| match &set.tables()[*at].parts {
                Parts::Numbered(names) => names.iter().any(|name| {
                    name.eq_ignore_ascii_case(&word)
                        || (!name.is_ascii() && set.dialect.fold(name, true) == word.as_str())
                }),
                Parts::ByRule { .. } => !set.is_name(&word),
            });
            if may_be_part && !beside.contains(&word.as_str().into()) {
                beside.push(word.into());
            }
        }
        beside
    }
}

fn is_literal(token: &Token) -> bool {
    matches!(
        token,
        Token::SingleQuotedString(_)
            | Token::DoubleQuotedString(_)
            | Token::TripleSingleQuotedString(_)
            | Token::TripleDoubleQuotedString(_)
            | Token::DollarQuotedString(_)
            | Token::SingleQuotedByteStringLiteral(_)
            | Token::DoubleQuotedByteStringLiteral(_)
            | Token::TripleSingleQuotedByteStringLiteral(_)
            | Token::TripleDoubleQuotedByteStringLiteral(_)
            | Token::SingleQuotedRawStringLiteral(_)
            | Token::DoubleQuotedRawStringLiteral(_)
            | Token::TripleSingleQuotedRawStringLiteral(_)
            | Token::TripleDoubleQuotedRawStringLiteral(_)
            | Token::NationalStringLiteral(_)
            | Token::EscapedStringLiteral(_)
            | Token::UnicodeStringLiteral(_)
            | Token::HexStringLiteral(_)
    )
}
