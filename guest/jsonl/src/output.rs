//! Options and output of the splitter.

use crate::Profile;

/// Bytes of lines that are buffered before they go to [`Output::write`]: 256 KiB.
pub const BLOCK_BYTES: usize = 256 * 1024;

/// Default of [`Options::large_max`]: 32, so that no document can make its reader open thousands of files.
pub const LARGE_MAX: usize = 32;

/// Most members that [`Document::noted`] repeats: 64, so that a document cannot make it grow.
pub const NOTED_MAX: usize = 64;

/// The container that holds the records of a section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// An array: one line per element.
    Elements,
    /// An object used as a table: one line per member, `{"key":K,"value":V}`.
    Members,
}

/// One part of the document that becomes a file of lines.
///
/// A value of a different shape is written as it is: [`Shape::Elements`] on an object or a scalar writes the value on
/// one line; [`Shape::Members`] writes one line per element of an array, and a scalar on one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    /// JSON Pointer (RFC 6901) of the value; `""` is the document itself, `/0/rows` passes through an array.
    pub pointer: String,
    /// The container that holds its records.
    pub shape: Shape,
}

/// Options of a [`Splitter`](crate::Splitter).
///
/// The ancestors of `sections` and `keep` are the skeleton: their other members are kept, inline, large or rest.
/// Without sections, a root object is the skeleton, and a root array or scalar is one member with the pointer `""`.
///
/// By default everything is empty, off or 0, except `large_max`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The parts that become files. Of two with the same pointer the first is used; one inside another is ignored.
    pub sections: Vec<Section>,
    /// JSON Pointers of values that stay inline, as compact JSON of up to `keep_bytes` each. A longer value is treated
    /// like any other member; a pointer into a section is ignored.
    pub keep: Vec<String>,
    /// Longest compact JSON, in bytes, of a kept value.
    pub keep_bytes: usize,
    /// Longest compact JSON, in bytes, of any other member that stays inline; a longer one gets a separate file or a
    /// line of the rest.
    pub inline_bytes: usize,
    /// Limit in bytes on all inline pointers and values together, without the kept ones; members that exceed it go to
    /// one more file, the rest.
    pub inline_total: usize,
    /// Names of members that must not stay inline. Such a member, or a small value that contains one, goes to the rest,
    /// unless the member is null or the value is in `keep`.
    pub inline_exclude: Vec<String>,
    /// Names of members outside all sections whose small values [`Document::noted`] repeats, wherever they are written.
    pub note: Vec<String>,
    /// Most files of large members, [`LARGE_MAX`] by default. Further large members become one line of the rest each,
    /// streamed whatever their size and without a profile; with 0 all of them do.
    pub large_max: usize,
    /// Whether to infer schema and summary of the records of every section and large member; for the cost see
    /// [`Profile`].
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
            inline_exclude: Vec::new(),
            note: Vec::new(),
            large_max: LARGE_MAX,
            profile: false,
        }
    }
}

/// The content of a new output file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target<'a> {
    /// The records of a section. When its key occurs twice in the document, a second file begins.
    Section {
        /// Index into [`Options::sections`].
        index: usize,
        /// Its JSON Pointer.
        pointer: &'a str,
        /// Its shape, as [`Options::sections`] gives it.
        shape: Shape,
    },
    /// A member outside all sections that is longer than [`Options::inline_bytes`]; at most [`Options::large_max`]
    /// files.
    Large {
        /// Its JSON Pointer.
        pointer: &'a str,
        /// The content of its lines.
        shape: LargeShape,
    },
    /// The small members that do not fit inline or are excluded from it, and the large ones beyond
    /// [`Options::large_max`]: lines `{"pointer":P,"value":V}`, in document order.
    Rest,
}

/// The lines of a [`Target::Large`] file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LargeShape {
    /// An array: one line per element.
    Elements,
    /// An object: one line per member, `{"key":K,"value":V}`.
    Members,
    /// A string or a number: the JSON value on one line.
    Value,
}

/// One of the two files that can be open at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// The file of the section or large member being read.
    Current,
    /// The file of [`Target::Rest`].
    Rest,
}

/// Receives the lines. The splitter stops at the first error and makes no further calls.
///
/// To keep the output after an error, give the splitter `&mut output`.
pub trait Output {
    /// The error of this output.
    type Error;

    /// Begins a file. [`Target::Rest`] becomes [`Stream::Rest`], at most once per document; any other target becomes
    /// [`Stream::Current`], one after another.
    ///
    /// # Errors
    ///
    /// When the file cannot be created.
    fn begin(&mut self, target: Target<'_>) -> Result<(), Self::Error>;

    /// Appends bytes: UTF-8, cut anywhere, at most [`BLOCK_BYTES`] at a time.
    ///
    /// # Errors
    ///
    /// When the bytes cannot be written.
    fn write(&mut self, stream: Stream, bytes: &[u8]) -> Result<(), Self::Error>;

    /// Ends a file: at the end of its value, or for [`Stream::Rest`] at the end of the document. Every line, including
    /// the last, ends with a line feed.
    ///
    /// # Errors
    ///
    /// When the file cannot be completed.
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

/// Counts of one written file.
#[derive(Clone, Debug, Default)]
pub struct FileReport {
    /// Lines, each ended by a line feed.
    pub records: u64,
    /// Bytes, line feeds included.
    pub bytes: u64,
    /// Schema and summary of the lines, with [`Options::profile`]; never for [`Target::Rest`].
    pub profile: Option<Profile>,
}

/// The values of a split document that stay inline, and its size.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Document {
    /// Pointer and compact JSON of the kept values, in the order of [`Options::keep`]; missing ones are skipped, and a
    /// value whose key occurs twice is listed twice.
    pub kept: Vec<(String, String)>,
    /// Pointer and compact JSON of the small members outside all sections, in document order. Includes the empty
    /// containers of the skeleton, as `{}` or `[]`.
    pub inline: Vec<(String, String)>,
    /// Pointer and compact JSON of the members of [`Options::note`] up to [`Options::inline_bytes`], in document order, at
    /// most [`NOTED_MAX`].
    pub noted: Vec<(String, String)>,
    /// Whether a member went to the rest because of its name, see [`Options::inline_exclude`].
    pub has_excluded: bool,
    /// Size of the whole document in bytes, without white space between tokens.
    pub bytes: u64,
}
