//! Cuts the text of a migration into its statements.
//!
//! The text is taken apart by `sqlparser`'s tokenizer, which knows the strings, quoted names, dollar
//! quotes and comments of each dialect; its parser is not used, so any statement is welcome. A
//! statement ends at a `;` outside of parentheses (PostgreSQL's `CREATE RULE` has some inside) and
//! outside of a body: `BEGIN .. END` of a SQLite trigger, of a MySQL routine, of a PostgreSQL
//! function in `BEGIN ATOMIC`, and what MariaDB takes without a routine around it (`BEGIN NOT ATOMIC`,
//! `IF`, `LOOP` ..). So MySQL routines need no `DELIMITER`, which is a command of the `mysql` client and
//! unknown to servers.

mod cut;
mod refused;

use std::fmt::Write as _;
use std::sync::Arc;

use sqlparser::dialect::{Dialect, MySqlDialect, PostgreSqlDialect, SQLiteDialect};
use sqlparser::tokenizer::{Location, Token, TokenWithSpan, Tokenizer, TokenizerError, Whitespace};

use self::cut::Cut;
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

/// What a statement does to a transaction that is begun by hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    None,
    Begins,
    Commits,
    /// Ends it in another way, and nothing of it stays now.
    Ends,
    /// Commits it before it begins itself, as MySQL does before a change of the schema.
    CommitsUnasked,
}

/// The place of the statement that begins the transaction in which the statement at `at` finds itself, by
/// what the statements say.
pub(super) fn block_at(statements: &[Statement], at: usize, kind: UrlKind) -> Option<usize> {
    let before = statements.iter().enumerate().take(at);
    before.fold(None, |open, (at, statement)| {
        after(open, at, statement.effect(kind), kind)
    })
}

/// The place of the statement that began the transaction that is open after the statement at `at`.
pub(super) fn after(
    open: Option<usize>,
    at: usize,
    effect: Effect,
    kind: UrlKind,
) -> Option<usize> {
    match effect {
        Effect::None => open,
        // MySQL commits the one that is open; PostgreSQL stays in it.
        Effect::Begins if kind == UrlKind::Mysql => Some(at),
        Effect::Begins => open.or(Some(at)),
        Effect::Commits | Effect::Ends | Effect::CommitsUnasked => None,
    }
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
        matches!(
            self.effect(kind),
            Effect::Begins | Effect::Commits | Effect::Ends
        )
    }

    /// What the statement does to a transaction that is begun by hand.
    pub(super) fn effect(&self, kind: UrlKind) -> Effect {
        match self.word(0) {
            "BEGIN" if !self.is_code => Effect::Begins,
            "START" if self.word(1) == "TRANSACTION" => Effect::Begins,
            "COMMIT" => Effect::Commits,
            "END" if kind != UrlKind::Mysql => Effect::Commits,
            "ABORT" => Effect::Ends,
            "PREPARE" if self.word(1) == "TRANSACTION" => Effect::Ends,
            "ROLLBACK" if !self.words.iter().any(|word| word == "TO") => Effect::Ends,
            _ if kind == UrlKind::Mysql && self.commits_unasked() => Effect::CommitsUnasked,
            _ => Effect::None,
        }
    }

    /// Whether MySQL commits before this statement whatever is open (its manual, "Statements That Cause
    /// an Implicit Commit").
    fn commits_unasked(&self) -> bool {
        match self.word(0) {
            "CREATE" | "DROP" => !self.words.iter().any(|word| word == "TEMPORARY"),
            "ALTER" | "ANALYZE" | "CACHE" | "CHECK" | "FLUSH" | "GRANT" | "INSTALL" | "LOCK"
            | "OPTIMIZE" | "RENAME" | "REPAIR" | "RESET" | "REVOKE" | "TRUNCATE" | "UNINSTALL" => {
                true
            }
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

    /// What to write in place of a statement after which the tables that are kept are out of reach, or what is
    /// written into them stays open.
    pub(super) fn hides_the_books(&self, kind: UrlKind) -> Option<&'static str> {
        let names = |word: &str| self.words.iter().skip(1).any(|one| one == word);
        match (kind, self.word(0)) {
            (UrlKind::Mysql, "USE") => {
                Some("leave USE out, and write the database before the names of tables")
            }
            (UrlKind::Mysql, "LOCK") if names("TABLE") || names("TABLES") => {
                Some("leave LOCK TABLES and UNLOCK TABLES out")
            }
            (UrlKind::Mysql, "SET") if names("AUTOCOMMIT") => Some(
                "leave autocommit as it is, and write BEGIN and COMMIT around what belongs together",
            ),
            (UrlKind::Postgres, "SET") if names("SEARCH_PATH") && !names("LOCAL") => {
                Some("leave search_path as it is, and write the schema before the names of tables")
            }
            _ => None,
        }
    }

    /// Whether the statement sets something that holds for its session alone.
    pub(super) fn sets(&self) -> bool {
        matches!(self.word(0), "SET" | "PRAGMA")
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
    let mut masked = None;
    loop {
        let text: &str = masked.as_deref().unwrap_or(text);
        let mut tokens = Vec::new();
        let read = Tokenizer::new(dialect(kind), text)
            .with_unescape(false)
            .tokenize_with_location_into_buf(&mut tokens);
        // What follows such a statement was taken for rows.
        let Some(place) = refused::column_taken_for_stdin(&tokens) else {
            return (tokens, read);
        };
        let end = Places::new(text).offset(place.end);
        let mut same_length = text.to_owned();
        same_length.replace_range(end - "stdin".len()..end, "stdi_");
        masked = Some(same_length);
    }
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
    let last_backslash = text.rfind('\\');
    let (mut start, mut first) = (0, 0);
    for (at, token) in tokens.iter().enumerate() {
        refused::check_comment(token, statements.len() + 1, kind)?;
        if cut.ends_before(token) {
            let end = places.offset(token.span.start);
            let found = cut.finish(&text[start..end])?;
            if found.is_some() {
                let number = statements.len() + 1;
                let escapes = last_backslash.is_some_and(|last| last >= end);
                refused::check(&tokens[first..at], escapes, number, kind)?;
            }
            statements.extend(found);
            (start, first) = (end + 1, at + 1);
        }
    }
    if let Err(error) = read {
        // Behind what cannot be read there may be anything.
        refused::check_unread(text)?;
        return Err(Uncut::Unclear(format!(
            "that cannot be cut into statements by the default rules of its database: {error}"
        )));
    }
    refused::check(&tokens[first..], false, statements.len() + 1, kind)?;
    statements.extend(cut.finish(&text[start..])?);
    Ok(statements)
}

/// A statement without what does not count in it: blanks, and comments that are not read by the database
/// as a hint or a condition.
pub(super) fn essence(statement: &str, kind: UrlKind) -> String {
    let (tokens, read) = tokens(statement, kind);
    if read.is_err() {
        return statement.to_owned();
    }
    let mut text = String::with_capacity(statement.len());
    for token in &tokens {
        let counts = match &token.token {
            Token::Whitespace(Whitespace::MultiLineComment(comment)) => {
                comment.starts_with(['!', '+']) || comment.starts_with("M!")
            }
            Token::Whitespace(_) | Token::EOF => false,
            _ => true,
        };
        if counts {
            let _ = write!(text, "{} ", token.token);
        }
    }
    text
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

#[cfg(test)]
mod tests;
