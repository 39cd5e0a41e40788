//! `print_schema` of `diesel.toml`: the schema file of each keyspace, written by Diesel's own program.
//!
//! Diesel has no library that reads a schema, only the program `diesel`. It is run for one shard of
//! each keyspace, after all of them have been found to look the same.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use diesel_sharded::migrate::{Migrator, Options};
use diesel_sharded::{Config, NodeDescription, Role, ShardName, Topology};
use serde::Serialize;

use super::diesel_toml::DieselToml;
use super::fleet::load;
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::{CommandResult, Failure};

/// The tables in which this crate keeps its own records, as a filter of Diesel's names tables.
const OURS: &str = "^diesel_sharded_";

const INSTALL: &str = "install it with `cargo install diesel_cli --no-default-features --features \"postgres,sqlite,mysql\"`";

#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  diesel-sharded schema print                         write the schema files that diesel.toml names
  diesel-sharded schema print --check                 exit with 3 where one of them is out of date

Diesel's own program `diesel` does the reading, so it has to be installed. `[print_schema]` of diesel.toml \
is for a configuration with one keyspace (or none); with several, say `[print_schema.KEYSPACE]` for \
each. The tables in which diesel-sharded keeps its own records are left out. A file is written only where \
all shards of the keyspace look the same.")]
pub(crate) struct Args {
    /// Write nothing; exit with 3 where a file is not what it should be
    #[arg(long)]
    check: bool,
}

/// One schema file, and the shards whose schema it is.
struct SchemaFile {
    entry: String,
    path: PathBuf,
    shards: Vec<ShardName>,
}

#[derive(Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
enum Event<'a> {
    SchemaFile {
        file: &'a str,
        shard: &'a str,
        changed: bool,
    },
    SchemaFileFailed {
        file: &'a str,
        message: &'a str,
    },
}

/// `schema print`.
pub(crate) fn run(args: &Args, context: &Context) -> CommandResult {
    let (config, topology, migrator) = load(context)?;
    let diesel_toml = DieselToml::of(&config)?;
    let files = files(&diesel_toml, &topology)?;
    if files.is_empty() {
        return Err(Failure::usage(
            "diesel.toml names no schema file: say `file = \"src/schema.rs\"` in its `[print_schema]`",
        ));
    }
    let mut exit = Exit::Done;
    for file in files {
        agree(&migrator, &file)?;
        let changed = write(context, &diesel_toml, &topology, &file, !args.check)?;
        if args.check && changed {
            exit = Exit::Found;
        }
    }
    Ok(exit)
}

/// The schema files of a configuration, to be written after a migration. They are looked for before it: a
/// `diesel.toml` that says nonsense is found while no database is changed.
pub(super) struct SchemaFiles {
    diesel_toml: DieselToml,
    files: Vec<SchemaFile>,
}

impl SchemaFiles {
    pub(super) fn of(config: &Config, topology: &Topology) -> Result<Self, Failure> {
        let diesel_toml = DieselToml::of(config)?;
        let files = files(&diesel_toml, topology)?;
        Ok(Self { diesel_toml, files })
    }

    /// After a migration that was a success: whatever stands in the way of a schema file is a warning,
    /// since the databases are what they should be.
    pub(super) fn write(&self, context: &Context, topology: &Topology, migrator: &Migrator) {
        let output = context.output();
        for file in &self.files {
            let written = agree(migrator, file)
                .and_then(|()| write(context, &self.diesel_toml, topology, file, true));
            if let Err(failure) = written {
                let path = file.path.display().to_string();
                output.warning(format_args!("{path} was not written: {failure}"));
                output.event(&Event::SchemaFileFailed {
                    file: &path,
                    message: &failure.to_string(),
                });
            }
        }
    }
}

/// Which file is whose.
fn files(diesel_toml: &DieselToml, topology: &Topology) -> Result<Vec<SchemaFile>, Failure> {
    let mut keyspaces = BTreeMap::new();
    for name in topology.keyspaces() {
        keyspaces.insert(name.as_str(), topology.describe_keyspace(name)?.shards);
    }
    let mut files = Vec::new();
    for (entry, path) in diesel_toml.schema_files() {
        let shards = match keyspaces.get(entry.as_str()) {
            Some(shards) => shards.clone(),
            None if keyspaces.len() > 1 => {
                return Err(Failure::usage(format!(
                    "diesel.toml: [print_schema] entry {entry:?} is the name of no keyspace, and there are several: name the entries [print_schema.KEYSPACE]"
                )));
            }
            None => match keyspaces.values().next() {
                Some(shards) => shards.clone(),
                None => topology.shards(),
            },
        };
        files.push(SchemaFile {
            entry,
            path,
            shards,
        });
    }
    Ok(files)
}

/// All shards of a file have the same versions and look the same.
fn agree(migrator: &Migrator, file: &SchemaFile) -> Result<(), Failure> {
    let differ = |what: &str| Failure::Message {
        exit: Exit::ShardFailed,
        text: format!("its shards {what}"),
    };
    let options = Options::new()
        .shards(file.shards.iter().map(|shard| shard.as_str()))
        .parallel(16);
    let status = migrator.status(&options)?;
    let mut rows = status.shards.iter();
    if let Some(first) = rows.next()
        && !rows.all(|row| row.versions == first.versions && row.failures.is_empty())
    {
        return Err(differ(
            "have not the same versions: see `diesel-sharded migration status`",
        ));
    }
    if !migrator.schema(&options)?.agrees() {
        return Err(differ(
            "do not look the same: see `diesel-sharded schema diff`",
        ));
    }
    Ok(())
}

/// Whether the file was, or is, not what it should be.
fn write(
    context: &Context,
    diesel_toml: &DieselToml,
    topology: &Topology,
    file: &SchemaFile,
    write: bool,
) -> Result<bool, Failure> {
    let nodes = topology.nodes();
    let is_first = |node: &&NodeDescription| {
        node.role == Role::Primary && file.shards.first() == Some(&node.shard)
    };
    let Some(node) = nodes.iter().find(is_first) else {
        return Err(Failure::usage("it has no shard"));
    };
    let text = ask_diesel(diesel_toml, &file.entry, node)?;
    let changed = std::fs::read(&file.path).map_or(true, |old| old != text);
    let path = file.path.display().to_string();
    if changed && write {
        if let Some(folder) = file.path.parent() {
            std::fs::create_dir_all(folder)
                .map_err(|error| Failure::usage(format!("{path}: {error}")))?;
        }
        std::fs::write(&file.path, &text)
            .map_err(|error| Failure::usage(format!("{path}: {error}")))?;
    }
    let output = context.output();
    output.line(match (changed, write) {
        (true, true) => format!("{path}: written, from shard {}", node.shard),
        (true, false) => format!("{path}: not what shard {} looks like", node.shard),
        (false, _) => format!("{path}: up to date"),
    });
    output.event(&Event::SchemaFile {
        file: &path,
        shard: node.shard.as_str(),
        changed,
    });
    Ok(changed)
}

/// A file that is gone when it is not needed any more.
struct Scratch(PathBuf);

impl Scratch {
    fn new(text: &str) -> std::io::Result<Self> {
        let now = std::time::UNIX_EPOCH.elapsed().unwrap_or_default();
        let name = format!(
            "diesel-sharded-{}-{}.toml",
            std::process::id(),
            now.as_nanos()
        );
        let path = std::env::temp_dir().join(name);
        let mut file = std::fs::File::create_new(&path)?;
        let scratch = Self(path);
        file.write_all(text.as_bytes())?;
        Ok(scratch)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// What `diesel print-schema` prints for a database.
fn ask_diesel(
    diesel_toml: &DieselToml,
    entry: &str,
    node: &NodeDescription,
) -> Result<Vec<u8>, Failure> {
    let config = Scratch::new(&diesel_toml.alone(entry, OURS).to_string())
        .map_err(|error| Failure::usage(format!("a temporary file cannot be written: {error}")))?;
    let mut command = Command::new("diesel");
    command
        .arg("print-schema")
        .arg("--config-file")
        .arg(&config.0);
    // In the environment, where other users of the machine cannot read the password.
    command
        .env("DATABASE_URL", node.url.expose())
        .stdin(Stdio::null());
    let failed = |text: String| Failure::Message {
        exit: Exit::ShardFailed,
        text,
    };
    let output = command.output().map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => {
            failed(format!("the program `diesel` is not installed: {INSTALL}"))
        }
        _ => failed(format!("the program `diesel` cannot be started: {error}")),
    })?;
    if !output.status.success() {
        // What it says may hold the URL.
        return Err(failed(format!(
            "`diesel print-schema` failed ({}) for shard {}: run it by hand to see what it says",
            output.status, node.shard
        )));
    }
    Ok(output.stdout)
}
