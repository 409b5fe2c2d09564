//! Reads the records of a file and prints the report and the speed: `read FILE [REPETITIONS]`.

use std::error::Error;
use std::time::Instant;

use lro_text::{Hints, Reader, recognize};

/// Bytes of a slice: as many as a policy reads at once.
const SLICE_BYTES: usize = 256 * 1024;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("usage: read FILE [REPETITIONS]")?;
    let repetitions: u32 = arguments.next().map_or(Ok(1), |count| count.parse())?;
    let text = std::fs::read_to_string(&path)?;
    let form = recognize(&text, &Hints { name: Some(&path), complete: true, ..Hints::default() }).ok_or("no form")?;
    for _ in 0..repetitions {
        let started = Instant::now();
        let mut bytes = 0;
        let mut out = |lines: &[u8]| {
            bytes += lines.len();
            Ok::<(), std::convert::Infallible>(())
        };
        let mut reader = Reader::new(&form);
        let mut rest = text.as_str();
        while !rest.is_empty() {
            let (slice, after) = rest.split_at(rest.floor_char_boundary(SLICE_BYTES));
            reader.push(slice, &mut out)?;
            rest = after;
        }
        let report = reader.finish(&mut out)?;
        let speed = text.len() as f64 / started.elapsed().as_secs_f64() / 1e6;
        println!("{form:?}: {} records, {bytes} bytes, {speed:.0} MB/s", report.records);
    }
    Ok(())
}
