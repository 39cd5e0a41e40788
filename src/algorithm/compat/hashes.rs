//! The hashes of PgCat, Vitess and SPQR.

use std::io::Cursor;

use des::Des;
use des::cipher::{BlockCipherEncrypt, KeyInit};
use sha1::{Digest, Sha1};

/// PgCat's `sha1`: the last 4 bytes of the digest of the number's decimal text.
pub(super) fn pgcat_sha1(number: i64, shards: u32) -> u32 {
    let digest: [u8; 20] = Sha1::digest(number.to_string().as_bytes()).into();
    let [.., a, b, c, d] = digest;
    u32::from_be_bytes([a, b, c, d]) % shards.max(1)
}

/// The keyspace id of Vitess's `hash`: DES with a null key over the number, big-endian.
pub(super) fn vitess_hash(number: u64) -> u64 {
    let mut block = number.to_be_bytes().into();
    Des::new(&[0; 8].into()).encrypt_block(&mut block);
    u64::from_be_bytes(block.into())
}

/// The keyspace id of Vitess's `xxhash`: XXH64, its bytes from the lowest on.
pub(super) fn vitess_xxhash(bytes: &[u8]) -> u64 {
    xxhash_rust::xxh64::xxh64(bytes, 0).swap_bytes()
}

/// SPQR's `murmur` of a number: murmur3 of 32 bits over its varint, padded to 8 bytes, or
/// to 10 where it is longer than that.
pub(super) fn spqr_murmur(number: i64) -> u32 {
    let mut text = Vec::with_capacity(10);
    let mut rest = number as u64;
    while rest >= 0x80 {
        text.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    text.push(rest as u8);
    text.resize(if text.len() <= 8 { 8 } else { 10 }, 0);
    // Reading from memory cannot fail.
    murmur3::murmur3_32(&mut Cursor::new(text), 0).unwrap_or_default()
}
