//! `config check`: everything that is wrong at once, or what the configuration comes to.

use diesel_sharded::{Config, KeyspaceDescription, NodeDescription, TableDescription, Topology};
use serde::Serialize;

#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
use crate::command::database::DefaultFolder;
use crate::context::{Context, ProblemFields};
use crate::exit::Exit;
use crate::failure::{CommandResult, Failure};
use crate::output::{DOUBTFUL, GOOD, counted, styled, table};

pub(super) const EXAMPLES: &str = "\
Examples:
  diesel-sharded config check
  diesel-sharded config check --config fleet.yaml --profile dev
  diesel-sharded config check --format json | jq 'select(.event == \"warning\")'

Everything that is wrong is listed at once, each with the file (or environment variable) and the key. \
Migrations are read as `migration run` reads them. No database is asked, and no password is printed; \
`diesel-sharded ping` asks the databases.";

#[derive(Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
enum Event<'a> {
    Node {
        shard: &'a str,
        role: &'a str,
        url: String,
        state: &'a str,
        weight: u32,
        max_size: u32,
        migrations: Vec<String>,
    },
    Keyspace {
        keyspace: &'a str,
        key: &'a str,
        algorithm: &'a str,
        shards: Vec<&'a str>,
        fingerprint: String,
        tables: Vec<TableFields<'a>>,
        migrations: &'a [String],
    },
    Warning(ProblemFields<'a>),
    ConfigChecked {
        file: Option<String>,
        profile: Option<&'a str>,
        default_shard: Option<&'a str>,
        shards: usize,
        keyspaces: usize,
        warnings: usize,
    },
}

#[derive(Serialize)]
struct TableFields<'a> {
    table: &'a str,
    key_column: &'a str,
    count: u32,
    pattern: &'a str,
}

pub(super) fn run(context: &Context) -> CommandResult {
    let config = context.config()?;
    let topology = config.topology()?;
    #[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
    let default = crate::command::database::check_migrations(&config, &topology)?;
    // A program without any backend migrates nothing.
    #[cfg(not(any(feature = "sqlite", feature = "postgres", feature = "mysql")))]
    let default = DefaultFolder::default();
    let folders = Folders { default };
    if context.output().is_json() {
        events(context, &config, &topology, &folders)?;
    } else {
        lines(context, &config, &topology, &folders)?;
    }
    Ok(Exit::Done)
}

fn tables_of(
    topology: &Topology,
    keyspace: &KeyspaceDescription,
) -> Result<Vec<TableDescription>, Failure> {
    Ok(topology.tables(keyspace.name)?)
}

fn keyspaces(topology: &Topology) -> Result<Vec<KeyspaceDescription>, Failure> {
    let names = topology.keyspaces().into_iter();
    Ok(names
        .map(|name| topology.describe_keyspace(name))
        .collect::<Result<_, _>>()?)
}

/// Where migrations come from.
struct Folders {
    /// For every shard, where the configuration names none at all.
    default: DefaultFolder,
}

#[cfg(not(any(feature = "sqlite", feature = "postgres", feature = "mysql")))]
#[derive(Default)]
struct DefaultFolder {
    path: Option<std::path::PathBuf>,
    warning: Option<String>,
}

impl Folders {
    /// The folders of a node's migrations; only primaries are migrated.
    fn of(&self, topology: &Topology, node: &NodeDescription) -> Result<Vec<String>, Failure> {
        if node.role != diesel_sharded::Role::Primary {
            return Ok(Vec::new());
        }
        let mut folders = topology.migrations(node.shard)?;
        if let Some(default) = &self.default.path {
            let here = std::env::current_dir().unwrap_or_default();
            let shown = default.strip_prefix(here).unwrap_or(default);
            folders.push(shown.display().to_string());
        }
        Ok(folders)
    }
}

fn lines(
    context: &Context,
    config: &Config,
    topology: &Topology,
    folders: &Folders,
) -> Result<(), Failure> {
    let output = context.output();
    let mut nodes = table(["SHARD", "ROLE", "STATE", "POOL", "URL", "MIGRATIONS"]);
    for node in topology.nodes() {
        nodes.add_row([
            node.shard.to_string(),
            node.role.to_string(),
            node.state.as_str().to_owned(),
            node.max_size.to_string(),
            node.url.to_string(),
            or_dash(folders.of(topology, &node)?.join(", ")),
        ]);
    }
    output.table(&nodes);
    let keyspaces = keyspaces(topology)?;
    if !keyspaces.is_empty() {
        output.line("");
        let mut rows = table([
            "KEYSPACE",
            "KEY",
            "ALGORITHM",
            "SHARDS",
            "TABLES",
            "FINGERPRINT",
        ]);
        for keyspace in &keyspaces {
            let tables: Vec<String> = tables_of(topology, keyspace)?
                .into_iter()
                .map(|table| {
                    let named = match table.pattern.as_str() {
                        // Not split, but called as its only part all the same.
                        "{name}_{table}" if table.count == 1 => format!(" as {}_0", table.name),
                        "{name}" | "{name}_{table}" => String::new(),
                        pattern => format!(" as {pattern}"),
                    };
                    let (name, column) = (&table.name, &table.key_column);
                    if table.by_rule {
                        format!("{name} by {column}, one table per part of the rule{named}")
                    } else {
                        format!("{name} x {} by {column}{named}", table.count)
                    }
                })
                .collect();
            rows.add_row([
                keyspace.name.to_string(),
                keyspace.key.to_string(),
                keyspace.algorithm.to_owned(),
                names(&keyspace.shards),
                or_dash(tables.join(", ")),
                keyspace.fingerprint.to_string(),
            ]);
        }
        output.table(&rows);
    }
    output.line("");
    for warning in config.warnings() {
        output.line(format_args!("{}: {warning}", styled(DOUBTFUL, "warning")));
    }
    if let Some(warning) = &folders.default.warning {
        output.line(format_args!("{}: {warning}", styled(DOUBTFUL, "warning")));
    }
    output.line(format_args!(
        "{}: {}{}: {}, {}, {}",
        styled(GOOD, "valid"),
        config.path().map_or_else(
            || "the configuration".into(),
            |path| path.display().to_string()
        ),
        config
            .profile()
            .map_or_else(String::new, |name| format!(" (profile {name})")),
        counted(topology.shards().len(), "shard"),
        counted(keyspaces.len(), "keyspace"),
        topology.default_shard().map_or_else(
            || "no default shard".to_owned(),
            |shard| format!("default shard {shard}")
        ),
    ));
    Ok(())
}

/// A keyspace may have a thousand shards; a table cell has not the room for them.
fn names(shards: &[diesel_sharded::ShardName]) -> String {
    const SHOWN: usize = 4;
    let mut text = shards
        .iter()
        .take(SHOWN)
        .map(|shard| shard.as_str())
        .collect::<Vec<_>>()
        .join(", ");
    if shards.len() > SHOWN {
        text = format!("{text}, .. ({})", shards.len());
    }
    text
}

fn or_dash(text: String) -> String {
    if text.is_empty() {
        "-".to_owned()
    } else {
        text
    }
}

fn events(
    context: &Context,
    config: &Config,
    topology: &Topology,
    folders: &Folders,
) -> Result<(), Failure> {
    let output = context.output();
    for node in topology.nodes() {
        output.event(&Event::Node {
            shard: node.shard.as_str(),
            role: node.role.as_str(),
            url: node.url.to_string(),
            state: node.state.as_str(),
            weight: node.weight,
            max_size: node.max_size,
            migrations: folders.of(topology, &node)?,
        });
    }
    let keyspaces = keyspaces(topology)?;
    for keyspace in &keyspaces {
        let tables = tables_of(topology, keyspace)?;
        output.event(&Event::Keyspace {
            keyspace: keyspace.name.as_str(),
            key: keyspace.key.as_str(),
            algorithm: keyspace.algorithm,
            shards: keyspace.shards.iter().map(|shard| shard.as_str()).collect(),
            fingerprint: keyspace.fingerprint.to_string(),
            tables: tables
                .iter()
                .map(|table| TableFields {
                    table: &table.name,
                    key_column: &table.key_column,
                    count: table.count,
                    pattern: &table.pattern,
                })
                .collect(),
            migrations: &keyspace.migrations,
        });
    }
    for warning in config.warnings() {
        output.event(&Event::Warning(ProblemFields::of(warning)));
    }
    if let Some(warning) = &folders.default.warning {
        output.event(&Event::Warning(ProblemFields::said(warning)));
    }
    output.event(&Event::ConfigChecked {
        file: config.path().map(|path| path.display().to_string()),
        profile: config.profile(),
        default_shard: topology
            .default_shard()
            .as_ref()
            .map(|shard| shard.as_str()),
        shards: topology.shards().len(),
        keyspaces: keyspaces.len(),
        warnings: config.warnings().len() + usize::from(folders.default.warning.is_some()),
    });
    Ok(())
}
