//! Any text at all: the rewriter does not panic, and changes nothing but table names.
//!
//! `cargo +nightly fuzz run rewrite`

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((dialect, text)) = data.split_first() else {
        return;
    };
    if let Ok(text) = std::str::from_utf8(text) {
        diesel_sharded::fuzzing::rewrite(*dialect, text);
    }
});
