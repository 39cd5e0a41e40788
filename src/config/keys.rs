//! Shard keys written in a configuration, for `list` and `range`.

use figment::value::Value;

use super::reader::whole;
use crate::key::{KeyType, ShardKey};

/// Reads a listed value as a key of this type; `Err` says what is expected. A composite key is a
/// list of its parts.
pub(super) fn parse(value: &Value, key: KeyType) -> Result<ShardKey<'static>, &'static str> {
    const PARTS: &str = "a list of the parts of the key is expected here: [\"a\", 1]";
    if let KeyType::Composite(types) = key {
        let Value::Array(_, items) = value else {
            return Err(PARTS);
        };
        if items.len() != types.parts().count() {
            return Err(PARTS);
        }
        let parts = items.iter().zip(types.parts());
        let parts = parts.map(|(item, part)| parse(item, part));
        return Ok(ShardKey::Composite(parts.collect::<Result<_, _>>()?));
    }
    let text = match value {
        Value::String(_, text) => text.clone(),
        Value::Char(_, c) => c.to_string(),
        Value::Num(_, number) if key == KeyType::Integer => whole(*number)
            .map(|number| number.to_string())
            .ok_or("a whole number is expected here")?,
        _ if key == KeyType::Integer => return Err("a whole number is expected here"),
        _ => return Err("text is expected here: quote this value"),
    };
    let found = match key {
        KeyType::Text => return Ok(ShardKey::Text(text.into())),
        KeyType::Integer => integer(&text),
        KeyType::Uuid => uuid(&text),
        KeyType::Bytes => text
            .strip_prefix("0x")
            .and_then(hexadecimal)
            .map(|bytes| ShardKey::Bytes(bytes.into())),
        KeyType::Date => date(&text)
            .and_then(|days| i32::try_from(days).ok())
            .map(ShardKey::Date),
        KeyType::Timestamp => timestamp(&text).map(|micros| ShardKey::Timestamp {
            micros,
            sub_micro_nanos: 0,
        }),
        // Read above, part by part.
        KeyType::Composite(_) => None,
    };
    found.ok_or(match key {
        KeyType::Composite(_) => PARTS,
        KeyType::Text => "text is expected here",
        KeyType::Integer => "a whole number is expected here",
        KeyType::Uuid => "a UUID is expected here: \"67e55044-10b1-426f-9247-bb680e5fe0c8\"",
        KeyType::Bytes => "hexadecimal bytes are expected here: \"0x00ff\"",
        KeyType::Date => "a day is expected here: \"2024-02-29\"",
        KeyType::Timestamp => {
            "a point in time in UTC, of whole microseconds, is expected here: \"2024-02-29T12:00:00Z\""
        }
    })
}

fn integer(text: &str) -> Option<ShardKey<'static>> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    match text.parse::<i128>() {
        Ok(number) => Some(ShardKey::Integer(number)),
        Err(_) => text.parse::<u128>().ok().map(ShardKey::from),
    }
}

fn hexadecimal(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| {
        char::from(byte)
            .to_digit(16)
            .and_then(|digit| u8::try_from(digit).ok())
    };
    text.as_bytes()
        .chunks(2)
        .map(|pair| match pair {
            [high, low] => Some((digit(*high)? << 4) | digit(*low)?),
            _ => None,
        })
        .collect()
}

fn uuid(text: &str) -> Option<ShardKey<'static>> {
    let dashes = text.len() == 36
        && [8, 13, 18, 23]
            .iter()
            .all(|at| text.as_bytes()[*at] == b'-');
    if !dashes && text.len() != 32 {
        return None;
    }
    let digits = if dashes {
        text.replace('-', "")
    } else {
        text.to_owned()
    };
    let bytes: [u8; 16] = hexadecimal(&digits)?.try_into().ok()?;
    Some(ShardKey::Uuid(bytes))
}

/// Days since 1970-01-01 of a day `2024-02-29`.
fn date(text: &str) -> Option<i64> {
    let (year, rest) = text.split_once('-')?;
    let (month, day) = rest.split_once('-')?;
    let (year, month, day) = (number(year, 4)?, number(month, 2)?, number(day, 2)?);
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let length = match month {
        2 => 28 + i64::from(leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    if !(1..=length).contains(&day) {
        return None;
    }
    // Years that begin in March, so that the leap day is the last one: "days from civil" of
    // https://howardhinnant.github.io/date_algorithms.html
    let year = if month > 2 { year } else { year - 1 };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = of_era * 365 + of_era / 4 - of_era / 100 + of_year;
    Some(era * 146_097 + day_of_era - 719_468)
}

/// Microseconds since 1970 of a point in time `2024-02-29T12:00:00.123456Z`.
fn timestamp(text: &str) -> Option<i64> {
    let (day, time) = text.strip_suffix('Z')?.split_once(['T', ' '])?;
    let (time, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let mut parts = time.split(':');
    let (hour, minute, second) = (
        number(parts.next()?, 2)?,
        number(parts.next()?, 2)?,
        number(parts.next()?, 2)?,
    );
    if parts.next().is_some() || hour > 23 || minute > 59 || second > 59 || fraction.len() > 6 {
        return None;
    }
    let micros = number(&format!("{fraction:0<6}"), 6)?;
    Some((date(day)? * 86_400 + hour * 3_600 + minute * 60 + second) * 1_000_000 + micros)
}

fn number(digits: &str, length: usize) -> Option<i64> {
    let sound = digits.len() == length && digits.bytes().all(|byte| byte.is_ascii_digit());
    sound.then(|| digits.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use figment::value::{Num, Tag};

    use super::*;

    fn text(text: &str, key: KeyType) -> Option<ShardKey<'static>> {
        parse(&Value::String(Tag::Default, text.into()), key).ok()
    }

    #[test]
    fn a_key_is_written_as_it_is_shown() {
        for (key, written) in [
            (KeyType::Integer, "-170141183460469231731687303715884105728"),
            (KeyType::Integer, "340282366920938463463374607431768211455"),
            (KeyType::Integer, "0"),
            (KeyType::Uuid, "67e55044-10b1-426f-9247-bb680e5fe0c8"),
            (KeyType::Bytes, "0x00ff"),
            (KeyType::Date, "1970-01-01"),
            (KeyType::Date, "2024-02-29"),
            (KeyType::Date, "1900-02-28"),
            (KeyType::Date, "0001-03-01"),
            (KeyType::Date, "9999-12-31"),
            (KeyType::Timestamp, "2024-02-29T12:34:56.123456Z"),
            (KeyType::Timestamp, "1969-12-31T23:59:59.999999Z"),
        ] {
            let read = text(written, key).map(|key| key.to_string());
            assert_eq!(read.as_deref(), Some(written), "{key}");
        }
        assert_eq!(
            text("67E5504410B1426F9247BB680E5FE0C8", KeyType::Uuid),
            text("67e55044-10b1-426f-9247-bb680e5fe0c8", KeyType::Uuid),
        );
        let number = Value::Num(Tag::Default, Num::I64(7));
        assert_eq!(parse(&number, KeyType::Integer), Ok(ShardKey::Integer(7)));
        assert!(parse(&number, KeyType::Text).is_err());
    }

    #[test]
    fn what_is_no_key_is_refused() {
        for (key, written) in [
            (KeyType::Integer, "1.5"),
            (KeyType::Integer, "+1"),
            (KeyType::Integer, ""),
            (KeyType::Integer, "-"),
            (KeyType::Uuid, "67e55044"),
            (KeyType::Uuid, "zze55044-10b1-426f-9247-bb680e5fe0c8"),
            (KeyType::Uuid, "67e55044-10b1-426f-9247-bb680e5fe0cé"),
            (KeyType::Bytes, "00ff"),
            (KeyType::Bytes, "0x0"),
            (KeyType::Date, "2023-02-29"),
            (KeyType::Date, "1900-02-29"),
            (KeyType::Date, "2024-13-01"),
            (KeyType::Date, "2024-1-1"),
            (KeyType::Timestamp, "2024-02-29T12:34:56"),
            (KeyType::Timestamp, "2024-02-29T12:34:56.1234567Z"),
            (KeyType::Timestamp, "2024-02-29T24:00:00Z"),
        ] {
            assert_eq!(text(written, key), None, "{key} {written}");
        }
    }
}
