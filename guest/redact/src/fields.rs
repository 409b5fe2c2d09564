//! Removes the values of secret fields from JSON that is given in slices.

use crate::rules::Rules;
use crate::text::decoded;

/// The first step: replaces whole values and copies the rest. It only tracks tokens, so that a text that turns out not
/// to be JSON passes through as well.
pub(crate) struct Eraser<'a> {
    rules: &'a Rules,
    state: State,
    /// The text between the quotes of the last string, which is a key when a colon follows. Cut to the longest key that
    /// a rule can match.
    key: String,
    key_bytes_max: usize,
    /// Open containers.
    depth: usize,
    /// The outermost of them, up to the number of steps of a pointer.
    containers: Vec<Container>,
    /// For each pointer, the number of its first steps that match the current position.
    matched: Vec<usize>,
    /// Whether anything was removed.
    pub(crate) found: bool,
}

#[derive(Clone, Copy)]
enum State {
    /// Between tokens.
    Between,
    /// In a string; the next byte may be escaped.
    String { escaped: bool },
    /// Before a secret value.
    BeforeSecret,
    /// In a secret value: its open containers, whether in a string, and whether the next byte is escaped.
    Secret { depth: usize, in_string: bool, escaped: bool },
}

struct Container {
    is_object: bool,
    /// Index of the current element.
    index: u64,
}

impl<'a> Eraser<'a> {
    pub(crate) fn new(rules: &'a Rules) -> Self {
        Self {
            rules,
            state: State::Between,
            key: String::new(),
            key_bytes_max: rules.key_bytes_max(),
            depth: 0,
            containers: Vec::new(),
            matched: vec![0; rules.pointers.len()],
            found: false,
        }
    }

    /// Appends the next slice without its secret values.
    pub(crate) fn push(&mut self, slice: &str, out: &mut String) {
        let bytes = slice.as_bytes();
        // Start of the bytes to copy, and position of the search for the next token.
        let (mut from, mut at) = (0, 0);
        while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
            match self.state {
                State::Between => at += self.between(rest),
                State::String { escaped } => {
                    let (length, state) = in_string(rest, escaped);
                    self.state = state;
                    let text = &slice[at..at + length];
                    at += length;
                    // A string before one of these is not a key.
                    if !matches!(bytes.get(at), Some(b',' | b'}' | b']')) {
                        self.add_to_key(text);
                    }
                }
                State::BeforeSecret => {
                    let white = rest.iter().position(|byte| !byte.is_ascii_whitespace()).unwrap_or(rest.len());
                    at += white;
                    if let Some(&first) = bytes.get(at) {
                        out.push_str(&slice[from..at]);
                        self.begin_secret(first, out);
                        from = at;
                        if matches!(self.state, State::Secret { .. }) {
                            at += 1;
                            from = slice.ceil_char_boundary(at);
                        }
                    }
                }
                State::Secret { depth, in_string, escaped } => {
                    let (length, state) = in_secret(rest, depth, in_string, escaped);
                    self.state = state;
                    at += length;
                    from = at;
                }
            }
        }
        out.push_str(&slice[from..]);
    }

    /// Advances to the next string or secret value; returns its distance in bytes.
    fn between(&mut self, rest: &[u8]) -> usize {
        for (index, byte) in rest.iter().enumerate() {
            match byte {
                b':' => self.end_key(),
                b'"' | b',' | b'{' | b'[' | b'}' | b']' => {
                    // A string is a key only if a colon follows.
                    self.key.clear();
                    match byte {
                        b'"' => self.state = State::String { escaped: false },
                        b',' => self.next_element(),
                        b'{' | b'[' => self.open(*byte == b'{'),
                        _ => self.close(),
                    }
                }
                _ => continue,
            }
            if !matches!(self.state, State::Between) {
                return index + 1;
            }
        }
        rest.len()
    }

    fn add_to_key(&mut self, text: &str) {
        let left = self.key_bytes_max.saturating_sub(self.key.len());
        self.key.push_str(text.get(..text.floor_char_boundary(left)).unwrap_or_default());
    }

    fn end_key(&mut self) {
        let key = std::mem::take(&mut self.key);
        let inside = key.strip_suffix('"').unwrap_or(&key);
        let text = decoded(inside).text;
        if self.rules.is_secret(&text) {
            self.state = State::BeforeSecret;
        }
        if self.containers.len() == self.depth && self.containers.last().is_some_and(|container| container.is_object) {
            self.step(&text);
        }
        drop(text);
        self.key = key;
    }

    fn open(&mut self, is_object: bool) {
        let steps_max = self.rules.pointers.iter().map(Vec::len).max().unwrap_or(0);
        if self.depth < steps_max {
            self.containers.push(Container { is_object, index: 0 });
        }
        self.depth += 1;
        if !is_object && self.containers.len() == self.depth {
            self.step("0");
        }
    }

    fn close(&mut self) {
        self.depth = self.depth.saturating_sub(1);
        self.containers.truncate(self.depth);
    }

    fn next_element(&mut self) {
        if self.containers.len() == self.depth
            && let Some(container) = self.containers.last_mut()
            && !container.is_object
        {
            container.index += 1;
            let index = container.index.to_string();
            self.step(&index);
        }
    }

    /// Enters the key or index of the next value in the innermost container.
    fn step(&mut self, name: &str) {
        let level = self.depth.saturating_sub(1);
        for (pointer, matched) in self.rules.pointers.iter().zip(&mut self.matched) {
            *matched = level.min(*matched);
            if *matched == level && pointer.get(level).is_some_and(|step| step == "*" || step == name) {
                *matched += 1;
                if *matched == pointer.len() {
                    self.state = State::BeforeSecret;
                }
            }
        }
    }

    fn begin_secret(&mut self, first: u8, out: &mut String) {
        self.state = match first {
            // No value follows.
            b'}' | b']' | b',' | b':' => State::Between,
            b'"' => State::Secret { depth: 0, in_string: true, escaped: false },
            b'{' | b'[' => State::Secret { depth: 1, in_string: false, escaped: false },
            _ => State::Secret { depth: 0, in_string: false, escaped: false },
        };
        if matches!(self.state, State::Secret { .. }) {
            self.found = true;
            out.push('"');
            out.push_str(&self.rules.escaped);
            out.push('"');
        }
    }
}

/// Advances to the end of a string, including its quote, or of the slice.
fn in_string(rest: &[u8], escaped: bool) -> (usize, State) {
    let mut at = usize::from(escaped);
    while let Some(length) = rest.get(at..).and_then(|rest| rest.iter().position(|byte| matches!(byte, b'"' | b'\\'))) {
        at += length + 1;
        if rest.get(at - 1) == Some(&b'"') {
            return (at, State::Between);
        }
        at += 1;
    }
    (rest.len(), State::String { escaped: at > rest.len() })
}

/// Advances to the end of a secret value, or of the slice.
fn in_secret(rest: &[u8], mut depth: usize, mut in_string: bool, mut escaped: bool) -> (usize, State) {
    for (index, byte) in rest.iter().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' if in_string => {
                in_string = false;
                if depth == 0 {
                    return (index + 1, State::Between);
                }
            }
            _ if in_string => {}
            // A number or a literal.
            b'"' | b',' | b':' | b'{' | b'[' | b'}' | b']' if depth == 0 => return (index, State::Between),
            _ if depth == 0 && byte.is_ascii_whitespace() => return (index, State::Between),
            b'"' => in_string = true,
            b'{' | b'[' => depth += 1,
            b'}' | b']' => {
                depth -= 1;
                if depth == 0 {
                    return (index + 1, State::Between);
                }
            }
            _ => {}
        }
    }
    (rest.len(), State::Secret { depth, in_string, escaped })
}
