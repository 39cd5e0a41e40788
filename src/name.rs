//! The names of a topology: interned, so that a name is one pointer and comparing two costs nothing.

use std::collections::HashSet;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{Mutex, OnceLock, PoisonError};

/// The name of a shard that exists, or existed, in some topology of this process.
///
/// A `ShardName` is `Copy` and comes only from validated configuration: text that somebody typed
/// stays text until a topology has answered for it. A shard's identity is its name, never its
/// position in a list.
#[derive(Clone, Copy, PartialOrd, Ord)]
pub struct ShardName(&'static str);

/// The name of a keyspace of some topology of this process.
#[derive(Clone, Copy, PartialOrd, Ord)]
pub struct KeyspaceName(&'static str);

/// The name of a workload class of some topology of this process.
#[derive(Clone, Copy, PartialOrd, Ord)]
pub struct WorkloadName(&'static str);

macro_rules! interned {
    ($name:ident) => {
        impl $name {
            /// Interns a validated name.
            ///
            /// The text lives as long as the process. Only validated configuration reaches this
            /// function, so what it keeps is bounded by the names that were ever configured.
            pub(crate) fn intern(name: &str) -> Self {
                Self(intern(name))
            }

            /// The name as text.
            #[must_use]
            pub fn as_str(&self) -> &'static str {
                self.0
            }
        }

        /// Interned names are equal exactly where they are the same text in memory.
        impl PartialEq for $name {
            fn eq(&self, other: &Self) -> bool {
                std::ptr::eq(self.0, other.0)
            }
        }

        impl Eq for $name {}

        impl Hash for $name {
            fn hash<H: Hasher>(&self, state: &mut H) {
                self.0.hash(state);
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(self.0, f)
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                self.0
            }
        }

        impl PartialEq<str> for $name {
            fn eq(&self, other: &str) -> bool {
                self.0 == other
            }
        }

        impl PartialEq<&str> for $name {
            fn eq(&self, other: &&str) -> bool {
                self.0 == *other
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.0)
            }
        }
    };
}

interned!(ShardName);
interned!(KeyspaceName);
interned!(WorkloadName);

fn intern(name: &str) -> &'static str {
    static NAMES: OnceLock<Mutex<HashSet<&'static str>>> = OnceLock::new();
    let mut names = NAMES
        .get_or_init(Mutex::default)
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = names.get(name) {
        return known;
    }
    let leaked: &'static str = Box::leak(name.to_owned().into_boxed_str());
    names.insert(leaked);
    leaked
}

/// Which node of a shard a connection talks to.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Role {
    /// The node that takes the writes.
    Primary,
    /// A node that follows the primary.
    Replica,
}

impl Role {
    /// The role as a word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Primary => "primary",
            Self::Replica => "replica",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl serde::Serialize for Role {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
