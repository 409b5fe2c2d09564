//! Shared by the benchmarks: the data, the measurement of time, and the file of what was measured.

mod report;

use std::time::{Duration, Instant};

pub(crate) use report::{compared, measured};

/// Numbers of records to measure with, from `LRO_BENCH_RECORDS`, separated by commas, or the defaults.
pub(crate) fn sizes(default: &[usize]) -> Vec<usize> {
    match std::env::var("LRO_BENCH_RECORDS") {
        Ok(sizes) => sizes.split(',').map(|size| size.trim().parse().expect("a number of records")).collect(),
        Err(_) => default.to_vec(),
    }
}

/// Times of some jobs in the order of their runs. They run in turn, so that a slow moment of the machine affects them all.
pub(crate) fn alternate<const N: usize>(repetitions: usize, mut jobs: [&mut dyn FnMut(); N]) -> [Vec<Duration>; N] {
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
    times
}

pub(crate) fn median(times: &[Duration]) -> Duration {
    percentile(times, 50)
}

/// The least time that so many percent of the times do not exceed.
pub(crate) fn percentile(times: &[Duration], percent: usize) -> Duration {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    sorted[(sorted.len() * percent / 100).min(sorted.len() - 1)]
}

pub(crate) fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
