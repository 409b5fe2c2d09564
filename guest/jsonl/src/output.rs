//! What a caller asks of the splitter, and what the splitter hands back.

use crate::Profile;

/// Bytes of lines that are gathered before they go to [`Output::write`]: 256 KiB.
pub const BLOCK_BYTES: usize = 256 * 1024;

/// Default of [`Options::large_max`]: 32, so that no document can make its reader open thousands of files.
pub const LARGE_MAX: usize = 32;

/// How the records of a section lie in the document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// An array: one line an element.
    Elements,
    /// An object used as a table: one line a member, `{"key":K,"value":V}`.
    Members,
}

/// One part of the document that becomes a file of lines.
///
/// A value of another shape than the wanted one is taken as it is: [`Shape::Elements`] over an object or a scalar gives
/// one line, the value; [`Shape::Members`] over an array gives one line an element, over a scalar one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    /// JSON Pointer (RFC 6901) of the value; `""` is the document itself, `/0/rows` passes through an array.
    pub pointer: String,
    /// How its records lie.
    pub shape: Shape,
}

/// What a [`Splitter`](crate::Splitter) does with a document.
///
/// The ancestors of `sections` and `keep` are the skeleton: their other members are kept, inline, large or rest. With
/// no section at all, a root object is skeleton, and a root array or scalar is one member with the pointer `""`.
///
/// By default everything is empty, off or 0, except `large_max`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The parts that become files. Of two with the same pointer the first counts; one inside another is ignored.
    pub sections: Vec<Section>,
    /// JSON Pointers of values that stay inline, white space dropped, up to `keep_bytes` each. A longer one is treated
    /// like any other member; one inside a section is ignored.
    pub keep: Vec<String>,
    /// Longest compact JSON, in bytes, of a kept value.
    pub keep_bytes: usize,
    /// Longest compact JSON, in bytes, of any other member that stays inline; a longer one becomes a file of its own,
    /// or a line of the rest.
    pub inline_bytes: usize,
    /// Bytes of pointers and values that stay inline together, kept ones not counted; members beyond go to one file
    /// more, the rest.
    pub inline_total: usize,
    /// Names of members that do not stay inline, nor a value with one in it: unless it is null, or in `keep`, such a member
    /// goes to the rest.
    pub aside: Vec<String>,
    /// Files of large members, [`LARGE_MAX`] by default. A large member after so many of them is one line of the rest,
    /// streamed whatever its size and without a profile; with 0 all are.
    pub large_max: usize,
    /// Infer schema and summary of the records of every section and large member; [`Profile`] tells what that costs.
    pub profile: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            sections: Vec::new(),
            keep: Vec::new(),
            keep_bytes: 0,
            inline_bytes: 0,
            inline_total: 0,
            aside: Vec::new(),
            large_max: LARGE_MAX,
            profile: false,
        }
    }
}

/// What a new output file is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target<'a> {
    /// The records of a section. When its key occurs twice in the document, a second file begins.
    Section {
        /// Index into [`Options::sections`].
        index: usize,
        /// Its JSON Pointer.
        pointer: &'a str,
        /// Its shape as it was asked for.
        shape: Shape,
    },
    /// A member outside all sections that is longer than [`Options::inline_bytes`], at most [`Options::large_max`] times.
    Large {
        /// Its JSON Pointer.
        pointer: &'a str,
        /// What its lines are.
        shape: LargeShape,
    },
    /// The small members that no longer fit inline or must not stay there, and the large ones after [`Options::large_max`]
    /// files: lines `{"pointer":P,"value":V}`, in document order.
    Rest,
}

/// What the lines of a [`Target::Large`] file are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LargeShape {
    /// An array: one line an element.
    Elements,
    /// An object: one line a member, `{"key":K,"value":V}`.
    Members,
    /// A string or a number: the JSON value on one line.
    Value,
}

/// Which of the two files that can be open at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// The file of the section or large member being read.
    Current,
    /// The file of [`Target::Rest`].
    Rest,
}

/// Where the lines go. Any error stops the splitter, which then calls nothing more.
///
/// To have the output back after an error, give the splitter `&mut output`.
pub trait Output {
    /// The error of this output.
    type Error;

    /// Begins a file. A [`Target::Rest`] becomes [`Stream::Rest`], at most once a document; any other becomes
    /// [`Stream::Current`], one after another.
    ///
    /// # Errors
    ///
    /// Whatever keeps the file from being made.
    fn begin(&mut self, target: Target<'_>) -> Result<(), Self::Error>;

    /// Appends bytes: UTF-8, cut anywhere, at most [`BLOCK_BYTES`] at a time.
    ///
    /// # Errors
    ///
    /// Whatever keeps the bytes from being written.
    fn write(&mut self, stream: Stream, bytes: &[u8]) -> Result<(), Self::Error>;

    /// Ends a file: at the end of its value, or for [`Stream::Rest`] at the end of the document. Every line, the last
    /// one too, has ended with a line feed.
    ///
    /// # Errors
    ///
    /// Whatever keeps the file from being completed.
    fn end(&mut self, stream: Stream, report: FileReport) -> Result<(), Self::Error>;
}

impl<O: Output> Output for &mut O {
    type Error = O::Error;

    fn begin(&mut self, target: Target<'_>) -> Result<(), Self::Error> {
        (**self).begin(target)
    }

    fn write(&mut self, stream: Stream, bytes: &[u8]) -> Result<(), Self::Error> {
        (**self).write(stream, bytes)
    }

    fn end(&mut self, stream: Stream, report: FileReport) -> Result<(), Self::Error> {
        (**self).end(stream, report)
    }
}

/// What was written to one file.
#[derive(Clone, Debug, Default)]
pub struct FileReport {
    /// Lines, each ended by a line feed.
    pub records: u64,
    /// Bytes, line feeds included.
    pub bytes: u64,
    /// Schema and summary of the lines: with [`Options::profile`], and not for [`Target::Rest`].
    pub profile: Option<Profile>,
}

/// What stays of a document that has been split.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Document {
    /// Pointer and compact JSON of the kept values, in the order of [`Options::keep`]; missing ones are skipped, one
    /// whose key occurs twice is there twice.
    pub kept: Vec<(String, String)>,
    /// Pointer and compact JSON of the small members outside all sections, in document order. An empty container of the
    /// skeleton is here too, as `{}` or `[]`.
    pub inline: Vec<(String, String)>,
    /// Whether a member went to the rest for its name, see [`Options::aside`].
    pub has_aside: bool,
    /// Size of the whole document in bytes, without white space between tokens.
    pub bytes: u64,
}
