//! Where a statement names tables, read from its words alone.
//!
//! The second opinion on the parser's: a parser that takes a word for something else than the server does (an operator
//! in place of a label, a name in place of a modifier) misreads what follows too, and a table becomes a column or an
//! alias to it. These few rules know no expressions. They know that tables stand behind `FROM`, `JOIN`, `INTO`, `UPDATE`
//! and `TABLE`, and behind the commas of a list that one of them has begun, until a word ends that clause.

use std::collections::HashSet;

use sqlparser::tokenizer::{Token, Word};

use super::tokens::Tokens;

/// Words that end a list of tables, in every server.
#[rustfmt::skip]
const ENDING: [&str; 15] = [
    "select", "where", "group", "having", "order", "limit", "offset", "fetch", "window", "set", "values", "returning",
    "union", "except", "intersect",
];

/// Words that may stand between the word that announces a table and its name.
#[rustfmt::skip]
const BETWEEN: [&str; 16] = [
    "only", "lateral", "ignore", "low_priority", "high_priority", "delayed", "quick", "if", "not", "exists", "or",
    "replace", "rollback", "abort", "fail", "concurrently",
];

/// Functions whose arguments are divided by `FROM`.
const DIVIDED_BY_FROM: [&str; 4] = ["extract", "substring", "trim", "overlay"];

/// Functions of MariaDB that take the name of a sequence, which may be that of a table.
const OF_SEQUENCES: [&str; 3] = ["nextval", "lastval", "setval"];

/// What goes on within one pair of parentheses.
#[derive(Clone, Copy, Default)]
struct Level {
    /// The next name is that of a table.
    expects: bool,
    /// So is the one behind a comma.
    lists: bool,
    /// `FROM` divides the arguments of a function here.
    divided: bool,
}

/// The tokens that stand where a table is named, as far as the words tell.
pub(super) fn places_of_tables(tokens: &Tokens<'_>) -> HashSet<usize> {
    let list: Vec<(usize, &Token)> = tokens
        .list
        .iter()
        .map(|token| &token.token)
        .enumerate()
        .filter(|(_, token)| !matches!(token, Token::Whitespace(_)))
        .collect();
    let mut places = HashSet::new();
    let mut levels = vec![Level::default()];
    for (nth, (position, token)) in list.iter().enumerate() {
        let around = Around { list: &list, nth };
        let Some(mut level) = levels.pop() else { break };
        match token {
            Token::LParen => {
                levels.push(Level {
                    expects: false,
                    ..level
                });
                level = Level {
                    expects: level.expects,
                    lists: level.expects,
                    divided: around.before_is(1, &DIVIDED_BY_FROM),
                };
            }
            Token::RParen => {
                level = levels.pop().unwrap_or_default();
                level.expects = false;
            }
            Token::SemiColon => {
                levels.clear();
                level = Level::default();
            }
            Token::Comma => level.expects = level.lists,
            Token::Period => {
                // A schema was before it.
                level.expects = nth > 0 && places.contains(&list[nth - 1].0);
            }
            Token::Word(word) if !around.is_part() && level.read(word, around) => {}
            Token::Word(_) | Token::SingleQuotedString(_) | Token::DoubleQuotedString(_) => {
                if level.expects {
                    places.insert(*position);
                }
                level.expects = false;
            }
            _ => level.expects = false,
        }
        levels.push(level);
    }
    places
}

impl Level {
    /// Reads a word of the language; whether it was one.
    fn read(&mut self, word: &Word, around: Around<'_, '_>) -> bool {
        if word.quote_style.is_some() {
            return false;
        }
        let is = |known: &str| word.value.eq_ignore_ascii_case(known);
        let among = |known: &[&str]| known.iter().any(|known| is(known));
        if is("from") {
            let compares =
                around.before_is(1, &["distinct"]) && around.before_is(2, &["is", "not"]);
            let of_time = around.before_is(1, &["system_time"]);
            if !(self.divided || compares || of_time) {
                self.announces(true);
            }
        } else if is("join") {
            self.announces(true);
        } else if is("straight_join") || (is("using") && !around.is_next(&Token::LParen)) {
            // Also a modifier of SELECT, and of ALTER.
            if self.lists {
                self.announces(true);
            }
        } else if is("update") {
            // FOR UPDATE, FOR NO KEY UPDATE, ON DUPLICATE KEY UPDATE, ON UPDATE, DO UPDATE
            if around.before_is(1, &["for", "key", "on", "do"]) {
                self.ends();
            } else {
                self.announces(true);
            }
        } else if among(&["into", "table"])
            || (among(&["insert", "replace"]) && around.begins() && !around.is_next(&Token::LParen))
        {
            self.announces(false);
        } else if among(&OF_SEQUENCES) && around.is_next(&Token::LParen) {
            self.expects = true;
        } else if among(&ENDING) {
            self.divided &= !is("select");
            self.ends();
        } else if is("for") && around.after_is(&["update", "share", "no", "key"]) {
            self.ends();
        } else if is("on") {
            self.expects = false;
        } else {
            return self.expects && among(&BETWEEN);
        }
        true
    }

    fn announces(&mut self, lists: bool) {
        (self.expects, self.lists) = (true, lists);
    }

    fn ends(&mut self) {
        (self.expects, self.lists) = (false, false);
    }
}

/// The neighbours of a token, without blanks and comments.
#[derive(Clone, Copy)]
struct Around<'l, 't> {
    list: &'l [(usize, &'t Token)],
    nth: usize,
}

impl Around<'_, '_> {
    fn before(&self, distance: usize) -> Option<&Token> {
        let nth = self.nth.checked_sub(distance)?;
        Some(self.list[nth].1)
    }

    fn before_is(&self, distance: usize, words: &[&str]) -> bool {
        is_one_of(self.before(distance), words)
    }

    fn after_is(&self, words: &[&str]) -> bool {
        is_one_of(self.list.get(self.nth + 1).map(|(_, token)| *token), words)
    }

    fn is_next(&self, token: &Token) -> bool {
        self.list
            .get(self.nth + 1)
            .is_some_and(|(_, next)| *next == token)
    }

    /// Behind a period nothing is a word of the language.
    fn is_part(&self) -> bool {
        self.before(1) == Some(&Token::Period)
    }

    /// Whether a statement may begin here.
    fn begins(&self) -> bool {
        match self.before(1) {
            None | Some(Token::SemiColon | Token::LParen | Token::RParen) => true,
            other => is_one_of(
                other,
                &[
                    "explain", "analyze", "verbose", "plan", "extended", "describe", "desc",
                    "begin", "then", "else", "also", "instead", "do", "for",
                ],
            ),
        }
    }
}

fn is_one_of(token: Option<&Token>, words: &[&str]) -> bool {
    match token {
        Some(Token::Word(word)) => {
            word.quote_style.is_none()
                && words
                    .iter()
                    .any(|known| word.value.eq_ignore_ascii_case(known))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::Dialect;
    use super::super::samples::set;
    use super::super::tokens::Tokens;
    use super::places_of_tables;

    /// What stands in the places of tables, in order.
    fn tables(text: &str) -> String {
        let set = set(Dialect::Mysql);
        let tokens = Tokens::read(&set, text).expect(text);
        let mut places: Vec<_> = places_of_tables(&tokens).into_iter().collect();
        places.sort_unstable();
        let names: Vec<_> = places.iter().map(|at| &text[tokens.range(*at)]).collect();
        names.join(" ")
    }

    #[test]
    fn a_list_of_tables_goes_on_until_a_word_ends_it() {
        for (text, expected) in [
            (
                "SELECT a, b FROM t, u AS x, v WHERE c IN (d, e) ORDER BY f, g",
                "t u v",
            ),
            (
                "SELECT a FROM t JOIN u ON t.b = u.b AND f(c, d) = 1, v GROUP BY e, f",
                "t u v",
            ),
            (
                "SELECT a FROM (t, u JOIN (v, w) USING (b, c)), x LIMIT 1, 2",
                "t u v w x",
            ),
            (
                "SELECT a, interval FROM s.t, `u`.`v` w LOCK IN SHARE MODE",
                "s t `u` `v`",
            ),
            (
                "SELECT a, (SELECT b, c FROM t, u) FROM (SELECT d, e FROM v) x, w",
                "t u v w",
            ),
            (
                "SELECT a FROM f(b, c) x, LATERAL g(d) y (e, f), ONLY t FOR UPDATE OF g, h",
                "f g t",
            ),
            ("SELECT a FROM t FORCE INDEX FOR ORDER BY (b, c)", "t"),
            (
                "INSERT INTO t (a, b) VALUES (c, d), (e, f) ON DUPLICATE KEY UPDATE g = h, i = j",
                "t",
            ),
            ("INSERT LOW_PRIORITY IGNORE t (a) SELECT b, c FROM u", "t u"),
            ("REPLACE DELAYED t SET a = 1, b = 2", "t"),
            (
                "UPDATE t, u SET t.a = 1, b = 2 WHERE c = replace(d, e, f)",
                "t u",
            ),
            (
                "UPDATE OR FAIL t SET a = 1 FROM u, v RETURNING b, c",
                "t u v",
            ),
            (
                "DELETE FROM t USING u, v WHERE a IS DISTINCT FROM b",
                "t u v",
            ),
            ("DELETE a, b FROM t JOIN u USING (c, d)", "t u"),
            ("SELECT STRAIGHT_JOIN a FROM t STRAIGHT_JOIN u", "t u"),
            (
                "SELECT extract(year FROM a), trim(both b FROM c), substring(d FROM 2) FROM t",
                "t",
            ),
            (
                "SELECT extract((SELECT a FROM t), (b)), x.from, y.table FROM u",
                "t u",
            ),
            (
                "WITH a AS (SELECT b FROM t), c AS (TABLE u) SELECT d FROM v; SELECT e, f",
                "t u v",
            ),
            ("SELECT a FROM t FOR SYSTEM_TIME FROM b TO c, u", "t u"),
            (
                "ALTER TABLE t ADD a INT, ADD b INT; DROP TABLE IF EXISTS u",
                "t u",
            ),
            ("SELECT nextval(t), lastval(u), setval FROM v", "t u v"),
            ("CREATE TABLE t (a INT ON UPDATE b, c INT)", "t"),
        ] {
            assert_eq!(tables(text), expected, "{text}");
        }
    }
}
