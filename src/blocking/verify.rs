//! Reads the keys of every row and says which rows are not where the rule places them.

mod find;
mod session;

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::backend::NodeConnection;
use crate::driver::verify::{
    FindingKind, Plan, RawKey, TableCheck, TableJob, Tail, VerifyOptions, VerifyProgress,
    VerifyReport, VerifyState, sql,
};
use crate::error::Error;
use crate::name::ShardName;
use crate::topology::{NodeDescription, Topology};
use session::{Session, primaries, told};

pub use find::find_key;

/// Reads the key of every row of a keyspace, in key order, and lists the rows that are not where the
/// rule places them, keys that are in two places, and rows without a key.
///
/// Every shard of the rule is read, also one that owns nothing, and every part of every declared
/// table. Each shard has one connection of its own, past all pools, to its primary node; the session
/// refuses to write. Rows are read page by page, so no long transaction is open, and `rows_per_second`
/// keeps a busy database from noticing. What is written while it runs may be seen or not.
///
/// `progress` is called after each page, from the thread that reads the shard: show it, and keep its
/// state to go on later.
///
/// ```
/// # #[cfg(feature = "sqlite")] fn main() -> Result<(), diesel_sharded::Error> {
/// use diesel::SqliteConnection;
/// use diesel::connection::SimpleConnection;
/// use diesel_sharded::blocking::{VerifyOptions, connect_node, verify};
/// use diesel_sharded::{KeyspaceConfig, RuleSpec, Topology};
///
/// # let dir = tempfile::tempdir().expect("a temporary folder");
/// # let path = |name: &str| dir.path().join(name).display().to_string();
/// let topology = Topology::builder()
///     .shard("a", path("a.sqlite"))
///     .shard("b", path("b.sqlite"))
///     .keyspace(
///         "orders",
///         KeyspaceConfig::new(RuleSpec::modulo(["a", "b"])).table("orders", "user_id", 1),
///     )
///     .build()?;
/// for node in topology.nodes() {
///     let mut conn: SqliteConnection = connect_node(&node)?;
///     conn.batch_execute("CREATE TABLE orders (user_id INTEGER); INSERT INTO orders VALUES (2)")?;
/// }
/// let report = verify::<SqliteConnection>(&topology, "orders", &VerifyOptions::new(), &|_| {})?;
/// assert_eq!(report.rows, 2);
/// // 2 belongs to `a` alone, and is on `b` as well.
/// assert_eq!(report.findings.len(), 1);
/// assert_eq!(report.findings[0].shard, "b");
/// # Ok(())
/// # }
/// # #[cfg(not(feature = "sqlite"))] fn main() {}
/// ```
///
/// # Errors
///
/// [`Error::UnknownKeyspace`]; [`Error::Config`] where there is nothing to verify. A shard that cannot
/// be read is in the report's [`failed`](VerifyReport::failed), and the others are verified.
pub fn verify<C: NodeConnection>(
    topology: &Topology,
    keyspace: &str,
    options: &VerifyOptions,
    progress: &(dyn Fn(&VerifyProgress<'_>) + Sync),
) -> Result<VerifyReport, Error> {
    let plan = Plan::new(topology, keyspace, options)?;
    let nodes = primaries(topology);
    let shared = Shared::new(&plan, options, progress);
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..options.parallel.min(plan.jobs.len()) {
            scope.spawn(|| {
                while let Some(jobs) = plan.jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let Some(first) = jobs.first() else { continue };
                    if let Err(error) = shard::<C>(&plan, jobs, &nodes, options, &shared) {
                        shared.failed(first.shard, &error);
                    }
                }
            });
        }
    });
    let mut report = shared.into_report(&plan);
    look_at_home::<C>(&plan, &nodes, &mut report);
    Ok(report)
}

/// What all threads write into.
struct Shared<'a> {
    options: &'a VerifyOptions,
    progress: &'a (dyn Fn(&VerifyProgress<'_>) + Sync),
    found: Mutex<Found>,
}

struct Found {
    report: VerifyReport,
    state: VerifyState,
}

impl<'a> Shared<'a> {
    fn new(
        plan: &Plan,
        options: &'a VerifyOptions,
        progress: &'a (dyn Fn(&VerifyProgress<'_>) + Sync),
    ) -> Self {
        let fingerprint = plan.keyspace.fingerprint.to_string();
        let state = options
            .resume
            .clone()
            .filter(|state| state.fingerprint == fingerprint)
            .unwrap_or_default();
        Self {
            options,
            progress,
            found: Mutex::new(Found {
                report: VerifyReport {
                    keyspace: plan.keyspace.name.to_string(),
                    more: state.findings,
                    ..VerifyReport::default()
                },
                state: VerifyState {
                    keyspace: plan.keyspace.name.to_string(),
                    fingerprint,
                    ..state
                },
            }),
        }
    }

    fn with<T>(&self, f: impl FnOnce(&mut Found) -> T) -> T {
        f(&mut self
            .found
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner))
    }

    fn failed(&self, shard: ShardName, error: &Error) {
        let failed = (shard.to_string(), told(error));
        self.with(|found| found.report.failed.push(failed));
    }

    /// Takes over what one page brought.
    fn page(&self, job: &TableJob, rows: u64, check: &mut TableCheck<'_>, after: Option<String>) {
        self.with(|found| {
            let report = &mut found.report;
            report.rows += rows;
            report.more += std::mem::take(&mut check.more);
            for finding in check.findings.drain(..) {
                if report.findings.len() < self.options.keep {
                    report.findings.push(finding);
                } else {
                    report.more += 1;
                }
            }
            let findings = report.findings.len() as u64 + report.more;
            found.state.findings = findings;
            let tables = found.state.positions.entry(job.shard.to_string());
            tables.or_default().insert(job.physical.clone(), after);
            (self.progress)(&VerifyProgress {
                shard: job.shard,
                table: &job.physical,
                rows: found.report.rows,
                findings,
                state: &found.state,
            });
        });
    }

    fn into_report(self, _: &Plan) -> VerifyReport {
        let found = self.found.into_inner();
        let mut report = found
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .report;
        report
            .findings
            .sort_by(|a, b| (a.shard, &a.table).cmp(&(b.shard, &b.table)));
        report.failed.sort();
        report
    }
}

fn shard<C: NodeConnection>(
    plan: &Plan,
    jobs: &[TableJob],
    nodes: &BTreeMap<ShardName, NodeDescription>,
    options: &VerifyOptions,
    shared: &Shared<'_>,
) -> Result<(), Error> {
    let Some(first) = jobs.first() else {
        return Ok(());
    };
    let mut session = Session::<C>::open(nodes, first.shard)?;
    let mut pace = Pace::new(options.rows_per_second);
    for job in jobs {
        table(plan, job, &mut session, options, shared, &mut pace)?;
    }
    Ok(())
}

fn table<C: NodeConnection>(
    plan: &Plan,
    job: &TableJob,
    session: &mut Session<C>,
    options: &VerifyOptions,
    shared: &Shared<'_>,
    pace: &mut Pace,
) -> Result<(), Error> {
    let mut check = TableCheck::new(plan, job, options.keep);
    if !session.is_there(&job.physical)? {
        if job.expected {
            check.missing_table();
        }
        shared.page(job, 0, &mut check, None);
        return Ok(());
    }
    shared.with(|found| found.report.tables += 1);
    let (kind, at) = (
        session.kind,
        (job.physical.as_str(), job.key_column.as_str()),
    );
    let numbers = sql::as_numbers(kind, plan.key);
    let mut after = job.after.clone();
    if after.is_none() {
        // Once, at the beginning: rows that no page brings.
        let nulls = session.number(&sql::nulls(kind, at))?;
        if nulls > 0 {
            check.without_key(FindingKind::NullKey, nulls);
        }
        let others = match sql::others(kind, plan.key, at) {
            Some(text) => session.number(&text)?,
            None => 0,
        };
        if others > 0 {
            check.without_key(FindingKind::Unreadable, others);
        }
        shared.with(|found| found.report.rows += nulls + others);
    }
    loop {
        let text = sql::page(kind, plan.key, at, after.as_deref(), options.page);
        check.rows = 0;
        check.last = None;
        let mut tail = Tail::default();
        session.scan(&text, numbers, &mut |key| {
            tail.see(key);
            check.see(key);
        })?;
        let page = check.rows;
        let Some(last) = check.last.as_ref().map(RawKey::text) else {
            break;
        };
        if page >= u64::from(options.page) {
            // The database may take several texts for equal, and the next page begins after all of
            // them: those that did not fit into this page are looked at now.
            let text = sql::equal(kind, plan.key, at, &last);
            let mut seen = tail.rows;
            session.scan(&text, numbers, &mut |key| {
                if !Tail::take(key, &mut seen) {
                    check.see(key);
                }
            })?;
        }
        let rows = check.rows;
        let more = page >= u64::from(options.page);
        after = Some(last);
        shared.page(job, rows, &mut check, after.clone().filter(|_| more));
        if !more {
            return Ok(());
        }
        pace.after(rows);
    }
    shared.page(job, 0, &mut check, None);
    Ok(())
}

/// Keeps one shard's reading below so many rows a second.
struct Pace {
    rows_per_second: Option<u32>,
    begun: Instant,
    rows: u64,
}

impl Pace {
    fn new(rows_per_second: Option<u32>) -> Self {
        Self {
            rows_per_second,
            begun: Instant::now(),
            rows: 0,
        }
    }

    fn after(&mut self, rows: u64) {
        self.rows += rows;
        if let Some(limit) = self.rows_per_second {
            let due = Duration::from_secs_f64(self.rows as f64 / f64::from(limit));
            std::thread::sleep(due.saturating_sub(self.begun.elapsed()));
        }
    }
}

/// Asks, for each misplaced key, whether there are rows with it at home as well.
fn look_at_home<C: NodeConnection>(
    plan: &Plan,
    nodes: &BTreeMap<ShardName, NodeDescription>,
    report: &mut VerifyReport,
) {
    let mut sessions: BTreeMap<ShardName, Option<Session<C>>> = BTreeMap::new();
    let columns: BTreeMap<&str, &str> = plan
        .jobs
        .iter()
        .flatten()
        .map(|job| (job.physical.as_str(), job.key_column.as_str()))
        .collect();
    let mut failed = Vec::new();
    for finding in &mut report.findings {
        let FindingKind::Misplaced {
            home_shard,
            home_table,
            also_at_home,
        } = &mut finding.kind
        else {
            continue;
        };
        let session = sessions
            .entry(*home_shard)
            .or_insert_with(|| Session::open(nodes, *home_shard).ok());
        let (Some(session), Some(column)) = (session, columns.get(home_table.as_str())) else {
            continue;
        };
        let text = sql::equal(session.kind, plan.key, (home_table, column), &finding.raw);
        let numbers = sql::as_numbers(session.kind, plan.key);
        let mut rows = 0;
        let asked = session.is_there(home_table).and_then(|there| match there {
            true => session.scan(&text, numbers, &mut |_| rows += 1),
            false => Ok(()),
        });
        *also_at_home = rows > 0;
        if let Err(error) = asked {
            failed.push((home_shard.to_string(), told(&error)));
        }
    }
    failed.dedup();
    report.failed.extend(failed);
}
