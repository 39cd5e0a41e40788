//! The settings of a session that decide how its server reads a text.
//!
//! Texts are read as the servers read them by default: to PostgreSQL a backslash in a plain literal is a
//! backslash, to MySQL it is an escape, and `".."` is a literal there. A session can be told otherwise, and
//! then a name hides in what is taken for a literal. So a text that tells it so is refused, and a session is
//! asked before the tables of its shard are used.
//!
//! It is a reading of words, not a parser: what is doubtful counts as a change.

use crate::error::{Error, UnavailableCause};
use crate::name::{Role, ShardName};
use crate::rewrite::sql::lexical;
use crate::rewrite::{Dialect, contains_ignoring_case};

const POSTGRES_NAME: &str = "standard_conforming_strings";
const MYSQL_NAME: &str = "sql_mode";

/// Modes of MySQL and MariaDB that change what a literal is, or that have one which does.
const CHANGING_MODES: [&str; 8] = [
    "ansi_quotes",
    "no_backslash_escapes",
    "ansi",
    "oracle",
    "mssql",
    "db2",
    "maxdb",
    "postgresql",
];

/// Asks a PostgreSQL session. What `RESET` would make of it counts too.
#[cfg(any(feature = "postgres", feature = "async-postgres"))]
pub(crate) const ASK_POSTGRES: &str = "SELECT setting AS one, coalesce(reset_val, setting) AS other \
     FROM pg_settings WHERE name = 'standard_conforming_strings'";

/// Asks a MySQL session.
#[cfg(any(feature = "mysql", feature = "async-mysql"))]
pub(crate) const ASK_MYSQL: &str = "SELECT CAST(@@SESSION.sql_mode AS CHAR) AS one, \
     CAST(@@GLOBAL.lower_case_table_names AS CHAR) AS other";

/// What a session says of its settings.
#[cfg(any(
    feature = "postgres",
    feature = "async-postgres",
    feature = "mysql",
    feature = "async-mysql"
))]
#[derive(diesel::QueryableByName)]
pub(crate) struct Settings {
    #[diesel(sql_type = diesel::sql_types::Text)]
    one: String,
    #[diesel(sql_type = diesel::sql_types::Text)]
    other: String,
}

#[cfg(any(
    feature = "postgres",
    feature = "async-postgres",
    feature = "mysql",
    feature = "async-mysql"
))]
impl Settings {
    /// Why statements over sharded tables cannot be sent to this PostgreSQL session, and what to do.
    #[cfg(any(feature = "postgres", feature = "async-postgres"))]
    pub(crate) fn postgres_problem(&self) -> Option<String> {
        let is_on = |value: &str| value.eq_ignore_ascii_case("on");
        let found = match (is_on(&self.one), is_on(&self.other)) {
            (true, true) => return None,
            (false, _) => "is off in the session",
            (true, false) => "is on in the session, but RESET would turn it off",
        };
        Some(format!(
            "{POSTGRES_NAME} {found}: turn it on for the role, the database or the server (ALTER ROLE .. SET {POSTGRES_NAME} = on), or in the url (options=-c {POSTGRES_NAME}=on)"
        ))
    }

    /// Why statements over sharded tables cannot be sent to this MySQL session, and what to do.
    #[cfg(any(feature = "mysql", feature = "async-mysql"))]
    pub(crate) fn mysql_problem(&self) -> Option<String> {
        let changing = self.one.split(',').find(|mode| is_changing(mode.trim()));
        if let Some(mode) = changing {
            return Some(format!(
                "{MYSQL_NAME} has {mode} in the session: take it out of the server's {MYSQL_NAME}, or set {MYSQL_NAME} without it as connections are made (`connect_with`)"
            ));
        }
        (self.other != "0").then(|| {
            format!(
                "lower_case_table_names is {} on the server, which then takes ORDERS for orders: a server with 0 is needed",
                self.other
            )
        })
    }
}

/// What the user of a session is told that does not read texts as we do.
#[cold]
pub(crate) fn unfit(shard: ShardName, role: Role, problem: String) -> Error {
    Error::Unavailable {
        shard,
        role,
        cause: UnavailableCause::Settings,
        source: Some(problem.into()),
    }
}

/// Why a text is refused that would make the server read later texts otherwise than they are read here.
pub(crate) fn refusal(dialect: Dialect, text: &str) -> Option<&'static str> {
    let reason = match dialect {
        Dialect::Sqlite => return None,
        Dialect::Postgres => {
            "it sets standard_conforming_strings to off, or to something that cannot be told from the text, and the server would read literals of later statements otherwise than they are read here; leave it on where a shard has sharded tables"
        }
        Dialect::Mysql => {
            "it sets sql_mode to a value with ANSI_QUOTES or NO_BACKSLASH_ESCAPES, or to something that cannot be told from the text, and the server would read later statements otherwise than they are read here; write the modes as one literal without these"
        }
    };
    changes_reading(dialect, text).then_some(reason)
}

fn changes_reading(dialect: Dialect, text: &str) -> bool {
    // Nearly every text has none of these.
    let (name, others): (_, &[&str]) = match dialect {
        Dialect::Sqlite => return false,
        Dialect::Postgres => (POSTGRES_NAME, &["set_config", "pg_settings"]),
        Dialect::Mysql => (MYSQL_NAME, &[]),
    };
    let has = |word: &str| contains_ignoring_case(text.as_bytes(), word.as_bytes());
    if !has(name) && !others.iter().any(|other| has(other)) {
        return false;
    }
    let tokens = cut(dialect, text);
    let mut statements = tokens.split(|token| token.is(";")).map(Statement);
    statements.any(|statement| {
        statement.changes_reading(dialect, name) || statement.changes_unseen(dialect)
    })
}

fn is_changing(mode: &str) -> bool {
    CHANGING_MODES
        .iter()
        .any(|changing| mode.eq_ignore_ascii_case(changing))
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Kind {
    /// A name, a word of the language or a number.
    Word,
    /// A text, without its quotes.
    Literal,
    /// One other character.
    Mark,
}

#[derive(Clone, Copy, Debug)]
struct Token<'t> {
    kind: Kind,
    text: &'t str,
}

impl Token<'_> {
    /// Whether it is this word or mark.
    fn is(&self, text: &str) -> bool {
        self.kind != Kind::Literal && self.text.eq_ignore_ascii_case(text)
    }
}

/// The tokens between two semicolons.
struct Statement<'s, 't>(&'s [Token<'t>]);

impl<'t> Statement<'_, 't> {
    fn changes_reading(&self, dialect: Dialect, name: &str) -> bool {
        (0..self.0.len()).any(|at| match (dialect, self.0[at].kind) {
            (_, Kind::Mark) => false,
            (_, Kind::Literal)
                if self.runs_texts() && changes_reading(dialect, self.0[at].text) =>
            {
                true
            }
            (Dialect::Postgres, Kind::Literal) => {
                self.0[at].text.eq_ignore_ascii_case(name) && self.is_changed_by_function(at)
            }
            (_, Kind::Literal) => false,
            (Dialect::Postgres, Kind::Word) => self.0[at].is(name) && self.is_turned_off(at),
            (_, Kind::Word) => self.0[at].is(name) && self.is_given_modes(at),
        })
    }

    fn is(&self, at: Option<usize>, text: &str) -> bool {
        at.and_then(|at| self.0.get(at))
            .is_some_and(|token| token.is(text))
    }

    fn starts_with(&self, words: &[&str]) -> bool {
        words.iter().any(|word| self.is(Some(0), word))
    }

    fn has(&self, word: &str) -> bool {
        self.0.iter().any(|token| token.is(word))
    }

    /// Whether a literal in it may be code.
    fn runs_texts(&self) -> bool {
        self.starts_with(&["do", "create", "alter", "prepare", "execute", "begin"])
    }

    /// Whether what it sets are columns.
    fn sets_columns(&self) -> bool {
        self.starts_with(&["update", "insert", "replace", "load", "with"])
    }

    /// `SET standard_conforming_strings = ..`, also as a part of `ALTER ROLE` and others.
    fn is_turned_off(&self, at: usize) -> bool {
        let before = at.checked_sub(1);
        let scope = ["session", "local"]
            .iter()
            .any(|scope| self.is(before, scope));
        let set = if scope { at.checked_sub(2) } else { before };
        if !self.is(set, "set") || self.sets_columns() {
            return false;
        }
        let given = self.is(Some(at + 1), "=") || self.is(Some(at + 1), "to");
        // `FROM CURRENT` is what it is.
        given && !self.is_on(at + 2)
    }

    /// Whether it changes a setting of PostgreSQL's whose name is not to be seen in it.
    fn changes_unseen(&self, dialect: Dialect) -> bool {
        dialect == Dialect::Postgres
            && (0..self.0.len()).any(|at| {
                if self.is(Some(at), "set_config") && self.is(Some(at + 1), "(") {
                    let name = self.0.get(at + 2).map(|name| name.kind);
                    return name != Some(Kind::Literal) || !self.is(Some(at + 3), ",");
                }
                self.is(Some(at), "pg_settings") && self.has("update")
            })
    }

    /// Whether PostgreSQL takes the value for `on`, or for what the session has by default.
    fn is_on(&self, at: usize) -> bool {
        const ON: [&str; 10] = [
            "on", "true", "tru", "tr", "t", "yes", "ye", "y", "1", "default",
        ];
        self.0
            .get(at)
            .is_some_and(|value| ON.iter().any(|on| value.text.eq_ignore_ascii_case(on)))
    }

    /// Of a literal that is the setting's name: `set_config('..', ..)`, or the view that can be written to.
    fn is_changed_by_function(&self, at: usize) -> bool {
        let called = |name| self.is(at.checked_sub(1), "(") && self.is(at.checked_sub(2), name);
        if called("current_setting") {
            return false;
        }
        if called("set_config") {
            let ends = self.is(Some(at + 3), ",") || self.is(Some(at + 3), ")");
            return !(self.is(Some(at + 1), ",") && self.is_on(at + 2) && ends);
        }
        self.has("set_config") || (self.has("update") && self.has("pg_settings"))
    }

    /// `SET sql_mode = ..` in any of its forms.
    fn is_given_modes(&self, at: usize) -> bool {
        let value = match (self.is(Some(at + 1), "="), self.is(Some(at + 2), "=")) {
            (true, _) => at + 2,
            (false, true) if self.is(Some(at + 1), ":") => at + 3,
            _ => return false,
        };
        let is_at = |back: usize| self.is(at.checked_sub(back), "@");
        if is_at(1) && !is_at(2) {
            // A variable of the user's that is called so.
            return false;
        }
        let hint = self.is(at.checked_sub(1), "(") && self.is(at.checked_sub(2), "set_var");
        let set = self.0[..at].iter().any(|token| token.is("set"));
        if !hint && (!set || self.sets_columns()) {
            return false;
        }
        let ends = match self.0.get(value + 1) {
            None => true,
            Some(next) => [",", "for", ")"].iter().any(|end| next.is(end)),
        };
        !(ends && self.are_harmless_modes(value))
    }

    fn are_harmless_modes(&self, at: usize) -> bool {
        let Some(value) = self.0.get(at) else {
            return false;
        };
        let word = match value.kind {
            Kind::Mark => return false,
            Kind::Literal => false,
            // Within a routine it may be a variable.
            Kind::Word if !self.starts_with(&["set", "select"]) => return false,
            Kind::Word => true,
        };
        let is_harmless = |mode: &str| {
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
            // Modes have numbers too, and what the default is, the server alone knows.
            let is_number = mode.starts_with(|first: char| first.is_ascii_digit());
            let is_default = word && mode.eq_ignore_ascii_case("default");
            mode.bytes().all(plain) && !(is_number || is_default || is_changing(mode))
        };
        value.text.split(',').all(|mode| is_harmless(mode.trim()))
    }
}

/// Cuts a text into words, literals and marks.
fn cut(dialect: Dialect, text: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    let mut done = 0;
    for piece in lexical::pieces(dialect, text) {
        marks(&text[done..piece.bytes.start], &mut tokens);
        done = piece.bytes.end;
        let written = &text[piece.bytes];
        match piece.kind {
            lexical::Kind::Comment => tokens.extend(cut(dialect, code_in(dialect, written))),
            lexical::Kind::Word => tokens.push(Token {
                kind: Kind::Word,
                text: written,
            }),
            lexical::Kind::Quoted => tokens.push(Token {
                kind: Kind::Word,
                text: unquoted(written),
            }),
            lexical::Kind::Literal => tokens.push(Token {
                kind: Kind::Literal,
                text: unquoted(written),
            }),
        }
    }
    marks(&text[done..], &mut tokens);
    tokens
}

/// What is neither a name nor a literal: signs, numbers, and variables of the server's.
fn marks<'t>(between: &'t str, tokens: &mut Vec<Token<'t>>) {
    let of_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut rest = between.trim_start();
    while let Some(first) = rest.chars().next() {
        let (kind, length) = match rest.find(|c| !of_word(c)).unwrap_or(rest.len()) {
            0 => (Kind::Mark, first.len_utf8()),
            length => (Kind::Word, length),
        };
        tokens.push(Token {
            kind,
            text: &rest[..length],
        });
        rest = rest[length..].trim_start();
    }
}

/// What of a comment the server runs: `/*!50000 ..` and `/*M!100000 ..` are code, and hints may set variables.
fn code_in(dialect: Dialect, comment: &str) -> &str {
    let open = ["/*!", "/*M!", "/*+"];
    let inside = open
        .iter()
        .filter(|_| dialect == Dialect::Mysql)
        .find_map(|open| comment.strip_prefix(open));
    inside.map_or("", |inside| {
        let code = inside.trim_start_matches(|c: char| c.is_ascii_digit());
        code.strip_suffix("*/").unwrap_or(code)
    })
}

/// A name or a literal without its quotes, be they `$tag$`.
fn unquoted(written: &str) -> &str {
    let quote = match written.strip_prefix('$') {
        Some(tagged) => tagged.find('$').map_or(1, |tag| tag + 2),
        None => 1,
    };
    written
        .get(quote..written.len().saturating_sub(quote))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests;
