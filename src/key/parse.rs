//! Keys as people write them on a command line, in a list or in a file.

use super::{CompositeType, KeyType, ShardKey, days_of};

/// A text that is no key of the wanted type; the message says how such keys are written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no {kind} key: {wanted}")]
pub struct ParseKeyError {
    kind: KeyType,
    text: String,
    wanted: &'static str,
}

impl KeyType {
    /// Reads a key of this type from text.
    ///
    /// | type | text |
    /// |---|---|
    /// | `integer` | decimal digits, with a sign where it is wanted: `-42` |
    /// | `text` | itself, every byte of it |
    /// | `uuid` | any of its usual spellings: `67e55044-10b1-426f-9247-bb680e5fe0c8` |
    /// | `bytes` | hexadecimal digits, `0x` before them where it is wanted: `0xdeadbeef` |
    /// | `date` | `2024-02-29` |
    /// | `timestamp` | RFC 3339 with its offset: `2024-02-29T12:30:00.000001Z` |
    /// | composite | its parts, separated by commas: `acme,17`; one that holds a comma or begins with a quotation mark is quoted as in a CSV file: `"a, b",17`, `"say ""hi""",17`; parentheses around all of it and blanks behind its commas are those of its printed form: `("a, b", 17)` |
    ///
    /// ```
    /// use diesel_sharded::{KeyType, ToShardKey};
    ///
    /// assert_eq!(KeyType::Integer.parse_key("7")?, 7i64.to_shard_key());
    /// assert_eq!(KeyType::Text.parse_key("7")?, "7".to_shard_key());
    /// # Ok::<(), diesel_sharded::ParseKeyError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ParseKeyError`] where the text is not a key of this type.
    pub fn parse_key(self, text: &str) -> Result<ShardKey<'static>, ParseKeyError> {
        let (key, wanted) = match self {
            Self::Integer => (integer(text), "write it in decimal digits"),
            Self::Text => (Some(ShardKey::Text(text.to_owned().into())), ""),
            Self::Uuid => (uuid(text), "write its 32 hexadecimal digits"),
            Self::Bytes => (
                bytes(text),
                "write two hexadecimal digits for each byte, 0xdeadbeef",
            ),
            Self::Date => (date(text), "write it as 2024-02-29"),
            Self::Timestamp => (
                timestamp(text),
                "write it with its offset, 2024-02-29T12:30:00Z",
            ),
            Self::Composite(types) => (
                composite(text, types)?,
                "write its parts separated by commas, each as a key of its type",
            ),
        };
        key.ok_or_else(|| ParseKeyError {
            kind: self,
            text: shortened(text),
            wanted,
        })
    }
}

fn integer(text: &str) -> Option<ShardKey<'static>> {
    match text.parse() {
        Ok(number) => Some(ShardKey::Integer(number)),
        Err(_) => text.parse::<u128>().ok().map(ShardKey::from),
    }
}

fn uuid(text: &str) -> Option<ShardKey<'static>> {
    let uuid = uuid::Uuid::parse_str(text).ok()?;
    Some(ShardKey::Uuid(uuid.into_bytes()))
}

fn bytes(text: &str) -> Option<ShardKey<'static>> {
    let digits = text.strip_prefix("0x").unwrap_or(text).as_bytes();
    let digit = |digit: &u8| char::from(*digit).to_digit(16);
    let bytes: Option<Vec<u8>> = digits
        .chunks(2)
        .map(|pair| match pair {
            [high, low] => u8::try_from(digit(high)? * 16 + digit(low)?).ok(),
            _ => None,
        })
        .collect();
    Some(ShardKey::Bytes(bytes?.into()))
}

fn date(text: &str) -> Option<ShardKey<'static>> {
    let date: jiff::civil::Date = text.parse().ok()?;
    // Forms with a time in them parse too; a day with a time is no key of a day.
    if date.to_string() != text {
        return None;
    }
    Some(ShardKey::Date(days_of(date)))
}

fn timestamp(text: &str) -> Option<ShardKey<'static>> {
    let instant: jiff::Timestamp = text.parse().ok()?;
    let nanos = instant.as_nanosecond();
    Some(ShardKey::Timestamp {
        micros: i64::try_from(nanos.div_euclid(1_000)).ok()?,
        sub_micro_nanos: u16::try_from(nanos.rem_euclid(1_000)).ok()?,
    })
}

/// `None` where the text has another number of parts.
fn composite(text: &str, types: CompositeType) -> Result<Option<ShardKey<'static>>, ParseKeyError> {
    // Blanks belong to a text, unless the key is written as it is printed.
    let (text, blanks) = match text
        .strip_prefix('(')
        .and_then(|text| text.strip_suffix(')'))
    {
        Some(inner) => (inner, true),
        None => (text, false),
    };
    let fields = fields(text, blanks).filter(|fields| fields.len() == types.parts().count());
    let Some(fields) = fields else {
        return Ok(None);
    };
    let parts = types.parts().zip(&fields);
    let parts = parts.map(|(part, field)| part.parse_key(field));
    Ok(Some(ShardKey::Composite(parts.collect::<Result<_, _>>()?)))
}

/// Splits at commas, outside of quotation marks; a doubled one inside stands for itself. Where `blanks`
/// mean nothing, those behind a comma are left out.
fn fields(text: &str, blanks: bool) -> Option<Vec<String>> {
    let mut fields = Vec::new();
    let mut rest = text;
    loop {
        let (field, after) = match rest.strip_prefix('"') {
            Some(quoted) => quoted_field(quoted)?,
            None => {
                let end = rest.find(',').unwrap_or(rest.len());
                (rest[..end].to_owned(), &rest[end..])
            }
        };
        fields.push(field);
        match after.strip_prefix(',') {
            Some(next) if blanks => rest = next.trim_start_matches(' '),
            Some(next) => rest = next,
            None => return after.is_empty().then_some(fields),
        }
    }
}

/// What stands before the closing quotation mark, and what comes after it.
fn quoted_field(quoted: &str) -> Option<(String, &str)> {
    let mut field = String::new();
    let mut rest = quoted;
    loop {
        let end = rest.find('"')?;
        field.push_str(&rest[..end]);
        rest = &rest[end + 1..];
        match rest.strip_prefix('"') {
            Some(more) => {
                field.push('"');
                rest = more;
            }
            None => return Some((field, rest)),
        }
    }
}

/// An error must not carry a whole file that somebody gave as a key.
fn shortened(text: &str) -> String {
    const SHOWN: usize = 64;
    match text.char_indices().nth(SHOWN) {
        None => text.to_owned(),
        Some((cut, _)) => format!("{}..", &text[..cut]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is parsed prints as what was written, for every type but bytes and text.
    #[test]
    fn texts_and_keys_are_one_to_one() {
        for (kind, texts) in [
            (
                KeyType::Integer,
                &[
                    "0",
                    "-1",
                    "-170141183460469231731687303715884105728",
                    "340282366920938463463374607431768211455",
                ][..],
            ),
            (KeyType::Uuid, &["67e55044-10b1-426f-9247-bb680e5fe0c8"]),
            (KeyType::Bytes, &["0x", "0x00ff", "0xdeadbeef"]),
            (
                KeyType::Date,
                &["1970-01-01", "1969-12-31", "2024-02-29", "0001-01-01"],
            ),
            (
                KeyType::Timestamp,
                &[
                    "1970-01-01T00:00:00.000000Z",
                    "1969-12-31T23:59:59.999999Z",
                    "2024-02-29T12:30:00.000001Z",
                ],
            ),
        ] {
            for text in texts {
                let key = kind.parse_key(text).unwrap();
                assert_eq!(key.to_string(), *text, "{kind}");
            }
        }
    }

    #[test]
    fn spellings_of_one_value_are_one_key() {
        for (kind, one, other) in [
            (KeyType::Integer, "7", "+007"),
            (
                KeyType::Uuid,
                "67e55044-10b1-426f-9247-bb680e5fe0c8",
                "67E5504410B1426F9247BB680E5FE0C8",
            ),
            (KeyType::Bytes, "0xDEADBEEF", "deadbeef"),
            (
                KeyType::Timestamp,
                "2024-02-29T12:30:00Z",
                "2024-02-29T13:30:00+01:00",
            ),
        ] {
            assert_eq!(kind.parse_key(one), kind.parse_key(other), "{kind}");
        }
        assert_ne!(
            KeyType::Text.parse_key("7"),
            KeyType::Text.parse_key("07"),
            "text is its bytes"
        );
    }

    #[test]
    fn what_is_no_key_is_refused_and_named() {
        for (kind, texts) in [
            (
                KeyType::Integer,
                &["", "7.0", "1e3", "0x7", " 7", "7 ", "seven"][..],
            ),
            (
                KeyType::Uuid,
                &["", "67e55044", "67e55044-10b1-426f-9247-bb680e5fe0cg"],
            ),
            (KeyType::Bytes, &["0xabc", "xy", "0x\u{e9}\u{e9}"]),
            (
                KeyType::Date,
                &[
                    "",
                    "2023-02-29",
                    "29.02.2024",
                    "2024-02-29T00:00",
                    "20240229",
                    "2024-2-9",
                ],
            ),
            (
                KeyType::Timestamp,
                &["", "2024-02-29", "2024-02-29T12:30:00", "1709209800"],
            ),
        ] {
            for text in texts {
                let error = kind.parse_key(text).unwrap_err().to_string();
                assert!(error.contains(kind.as_str()), "{error}");
                assert!(error.contains("write"), "{error}");
            }
        }
        let error = KeyType::Integer.parse_key(&"x".repeat(10_000)).unwrap_err();
        assert!(error.to_string().len() < 200, "{error}");
    }

    #[test]
    fn composite_keys_are_split_at_commas_outside_of_quotes() {
        let types =
            KeyType::Composite(CompositeType::new([KeyType::Text, KeyType::Integer]).unwrap());
        for (text, first, second) in [
            ("a,1", "a", 1),
            (",-1", "", -1),
            ("\"a,b\",2", "a,b", 2),
            ("\"say \"\"hi\"\"\",3", "say \"hi\"", 3),
            ("ä b,4", "ä b", 4),
            ("(\"a,b\", 7)", "a,b", 7),
            ("(a,7)", "a", 7),
            ("(\"(a)\",-7)", "(a)", -7),
            ("(a,7", "(a", 7),
            ("\" a\",7", " a", 7),
            (" a,7", " a", 7),
        ] {
            let key = ShardKey::Composite(vec![
                ShardKey::Text(first.into()),
                ShardKey::Integer(second),
            ]);
            assert_eq!(types.parse_key(text), Ok(key), "{text}");
        }
        for text in [
            "", "a", "a,1,2", "a,b", "\"a,1", "\"a\"b,1", "a, 1", "()", "((a,1))", "a,1)",
        ] {
            assert!(types.parse_key(text).is_err(), "{text}");
        }
    }
}
