//! `man`: the manual, made of the same words as `--help`.

use std::path::{Path, PathBuf};

use clap::CommandFactory;

use crate::cli::Cli;
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::{CommandResult, Failure};

#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  diesel-sharded man | man -l -
  diesel-sharded man --dir /usr/local/share/man/man1")]
pub(crate) struct Args {
    /// Write one page per command into this folder instead
    #[arg(long, value_name = "FOLDER")]
    dir: Option<PathBuf>,
}

pub(crate) fn run(args: &Args, context: &Context) -> CommandResult {
    let command = Cli::command();
    match &args.dir {
        None => {
            let mut page = Vec::new();
            let rendered = clap_mangen::Man::new(command).render(&mut page);
            rendered.map_err(|error| Failure::usage(error.to_string()))?;
            context.output().raw(&page);
        }
        Some(folder) => {
            let written = write_all(command, folder);
            written.map_err(|error| Failure::usage(format!("{}: {error}", folder.display())))?;
        }
    }
    Ok(Exit::Done)
}

fn write_all(command: clap::Command, folder: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(folder)?;
    clap_mangen::generate_to(command, folder)
}
