//! `verify [KEYSPACE [TABLE]]`: whether rows are where the rule places them.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use diesel_sharded::Topology;
use diesel_sharded::blocking::{
    Finding, KeyPlaces, VerifyOptions, VerifyProgress, VerifyReport, VerifyState, find_key, verify,
};
use diesel_sharded::migrate::AnyConnection;
use indicatif::{HumanCount, ProgressBar, ProgressState, ProgressStyle};
use serde::Serialize;

use crate::context::Context;
use crate::exit::Exit;
use crate::failure::{CommandResult, Failure};
use crate::output::{BAD, DOUBTFUL, GOOD, counted, styled};

#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  diesel-sharded verify                                every keyspace that declares tables
  diesel-sharded verify orders t_order
  diesel-sharded verify orders --rate unlimited
  diesel-sharded verify orders --resume verify.json    stop it, and go on later with the same command
  diesel-sharded verify orders --key 42                where are the rows of this one key, really?

Reads the key column of every row, in its order, on the primary node of every shard. Sessions refuse \
to write. Lists rows that are not where the rule places them, keys in two places, and rows without a \
key. With --key, a key for which the rule has no place is looked for all the same. A SQLite file that is \
not there is not made. Exits with 0 where all is well, 1 where a shard could not be read, 3 where \
something was found.")]
pub(crate) struct Args {
    /// The keyspace [default: all that declare tables]
    keyspace: Option<String>,

    /// The table, by its logical name [default: all of the keyspace]
    table: Option<String>,

    /// Look for the rows of this key alone, on every shard
    #[arg(
        long,
        value_name = "KEY",
        requires = "keyspace",
        allow_hyphen_values = true
    )]
    key: Option<String>,

    /// The most rows that are read from one shard in a second, or `unlimited`
    #[arg(long, value_name = "ROWS", default_value = "50000", value_parser = rate)]
    rate: Rate,

    /// How many shards to read at the same time
    #[arg(long, short = 'p', value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..))]
    parallel: u16,

    /// How many findings to list; the others are counted
    #[arg(long, value_name = "N", default_value_t = 1000)]
    max_findings: usize,

    /// A file that remembers how far this run has come; where it is there, the run goes on from there
    #[arg(
        long,
        value_name = "FILE",
        requires = "keyspace",
        conflicts_with = "key"
    )]
    resume: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug)]
struct Rate(Option<u32>);

fn rate(text: &str) -> Result<Rate, String> {
    if text == "unlimited" {
        return Ok(Rate(None));
    }
    match text.parse() {
        Ok(rows) if rows > 0 => Ok(Rate(Some(rows))),
        _ => Err("a number of rows from 1 on, or `unlimited`".to_owned()),
    }
}

#[derive(Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
enum Event<'a> {
    VerifyFinding {
        keyspace: &'a str,
        #[serde(flatten)]
        row: &'a Finding,
    },
    VerifyFinished {
        keyspace: &'a str,
        rows: u64,
        tables: u64,
        findings: u64,
        failed: &'a [(String, String)],
    },
    KeyPlaces(&'a KeyPlaces),
}

pub(crate) fn run(args: &Args, context: &Context) -> CommandResult {
    let topology = context.topology()?;
    let mut options = VerifyOptions::new()
        .rows_per_second(args.rate.0)
        .parallel(usize::from(args.parallel))
        .keep(args.max_findings);
    if let Some(table) = &args.table {
        options = options.table(table);
    }
    if let (Some(keyspace), Some(key)) = (&args.keyspace, &args.key) {
        return one_key(&topology, keyspace, key, &options, context);
    }
    let keyspaces: Vec<String> = match &args.keyspace {
        Some(name) => vec![name.clone()],
        None => with_tables(&topology)?,
    };
    if keyspaces.is_empty() {
        return Err(Failure::usage(
            "no keyspace declares tables: say in `tables` which there are, and their key columns",
        ));
    }
    let (mut worst, mut refused) = (Exit::Done, None);
    for keyspace in &keyspaces {
        let exit = match whole(
            &topology,
            keyspace,
            &options,
            args.resume.as_deref(),
            context,
        ) {
            // Where all are asked for, one that cannot be verified does not keep the others from it.
            Err(failure) if args.keyspace.is_none() && failure.exit() == Exit::Usage => {
                refused.get_or_insert(failure);
                continue;
            }
            exit => exit?,
        };
        // A shard that could not be read weighs more than what the others have shown.
        worst = match (worst, exit) {
            (Exit::ShardFailed, _) | (_, Exit::ShardFailed) => Exit::ShardFailed,
            (Exit::Found, _) | (_, Exit::Found) => Exit::Found,
            _ => Exit::Done,
        };
    }
    match refused {
        Some(failure) if worst == Exit::Done => Err(failure),
        Some(failure) => {
            context.output().error(failure);
            Ok(worst)
        }
        None => Ok(worst),
    }
}

fn with_tables(topology: &Topology) -> Result<Vec<String>, Failure> {
    let mut names = Vec::new();
    for keyspace in topology.keyspaces() {
        if !topology.tables(keyspace)?.is_empty() {
            names.push(keyspace.to_string());
        }
    }
    Ok(names)
}

fn whole(
    topology: &Topology,
    keyspace: &str,
    options: &VerifyOptions,
    resume: Option<&Path>,
    context: &Context,
) -> Result<Exit, Failure> {
    let mut options = options.clone();
    if let Some(state) = resume.map(read_state).transpose()?.flatten() {
        if state.keyspace != keyspace {
            return Err(Failure::usage(format!(
                "the file of --resume is that of keyspace {}: take another file, or remove it",
                state.keyspace
            )));
        }
        // The fingerprint is of the rule and the tables together.
        if state.fingerprint
            != topology
                .describe_keyspace(keyspace)?
                .fingerprint
                .to_string()
        {
            context.output().error(format!(
                "{}: the state is that of another rule or configuration of keyspace {keyspace}, so this run begins anew",
                resume.map(Path::display).map(|path| path.to_string()).unwrap_or_default()
            ));
        }
        options = options.resume(state);
    }
    if let Some(path) = resume {
        check_writable(path)?;
    }
    let bar = if std::io::stderr().is_terminal() && !context.output().is_json() {
        ProgressBar::new_spinner()
    } else {
        ProgressBar::hidden()
    };
    if let Ok(style) =
        ProgressStyle::with_template("{spinner} {human_pos} rows  {rate}  {wide_msg}")
    {
        let rate = |state: &ProgressState, text: &mut dyn std::fmt::Write| {
            // A bar that cannot be drawn is no reason to stop.
            let _ = write!(text, "{}/s", HumanCount(state.per_sec() as u64));
        };
        bar.set_style(style.with_key("rate", rate));
    }
    let written = Mutex::new(None::<Instant>);
    let unwritten = Mutex::new(None::<String>);
    let progress = |progress: &VerifyProgress<'_>| {
        bar.set_position(progress.rows);
        bar.set_message(format!(
            "{}, {}: {}",
            progress.shard,
            progress.table,
            counted(progress.findings, "finding")
        ));
        if let Some(path) = resume {
            keep(path, progress.state, &written, &unwritten);
        }
    };
    let report = verify::<AnyConnection>(topology, keyspace, &options, &progress)?;
    bar.finish_and_clear();
    let unwritten = unwritten.into_inner();
    if let Some(message) = unwritten.unwrap_or_else(std::sync::PoisonError::into_inner) {
        context.output().error(message);
    }
    if let Some(path) = resume
        && report.failed.is_empty()
    {
        // Done: the next run begins anew.
        let _ = std::fs::remove_file(path);
    }
    Ok(show(&report, context))
}

/// The file that is written before it takes the place of the state.
fn beside(path: &Path) -> PathBuf {
    path.with_extension("tmp")
}

/// Fails before hours of reading whose state could not be kept.
fn check_writable(path: &Path) -> Result<(), Failure> {
    let beside = beside(path);
    let written = std::fs::write(&beside, "").and_then(|()| std::fs::remove_file(&beside));
    written.map_err(|error| {
        Failure::usage(format!(
            "{}: the state of this run cannot be kept there ({}: {error}): take another path",
            path.display(),
            beside.display()
        ))
    })
}

/// Writes the state, once a second at most; a second file is put in place of the first, so that a run
/// that dies leaves a whole one.
fn keep(
    path: &Path,
    state: &VerifyState,
    written: &Mutex<Option<Instant>>,
    unwritten: &Mutex<Option<String>>,
) {
    const EVERY: Duration = Duration::from_secs(1);
    let mut written = written
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    if written.is_some_and(|at| at.elapsed() < EVERY) {
        return;
    }
    *written = Some(Instant::now());
    let beside = beside(path);
    let text = serde_json::to_vec(state).map_err(std::io::Error::other);
    let result = text
        .and_then(|text| std::fs::write(&beside, text))
        .and_then(|()| std::fs::rename(&beside, path));
    if let Err(error) = result {
        let mut unwritten = unwritten
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        unwritten.get_or_insert_with(|| {
            format!(
                "{}: the state of this run could not be kept: {error}",
                path.display()
            )
        });
    }
}

fn read_state(path: &Path) -> Result<Option<VerifyState>, Failure> {
    let text = match std::fs::read(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Failure::usage(format!("{}: {error}", path.display()))),
    };
    let state = serde_json::from_slice(&text);
    state.map(Some).map_err(|_| {
        Failure::usage(format!(
            "{} holds no state of a verification: take another file, or remove it",
            path.display()
        ))
    })
}

fn show(report: &VerifyReport, context: &Context) -> Exit {
    let output = context.output();
    for row in &report.findings {
        output.line(format_args!("{}: {row}", styled(BAD, "found")));
        output.event(&Event::VerifyFinding {
            keyspace: &report.keyspace,
            row,
        });
    }
    if report.more > 0 {
        output.line(format_args!("and {} more", report.more));
    }
    for (shard, reason) in &report.failed {
        output.line(format_args!(
            "{}: shard {shard} could not be read to the end: {reason}",
            styled(BAD, "failed")
        ));
    }
    let findings = report.findings.len() as u64 + report.more;
    let verdict = if findings > 0 {
        styled(BAD, counted(findings, "finding"))
    } else if report.failed.is_empty() {
        styled(GOOD, "all where they belong")
    } else {
        styled(DOUBTFUL, "incomplete")
    };
    output.line(format_args!(
        "keyspace {}: {} in {}, {verdict}",
        report.keyspace,
        counted(report.rows, "row"),
        counted(report.tables, "table")
    ));
    output.event(&Event::VerifyFinished {
        keyspace: &report.keyspace,
        rows: report.rows,
        tables: report.tables,
        findings,
        failed: &report.failed,
    });
    if !report.failed.is_empty() {
        Exit::ShardFailed
    } else if findings > 0 {
        Exit::Found
    } else {
        Exit::Done
    }
}

fn one_key(
    topology: &Topology,
    keyspace: &str,
    text: &str,
    options: &VerifyOptions,
    context: &Context,
) -> CommandResult {
    let described = topology.describe_keyspace(keyspace)?;
    let key = described
        .key
        .parse_key(text)
        .map_err(|error| Failure::usage(format!("keyspace {keyspace}: {error}")))?;
    let places = find_key::<AnyConnection>(topology, keyspace, &key, options)?;
    let output = context.output();
    match (&places.home, &places.nowhere) {
        (Some(home), _) => output.line(format_args!(
            "the key {} belongs to shard {home}, {}",
            places.key,
            places.home_tables.join(", ")
        )),
        (None, reason) => output.line(format_args!(
            "the rule places the key {} nowhere: {}",
            places.key,
            reason.as_deref().unwrap_or_default()
        )),
    }
    for found in &places.found {
        let verdict = if places.home.is_none() {
            styled(BAD, "without a place in the rule")
        } else if found.at_home {
            styled(GOOD, "where they belong")
        } else {
            styled(BAD, "not where they belong")
        };
        output.line(format_args!(
            "  shard {}, table {}: {}, {verdict}",
            found.shard,
            found.table,
            counted(found.rows, "row")
        ));
    }
    for row in &places.missing {
        output.line(format_args!("{}: {row}", styled(BAD, "found")));
    }
    if places.found.is_empty() {
        output.line("  no shard has rows with it");
    }
    for (shard, reason) in &places.failed {
        output.line(format_args!(
            "{}: shard {shard} could not be asked: {reason}",
            styled(BAD, "failed")
        ));
    }
    output.event(&Event::KeyPlaces(&places));
    Ok(if !places.failed.is_empty() {
        Exit::ShardFailed
    } else if !places.missing.is_empty() || places.found.iter().any(|found| !found.at_home) {
        Exit::Found
    } else {
        Exit::Done
    })
}
