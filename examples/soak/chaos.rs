//! What goes wrong, at random: sessions are killed, servers stopped and crashed, files locked, the
//! configuration reloaded, passwords changed.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use diesel::connection::SimpleConnection;

use crate::fleet::{SERVERS, SHARDS, servers};
use crate::rng::Rng;
use crate::world::{Settings, World};

fn add(counter: &AtomicU64, n: usize) {
    counter.fetch_add(n as u64, Ordering::Relaxed);
}

/// Sleeps, but not beyond the end of the run.
fn pause(world: &World, time: Duration) {
    let end = Instant::now() + time;
    while !world.stopped() && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(20).min(time));
    }
}

/// Ends one session, some, or all of a server at once.
pub(crate) fn kill_sessions(world: &World) {
    let mut rng = Rng::new(world.seed, 1001);
    while !world.stopped() {
        let server = rng.below(SERVERS.len());
        // A server that is down has no sessions.
        if let Ok(sessions) = world.fleet.sessions(server) {
            let chosen: Vec<i64> = match rng.below(3) {
                0 => sessions,
                1 => sessions.into_iter().filter(|_| rng.one_in(2)).collect(),
                _ => sessions.into_iter().take(1).collect(),
            };
            if world.fleet.kill(server, &chosen).is_ok() {
                add(&world.counts.kills, chosen.len());
            }
        }
        pause(world, rng.millis(50, 500));
    }
}

/// Stops or crashes the servers of one kind, one after another, and starts them again.
pub(crate) fn restart_servers(world: &World, names: &[&str], stream: u64) {
    let mut rng = Rng::new(world.seed, stream);
    pause(world, rng.millis(500, 3_000));
    while !world.stopped() {
        let name = rng.pick(names);
        let (verb, counter) = match rng.below(2) {
            0 => ("stop", &world.counts.stops),
            _ => ("crash", &world.counts.crashes),
        };
        if servers(verb, name) {
            add(counter, 1);
            pause(world, rng.millis(50, 4_000));
        }
        // Whatever happens, it is running when this function ends.
        if servers("start", name) {
            add(&world.counts.starts, 1);
        } else {
            world.fault(format!("{name} does not start"));
        }
        pause(world, rng.millis(1_500, 7_000));
    }
}

/// Holds a SQLite file's lock for a while: sometimes longer than anybody is willing to wait.
pub(crate) fn lock_files(world: &World) {
    let mut rng = Rng::new(world.seed, 1002);
    while !world.stopped() {
        let shard = SERVERS.len() + rng.below(SHARDS.len() - SERVERS.len());
        if let Ok(mut file) = world.fleet.direct(shard)
            && file.batch_execute("BEGIN IMMEDIATE").is_ok()
        {
            add(&world.counts.locks, 1);
            pause(world, rng.millis(10, 2_600));
            if let Err(error) = file.batch_execute("ROLLBACK") {
                world.fault(format!("the soak's own lock: {error}"));
            }
        }
        pause(world, rng.millis(500, 3_000));
    }
}

/// Reloads the configuration with one thing changed.
pub(crate) fn reload(world: &World) {
    let mut rng = Rng::new(world.seed, 1003);
    let mut settings = Settings::default();
    while !world.stopped() {
        let mut next = settings.clone();
        let shard = rng.below(SHARDS.len());
        match rng.below(7) {
            0 | 1 => next.sizes[shard] = 3 + rng.below(6) as u32,
            2 => next.tags[shard] += 1,
            3 => next.states[shard] = *rng.pick(&["read-only", "offline"]),
            4 | 5 => next.states = Settings::default().states,
            _ => next.spare = !next.spare,
        }
        apply(world, &mut settings, next, &mut rng);
        if rng.one_in(12) {
            // First there, then here: who connects in between is told so.
            let password = format!("secret-{}", rng.next());
            if world.fleet.set_password(rng.below(2), &password).is_ok() {
                add(&world.counts.rotations, 1);
            }
        }
        pause(world, rng.millis(100, 900));
        // Nobody is shut out for long.
        if settings.states.iter().any(|state| *state != "open") {
            let mut next = settings.clone();
            next.states = Settings::default().states;
            apply(world, &mut settings, next, &mut rng);
        }
    }
}

fn apply(world: &World, settings: &mut Settings, next: Settings, rng: &mut Rng) {
    let Ok(config) = next.config(&world.fleet) else {
        world.fault(format!("the configuration is wrong: {next:?}"));
        return;
    };
    match world.shards.reload(&config) {
        Ok(change) => {
            add(&world.counts.reloads, 1);
            *settings = next;
            if rng.one_in(4) {
                let _ = change.drain(Duration::from_millis(500));
            }
        }
        // The shard to be replaced is down: nothing has changed.
        Err(error) => {
            add(&world.counts.reloads_refused, 1);
            world.note(&error);
        }
    }
}

/// Everything as it should be: all servers up, all shards open, one size.
pub(crate) fn calm_down(world: &World) -> bool {
    let deadline = Instant::now() + Duration::from_secs(60);
    let config = match Settings::default().config(&world.fleet) {
        Ok(config) => config,
        Err(_) => return false,
    };
    while Instant::now() < deadline {
        match world.shards.reload(&config) {
            Ok(change) => return change.drain(Duration::from_secs(20)).is_empty(),
            Err(_) => std::thread::sleep(Duration::from_millis(100)),
        }
    }
    false
}
