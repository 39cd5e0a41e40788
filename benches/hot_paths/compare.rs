//! Two pieces of work, side by side, on a machine that is never quiet.
//!
//! Each is cut into batches of a few dozen microseconds, so that most batches lie between two
//! interruptions, and the batches of both sides take turns, so that a slow spell hits both. Of the
//! many thousand times of one side the one counts that a twentieth of them stays below:
//! interruptions and a neighbour on the same core only ever add time, and unlike the minimum it
//! does not rest on one lucky batch. "Theirs" is measured twice in each turn,
//! as if it were two things (A/A): how far that ratio is from 1 is how far the others may be off.

use std::time::{Duration, Instant};

/// A piece of work that can be repeated.
pub(crate) struct Work {
    run: Box<dyn FnMut(u64)>,
}

impl Work {
    /// `run(n)` does it n times in a loop of its own.
    pub(crate) fn new(run: impl FnMut(u64) + 'static) -> Self {
        Self { run: Box::new(run) }
    }

    pub(crate) fn times(&mut self, n: u64) -> Duration {
        let start = Instant::now();
        (self.run)(n);
        start.elapsed()
    }

    /// How many repetitions make a batch.
    fn batch(&mut self) -> u64 {
        const LENGTH: Duration = Duration::from_micros(50);
        let mut n = 1;
        loop {
            // The best of a few: the first ones warm up.
            let best = (0..5).map(|_| self.times(n)).min().unwrap_or_default();
            if best >= LENGTH {
                return n;
            }
            n *= 2;
        }
    }
}

/// What a comparison found, in nanoseconds for one repetition.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    pub(crate) ours: f64,
    pub(crate) theirs: f64,
    /// The second of the A/A pair.
    pub(crate) theirs_again: f64,
}

/// Measures for so long, all three in turn.
pub(crate) fn compare(ours: &mut Work, theirs: &mut Work, span: Duration) -> Found {
    let (ours_batch, theirs_batch) = (ours.batch(), theirs.batch());
    let mut times: [Vec<f64>; 3] = Default::default();
    let start = Instant::now();
    let mut turn = 0;
    while start.elapsed() < span || turn < 3 {
        for place in 0..3 {
            // Whoever comes after another finds its caches: each comes after each.
            let which = if turn % 2 == 0 {
                (place + turn) % 3
            } else {
                (turn + 3 - place) % 3
            };
            let (work, n) = if which == 0 {
                (&mut *ours, ours_batch)
            } else {
                (&mut *theirs, theirs_batch)
            };
            times[which % 3].push(work.times(n).as_nanos() as f64 / n as f64);
        }
        turn += 1;
    }
    let [ours, theirs, theirs_again] = times.map(undisturbed);
    Found {
        ours,
        theirs,
        theirs_again,
    }
}

/// Measures one piece of work that has no counterpart, twice in turn.
pub(crate) fn measure(ours: &mut Work, span: Duration) -> (f64, f64) {
    let batch = ours.batch();
    let mut times: [Vec<f64>; 2] = Default::default();
    let start = Instant::now();
    while start.elapsed() < span || times[0].len() < 3 {
        for times in &mut times {
            times.push(ours.times(batch).as_nanos() as f64 / batch as f64);
        }
    }
    let [first, second] = times.map(undisturbed);
    (first, second)
}

fn undisturbed(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 20).copied().unwrap_or(f64::NAN)
}

/// A line for the table of `scripts/bench`: a comparison.
pub(crate) fn report(name: &str, found: Found, bar: &str) {
    let Found {
        ours,
        theirs,
        theirs_again,
    } = found;
    println!(
        "RATIO\t{name}\t{ours:.1}\t{theirs:.1}\t{:.3}\t{bar}",
        ours / theirs
    );
    println!(
        "RATIO\t  A/A: theirs against itself\t{theirs_again:.1}\t{theirs:.1}\t{:.3}\t-",
        theirs_again / theirs
    );
}

/// A line for the table of `scripts/bench`: something without a counterpart.
pub(crate) fn report_alone(name: &str, nanoseconds: f64, bar: &str) {
    println!("RATIO\t{name}\t{nanoseconds:.1}\t-\t-\t{bar}");
}
