//! A JSON array of many values, which a splitter takes apart into the records of one file.

use std::ops::Range;

use lro_json::Validator;
use lro_jsonl::{Document, Error, Options, Section, Shape, Splitter};

use crate::records::Records;
use crate::write::read;
use crate::{PolicyError, Source};

/// White space between the tokens of JSON.
const WHITE: [char; 4] = [' ', '\t', '\n', '\r'];

/// An array that is written value by value.
pub(crate) struct Array<'a, 'b> {
    splitter: Splitter<&'a mut Records<'b>>,
    has_elements: bool,
    /// The last line of [`Array::lines`] has its line feed.
    at_line_end: bool,
}

impl<'a, 'b> Array<'a, 'b> {
    pub(crate) fn new(infer: bool, records: &'a mut Records<'b>) -> Self {
        let section = Section { pointer: String::new(), shape: Shape::Elements };
        let options = Options { sections: vec![section], profile: infer, ..Options::default() };
        Self { splitter: Splitter::new(options, records), has_elements: false, at_line_end: true }
    }

    /// Begins the next element.
    fn next(&mut self) -> Result<(), Error<PolicyError>> {
        let before = if self.has_elements { "," } else { "[" };
        self.has_elements = true;
        self.splitter.push(before)
    }

    /// Adds a JSON value.
    pub(crate) fn text(&mut self, value: &str) -> Result<(), Error<PolicyError>> {
        self.next()?;
        self.splitter.push(value)
    }

    /// Adds compact JSON values that each end with a line feed. The text may be cut inside them.
    pub(crate) fn lines(&mut self, lines: &str) -> Result<(), Error<PolicyError>> {
        if lines.is_empty() {
            return Ok(());
        }
        if self.at_line_end {
            self.next()?;
        }
        let values = lines.strip_suffix('\n');
        self.at_line_end = values.is_some();
        self.splitter.push(&values.unwrap_or(lines).replace('\n', ","))
    }

    /// Adds the value of a part. Its end is checked, because what follows could complete a broken one.
    pub(crate) fn value(&mut self, source: &dyn Source, part: u32) -> Result<(), Error<PolicyError>> {
        self.next()?;
        let mut validator = Validator::new();
        read(source, part, &mut |slice| {
            validator.push(slice)?;
            self.splitter.push(slice)
        })?;
        Ok(validator.finish()?)
    }

    /// Adds the elements of a part that is an array, or its value.
    pub(crate) fn elements(&mut self, source: &dyn Source, part: u32) -> Result<(), Error<PolicyError>> {
        let Some(inside) = inside(source, part)? else { return self.value(source, part) };
        if inside.is_empty() {
            return Ok(());
        }
        self.next()?;
        let mut offset = 0;
        read(source, part, &mut |slice| {
            let index = |at: u64| usize::try_from(at.saturating_sub(offset)).unwrap_or(usize::MAX).min(slice.len());
            let pushed = self.splitter.push(&slice[index(inside.start)..index(inside.end)]);
            offset += slice.len() as u64;
            pushed
        })
    }

    /// Ends the array.
    pub(crate) fn finish(mut self) -> Result<Document, Error<PolicyError>> {
        self.splitter.push(if self.has_elements { "]" } else { "[]" })?;
        self.splitter.finish().map(|(document, _)| document)
    }
}

/// The bytes between the brackets of a JSON array, empty when it has no elements; `None` for another value.
fn inside(source: &dyn Source, part: u32) -> Result<Option<Range<u64>>, Error<PolicyError>> {
    let mut validator = Validator::new();
    let (mut offset, mut is_array, mut last) = (0, None, 0);
    // Offsets of the first two characters that are not white space.
    let mut first: [Option<u64>; 2] = [None; 2];
    read(source, part, &mut |slice| {
        validator.push(slice)?;
        let mut rest = slice;
        while let Some(missing) = first.iter_mut().find(|found| found.is_none()) {
            rest = rest.trim_start_matches(WHITE);
            let Some(character) = rest.chars().next() else { break };
            *missing = Some(offset + (slice.len() - rest.len()) as u64);
            is_array.get_or_insert(character == '[');
            rest = &rest[character.len_utf8()..];
        }
        let end = slice.trim_end_matches(WHITE).len();
        if end > 0 {
            last = offset + end as u64 - 1;
        }
        offset += slice.len() as u64;
        Ok(())
    })?;
    validator.finish()?;
    Ok(match (is_array, first) {
        (Some(true), [_, Some(second)]) => Some(second..last),
        _ => None,
    })
}
