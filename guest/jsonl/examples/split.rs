//! Splits a file and prints what came out and how fast:
//! `split FILE [--section POINTER]... [--profile] [--out DIRECTORY] [--repeat N]`.

use std::error::Error;
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::time::Instant;

use lro_jsonl::{FileReport, Options, Output, Section, Shape, Splitter, Stream, Target, survey};

const SLICE_BYTES: usize = 256 * 1024;

/// Numbered files in a directory, or nowhere.
struct Files {
    directory: Option<PathBuf>,
    current: Option<File>,
    rest: Option<File>,
    count: usize,
    verbose: bool,
}

impl Output for Files {
    type Error = std::io::Error;

    fn begin(&mut self, target: Target<'_>) -> Result<(), Self::Error> {
        if self.verbose {
            println!("{target:?}");
        }
        if let Some(directory) = &self.directory {
            let file = File::create(directory.join(format!("{}.jsonl", self.count)))?;
            self.count += 1;
            *(if target == Target::Rest { &mut self.rest } else { &mut self.current }) = Some(file);
        }
        Ok(())
    }

    fn write(&mut self, stream: Stream, bytes: &[u8]) -> Result<(), Self::Error> {
        match if stream == Stream::Rest { &mut self.rest } else { &mut self.current } {
            Some(file) => file.write_all(bytes),
            None => Ok(()),
        }
    }

    fn end(&mut self, _stream: Stream, report: FileReport) -> Result<(), Self::Error> {
        if self.verbose {
            println!("  {} records, {} bytes", report.records, report.bytes);
            if let Some(profile) = report.profile {
                println!("  {}", profile.schema_json());
                for field in profile.fields() {
                    println!("  {field:?}");
                }
            }
        }
        Ok(())
    }
}

fn slices(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let (slice, after) = rest.split_at(rest.floor_char_boundary(SLICE_BYTES));
        rest = after;
        (!slice.is_empty()).then_some(slice)
    })
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (mut file, mut directory, mut sections, mut profile, mut repeat) = (None, None, Vec::new(), false, 1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or("a value is missing");
        match argument.as_str() {
            "--section" => sections.push(Section { pointer: value()?, shape: Shape::Elements }),
            "--profile" => profile = true,
            "--out" => directory = Some(PathBuf::from(value()?)),
            "--repeat" => repeat = value()?.parse()?,
            _ => file = Some(argument),
        }
    }
    let text = std::fs::read_to_string(file.ok_or("which file?")?)?;
    if sections.is_empty() {
        let prefix = text.get(..text.floor_char_boundary(lro_jsonl::SURVEY_BYTES_MAX)).unwrap_or_default();
        sections = survey(prefix, prefix.len() == text.len())?;
    }
    let options = Options { sections, inline_bytes: 1024, inline_total: 4096, profile, ..Options::default() };
    let mut times = Vec::new();
    for round in 0..repeat {
        let files = Files { directory: directory.clone(), current: None, rest: None, count: 0, verbose: round == 0 };
        let start = Instant::now();
        let mut splitter = Splitter::new(options.clone(), files);
        for slice in slices(&text) {
            splitter.push(slice).map_err(|error| error.to_string())?;
        }
        let (document, _) = splitter.finish().map_err(|error| error.to_string())?;
        times.push(start.elapsed());
        if round == 0 {
            println!("{document:?}");
        }
    }
    times.sort();
    for (name, place) in [("best", 0), ("median", times.len() / 2)] {
        let time = times.get(place).ok_or("no round")?;
        println!("{name} {time:?}, {:.0} MB/s", text.len() as f64 / 1e6 / time.as_secs_f64());
    }
    Ok(())
}
