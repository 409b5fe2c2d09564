//! Follows the position in a JSON document, as far as the JSON Pointers of the rules reach.

use crate::text::decoded;

/// The position of the next value.
pub(crate) struct Pointers<'a> {
    /// Steps of each pointer. `*` is any step.
    pointers: &'a [Vec<String>],
    /// Open containers.
    depth: usize,
    /// The outermost of them, up to the number of steps of a pointer.
    containers: Vec<Container>,
    /// For each pointer, the number of its first steps that match.
    matched: Vec<usize>,
}

struct Container {
    is_object: bool,
    /// Index of the current element.
    index: u64,
}

impl<'a> Pointers<'a> {
    pub(crate) fn new(pointers: &'a [Vec<String>]) -> Self {
        Self { pointers, depth: 0, containers: Vec::new(), matched: vec![0; pointers.len()] }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.pointers.is_empty()
    }

    /// Handles the colon after a key with its escapes. Returns whether a pointer leads to the value, as do `open` and `comma`.
    pub(crate) fn key(&mut self, key: &str) -> bool {
        self.innermost().is_some_and(|container| container.is_object) && self.step(&decoded(key).text)
    }

    pub(crate) fn open(&mut self, is_object: bool) -> bool {
        let steps_max = self.pointers.iter().map(Vec::len).max().unwrap_or(0);
        if self.depth < steps_max {
            self.containers.push(Container { is_object, index: 0 });
        }
        self.depth += 1;
        !is_object && self.innermost().is_some() && self.step("0")
    }

    pub(crate) fn close(&mut self) {
        self.depth = self.depth.saturating_sub(1);
        self.containers.truncate(self.depth);
    }

    pub(crate) fn comma(&mut self) -> bool {
        let Some(array) = self.innermost().filter(|container| !container.is_object) else { return false };
        array.index += 1;
        let index = array.index.to_string();
        self.step(&index)
    }

    /// The innermost container, if a pointer may lead into it.
    fn innermost(&mut self) -> Option<&mut Container> {
        let is_within_reach = self.containers.len() == self.depth;
        self.containers.last_mut().filter(|_| is_within_reach)
    }

    /// Enters the key or index of the next value in the innermost container.
    fn step(&mut self, name: &str) -> bool {
        let level = self.depth.saturating_sub(1);
        let mut is_found = false;
        for (pointer, matched) in self.pointers.iter().zip(&mut self.matched) {
            *matched = level.min(*matched);
            if *matched == level && pointer.get(level).is_some_and(|step| step == "*" || step == name) {
                *matched += 1;
                is_found |= *matched == pointer.len();
            }
        }
        is_found
    }
}
