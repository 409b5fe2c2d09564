//! Finds the steps of a record.

use std::ops::Range;

use super::keys::find;
use super::node::{NONE, Node};
use super::steps::{Bracket, Count, Scalar, Step};
use super::{DEPTH_MAX, Profile};

/// The node of the record.
const ROOT: u32 = 0;

/// A record on the way from value to value.
struct Walk<'a> {
    nodes: &'a [Node],
    text: &'a [u8],
    at: usize,
    /// What the text since the last value says.
    counts: Vec<Count>,
    values: Vec<Value>,
    /// White space so far.
    white: Vec<Range<usize>>,
}

/// A string, number or literal, or what follows the record, and what the text before it says.
struct Value {
    node: u32,
    start: usize,
    end: usize,
    counts: Vec<Count>,
}

impl Profile {
    /// Adds the steps of the record at `start` to those of the profile; `None` when [`Profile::read_record`] is not for it, or
    /// a limit is reached.
    #[inline(never)]
    pub(super) fn learn(&mut self, text: &[u8], start: usize) -> Option<()> {
        let (counts, values, white) = Default::default();
        let mut walk = Walk { nodes: &self.nodes, text, at: start, counts, values, white };
        walk.record()?;
        let Walk { values, white, .. } = walk;
        let (mut from, mut at) = (NONE, start);
        for value in values {
            let inside = white.iter().filter(|white| at <= white.start && white.end <= value.start);
            let inside = inside.map(|white| white.start - at..white.end - at).collect();
            let step = Step::new(text.get(at..value.start)?, value.node, value.counts, inside)?;
            self.steps.add(&mut self.nodes, from, step).then_some(())?;
            (from, at) = (value.node, value.end);
        }
        Some(())
    }
}

impl Walk<'_> {
    /// Reads the record and the comma behind it.
    fn record(&mut self) -> Option<()> {
        self.skip_white()?;
        self.container(ROOT, false, 0)?;
        self.expect(b',')?;
        self.add(NONE, self.at);
        Some(())
    }

    /// Reads a value at a node, which is the `property` of an object or not, inside so many containers.
    fn value(&mut self, node: u32, property: bool, depth: usize) -> Option<()> {
        let start = self.at;
        if let b'{' | b'[' = self.text.get(start)? {
            return self.container(node, property, depth);
        }
        self.nodes.get(node as usize)?;
        self.at = Scalar::read(self.text, start)?.end;
        self.counts.push(Count { node, property, opens: None });
        self.add(node, start);
        Some(())
    }

    fn container(&mut self, node: u32, property: bool, depth: usize) -> Option<()> {
        let known = self.nodes.get(node as usize)?;
        let (opens, closing, is_unknown) = match self.text.get(self.at)? {
            b'{' => (Bracket::Object, b'}', known.unlisted),
            b'[' => (Bracket::Array, b']', known.items_unknown),
            _ => return None,
        };
        if is_unknown || depth == DEPTH_MAX {
            return None;
        }
        self.counts.push(Count { node, property, opens: Some(opens) });
        self.at += 1;
        self.skip_white()?;
        if self.expect(closing).is_some() {
            return Some(());
        }
        let mut last = NONE;
        loop {
            if opens == Bracket::Object {
                last = self.key(node, last)?;
                self.value(last, true, depth + 1)?;
            } else {
                self.value(known.items, false, depth + 1)?;
            }
            self.skip_white()?;
            if self.expect(closing).is_some() {
                return self.skip_white();
            }
            self.expect(b',')?;
            self.skip_white()?;
        }
    }

    /// Reads a key and its colon. Returns its property, which comes after the `last` one of the object in the order of their
    /// first appearance: so no object has one twice, whatever steps a record takes.
    fn key(&mut self, object: u32, last: u32) -> Option<u32> {
        self.expect(b'"')?;
        let property = find(self.nodes, object, NONE, self.text, self.at)?;
        let node = self.nodes.get(property as usize)?;
        if self.nodes.get(last as usize).is_some_and(|last| last.order >= node.order) {
            return None;
        }
        self.at += node.key_length();
        self.skip_white()?;
        self.expect(b':')?;
        self.skip_white()?;
        Some(property)
    }

    /// Adds what was read since `start`.
    fn add(&mut self, node: u32, start: usize) {
        let counts = std::mem::take(&mut self.counts);
        self.values.push(Value { node, start, end: self.at, counts });
    }

    fn expect(&mut self, byte: u8) -> Option<()> {
        (*self.text.get(self.at)? == byte).then(|| self.at += 1)
    }

    /// Skips white space, which does not end the text.
    fn skip_white(&mut self) -> Option<()> {
        let run = self.text.get(self.at..)?.iter().position(|byte| !matches!(byte, b' ' | b'\n' | b'\r' | b'\t'))?;
        if run > 0 {
            self.white.push(self.at..self.at + run);
            self.at += run;
        }
        Some(())
    }
}
