//! What is done to text keys before they are placed.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use unicode_normalization::{IsNormalized, UnicodeNormalization, is_nfc_quick};

#[cfg(feature = "r2d2")]
use super::rule::Rule;
use crate::key::{KeyValue, ParseWordError, ShardKey};

/// One step that text keys go through before they are placed.
///
/// Whatever order they are listed in, the steps are taken in this one: trim, lowercase, nfc. They
/// decide only where a row is looked for; what is stored and what a query compares stays as it is.
///
/// # When the database takes different texts for equal
///
/// Without normalization the bytes decide. Under a case-blind collation, the default of MySQL and
/// MariaDB, the database takes `abc`, `ABC` and `abc` with a trailing blank for one value; unless
/// the keyspace has `trim` and `lowercase`, they can be on three shards: a unique index then sees no
/// duplicates, and a search finds one of the three. `trim` and `lowercase` put them on one shard.
/// Nothing here folds accents: where the collation takes `ábc` and `abc` for equal too, give the key
/// column a collation that does not, best a binary one (`utf8mb4_bin`), as is the default of
/// PostgreSQL and SQLite.
///
/// `é` can be written as one character (U+00E9) or as `e` and a combining accent (U+0301). The two
/// are different keys, unless the keyspace has `nfc`.
///
/// # Frozen
///
/// `lowercase` follows the Unicode tables of Rust's standard library
/// ([`str::to_lowercase`]), `nfc` those of the crate `unicode-normalization`, `trim` takes away
/// Unicode white space at both ends ([`str::trim`]). A newer version of the tables can change the
/// place only of keys with characters that Unicode had not yet assigned when they were written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Normalize {
    /// Lower case, by Unicode's mapping and in no particular language.
    Lowercase,
    /// No white space at either end.
    Trim,
    /// Unicode normalization form C.
    Nfc,
}

impl Normalize {
    const ALL: [Self; 3] = [Self::Trim, Self::Lowercase, Self::Nfc];

    /// The word for it in a configuration: `lowercase`, `trim` or `nfc`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Lowercase => "lowercase",
            Self::Trim => "trim",
            Self::Nfc => "nfc",
        }
    }
}

impl fmt::Display for Normalize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Normalize {
    type Err = ParseWordError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let known = Self::ALL.into_iter().find(|step| step.as_str() == text);
        known.ok_or_else(|| {
            ParseWordError::new(
                "normalization",
                text,
                Self::ALL.map(Self::as_str).as_slice(),
            )
        })
    }
}

/// The steps of one rule, as a set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Steps {
    trim: bool,
    lowercase: bool,
    nfc: bool,
}

impl Steps {
    pub(super) fn new(steps: &[Normalize]) -> Self {
        Self {
            trim: steps.contains(&Normalize::Trim),
            lowercase: steps.contains(&Normalize::Lowercase),
            nfc: steps.contains(&Normalize::Nfc),
        }
    }

    pub(super) fn is_empty(self) -> bool {
        self == Self::default()
    }

    /// The steps, in the order they are taken.
    pub(super) fn in_order(self) -> impl Iterator<Item = Normalize> {
        Normalize::ALL.into_iter().filter(move |step| match step {
            Normalize::Trim => self.trim,
            Normalize::Lowercase => self.lowercase,
            Normalize::Nfc => self.nfc,
        })
    }

    /// Takes the steps; allocates only where something changes.
    pub(super) fn apply(self, text: &str) -> Cow<'_, str> {
        let text = if self.trim { text.trim() } else { text };
        let text = if self.lowercase && !is_lowercase(text) {
            Cow::Owned(text.to_lowercase())
        } else {
            Cow::Borrowed(text)
        };
        if self.nfc && !is_nfc(&text) {
            Cow::Owned(text.nfc().collect())
        } else {
            text
        }
    }
}

impl Steps {
    /// Gives `then` the key with the steps taken on its text, or on the texts among its parts.
    pub(super) fn normalized<R>(
        self,
        value: KeyValue<'_>,
        then: impl FnOnce(KeyValue<'_>) -> R,
    ) -> R {
        match value {
            KeyValue::Text(text) => then(KeyValue::Text(&self.apply(text))),
            KeyValue::Composite(parts) => {
                let parts: Vec<ShardKey<'_>> = parts
                    .iter()
                    .map(|part| match part {
                        ShardKey::Text(text) => ShardKey::Text(self.apply(text)),
                        other => other.borrowed(),
                    })
                    .collect();
                then(KeyValue::Composite(&parts))
            }
            other => then(other),
        }
    }
}

#[cfg(feature = "r2d2")]
impl Rule {
    /// The key as the rule takes it: with the steps of `normalize`.
    pub(crate) fn normalized(&self, key: &ShardKey<'_>) -> ShardKey<'static> {
        match key {
            ShardKey::Text(text) => ShardKey::Text(self.steps.apply(text).into_owned().into()),
            other => other.clone().into_owned(),
        }
    }

    /// Whether the rule takes several texts for one key.
    pub(crate) fn folds(&self) -> bool {
        self.steps.in_order().next().is_some()
    }
}

/// Whether `to_lowercase` would change nothing.
fn is_lowercase(text: &str) -> bool {
    if text.is_ascii() {
        return !text.bytes().any(|byte| byte.is_ascii_uppercase());
    }
    text.chars().all(|c| c.to_lowercase().eq([c]))
}

fn is_nfc(text: &str) -> bool {
    text.is_ascii()
        || match is_nfc_quick(text.chars()) {
            IsNormalized::Yes => true,
            IsNormalized::No => false,
            IsNormalized::Maybe => text.nfc().eq(text.chars()),
        }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const EVERY: Steps = Steps {
        trim: true,
        lowercase: true,
        nfc: true,
    };

    #[test]
    fn unchanged_text_is_borrowed() {
        for text in ["", "abc", "straße 7", "\u{e9}", "ὀδυσσεύς"] {
            assert!(matches!(EVERY.apply(text), Cow::Borrowed(same) if same == text));
        }
        assert!(matches!(EVERY.apply("  abc\t"), Cow::Borrowed("abc")));
    }

    #[test]
    fn d08_case_and_blanks_fold_and_accents_do_not() {
        for text in ["abc", "ABC", "abc ", " aBc\u{a0}"] {
            assert_eq!(EVERY.apply(text), "abc");
        }
        assert_ne!(EVERY.apply("ábc"), EVERY.apply("abc"));
        assert_eq!(EVERY.apply("ÁBC"), "ábc");
    }

    #[test]
    fn d09_nfc_makes_two_spellings_one() {
        assert_eq!(EVERY.apply("e\u{301}"), "\u{e9}");
        let without = Steps {
            nfc: false,
            ..EVERY
        };
        assert_ne!(without.apply("e\u{301}"), without.apply("\u{e9}"));
    }

    #[test]
    fn words_are_read_back() {
        for step in Normalize::ALL {
            assert_eq!(step.as_str().parse(), Ok(step));
        }
        let error = "lower".parse::<Normalize>().expect_err("no such word");
        assert_eq!(
            error.to_string(),
            "unknown normalization \"lower\": use one of trim, lowercase, nfc"
        );
    }

    #[test]
    fn every_character_is_normalized_once() {
        // The planes above hold private characters, tags and nothing else.
        for c in '\0'..='\u{3ffff}' {
            let text = format!("a{c}\u{301}Σ");
            let once = EVERY.apply(&text);
            assert_eq!(EVERY.apply(&once), once, "U+{:04X}", u32::from(c));
        }
    }

    proptest! {
        #[test]
        fn normalization_is_idempotent(
            text in any::<String>(), trim: bool, lowercase: bool, nfc: bool,
        ) {
            let steps = Steps { trim, lowercase, nfc };
            let once = steps.apply(&text);
            prop_assert_eq!(steps.apply(&once), &*once);
        }

        #[test]
        fn the_shortcuts_answer_as_the_long_way(text in any::<String>()) {
            prop_assert_eq!(is_lowercase(&text), text.to_lowercase() == text);
            prop_assert_eq!(is_nfc(&text), text.nfc().collect::<String>() == text);
        }
    }
}
