//! D11: the answers of every released algorithm, compared with a file that never changes.

use super::{build, names, place};
use crate::algorithm::RuleSpec;
use crate::key::{KeyType, ShardKey, ToShardKey};

const GOLDEN: &str = include_str!("../../../tests/data/golden_keys.tsv");

const LOSS: &str = "this is a DATA-LOSS EVENT: rows that were written before are no longer found; undo the change of the code, never change the file";

fn unescape(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((plain, escape)) = rest.split_once('\\') {
        out.push_str(plain);
        rest = if let Some(escape) = escape.strip_prefix("u{") {
            let (digits, rest) = escape.split_once('}').expect("a closing brace");
            let number = u32::from_str_radix(digits, 16).expect("a code point");
            out.push(char::from_u32(number).expect("a character"));
            rest
        } else {
            out.push('\\');
            escape.strip_prefix('\\').expect("an escape")
        };
    }
    out + rest
}

fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(|byte| *byte != b'-').collect();
    let pairs = digits.chunks(2);
    pairs
        .map(|pair| {
            let pair = std::str::from_utf8(pair).expect("ascii");
            u8::from_str_radix(pair, 16).expect("two hexadecimal digits")
        })
        .collect()
}

fn key(kind: KeyType, text: &str) -> ShardKey<'static> {
    match kind {
        KeyType::Integer => match text.parse::<i128>() {
            Ok(number) => number.to_shard_key().into_owned(),
            Err(_) => {
                let number: u128 = text.parse().expect("a number");
                number.to_shard_key().into_owned()
            }
        },
        KeyType::Text => unescape(text).to_shard_key().into_owned(),
        KeyType::Uuid => ShardKey::Uuid(unhex(text).try_into().expect("16 bytes")),
        KeyType::Bytes => {
            let digits = text.strip_prefix("0x").expect("a prefix");
            unhex(digits).to_shard_key().into_owned()
        }
        KeyType::Date => ShardKey::Date(text.parse().expect("days")),
        KeyType::Timestamp => ShardKey::Timestamp {
            micros: text.parse().expect("microseconds"),
            sub_micro_nanos: 0,
        },
        KeyType::Composite(_) => panic!("the golden file has no composite keys"),
    }
}

#[test]
fn d11_golden_keys_never_move() {
    let mut seen = std::collections::HashMap::new();
    for row in GOLDEN.lines().filter(|row| !row.starts_with('#')) {
        let columns: Vec<&str> = row.split('\t').collect();
        let [
            kind,
            text,
            canonical,
            hash,
            bucket,
            spread,
            seed1,
            modulo @ ..,
        ] = columns.as_slice()
        else {
            panic!("a row of the golden file has too few columns: {row}");
        };
        let kind: KeyType = kind.parse().expect("a key type");
        *seen.entry(kind).or_insert(0) += 1;
        let key = key(kind, text);
        let value = key.value().expect("a key with a value");

        assert_eq!(value.canonical_bytes(), unhex(canonical), "{row}\n{LOSS}");
        assert_eq!(format!("{:016x}", value.hash(0)), *hash, "{row}\n{LOSS}");

        let bucket: u32 = bucket.parse().expect("a bucket");
        let spread: u64 = spread.parse().expect("a spread");
        // A shard for the bucket alone, so that the placement shows the bucket.
        let map = [
            (0..bucket, "s0"),
            (bucket..bucket + 1, "s1"),
            (bucket + 1..4096, "s2"),
        ];
        let map = map.into_iter().filter(|(range, _)| !range.is_empty());
        let hashed = build(&RuleSpec::hash(names(3), 4096).key(kind).map(map));
        let placement = place(&hashed, &key);
        assert_eq!(placement.shard(), "s1", "{row}\n{LOSS}");
        assert_eq!(placement.spread(), spread, "{row}\n{LOSS}");
        // Without a map, 8 shards own 512 buckets each.
        let even = build(&RuleSpec::hash(names(8), 4096).key(kind));
        let owner = format!("s{}", bucket / 512);
        assert_eq!(place(&even, &key).shard(), owner.as_str(), "{row}\n{LOSS}");

        let listed = build(&RuleSpec::list([("s0", [&key])]).key(kind));
        let listed = place(&listed, &key).spread();
        assert_eq!(format!("{listed:016x}"), *seed1, "{row}\n{LOSS}");

        assert_eq!(modulo.len(), 3);
        for (count, expected) in [4, 7, 32].into_iter().zip(modulo) {
            if kind != KeyType::Integer {
                assert_eq!(*expected, "-");
                continue;
            }
            let placement = place(&build(&RuleSpec::modulo(names(count))), &key);
            let found = format!("s{expected}");
            let placed = format!("{}:{}", placement.shard(), placement.spread());
            assert_eq!(placed, found, "modulo {count}: {row}\n{LOSS}");
        }
    }
    assert_eq!(seen.len(), 6);
    assert!(seen.values().all(|rows| *rows == 100), "{seen:?}\n{LOSS}");
}
