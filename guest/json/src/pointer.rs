//! Steps of JSON Pointers (RFC 6901).

use crate::escape::{Piece, pieces};

/// Appends a step to a pointer: `/` and the escaped key.
pub fn push_step(pointer: &mut String, key: &str) {
    pointer.push('/');
    push_escaped(pointer, key);
}

/// Appends the step of a key that is given as in JSON, between its quotes.
///
/// A lone surrogate, which a `String` cannot hold, stays the six characters of its escape.
pub fn push_json_step(pointer: &mut String, inside: &str) {
    pointer.push('/');
    for piece in pieces(inside) {
        match piece {
            Piece::Plain(text) => push_escaped(pointer, text),
            Piece::Character(character) => push_escaped(pointer, character.encode_utf8(&mut [0; 4])),
            Piece::Escape(lone) => pointer.push_str(lone),
        }
    }
}

fn push_escaped(pointer: &mut String, key: &str) {
    for piece in key.split_inclusive(['~', '/']) {
        match piece.strip_suffix(['~', '/']) {
            Some(plain) => {
                pointer.push_str(plain);
                pointer.push_str(if piece.ends_with('~') { "~0" } else { "~1" });
            }
            None => pointer.push_str(piece),
        }
    }
}

/// The key of a step, given without its `/`.
#[must_use]
pub fn key_of_step(step: &str) -> String {
    step.replace("~1", "/").replace("~0", "~")
}

/// The key of the last step of a pointer; `None` for the whole document.
#[must_use]
pub fn last_key(pointer: &str) -> Option<String> {
    pointer.rsplit_once('/').map(|(_, step)| key_of_step(step))
}
