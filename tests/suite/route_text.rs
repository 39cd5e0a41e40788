//! The text form of a route: what comes back, and what is refused.

use diesel_sharded::{Error, Route};

use super::backend::{Fleet, whoami};
use crate::support::said;

#[test]
fn every_route_reads_back_from_its_own_text() {
    let names = ["a", "order-0", "dap_gp", "v1"];
    let fleet = Fleet::new(&names);
    let shards = fleet.manager();
    for name in names {
        let route = shards.route(name).unwrap();
        let text = route.to_string();
        assert_eq!(text, format!("v1;shard={name}"));
        assert!(
            text.is_ascii() && !text.contains(['\r', '\n', ' ']),
            "fit for a header"
        );
        let read = shards.parse_route(&text).unwrap();
        assert_eq!(read.shard(), name);
        let landed = read.run(|| Ok::<_, Error>(whoami(&mut shards.get()?)?));
        assert_eq!(landed.unwrap(), name);
        // The serde form is the same text.
        let json = serde_json_of(&route);
        assert_eq!(json, format!("\"{text}\""));
        // A percent-encoded spelling is the same route.
        let encoded: String = name.bytes().map(|byte| format!("%{byte:02x}")).collect();
        let read = shards.parse_route(&format!("v1;shard={encoded}")).unwrap();
        assert_eq!(read.shard(), name);
    }
}

/// Serializes a string-like value; no JSON crate is needed for that.
fn serde_json_of(route: &Route) -> String {
    serde_json::to_string(route).unwrap()
}

#[test]
fn hostile_texts_are_refused_with_bounded_words() {
    let fleet = Fleet::new(&["a"]);
    let shards = fleet.builder().default_shard("a").build().unwrap();
    let long = format!("v1;shard={}", "x".repeat(1_000_000));
    let no_version = "x".repeat(1_000_000);
    for text in [
        "",
        "a",
        "shard=a",
        "v1",
        "v1;",
        "v1;shard",
        "v1;shard=a;",
        "v1;shard=a;shard=a",
        "v1;shard=a;shard=b",
        "v1; shard=a",
        " v1;shard=a",
        "V1;shard=a",
        "v01;shard=a",
        "v1;Shard=a",
        "v1;shard=%ff%fe",
        "v1;;shard=a",
        "v1;shard=a;\r\nSet-Cookie: x=y",
        "v1\0;shard=a",
        &no_version,
    ] {
        let error = shards.parse_route(text).unwrap_err();
        assert!(matches!(error, Error::InvalidRoute { .. }), "{error:?}");
        let text = error.to_string();
        assert!(text.len() < 2_000, "{} bytes", text.len());
        assert!(!text.contains(['\r', '\n', '\0']), "{text:?}");
    }
    // Well-formed, but of a shard that is not there: never the default.
    for text in [
        "v1;shard=",
        "v1;shard=b",
        "v1;shard=%20a",
        "v1;shard=a%00",
        "v1;shard=A",
        "v1;shard=a=a",
        "v1;shard=a%0d%0aX",
        &long,
    ] {
        let error = shards.parse_route(text).unwrap_err();
        assert!(
            matches!(error, Error::UnknownShard { .. }),
            "{text:?}: {error:?}"
        );
        let text = said(&error);
        assert!(!error.to_string().contains(['\r', '\n', '\0']), "{text:?}");
        assert!(
            error.to_string().len() < 2_000,
            "{} bytes",
            error.to_string().len()
        );
    }
}

#[test]
fn fields_and_versions_of_a_later_release_are_refused_not_ignored() {
    let fleet = Fleet::new(&["a"]);
    let shards = fleet.manager();
    for text in [
        "v1;shard=a;read=replica",
        "v1;shard=a;tables=t_order:3",
        "v1;read=replica;shard=a",
        "v1;shard=a;new=1",
        "v2;shard=a",
        "v2",
        "v10;shard=a",
    ] {
        let error = shards.parse_route(text).unwrap_err();
        let Error::InvalidRoute { text: told, reason } = &error else {
            panic!("{text}: {error:?}");
        };
        assert_eq!(told, text);
        assert!(!reason.is_empty());
    }
}

#[test]
fn a_workload_class_that_is_not_configured_is_refused_with_bounded_words() {
    let fleet = Fleet::new(&["a"]);
    let shards = fleet.manager();
    let long = format!("v1;shard=a;class={}", "x".repeat(1_000_000));
    for text in ["v1;shard=a;class=batch", "v1;class=;shard=a", &long] {
        let error = shards.parse_route(text).unwrap_err();
        assert!(matches!(error, Error::UnknownWorkload { .. }), "{error:?}");
        let text = said(&error);
        assert!(text.len() < 10_000, "{} bytes", text.len());
    }
    for text in [
        "v1;shard=a;class=x;class=x",
        "v1;shard=a;class=%ff",
        "v1;shard=a;class",
    ] {
        let error = shards.parse_route(text).unwrap_err();
        assert!(matches!(error, Error::InvalidRoute { .. }), "{error:?}");
    }
}

#[test]
fn a_text_is_checked_against_the_topology_that_reads_it() {
    let (fleet, other_fleet) = (Fleet::new(&["a", "b"]), Fleet::new(&["a"]));
    let (shards, other) = (fleet.manager(), other_fleet.manager());
    let text = shards.route("b").unwrap().to_string();
    assert!(matches!(
        other.parse_route(&text),
        Err(Error::UnknownShard { .. })
    ));
    let text = shards.route("a").unwrap().to_string();
    let route = other.parse_route(&text).unwrap();
    route
        .run(|| {
            other.get()?;
            assert!(matches!(shards.get(), Err(Error::NoRoute { .. })));
            Ok::<_, Error>(())
        })
        .unwrap();
}
