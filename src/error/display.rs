//! How parts of errors are shown.

use std::fmt;
use std::time::Duration;

use crate::name::ShardName;

pub(super) struct Names<'a, T>(pub(super) &'a [T]);

impl<T: fmt::Display> fmt::Display for Names<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        /// A fleet of a thousand shards must not fill a log line.
        const SHOWN: usize = 16;
        if self.0.is_empty() {
            return f.write_str("none");
        }
        for (i, name) in self.0.iter().take(SHOWN).enumerate() {
            write!(f, "{}{name}", if i == 0 { "" } else { ", " })?;
        }
        match self.0.len().saturating_sub(SHOWN) {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

pub(super) struct Covered<'a>(pub(super) &'a Option<String>);

impl fmt::Display for Covered<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(covered) => write!(f, ": {covered}"),
            None => Ok(()),
        }
    }
}

pub(super) struct DidYouMean<'a, T>(pub(super) &'a Option<T>);

impl<T: fmt::Display> fmt::Display for DidYouMean<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(name) => write!(f, ", did you mean {name}?"),
            None => Ok(()),
        }
    }
}

pub(super) struct Held<'a>(pub(super) &'a [ShardName]);

impl fmt::Display for Held<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return Ok(());
        }
        write!(
            f,
            " (the waiting scope holds a transaction on {})",
            Names(self.0)
        )
    }
}

pub(super) struct OnShard<'a>(pub(super) &'a Option<ShardName>);

impl fmt::Display for OnShard<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(name) => write!(f, " on shard {name}"),
            None => Ok(()),
        }
    }
}

pub(super) struct Millis(pub(super) Duration);

impl fmt::Display for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ms", self.0.as_millis())
    }
}

/// What to do about a statement that is not rewritten.
pub(super) struct WayOut<'a>(pub(super) &'a str);

impl fmt::Display for WayOut<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return Ok(());
        }
        write!(
            f,
            "; write the physical names, or split the statement: {}",
            self.0
        )
    }
}
