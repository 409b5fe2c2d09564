//! Redacts generated records, a file as JSON, or a file as text, and prints the speed beside what the default policy does
//! with records natively: `speed [FILE [json|text]]`. Times are processor times, alternating.

use std::error::Error;
use std::fmt::Write;

use lro_jsonl::{FileReport, Options, Output, Section, Shape, Splitter, Stream, Target};
use lro_redact::{Redactor, Rules};

/// Bytes of a slice: as many as a policy reads at once.
const SLICE_BYTES: usize = 256 * 1024;

const RECORDS: u32 = 100_000;
const RUNS: usize = 5;

struct Nowhere;

impl Output for Nowhere {
    type Error = std::convert::Infallible;

    fn begin(&mut self, _: Target<'_>) -> Result<(), Self::Error> {
        Ok(())
    }

    fn write(&mut self, _: Stream, _: &[u8]) -> Result<(), Self::Error> {
        Ok(())
    }

    fn end(&mut self, _: Stream, _: FileReport) -> Result<(), Self::Error> {
        Ok(())
    }
}

/// Records as those of `tests/redact/speed.rs`: each has an e-mail address.
fn records() -> String {
    let mut text = String::from("{\"people\":[");
    for id in 0..RECORDS {
        let comma = if id > 0 { "," } else { "" };
        let _ = write!(
            text,
            r#"{comma}{{"id":{id},"name":"Person {id}","score":0.{:06},"active":{},"note":"{}","tags":["red","p0"],"meta":{{"owner":"team-{}","mail":"person.{id}@example.com"}}}}"#,
            id * 7919 % 1_000_000,
            id % 2 == 0,
            "lorem ipsum dolor sit amet ".repeat((id % 4) as usize),
            id % 12,
        );
    }
    text + "]}"
}

fn slices(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let (slice, after) = rest.split_at(rest.floor_char_boundary(SLICE_BYTES));
        rest = after;
        (!slice.is_empty()).then_some(slice)
    })
}

fn redact(rules: &Rules, text: &str, is_json: bool) -> usize {
    let (mut redactor, mut out, mut bytes) = (Redactor::new(rules, is_json), String::new(), 0);
    for slice in slices(text) {
        redactor.push(slice, &mut out);
        bytes += out.len();
        out.clear();
    }
    redactor.finish(&mut out);
    bytes + out.len()
}

fn split(text: &str) -> Result<(), Box<dyn Error>> {
    let sections = vec![Section { pointer: "/people".to_owned(), shape: Shape::Elements }];
    let options = Options { sections, inline_bytes: 1024, inline_total: 4096, profile: true, ..Options::default() };
    let mut splitter = Splitter::new(options, Nowhere);
    slices(text).try_for_each(|slice| splitter.push(slice)).map_err(|error| error.to_string())?;
    splitter.finish().map_err(|error| error.to_string())?;
    Ok(())
}

/// Processor time of this thread in seconds.
fn processor_time() -> Result<f64, Box<dyn Error>> {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    let nanoseconds: u64 = stat.split(' ').next().ok_or("no time")?.parse()?;
    Ok(nanoseconds as f64 / 1e9)
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let file = arguments.next();
    let is_json = arguments.next().is_none_or(|kind| kind == "json");
    let text = file.as_ref().map_or_else(|| Ok(records()), std::fs::read_to_string)?;
    let rules = Rules::default();
    let mut least = [f64::MAX; 2];
    for _ in 0..RUNS {
        let start = processor_time()?;
        if file.is_none() {
            split(&text)?;
        }
        let middle = processor_time()?;
        let bytes = redact(&rules, &text, is_json);
        let end = processor_time()?;
        least = [least[0].min(middle - start), least[1].min(end - middle)];
        println!("split {:.1} ms, redact {:.1} ms to {bytes} bytes", (middle - start) * 1e3, (end - middle) * 1e3);
    }
    println!("redacts {:.0} MB/s", text.len() as f64 / 1e6 / least[1]);
    if file.is_none() {
        println!("with the splitter {:.2} times the splitter alone", (least[0] + least[1]) / least[0]);
    }
    Ok(())
}
