//! What every command works with: the global options, the configuration, the output.

use std::ffi::OsString;

use clap::Args;
use diesel_sharded::{Config, Topology};
use serde::Serialize;

use crate::exit::Exit;
use crate::failure::{CommandResult, Failure};
use crate::output::{Color, Output, OutputFormat};

/// Options that every command takes, before or after its name.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Global options")]
pub(crate) struct GlobalOptions {
    /// The configuration file [default: $DIESEL_SHARDED_CONFIG, else diesel-sharded.toml here or in
    /// a folder above]
    #[arg(long, short = 'c', global = true, value_name = "FILE")]
    config: Option<std::path::PathBuf>,

    /// The profile of the configuration [default: $DIESEL_SHARDED_PROFILE, else none]
    #[arg(long, global = true, value_name = "NAME")]
    profile: Option<String>,

    /// Print lines for people, or one JSON object per event
    #[arg(
        long,
        global = true,
        value_enum,
        default_value_t,
        hide_possible_values = true,
        value_name = "text|json"
    )]
    format: OutputFormat,

    /// When to use colours
    #[arg(
        long,
        global = true,
        value_enum,
        default_value_t,
        hide_possible_values = true,
        value_name = "auto|always|never"
    )]
    color: Color,
}

/// What every command works with.
#[derive(Debug)]
pub(crate) struct Context {
    global: GlobalOptions,
    output: Output,
}

/// An error, for machines.
#[derive(Serialize)]
struct ErrorEvent<'a> {
    event: &'static str,
    exit_code: u8,
    message: &'a str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    problems: Vec<ProblemFields<'a>>,
}

/// One problem of a configuration, for machines.
#[derive(Serialize)]
pub(crate) struct ProblemFields<'a> {
    origin: &'a str,
    key: &'a str,
    message: &'a str,
}

impl<'a> ProblemFields<'a> {
    pub(crate) fn of(problem: &'a diesel_sharded::ConfigProblem) -> Self {
        Self {
            origin: &problem.origin,
            key: &problem.key,
            message: &problem.message,
        }
    }

    /// One that stands in no file.
    pub(crate) fn said(message: &'a str) -> Self {
        Self {
            origin: "",
            key: "migrations",
            message,
        }
    }
}

impl Context {
    pub(crate) fn new(global: GlobalOptions) -> Self {
        global.color.apply();
        let output = Output::new(global.format);
        Self { global, output }
    }

    /// Where answers go.
    pub(crate) fn output(&self) -> &Output {
        &self.output
    }

    /// Loads the configuration that the options name.
    pub(crate) fn config(&self) -> Result<Config, Failure> {
        let loader = self.loader();
        let config = match &self.global.config {
            Some(path) => loader.file(path),
            None => loader.load(),
        };
        Ok(config?)
    }

    /// Loads the configuration of another file, with the same profile.
    pub(crate) fn config_at(&self, path: &std::path::Path) -> Result<Config, Failure> {
        Ok(self.loader().file(path)?)
    }

    fn loader(&self) -> diesel_sharded::ConfigLoader {
        // A migration needs no keys placed: a fleet with an algorithm of its own is a fleet, too.
        let loader = Config::loader().accept_unknown_algorithms();
        match &self.global.profile {
            Some(profile) => loader.profile(profile),
            None => loader,
        }
    }

    /// Loads the configuration and makes its topology.
    pub(crate) fn topology(&self) -> Result<Topology, Failure> {
        Ok(self.config()?.topology()?)
    }

    /// Says what went wrong, if something did, and answers how the process ends.
    pub(crate) fn finish(&self, result: CommandResult) -> Exit {
        let failure = match result {
            Ok(exit) => return exit,
            Err(failure) => failure,
        };
        let exit = failure.exit();
        let message = failure.to_string();
        self.output.error(&message);
        self.output.event(&ErrorEvent {
            event: "error",
            exit_code: exit.code(),
            message: &message,
            problems: failure.problems().iter().map(ProblemFields::of).collect(),
        });
        exit
    }
}

/// Whether a command line that clap refuses asks for JSON.
pub(crate) fn asks_for_json(args: impl Iterator<Item = OsString>) -> bool {
    let args: Vec<OsString> = args.take_while(|arg| arg != "--").collect();
    let two = args
        .windows(2)
        .any(|two| two[0] == "--format" && two[1] == "json");
    two || args.iter().any(|arg| arg == "--format=json")
}

/// What clap says in paragraphs, as one sentence after the other; a list stays together with commas.
fn one_line(text: &str) -> String {
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let paragraphs = text.split("\n\n").map(|paragraph| {
        let mut lines = paragraph.lines().map(words).filter(|line| !line.is_empty());
        let first = lines.next().unwrap_or_default();
        let rest: Vec<String> = lines.collect();
        match rest.len() {
            0 => first,
            _ => format!("{first} {}", rest.join(", ")),
        }
    });
    let told: Vec<String> = paragraphs.filter(|one| !one.is_empty()).collect();
    told.join("; ")
}

/// The event of a command line that clap refuses, made of what clap says of it.
pub(crate) fn tell_usage_error(said: &str) {
    let ends = |text: &&str| {
        !["Usage:", "For more information"]
            .iter()
            .any(|end| text.starts_with(end))
    };
    let first: Vec<&str> = said.split("\n\n").take_while(ends).collect();
    let first = first.join("\n\n");
    let message = first.strip_prefix("error: ").map_or_else(
        // Clap prints the help then.
        || "the command is incomplete: see --help".to_owned(),
        one_line,
    );
    Output::new(OutputFormat::Json).event(&ErrorEvent {
        event: "error",
        exit_code: Exit::Usage.code(),
        message: &message,
        problems: Vec::new(),
    });
}
