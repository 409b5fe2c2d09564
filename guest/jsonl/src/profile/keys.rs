//! Keys that are not the expected ones: out of their usual order, or new.

use lro_json::write::push_escaped;
use lro_json::{Piece, pieces};

use super::node::{NONE, Node};
use super::{NODES_MAX, PROPERTY_BYTES_MAX, Profile};

impl Profile {
    /// Finds or adds the key at `start..end`, quotes included.
    #[inline(never)]
    pub(super) fn key(&mut self, text: &[u8], start: usize, end: usize) {
        if self.reader.depth == 0 {
            return self.member_key(text, start, end);
        }
        let start = start + 1;
        let raw = &text[start..end];
        if raw.contains(&b'\\') {
            let key = canonical(raw);
            self.plain_key(&key, 0, key.len());
        } else {
            self.plain_key(text, start, end);
        }
    }

    /// The key of a line `{"key":K,"value":V}`.
    fn member_key(&mut self, text: &[u8], start: usize, end: usize) {
        if let [root, key, value, ..] = self.nodes.as_mut_slice() {
            root.types.objects += 1;
            (key.present, value.present) = (root.types.objects, root.types.objects);
            key.types.strings += 1;
            if key.counter.counts() {
                key.counter.add(text, start, end);
            }
        }
    }

    /// Finds or adds a key at `start..end`, without its first quote and with the shortest escapes.
    fn plain_key(&mut self, text: &[u8], start: usize, end: usize) {
        let Some(property) = find(&self.nodes, self.reader.container.node, self.reader.container.expected, text, start)
            .or_else(|| self.add_property(text, start, end))
        else {
            return self.leave();
        };
        let container = &mut self.reader.container;
        let previous = match container.property {
            NONE => self.nodes.get_mut(container.node as usize).map(|node| &mut node.first),
            previous => self.nodes.get_mut(previous as usize).map(|node| &mut node.next),
        };
        if let Some(previous) = previous {
            *previous = property;
        }
        container.property = property;
        if let Some(node) = self.nodes.get_mut(property as usize) {
            container.expected = node.next;
            node.occur(container.number);
        }
    }

    /// Adds a property; `None` when a limit is reached, which makes the properties of this object unlisted.
    fn add_property(&mut self, text: &[u8], start: usize, end: usize) -> Option<u32> {
        let property = self.nodes.len();
        let node = self.nodes.get_mut(self.reader.container.node as usize)?;
        if !node.can_add_property() || property >= NODES_MAX || end - start > PROPERTY_BYTES_MAX + 1 {
            node.unlisted = true;
            return None;
        }
        let (order, in_array) = (node.properties.len() as u32, node.in_array);
        node.properties.push(property as u32);
        self.nodes.push(Node::new(&text[start..end], order, in_array));
        Some(property as u32)
    }
}

/// Searches the properties from the expected one on, so that properties missing in a record are skipped quickly.
pub(super) fn find(nodes: &[Node], object: u32, expected: u32, text: &[u8], start: usize) -> Option<u32> {
    let node = nodes.get(object as usize)?;
    let expected = nodes.get(expected as usize);
    let order = expected.map_or(0, |node| node.order as usize);
    let (before, after) = node.properties.split_at_checked(order)?;
    let has_key = |property: &&u32| nodes.get(**property as usize).is_some_and(|node| node.has_key(text, start));
    after.iter().chain(before).find(has_key).copied()
}

/// The key with the shortest escapes, so that every spelling of a key is the same property.
pub(super) fn canonical(raw: &[u8]) -> Vec<u8> {
    let mut key = String::with_capacity(raw.len());
    for piece in pieces(&String::from_utf8_lossy(raw)) {
        match piece {
            Piece::Plain(text) => key.push_str(text),
            Piece::Character(character) => push_escaped(&mut key, character.encode_utf8(&mut [0; 4])),
            Piece::Escape(lone) => key.push_str(&lone.to_ascii_lowercase()),
        }
    }
    key.into_bytes()
}
