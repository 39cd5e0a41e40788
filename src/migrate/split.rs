//! Cuts the text of a migration into its statements.
//!
//! The text is taken apart by `sqlparser`'s tokenizer, which knows the strings, quoted names, dollar
//! quotes and comments of each dialect; its parser is not used, so any statement is welcome. A
//! statement ends at a `;` outside of parentheses (PostgreSQL's `CREATE RULE` has some inside) and
//! outside of a body: `BEGIN .. END` of a SQLite trigger, of a MySQL routine, of a PostgreSQL
//! function in `BEGIN ATOMIC`, and what MariaDB takes without a routine around it (`BEGIN NOT ATOMIC`,
//! `IF`, `LOOP` ..). So MySQL routines need no `DELIMITER`, which is a command of the `mysql` client and
//! unknown to servers.

mod refused;

use std::sync::Arc;

use sqlparser::dialect::{Dialect, MySqlDialect, PostgreSqlDialect, SQLiteDialect};
use sqlparser::tokenizer::{Location, Token, TokenWithSpan, Tokenizer, TokenizerError};

use crate::topology::UrlKind;

/// One statement, without the `;` at its end, and with the comments before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Statement {
    pub(super) text: Arc<str>,
    /// Its first words, in upper case.
    words: Vec<String>,
    /// Code that MariaDB takes without a routine around it.
    is_code: bool,
}

/// Why a text was not cut into its statements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Uncut {
    /// It cannot be read. The database may still take the whole.
    Unclear(String),
    /// It must not be sent, not even as a whole.
    Refused(String),
}

impl From<Uncut> for String {
    fn from(uncut: Uncut) -> Self {
        match uncut {
            Uncut::Unclear(problem) | Uncut::Refused(problem) => problem,
        }
    }
}

/// As many words as it takes to know a statement: `CREATE OR REPLACE DEFINER = ..`.
const WORDS: usize = 8;

impl Statement {
    /// Whether the statement may stand in a transaction that was begun for it.
    pub(super) fn fits_a_transaction(&self, kind: UrlKind) -> bool {
        let first = self.word(0);
        match kind {
            UrlKind::Mysql => is_mysql_data(first),
            UrlKind::Postgres | UrlKind::Sqlite => !self.is_transaction_control(kind),
        }
    }

    /// Whether the statement makes a table.
    pub(super) fn creates_table(&self) -> bool {
        let mut words = self.words.iter().map(String::as_str);
        words.next() == Some("CREATE") && words.take(3).any(|word| word == "TABLE")
    }

    /// Whether the statement begins or ends a transaction.
    pub(super) fn is_transaction_control(&self, kind: UrlKind) -> bool {
        match self.word(0) {
            "BEGIN" => !self.is_code,
            "COMMIT" | "ABORT" => true,
            "END" => kind != UrlKind::Mysql,
            "START" => self.word(1) == "TRANSACTION",
            "PREPARE" => self.word(1) == "TRANSACTION",
            "ROLLBACK" => !self.words.iter().any(|word| word == "TO"),
            _ => false,
        }
    }

    /// Whether the statement, sent outside of a transaction, may have had an effect although it failed.
    pub(super) fn may_fail_half_way(&self, kind: UrlKind) -> bool {
        let first = self.word(0);
        let by_kind = match kind {
            UrlKind::Sqlite => false,
            // Code that commits; an index that was built concurrently and failed stays behind, invalid.
            UrlKind::Postgres => {
                matches!(first, "CALL" | "DO")
                    || self.text.to_ascii_uppercase().contains("CONCURRENTLY")
            }
            // Of several tables, the first ones may be gone; code may commit; files are read in parts.
            UrlKind::Mysql => self.is_code || matches!(first, "CALL" | "DROP" | "LOAD" | "RENAME"),
        };
        by_kind || self.is_transaction_control(kind)
    }

    fn word(&self, at: usize) -> &str {
        self.words.get(at).map_or("", String::as_str)
    }
}

/// What only changes rows; everything else on MySQL may commit implicitly (MySQL's manual,
/// "Statements That Cause an Implicit Commit").
fn is_mysql_data(first: &str) -> bool {
    matches!(
        first,
        "INSERT" | "UPDATE" | "DELETE" | "REPLACE" | "SELECT" | "WITH" | "VALUES" | "DO"
    )
}

fn dialect(kind: UrlKind) -> &'static dyn Dialect {
    match kind {
        UrlKind::Sqlite => &SQLiteDialect {},
        UrlKind::Postgres => &PostgreSqlDialect {},
        UrlKind::Mysql => &MySqlDialect {},
    }
}

/// The tokens of a text, with blanks and comments; up to where it cannot be read any more.
fn tokens(text: &str, kind: UrlKind) -> (Vec<TokenWithSpan>, Result<(), TokenizerError>) {
    let mut tokens = Vec::new();
    let read = Tokenizer::new(dialect(kind), text)
        .with_unescape(false)
        .tokenize_with_location_into_buf(&mut tokens);
    (tokens, read)
}

/// Cuts a text into its statements. What is only comments is left out.
///
/// # Errors
///
/// What cannot be read, or must not be sent.
pub(super) fn split(text: &str, kind: UrlKind) -> Result<Vec<Statement>, Uncut> {
    let text = text.trim_start_matches('\u{feff}');
    let (tokens, read) = tokens(text, kind);
    let mut places = Places::new(text);
    let mut statements = Vec::new();
    let mut cut = Cut::new(kind);
    let (mut start, mut first) = (0, 0);
    for (at, token) in tokens.iter().enumerate() {
        if cut.ends_before(token) {
            let end = places.offset(token.span.start);
            let found = cut.finish(&text[start..end])?;
            if found.is_some() {
                let number = statements.len() + 1;
                refused::check(&tokens[first..at], &text[end..], number, kind)?;
            }
            statements.extend(found);
            (start, first) = (end + 1, at + 1);
        }
    }
    if let Err(error) = read {
        // Behind what cannot be read there may be anything.
        refused::check_unread(text)?;
        return Err(Uncut::Unclear(format!(
            "that cannot be cut into statements: {error}"
        )));
    }
    refused::check(&tokens[first..], "", statements.len() + 1, kind)?;
    statements.extend(cut.finish(&text[start..])?);
    Ok(statements)
}

/// Turns the tokenizer's lines and columns, which count characters, into offsets.
struct Places<'t> {
    rest: std::str::CharIndices<'t>,
    at: usize,
    line: u64,
    column: u64,
}

impl<'t> Places<'t> {
    fn new(text: &'t str) -> Self {
        Self {
            rest: text.char_indices(),
            at: 0,
            line: 1,
            column: 1,
        }
    }

    /// The offset of a place; places are asked for in their order.
    fn offset(&mut self, place: Location) -> usize {
        while (self.line, self.column) < (place.line, place.column) {
            let Some((at, c)) = self.rest.next() else {
                break;
            };
            self.at = at + c.len_utf8();
            if c == '\n' {
                self.line += 1;
                self.column = 1;
            } else {
                self.column += 1;
            }
        }
        self.at
    }
}

/// What must be closed before a `;` counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Open {
    Parenthesis,
    /// `BEGIN`, closed by an `END` that begins a statement of the body.
    Block,
    /// `CASE` in an expression, closed by `END`.
    Case,
    /// MySQL's `IF`, `LOOP`, `WHILE`, `REPEAT`, `FOR` and the statement `CASE`, closed by `END IF` and so on.
    Flow,
}

/// The statement that is being read.
struct Cut {
    kind: UrlKind,
    words: Vec<String>,
    open: Vec<Open>,
    /// The statement may have a body.
    has_body: bool,
    /// It is one, without a routine around it.
    is_code: bool,
    /// The last significant token: a word in upper case, or a sign.
    previous: String,
    /// An `END` in a flow waits for what follows it.
    ended: bool,
    /// What a `HANDLER` is for is being told; the statement that it runs follows.
    handler: bool,
    /// So many tokens ago there was a `FOR` where a statement can begin.
    since_for: Option<u8>,
    is_empty: bool,
}

impl Cut {
    fn new(kind: UrlKind) -> Self {
        Self {
            kind,
            words: Vec::new(),
            open: Vec::new(),
            has_body: false,
            is_code: false,
            previous: String::new(),
            ended: false,
            handler: false,
            since_for: None,
            is_empty: true,
        }
    }

    fn finish(&mut self, text: &str) -> Result<Option<Statement>, Uncut> {
        let cut = std::mem::replace(self, Self::new(self.kind));
        if cut.kind == UrlKind::Mysql && cut.words.first().is_some_and(|word| word == "DELIMITER") {
            return Err(Uncut::Unclear(
                "with a DELIMITER line, which is a command of the mysql client and unknown to servers: leave it out, bodies are recognised without it"
                    .to_owned(),
            ));
        }
        Ok((!cut.is_empty).then(|| Statement {
            text: text.trim().into(),
            words: cut.words,
            is_code: cut.is_code,
        }))
    }

    /// Takes a token in; whether it is the `;` that ends the statement.
    fn ends_before(&mut self, token: &TokenWithSpan) -> bool {
        let (mut text, word) = match &token.token {
            Token::Whitespace(_) | Token::EOF => return false,
            Token::SemiColon => (";".to_owned(), false),
            Token::Word(word) if word.quote_style.is_none() => {
                (word.value.to_ascii_uppercase(), true)
            }
            Token::Word(_) => ("name".to_owned(), false),
            Token::SingleQuotedString(_) | Token::DoubleQuotedString(_) => ("'".to_owned(), false),
            other => (other.to_string(), false),
        };
        if text == ";" && self.open.is_empty() {
            return true;
        }
        self.is_empty = false;
        if self.words.len() < WORDS && word {
            self.words.push(text.clone());
        }
        self.since_for = self.since_for.and_then(|count| count.checked_add(1));
        match text.as_str() {
            "(" => self.open.push(Open::Parenthesis),
            ")" => self.close(Open::Parenthesis),
            // The statement `DO`, after which no other one begins, as after that of a loop.
            "DO" if word && self.at_statement() => text.push_str(" .."),
            // `NEW.end` is a column.
            _ if word && self.previous != "." => self.keyword(&text),
            _ => self.ended = false,
        }
        self.previous = text;
        false
    }

    fn close(&mut self, what: Open) {
        self.ended = false;
        if self.open.last() == Some(&what) {
            self.open.pop();
        }
    }

    fn keyword(&mut self, word: &str) {
        let after_end = std::mem::take(&mut self.ended);
        if !self.has_body {
            self.is_code = self.begins_code(word);
            self.has_body = self.is_code || self.begins_body(word);
            if !self.has_body {
                return;
            }
        }
        let handles = self.handler && self.ends_conditions();
        self.handler = (self.handler || word == "HANDLER") && !handles;
        match word {
            "BEGIN" if handles => self.open.push(Open::Block),
            // Of MariaDB's `BEGIN NOT ATOMIC`: until here it could have begun a transaction.
            "NOT" if self.is_code && self.open.is_empty() && self.previous == "BEGIN" => {
                self.open.push(Open::Block);
            }
            "BEGIN" if self.kind != UrlKind::Postgres && self.may_begin_block() => {
                self.open.push(Open::Block);
            }
            "ATOMIC" if self.previous == "BEGIN" => self.open.push(Open::Block),
            "IF" | "LOOP" | "WHILE" | "REPEAT" | "FOR" | "CASE" if after_end => {
                self.close(Open::Flow);
            }
            "IF" | "LOOP" | "WHILE" | "REPEAT" | "CASE"
                if self.kind == UrlKind::Mysql && (handles || self.at_statement()) =>
            {
                self.open.push(Open::Flow);
            }
            "CASE" if self.kind == UrlKind::Mysql || !self.open.is_empty() => {
                self.open.push(Open::Case);
            }
            // `FOR i IN` is a loop; `FOR EACH ROW` and `FOR UPDATE` are none.
            "FOR" if self.kind == UrlKind::Mysql && self.at_statement() => {
                self.since_for = Some(0);
            }
            "IN" if self.since_for == Some(2) => self.open.push(Open::Flow),
            "END" => match self.open.last() {
                Some(Open::Case) => {
                    self.open.pop();
                }
                Some(Open::Block) if matches!(self.previous.as_str(), ";" | "BEGIN" | "ATOMIC") => {
                    self.open.pop();
                }
                Some(Open::Flow) => self.ended = true,
                _ => {}
            },
            _ => {}
        }
    }

    /// Whether this word makes the statement one of those that MariaDB takes without a routine around
    /// them, with a label or without.
    fn begins_code(&self, word: &str) -> bool {
        if self.kind != UrlKind::Mysql {
            return false;
        }
        let begins = self.words.len() == 1 || (self.words.len() == 2 && self.previous == ":");
        match word {
            "IF" | "LOOP" | "WHILE" | "REPEAT" | "FOR" | "CASE" => begins,
            "NOT" => self.previous == "BEGIN" && self.words.len() <= 3,
            _ => false,
        }
    }

    /// Whether this word makes the statement one with a body.
    fn begins_body(&self, word: &str) -> bool {
        if self.words.first().is_none_or(|first| first != "CREATE") {
            return false;
        }
        match self.kind {
            UrlKind::Sqlite => word == "TRIGGER" && self.words.len() <= 3,
            UrlKind::Postgres => matches!(word, "FUNCTION" | "PROCEDURE") && self.words.len() <= 4,
            // `CREATE DEFINER = a@b EVENT`: names and signs stand between.
            UrlKind::Mysql => matches!(word, "TRIGGER" | "FUNCTION" | "PROCEDURE" | "EVENT"),
        }
    }

    /// A block begins in place of a statement, or is the whole body.
    fn may_begin_block(&self) -> bool {
        self.open.is_empty() || self.at_statement()
    }

    /// Whether a word that comes now is not one of a handler's conditions any more.
    fn ends_conditions(&self) -> bool {
        !matches!(
            self.previous.as_str(),
            "HANDLER" | "FOR" | "," | "NOT" | "SQLSTATE" | "VALUE"
        )
    }

    /// Whether a statement of the body can begin here.
    fn at_statement(&self) -> bool {
        match self.previous.as_str() {
            "" => true,
            ";" | "BEGIN" | "ATOMIC" | "THEN" | "ELSE" | "DO" | "LOOP" | "REPEAT" | ":" => {
                // `CASE WHEN a THEN IF(b, 1, 2) ELSE ..` has expressions there.
                !matches!(self.open.last(), Some(Open::Case | Open::Parenthesis))
            }
            // Where the head of a routine or trigger ends.
            ")" | "ROW" | "DETERMINISTIC" | "SQL" | "DATA" | "INVOKER" | "DEFINER" | "'" => {
                self.open.is_empty()
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests;
