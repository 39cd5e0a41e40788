//! What must be true when everything is calm again.

use std::time::{Duration, Instant};

use diesel::prelude::*;
use diesel_sharded::{BoxError, Error};

use crate::fleet::{ALL, SERVERS, hot, whoami, writes};
use crate::ledger::Fate;
use crate::work::{COUNTED, UNDONE};
use crate::world::{BATCH_SIZE, Settings, World};

/// What the databases hold, compared with what the calls said.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    /// Acknowledged, and not there or only in part.
    pub(crate) lost: usize,
    /// There more than once.
    pub(crate) duplicated: usize,
    /// On another shard than its own.
    pub(crate) misplaced: usize,
    /// Said to be rolled back, and there; or a row of an undone savepoint.
    pub(crate) undead: usize,
    /// A transaction of two rows of which one is there.
    pub(crate) torn: usize,
    /// Of unknown fate, and there.
    pub(crate) unknown_there: usize,
    pub(crate) rows: usize,
    /// Counters that are not the number of committed transactions that counted.
    pub(crate) miscounted: usize,
}

impl Findings {
    pub(crate) fn clean(&self) -> bool {
        self.lost + self.duplicated + self.misplaced + self.undead + self.torn + self.miscounted
            == 0
    }
}

/// Polls for so long as it takes, within bounds.
fn eventually(mut done: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !done() {
        if Instant::now() > deadline {
            return false;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    true
}

/// Whether every pool hands out as many connections at once as it may have; how long that took.
pub(crate) fn pools_are_full(world: &World) -> Duration {
    let began = Instant::now();
    for (shard, name) in ALL.iter().enumerate() {
        for (class, size) in [
            (None, Settings::default().sizes[shard]),
            (Some("batch"), BATCH_SIZE),
        ] {
            let mut last = None;
            let served = eventually(|| match all_at_once(world, name, class, size) {
                Ok(()) => true,
                Err(error) => {
                    last = Some(error);
                    false
                }
            });
            if !served {
                let class = class.unwrap_or("ordinary");
                world.fault(format!("the {class} pool of {name} is not back: {last:?}"));
            }
        }
    }
    began.elapsed()
}

fn all_at_once(world: &World, name: &str, class: Option<&str>, size: u32) -> Result<(), Error> {
    let mut route = world.shards.route(name)?;
    if let Some(class) = class {
        route = route.workload(class)?;
    }
    route.run(|| {
        let mut held = Vec::new();
        for _ in 0..size {
            held.push(world.shards.get()?);
        }
        for conn in &mut held {
            let here: String = whoami::table.select(whoami::name).first(conn)?;
            if here != name {
                world.fault(format!("a connection of {name} leads to {here}"));
            }
        }
        Ok(())
    })
}

/// No transaction is open, and no server has more sessions than the pools may hold.
pub(crate) fn nothing_is_open(world: &World) {
    for (shard, name) in ALL.iter().enumerate() {
        let mut open = Ok(0);
        if !eventually(|| {
            open = world.fleet.open_transactions(shard);
            matches!(open, Ok(0))
        }) {
            world.fault(format!("open transactions on {name}: {open:?}"));
        }
    }
    for (server, name) in SERVERS.iter().enumerate() {
        let allowed = (Settings::default().sizes[server] + BATCH_SIZE) as usize;
        let mut sessions = Ok(0);
        if !eventually(|| {
            sessions = world.fleet.sessions(server).map(|ids| ids.len());
            matches!(sessions, Ok(n) if n <= allowed)
        }) {
            world.fault(format!(
                "sessions on {name}: {sessions:?}, at most {allowed} are ours to have"
            ));
        }
    }
}

/// Reads every row past the crate and compares it with the ledger.
pub(crate) fn rows(world: &World) -> Result<Findings, BoxError> {
    let mut findings = Findings::default();
    // Per write: a bit for each part that was seen on its own shard.
    let mut seen = vec![0u8; world.ledger.len()];
    for (shard, name) in ALL.iter().enumerate() {
        let mut conn = world.fleet.direct(shard)?;
        let counted = read_shard(world, &mut conn, shard, &mut seen, &mut findings)?;
        let counters: Vec<i64> = hot::table.select(hot::n).load(&mut conn)?;
        let sum: i64 = counters.iter().sum();
        if sum != 2 * counted {
            world.fault(format!(
                "the counters of {name} say {sum}, its {counted} transactions have counted {}",
                2 * counted
            ));
            findings.miscounted += 1;
        }
    }
    for (id, seen) in seen.iter().enumerate() {
        let Some(entry) = world.ledger.get(i64::try_from(id)?) else {
            continue;
        };
        let there = seen.count_ones() as usize;
        if there != 0 && there != entry.rows {
            findings.torn += 1;
            world.fault(format!("write {id} is torn: {entry:?}, parts {seen:#b}"));
        }
        match entry.fate {
            Fate::Acknowledged if there < entry.rows => {
                findings.lost += 1;
                world.fault(format!("write {id} is lost: {entry:?}"));
            }
            Fate::RolledBack if there > 0 => {
                findings.undead += 1;
                world.fault(format!(
                    "write {id} was rolled back and is there: {entry:?}"
                ));
            }
            Fate::Unknown if there > 0 => findings.unknown_there += 1,
            _ => {}
        }
    }
    Ok(findings)
}

/// Answers how many rows belong to transactions that count.
fn read_shard(
    world: &World,
    conn: &mut crate::fleet::AnyConnection,
    shard: usize,
    seen: &mut [u8],
    findings: &mut Findings,
) -> Result<i64, BoxError> {
    const PAGE: i64 = 20_000;
    let (mut last, mut counted) = (0, 0);
    loop {
        let page: Vec<(i64, i64, i32, String)> = writes::table
            .select((writes::n, writes::id, writes::part, writes::shard))
            .filter(writes::n.gt(last))
            .order(writes::n)
            .limit(PAGE)
            .load(conn)?;
        let Some((end, ..)) = page.last() else {
            return Ok(counted);
        };
        last = *end;
        findings.rows += page.len();
        for (_, id, part, written_for) in page {
            let entry = world.ledger.get(id);
            let Some(entry) =
                entry.filter(|entry| entry.shard == shard && written_for == ALL[shard])
            else {
                findings.misplaced += 1;
                world.fault(format!(
                    "write {id} lies on {} and was written for {written_for}: {entry:?}",
                    ALL[shard]
                ));
                continue;
            };
            let bit = match part {
                0 => 1,
                1 => 2,
                COUNTED => {
                    counted += 1;
                    4
                }
                _ => {
                    findings.undead += 1;
                    let savepoint = if part == UNDONE {
                        "undone savepoint"
                    } else {
                        "?"
                    };
                    world.fault(format!("write {id} has a row of an {savepoint}: {entry:?}"));
                    continue;
                }
            };
            let known = &mut seen[usize::try_from(id)?];
            if *known & bit != 0 {
                findings.duplicated += 1;
                world.fault(format!("write {id} is there twice: {entry:?}"));
            }
            *known |= bit;
        }
    }
}
