//! Follows the tokens of the records and fills the nodes.

use lro_json::Block;

use super::cut::Cut;
use super::node::{NONE, Node};
use super::steps::Steps;
use super::{DEPTH_MAX, NODES_MAX, Profile};
use crate::lines::Form;

/// The nodes of the record, and for [`Form::Members`] of its key and its value.
pub(super) const ROOT: u32 = 0;
const MEMBER_KEY: u32 = 1;
const MEMBER_VALUE: u32 = 2;

/// The position of the reader in a record.
#[derive(Clone, Debug, Default)]
pub(super) struct Reader {
    /// Objects so far.
    objects: u64,
    /// The innermost open container. At depth 0 it is the line, whose property is the record.
    pub(super) container: Container,
    /// The open containers around it.
    outer: [Container; DEPTH_MAX],
    pub(super) depth: usize,
    /// Open containers of a part that is skipped.
    pub(super) skipped: u64,
    pub(super) cut: Cut,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Container {
    pub(super) node: u32,
    /// The property whose value comes next, or the items; `NONE` before the first of them.
    pub(super) property: u32,
    /// The property whose key came next in the last object.
    pub(super) expected: u32,
    /// Number of the object.
    pub(super) number: u64,
}

impl Default for Container {
    fn default() -> Self {
        Self { node: ROOT, property: ROOT, expected: NONE, number: 0 }
    }
}

impl Profile {
    /// Resets the profile for the lines of another value.
    pub(crate) fn begin(&mut self, form: Form) {
        self.nodes.clear();
        self.nodes.push(Node::new(b"", 0, false));
        self.reader = Reader::default();
        self.steps = Steps::default();
        if form == Form::Members {
            self.reader.container.property = MEMBER_VALUE;
            self.nodes.extend([Node::new(b"key\"", 0, false), Node::new(b"value\"", 1, false)]);
            if let Some(root) = self.nodes.first_mut() {
                root.properties.extend([MEMBER_KEY, MEMBER_VALUE]);
            }
        }
    }

    /// Reads the tokens of a block at the positions of `mask`.
    #[inline(always)]
    pub(crate) fn read(&mut self, text: &[u8], block: &Block, mask: u64) {
        if self.reader.cut.is_open() && !self.read_end(text, block) {
            return;
        }
        let mut tokens = (block.open | block.close | block.string | block.scalar) & mask;
        while tokens != 0 {
            tokens = if self.reader.skipped > 0 { self.skip(block, tokens) } else { self.walk(text, block, tokens) };
        }
    }

    /// Reads tokens until none are left or some must be skipped; returns those.
    #[inline(always)]
    fn walk(&mut self, text: &[u8], block: &Block, mut tokens: u64) -> u64 {
        while tokens != 0 {
            let mut token = tokens & tokens.wrapping_neg();
            let mut start = block.start + tokens.trailing_zeros() as usize;
            tokens ^= token;
            if block.key & token != 0 {
                if !self.expected_key(text, start) && !self.other_key(text, block, start, token) {
                    return tokens;
                }
                if tokens == 0 {
                    return 0;
                }
                token = tokens & tokens.wrapping_neg();
                start = block.start + tokens.trailing_zeros() as usize;
                tokens ^= token;
            } else if block.close & token != 0 {
                self.pop();
                continue;
            }
            if !self.value(text, block, start, token) {
                return tokens;
            }
        }
        0
    }

    /// Reads a value or its beginning; `false` when its end is not in the block, or the tokens after it must be
    /// skipped.
    #[inline(always)]
    fn value(&mut self, text: &[u8], block: &Block, start: usize, token: u64) -> bool {
        let Some(node) = self.value_node() else {
            // This container lies inside the one that was just left.
            self.reader.skipped += u64::from(block.open & token != 0);
            return false;
        };
        if block.string & token != 0 {
            node.types.strings += 1;
            return !node.counter.counts() || self.count_string(text, block, start, token);
        }
        match text.get(start) {
            Some(b'{') => self.open(true),
            Some(b'[') => self.open(false),
            Some(&first @ b'a'..=b'z') => {
                node.add_literal(first);
                true
            }
            _ => node.add_short_number(text, start) || self.other_number(text, block, start, token),
        }
    }

    /// Skips to the end of the skipped part; returns the tokens after it.
    fn skip(&mut self, block: &Block, tokens: u64) -> u64 {
        let mut brackets = (block.open | block.close) & tokens;
        while brackets != 0 {
            let bracket = brackets & brackets.wrapping_neg();
            brackets &= brackets - 1;
            if block.open & bracket != 0 {
                self.reader.skipped += 1;
            } else {
                self.reader.skipped -= 1;
                if self.reader.skipped == 0 {
                    return tokens & !(bracket | (bracket - 1));
                }
            }
        }
        0
    }

    #[inline(always)]
    fn pop(&mut self) {
        let reader = &mut self.reader;
        reader.depth = reader.depth.saturating_sub(1);
        reader.container = reader.outer.get(reader.depth).copied().unwrap_or_default();
    }

    /// Skips the rest of the innermost container.
    pub(super) fn leave(&mut self) {
        self.pop();
        self.reader.skipped = 1;
    }

    /// Reads the key that came here in the last object; `false` when it is a different one.
    #[inline(always)]
    fn expected_key(&mut self, text: &[u8], start: usize) -> bool {
        let container = &mut self.reader.container;
        match self.nodes.get_mut(container.expected as usize) {
            Some(node) if node.has_key(text, start + 1) => {
                node.occur(container.number);
                container.property = container.expected;
                container.expected = node.next;
                true
            }
            _ => false,
        }
    }

    /// The node of the next value; `None` when a limit is reached.
    #[inline(always)]
    fn value_node(&mut self) -> Option<&mut Node> {
        let property = self.reader.container.property as usize;
        if property < self.nodes.len() { self.nodes.get_mut(property) } else { self.add_items() }
    }

    /// Adds the node of the items of an array.
    #[inline(never)]
    fn add_items(&mut self) -> Option<&mut Node> {
        let items = self.nodes.len();
        let room = items < NODES_MAX;
        let node = self.nodes.get_mut(self.reader.container.node as usize)?;
        if !room {
            node.items_unknown = true;
            self.leave();
            return None;
        }
        node.items = items as u32;
        self.reader.container.property = items as u32;
        self.nodes.push(Node::new(b"", 0, true));
        self.nodes.get_mut(items)
    }

    /// Enters a container; `false` when it is skipped.
    #[inline(always)]
    fn open(&mut self, object: bool) -> bool {
        let reader = &mut self.reader;
        let property = reader.container.property;
        let Some(node) = self.nodes.get_mut(property as usize) else {
            return false;
        };
        let unknown = if object {
            node.types.objects += 1;
            &mut node.unlisted
        } else {
            node.types.arrays += 1;
            &mut node.items_unknown
        };
        let Some(outer) = reader.outer.get_mut(reader.depth).filter(|_| !*unknown) else {
            *unknown = true;
            reader.skipped = 1;
            return false;
        };
        *outer = reader.container;
        reader.depth += 1;
        reader.objects += 1;
        let (property, expected) = if object { (NONE, node.first) } else { (node.items, NONE) };
        reader.container = Container { node: outer.property, property, expected, number: reader.objects };
        true
    }
}
