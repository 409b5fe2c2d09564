//! Shared by the tests: a reader over slices, and its lines.
#![allow(dead_code, reason = "each test binary uses a part of it")]
#![expect(clippy::panic, reason = "a test fails by panicking")]

use std::convert::Infallible;

use lro_jsonl::{FileReport, Options, Output, Profile, Section, Shape, Splitter, Stream, Target};
use lro_text::{Error, Fault, Form, Hints, ReadError, Reader, Report, recognize};
use proptest::prelude::*;

/// Random numbers that cut slices.
pub(crate) fn dice() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![Just(vec![255]), proptest::collection::vec(1_u8..9, 1..9), proptest::collection::vec(any::<u8>(), 1..9)]
}

/// Cuts a text into slices of these lengths, in turn; a length of 255 is all the rest.
pub(crate) fn slices<'a>(text: &'a str, dice: &[u8]) -> Vec<&'a str> {
    let (mut slices, mut rest) = (Vec::new(), text);
    for &length in dice.iter().cycle() {
        if rest.is_empty() {
            break;
        }
        let length = if length == 255 { rest.len() } else { usize::from(length).max(1) };
        let (slice, after) = rest.split_at(rest.ceil_char_boundary(length.min(rest.len())));
        slices.push(slice);
        rest = after;
    }
    slices
}

/// Reads slices; the lines, and the report. The profile of a table has to be that of its lines.
pub(crate) fn read<'a>(form: &Form, slices: impl IntoIterator<Item = &'a str>) -> Result<(String, Report), ReadError> {
    let slices: Vec<_> = slices.into_iter().collect();
    let (lines, report, nothing) = read_with(Reader::new(form), &slices)?;
    assert!(nothing.is_none(), "a profile that nobody asked for");
    let (again, profiled, profile) = read_with(Reader::with_profile(form), &slices)?;
    assert_eq!((&again, &profiled), (&lines, &report), "the same with a profile");
    assert_eq!(profile.is_some(), form.is_table());
    if let Some(profile) = profile {
        let expected = profile_of_lines(&lines);
        assert_eq!(profile.records(), expected.records());
        assert_eq!(profile.schema_json(), expected.schema_json());
        assert!(profile.all_fields().eq(expected.all_fields()), "{:?}", profile.all_fields().collect::<Vec<_>>());
    }
    Ok((lines, report))
}

/// The profile of JSON Lines.
fn profile_of_lines(lines: &str) -> Profile {
    struct Only(Option<Profile>);
    impl Output for Only {
        type Error = Infallible;
        fn begin(&mut self, _: Target<'_>) -> Result<(), Infallible> {
            Ok(())
        }
        fn write(&mut self, _: Stream, _: &[u8]) -> Result<(), Infallible> {
            Ok(())
        }
        fn end(&mut self, _: Stream, report: FileReport) -> Result<(), Infallible> {
            self.0 = report.profile;
            Ok(())
        }
    }
    let sections = vec![Section { pointer: String::new(), shape: Shape::Elements }];
    let mut splitter = Splitter::new(Options { sections, profile: true, ..Options::default() }, Only(None));
    let array = format!("[{}]", lines.lines().collect::<Vec<_>>().join(","));
    let ended = splitter.push(&array).and_then(|()| splitter.finish());
    let (_, Only(profile)) = ended.unwrap_or_else(|error| panic!("lines are not JSON: {error}"));
    profile.unwrap_or_else(|| panic!("no profile"))
}

fn read_with(mut reader: Reader, slices: &[&str]) -> Result<(String, Report, Option<Profile>), ReadError> {
    let mut lines = Vec::new();
    let mut out = |bytes: &[u8]| {
        lines.extend_from_slice(bytes);
        Ok::<(), Infallible>(())
    };
    let text_error = |error| match error {
        Error::Text(error) => error,
        Error::Output(never) => match never {},
    };
    for slice in slices {
        reader.push(slice, &mut out).map_err(text_error)?;
    }
    let (report, profile) = reader.finish_with_profile(&mut out).map_err(text_error)?;
    let lines = String::from_utf8(lines).unwrap_or_else(|error| panic!("lines are not UTF-8: {error}"));
    assert_eq!(lines.lines().count() as u64, report.records, "lines and records");
    Ok((lines, report, profile))
}

/// The lines of a text.
pub(crate) fn lines(form: &Form, text: &str) -> Result<Vec<String>, Fault> {
    read(form, [text]).map(|(lines, _)| lines.lines().map(String::from).collect()).map_err(|error| error.fault)
}

/// The form of a whole text.
pub(crate) fn form(text: &str) -> Option<Form> {
    recognize(text, &Hints { complete: true, ..Hints::default() })
}

/// The lines of a whole text in the form that it is recognized to have.
pub(crate) fn recognized(text: &str) -> Vec<String> {
    let form = form(text).unwrap_or_else(|| panic!("no form: {text}"));
    lines(&form, text).unwrap_or_else(|fault| panic!("{form:?}: {fault}"))
}
