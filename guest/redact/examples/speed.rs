//! The time that redaction takes beside the splitter of the default policy, on records with an e-mail address each.
//!
//! `cargo run --release -p lro-redact --example speed`

#![expect(clippy::print_stdout, reason = "an example prints what it measures")]

use std::convert::Infallible;
use std::fmt::Write;
use std::hint::black_box;
use std::time::{Duration, Instant};

use lro_jsonl::{FileReport, Options, Output, Section, Shape, Splitter, Stream, Target};
use lro_redact::{Redactor, Rules};

const RECORDS: u32 = 100_000;

/// Bytes read at a time: 256 KiB, as the policy reads.
const SLICE_BYTES: usize = 256 * 1024;

/// Runs of each; the fastest counts.
const RUNS: usize = 9;

fn main() {
    let document = document();
    println!("{RECORDS} records, {} bytes", document.len());
    let rules = Rules::default();
    let mut fastest = [Duration::MAX; 3];
    for _ in 0..RUNS {
        let times =
            [timed(|| split(&document, false)), timed(|| split(&document, true)), timed(|| redact(&document, &rules))];
        for (fastest, time) in fastest.iter_mut().zip(times) {
            *fastest = time.min(*fastest);
        }
    }
    let [lines, profile, redact] = fastest;
    println!("splitter {lines:.1?}, with a profile {profile:.1?}, redaction {redact:.1?}");
    println!("redaction takes {:.2} times as long as the splitter", redact.as_secs_f64() / lines.as_secs_f64());
}

fn timed(work: impl FnOnce() -> usize) -> Duration {
    let start = Instant::now();
    black_box(work());
    start.elapsed()
}

fn split(document: &str, profile: bool) -> usize {
    let section = Section { pointer: "/people".to_owned(), shape: Shape::Elements };
    let mut count = Count(0);
    let mut splitter = Splitter::new(Options { sections: vec![section], profile, ..Options::default() }, &mut count);
    let split = slices(document).try_for_each(|slice| splitter.push(slice)).and_then(|()| splitter.finish().map(drop));
    if let Err(error) = split {
        println!("{error}");
    }
    count.0
}

fn redact(document: &str, rules: &Rules) -> usize {
    let (mut redactor, mut out, mut bytes) = (Redactor::new(rules, true), String::new(), 0);
    for slice in slices(document) {
        redactor.push(slice, &mut out);
        bytes += out.len();
        out.clear();
    }
    redactor.finish(&mut out);
    bytes + out.len()
}

fn document() -> String {
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

fn slices(mut text: &str) -> impl Iterator<Item = &str> {
    std::iter::from_fn(move || {
        let (slice, rest) = text.split_at(text.floor_char_boundary(SLICE_BYTES));
        text = rest;
        (!slice.is_empty()).then_some(slice)
    })
}

/// Counts the bytes of what the splitter writes.
struct Count(usize);

impl Output for Count {
    type Error = Infallible;

    fn begin(&mut self, _: Target<'_>) -> Result<(), Infallible> {
        Ok(())
    }

    fn write(&mut self, _: Stream, bytes: &[u8]) -> Result<(), Infallible> {
        self.0 += bytes.len();
        Ok(())
    }

    fn end(&mut self, _: Stream, _: FileReport) -> Result<(), Infallible> {
        Ok(())
    }
}
