//! Keys of several parts.

use std::fmt;
use std::hash::Hash;

use super::{KeyType, NoValue, ShardKey};

/// A key has as many parts as an index of a table reasonably has columns.
const MAX_PARTS: usize = 8;

/// The types of the parts of a composite key, in their order: two to eight of them.
///
/// ```
/// use diesel_sharded::{CompositeType, KeyType};
///
/// let tenant_and_user = CompositeType::new([KeyType::Text, KeyType::Integer]).unwrap();
/// assert_eq!(tenant_and_user.to_string(), "(text, integer)");
/// assert_eq!(CompositeType::new([KeyType::Text]), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CompositeType {
    /// Positions in [`KeyType::SIMPLE`], plus one; zeros follow the last part.
    parts: [u8; MAX_PARTS],
}

impl CompositeType {
    /// The composite of these types; `None` for fewer than two or more than eight, and where one of
    /// them is a composite itself.
    #[must_use]
    pub fn new(parts: impl IntoIterator<Item = KeyType>) -> Option<Self> {
        let mut codes = [0; MAX_PARTS];
        let mut count = 0;
        for part in parts {
            let code = (1u8..).zip(KeyType::SIMPLE).find(|(_, t)| *t == part)?.0;
            *codes.get_mut(count)? = code;
            count += 1;
        }
        (count >= 2).then_some(Self { parts: codes })
    }

    /// The types of the parts.
    pub fn parts(self) -> impl Iterator<Item = KeyType> {
        let codes = self.parts.into_iter().take_while(|code| *code > 0);
        codes.filter_map(|code| KeyType::SIMPLE.get(usize::from(code) - 1).copied())
    }
}

impl From<CompositeType> for KeyType {
    fn from(parts: CompositeType) -> Self {
        Self::Composite(parts)
    }
}

impl fmt::Display for CompositeType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, part) in self.parts().enumerate() {
            let before = if i == 0 { "(" } else { ", " };
            write!(f, "{before}{}", part.as_str())?;
        }
        f.write_str(")")
    }
}

/// The parts, once each is known to have a value.
pub(super) fn checked<'k>(parts: &'k [ShardKey<'k>]) -> Result<&'k [ShardKey<'k>], NoValue> {
    if !(2..=MAX_PARTS).contains(&parts.len()) {
        return Err(NoValue::Parts);
    }
    for part in parts {
        if matches!(part, ShardKey::Composite(_)) {
            return Err(NoValue::Parts);
        }
        part.value()?;
    }
    Ok(parts)
}

/// The type of checked parts.
pub(super) fn type_of(parts: &[ShardKey<'_>]) -> CompositeType {
    let types = parts.iter().filter_map(|part| part.value().ok());
    // Parts that were not checked have the type of no keyspace.
    CompositeType::new(types.map(|value| value.key_type())).unwrap_or(CompositeType {
        parts: [0; MAX_PARTS],
    })
}

/// Each part with its length before it: no two keys have the same bytes, wherever one part ends and
/// the next one begins.
pub(super) fn payload(parts: &[ShardKey<'_>]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(parts.len() * 24);
    for part in parts {
        let Ok(value) = part.value() else { continue };
        value.encode(|tag, payload| {
            // Nothing in memory that could be a key has 4 GiB.
            bytes.extend_from_slice(&(payload.len() as u32 + 1).to_le_bytes());
            bytes.push(tag);
            bytes.extend_from_slice(payload);
        });
    }
    bytes
}

pub(super) fn fmt_parts(parts: &[ShardKey<'_>], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_str("(")?;
    for (i, part) in parts.iter().enumerate() {
        write!(f, "{}{part}", if i == 0 { "" } else { ", " })?;
    }
    f.write_str(")")
}
