//! The crate under load while everything around it breaks; `scripts/soak` runs it.
//!
//! 32 threads write to two PostgreSQL, two MariaDB and five SQLite databases through ONE manager,
//! while sessions are killed, servers stopped, crashed and started, files locked, passwords changed
//! and the configuration reloaded, all at random. Each write has an id of its own, and what its call
//! answered is kept. At the end the databases are read past the crate: every acknowledged write is
//! there exactly once and on its own shard, none that was said to be rolled back is there, no
//! transaction is open, and every pool hands out all its connections again.

mod chaos;
mod faults;
mod fleet;
mod ledger;
mod rng;
mod verify;
mod work;
mod world;

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use diesel_sharded::BoxError;

use ledger::Fate;
use verify::Findings;
use world::World;

const WORKERS: u64 = 32;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let seconds = arguments.next().map_or(Ok(600), |text| text.parse());
    let seed = arguments
        .next()
        .map_or_else(|| Ok(fresh_seed()), |text| text.parse());
    let (Ok(seconds), Ok(seed)) = (seconds, seed) else {
        eprintln!("usage: soak [SECONDS [SEED]]");
        return ExitCode::from(2);
    };
    match soak(Duration::from_secs(seconds), seed) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("soak: {error}");
            ExitCode::FAILURE
        }
    }
}

fn fresh_seed() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(1, |time| time.as_secs())
}

fn soak(time: Duration, seed: u64) -> Result<bool, BoxError> {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if panic.payload().downcast_ref::<&str>() != Some(&work::WANTED_PANIC) {
            usual(panic);
        }
    }));
    let world = Arc::new(World::new(seed)?);
    println!("soak: {} s, {WORKERS} threads, seed {seed}", time.as_secs());
    println!("soak: at the start {}", resources());

    let spawn = |f: Box<dyn FnOnce(&World) + Send>| {
        let world = Arc::clone(&world);
        std::thread::spawn(move || f(&world))
    };
    let mut threads: Vec<JoinHandle<()>> = (0..WORKERS)
        .map(|thread| spawn(Box::new(move |world| work::run(world, thread))))
        .collect();
    threads.push(spawn(Box::new(chaos::kill_sessions)));
    threads.push(spawn(Box::new(chaos::lock_files)));
    threads.push(spawn(Box::new(chaos::reload)));
    for (names, stream) in [(&fleet::SERVERS[..2], 1004), (&fleet::SERVERS[2..], 1005)] {
        threads.push(spawn(Box::new(move |world| {
            chaos::restart_servers(world, names, stream);
        })));
    }

    let began = Instant::now();
    while began.elapsed() < time && !world.stopped() {
        std::thread::sleep(Duration::from_millis(100));
        if began.elapsed().as_secs() % 60 == 59 {
            progress(&world, began.elapsed());
            std::thread::sleep(Duration::from_secs(1));
        }
    }
    world.stop();
    join(&world, threads);

    let calm = Instant::now();
    if !chaos::calm_down(&world) {
        world.fault("the last reload found no rest within a minute".to_owned());
    }
    verify::pools_are_full(&world);
    let recovery = calm.elapsed();
    verify::nothing_is_open(&world);
    let findings = verify::rows(&world)?;
    println!("soak: at the end {}", resources());
    Ok(report(&world, began.elapsed(), recovery, &findings))
}

/// Waits for the threads, but not for ever: a call that never returns is a fault.
fn join(world: &World, threads: Vec<JoinHandle<()>>) {
    let deadline = Instant::now() + Duration::from_secs(90);
    for thread in threads {
        while !thread.is_finished() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(20));
        }
        if !thread.is_finished() {
            world.fault("a thread is still in a call 90 s after the end".to_owned());
        } else if thread.join().is_err() {
            world.fault("a thread has panicked".to_owned());
        }
    }
}

fn progress(world: &World, time: Duration) {
    let counts = &world.counts;
    println!(
        "soak: {} s: {} writes, {} acknowledged, {} kills, {} restarts, {} reloads; {}",
        time.as_secs() + 1,
        world.ledger.len(),
        world.ledger.count(Fate::Acknowledged),
        value(&counts.kills),
        value(&counts.starts),
        value(&counts.reloads),
        resources(),
    );
}

fn value(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

/// This process's memory and threads, where the system tells.
fn resources() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.map_or("?", str::trim).to_owned()
    };
    format!(
        "{} resident, {} threads",
        field("VmRSS:"),
        field("Threads:")
    )
}

fn report(world: &World, time: Duration, recovery: Duration, findings: &Findings) -> bool {
    let (counts, ledger) = (&world.counts, &world.ledger);
    for (count, what) in [
        (ledger.count(Fate::Open), "writes whose call never answered"),
        (
            value(&counts.misrouted) as usize,
            "looks into the wrong database",
        ),
        (
            value(&counts.leaked_routes) as usize,
            "routes left on a stack",
        ),
    ] {
        if count > 0 {
            world.fault(format!("{count} {what}"));
        }
    }
    let (hooks, due) = (value(&counts.hooks), value(&counts.hooks_due));
    if hooks != due {
        world.fault(format!("{hooks} hooks ran after {due} commits"));
    }
    let line = |what: &str, count: u64| println!("  {what:<52} {count:>9}");
    println!(
        "\nsoak: counts after {:.0} s, seed {}",
        time.as_secs_f64(),
        world.seed
    );
    line("writes attempted", ledger.len() as u64);
    line("  acknowledged", ledger.count(Fate::Acknowledged) as u64);
    line("  rolled back", ledger.count(Fate::RolledBack) as u64);
    line(
        "  unknown: the connection was lost in the commit",
        ledger.count(Fate::Unknown) as u64,
    );
    line("    of which there", findings.unknown_there as u64);
    line("rows read back", findings.rows as u64);
    line("reads", value(&counts.reads));
    line("transactions run again", value(&counts.retries));
    line("after_commit hooks, each after its commit", hooks);
    println!("  errors the callers saw:");
    for (name, count) in world.errors() {
        line(&format!("  {name}"), count);
    }
    println!("  what was done to them:");
    for (name, count) in [
        ("  sessions killed", &counts.kills),
        ("  servers stopped", &counts.stops),
        ("  servers crashed", &counts.crashes),
        ("  servers started", &counts.starts),
        ("  SQLite files locked", &counts.locks),
        ("  configurations reloaded", &counts.reloads),
        (
            "  reloads refused, the new node being down",
            &counts.reloads_refused,
        ),
        ("  passwords changed", &counts.rotations),
    ] {
        line(name, value(count));
    }
    line("slowest call, in ms", value(&counts.slowest));
    line(
        "all pools full again, ms after the end",
        recovery.as_millis() as u64,
    );
    line("lost", findings.lost as u64);
    line("duplicated", findings.duplicated as u64);
    line("misplaced", findings.misplaced as u64);
    line("rolled back and there", findings.undead as u64);
    line("torn", findings.torn as u64);
    line("counters wrong", findings.miscounted as u64);
    let faults = world.faults();
    for fault in &faults {
        println!("FAULT: {fault}");
    }
    let well = faults.is_empty() && findings.clean();
    println!("soak: {}", if well { "passed" } else { "FAILED" });
    well
}
