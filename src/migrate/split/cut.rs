//! Where a statement ends: reads its tokens one after the other.

use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::{Statement, Uncut};
use crate::topology::UrlKind;

/// As many words as it takes to know a statement: `CREATE OR REPLACE DEFINER = ..`.
const WORDS: usize = 8;

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
pub(super) struct Cut {
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
    pub(super) fn new(kind: UrlKind) -> Self {
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

    pub(super) fn finish(&mut self, text: &str) -> Result<Option<Statement>, Uncut> {
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
    pub(super) fn ends_before(&mut self, token: &TokenWithSpan) -> bool {
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
