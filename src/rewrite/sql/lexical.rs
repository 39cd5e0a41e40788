//! What is a literal, a comment or a name in a text, by the rules of the server that gets it.
//!
//! The second opinion on the tokenizer's: where that one ends a literal or a comment elsewhere than the server
//! does, what follows is code to the one and text to the other, and a table may hide in it. Comments are taken out by
//! these rules before the tokenizer sees the text, and it has to agree about all the rest.
//!
//! Sources: PostgreSQL's manual, "Lexical Structure" (a comment ends an operator; the next line of an `E'..'` goes on as
//! one), with `standard_conforming_strings` on; MySQL's manual, "Literal Values", "Schema Object Names" and "Comments",
//! without the modes `ANSI_QUOTES` and `NO_BACKSLASH_ESCAPES`; SQLite's "SQL Keywords" and the notes on its tokenizer.

use std::ops::Range;

use super::super::Dialect;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Comment,
    Literal,
    /// A name in quotes.
    Quoted,
    /// A name or a word of the language.
    Word,
}

/// A part of a text; signs, numbers and blanks are none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) kind: Kind,
    pub(crate) bytes: Range<usize>,
}

/// The parts of a text, in order.
pub(crate) fn pieces(dialect: Dialect, text: &str) -> Vec<Piece> {
    let mut scan = Scan {
        dialect,
        bytes: text.as_bytes(),
        at: 0,
        pieces: Vec::new(),
        goes_on: GoesOn::default(),
    };
    while scan.at < scan.bytes.len() {
        scan.next();
    }
    scan.pieces
}

/// The text with blanks in place of comments, a blank for each character.
pub(super) fn without_comments(text: &str, pieces: &[Piece]) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut done = 0;
    for piece in pieces.iter().filter(|piece| piece.kind == Kind::Comment) {
        plain.push_str(&text[done..piece.bytes.start]);
        plain.extend(
            text[piece.bytes.clone()]
                .chars()
                .map(|c| if c == '\n' { '\n' } else { ' ' }),
        );
        done = piece.bytes.end;
    }
    plain.push_str(&text[done..]);
    plain
}

/// Whether a text may be cut otherwise in another character set of the client than UTF-8. In some (`GBK`, `BIG5`,
/// `SJIS` ..) a backslash or a backtick may be the second half of a character, and to MySQL the byte A0 is a blank in
/// others (`latin1`).
pub(super) fn depends_on_charset(dialect: Dialect, text: &str, pieces: &[Piece]) -> bool {
    if dialect == Dialect::Sqlite || text.is_ascii() {
        return false;
    }
    let bytes = text.as_bytes();
    let swallows = |range: Range<usize>| {
        bytes[range]
            .windows(2)
            .any(|two| two[0] >= 0x80 && matches!(two[1], b'\\' | b'`'))
    };
    let of = |kinds: &'static [Kind]| {
        pieces
            .iter()
            .filter(move |piece| kinds.contains(&piece.kind))
            .map(|piece| piece.bytes.clone())
    };
    if dialect == Dialect::Postgres {
        // A backslash means something in `E'..'` alone, and in what goes on with it.
        let escapes = of(&[Kind::Literal]).any(|literal| {
            literal.start > 0 && bytes[literal.start - 1].eq_ignore_ascii_case(&b'e')
        });
        return escapes && of(&[Kind::Literal]).any(swallows);
    }
    let mut outside = 0;
    let mut ends: Vec<Range<usize>> = Vec::new();
    for closed in of(&[Kind::Literal, Kind::Quoted, Kind::Comment]) {
        ends.push(outside..closed.start);
        outside = closed.end;
    }
    ends.push(outside..bytes.len());
    of(&[Kind::Literal, Kind::Quoted]).any(swallows)
        || ends.into_iter().any(|range| {
            bytes[range.clone()].contains(&0xa0)
                || swallows(range.start..(range.end + 1).min(bytes.len()))
        })
}

/// Whether PostgreSQL takes the next literal for a continuation of the last one.
#[derive(Clone, Copy, Default)]
struct GoesOn {
    /// There is a last one, and in it a backslash escapes.
    escapes: bool,
    /// A line has ended since.
    new_line: bool,
}

struct Scan<'t> {
    dialect: Dialect,
    bytes: &'t [u8],
    at: usize,
    pieces: Vec<Piece>,
    goes_on: GoesOn,
}

impl Scan<'_> {
    fn peek(&self, ahead: usize) -> Option<u8> {
        self.bytes.get(self.at + ahead).copied()
    }

    fn push(&mut self, kind: Kind, end: usize) {
        let end = end.min(self.bytes.len());
        self.pieces.push(Piece {
            kind,
            bytes: self.at..end,
        });
        self.at = end;
    }

    fn next(&mut self) {
        use Dialect::{Mysql, Postgres, Sqlite};
        let Some(byte) = self.peek(0) else { return };
        let before = std::mem::take(&mut self.goes_on);
        match (byte, self.dialect) {
            (b'\n' | b'\r', _) => {
                self.at += 1;
                self.goes_on = GoesOn {
                    new_line: true,
                    ..before
                };
            }
            (b' ' | b'\t' | 0x0b | 0x0c, _) => {
                self.at += 1;
                self.goes_on = before;
            }
            (b'-', _) if self.peek(1) == Some(b'-') && self.dashes_begin_a_comment() => {
                self.line_comment();
                self.goes_on = before;
            }
            (b'#', Mysql) => self.line_comment(),
            (b'/', _) if self.peek(1) == Some(b'*') => self.block_comment(),
            // A mark of the byte order is a blank.
            (0xef, Sqlite) if self.bytes[self.at..].starts_with(b"\xef\xbb\xbf") => {
                self.push(Kind::Comment, self.at + 3);
            }
            (b'\'', _) => {
                let escapes = match self.dialect {
                    Mysql => true,
                    Postgres => before.escapes && before.new_line,
                    Sqlite => false,
                };
                self.literal(b'\'', escapes);
            }
            (b'"', Mysql) => self.literal(b'"', true),
            (b'"', Postgres | Sqlite) | (b'`', Mysql | Sqlite) => {
                let end = self.end_of_quoted(byte, false);
                self.push(Kind::Quoted, end);
            }
            (b'[', Sqlite) => {
                let end = self
                    .find(self.at + 1, b"]")
                    .map_or(self.bytes.len(), |at| at + 1);
                self.push(Kind::Quoted, end);
            }
            (b'$', Postgres) => self.dollar(),
            (b'$' | b':' | b'#', Sqlite) | (b'@', Sqlite | Mysql) => self.variable(),
            (b'0'..=b'9', _) => self.number(),
            _ if self.begins_word(byte) => self.word(),
            _ => self.at += 1,
        }
    }

    fn dashes_begin_a_comment(&self) -> bool {
        self.dialect != Dialect::Mysql
            || self
                .peek(2)
                .is_none_or(|byte| byte == b' ' || byte.is_ascii_control())
    }

    fn line_comment(&mut self) {
        let ends =
            |byte: &u8| *byte == b'\n' || (*byte == b'\r' && self.dialect == Dialect::Postgres);
        let rest = &self.bytes[self.at..];
        let length = rest.iter().position(ends).unwrap_or(rest.len());
        self.push(Kind::Comment, self.at + length);
    }

    fn block_comment(&mut self) {
        let mut at = self.at + 2;
        let mut depth = 1;
        while depth > 0 && at < self.bytes.len() {
            if self.bytes[at..].starts_with(b"*/") {
                depth -= 1;
                at += 2;
            } else if self.dialect == Dialect::Postgres && self.bytes[at..].starts_with(b"/*") {
                depth += 1;
                at += 2;
            } else {
                at += 1;
            }
        }
        self.push(Kind::Comment, at);
    }

    fn literal(&mut self, quote: u8, escapes: bool) {
        let end = self.end_of_quoted(quote, escapes);
        self.push(Kind::Literal, end);
        self.goes_on = GoesOn {
            escapes,
            new_line: false,
        };
    }

    /// Behind the closing quote; two of them are one that does not close.
    fn end_of_quoted(&self, quote: u8, escapes: bool) -> usize {
        let mut at = self.at + 1;
        while let Some(byte) = self.bytes.get(at) {
            if escapes && *byte == b'\\' {
                at += 2;
            } else if *byte != quote {
                at += 1;
            } else if self.bytes.get(at + 1) == Some(&quote) {
                at += 2;
            } else {
                return at + 1;
            }
        }
        self.bytes.len()
    }

    fn find(&self, from: usize, what: &[u8]) -> Option<usize> {
        (from..self.bytes.len()).find(|at| self.bytes[*at..].starts_with(what))
    }

    /// PostgreSQL's `$$ .. $$` and `$tag$ .. $tag$`.
    fn dollar(&mut self) {
        let rest = &self.bytes[self.at + 1..];
        let tag = rest
            .iter()
            .position(|byte| *byte == b'$' || !self.continues_word(*byte))
            .unwrap_or(rest.len());
        let is_tag = rest.get(tag) == Some(&b'$') && !rest.first().is_some_and(u8::is_ascii_digit);
        if !is_tag {
            self.at += 1;
            return;
        }
        let mark = self.bytes[self.at..self.at + tag + 2].to_vec();
        let end = self
            .find(self.at + mark.len(), &mark)
            .map_or(self.bytes.len(), |at| at + mark.len());
        self.push(Kind::Literal, end);
    }

    /// A variable or a bind with a name, which is none of a table.
    fn variable(&mut self) {
        self.at += 1;
        let mut has_name = false;
        while let Some(byte) = self.peek(0) {
            if self.continues_word(byte) {
                self.at += 1;
                has_name = true;
            } else if self.dialect == Dialect::Mysql {
                if !matches!(byte, b'.' | b'@') {
                    return;
                }
                self.at += 1;
            } else if byte == b':' && self.peek(1) == Some(b':') {
                // Names of Tcl's have spaces.
                self.at += 2;
            } else if byte == b'(' && has_name {
                // `$name(what)`, as Tcl has it.
                let inside = &self.bytes[self.at + 1..];
                let ends = |byte: &u8| byte.is_ascii_whitespace() || matches!(byte, 0x0b | b')');
                self.at += 1 + inside.iter().position(ends).unwrap_or(inside.len());
                if self.peek(0) == Some(b')') {
                    self.at += 1;
                }
                return;
            } else {
                return;
            }
        }
    }

    fn number(&mut self) {
        let begin = self.at;
        while self.peek(0).is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        let is_fraction = begin > 0 && self.bytes[begin - 1] == b'.';
        if self.dialect == Dialect::Mysql
            && !is_fraction
            && self.peek(0).is_some_and(|byte| self.continues_word(byte))
        {
            // Names may begin with digits there.
            self.at = begin;
            self.word();
        }
    }

    fn word(&mut self) {
        let rest = &self.bytes[self.at..];
        let length = rest
            .iter()
            .position(|byte| !self.continues_word(*byte))
            .unwrap_or(rest.len());
        let escapes = self.dialect == Dialect::Postgres
            && rest[..length].eq_ignore_ascii_case(b"e")
            && rest.get(length) == Some(&b'\'');
        self.push(Kind::Word, self.at + length);
        if escapes {
            self.literal(b'\'', true);
        }
    }

    fn begins_word(&self, byte: u8) -> bool {
        byte.is_ascii_alphabetic()
            || byte == b'_'
            || byte >= 0x80
            || (byte == b'$' && self.dialect == Dialect::Mysql)
    }

    fn continues_word(&self, byte: u8) -> bool {
        byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$') || byte >= 0x80
    }
}

#[cfg(test)]
mod tests {
    use super::{Kind, pieces, without_comments};
    use crate::rewrite::Dialect::{self, Mysql, Postgres, Sqlite};

    /// The words and names that stand outside of literals and comments.
    fn names(dialect: Dialect, text: &str) -> Vec<&str> {
        let names = pieces(dialect, text).into_iter();
        names
            .filter(|piece| matches!(piece.kind, Kind::Word | Kind::Quoted))
            .map(|piece| &text[piece.bytes])
            .collect()
    }

    #[test]
    fn literals_and_comments_end_where_the_server_ends_them() {
        for (dialect, text, expected) in [
            (Postgres, "a >/* ' */ b -- '\nc", &["a", "b", "c"][..]),
            (
                Postgres,
                "a ->--'\n b /* x /* y */ z */ c",
                &["a", "b", "c"],
            ),
            (Postgres, r"E'\'' a -- '", &["E", "a"]),
            (Postgres, "'\\' a -- '", &["a"]),
            (Postgres, "E'x'\n'\\' a --' b", &["E", "b"]),
            (Postgres, "E'x' -- c\r '\\'' a", &["E", "a"]),
            (Postgres, "E'x' '\\' a", &["E", "a"]),
            (Postgres, "E'x' /* */\n'\\' a", &["E", "a"]),
            (Postgres, "$a$ b $$ c $a$ d $1 e$$ f", &["d", "e$$", "f"]),
            (
                Postgres,
                "\"a\"\"b\" 'it''s' 1e5 x'1' c",
                &["\"a\"\"b\"", "e5", "x", "c"],
            ),
            (
                Mysql,
                "a -- b\nc --d # e\n`f``g`",
                &["a", "c", "d", "`f``g`"],
            ),
            (Mysql, r#"'a\' b' "c\" d" e"#, &["e"]),
            (Mysql, "1a @b @@c.d .5e 2.5f $g", &["1a", "e", "f", "$g"]),
            (Mysql, "/* /* */ a */ b", &["a", "b"]),
            (Sqlite, "[a]]b] 'c\\' d", &["[a]", "b", "d"]),
            (Sqlite, ":a @b $c(d) #e ?1 f -- g\rh\ni", &["f", "i"]),
            (Sqlite, "$a::(') b --' ", &["b"]),
            (Sqlite, ":a::::b(\") c $::(d) e", &["c", "d", "e"]),
            (Sqlite, "\u{feff}a |/* ' */ b -- '", &["a", "b"]),
            (Sqlite, "a /* never ends", &["a"]),
        ] {
            assert_eq!(names(dialect, text), expected, "{dialect:?}: {text}");
        }
    }

    #[test]
    fn what_stands_in_place_of_comments_is_as_long() {
        let text = "a /* ü\n€ */ 'b -- c' -- d\ne";
        let plain = without_comments(text, &pieces(Postgres, text));
        assert_eq!(plain, "a     \n     'b -- c'     \ne");
        assert_eq!(plain.chars().count(), text.chars().count());
    }
}
