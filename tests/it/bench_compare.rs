//! Comparing two runs of the benchmarks.

use std::process::{Command, Output};

use lro_tests::workspace;
use serde_json::{Value, json};
use tempfile::TempDir;

/// Rounds of a run: each differs from the next by a few percent.
const NOISE: [f64; 10] = [1.0, 1.03, 0.98, 1.01, 0.97, 1.02, 1.0, 0.99, 1.04, 0.96];

/// A row of `target/bench.json`, from our times and those of the baseline.
fn row(name: &str, ours: &[f64], baseline: &[f64]) -> Value {
    let median = |times: &[f64]| {
        let mut sorted = times.to_vec();
        sorted.sort_by(f64::total_cmp);
        sorted[sorted.len() / 2]
    };
    json!({
        "bench": "extract", "name": name, "unit": "ms", "ratio": median(ours) / median(baseline),
        "ours": {"median": median(ours), "samples": ours},
        "baseline": {"name": "jq", "median": median(baseline), "samples": baseline},
    })
}

fn times(millis: f64, rotated: usize) -> Vec<f64> {
    let mut noise = NOISE;
    noise.rotate_left(rotated);
    noise.map(|noise| millis * noise).to_vec()
}

fn compare(base: &Value, new: &Value) -> Output {
    let directory = TempDir::new().unwrap();
    let files = [("base.json", base), ("new.json", new)].map(|(name, rows)| {
        let path = directory.path().join(name);
        std::fs::write(&path, rows.to_string()).unwrap();
        path
    });
    Command::new("python3").arg(workspace().join("tests/tools/bench.py")).args(files).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_ratio_that_is_worse_by_more_than_the_noise_fails() {
    let base = json!([row("count", &times(10.0, 0), &times(5.0, 3)), row("group", &times(10.0, 0), &times(5.0, 3))]);
    let new = json!([row("count", &times(10.0, 5), &times(5.0, 1)), row("group", &times(13.0, 5), &times(5.0, 1))]);
    let output = compare(&base, &new);
    let printed = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{printed}{}", text(&output.stderr));
    let worse: Vec<&str> = printed.lines().filter(|line| line.ends_with("WORSE")).collect();
    assert!(matches!(worse[..], [line] if line.contains("group / jq: 2 to 2.6")), "{printed}");
}

#[test]
fn noise_and_a_slower_machine_pass() {
    let base = json!([row("count", &times(10.0, 0), &times(5.0, 3))]);
    let mut slow_rounds = times(20.0, 4);
    slow_rounds[..3].iter_mut().for_each(|time| *time *= 4.0);
    let new = json!([row("count", &slow_rounds, &times(10.0, 2))]);
    let output = compare(&base, &new);
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
}

#[test]
fn a_row_that_is_gone_is_named_and_nothing_in_common_fails() {
    let (count, group) = (row("count", &times(10.0, 0), &times(5.0, 3)), row("group", &times(10.0, 0), &times(5.0, 3)));
    let output = compare(&json!([count, group]), &json!([count]));
    assert!(output.status.success());
    assert!(text(&output.stdout).contains("group / jq: only in BASE"), "{}", text(&output.stdout));
    assert_eq!(compare(&json!([count]), &json!([group])).status.code(), Some(1));
}
