//! Text: its form and its records, what it is made of, and where something stands in it. Each in one pass and bounded
//! memory, and with the same answer however the text is sliced.
//!
//! | | what it does |
//! |---|---|
//! | [`recognize`], [`tabular`], [`Reader`] | the form of a text or the table that one JSON document is, and the records as JSON Lines |
//! | [`search`] | finds lines by words, a literal or a regular expression, and says where each one stands |
//! | [`BrokenJson`] | where JSON breaks, and the elements of an array before that |
//! | [`encoded`](encoded()), [`Decoder`] | bytes that a text encodes in base64 |
//! | [`outline`] | the headings, files, definitions, elements, message patterns or blocks of a text |
//!
//! # Records
//!
//! [`recognize`] looks at the beginning of a text and names its [`Form`], or nothing when in doubt. A [`Reader`] takes
//! the whole text in slices and gives one JSON value a line.
//!
//! ## Exact, or not at all
//!
//! A head can promise what row 900,000 does not keep. The reader then ends with a [`ReadError`], and all it gave before
//! is void: write its output where it can be dropped, and keep the text itself. What a reader gives until the end is the
//! whole content of the records: every character of a value, in its order. Spaces that stand around
//! all delimiters are not part of values. [`Form::JsonLines`] alone leaves lines out, and counts them,
//! and [`Form::JsonElements`] what follows the place where JSON breaks.
//!
//! ```
//! use lro_text::{Hints, Reader, recognize};
//!
//! let text = "id,name\n007,Ada\n008,Grace\n";
//! let form = recognize(text, &Hints { complete: true, ..Hints::default() }).ok_or("no form")?;
//! let mut lines = Vec::new();
//! let mut out = |bytes: &[u8]| Ok::<(), std::convert::Infallible>(lines.extend_from_slice(bytes));
//! let mut reader = Reader::new(&form);
//! reader.push(text, &mut out)?;
//! let report = reader.finish(&mut out)?;
//! assert_eq!(report.records, 2);
//! assert_eq!(lines, b"{\"id\":\"007\",\"name\":\"Ada\"}\n{\"id\":\"008\",\"name\":\"Grace\"}\n");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod broken;
mod encoded;
pub mod outline;
mod readers;
mod recognize;
mod regions;
pub mod search;
mod shorten;
mod structure;

pub use broken::{Break, BrokenJson};
pub use encoded::{Decoder, ENCODED_CHARACTERS_MIN, Encoded, NotBase64, encoded};
pub use readers::{
    COLUMNS_MAX, Column, DIGITS_MAX, ELEMENT_BYTES_MAX, Error, Fault, LINE_BYTES_MAX, NAME_BYTES_MAX,
    PARALLEL_BYTES_MAX, ReadError, Reader, Report, Rule, SAMPLE_BYTES_MAX, TOKEN_BYTES_MAX, named_delimiter,
    without_references,
};
pub use recognize::{
    Blanks, COLUMN_KEYS, Form, HEAD_BYTES_MAX, Hints, Layout, Tabular, recognize, tabular, without_mark,
};
