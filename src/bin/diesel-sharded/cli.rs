//! The command line: its words, its help, its examples.

use clap::{Parser, Subcommand};

use crate::command::{completions, config, locate, man, placement, skew};
use crate::context::{Context, GlobalOptions};
use crate::exit::CODES;
use crate::failure::CommandResult;

/// One fleet of databases, run like one: migrations across every shard, checks, placement.
#[derive(Debug, Parser)]
#[command(
    name = "diesel-sharded",
    version,
    max_term_width = 100,
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = EXAMPLES,
    after_long_help = format!("{EXAMPLES}\n\n{CODES}"),
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,

    #[command(flatten)]
    pub(crate) global: GlobalOptions,
}

#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
const EXAMPLES: &str = "\
Examples:
  diesel-sharded config check               is the configuration right, and what does it come to?
  diesel-sharded ping                       are all databases there?
  diesel-sharded migration plan             what would run where?
  diesel-sharded migration run -p 8         bring every shard to its newest version, eight at a time
  diesel-sharded migration status           which shard has which versions?
  diesel-sharded locate orders 42           where do the rows of user 42 live?";

#[cfg(not(any(feature = "sqlite", feature = "postgres", feature = "mysql")))]
const EXAMPLES: &str = "\
Examples:
  diesel-sharded config check               is the configuration right, and what does it come to?
  diesel-sharded locate orders 42           where do the rows of user 42 live?";

/// What can be done. Each has a file of its own under `command/`.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// What goes to the databases
    #[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
    #[command(flatten)]
    Database(crate::command::database::Command),
    /// Check the configuration; write down its bucket map
    Config(config::Args),
    /// Say where the rows of a key live
    Locate(locate::Args),
    /// Compare the placement of two configurations
    Placement(placement::Args),
    /// Count keys by shard and table, and say why they are uneven
    Skew(skew::Args),
    /// Print a completion script for a shell
    Completions(completions::Args),
    /// Print the man page, or write the pages of all commands
    Man(man::Args),
}

impl Command {
    pub(crate) fn run(&self, context: &Context) -> CommandResult {
        match self {
            #[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
            Self::Database(command) => command.run(context),
            Self::Config(args) => config::run(args, context),
            Self::Locate(args) => locate::run(args, context),
            Self::Placement(args) => placement::run(args, context),
            Self::Skew(args) => skew::run(args, context),
            Self::Completions(args) => completions::run(args, context),
            Self::Man(args) => man::run(args, context),
        }
    }
}
