//! The text form of a route: `v1;shard=order-0`.
//!
//! Fields are separated by `;`, values are percent-encoded. `read`, `class` and `tables` are
//! reserved in version 1: a reader that does not know what to do with them must refuse the route
//! rather than run it without.

use std::fmt;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use super::Route;
use crate::error::Error;
use crate::topology::Topology;

const VERSION: &str = "v1";
const RESERVED: [&str; 3] = ["read", "class", "tables"];
const VALUE: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.');

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{VERSION};shard={}",
            utf8_percent_encode(self.shard().as_str(), VALUE)
        )
    }
}

impl serde::Serialize for Route {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Reads a route's text form and checks it against the topology of today.
pub(crate) fn parse(topology: &Topology, text: &str) -> Result<Route, Error> {
    let shard = shard_of(text).map_err(|reason| Error::InvalidRoute {
        // The text may come from a stranger: what is shown of it is bounded.
        text: text.chars().take(128).collect(),
        reason,
    })?;
    let at = topology.with_current(|snapshot| snapshot.locate(&shard))?;
    Ok(Route::new(topology.clone(), at))
}

fn shard_of(text: &str) -> Result<String, &'static str> {
    let mut fields = text.split(';');
    if fields.next() != Some(VERSION) {
        return Err("it does not start with a version this release knows (v1)");
    }
    let mut shard = None;
    for field in fields {
        let (name, value) = field
            .split_once('=')
            .ok_or("a field has no value (fields look like shard=order-0)")?;
        if name == "shard" {
            let value = percent_decode_str(value)
                .decode_utf8()
                .map_err(|_| "the shard is not UTF-8")?
                .into_owned();
            if shard.replace(value).is_some() {
                return Err("it names two shards");
            }
        } else if RESERVED.contains(&name) {
            return Err("it has a field that this release cannot honour");
        } else {
            return Err("it has a field that version 1 does not know");
        }
    }
    shard.ok_or("it names no shard")
}
