//! The tokens of a text, with the bytes each was made of, and which of them bear a sharded name.

mod agreement;

use std::collections::HashSet;
use std::ops::Range;

use sqlparser::ast::Ident;
use sqlparser::dialect::{
    Dialect as ParserDialect, MySqlDialect, PostgreSqlDialect, SQLiteDialect,
};
use sqlparser::tokenizer::{Location, Span, Token, TokenWithSpan, Tokenizer};

use super::super::{Dialect, TableSet};
use super::Refusal;
use super::lexical::{self, Kind, Piece};

/// The tokens of a text.
///
/// Their spans are rewritten: the column of a token is its position in the list plus one. A parser
/// hands spans on, so each name in a syntax tree says which token it was.
pub(super) struct Tokens<'t> {
    pub(super) text: &'t str,
    pub(super) list: Vec<TokenWithSpan>,
    ranges: Vec<Range<usize>>,
    /// Tokens that are a name (or a text that may stand for one) of the set.
    named: HashSet<usize>,
    /// The words and names as the server sees them.
    words: Vec<Piece>,
}

pub(super) fn parser_dialect(dialect: Dialect) -> &'static dyn ParserDialect {
    match dialect {
        Dialect::Sqlite => &SQLiteDialect {},
        Dialect::Postgres => &PostgreSqlDialect {},
        Dialect::Mysql => &MySqlDialect {},
    }
}

impl<'t> Tokens<'t> {
    pub(super) fn read(set: &TableSet, text: &'t str) -> Result<Self, Refusal> {
        if set.dialect == Dialect::Mysql && (text.contains("/*!") || text.contains("/*M!")) {
            // Which servers run what is in it depends on their version.
            return Err(Refusal::because("it has an executable comment (/*! .. */)"));
        }
        if set.dialect == Dialect::Mysql && has_doubtful_dashes(text) {
            return Err(Refusal::because(
                "it has two dashes before a character that makes a comment of them to the server alone, or to the parser alone",
            ));
        }
        let pieces = lexical::pieces(set.dialect, text);
        if lexical::depends_on_charset(set.dialect, text, &pieces) {
            return Err(Refusal::because(
                "it has a backslash or a ` right behind a character beyond ASCII, or such a character in a name without quotes, and what the server sees there depends on the character set of the client: use a bind, write '' for \\', quote the name",
            ));
        }
        let plain = lexical::without_comments(text, &pieces);
        let list = Tokenizer::new(parser_dialect(set.dialect), &plain)
            .tokenize_with_location()
            .map_err(|error| Refusal::because(format!("it cannot be cut into tokens ({error})")))?;
        let mut tokens = Self {
            text,
            ranges: Vec::with_capacity(list.len()),
            list,
            named: HashSet::new(),
            words: Vec::new(),
        };
        tokens.locate()?;
        tokens.find_names(set)?;
        tokens.compare(set, &pieces)?;
        tokens.words = pieces;
        tokens
            .words
            .retain(|piece| matches!(piece.kind, Kind::Quoted | Kind::Word));
        Ok(tokens)
    }

    /// Turns lines and columns into bytes, and spans into positions.
    fn locate(&mut self) -> Result<(), Refusal> {
        let mut chars = self.text.char_indices().peekable();
        let (mut line, mut column) = (1, 1);
        let mut byte_of = |wanted: Location| {
            while (line, column) < (wanted.line, wanted.column) {
                let (_, c) = chars.next()?;
                (line, column) = match c {
                    '\n' => (line + 1, 1),
                    _ => (line, column + 1),
                };
            }
            let here = chars.peek().map_or(self.text.len(), |(at, _)| *at);
            ((line, column) == (wanted.line, wanted.column)).then_some(here)
        };
        let mut end = 0;
        for (position, token) in self.list.iter_mut().enumerate() {
            let start = byte_of(token.span.start);
            let range = start.zip(byte_of(token.span.end));
            let Some((start, stop)) = range.filter(|(start, _)| *start >= end) else {
                return Err(Refusal::because("it carries the data of a COPY"));
            };
            end = stop;
            self.ranges.push(start..stop);
            let at = Location {
                line: 1,
                column: position as u64 + 1,
            };
            token.span = Span { start: at, end: at };
        }
        Ok(())
    }

    fn find_names(&mut self, set: &TableSet) -> Result<(), Refusal> {
        for position in 0..self.list.len() {
            match &self.list[position].token {
                Token::Word(word) => {
                    let quoted = word.quote_style.is_some();
                    if set.is_name(&set.dialect.fold(&word.value, quoted)) {
                        self.named.insert(position);
                    }
                    if set.dialect == Dialect::Postgres
                        && word.value.eq_ignore_ascii_case("u")
                        && !quoted
                        && self.text[self.ranges[position].end..].starts_with("&\"")
                    {
                        return Err(Refusal::because(
                            "it has a name with unicode escapes (U&\"..\")",
                        ));
                    }
                }
                Token::SingleQuotedString(text)
                    if set.dialect == Dialect::Sqlite && set.is_name(text) =>
                {
                    if self.is_period(self.after(position)) {
                        return Err(Refusal::because(format!(
                            "'{text}' qualifies a column: write it in double quotes, or none"
                        )));
                    }
                    self.named.insert(position);
                }
                Token::DoubleQuotedString(text)
                    if set.dialect == Dialect::Mysql && set.is_name(text) =>
                {
                    self.named.insert(position);
                }
                _ => {}
            }
        }
        self.refuse_hidden_code(set)
    }

    /// Text inside a literal that a server runs as code, be it in one piece or in several.
    fn refuse_hidden_code(&self, set: &TableSet) -> Result<(), Refusal> {
        let mut runs = set.dialect == Dialect::Mysql && self.executes_texts();
        let mut first_words: Vec<&str> = Vec::new();
        let mut joined = String::new();
        for token in &self.list {
            match &token.token {
                Token::SemiColon => {
                    first_words.clear();
                    joined.clear();
                }
                Token::Word(word) if word.quote_style.is_none() && first_words.len() < 6 => {
                    first_words.push(&word.value);
                    runs |= runs_texts(set.dialect, &first_words);
                }
                token => {
                    let Some(text) =
                        text_of(token).filter(|_| runs || runs_texts(set.dialect, &first_words))
                    else {
                        continue;
                    };
                    joined += text;
                    if names_table(set, text) || names_table(set, &joined) {
                        return Err(Refusal::because(
                            "a text that the server runs as code names a sharded table",
                        ));
                    }
                }
            }
        }
        Ok(())
    }

    /// Whether MySQL's `EXECUTE IMMEDIATE` or `PREPARE` is anywhere in it.
    fn executes_texts(&self) -> bool {
        self.list.iter().any(|token| match &token.token {
            Token::Word(word) => {
                word.quote_style.is_none()
                    && ["execute", "prepare"]
                        .iter()
                        .any(|word_of| word.value.eq_ignore_ascii_case(word_of))
            }
            _ => false,
        })
    }

    pub(super) fn has_names(&self) -> bool {
        !self.named.is_empty()
    }

    /// The tokens that bear a sharded name, in no order.
    pub(super) fn named(&self) -> impl Iterator<Item = usize> {
        self.named.iter().copied()
    }

    pub(super) fn is_named(&self, position: usize) -> bool {
        self.named.contains(&position)
    }

    pub(super) fn range(&self, position: usize) -> Range<usize> {
        self.ranges[position].clone()
    }

    /// The quote that a name is written in.
    pub(super) fn quote(&self, position: usize) -> Option<char> {
        match &self.list[position].token {
            Token::Word(word) => word.quote_style,
            Token::SingleQuotedString(_) => Some('\''),
            Token::DoubleQuotedString(_) => Some('"'),
            _ => None,
        }
    }

    /// The token before a position that is neither blank nor a comment.
    pub(super) fn before(&self, position: usize) -> Option<usize> {
        (0..position).rev().find(|at| !self.is_blank(*at))
    }

    /// The token after a position that is neither blank nor a comment.
    pub(super) fn after(&self, position: usize) -> Option<usize> {
        (position + 1..self.list.len()).find(|at| !self.is_blank(*at))
    }

    /// The first token that is neither blank nor a comment.
    pub(super) fn after_start(&self) -> Option<usize> {
        (0..self.list.len()).find(|at| !self.is_blank(*at))
    }

    fn is_blank(&self, position: usize) -> bool {
        matches!(self.list[position].token, Token::Whitespace(_))
    }

    /// Whether every server takes a token for a word of the language, and never for a name.
    pub(super) fn is_reserved(&self, position: usize) -> bool {
        use sqlparser::keywords::Keyword as K;
        const RESERVED: [K; 9] = [
            K::FROM,
            K::SELECT,
            K::WHERE,
            K::INTO,
            K::TABLE,
            K::GROUP,
            K::HAVING,
            K::ORDER,
            K::UNION,
        ];
        self.list.get(position).is_some() && self.is_one_of(position, &RESERVED)
    }

    fn is_one_of(&self, position: usize, words: &[sqlparser::keywords::Keyword]) -> bool {
        match &self.list[position].token {
            Token::Word(word) => word.quote_style.is_none() && words.contains(&word.keyword),
            _ => false,
        }
    }

    /// The tokens for the parser: without words that it does not know and that name nothing. The others keep their
    /// positions.
    pub(super) fn for_parser(&self, dialect: Dialect) -> Vec<TokenWithSpan> {
        let words: Vec<(usize, &str)> = (0..self.list.len())
            .filter_map(|at| match &self.list[at].token {
                Token::Whitespace(_) => None,
                Token::Word(word) if word.quote_style.is_none() => Some((at, word.value.as_str())),
                _ => Some((at, "")),
            })
            .collect();
        let mut dropped = HashSet::new();
        for (first, _) in words.iter().enumerate() {
            for (before, unknown, after) in unknown_words(dialect) {
                let phrase = before.iter().chain(*unknown).chain(*after);
                let found = words.get(first..).unwrap_or_default().iter();
                let matches = found
                    .zip(phrase.clone())
                    .filter(|((_, word), wanted)| word.eq_ignore_ascii_case(wanted))
                    .count();
                if matches == phrase.count() {
                    let from = first + before.len();
                    let unknown = &words[from..from + unknown.len()];
                    dropped.extend(unknown.iter().map(|(at, _)| *at));
                }
            }
        }
        let kept = self.list.iter().enumerate();
        kept.filter(|(at, _)| !dropped.contains(at))
            .map(|(_, token)| token.clone())
            .collect()
    }

    pub(super) fn is_period(&self, position: Option<usize>) -> bool {
        position.is_some_and(|at| self.list[at].token == Token::Period)
    }

    /// The position of a bind, from 0, of the token that stands for it.
    pub(super) fn bind(&self, position: usize) -> Option<usize> {
        let Token::Placeholder(own) = &self.list[position].token else {
            return None;
        };
        if own != "?" {
            let number: usize = own.strip_prefix(['?', '$'])?.parse().ok()?;
            return number.checked_sub(1);
        }
        let mut before = 0;
        for token in &self.list[..position] {
            if let Token::Placeholder(other) = &token.token {
                if other != "?" {
                    // Numbered ones move those without a number.
                    return None;
                }
                before += 1;
            }
        }
        Some(before)
    }
}

/// The position of the token that a name was made of.
pub(super) fn position(ident: &Ident) -> Option<usize> {
    position_of(ident.span)
}

pub(super) fn position_of(span: Span) -> Option<usize> {
    usize::try_from(span.start.column).ok()?.checked_sub(1)
}

/// Whether a token that no part of the syntax tree was made of may be a name all the same: not a
/// literal, and not a word that every server reserves.
pub(super) fn may_be_name(token: &Token) -> bool {
    use sqlparser::keywords::{RESERVED_FOR_COLUMN_ALIAS, RESERVED_FOR_TABLE_ALIAS};
    match token {
        Token::Word(word) => {
            word.quote_style.is_some()
                || !(RESERVED_FOR_TABLE_ALIAS.contains(&word.keyword)
                    || RESERVED_FOR_COLUMN_ALIAS.contains(&word.keyword))
        }
        _ => false,
    }
}

/// Words between others that change how rows are locked, compared or reported, and that the parser does not know.
type UnknownWords = (
    &'static [&'static str],
    &'static [&'static str],
    &'static [&'static str],
);

fn unknown_words(dialect: Dialect) -> &'static [UnknownWords] {
    match dialect {
        Dialect::Sqlite => &[],
        Dialect::Postgres => &[
            (&["for"], &["no", "key"], &["update"]),
            (&["for"], &["key"], &["share"]),
            (&["between"], &["symmetric"], &[]),
        ],
        Dialect::Mysql => &[
            (&["update"], &["low_priority"], &[]),
            (&["update"], &["ignore"], &[]),
            (&["update"], &["low_priority", "ignore"], &[]),
            (&["delete"], &["low_priority"], &[]),
            (&["delete"], &["quick"], &[]),
            (&["delete"], &["ignore"], &[]),
            (&["delete"], &["low_priority", "quick"], &[]),
            (&["delete"], &["low_priority", "ignore"], &[]),
            (&["delete"], &["quick", "ignore"], &[]),
            (&["delete"], &["low_priority", "quick", "ignore"], &[]),
            (&[], &["lock", "in", "share", "mode"], &[]),
        ],
    }
}

/// Whether two dashes in a text of MySQL's stand before a character about which server and parser differ: to the server,
/// a control character begins a comment as a blank does, and a blank of Unicode's does not.
fn has_doubtful_dashes(text: &str) -> bool {
    text.match_indices("--").any(|(at, dashes)| {
        let next = text[at + dashes.len()..].chars().next();
        next.is_some_and(|next| {
            !matches!(next, ' ' | '\t' | '\n' | '\r') && (next.is_control() || next.is_whitespace())
        })
    })
}

/// The content of a text in whatever quotes.
fn text_of(token: &Token) -> Option<&str> {
    match token {
        Token::SingleQuotedString(text)
        | Token::DoubleQuotedString(text)
        | Token::EscapedStringLiteral(text)
        | Token::UnicodeStringLiteral(text)
        | Token::SingleQuotedByteStringLiteral(text)
        | Token::DoubleQuotedByteStringLiteral(text) => Some(text),
        Token::NationalStringLiteral(text) => Some(text.as_ref()),
        Token::DollarQuotedString(text) => Some(&text.value),
        _ => None,
    }
}

/// Whether a word of a code is the name of a sharded table; longer names are others.
fn names_table(set: &TableSet, code: &str) -> bool {
    set.occurs_in(code)
        && code
            .split(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '$')))
            .any(|word| {
                set.is_name(word)
                    || set.is_name(&set.dialect.fold(word, false))
                    || (!word.is_ascii() && set.occurs_in(word))
            })
}

/// Whether a statement with these first words has the server run a text of its own as code.
fn runs_texts(dialect: Dialect, first_words: &[&str]) -> bool {
    let is = |at: usize, word: &str| {
        first_words
            .get(at)
            .is_some_and(|found| found.eq_ignore_ascii_case(word))
    };
    let any = |words: &[&str]| {
        first_words
            .iter()
            .any(|found| words.iter().any(|word| found.eq_ignore_ascii_case(word)))
    };
    // MySQL's DO works out expressions. A PRAGMA takes a name in quotes for a name.
    (is(0, "do") && dialect != Dialect::Mysql)
        || (is(0, "pragma") && dialect == Dialect::Sqlite)
        || (is(0, "create") || is(0, "alter"))
            && any(&["function", "procedure", "trigger", "event", "routine"])
}

#[cfg(test)]
mod tests {
    use super::super::super::Dialect;
    use super::super::samples::set;
    use super::Tokens;

    #[test]
    fn every_token_knows_its_bytes() {
        let text = "SELECT 'ä\n€', \"o\"\"x\" , orders.é FROM\r\n orders -- ünd\n WHERE a = '\u{1F600}' AND orders.b=1";
        let set = set(Dialect::Postgres);
        let tokens = Tokens::read(&set, text).expect("readable");
        let mut joined = String::new();
        for position in 0..tokens.list.len() {
            joined.push_str(&text[tokens.range(position)]);
        }
        assert_eq!(joined, text);
        let mut named: Vec<_> = tokens.named().map(|at| &text[tokens.range(at)]).collect();
        named.sort_unstable();
        assert_eq!(named, ["orders"; 3]);
    }

    #[test]
    fn binds_are_counted_as_the_server_counts_them() {
        let set = set(Dialect::Sqlite);
        let bind = |text: &str, nth: usize| {
            let tokens = Tokens::read(&set, text).expect("readable");
            let places: Vec<usize> = (0..tokens.list.len())
                .filter(|at| {
                    matches!(
                        tokens.list[*at].token,
                        sqlparser::tokenizer::Token::Placeholder(_)
                    )
                })
                .collect();
            tokens.bind(places[nth])
        };
        assert_eq!(bind("SELECT '?', ?, ? FROM orders -- ?", 1), Some(1));
        assert_eq!(bind("SELECT ?3 FROM orders", 0), Some(2));
        assert_eq!(bind("SELECT ?3, ? FROM orders", 1), None);
        assert_eq!(bind("SELECT $2 FROM orders", 0), Some(1));
    }
}
