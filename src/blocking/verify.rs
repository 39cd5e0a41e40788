//! Reads the keys of every row and says which rows are not where the rule places them.

mod find;
mod pages;
mod session;

use std::collections::{BTreeMap, HashMap};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::backend::NodeConnection;
use crate::driver::verify::{
    About, Finding, FindingKind, Plan, TableCheck, TableJob, VerifyOptions, VerifyProgress,
    VerifyReport, VerifyState,
};
use crate::error::Error;
use crate::key::ShardKey;
use crate::name::ShardName;
use crate::topology::{NodeDescription, Topology};
use pages::Pace;
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
    look_at_home::<C>(&plan, &nodes, options, &mut report);
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
    /// Where the findings about a key are in the report.
    listed: HashMap<String, usize>,
}

impl Found {
    /// Lists a finding, or counts it where enough are listed. Those about one key of one table are one,
    /// whichever way rows spell the key.
    fn keep(&mut self, finding: Finding, most: usize) {
        let report = &mut self.report;
        let name = (finding.about != About::Table)
            .then(|| format!("{} {} {:?}", finding.shard, finding.table, finding.about));
        let known = name.as_ref().and_then(|name| self.listed.get(name));
        if let Some(known) = known.and_then(|at| report.findings.get_mut(*at)) {
            known.rows += finding.rows;
        } else if report.findings.len() < most {
            self.listed
                .extend(name.map(|name| (name, report.findings.len())));
            report.findings.push(finding);
        } else {
            report.more += 1;
        }
        self.state.findings = report.findings.len() as u64 + report.more;
    }
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
                    rows: state.rows,
                    tables: state.tables,
                    ..VerifyReport::default()
                },
                state: VerifyState {
                    keyspace: plan.keyspace.name.to_string(),
                    fingerprint,
                    ..state
                },
                listed: HashMap::new(),
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

    /// Takes over what one page brought; `after` is `None` where the table is done.
    fn page(&self, job: &TableJob, rows: u64, check: &mut TableCheck<'_>, after: Option<String>) {
        self.with(|found| {
            found.report.more += std::mem::take(&mut check.more);
            for finding in check.findings.drain(..) {
                found.keep(finding, self.options.keep);
            }
            let Found { report, state, .. } = found;
            report.rows += rows;
            let findings = report.findings.len() as u64 + report.more;
            state.findings = findings;
            state.rows = report.rows;
            state.tables = report.tables;
            let tables = state.positions.entry(job.shard.to_string());
            tables.or_default().insert(job.physical.clone(), after);
            (self.progress)(&VerifyProgress {
                shard: job.shard,
                table: &job.physical,
                rows: report.rows,
                findings,
                state,
            });
        });
    }

    /// Tells a table that has a name of the rule and no place in it, once.
    fn outside(&self, job: &TableJob) {
        let positions = |found: &mut Found| {
            let tables = found.state.positions.get(job.shard.as_str());
            tables.is_some_and(|tables| tables.contains_key(&job.physical))
        };
        if self.with(positions) {
            return;
        }
        self.with(|found| {
            let finding = Finding::of_table(job, FindingKind::OutsidePlan, 0);
            found.keep(finding, self.options.keep);
            let tables = found.state.positions.entry(job.shard.to_string());
            tables.or_default().insert(job.physical.clone(), None);
        });
    }

    fn into_report(self, plan: &Plan) -> VerifyReport {
        let found = self.found.into_inner();
        let mut found = found.unwrap_or_else(std::sync::PoisonError::into_inner);
        if found.report.failed.is_empty() {
            let is_there = |logical: usize| {
                let table = plan.keyspace.tables.get(logical);
                table.is_some_and(|table| found.state.present.contains(&table.name))
            };
            for finding in plan.without_table(is_there) {
                found.keep(finding, self.options.keep);
            }
        }
        let mut report = found.report;
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
    if let Some(outside) = plan.outside.get(&first.shard) {
        for job in session.outside(outside)? {
            shared.outside(&job);
        }
    }
    let mut pace = Pace::new(options);
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
    let logical = plan.keyspace.tables[job.logical].name.clone();
    shared.with(|found| found.state.present.insert(logical));
    let column = session.column(plan, job)?;
    let mut without = 0;
    if job.after.is_none() {
        // Once, at the beginning: rows that no page brings.
        let nulls = session.number(&column.nulls())?;
        if nulls > 0 {
            check.without_key(FindingKind::NullKey, nulls);
        }
        let others = match column.others() {
            Some(text) => session.number(&text)?,
            None => 0,
        };
        if others > 0 {
            check.without_key(FindingKind::Unreadable, others);
        }
        without = nulls + others;
    }
    pages::read(
        session,
        &column,
        job.after.clone(),
        (options, pace),
        &mut check,
        TableCheck::see,
        |check, rows, after| {
            if after.is_none() {
                shared.with(|found| found.report.tables += 1);
            }
            shared.page(job, rows + std::mem::take(&mut without), check, after);
        },
    )
}

/// Asks, for each misplaced key, whether there are rows with it at home as well.
fn look_at_home<C: NodeConnection>(
    plan: &Plan,
    nodes: &BTreeMap<ShardName, NodeDescription>,
    options: &VerifyOptions,
    report: &mut VerifyReport,
) {
    // By home, so that a column that has to be read is read once.
    let mut homes: BTreeMap<(ShardName, String), Vec<usize>> = BTreeMap::new();
    for (at, finding) in report.findings.iter().enumerate() {
        if let FindingKind::Misplaced {
            home_shard,
            home_table,
            ..
        } = &finding.kind
        {
            let home = (*home_shard, home_table.clone());
            homes.entry(home).or_default().push(at);
        }
    }
    let mut failed = Vec::new();
    for ((shard, table), findings) in homes {
        let keys: Vec<ShardKey<'_>> = findings
            .iter()
            .filter_map(|at| match &report.findings[*at].about {
                About::Key(key) => Some(key.borrowed()),
                _ => None,
            })
            .collect();
        let away = findings
            .first()
            .map(|at| report.findings[*at].table.as_str());
        let mut jobs = plan.jobs.iter().flatten();
        let Some(away) = jobs.find(|job| Some(job.physical.as_str()) == away) else {
            continue;
        };
        let home = TableJob {
            shard,
            physical: table,
            ..away.clone()
        };
        let asked = Session::<C>::open(nodes, shard).and_then(|mut session| {
            match session.is_there(&home.physical)? {
                true => {
                    let pace = (options, &mut Pace::new(options));
                    session.rows_with_keys(plan, &home, &keys, pace)
                }
                false => Ok(Vec::new()),
            }
        });
        match asked {
            Ok(rows) => {
                for (at, rows) in std::iter::zip(findings, rows) {
                    if let FindingKind::Misplaced { also_at_home, .. } =
                        &mut report.findings[at].kind
                    {
                        *also_at_home = rows > 0;
                    }
                }
            }
            // What could not even be read before is told already.
            Err(error)
                if report
                    .failed
                    .iter()
                    .all(|(known, _)| *known != shard.as_str()) =>
            {
                failed.push((shard.to_string(), told(&error)));
            }
            Err(_) => {}
        }
    }
    failed.dedup();
    report.failed.extend(failed);
}
