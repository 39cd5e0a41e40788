//! The commands that go to the databases. A build without any backend has none of them.

pub(crate) mod ping;

use clap::Subcommand;

use crate::context::Context;
use crate::failure::CommandResult;

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Reach every node and say what it is
    Ping(ping::Args),
}

impl Command {
    pub(crate) fn run(&self, context: &Context) -> CommandResult {
        match self {
            Self::Ping(args) => ping::run(args, context),
        }
    }
}
