//! `migration generate NAME`: the files of a new migration, as `diesel migration generate` makes them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use diesel_sharded::{Config, Topology, UrlKind};
use serde::Serialize;

use super::diesel_toml::DieselToml;
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::{CommandResult, Failure};

#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  diesel-sharded migration generate add_items
  diesel-sharded migration generate add_items --keyspace orders
  diesel-sharded migration generate index_items --no-transaction

The folder is the one of the configuration; where it names several, say which by --keyspace, --shard or \
--dir. Where it names none, it is that of diesel.toml, else `migrations`. For a folder with `{backend}` \
in it, one migration is made for every backend.")]
pub(super) struct Args {
    /// The name: letters, digits, `_` and `-`
    #[arg(value_parser = name)]
    name: String,

    /// The keyspace it is for
    #[arg(long, short = 'k', value_name = "KEYSPACE", conflicts_with_all = ["shard", "dir"])]
    keyspace: Option<String>,

    /// The shard it is for
    #[arg(long, short = 's', value_name = "SHARD", conflicts_with = "dir")]
    shard: Option<String>,

    /// The folder of migrations
    #[arg(long, value_name = "FOLDER")]
    dir: Option<PathBuf>,

    /// The version [default: the time, in UTC: 2024-02-29-123000]
    #[arg(long, value_name = "VERSION", value_parser = version)]
    version: Option<String>,

    /// Make no down.sql
    #[arg(short = 'u', long)]
    no_down: bool,

    /// Write down that it does not run in a transaction (CREATE INDEX CONCURRENTLY)
    #[arg(long)]
    no_transaction: bool,
}

#[derive(Serialize)]
struct Generated<'a> {
    event: &'static str,
    path: &'a str,
}

/// It becomes a part of a folder's name, on every operating system.
fn name(text: &str) -> Result<String, String> {
    let fits = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
    if !text.is_empty() && text.chars().all(fits) {
        Ok(text.to_owned())
    } else {
        Err("use letters, digits, `_` and `-`".to_owned())
    }
}

/// Diesel takes everything before the first `_` for the version, and drops dashes from it.
fn version(text: &str) -> Result<String, String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '-';
    if text.chars().any(|c| c.is_ascii_alphanumeric()) && text.chars().all(fits) {
        Ok(text.to_owned())
    } else {
        Err("use digits and dashes, as in 2024-02-29-123000".to_owned())
    }
}

pub(super) fn run(args: &Args, context: &Context) -> CommandResult {
    let folders = folders(args, context)?;
    let version = match &args.version {
        Some(version) => {
            if let Some(folder) = folders.iter().find(|folder| has_version(folder, version)) {
                return Err(Failure::usage(format!(
                    "version {version} is there already, in {}: leave --version out, or say another",
                    folder.display()
                )));
            }
            version.clone()
        }
        None => free_version(&folders)?,
    };
    for folder in &folders {
        let folder = folder.join(format!("{version}_{}", args.name));
        write(args, context, &folder)
            .map_err(|error| Failure::usage(format!("{}: {error}", folder.display())))?;
    }
    Ok(Exit::Done)
}

fn write(args: &Args, context: &Context, folder: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(folder)?;
    let mut files = vec![("up.sql", "-- Your SQL goes here\n")];
    if !args.no_down {
        files.push((
            "down.sql",
            "-- This file should undo anything in `up.sql`\n",
        ));
    }
    if args.no_transaction {
        files.push(("metadata.toml", "run_in_transaction = false\n"));
    }
    for (name, text) in files {
        let path = folder.join(name);
        let path_text = path.display().to_string();
        let mut file = std::fs::File::create_new(&path)?;
        std::io::Write::write_all(&mut file, text.as_bytes())?;
        context.output().line(format_args!("Creating {path_text}"));
        context.output().event(&Generated {
            event: "generated",
            path: &path_text,
        });
    }
    Ok(())
}

/// The folders the migration goes to.
fn folders(args: &Args, context: &Context) -> Result<Vec<PathBuf>, Failure> {
    if let Some(folder) = &args.dir {
        return Ok(vec![folder.clone()]);
    }
    let config = context.config()?;
    let topology = config.topology()?;
    let (configured, kinds) = configured(args, &topology)?;
    match configured.as_slice() {
        [] => Ok(vec![DieselToml::of(&config)?.migrations()]),
        [folder] => Ok(resolved(&config, folder, &kinds)),
        several => Err(Failure::usage(format!(
            "the configuration has several folders of migrations ({}): say which one by --keyspace, --shard or --dir",
            several.join(", ")
        ))),
    }
}

/// The folders that the configuration names for what was asked, and the backends of those shards.
fn configured(
    args: &Args,
    topology: &Topology,
) -> Result<(Vec<String>, BTreeSet<&'static str>), Failure> {
    let (folders, shards) = match (&args.keyspace, &args.shard) {
        (Some(keyspace), _) => {
            let keyspace = topology.describe_keyspace(keyspace)?;
            if keyspace.migrations.is_empty() {
                return Err(Failure::usage(format!(
                    "keyspace {} has no folder of migrations: say `migrations = \"..\"` in it",
                    keyspace.name
                )));
            }
            (keyspace.migrations, keyspace.shards)
        }
        (None, Some(shard)) => {
            let shard = topology.route(shard)?.shard();
            (topology.migrations(shard)?, vec![shard])
        }
        (None, None) => {
            let mut folders = BTreeSet::new();
            for shard in topology.shards() {
                folders.extend(topology.migrations(shard)?);
            }
            (folders.into_iter().collect(), topology.shards())
        }
    };
    let kinds = topology
        .nodes()
        .iter()
        .filter(|node| shards.contains(&node.shard))
        .filter_map(|node| node.url.kind())
        .map(folder_name)
        .collect();
    Ok((folders, kinds))
}

/// What `{backend}` in a folder stands for.
fn folder_name(kind: UrlKind) -> &'static str {
    match kind {
        UrlKind::Postgres => "postgres",
        UrlKind::Mysql => "mysql",
        _ => "sqlite",
    }
}

/// A folder of the configuration, once for each backend. A relative one is beside the configuration's
/// file, unless it is only found in the current folder: where the migrations are looked for, too.
fn resolved(config: &Config, folder: &str, kinds: &BTreeSet<&'static str>) -> Vec<PathBuf> {
    let base = config
        .path()
        .and_then(Path::parent)
        .unwrap_or(Path::new(""));
    let place = |folder: String| {
        let beside = base.join(&folder);
        if !beside.is_dir() && Path::new(&folder).is_dir() {
            PathBuf::from(folder)
        } else {
            beside
        }
    };
    if folder.contains("{backend}") {
        kinds
            .iter()
            .map(|kind| place(folder.replace("{backend}", kind)))
            .collect()
    } else {
        vec![place(folder.to_owned())]
    }
}

fn has_version(folder: &Path, version: &str) -> bool {
    let digits = |text: &str| text.replace('-', "");
    let Ok(entries) = std::fs::read_dir(folder) else {
        return false;
    };
    entries.flatten().any(|entry| {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let own = name.split('_').next().unwrap_or_default();
        digits(own) == digits(version)
    })
}

/// The time, or the next second that is free: two people, or a script, may be faster than the clock.
fn free_version(folders: &[PathBuf]) -> Result<String, Failure> {
    let mut time = jiff::Timestamp::now();
    loop {
        let version = time.strftime("%Y-%m-%d-%H%M%S").to_string();
        if !folders.iter().any(|folder| has_version(folder, &version)) {
            return Ok(version);
        }
        time = time
            .checked_add(jiff::SignedDuration::from_secs(1))
            .map_err(|error| Failure::usage(error.to_string()))?;
    }
}
