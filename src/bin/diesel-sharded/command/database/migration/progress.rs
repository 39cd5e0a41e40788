//! How a run is shown while it goes on: bars on a terminal, lines elsewhere, events for machines.

use std::collections::{BTreeMap, BTreeSet};
use std::io::IsTerminal;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use diesel_sharded::ShardName;
use diesel_sharded::migrate::{Event, Holder, Marked, Outcome, Report, ShardReport, VersionState};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use crate::command::database::report::{Advice, failure_lines, refusal_lines};
use crate::output::{BAD, DOUBTFUL, GOOD, Output, counted, styled};

/// More bars than this at the same time help nobody.
const MOST_BARS: usize = 8;

/// How often plain lines say that a shard still waits for its lock.
const WAITS_TOLD: Duration = Duration::from_secs(60);

/// Shows the events of a run.
pub(crate) struct Progress<'a> {
    output: &'a Output,
    advice: Advice,
    /// What was said last of a shard that waits: who has its lock, and how long it had waited.
    waits: Mutex<BTreeMap<ShardName, (String, Duration)>>,
    /// Warnings that were shown: what holds for every shard is said once.
    warned: Mutex<BTreeSet<String>>,
    /// Only where standard output and standard error are the same person's terminal.
    bars: Option<Bars>,
}

impl<'a> Progress<'a> {
    /// Starts showing a run that works on so many databases at a time.
    pub(crate) fn start(output: &'a Output, parallel: usize, advice: Advice) -> Self {
        let terminal = std::io::stdout().is_terminal() && std::io::stderr().is_terminal();
        let bars = (terminal && !output.is_json()).then(|| Bars::new(parallel.min(MOST_BARS)));
        Self {
            output,
            advice,
            waits: Mutex::default(),
            warned: Mutex::default(),
            bars,
        }
    }

    /// Shows one event.
    pub(crate) fn observe(&self, event: &Event) {
        self.output.event(event);
        if self.output.is_json() {
            return;
        }
        if let Some(bars) = &self.bars {
            bars.observe(event);
        }
        if let Some(line) = self.line_of(event) {
            self.say(line);
        }
    }

    /// What of an event stays on the screen. On a terminal the bars tell what is going on, so that
    /// only what came of it is left to say.
    fn line_of(&self, event: &Event) -> Option<String> {
        let plain = self.bars.is_none();
        Some(match event {
            Event::Preflight { databases } if plain => {
                format!("reaching {}", counted(*databases, "database"))
            }
            Event::Waiting {
                shard,
                holder,
                waited,
                ..
            } if plain => self.waiting(*shard, holder.as_ref(), *waited)?,
            Event::MigrationFinished {
                shard,
                name,
                direction,
                seconds,
                ..
            } if plain => format!(
                "{shard}: {name} {} ({})",
                direction.as_str(),
                humane(*seconds)
            ),
            Event::Retrying {
                shard,
                version,
                retry,
                of,
                message,
                ..
            } => format!(
                "{shard}: {}: {version} is tried again ({retry} of {of}): {message}",
                styled(DOUBTFUL, "retry")
            ),
            Event::TableDone {
                shard,
                table,
                action,
                ..
            } if plain => format!("{shard}: {table} {}", action.as_str()),
            Event::Warning { shard, message, .. } if self.is_new(message) => {
                format!("{shard}: {}: {message}", styled(DOUBTFUL, "warning"))
            }
            Event::ShardFinished(report) => finished(report)?,
            _ => return None,
        })
    }

    /// Whether a warning has not been shown yet.
    fn is_new(&self, message: &str) -> bool {
        let mut warned = self.warned.lock().unwrap_or_else(PoisonError::into_inner);
        warned.insert(message.to_owned())
    }

    /// The line of a shard that waits for its lock: once for each holder, and then rarely.
    fn waiting(
        &self,
        shard: ShardName,
        holder: Option<&Holder>,
        waited: Duration,
    ) -> Option<String> {
        let by = holder.map_or_else(|| "another runner".to_owned(), Holder::told);
        let mut waits = self.waits.lock().unwrap_or_else(PoisonError::into_inner);
        let line = match waits.get(&shard) {
            Some((who, last)) if *who == by && waited < *last + WAITS_TOLD => return None,
            Some((who, _)) if *who == by => format!(
                "{shard}: still waiting for its lock after {} s, held by {by}",
                waited.as_secs()
            ),
            _ => format!("{shard}: waiting for its lock, held by {by}"),
        };
        waits.insert(shard, (by, waited));
        Some(line)
    }

    fn say(&self, line: String) {
        match &self.bars {
            Some(bars) => bars.multi.suspend(|| self.output.line(line)),
            None => self.output.line(line),
        }
    }

    /// Takes the bars away and says what came of it all.
    pub(crate) fn finish(&self, report: &Report) {
        if let Some(bars) = &self.bars {
            bars.clear();
        }
        summarize(self.output, report, self.advice);
    }

    /// The same for a repair, which has none of the options that let a run go on.
    pub(super) fn finish_repair(&self, report: &ShardReport) {
        if let Some(bars) = &self.bars {
            bars.clear();
        }
        for failure in &report.failures {
            for line in failure_lines(report.shard, failure) {
                self.output.line(line);
            }
        }
    }
}

/// The line of a shard whose work is over; those that were not tried are counted at the end.
fn finished(report: &ShardReport) -> Option<String> {
    let names = names(report);
    if let Some(marked) = &report.marked {
        return Some(format!("{names}: {}", told(marked)));
    }
    Some(match report.outcome {
        Outcome::Done => format!(
            "{names}: {}, {} in {}",
            styled(GOOD, "done"),
            if report.tables.is_empty() {
                counted(report.ran.len(), "migration")
            } else {
                counted(report.tables.len(), "table")
            },
            humane(report.seconds)
        ),
        Outcome::UpToDate => format!("{names}: up to date"),
        Outcome::NotTried => return None,
        Outcome::Skipped => format!("{names}: {}", styled(DOUBTFUL, "skipped")),
        _ => format!(
            "{names}: {} after {}",
            styled(BAD, "FAILED"),
            humane(report.seconds)
        ),
    })
}

/// What a repair has recorded, and what that changes.
fn told(marked: &Marked) -> String {
    let Marked {
        version,
        applied,
        was,
        ..
    } = marked;
    let state = if *applied { "applied" } else { "reverted" };
    if !marked.is_change() {
        return format!(
            "{version} {}: nothing is changed",
            if *applied {
                "is recorded as applied already"
            } else {
                "is not recorded as applied"
            }
        );
    }
    let was = match was {
        VersionState::Unknown => "applied, and in no folder",
        was => was.as_str(),
    };
    let next = match (applied, marked.was) {
        (false, VersionState::Unknown) | (true, _) => "",
        (false, _) => "; `migration run` applies it again",
    };
    format!(
        "{}: {version} as {state} (it was {was}{next})",
        styled(GOOD, "recorded")
    )
}

/// The shards on one database.
fn names(report: &ShardReport) -> String {
    let mut text = report.shard.to_string();
    for shard in &report.also {
        text.push_str(", ");
        text.push_str(shard.as_str());
    }
    text
}

/// What came of a whole run: everything that failed, then the counts.
fn summarize(output: &Output, report: &Report, advice: Advice) {
    let of = |wanted: Outcome| {
        let matching = report
            .shards
            .iter()
            .filter(move |one| one.outcome == wanted);
        matching.map(names).collect::<Vec<String>>()
    };
    for shard in &report.shards {
        failures(output, shard, advice);
    }
    let not_tried = of(Outcome::NotTried);
    if !not_tried.is_empty() {
        output.line(format_args!(
            "{}: {}",
            styled(DOUBTFUL, "not tried"),
            shortened(&not_tried)
        ));
    }
    let counts: Vec<String> = [
        (Outcome::Done, "done"),
        (Outcome::UpToDate, "up to date"),
        (Outcome::Failed, "failed"),
        (Outcome::Skipped, "skipped"),
        (Outcome::NotTried, "not tried"),
    ]
    .into_iter()
    .map(|(outcome, word)| (of(outcome).len(), word))
    .filter(|(count, _)| *count > 0)
    .map(|(count, word)| format!("{count} {word}"))
    .collect();
    let style = if report.is_success() { GOOD } else { BAD };
    output.line(format_args!(
        "{}: {} in {}",
        styled(style, counted(report.shards.len(), "database")),
        counts.join(", "),
        humane(report.seconds)
    ));
}

fn failures(output: &Output, report: &ShardReport, advice: Advice) {
    for failure in &report.failures {
        let lines = if report.outcome == Outcome::Failed {
            refusal_lines(report.shard, failure, advice)
        } else {
            failure_lines(report.shard, failure)
        };
        for line in lines {
            output.line(line);
        }
    }
}

/// The first names of a long list.
fn shortened(names: &[String]) -> String {
    const SHOWN: usize = 12;
    let shown = names.iter().take(SHOWN).cloned().collect::<Vec<_>>();
    match names.len().saturating_sub(SHOWN) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

fn humane(time: Duration) -> String {
    format!("{:.2} s", time.as_secs_f64())
}

/// One bar for the whole run, and one for each of the shards that are worked on.
struct Bars {
    multi: MultiProgress,
    total: ProgressBar,
    most: usize,
    shards: Mutex<BTreeMap<ShardName, ProgressBar>>,
}

impl Bars {
    fn new(most: usize) -> Self {
        let multi = MultiProgress::new();
        let total = multi.add(ProgressBar::new(0).with_style(style(
            "{prefix:>12} [{bar:32}] {pos} of {len} databases  {elapsed} {msg}",
        )));
        total.set_prefix("all");
        Self {
            multi,
            total,
            most,
            shards: Mutex::default(),
        }
    }

    fn observe(&self, event: &Event) {
        let mut shards = self.shards.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            Event::Preflight { databases } => {
                self.total.set_length(*databases as u64);
                self.total.set_message("(reaching all of them)");
                // From here on there is something to draw.
                self.total.enable_steady_tick(Duration::from_millis(200));
            }
            Event::ShardStarted { shard, steps, .. } => {
                self.total.set_message("");
                if shards.len() < self.most {
                    let bar = ProgressBar::new(*steps as u64)
                        .with_style(style("{prefix:>12} [{bar:32}] {pos} of {len}  {msg}"))
                        .with_prefix(shard.to_string());
                    let bar = self.multi.insert_before(&self.total, bar);
                    bar.tick();
                    shards.insert(*shard, bar);
                }
            }
            Event::Waiting { shard, holder, .. } => {
                if let Some(bar) = shards.get(shard) {
                    let who = holder
                        .as_ref()
                        .map_or("another runner", |holder| &holder.who);
                    bar.set_message(format!("waiting for {who}"));
                }
            }
            Event::MigrationStarted { shard, name, .. } => {
                if let Some(bar) = shards.get(shard) {
                    bar.set_message(name.to_string());
                }
            }
            Event::StatementDone {
                shard, number, of, ..
            } => {
                if let Some(bar) = shards.get(shard) {
                    bar.set_message(format!("statement {number} of {of}"));
                }
            }
            Event::MigrationFinished { shard, .. } | Event::TableDone { shard, .. } => {
                if let Some(bar) = shards.get(shard) {
                    bar.inc(1);
                }
            }
            Event::ShardFinished(report) => {
                self.total.inc(1);
                if let Some(bar) = shards.remove(&report.shard) {
                    bar.finish_and_clear();
                    self.multi.remove(&bar);
                }
            }
            _ => {}
        }
    }

    fn clear(&self) {
        let mut shards = self.shards.lock().unwrap_or_else(PoisonError::into_inner);
        for bar in std::mem::take(&mut *shards).into_values() {
            bar.finish_and_clear();
        }
        self.total.finish_and_clear();
    }
}

/// Our templates are constant and right; should one not be, a plain bar is a bar too.
fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).map_or_else(
        |_| ProgressStyle::default_bar(),
        |style| style.progress_chars("=> "),
    )
}
