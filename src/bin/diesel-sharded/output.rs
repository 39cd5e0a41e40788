//! What the process prints: lines and tables for people, one JSON object per event for machines.

use std::fmt::Display;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use anstyle::{AnsiColor, Style};
use clap::ValueEnum;
use comfy_table::{ContentArrangement, Table, presets};
use serde::Serialize;

/// The form of the answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutputFormat {
    /// Lines and tables for people.
    #[default]
    Text,
    /// One JSON object per event and line.
    Json,
}

/// When to use colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    /// On a terminal, unless NO_COLOR is set.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

impl Color {
    /// Makes it the choice of everything that is printed from now on.
    pub(crate) fn apply(self) {
        match self {
            Self::Auto => anstream::ColorChoice::Auto,
            Self::Always => anstream::ColorChoice::Always,
            Self::Never => anstream::ColorChoice::Never,
        }
        .write_global();
    }
}

/// Good news.
pub(crate) const GOOD: Style = AnsiColor::Green.on_default();
/// What deserves a look.
pub(crate) const DOUBTFUL: Style = AnsiColor::Yellow.on_default();
/// Bad news.
pub(crate) const BAD: Style = AnsiColor::Red.on_default().bold();
/// A heading.
#[cfg_attr(
    not(any(feature = "sqlite", feature = "postgres", feature = "mysql")),
    expect(dead_code, reason = "only commands that go to databases have headings")
)]
pub(crate) const STRONG: Style = Style::new().bold();

/// A text in a style; the stream drops the style where it is not wanted.
pub(crate) fn styled(style: Style, text: impl Display) -> String {
    format!("{style}{text}{style:#}")
}

/// Standard output, in one of its two forms.
#[derive(Debug)]
pub(crate) struct Output {
    format: OutputFormat,
    /// The reader has gone. The work goes on: a migration must not stop half-way because somebody
    /// looks at its first lines with `head`.
    closed: AtomicBool,
}

impl Output {
    pub(crate) fn new(format: OutputFormat) -> Self {
        Self {
            format,
            closed: AtomicBool::new(false),
        }
    }

    /// Whether machines read along.
    pub(crate) fn is_json(&self) -> bool {
        self.format == OutputFormat::Json
    }

    /// One line for people; nothing under `--format json`.
    pub(crate) fn line(&self, text: impl Display) {
        if !self.is_json() {
            self.write(format_args!("{text}\n"));
        }
    }

    /// One event for machines; nothing under `--format text`.
    pub(crate) fn event(&self, event: &impl Serialize) {
        if self.is_json() {
            match serde_json::to_string(event) {
                Ok(text) => self.write(format_args!("{text}\n")),
                Err(error) => self.error(format_args!("an event could not be written: {error}")),
            }
        }
    }

    /// A table for people; nothing under `--format json`.
    pub(crate) fn table(&self, table: &Table) {
        for row in table.lines() {
            self.line(row.trim_end());
        }
    }

    /// Text as it is, whatever the format: a completion script, a man page.
    pub(crate) fn raw(&self, bytes: &[u8]) {
        let result = io::stdout().lock().write_all(bytes);
        self.noticed(result);
    }

    /// A warning, on standard error.
    #[cfg_attr(
        not(any(feature = "sqlite", feature = "postgres", feature = "mysql")),
        expect(dead_code, reason = "only commands that go to databases warn")
    )]
    pub(crate) fn warning(&self, text: impl Display) {
        self.aside(styled(DOUBTFUL, "warning"), text);
    }

    /// Lines on standard error, beside an answer that may be piped.
    #[cfg_attr(
        not(any(feature = "sqlite", feature = "postgres", feature = "mysql")),
        expect(dead_code, reason = "only commands that go to databases need it")
    )]
    pub(crate) fn aside_lines(&self, lines: &[String]) {
        for line in lines {
            let _ = writeln!(anstream::stderr().lock(), "{line}");
        }
    }

    /// An error, on standard error.
    pub(crate) fn error(&self, text: impl Display) {
        self.aside(styled(BAD, "error"), text);
    }

    fn aside(&self, word: String, text: impl Display) {
        // Nobody is left to be told that standard error is closed.
        let _ = writeln!(anstream::stderr().lock(), "{word}: {text}");
    }

    fn write(&self, text: std::fmt::Arguments<'_>) {
        if !self.closed.load(Ordering::Relaxed) {
            let mut stdout = anstream::stdout().lock();
            self.noticed(stdout.write_fmt(text).and_then(|()| stdout.flush()));
        }
    }

    fn noticed(&self, result: io::Result<()>) {
        if let Err(error) = result
            && !self.closed.swap(true, Ordering::Relaxed)
            && error.kind() != io::ErrorKind::BrokenPipe
        {
            self.error(format_args!("standard output: {error}"));
        }
    }
}

/// A count and what is counted: `1 shard`, `2 shards`.
pub(crate) fn counted<N>(count: N, what: &str) -> String
where
    N: Display + PartialEq + From<u8>,
{
    let s = if count == N::from(1) { "" } else { "s" };
    format!("{count} {what}{s}")
}

/// A table with this header: columns are as wide as what they hold, and nothing is wrapped, so that
/// `grep` and `awk` work on it.
pub(crate) fn table<I>(header: I) -> Table
where
    I: IntoIterator,
    I::Item: Into<String>,
{
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled)
        .set_header(header.into_iter().map(Into::into).collect::<Vec<String>>());
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table
}
