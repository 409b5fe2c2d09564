//! The splitter accepts what `serde_json` accepts, wherever the slices are cut, and its lines are JSON.
//!
//! `RawValue` is checked by the grammar alone: lone surrogates are accepted on both sides. Only the depth limit and the
//! limit for keys of the skeleton reject more.
#![no_main]

use std::convert::Infallible;

use libfuzzer_sys::fuzz_target;
use lro_json::SyntaxErrorKind;
use lro_jsonl::{Error, FileReport, Options, Output, Section, Shape, Splitter, Stream, Target, survey};
use serde_json::value::RawValue;

#[derive(Default)]
struct Lines {
    current: Vec<u8>,
    rest: Vec<u8>,
}

impl Output for Lines {
    type Error = Infallible;

    fn begin(&mut self, _target: Target<'_>) -> Result<(), Infallible> {
        Ok(())
    }

    fn write(&mut self, stream: Stream, bytes: &[u8]) -> Result<(), Infallible> {
        match stream {
            Stream::Current => self.current.extend_from_slice(bytes),
            Stream::Rest => self.rest.extend_from_slice(bytes),
        }
        Ok(())
    }

    fn end(&mut self, stream: Stream, report: FileReport) -> Result<(), Infallible> {
        let bytes = match stream {
            Stream::Current => std::mem::take(&mut self.current),
            Stream::Rest => std::mem::take(&mut self.rest),
        };
        let text = String::from_utf8(bytes).expect("UTF-8");
        assert_eq!(text.lines().count() as u64, report.records);
        for line in text.lines() {
            serde_json::from_str::<&RawValue>(line).expect("a line is JSON");
        }
        if let Some(profile) = report.profile {
            serde_json::from_str::<&RawValue>(&profile.schema_json()).expect("a schema is JSON");
            assert_eq!(profile.records(), report.records);
            profile.fields().count();
        }
        Ok(())
    }
}

fn run(text: &str, slice_bytes: usize, sections: Vec<Section>) -> Result<(), SyntaxErrorKind> {
    let options = Options {
        sections,
        keep: vec!["/k".into()],
        keep_bytes: 8,
        inline_bytes: 16,
        inline_total: 40,
        inline_exclude: Vec::new(),
        note: vec!["n".into()],
        large_max: 2,
        profile: true,
    };
    let mut splitter = Splitter::new(options, Lines::default());
    let mut rest = text;
    let kind = |error| match error {
        Error::Syntax(error) => error.kind,
        Error::Output(error) => match error {},
    };
    while !rest.is_empty() {
        let (slice, after) = rest.split_at(rest.ceil_char_boundary(slice_bytes.min(rest.len())));
        splitter.push(slice).map_err(kind)?;
        rest = after;
    }
    splitter.finish().map(|_| ()).map_err(kind)
}

fuzz_target!(|data: &[u8]| {
    let Some((&seed, data)) = data.split_first() else { return };
    let Ok(text) = std::str::from_utf8(data) else { return };
    let accepted = serde_json::from_str::<&RawValue>(text).is_ok();
    let shape = if seed & 1 == 0 { Shape::Elements } else { Shape::Members };
    let sections = vec![Section { pointer: "/a".into(), shape }, Section { pointer: "/b/c".into(), shape }];
    for sections in [sections, vec![Section { pointer: String::new(), shape }], Vec::new()] {
        for slice_bytes in [usize::from(seed) + 1, usize::MAX] {
            match run(text, slice_bytes, sections.clone()) {
                Err(SyntaxErrorKind::DepthLimit | SyntaxErrorKind::KeyLimit(_)) => {}
                result => assert_eq!(result.is_ok(), accepted, "{result:?}"),
            }
        }
    }
    if accepted && let Ok(sections) = survey(text, true) {
        run(text, 64, sections).expect("valid");
    }
});
