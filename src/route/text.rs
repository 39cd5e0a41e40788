//! The text form of a route: `v1;shard=order-0`.
//!
//! A workload class follows as `;class=batch`. Fields are separated by `;`, values are
//! percent-encoded. `read` and `tables` are reserved in version 1: a reader that does not know what to do with them must refuse the route
//! rather than run it without.

use std::fmt;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use super::Route;
use crate::error::Error;
use crate::topology::Topology;

const VERSION: &str = "v1";
const RESERVED: [&str; 2] = ["read", "tables"];
const VALUE: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.');

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{VERSION};shard={}",
            utf8_percent_encode(self.shard().as_str(), VALUE)
        )?;
        match self.workload_class() {
            Some(class) => write!(f, ";class={}", utf8_percent_encode(class.as_str(), VALUE)),
            None => Ok(()),
        }
    }
}

impl serde::Serialize for Route {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Reads a route's text form and checks it against the topology of today.
pub(crate) fn parse(topology: &Topology, text: &str) -> Result<Route, Error> {
    let (shard, class) = fields_of(text).map_err(|reason| Error::InvalidRoute {
        // The text may come from a stranger: what is shown of it is bounded.
        text: text.chars().take(128).collect(),
        reason,
    })?;
    let at = topology.with_current(|snapshot| snapshot.locate(&shard))?;
    let route = Route::new(topology.clone(), at);
    match class {
        Some(class) => route.workload(class),
        None => Ok(route),
    }
}

fn fields_of(text: &str) -> Result<(String, Option<String>), &'static str> {
    let mut fields = text.split(';');
    if fields.next() != Some(VERSION) {
        return Err("it does not start with a version this release knows (v1)");
    }
    let (mut shard, mut class) = (None, None);
    for field in fields {
        let (name, value) = field
            .split_once('=')
            .ok_or("a field has no value (fields look like shard=order-0)")?;
        let field = match name {
            "shard" => Some(&mut shard),
            "class" => Some(&mut class),
            _ => None,
        };
        if let Some(field) = field {
            let value = percent_decode_str(value)
                .decode_utf8()
                .map_err(|_| "a value is not UTF-8")?
                .into_owned();
            if field.replace(value).is_some() {
                return Err("it names a field twice");
            }
        } else if RESERVED.contains(&name) {
            return Err("it has a field that this release cannot honour");
        } else {
            return Err("it has a field that version 1 does not know");
        }
    }
    Ok((shard.ok_or("it names no shard")?, class))
}
