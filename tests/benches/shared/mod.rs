//! Shared by the benchmarks: the data, and the measurement of time.

use std::time::{Duration, Instant};

/// Numbers of records to measure with, from `LRO_BENCH_RECORDS`, separated by commas, or the defaults.
pub(crate) fn sizes(default: &[usize]) -> Vec<usize> {
    match std::env::var("LRO_BENCH_RECORDS") {
        Ok(sizes) => sizes.split(',').map(|size| size.trim().parse().expect("a number of records")).collect(),
        Err(_) => default.to_vec(),
    }
}

/// Median times of some jobs, run in turn, so that a slow moment of the machine affects them all.
pub(crate) fn alternate<const N: usize>(repetitions: usize, mut jobs: [&mut dyn FnMut(); N]) -> [Duration; N] {
    let mut times: [Vec<Duration>; N] = std::array::from_fn(|_| Vec::with_capacity(repetitions));
    for round in 0..=repetitions {
        for (job, times) in jobs.iter_mut().zip(&mut times) {
            let started = Instant::now();
            job();
            // The first round is a warm-up.
            if round > 0 {
                times.push(started.elapsed());
            }
        }
    }
    times.map(median)
}

pub(crate) fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

pub(crate) fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
