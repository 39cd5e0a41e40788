//! How physical tables are named: `{name}_{table}`, or as somebody else has named them.

use std::fmt::Write as _;

/// The pattern of a table that is split, where none is configured.
const DEFAULT: &str = "{name}_{table}";

/// The pattern of a table that is not.
const UNSPLIT: &str = "{name}";

/// Widths beyond this are a slip.
const MAX_WIDTH: usize = 20;

/// A parsed pattern of physical names, without their schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pattern(Vec<Part>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    /// The logical name.
    Name,
    /// The number of the table on its shard, with at least so many digits; or what the rule calls the
    /// part, where the rule names the parts.
    Table {
        width: usize,
    },
    /// The number of the table in its keyspace: the position of its shard times the count, plus its
    /// number.
    Global {
        width: usize,
    },
    /// The period of a rule by dates.
    Date,
}

impl Pattern {
    /// The pattern of a table for which none is configured.
    pub(crate) fn usual(is_split: bool) -> Self {
        let mut parts = vec![Part::Name];
        if is_split {
            parts.extend([Part::Text("_".to_owned()), Part::Table { width: 0 }]);
        }
        Self(parts)
    }

    /// Reads a pattern.
    ///
    /// # Errors
    ///
    /// What is wrong with it, and what to write instead.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('{') {
            literal(before, &mut parts)?;
            let (field, after) = after
                .split_once('}')
                .ok_or_else(|| format!("`{{{after}` is not closed by a `}}`"))?;
            parts.push(Part::parse(field)?);
            rest = after;
        }
        literal(rest, &mut parts)?;
        Ok(Self(parts))
    }

    fn any(&self, is_wanted: impl Fn(&Part) -> bool) -> bool {
        self.0.iter().any(is_wanted)
    }

    /// Whether it tells the tables of one shard apart.
    pub(crate) fn is_numbered(&self) -> bool {
        self.any(|part| matches!(part, Part::Table { .. } | Part::Global { .. }))
    }

    /// Whether the position of a shard in the list of its keyspace is part of the names.
    pub(crate) fn is_global(&self) -> bool {
        self.any(|part| matches!(part, Part::Global { .. }))
    }

    /// Whether it asks for parts that are named by a date.
    pub(crate) fn is_dated(&self) -> bool {
        self.any(|part| *part == Part::Date)
    }

    /// Whether a number is to have leading zeros.
    pub(crate) fn has_width(&self) -> bool {
        self.any(
            |part| matches!(part, Part::Table { width } | Part::Global { width } if *width > 0),
        )
    }

    /// Whether physical tables bear the logical name.
    pub(crate) fn is_plain(&self) -> bool {
        self.0 == [Part::Name]
    }

    /// The name of the physical table with a number on its shard; `position` is that of the shard in the
    /// list of the keyspace.
    pub(crate) fn numbered(&self, name: &str, number: u32, position: usize, count: u32) -> String {
        self.fill(name, |part, text| {
            // Writing to a String cannot fail.
            let _ = match part {
                Part::Global { width } => {
                    let global = position as u64 * u64::from(count) + u64::from(number);
                    write!(text, "{global:0width$}")
                }
                Part::Table { width } => write!(text, "{number:0width$}"),
                Part::Date | Part::Text(_) | Part::Name => Ok(()),
            };
        })
    }

    /// The name of the physical table that the rule calls `part`.
    pub(crate) fn by_rule(&self, name: &str, part: &str) -> String {
        self.fill(name, |_, text| text.push_str(part))
    }

    fn fill(&self, name: &str, number: impl Fn(&Part, &mut String)) -> String {
        let mut filled = String::with_capacity(name.len() + 8);
        for part in &self.0 {
            match part {
                Part::Text(text) => filled.push_str(text),
                Part::Name => filled.push_str(name),
                part => number(part, &mut filled),
            }
        }
        filled
    }

    /// Whether a name (in lower case) may be that of some part that the rule names, in or out of its plan.
    pub(crate) fn may_name(&self, logical: &str, name: &str) -> bool {
        const MARK: &str = "\0";
        let form = self.by_rule(logical, MARK).to_ascii_lowercase();
        let Some((before, after)) = form.split_once(MARK) else {
            return false;
        };
        let after = after.rsplit(MARK).next().unwrap_or(after);
        name.strip_prefix(before)
            .and_then(|rest| rest.strip_suffix(after))
            .is_some_and(|part| {
                part.starts_with(|c: char| c.is_ascii_digit())
                    && part
                        .bytes()
                        .all(|b| b.is_ascii_digit() || matches!(b, b'_' | b'-'))
            })
    }

    /// Whether a name (in lower case) is that of a part, as long as `part`, with something after it: of a
    /// table that was retired by renaming it.
    #[cfg(feature = "migrations")]
    pub(crate) fn may_have_named(&self, logical: &str, part: &str, name: &str) -> bool {
        let form = self.by_rule(logical, "\0").to_ascii_lowercase();
        let Some((before, after)) = form.split_once('\0') else {
            return false;
        };
        name.strip_prefix(before)
            .and_then(|rest| rest.split_at_checked(part.len()))
            .and_then(|(digits, rest)| {
                let is_part = digits.starts_with(|c: char| c.is_ascii_digit());
                rest.strip_prefix(after).filter(|_| is_part)
            })
            .is_some_and(|rest| rest.starts_with(|c: char| !c.is_ascii_digit()))
    }

    /// The pattern in the one spelling that goes into a fingerprint.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        for part in &self.0 {
            // Writing to a String cannot fail.
            let _ = match part {
                Part::Text(literal) => write!(text, "{literal}"),
                Part::Name => write!(text, "{{name}}"),
                Part::Table { width: 0 } | Part::Date => write!(text, "{{table}}"),
                Part::Table { width } => write!(text, "{{table:{width:02}}}"),
                Part::Global { width: 0 } => write!(text, "{{global}}"),
                Part::Global { width } => write!(text, "{{global:{width:02}}}"),
            };
        }
        text
    }

    /// Whether it is the pattern of a table for which none is configured.
    pub(crate) fn is_usual(&self, is_split: bool) -> bool {
        self.text() == if is_split { DEFAULT } else { UNSPLIT }
    }
}

impl Part {
    fn parse(field: &str) -> Result<Self, String> {
        let (name, width) = match field.split_once(':') {
            Some((name, width)) => (name, Some(width)),
            None => (field, None),
        };
        let width = match (name, width) {
            ("name" | "date", None) => 0,
            ("name" | "date", Some(_)) => {
                return Err(format!(
                    "{{{field}}}: only numbers have a width, write {{{name}}}"
                ));
            }
            ("table" | "global", None) => 0,
            ("table" | "global", Some(width)) => match width.strip_prefix('0').map(str::parse) {
                // Every number has one digit at least.
                Some(Ok(1)) => 0,
                Some(Ok(digits)) if (1..=MAX_WIDTH).contains(&digits) => digits,
                _ => {
                    return Err(format!(
                        "{{{field}}}: a width is a 0 and the number of digits, up to {MAX_WIDTH}: write {{{name}:03}} for {{{name}}} in three digits"
                    ));
                }
            },
            _ => {
                return Err(format!(
                    "{{{field}}} is unknown: write {{name}} (the table's name), {{table}} (its number on the shard), {{global}} (its number in the keyspace) or {{date}} (the period of a date rule)"
                ));
            }
        };
        Ok(match name {
            "name" => Self::Name,
            "table" => Self::Table { width },
            "global" => Self::Global { width },
            _ => Self::Date,
        })
    }
}

/// Takes in what stands between two fields.
fn literal(text: &str, parts: &mut Vec<Part>) -> Result<(), String> {
    if let Some(other) = text
        .chars()
        .find(|c| !c.is_ascii_alphanumeric() && !matches!(c, '_' | '$'))
    {
        return Err(match other {
            '}' => "a `}` has no `{` before it".to_owned(),
            '.' => "a `.` is no part of a table's name: the schema stands before the name of the table in `tables`".to_owned(),
            other => format!("{other:?} is no part of a table's name: use letters, digits, `_` and `$`"),
        });
    }
    if !text.is_empty() {
        parts.push(Part::Text(text.to_owned()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(text: &str) -> Pattern {
        Pattern::parse(text).expect(text)
    }

    #[test]
    fn names_are_made_by_the_pattern() {
        for (text, number, position, expected) in [
            (DEFAULT, 3, 1, "orders_3"),
            ("{name}_{table:03}", 3, 1, "orders_003"),
            ("{name}_{table:03}", 1234, 1, "orders_1234"),
            ("t_{global:02}_{name}", 3, 2, "t_19_orders"),
            ("{name}_{global:04}", 0, 0, "orders_0000"),
            ("{name}", 3, 2, "orders"),
            ("p{table}of{global}", 7, 1, "p7of15"),
        ] {
            assert_eq!(
                pattern(text).numbered("orders", number, position, 8),
                expected
            );
        }
        for text in [DEFAULT, "{name}_{date}"] {
            assert_eq!(pattern(text).by_rule("event", "202405"), "event_202405");
        }
        assert_eq!(pattern("e{date}").by_rule("event", "2024"), "e2024");
    }

    #[test]
    fn one_pattern_has_one_spelling() {
        for text in [DEFAULT, "{name}_{date}", "{name}_{table:01}"] {
            assert!(pattern(text).is_usual(true), "{text}");
            assert_eq!(pattern(text).text(), Pattern::usual(true).text());
        }
        assert!(pattern("{name}").is_usual(false) && pattern("{name}").is_plain());
        assert!(!pattern("{name}").is_usual(true) && !pattern(DEFAULT).is_usual(false));
        assert_eq!(
            pattern("{table:03}x{global:010}").text(),
            "{table:03}x{global:10}"
        );
        assert!(pattern("{global}").is_global() && pattern("{global}").is_numbered());
        assert!(!pattern("{name}x").is_numbered());
        assert!(pattern("{date}").is_dated() && !pattern("{date}").is_numbered());
    }

    #[test]
    fn what_is_no_pattern_is_said() {
        for (text, wrong) in [
            ("{name", "not closed"),
            ("name}", "no `{`"),
            ("{tabel}", "unknown"),
            ("{}", "unknown"),
            ("{name:03}", "only numbers"),
            ("{date:%Y}", "only numbers"),
            ("{table:3}", "{table:03}"),
            ("{table:0}", "width"),
            ("{table:00}", "width"),
            ("{table:}", "width"),
            ("{global:099}", "{global:03}"),
            ("{table:0x}", "width"),
            ("{{table}}", "unknown"),
            ("shop.{name}", "schema"),
            ("{name}-{table}", "'-'"),
            ("{name} {table}", "' '"),
            ("é{table}", "'é'"),
        ] {
            let error = Pattern::parse(text).expect_err(text);
            assert!(error.contains(wrong), "{text}: {error}");
        }
    }

    #[test]
    fn names_that_a_rule_may_give_are_known() {
        let usual = Pattern::usual(true);
        for name in ["event_2024", "event_202405", "event_2024_05", "event_0"] {
            assert!(usual.may_name("Event", name), "{name}");
        }
        for name in ["event", "event_", "event_x1", "events_2024", "event_2024x"] {
            assert!(!usual.may_name("event", name), "{name}");
        }
        #[cfg(feature = "migrations")]
        for (name, is_old) in [
            ("event_202405_old", true),
            ("event_202405old", true),
            ("event_202405", false),
            ("event_2024051", false),
            ("event_log_old", false),
        ] {
            assert_eq!(
                usual.may_have_named("event", "202401", name),
                is_old,
                "{name}"
            );
        }
        let within = pattern("p_{date}_{name}");
        assert!(within.may_name("event", "p_2024_event"));
        assert!(!within.may_name("event", "p_event") && !within.may_name("event", "p__event"));
    }
}
