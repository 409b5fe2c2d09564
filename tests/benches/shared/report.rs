//! What was measured, as data: `target/bench.json`, an array with an object a line.
//!
//! A row is a value of ours, or times of ours and of a baseline of the same run, in milliseconds and in the order of the runs. The
//! next run of a benchmark replaces its rows. `tests/tools/bench.py` compares two files.

use std::fs;
use std::time::Duration;

use serde_json::{Value, json};

use super::{median, millis, percentile};

/// Most times of a row. Of more, some are left out in equal steps.
const TIMES_MAX: usize = 1_000;

/// Adds times of ours, and those of the baseline that they are divided by.
pub(crate) fn compared(name: &str, ours: &[Duration], baseline: &str, theirs: &[Duration]) {
    let ratio = median(ours).as_secs_f64() / median(theirs).as_secs_f64();
    let mut other = times(theirs);
    other["name"] = baseline.into();
    add(
        json!({"bench": BENCH, "name": name, "unit": "ms", "ours": times(ours), "baseline": other, "ratio": rounded(ratio)}),
    );
}

/// Adds one value.
pub(crate) fn measured(name: &str, value: f64, unit: &str) {
    add(json!({"bench": BENCH, "name": name, "unit": unit, "ours": {"median": rounded(value)}}));
}

/// The benchmark that this is compiled into.
const BENCH: &str = env!("CARGO_CRATE_NAME");

fn times(times: &[Duration]) -> Value {
    let samples = times.iter().step_by(times.len().div_ceil(TIMES_MAX));
    let samples: Vec<f64> = samples.map(|time| rounded(millis(*time))).collect();
    json!({"median": rounded(millis(median(times))), "p99": rounded(millis(percentile(times, 99))), "samples": samples})
}

/// Millionths are more than any clock here tells.
fn rounded(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}

fn add(row: Value) {
    let path = lro_tests::target().join("bench.json");
    let before = fs::read_to_string(&path).unwrap_or_else(|_| "[]".to_owned());
    let mut rows: Vec<Value> = serde_json::from_str(&before).expect("an array of rows");
    let key = |row: &Value| ["bench", "name"].map(|key| row[key].clone());
    let of = |row: &Value| (key(row), row["baseline"]["name"].clone());
    rows.retain(|other| of(other) != of(&row));
    rows.push(row);
    let lines: Vec<String> = rows.iter().map(Value::to_string).collect();
    fs::write(&path, format!("[\n{}\n]\n", lines.join(",\n"))).expect("a file in the target directory");
}
