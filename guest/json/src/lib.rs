//! JSON text as bytes: validates it, walks it, decodes and writes strings, without building values.
//!
//! | module | what it does |
//! |---|---|
//! | [`Validator`], [`validate`] | checks that a text is one JSON document |
//! | [`members`], [`elements`] | validates a document, and returns its parts as spans |
//! | [`Scanner`] | reads a document 64 bytes at a time: validates it and finds its tokens |
//! | [`walk`] | moves through text without validating it: ends of strings and values, members, elements |
//! | [`masks`] | classes of bytes as bit masks: what scanners are made of |
//! | [`unescape`], [`pieces`] | escapes |
//! | [`check_string`], [`decode_string`] | long strings, a slice at a time |
//! | [`mod@write`] | strings, arrays, objects |
//! | [`mod@pointer`], [`path`] | steps of JSON Pointers, and paths to a value |
//!
//! # Accepted documents
//!
//! Exactly RFC 8259. Numbers may have any number of digits and any exponent; `\ud800` and other lone surrogates follow
//! the grammar and are therefore accepted; containers may nest [`DEPTH_MAX`] deep.

mod decode;
mod error;
mod escape;
pub mod masks;
mod parts;
pub mod path;
pub mod pointer;
mod scalar;
mod scan;
mod simd;
mod validate;
pub mod walk;
pub mod write;

pub use decode::{StringError, check_string, decode_string};
pub use error::{SyntaxError, SyntaxErrorKind};
pub use escape::{EscapeError, Piece, pieces, unescape, unescape_lossy, unescaped, unescaped_lossy};
pub use parts::{Member, elements, members};
pub use scalar::scalar_end;
pub use scan::{Block, DEPTH_MAX, Scanner};
pub use simd::{LANE, Lane, big_endian};
pub use validate::{Validator, validate};
