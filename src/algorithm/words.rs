//! Counts in words.

/// A count and what is counted: `1 key`, `2 keys`.
pub(crate) fn counted(count: u64, what: &str) -> String {
    let s = if count == 1 { "" } else { "s" };
    // Of `range of keys`, the first word is counted.
    match what.split_once(' ') {
        Some((first, rest)) if rest.starts_with("of ") => format!("{count} {first}{s} {rest}"),
        _ => format!("{count} {what}{s}"),
    }
}

/// A share in percent with two digits behind the point; what rounds to nothing has no sign.
pub(crate) fn percent(share: f64) -> String {
    let text = format!("{:.2}", share * 100.0);
    match text.strip_prefix('-') {
        Some(zero) if zero.bytes().all(|byte| matches!(byte, b'0' | b'.')) => zero.to_owned(),
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::{counted, percent};

    #[test]
    fn one_is_singular_and_nothing_has_no_sign() {
        assert_eq!(counted(0, "key"), "0 keys");
        assert_eq!(counted(1, "key"), "1 key");
        assert_eq!(counted(1, "range of keys"), "1 range of keys");
        assert_eq!(counted(2, "range of keys"), "2 ranges of keys");
        assert_eq!(counted(2, "generated key"), "2 generated keys");
        assert_eq!(percent(-0.0), "0.00");
        assert_eq!(percent(-0.000_01), "0.00");
        assert_eq!(percent(-0.5), "-50.00");
        assert_eq!(percent(0.234), "23.40");
    }
}
