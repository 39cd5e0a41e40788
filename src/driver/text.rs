//! What a statement written by hand may do to the transaction, read off its words.
//!
//! Needed where the client library's knowledge is out of reach: on MySQL, and everywhere in the
//! nonblocking driver. It is a reading of words, not a parser: what is doubtful counts as touching
//! the transaction, which costs one round trip when the connection goes back and nothing else.

/// What a text may do to the transaction of its connection.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct TextEffect {
    /// It may have opened a transaction (or changed autocommit).
    pub(crate) may_open: bool,
    /// It certainly ended a transaction that was open.
    pub(crate) ends: bool,
    /// It may have set something in the session.
    pub(crate) may_set: bool,
    /// It took the session to another database (`USE`), which another shard's may be.
    pub(crate) moves: bool,
}

impl TextEffect {
    /// What is assumed of a text that nobody can read.
    pub(crate) const UNKNOWN: Self = Self {
        may_open: true,
        ends: false,
        may_set: true,
        moves: false,
    };

    /// Reads a text of one or more MySQL statements.
    pub(crate) fn of(sql: &str) -> Self {
        let mut effect = Self::default();
        for statement in Statements::new(sql) {
            effect.add(statement);
        }
        effect
    }

    /// Reads a text of one or more statements of PostgreSQL or SQLite: whether a word in it, be it in a
    /// string or a comment, is one that opens or ends transactions there. Nothing else does.
    #[cfg(any(test, feature = "bb8"))]
    pub(crate) fn of_standard(sql: &str) -> Self {
        const OPENING: [&str; 8] = [
            "begin",
            "start",
            "commit",
            "rollback",
            "abort",
            "savepoint",
            "release",
            "prepare",
        ];
        let statements = || sql.split(';').map(words_of);
        let may_open = sql.split(';').any(|statement| {
            // END is COMMIT, and the end of every CASE too; behind a comment it may be either.
            let first = words_of(statement).next();
            first.is_some_and(|word| is(word, "end"))
                || words_of(statement).any(|word| OPENING.iter().any(|opening| is(word, opening)))
                || (has_comment(statement) && words_of(statement).any(|word| is(word, "end")))
        });
        // Only a text without strings, quoted names and comments is certain to do what it says
        // (a trigger's or function's body has an END of its own).
        let plain = !has_comment(sql)
            && !sql.contains(['\'', '"', '`', '$', '['])
            && !words_of(sql).any(|word| is(word, "create"));
        Self {
            may_open,
            ends: may_open && plain && statements().any(ends_transaction),
            may_set: statements()
                .filter_map(|mut words| words.next())
                .any(|first| !is_harmless(first)),
            moves: false,
        }
    }

    fn add(&mut self, statement: Words<'_>) {
        let Words(first, second, third) = statement;
        if is_harmless(first) {
            return;
        }
        self.may_set = true;
        self.may_open = true;
        self.moves |= is(first, "use");
        let keeps = is(second, "to") || (is(second, "work") && is(third, "to"));
        self.ends |= is(first, "commit")
            || (is(first, "rollback") && !keeps)
            || is(first, "begin")
            || (is(first, "start") && is(second, "transaction"));
    }
}

/// Whether a statement that starts with this word leaves transaction and session alone.
fn is_harmless(first: &str) -> bool {
    const HARMLESS: [&str; 11] = [
        "select", "insert", "update", "delete", "replace", "with", "show", "explain", "describe",
        "values", "do",
    ];
    HARMLESS.iter().any(|word| is(first, word))
}

fn is(word: &str, other: &str) -> bool {
    word.eq_ignore_ascii_case(other)
}

#[cfg(any(test, feature = "bb8"))]
fn words_of(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !(c.is_alphanumeric() || c == '_'))
        .filter(|word| !word.is_empty())
}

/// Whether a statement of PostgreSQL or SQLite with these words ends the open transaction.
#[cfg(any(test, feature = "bb8"))]
fn ends_transaction<'a>(mut words: impl Iterator<Item = &'a str>) -> bool {
    let Some(first) = words.next() else {
        return false;
    };
    // `ROLLBACK TO a`, `ROLLBACK TRANSACTION TO a`, `COMMIT PREPARED 'a'`.
    let keeps = words
        .take(2)
        .any(|word| is(word, "to") || is(word, "prepared"));
    !keeps
        && ["commit", "end", "rollback", "abort"]
            .iter()
            .any(|ending| is(first, ending))
}

#[cfg(any(test, feature = "bb8"))]
fn has_comment(text: &str) -> bool {
    text.contains("--") || text.contains("*/")
}

/// The first three words of a statement; missing ones are empty.
#[derive(Debug)]
struct Words<'a>(&'a str, &'a str, &'a str);

/// Cuts a text at the semicolons outside strings, quoted names and comments.
struct Statements<'a> {
    rest: &'a str,
}

impl<'a> Statements<'a> {
    fn new(rest: &'a str) -> Self {
        Self { rest }
    }
}

impl<'a> Iterator for Statements<'a> {
    type Item = Words<'a>;

    fn next(&mut self) -> Option<Words<'a>> {
        loop {
            if self.rest.is_empty() {
                return None;
            }
            let mut words = ["", "", ""];
            let mut known = 0;
            loop {
                self.rest = self.rest.trim_start();
                let Some(first) = self.rest.chars().next() else {
                    break;
                };
                let (length, is_word) = token(self.rest, first);
                let (token, rest) = self.rest.split_at(length);
                self.rest = rest;
                if first == ';' {
                    break;
                }
                if let Some(inner) = executable_comment(token) {
                    // `/*! .. */` is run by the server; its words are words.
                    if let (Some(slot), Some(word)) =
                        (words.get_mut(known), inner.split_whitespace().next())
                    {
                        *slot = word;
                        known += 1;
                    }
                } else if is_word && known < words.len() {
                    words[known] = token;
                    known += 1;
                } else if !is_comment(token) {
                    known = known.max(1);
                }
            }
            if known > 0 {
                let [first, second, third] = words;
                return Some(Words(first, second, third));
            }
        }
    }
}

fn is_comment(token: &str) -> bool {
    token.starts_with('#') || token.starts_with("--") || token.starts_with("/*")
}

fn executable_comment(token: &str) -> Option<&str> {
    let inner = token
        .strip_prefix("/*!")
        .or_else(|| token.strip_prefix("/*M!"))?;
    Some(
        inner
            .trim_start_matches(|c: char| c.is_ascii_digit())
            .trim_end_matches("*/"),
    )
}

/// The length of the token that `text` starts with, and whether it is a word.
fn token(text: &str, first: char) -> (usize, bool) {
    let until = |end: Option<usize>| end.unwrap_or(text.len());
    match first {
        '\'' | '"' | '`' => (quoted(text, first), false),
        '#' => (until(text.find('\n')), false),
        '-' if text.starts_with("--") => (until(text.find('\n')), false),
        '/' if text.starts_with("/*") => (until(text[2..].find("*/").map(|at| at + 4)), false),
        _ if first.is_alphanumeric() || first == '_' => (
            until(text.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == '$'))),
            true,
        ),
        _ => (first.len_utf8(), false),
    }
}

/// The length of a quoted token; a doubled quote or a backslash keeps it going.
fn quoted(text: &str, quote: char) -> usize {
    let mut chars = text.char_indices().skip(1).peekable();
    while let Some((at, c)) = chars.next() {
        if c == '\\' && quote != '`' {
            chars.next();
        } else if c == quote {
            match chars.peek() {
                Some((_, next)) if *next == quote => {
                    chars.next();
                }
                _ => return at + c.len_utf8(),
            }
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::TextEffect;

    #[test]
    fn a_word_that_opens_or_ends_a_transaction_is_found_wherever_it_stands() {
        for (sql, may_open) in [
            ("SELECT 1", false),
            ("INSERT INTO t (a) VALUES ($1) RETURNING id", false),
            (
                "UPDATE t SET a = CASE WHEN b THEN 1 ELSE 2 END WHERE id = $1",
                false,
            ),
            ("SELECT beginning, started, committed FROM t", false),
            (
                "CREATE TABLE t (a INTEGER); INSERT INTO t VALUES (1)",
                false,
            ),
            ("SET search_path = a", false),
            ("", false),
            ("BEGIN", true),
            ("begin immediate", true),
            ("SELECT 1; COMMIT", true),
            ("END", true),
            ("SELECT 1;\n end transaction", true),
            ("/* x */ END", true),
            ("-- x\nEND", true),
            ("/* ; */ END", true),
            ("/* x */ COMMIT", true),
            ("START TRANSACTION", true),
            ("ABORT", true),
            ("ROLLBACK TO SAVEPOINT a", true),
            ("SAVEPOINT a", true),
            ("RELEASE a", true),
            ("PREPARE TRANSACTION 'a'", true),
            // Doubtful ones cost a round trip, nothing else.
            ("INSERT INTO t VALUES ('COMMIT')", true),
        ] {
            assert_eq!(TextEffect::of_standard(sql).may_open, may_open, "{sql}");
        }
    }

    #[test]
    fn only_what_is_certain_counts_as_the_end_of_a_transaction() {
        for (sql, ends) in [
            ("COMMIT", true),
            ("end", true),
            ("ROLLBACK", true),
            ("ABORT TRANSACTION", true),
            ("INSERT INTO t VALUES (1); COMMIT; SELECT 1", true),
            ("ROLLBACK; BEGIN", true),
            ("COMMIT AND CHAIN", true),
            ("ROLLBACK TO a", false),
            ("ROLLBACK TO SAVEPOINT a", false),
            ("ROLLBACK TRANSACTION TO a", false),
            ("COMMIT PREPARED 'a'", false),
            ("BEGIN", false),
            ("SELECT CASE WHEN a THEN 1 END", false),
            ("INSERT INTO t VALUES ('; COMMIT')", false),
            ("SELECT 1 /* ; COMMIT */", false),
            (
                "CREATE TRIGGER a AFTER INSERT ON t BEGIN SELECT 1; END",
                false,
            ),
            ("DO $$ BEGIN PERFORM 1; END $$", false),
        ] {
            assert_eq!(TextEffect::of_standard(sql).ends, ends, "{sql}");
        }
    }

    #[test]
    fn the_first_words_of_every_statement_count() {
        // text, may open, ends
        for (sql, may_open, ends) in [
            ("SELECT 1", false, false),
            ("  select 1; ", false, false),
            ("/* hello; COMMIT */ SELECT 1", false, false),
            ("-- COMMIT\nSELECT 1", false, false),
            ("# COMMIT\nSELECT 1", false, false),
            ("INSERT INTO t VALUES ('; COMMIT; ')", false, false),
            ("INSERT INTO t VALUES ('it''s \\'; COMMIT; ')", false, false),
            ("SELECT `; COMMIT`", false, false),
            ("COMMIT", true, true),
            ("commit;", true, true),
            ("INSERT INTO t VALUES (1); COMMIT", true, true),
            ("/*! COMMIT */", true, true),
            ("/*!50000 COMMIT */", true, true),
            ("/* x */ COMMIT", true, true),
            ("ROLLBACK", true, true),
            ("ROLLBACK TO SAVEPOINT a", true, false),
            ("ROLLBACK WORK TO a", true, false),
            ("SAVEPOINT a", true, false),
            ("RELEASE SAVEPOINT a", true, false),
            ("BEGIN", true, true),
            ("START TRANSACTION READ ONLY", true, true),
            ("START SLAVE", true, false),
            ("SET autocommit = 0", true, false),
            ("CALL p()", true, false),
            ("CREATE TABLE t (a int)", true, false),
            ("", false, false),
            (";;", false, false),
            ("(SELECT 1)", true, false),
            ("USE other", true, false),
            ("SELECT 1; USE other", true, false),
        ] {
            let effect = TextEffect::of(sql);
            assert_eq!((effect.may_open, effect.ends), (may_open, ends), "{sql}");
            assert_eq!(effect.moves, sql.contains("USE "), "{sql}");
        }
    }
}
