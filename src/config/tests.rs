//! Area H of the cases, each as a test of its kind.

mod classes;
mod commands;
mod environment;
mod layers;
mod schema;
mod secrets;
mod strict;

use std::collections::BTreeMap;

use super::{Config, Format};
use crate::error::{ConfigProblem, Error};
use crate::topology::{Snapshot, validate};

type Variables<'a> = &'a [(&'a str, &'a str)];

fn load(text: &str, format: Format, variables: Variables<'_>) -> Result<Config, Error> {
    Config::loader()
        .environment(variables.iter().copied())
        .text(text, format)
}

fn toml(text: &str) -> Result<Config, Error> {
    load(text, Format::Toml, &[])
}

/// A configuration that has to be valid.
#[track_caller]
fn valid(text: &str, format: Format, variables: Variables<'_>) -> Config {
    match load(text, format, variables) {
        Ok(config) => config,
        Err(error) => panic!("{error}"),
    }
}

#[track_caller]
fn problems(result: Result<Config, Error>) -> Vec<ConfigProblem> {
    match result {
        Err(Error::Config(errors)) => errors.problems().to_vec(),
        other => panic!("a configuration error was expected, not {other:?}"),
    }
}

/// Asserts that there is one problem for each line, whose printed form holds all its words.
#[track_caller]
fn expect(result: Result<Config, Error>, lines: &[&[&str]]) {
    let found: Vec<String> = problems(result).iter().map(ToString::to_string).collect();
    for words in lines {
        assert!(
            found
                .iter()
                .any(|line| words.iter().all(|word| line.contains(word))),
            "{words:?} is not among {found:#?}"
        );
    }
    assert_eq!(found.len(), lines.len(), "{found:#?}");
}

/// What the configuration comes to; `Config::topology` is made of the same.
fn snapshot(config: &Config) -> Snapshot {
    validate(config.spec()).unwrap()
}

/// The URL of every primary.
fn urls(config: &Config) -> BTreeMap<String, String> {
    config
        .spec()
        .shards
        .iter()
        .map(|(name, shard)| (name.clone(), shard.url.expose().to_owned()))
        .collect()
}

fn url(config: &Config, shard: &str) -> String {
    urls(config).remove(shard).unwrap()
}

/// The decoded password in the URL of a shard; `None` where there is none.
fn password(config: &Config, shard: &str) -> Option<String> {
    let url = url(config, shard);
    let (userinfo, _) = url.strip_prefix("postgres://")?.split_once('@')?;
    let (_, password) = userinfo.split_once(':')?;
    let decoded = percent_encoding::percent_decode_str(password).decode_utf8();
    Some(decoded.unwrap().into_owned())
}
