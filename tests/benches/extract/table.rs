//! The table of measured and required values.

use std::time::Duration;

use crate::shared::{compared, measured, median, millis};

/// Our times and those of another program, and the required ratio.
pub(crate) fn row(question: &str, ours: &[Duration], other: &str, theirs: &[Duration], asked: Option<f64>) {
    compared(question, ours, other, theirs);
    let (ours, theirs) = (median(ours), median(theirs));
    let ratio = theirs.as_secs_f64() / ours.as_secs_f64();
    print!("  {question:<40} {:>9.2} ms  {other:<18} {:>9.1} ms {ratio:>9.2} ×", millis(ours), millis(theirs));
    match asked {
        Some(asked) => println!("  {asked:>5.1} ×    {}", verdict(ratio >= asked)),
        None => println!(),
    }
}

/// A value of ours that must stay below a bound.
pub(crate) fn limit(what: &str, found: f64, asked: f64, unit: &str) {
    measured(what, found, unit);
    println!("  {what:<40} {found:>9.3} {unit:<3} asked < {asked} {unit:<3} {}", verdict(found < asked));
}

fn verdict(is_met: bool) -> &'static str {
    if is_met { "met" } else { "MISSED" }
}
