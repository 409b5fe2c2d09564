//! Reads whole records by the texts between their values, which most records share: brackets, commas, keys and white space
//! are compared as one text, and only the values are looked at. What is not so, or not certainly valid, changes nothing and is
//! left to the scanner.
//!
//! What such a text means follows from the node of the value before it: which containers it closes and opens, and which
//! properties it names. So a text that was valid behind one value of that node is valid behind each.

use std::ops::Range;

use lro_json::{LANE, Lane, scalar_end};

use super::Profile;
use super::node::{NONE, Node};
use super::number::Short;

/// Longest text of a step.
const TEXT_BYTES_MAX: usize = 96;

/// Most steps of a profile, and most behind the values of one node.
const STEPS_MAX: usize = 1024;
const WAYS_MAX: usize = 8;

/// Most values of a record that is read by steps.
pub(super) const VALUES_MAX: usize = 512;

/// The steps that records have taken so far.
#[derive(Clone, Debug)]
pub(super) struct Steps {
    steps: Vec<Step>,
    /// One of those at the beginning of a record, and the last one that was taken.
    first: u32,
    last: u32,
    /// What was found in a record, before it counts: room for [`VALUES_MAX`].
    found: Vec<Found>,
    /// White space between the tokens of the record that was read last, in order.
    white: Vec<Range<usize>>,
}

/// The text between two values, or between one and the beginning or the end of the record.
#[derive(Clone, Debug)]
pub(super) struct Step {
    text: [u8; TEXT_BYTES_MAX],
    length: usize,
    /// The node of the value behind it; `NONE` when it ends with the comma behind the record.
    to: u32,
    /// The step that was taken after it the last time.
    next: u32,
    /// Another step behind values of the same node.
    other: u32,
    /// Times that are not yet counted at the nodes.
    times: u64,
    counts: Vec<Count>,
    /// White space in it.
    white: Vec<Range<usize>>,
}

/// What a step says of a node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Count {
    pub(super) node: u32,
    /// Whether the node is a property of an object.
    pub(super) property: bool,
    /// The container that begins there, if one does.
    pub(super) opens: Option<Bracket>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bracket {
    Object,
    Array,
}

/// A step that was taken, and the value behind it.
#[derive(Clone, Copy, Debug)]
struct Found {
    scalar: Scalar,
    start: usize,
    step: u32,
    node: u32,
}

/// A string, number or literal.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scalar {
    /// That of a [`Short`] number.
    rank: i128,
    kind: Kind,
    /// The index behind it.
    pub(super) end: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    String,
    /// A [`Short`] number that is an integer.
    Integer,
    /// Any other [`Short`] number.
    Decimal,
    /// Any other number.
    Number,
    Literal,
}

impl Default for Steps {
    fn default() -> Self {
        Self { steps: Vec::new(), first: NONE, last: NONE, found: Vec::new(), white: Vec::new() }
    }
}

impl Step {
    /// `None` when the text is too long.
    pub(super) fn new(text: &[u8], to: u32, counts: Vec<Count>, white: Vec<Range<usize>>) -> Option<Self> {
        let mut bytes = [0; TEXT_BYTES_MAX];
        bytes.get_mut(..text.len())?.copy_from_slice(text);
        Some(Self { text: bytes, length: text.len(), to, next: NONE, other: NONE, times: 0, counts, white })
    }

    /// Whether it begins a text that has some bytes to spare.
    #[inline(always)]
    fn begins(&self, text: &[u8]) -> bool {
        let mut length = self.length;
        for (own, other) in self.text.as_chunks::<LANE>().0.iter().zip(text.as_chunks::<LANE>().0) {
            let same = Lane::load(own).same(Lane::load(other)).bits();
            if length <= LANE {
                return same.trailing_ones() as usize >= length;
            }
            if same != u16::MAX {
                return false;
            }
            length -= LANE;
        }
        false
    }
}

impl Steps {
    /// Finds the steps and values of the record at `start`; returns how many there are, and the index behind its comma.
    #[inline(always)]
    fn find(&mut self, nodes: &[Node], text: &[u8], start: usize) -> Option<(usize, usize)> {
        let (mut at, mut count, mut ways) = (start, 0, self.first);
        let mut likely = self.steps.get(self.last as usize).map_or(NONE, |step| step.next);
        loop {
            let rest = text.get(at..)?;
            let mut index = likely;
            let (step, start, scalar) = loop {
                if let Some(step) = self.steps.get(index as usize).filter(|step| step.begins(rest)) {
                    let start = at + step.length;
                    if step.to == NONE {
                        break (step, start, Scalar { rank: 0, kind: Kind::Literal, end: start });
                    }
                    if let Some(scalar) = Scalar::read(text, start) {
                        break (step, start, scalar);
                    }
                }
                index = ways;
                ways = self.steps.get(ways as usize)?.other;
            };
            *self.found.get_mut(count)? = Found { scalar, start, step: index, node: step.to };
            count += 1;
            at = scalar.end;
            if step.to == NONE {
                return Some((count, at));
            }
            likely = step.next;
            ways = nodes.get(step.to as usize)?.step;
        }
    }

    /// Adds a step behind values of a node, or at the beginning of a record. Returns whether there is such a step now, which is
    /// `false` at a limit.
    pub(super) fn add(&mut self, nodes: &mut [Node], from: u32, step: Step) -> bool {
        let first = nodes.get_mut(from as usize).map_or(&mut self.first, |node| &mut node.step);
        let (mut other, mut ways) = (*first, 0);
        while let Some(known) = self.steps.get(other as usize) {
            if (known.length, known.text) == (step.length, step.text) {
                return true;
            }
            (other, ways) = (known.other, ways + 1);
        }
        if ways == WAYS_MAX || self.steps.len() == STEPS_MAX {
            return false;
        }
        let other = std::mem::replace(first, self.steps.len() as u32);
        self.steps.push(Step { other, ..step });
        true
    }
}

impl Profile {
    /// Reads the element of an array at `start`, or at the white space before it, if it is a container, all its properties are
    /// known and a comma follows; returns the index behind that comma. [`Profile::white`] is then its white space.
    pub(crate) fn read_record(&mut self, text: &[u8], start: usize) -> Option<usize> {
        if self.steps.found.is_empty() {
            let scalar = Scalar { rank: 0, kind: Kind::Literal, end: 0 };
            self.steps.found.resize(VALUES_MAX, Found { scalar, start: 0, step: NONE, node: NONE });
        }
        let (count, end) = match self.steps.find(&self.nodes, text, start) {
            Some(found) => found,
            None => {
                self.learn(text, start)?;
                self.steps.find(&self.nodes, text, start)?
            }
        };
        self.count(text, start, count);
        Some(end)
    }

    /// The white space of the record that was read last, in order.
    pub(crate) fn white(&self) -> &[Range<usize>] {
        &self.steps.white
    }

    /// Counts the record at `start`, of which so many steps were found.
    #[inline(always)]
    fn count(&mut self, text: &[u8], start: usize, count: usize) {
        // In variables of their own, as the compiler cannot know that nothing here changes them.
        let (steps, nodes) = (self.steps.steps.as_mut_slice(), self.nodes.as_mut_slice());
        let (mut at, mut last) = (start, self.steps.last);
        self.steps.white.clear();
        for found in self.steps.found.iter().take(count) {
            if let Some(before) = steps.get_mut(last as usize)
                && before.next != found.step
            {
                before.next = found.step;
            }
            last = found.step;
            if let Some(step) = steps.get_mut(last as usize) {
                step.times += 1;
                if !step.white.is_empty() {
                    self.steps.white.extend(step.white.iter().map(|white| at + white.start..at + white.end));
                }
            }
            at = found.scalar.end;
            if let Some(node) = nodes.get_mut(found.node as usize) {
                found.scalar.count(node, text, found.start);
            }
        }
        self.steps.last = last;
    }

    /// Counts at the nodes how often each step was taken.
    pub(crate) fn settle(&mut self) {
        for step in &mut self.steps.steps {
            let times = std::mem::take(&mut step.times);
            for count in &step.counts {
                let Some(node) = self.nodes.get_mut(count.node as usize) else { continue };
                node.present += if count.property { times } else { 0 };
                match count.opens {
                    Some(Bracket::Object) => node.types.objects += times,
                    Some(Bracket::Array) => node.types.arrays += times,
                    None => {}
                }
            }
        }
    }
}

impl Scalar {
    /// Reads the one at `at`; `None` when it is not valid, or does not end in the text with some bytes to spare. What follows it
    /// may be wrong.
    #[inline(always)]
    pub(super) fn read(text: &[u8], at: usize) -> Option<Self> {
        let first = *text.get(at)?;
        let (kind, rank, end);
        if first == b'"' {
            (kind, rank, end) = (Kind::String, 0, string_end(text, at + 1)?);
        } else if first > b'9' {
            (kind, rank, end) = (Kind::Literal, 0, other_end(text, at)?);
        } else if let Some(short) = Short::read(text, at).filter(Short::is_valid) {
            let of_short = if short.integer { Kind::Integer } else { Kind::Decimal };
            (kind, rank, end) = (of_short, short.rank, at + short.length);
        } else {
            (kind, rank, end) = (Kind::Number, 0, other_end(text, at)?);
        }
        Some(Self { rank, kind, end })
    }

    /// Counts it, whose first byte is at `start`, at a node.
    #[inline(always)]
    fn count(&self, node: &mut Node, text: &[u8], start: usize) {
        match self.kind {
            Kind::String => node.add_string(text, start, self.end),
            Kind::Integer | Kind::Decimal => {
                let integer = self.kind == Kind::Integer;
                if let Some(short) = Short::known(text, start..self.end, self.rank, integer) {
                    node.add_short(short, text, start);
                }
            }
            Kind::Literal => node.add_literal(text.get(start).copied().unwrap_or_default()),
            Kind::Number => node.add_number(text, start, self.end),
        }
    }
}

/// The index behind the last quote of the string whose content begins at `at`.
#[inline(always)]
fn string_end(text: &[u8], mut at: usize) -> Option<usize> {
    loop {
        let lane = Lane::load(text.get(at..)?.first_chunk()?);
        let quotes = lane.equal(b'"');
        let (quotes, stops) = (quotes.bits(), quotes.or(lane.equal(b'\\')).or(lane.at_most(0x1F)).bits());
        if stops == 0 {
            at += LANE;
            continue;
        }
        let index = at + stops.trailing_zeros() as usize;
        if quotes & stops & stops.wrapping_neg() != 0 {
            return Some(index + 1);
        }
        at = escape_end(text, index)?;
    }
}

/// The index behind the escape at `at`; `None` when there is none.
#[inline(never)]
fn escape_end(text: &[u8], at: usize) -> Option<usize> {
    let [b'\\', kind] = *text.get(at..)?.first_chunk()? else { return None };
    match kind {
        b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => Some(at + 2),
        b'u' => text.get(at + 2..at + 6)?.iter().all(u8::is_ascii_hexdigit).then_some(at + 6),
        _ => None,
    }
}

/// The index behind the literal, or the long number, at `at`.
#[inline(never)]
fn other_end(text: &[u8], at: usize) -> Option<usize> {
    scalar_end(text, at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FileReport, Options, Output, Section, Shape, Splitter, Stream, Target};

    struct Nowhere;

    impl Output for Nowhere {
        type Error = ();

        fn begin(&mut self, _: Target<'_>) -> Result<(), ()> {
            Ok(())
        }

        fn write(&mut self, _: Stream, _: &[u8]) -> Result<(), ()> {
            Ok(())
        }

        fn end(&mut self, _: Stream, _: FileReport) -> Result<(), ()> {
            Ok(())
        }
    }

    /// Whether a record is read by the steps that the first one leads to, when some text follows.
    fn reads(first: &str, record: &str) -> bool {
        let sections = vec![Section { pointer: String::new(), shape: Shape::Elements }];
        let mut splitter = Splitter::new(Options { sections, profile: true, ..Options::default() }, Nowhere);
        splitter.push(&format!("[{first},")).expect("valid");
        let text = format!("{record},{}", " ".repeat(TEXT_BYTES_MAX));
        let end = splitter.profile.read_record(text.as_bytes(), 0);
        assert!(end.is_none_or(|end| end == record.len() + 1), "{record} ends elsewhere");
        end.is_some()
    }

    #[test]
    fn records_of_known_properties_are_read() {
        let first = r#"{"id": 1, "name": "a", "size": {"w": 0.5, "tags": ["x"]}, "more": null}"#;
        for record in [
            first,
            r#"{"id":2,"name":"a \"b\" \u00e9","size":{"w":-1e-7,"tags":["x","y","z"]},"more":true}"#,
            r#" {"id": 12345678901234567890, "size": {"tags": [ ]} , "more": null} "#,
            r#"{"name": "without others"}"#,
            "{}",
        ] {
            assert!(reads(first, record), "{record}");
        }
    }

    #[test]
    fn other_records_are_left_to_the_scanner() {
        let first = r#"{"id": 1, "name": "a", "size": {"w": 0.5}}"#;
        for record in [
            r#"{"id": 1, "other": 2}"#,
            r#"{"id": 1, "id": 2}"#,
            r#"{"name": "in another order", "id": 1}"#,
            r#"{"id": 01}"#,
            r#"{"id": 1.}"#,
            r#"{"id": -}"#,
            r#"{"id": 1e}"#,
            r#"{"id": 1x}"#,
            r#"{"id": truth}"#,
            r#"{"id": falsy}"#,
            r#"{"id": nul}"#,
            r#"{"name": "\x"}"#,
            r#"{"name": "\u12g4"}"#,
            "{\"name\": \"a\nb\"}",
            r#"{"name": [1]}"#,
            r#"{"id": 1]"#,
            r#"{"id": 1 "name": "a"}"#,
            r#"{"id": 1,}"#,
            r#"{"id" 1}"#,
            "7",
        ] {
            assert!(!reads(first, record), "{record}");
        }
    }
}
