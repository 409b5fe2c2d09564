//! Reads one string of a document without its escapes.

use std::fmt;

use lro_json::{SyntaxError, decode_string};

use crate::{Error, FileReport, LargeShape, Options, Output, Splitter, Stream, Target};

/// Longest beginning of a character that waits for the rest of it, in bytes: an escaped surrogate pair has 12.
const CUT_BYTES_MAX: usize = 11;

/// What stands behind the string in the line that the splitter makes of it: the quotation mark and the line feed.
const END: &[u8] = b"\"\n";

/// Bytes of output that decoding uses beyond the text: it writes whole blocks.
const SPARE_BYTES: usize = 96;

/// Why a string cannot be read as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StringError {
    /// The document is not JSON.
    Syntax(SyntaxError),
    /// No value has this pointer, or it is not a string.
    Missing,
    /// The string has half of a surrogate pair, which has no UTF-8 encoding.
    LoneSurrogate,
}

impl fmt::Display for StringError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Syntax(error) => error.fmt(formatter),
            Self::Missing => formatter.write_str("no string has this pointer"),
            Self::LoneSurrogate => formatter.write_str("the string has half of a surrogate pair"),
        }
    }
}

impl std::error::Error for StringError {}

/// Reads the string at a pointer of a document that is given in slices. Of several values with this pointer, the first.
///
/// Memory: that of a [`Splitter`], which validates the document up to the end of the string.
///
/// ```
/// let mut reader = lro_jsonl::StringReader::new("/body");
/// let mut text = String::new();
/// assert_eq!(reader.push(r#"{"status": 200, "body": "Z\u00"#, &mut text), Ok(true));
/// assert_eq!(reader.push(r#"e9\n", "more": []}"#, &mut text), Ok(false));
/// assert_eq!(text, "Zé\n");
/// ```
#[derive(Debug)]
pub struct StringReader(Splitter<Inside>);

impl StringReader {
    /// A reader at the beginning of a document.
    #[must_use]
    pub fn new(pointer: &str) -> Self {
        // A value to be kept that is too long to be kept is one of a separate file.
        let options = Options { keep: vec![pointer.to_owned()], large_max: usize::MAX, ..Options::default() };
        Self(Splitter::new(options, Inside { pointer: pointer.to_owned(), ..Inside::default() }))
    }

    /// Reads the next slice, cut between any two characters, and appends what is known of the string. Returns whether
    /// there is more of it to come: after `false`, nothing more needs to be read.
    ///
    /// # Errors
    ///
    /// [`StringError`]; the reader must not be used after an error.
    pub fn push(&mut self, slice: &str, text: &mut String) -> Result<bool, StringError> {
        self.0.push(slice).map_err(error)?;
        self.take(text)
    }

    /// Ends the document, when it was read to its end.
    ///
    /// # Errors
    ///
    /// As for [`StringReader::push`].
    pub fn finish(self, text: &mut String) -> Result<(), StringError> {
        let (_, inside) = self.0.finish().map_err(error)?;
        let is_complete = inside.place == Place::Behind;
        text.push_str(&inside.text);
        if is_complete { Ok(()) } else { Err(StringError::Missing) }
    }

    fn take(&mut self, text: &mut String) -> Result<bool, StringError> {
        let inside = &mut self.0.output;
        text.push_str(&inside.text);
        inside.text.clear();
        Ok(inside.place != Place::Behind)
    }
}

fn error(error: Error<StringError>) -> StringError {
    match error {
        Error::Syntax(error) => StringError::Syntax(error),
        Error::Output(error) => error,
    }
}

/// The inside of the string, of which the splitter gives the JSON as a line.
#[derive(Debug, Default)]
struct Inside {
    pointer: String,
    place: Place,
    /// Text without escapes that was not taken yet.
    text: String,
    /// The end of what was read: [`END`], and a character that may be cut.
    carried: Vec<u8>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Place {
    /// Before the value.
    #[default]
    Before,
    /// At its first byte.
    First,
    Within,
    Behind,
}

impl Inside {
    /// Decodes all but the last bytes, which may be those of [`END`].
    fn decode(&mut self) -> Result<(), StringError> {
        let source = self.carried.get(..self.carried.len().saturating_sub(END.len())).unwrap_or_default();
        let mut output = vec![0; source.len() + SPARE_BYTES];
        let (read, written) = decode_string(source, &mut output);
        output.truncate(written);
        let text = String::from_utf8(output).map_err(|_| StringError::LoneSurrogate)?;
        self.text.push_str(&text);
        let is_cut = source.len() - read <= CUT_BYTES_MAX;
        self.carried.drain(..read);
        if is_cut { Ok(()) } else { Err(StringError::LoneSurrogate) }
    }
}

impl Output for Inside {
    type Error = StringError;

    fn begin(&mut self, target: Target<'_>) -> Result<(), StringError> {
        match target {
            Target::Large { pointer, shape } if self.place == Place::Before && pointer == self.pointer => {
                self.place = Place::First;
                if shape == LargeShape::Value { Ok(()) } else { Err(StringError::Missing) }
            }
            _ => Ok(()),
        }
    }

    fn write(&mut self, stream: Stream, bytes: &[u8]) -> Result<(), StringError> {
        let bytes = match (self.place, stream) {
            (Place::First, Stream::Current) => bytes.strip_prefix(b"\"").ok_or(StringError::Missing)?,
            (Place::Within, Stream::Current) => bytes,
            _ => return Ok(()),
        };
        self.place = Place::Within;
        self.carried.extend_from_slice(bytes);
        self.decode()
    }

    fn end(&mut self, stream: Stream, _: FileReport) -> Result<(), StringError> {
        match (self.place, stream) {
            (Place::First, Stream::Current) => Err(StringError::Missing),
            (Place::Within, Stream::Current) if self.carried == END => {
                self.place = Place::Behind;
                Ok(())
            }
            (Place::Within, Stream::Current) => Err(StringError::LoneSurrogate),
            _ => Ok(()),
        }
    }
}
