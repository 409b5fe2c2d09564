//! Finds the steps of a record.

use std::ops::Range;

use lro_json::walk::skip_white;

use super::keys::find;
use super::node::{NONE, Node};
use super::reader::ROOT;
use super::steps::{Bracket, Count, Scalar, Step, VALUES_MAX};
use super::{DEPTH_MAX, Profile};

/// A record on the way from value to value.
struct Walk<'a> {
    nodes: &'a [Node],
    text: &'a [u8],
    at: usize,
    /// Behind the last value; what the text since then says, and its white space, counted from there.
    since: usize,
    counts: Vec<Count>,
    white: Vec<Range<usize>>,
    /// Where steps lead from, and the steps.
    steps: Vec<(u32, Step)>,
    /// The node of the last value.
    last: u32,
}

impl Profile {
    /// Adds the steps of the record at `start` to those of the profile; `None` when [`Profile::read_record`] is not for it, or
    /// a limit is reached.
    #[inline(never)]
    pub(super) fn learn(&mut self, text: &[u8], start: usize) -> Option<()> {
        let (counts, white, steps) = Default::default();
        let mut walk = Walk { nodes: &self.nodes, text, at: start, since: start, counts, white, steps, last: NONE };
        walk.record()?;
        for (from, step) in walk.steps {
            self.steps.add(&mut self.nodes, from, step).then_some(())?;
        }
        Some(())
    }
}

impl Walk<'_> {
    /// Reads the record and the comma behind it.
    fn record(&mut self) -> Option<()> {
        self.skip_white();
        self.container(ROOT, false, 0)?;
        self.expect(b',')?;
        self.add(NONE, self.at)
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
        self.add(node, start)
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
        self.skip_white();
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
            self.skip_white();
            if self.expect(closing).is_some() {
                self.skip_white();
                return Some(());
            }
            self.expect(b',')?;
            self.skip_white();
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
        self.skip_white();
        self.expect(b':')?;
        self.skip_white();
        Some(property)
    }

    /// Adds the step to the value at a node that was read since `start`, or to the end of the record.
    fn add(&mut self, node: u32, start: usize) -> Option<()> {
        if self.steps.len() == VALUES_MAX {
            return None;
        }
        let (counts, white) = (std::mem::take(&mut self.counts), std::mem::take(&mut self.white));
        let step = Step::new(self.text.get(self.since..start)?, node, counts, white)?;
        self.steps.push((self.last, step));
        (self.last, self.since) = (node, self.at);
        Some(())
    }

    fn expect(&mut self, byte: u8) -> Option<()> {
        (*self.text.get(self.at)? == byte).then(|| self.at += 1)
    }

    fn skip_white(&mut self) {
        let end = skip_white(self.text, self.at);
        if end > self.at {
            self.white.push(self.at - self.since..end - self.since);
            self.at = end;
        }
    }
}
