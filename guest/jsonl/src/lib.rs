//! Splits one JSON document into JSON Lines in a single pass, and infers a schema and a summary of the lines.
//!
//! [`Splitter::push`] takes the document in slices and validates all of it. Each record of the requested [`Section`]s
//! becomes one line, copied byte for byte without the white space between tokens: big integers, `1.0`, `1e2`, escapes,
//! key order and duplicate keys are preserved. Small values outside the sections stay inline, large ones get a separate
//! file, so the document can be reassembled from the output.
//!
//! Memory does not grow with the document, a record, a string or a number: it is bounded by [`BLOCK_BYTES`], the
//! inline limits of [`Options`], [`KEY_BYTES_MAX`] and, with [`Options::profile`], one [`Profile`].
//!
//! | module | what it does |
//! |---|---|
//! | [`Splitter`] | splits a document into files of lines: [`Options`] in, [`Output`] and [`Document`] out |
//! | [`Survey`] | finds the sections worth splitting, and the long strings, at the beginning of a document |
//! | [`StringReader`] | reads one string of a document without its escapes |
//! | [`mod@page`] | what a page says of the list that it is a part of |
//! | [`Profile`] | JSON Schema and field statistics of the lines of one file |
//! | [`Measure`], [`tokens`] | bytes, characters and estimated tokens of a text |
//!
//! Documents are accepted as [`lro_json`] describes it.

mod container;
mod error;
mod lines;
mod measure;
mod output;
pub mod page;
mod profile;
mod rule;
mod split;
mod string;
mod survey;
mod tokens;
mod value;

pub use error::Error;
pub use measure::{Measure, tokens};
pub use output::{
    BLOCK_BYTES, Document, FileReport, LARGE_MAX, LargeShape, NOTED_MAX, Options, Output, Section, Shape, Stream,
    Target,
};
pub use profile::{
    DEPTH_MAX as PROFILE_DEPTH_MAX, DISTINCT_BYTES_MAX, DISTINCT_MAX, Distinct, Field, Key, NODES_MAX,
    NUMBER_BYTES_MAX, PROPERTIES_MAX, PROPERTY_BYTES_MAX, Profile, Types,
};
pub use split::{KEY_BYTES_MAX, Splitter};
pub use string::{StringError, StringReader};
pub use survey::{
    KEYED_MEMBERS_MIN, LongString, ONLY_TEXT_BYTES_MIN, SECTION_BYTES_MIN, SECTIONS_MAX, SURVEY_BYTES_MAX, Survey,
    Surveyed, TEXT_BYTES_MIN, WRAPPER_ELEMENTS_MAX, survey,
};
