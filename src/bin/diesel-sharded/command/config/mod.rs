//! `config check` and `config map`: the configuration, without a database.

mod check;
mod map;

use clap::Subcommand;

use crate::context::Context;
use crate::failure::CommandResult;

#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Check the configuration and print what it comes to, without secrets
    #[command(after_help = check::EXAMPLES)]
    Check,
    /// Print the bucket map of the hash keyspaces, to write it down
    #[command(after_help = map::EXAMPLES)]
    Map(map::Args),
}

pub(crate) fn run(args: &Args, context: &Context) -> CommandResult {
    match &args.command {
        Command::Check => check::run(context),
        Command::Map(args) => map::run(args, context),
    }
}
