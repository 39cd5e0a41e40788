//! `completions SHELL`: what a shell needs to complete our words.

use clap::CommandFactory;
use clap_complete::Shell;

use crate::cli::Cli;
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::CommandResult;

#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  diesel-sharded completions bash > /etc/bash_completion.d/diesel-sharded
  diesel-sharded completions zsh > ~/.zfunc/_diesel-sharded
  diesel-sharded completions fish > ~/.config/fish/completions/diesel-sharded.fish")]
pub(crate) struct Args {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

pub(crate) fn run(args: &Args, context: &Context) -> CommandResult {
    let mut script = Vec::new();
    clap_complete::generate(
        args.shell,
        &mut Cli::command(),
        "diesel-sharded",
        &mut script,
    );
    context.output().raw(&script);
    Ok(Exit::Done)
}
