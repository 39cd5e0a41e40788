//! What nearly all ids have in common.

/// The low bits that are watched.
const BITS: usize = 12;

/// Primes that are watched whatever the rule divides by.
const PRIMES: [u64; 5] = [3, 5, 7, 11, 13];

/// Fewer ids than this show no pattern.
const ENOUGH: u64 = 1_000;

/// Follows the remainders of integer keys.
#[derive(Debug)]
pub(super) struct Pattern {
    integers: u64,
    /// How many have each of the low bits set.
    ones: [u64; BITS],
    /// For each odd prime, how many have which remainder.
    remainders: Vec<(u64, Vec<u64>)>,
}

impl Pattern {
    /// Watches the bits, small primes, and the primes that these divisors have.
    pub(super) fn new(divisors: &[u64]) -> Self {
        let mut primes: Vec<u64> = divisors
            .iter()
            .flat_map(|divisor| odd_primes(*divisor))
            .collect();
        primes.extend(PRIMES);
        primes.sort_unstable();
        primes.dedup();
        Self {
            integers: 0,
            ones: [0; BITS],
            remainders: primes
                .into_iter()
                .map(|prime| (prime, vec![0; prime as usize]))
                .collect(),
        }
    }

    pub(super) fn add(&mut self, number: i128) {
        self.integers += 1;
        for (bit, ones) in self.ones.iter_mut().enumerate() {
            *ones += (number >> bit & 1) as u64;
        }
        for (prime, counts) in &mut self.remainders {
            // Most ids fit, and the shorter division is several times faster.
            let remainder = match u64::try_from(number) {
                Ok(number) => number % *prime,
                Err(_) => number.rem_euclid(i128::from(*prime)) as u64,
            };
            if let Some(count) = counts.get_mut(remainder as usize) {
                *count += 1;
            }
        }
    }

    /// How many of the lowest bits are the same in nearly all ids; 0 where there are few ids.
    pub(super) fn constant_bits(&self) -> usize {
        if self.integers < ENOUGH {
            return 0;
        }
        let constant = self.ones.iter().take_while(|ones| {
            let share = **ones as f64 / self.integers as f64;
            !(0.01..=0.99).contains(&share)
        });
        constant.count()
    }

    /// The odd number by which nearly all ids have the same remainder, of those that are watched: 1
    /// where there is none.
    pub(super) fn odd_divisor(&self) -> u64 {
        if self.integers < ENOUGH {
            return 1;
        }
        let constant = self.remainders.iter().filter(|(_, counts)| {
            let most = counts.iter().max().copied().unwrap_or(0);
            most as f64 / self.integers as f64 > 0.99
        });
        constant.fold(1, |all: u64, (prime, _)| all.saturating_mul(*prime))
    }
}

fn odd_primes(mut number: u64) -> Vec<u64> {
    let mut primes = Vec::new();
    if number == 0 {
        return primes;
    }
    number >>= number.trailing_zeros();
    let mut divisor = 3;
    while divisor * divisor <= number {
        if number.is_multiple_of(divisor) {
            primes.push(divisor);
            while number.is_multiple_of(divisor) {
                number /= divisor;
            }
        }
        divisor += 2;
    }
    if number > 1 {
        primes.push(number);
    }
    primes
}
