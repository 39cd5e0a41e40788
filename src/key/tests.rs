use std::sync::Arc;

use proptest::prelude::*;
use xxhash_rust::xxh3;

use super::*;

fn hash(key: impl ToShardKey) -> u64 {
    key.to_shard_key()
        .value()
        .expect("a key with a value")
        .hash(0)
}

fn canonical(key: impl ToShardKey) -> Vec<u8> {
    let key = key.to_shard_key();
    key.value().expect("a key with a value").canonical_bytes()
}

#[test]
fn d04_one_number_is_one_key_in_every_width() {
    let seven = 7i64.to_shard_key();
    let same = [
        7i8.to_shard_key(),
        7i16.to_shard_key(),
        7i32.to_shard_key(),
        7i128.to_shard_key(),
        7isize.to_shard_key(),
        7u8.to_shard_key(),
        7u16.to_shard_key(),
        7u32.to_shard_key(),
        7u64.to_shard_key(),
        7u128.to_shard_key(),
        7usize.to_shard_key(),
    ];
    for key in same {
        assert_eq!(key, seven);
    }
    let minus_one = (-1i64).to_shard_key();
    let same = [
        (-1i8).to_shard_key(),
        (-1i16).to_shard_key(),
        (-1i32).to_shard_key(),
        (-1i128).to_shard_key(),
        (-1isize).to_shard_key(),
    ];
    for key in same {
        assert_eq!(key, minus_one);
    }
    assert_ne!(u64::MAX.to_shard_key(), minus_one);
    let id = std::num::NonZeroU32::new(7).expect("not zero");
    assert_eq!(id.to_shard_key(), seven);
    let big = std::num::NonZeroU128::MAX;
    assert_eq!(big.to_shard_key(), u128::MAX.to_shard_key());
}

#[test]
fn wrapped_values_are_the_same_key() {
    let text = "abc".to_shard_key();
    for key in [
        String::from("abc").to_shard_key(),
        (&"abc").to_shard_key(),
        Box::<str>::from("abc").to_shard_key(),
        Arc::<str>::from("abc").to_shard_key(),
        std::rc::Rc::new("abc").to_shard_key(),
        Cow::Borrowed("abc").to_shard_key(),
        Some("abc").to_shard_key(),
        Some(Some(&"abc")).to_shard_key(),
        text.to_shard_key(),
    ] {
        assert_eq!(key, text);
    }
    let bytes = b"abc".to_shard_key();
    for key in [
        vec![97u8, 98, 99].to_shard_key(),
        b"abc"[..].to_shard_key(),
        Cow::Borrowed(&b"abc"[..]).to_shard_key(),
    ] {
        assert_eq!(key, bytes);
    }
    assert_ne!(text, bytes);
    assert_eq!(text.clone().into_owned(), text);
    assert_eq!(bytes.clone().into_owned().borrowed(), bytes);
}

#[test]
fn numbers_beyond_i128_are_keys_of_their_own() {
    let edge = i128::MAX as u128;
    assert_eq!(edge.to_shard_key(), i128::MAX.to_shard_key());
    assert!(matches!((edge + 1).to_shard_key(), ShardKey::BigInteger(_)));
    // The same 128 bits, read as signed.
    assert_ne!(canonical(edge + 1), canonical(i128::MIN));
    assert_ne!(canonical(u128::MAX), canonical(-1));
    assert_eq!(canonical(u128::MAX).len(), 18);
}

#[test]
fn d06_none_is_null_and_not_a_value() {
    for key in [
        None::<i64>.to_shard_key(),
        None::<String>.to_shard_key(),
        Some(None::<&str>).to_shard_key(),
    ] {
        assert_eq!(key, ShardKey::Null);
        assert_eq!(key.value(), Err(NoValue::Null));
    }
    assert_ne!("null".to_shard_key(), ShardKey::Null);
    assert_ne!("".to_shard_key(), ShardKey::Null);
}

#[test]
fn the_canonical_bytes_are_those_of_the_docs() {
    assert_eq!(canonical(1), [&[1, 1][..], &[0; 15]].concat());
    assert_eq!(canonical(-2), [&[1, 0xfe][..], &[0xff; 15]].concat());
    assert_eq!(canonical(1u128 << 127), {
        let mut bytes = [0; 18];
        (bytes[0], bytes[16]) = (1, 0x80);
        bytes
    });
    assert_eq!(canonical("é"), [2, 0xc3, 0xa9]);
    let uuid: [u8; 16] = std::array::from_fn(|i| i as u8);
    assert_eq!(canonical(ShardKey::Uuid(uuid)), [&[3][..], &uuid].concat());
    assert_eq!(canonical(uuid), [&[4][..], &uuid].concat());
    assert_eq!(canonical(ShardKey::Date(-1)), [5, 255, 255, 255, 255]);
    let second = ShardKey::Timestamp {
        micros: 1_000_000,
        sub_micro_nanos: 0,
    };
    assert_eq!(canonical(second), [6, 0x40, 0x42, 0x0f, 0, 0, 0, 0, 0]);
}

#[test]
fn keys_are_shown_as_people_write_them() {
    assert_eq!((-7).to_shard_key().to_string(), "-7");
    let max = u128::MAX.to_shard_key().to_string();
    assert_eq!(max, u128::MAX.to_string());
    assert_eq!("a\"b".to_shard_key().to_string(), r#""a\"b""#);
    let long = "é".repeat(65).to_shard_key().to_string();
    assert_eq!(long, format!("\"{}\"..", "é".repeat(64)));
    assert_eq!([0x0fu8, 0xa0].to_shard_key().to_string(), "0x0fa0");
    let uuid = 0x67e55044_10b1_426f_9247_bb680e5fe0c8u128.to_be_bytes();
    assert_eq!(
        ShardKey::Uuid(uuid).to_string(),
        "67e55044-10b1-426f-9247-bb680e5fe0c8"
    );
    for (days, shown) in [
        (0, "1970-01-01"),
        (-1, "1969-12-31"),
        (19_782, "2024-02-29"),
        (19_783, "2024-03-01"),
        (11_016, "2000-02-29"),
        (47_540, "2100-02-28"),
        (47_541, "2100-03-01"),
        (-719_162, "0001-01-01"),
    ] {
        assert_eq!(ShardKey::Date(days).to_string(), shown);
    }
    let instant = |micros, sub_micro_nanos| {
        let key = ShardKey::Timestamp {
            micros,
            sub_micro_nanos,
        };
        key.to_string()
    };
    assert_eq!(instant(-1, 0), "1969-12-31T23:59:59.999999Z");
    assert_eq!(instant(3_723_000_001, 7), "1970-01-01T01:02:03.000001007Z");
    // The ends of the range must not overflow.
    assert!(instant(i64::MIN, 0).starts_with("-290308-"));
    assert!(instant(i64::MAX, 0).starts_with("294247-"));
}

#[test]
fn key_types_are_read_back() {
    for kind in KeyType::SIMPLE {
        assert_eq!(kind.as_str().parse(), Ok(kind));
    }
    let error = "int".parse::<KeyType>().expect_err("no such word");
    assert_eq!(
        error.to_string(),
        "unknown key type \"int\": use one of integer, text, uuid, bytes, date, timestamp"
    );
}

#[cfg(feature = "uuid")]
#[test]
fn a_uuid_is_its_bytes_in_any_spelling() {
    let spellings = [
        "67e55044-10b1-426f-9247-bb680e5fe0c8",
        "67E55044-10B1-426F-9247-BB680E5FE0C8",
        "67e5504410b1426f9247bb680e5fe0c8",
        "urn:uuid:67e55044-10b1-426f-9247-bb680e5fe0c8",
    ];
    for spelling in spellings {
        let uuid: uuid::Uuid = spelling.parse().expect("a UUID");
        let bytes = 0x67e55044_10b1_426f_9247_bb680e5fe0c8u128.to_be_bytes();
        assert_eq!(uuid.to_shard_key(), ShardKey::Uuid(bytes));
    }
}

#[cfg(feature = "chrono")]
mod chrono_keys {
    use chrono::{DateTime, FixedOffset, NaiveDate, Utc};

    use super::*;

    fn at(text: &str) -> DateTime<FixedOffset> {
        DateTime::parse_from_rfc3339(text).expect("a timestamp")
    }

    #[test]
    fn dates_count_from_the_epoch() {
        let day = |y, m, d| NaiveDate::from_ymd_opt(y, m, d).expect("a date");
        assert_eq!(day(1970, 1, 1).to_shard_key(), ShardKey::Date(0));
        assert_eq!(day(1969, 12, 31).to_shard_key(), ShardKey::Date(-1));
        assert_eq!(day(2024, 2, 29).to_shard_key(), ShardKey::Date(19_782));
        for date in [NaiveDate::MIN, NaiveDate::MAX] {
            let shown = date.to_shard_key().to_string();
            assert!(shown.ends_with(&date.format("-%m-%d").to_string()));
        }
    }

    #[test]
    fn an_instant_is_one_key_in_every_zone() {
        let utc: DateTime<Utc> = at("2024-02-29T23:30:00Z").into();
        let berlin = at("2024-03-01T00:30:00+01:00");
        assert_eq!(utc.to_shard_key(), berlin.to_shard_key());
        assert_eq!(
            utc.to_shard_key().to_string(),
            "2024-02-29T23:30:00.000000Z"
        );
    }

    #[test]
    fn before_the_epoch_microseconds_round_down_and_the_rest_is_kept() {
        assert_eq!(
            at("1969-12-31T23:59:59.999999500Z").to_shard_key(),
            ShardKey::Timestamp {
                micros: -1,
                sub_micro_nanos: 500
            }
        );
    }

    #[test]
    fn what_the_database_would_round_has_no_value() {
        let fine = at("2024-02-29T23:30:00.123456789Z");
        assert_eq!(fine.to_shard_key().value(), Err(NoValue::Precision));
        let stored = at("2024-02-29T23:30:00.123456Z");
        assert!(stored.to_shard_key().value().is_ok());
        let naive = stored.naive_utc();
        assert_eq!(naive.to_shard_key().value(), Err(NoValue::NoZone));
        assert_eq!(naive.and_utc().to_shard_key(), stored.to_shard_key());
    }

    #[test]
    fn a_leap_second_is_the_second_after_it() {
        assert_eq!(
            at("2016-12-31T23:59:60.5Z").to_shard_key(),
            at("2017-01-01T00:00:00.5Z").to_shard_key()
        );
    }

    #[test]
    fn the_ends_of_chronos_range_are_keys() {
        for instant in [DateTime::<Utc>::MIN_UTC, DateTime::<Utc>::MAX_UTC] {
            let _ = instant.to_shard_key().to_string();
        }
    }
}

proptest! {
    #[test]
    fn equal_numbers_are_equal_keys(number: i64) {
        prop_assert_eq!(hash(number), hash(i128::from(number)));
        if let Ok(narrow) = i16::try_from(number % 40_000) {
            prop_assert_eq!(hash(narrow), hash(number % 40_000));
        }
        if let Ok(unsigned) = u64::try_from(number) {
            prop_assert_eq!(hash(number), hash(unsigned));
            prop_assert_eq!(hash(number), hash(u128::from(unsigned)));
        }
    }

    #[test]
    fn the_hash_is_that_of_the_canonical_bytes(
        number: i128, big: u128, narrow: i64, uuid: [u8; 16],
        bytes in proptest::collection::vec(any::<u8>(), 0..600),
        seed in prop_oneof![Just(0), Just(1), any::<u64>()],
    ) {
        let mut values = vec![
            KeyValue::Integer(number),
            KeyValue::Integer(narrow.into()),
            KeyValue::BigInteger(big),
            KeyValue::Uuid(&uuid),
            KeyValue::Date(narrow as i32),
            KeyValue::Timestamp(narrow),
        ];
        // Each length has a way of its own, so each is tried every time.
        values.extend((0..=bytes.len()).map(|length| KeyValue::Bytes(&bytes[..length])));
        for value in values {
            let canonical = value.canonical_bytes();
            let once = xxh3::xxh3_64_with_seed(&canonical, seed);
            prop_assert_eq!(value.hash(seed), once);
            if seed == 0 {
                prop_assert_eq!(once, xxh3::xxh3_64(&canonical));
            }
        }
    }

    #[test]
    fn streaming_and_one_shot_hash_agree(
        bytes in proptest::collection::vec(any::<u8>(), 0..1200), seed: u64, step in 1usize..300,
    ) {
        let mut stream = xxh3::Xxh3::with_seed(seed);
        bytes.chunks(step).for_each(|chunk| stream.update(chunk));
        prop_assert_eq!(stream.digest(), xxh3::xxh3_64_with_seed(&bytes, seed));
    }

    #[test]
    fn different_values_have_different_bytes(a: i128, b: u128, text in any::<String>()) {
        let text_bytes = text.as_bytes().to_vec();
        let all = [canonical(a), canonical(b), canonical(text), canonical(text_bytes)];
        for (i, one) in all.iter().enumerate() {
            for other in &all[i + 1..] {
                prop_assert!(one != other || i128::try_from(b) == Ok(a));
            }
        }
    }
}
