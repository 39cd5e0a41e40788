//! `diesel-sharded`: the command line over the library's public API.
//!
//! Each subcommand has a file of its own under `command/`. What a command decides or does to a
//! database is the library's; here arguments are read and answers are shown.

mod cli;
mod command;
mod context;
mod exit;
mod failure;
mod keys;
mod output;
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
mod selection;

use std::process::ExitCode;

use clap::Parser;

use cli::Cli;
use context::Context;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => refused(&error),
    };
    let context = Context::new(cli.global);
    let result = cli.command.run(&context);
    context.finish(result).into()
}

/// What clap has to say: help on standard output, or an error as clap tells it. A machine that has asked for
/// events gets one of that as well.
fn refused(error: &clap::Error) -> ! {
    if error.use_stderr() && context::asks_for_json(std::env::args_os().skip(1)) {
        context::tell_usage_error(&error.render().to_string());
    }
    error.exit()
}
