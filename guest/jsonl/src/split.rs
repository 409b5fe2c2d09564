//! The splitter: walks the skeleton of a document and the boundaries of records.

use lro_json::{Block, Scanner, SyntaxErrorKind, masks, pointer};

use crate::lines::{AFTER_VALUE, BEFORE_KEY, BEFORE_VALUE, Form};
use crate::profile::Profile;
use crate::value::{Role, Value};
use crate::{Document, Error, FileReport, Options, Output, Stream};

/// Longest key outside all sections, in bytes of raw JSON with its quotes: 64 KiB. Keys inside records have no limit.
pub const KEY_BYTES_MAX: usize = 64 * 1024;

/// Length of most pieces of a record between white space.
const PIECE_BYTES: usize = 32;

/// After records that were not read by steps, at most two to the power of this many others are not tried.
const VAIN_MAX: u32 = 8;

/// Splits one document, given in slices. Must not be used after an error.
///
/// Memory: the inline values that [`Options`] allows, twice the longest one of them, one block of each open file, the
/// state of the scanner, and the [`Profile`](crate::Profile) of one file.
#[derive(Debug)]
pub struct Splitter<O: Output> {
    pub(crate) options: Options,
    pub(crate) output: O,
    pub(crate) scanner: Scanner,
    pub(crate) document: Document,
    /// Indices into [`Options::keep`] of `document.kept`.
    pub(crate) kept: Vec<usize>,
    pub(crate) inline_total: usize,
    /// Files of large members so far.
    pub(crate) large_files: usize,
    /// Bytes of the current key, small value or block of a file.
    pub(crate) buffer: Vec<u8>,
    pub(crate) rest: Option<(Vec<u8>, FileReport)>,
    pub(crate) profile: Profile,
    /// The open containers of the skeleton.
    frames: Vec<Frame>,
    /// The pointer of the current member, or of the innermost frame between members.
    pub(crate) pointer: String,
    /// Open containers.
    depth: usize,
    /// The depth whose tokens are read: that of the skeleton, or between records.
    level: usize,
    pub(crate) state: State,
    /// Index in the slice of the first byte not yet copied to the buffer, while in a key or value.
    pub(crate) span: usize,
    /// White space of the block still to be skipped, and the index of the block in the slice.
    white: u64,
    block_start: usize,
    /// Whether the value being read is profiled.
    pub(crate) profiling: bool,
    /// First bit of the block that the profile has not seen.
    profile_from: u32,
    /// Records not to try by the steps of the profile, and how often in a row that was in vain.
    wait: u32,
    vain: u32,
}

/// The text of bytes that were copied between two tokens.
pub(crate) fn copied_text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap_or_else(|error| unreachable!("a character was cut: {error}"))
}

/// The state of the splitter.
#[derive(Debug)]
pub(crate) enum State {
    /// Between the tokens of the skeleton.
    Skeleton,
    /// In a key of the skeleton.
    Key,
    /// In a value.
    Value(Value),
}

/// An open container of the skeleton.
#[derive(Debug)]
struct Frame {
    object: bool,
    /// Index of the current element.
    index: u64,
    /// Length of its pointer.
    pointer_length: usize,
    empty: bool,
}

impl<O: Output> Splitter<O> {
    /// A splitter at the beginning of a document.
    #[must_use]
    pub fn new(options: Options, output: O) -> Self {
        Self {
            options,
            output,
            scanner: Scanner::new(),
            document: Document::default(),
            kept: Vec::new(),
            inline_total: 0,
            large_files: 0,
            buffer: Vec::with_capacity(crate::BLOCK_BYTES),
            rest: None,
            profile: Profile::default(),
            frames: Vec::new(),
            pointer: String::new(),
            depth: 0,
            level: 0,
            state: State::Skeleton,
            span: 0,
            white: 0,
            block_start: 0,
            profiling: false,
            profile_from: 0,
            wait: 0,
            vain: 0,
        }
    }

    /// Reads the next slice of the document, cut between any two characters. 256 KiB is a good size; shorter slices are
    /// slower.
    ///
    /// # Errors
    ///
    /// [`Error::Syntax`] at the first invalid byte, [`Error::Output`] as soon as the output fails.
    pub fn push(&mut self, text: &str) -> Result<(), Error<O::Error>> {
        let text = text.as_bytes();
        self.scanner.begin(text)?;
        self.span = 0;
        let mut start = 0;
        while start < text.len() {
            let block = self.scanner.block(text, start)?;
            start = self.read(text, &block)?;
        }
        if !matches!(self.state, State::Skeleton) {
            self.copy_until(text, text.len())?;
        }
        if self.profiling {
            self.profile.end_slice(text);
        }
        self.scanner.end(text);
        Ok(())
    }

    /// Ends the document and all files.
    ///
    /// # Errors
    ///
    /// [`Error::Syntax`] when the document is not complete, [`Error::Output`] when the output fails.
    pub fn finish(mut self) -> Result<(Document, O), Error<O::Error>> {
        self.document.bytes = self.scanner.finish()?;
        if self.profiling {
            self.profile.end_document();
        }
        self.end_value()?;
        if let Some((lines, report)) = self.rest.take() {
            if !lines.is_empty() {
                self.output.write(Stream::Rest, &lines).map_err(Error::Output)?;
            }
            self.output.end(Stream::Rest, report).map_err(Error::Output)?;
        }
        let mut kept: Vec<_> = self.kept.into_iter().zip(self.document.kept).collect();
        kept.sort_by_key(|(index, _)| *index);
        self.document.kept = kept.into_iter().map(|(_, value)| value).collect();
        Ok((self.document, self.output))
    }

    /// Follows the brackets of a block and handles the tokens between them that lie on the level. Returns where the next block
    /// begins.
    #[inline(always)]
    fn read(&mut self, text: &[u8], block: &Block) -> Result<usize, Error<O::Error>> {
        self.white = block.white;
        self.block_start = block.start;
        self.profile_from = 0;
        let mut brackets = block.open | block.close;
        let mut done = 0;
        loop {
            let bracket = brackets & brackets.wrapping_neg();
            let below = bracket.wrapping_sub(1);
            if self.depth == self.level
                && let Some(comma) = self.level_tokens(text, block, below & !done)?
            {
                return self.records_by_steps(text, block, comma);
            }
            if bracket == 0 {
                break;
            }
            let bit = bracket.trailing_zeros();
            if block.open & bracket != 0 {
                if self.depth == self.level {
                    self.open(text, block, bit)?;
                }
                self.depth += 1;
            } else {
                if self.depth == self.level {
                    self.close(text, block, bit)?;
                }
                self.depth -= 1;
            }
            done = below | bracket;
            brackets &= brackets - 1;
        }
        if self.profiling && matches!(self.state, State::Value(_)) {
            self.profile.read(text, block, u64::MAX.unbounded_shl(self.profile_from));
        }
        if self.white != 0 && !matches!(self.state, State::Skeleton) {
            self.copy_until(text, block.start + block.length)?;
        }
        Ok(block.start + block.length)
    }

    /// The tokens of a stretch without brackets, on the level. Returns the bit of a comma behind which records may be read by
    /// steps.
    #[inline(always)]
    fn level_tokens(&mut self, text: &[u8], block: &Block, stretch: u64) -> Result<Option<u32>, Error<O::Error>> {
        let tokens = match &self.state {
            State::Value(value) if value.form == Form::Elements => block.comma,
            State::Value(value) if value.form == Form::Members => block.comma | block.colon | block.key,
            _ => block.comma | block.colon | block.string | block.scalar,
        };
        let mut tokens = tokens & stretch;
        while tokens != 0 {
            let bit = tokens.trailing_zeros();
            tokens &= tokens - 1;
            if matches!(&self.state, State::Value(value) if value.form != Form::Value) {
                self.record_token(text, block.start + bit as usize)?;
                if self.tries_steps(block, bit) {
                    return Ok(Some(bit));
                }
            } else {
                self.skeleton_token(text, block, bit)?;
            }
        }
        Ok(None)
    }

    /// Whether to read the records behind the comma at `bit` by steps.
    #[inline(always)]
    fn tries_steps(&mut self, block: &Block, bit: u32) -> bool {
        let State::Value(value) = &self.state else { return false };
        if !self.profiling || value.form != Form::Elements {
            return false;
        }
        if self.wait > 0 {
            self.wait -= 1;
            return false;
        }
        let beyond = u64::MAX.unbounded_shl(bit + 1);
        // The scanner goes back only within the array.
        masks::closing(block.open & beyond, block.close & beyond, &mut 0).is_none()
    }

    /// Reads records behind a comma as long as the profile has steps for them. Returns where the next block begins.
    #[inline(never)]
    fn records_by_steps(&mut self, text: &[u8], block: &Block, comma: u32) -> Result<usize, Error<O::Error>> {
        self.profile_until(text, block, comma);
        let first = block.start + comma as usize + 1;
        let (mut next, mut white) = (first, 0);
        self.white = 0;
        while let Some(end) = self.profile.read_record(text, next) {
            white += self.copy_record(text, end - 1)?;
            (next, self.span) = (end, end);
        }
        self.vain = if next > first { 0 } else { (self.vain + 1).min(VAIN_MAX) };
        self.wait = (1 << self.vain) - 1;
        self.scanner.resume(block, comma, self.depth, white);
        Ok(next)
    }

    /// As [`Splitter::copy_span`], for pieces that are short mostly: a copy of constant length needs no call.
    #[inline(always)]
    fn copy_piece(&mut self, text: &[u8], until: usize) -> Result<(), Error<O::Error>> {
        let length = until - self.span;
        let piece = text.get(self.span..).and_then(|rest| rest.first_chunk::<PIECE_BYTES>());
        match (piece, &self.state) {
            (Some(piece), State::Value(value))
                if length <= PIECE_BYTES && self.buffer.len() + PIECE_BYTES <= value.limit =>
            {
                let end = self.buffer.len() + length;
                self.buffer.extend_from_slice(piece);
                self.buffer.truncate(end);
                self.span = until;
                Ok(())
            }
            _ => self.copy_span(text, until),
        }
    }

    /// Copies the record that the profile has just read, up to the comma behind it. Returns its white space in bytes.
    #[inline(always)]
    fn copy_record(&mut self, text: &[u8], comma: usize) -> Result<usize, Error<O::Error>> {
        let mut white = 0;
        for index in 0.. {
            let Some(run) = self.profile.white().get(index).cloned() else { break };
            self.copy_piece(text, run.start)?;
            self.span = run.end;
            white += run.len();
        }
        self.copy_span(text, comma)?;
        self.end_line()?;
        Ok(white)
    }

    /// Handles a token between the records of a value, or between key and value of a record.
    #[inline(always)]
    fn record_token(&mut self, text: &[u8], index: usize) -> Result<(), Error<O::Error>> {
        match text[index] {
            b',' => {
                self.copy_until(text, index)?;
                self.end_line()?;
                self.span = index + 1;
            }
            b':' => {
                self.copy_until(text, index)?;
                self.punctuate(b":", BEFORE_VALUE)?;
                self.span = index + 1;
            }
            _ => {
                debug_assert!(text[self.span..index].trim_ascii().is_empty(), "more than white space before a key");
                self.span = index;
                self.punctuate(b"", BEFORE_KEY)?;
            }
        }
        Ok(())
    }

    /// Handles a token of the skeleton, or the comma after a value that is written on one line.
    fn skeleton_token(&mut self, text: &[u8], block: &Block, bit: u32) -> Result<(), Error<O::Error>> {
        let index = block.start + bit as usize;
        match text[index] {
            b',' => {
                self.end_value_at(text, block, bit)?;
                self.leave_member();
                if let Some(frame) = self.frames.last_mut() {
                    frame.index += 1;
                }
            }
            b':' => {
                self.copy_until(text, index)?;
                self.state = State::Skeleton;
                let key = copied_text(&self.buffer);
                pointer::push_json_step(&mut self.pointer, &key[1..key.len() - 1]);
                self.buffer.clear();
            }
            _ if block.key >> bit & 1 == 1 => {
                self.state = State::Key;
                self.span = index;
                self.enter_member();
            }
            first => {
                self.enter_member();
                let role = self.role();
                self.begin(role, first, index, bit)?;
            }
        }
        Ok(())
    }

    /// Handles an opening bracket on the level: of a record, or of a value of the skeleton.
    #[inline(always)]
    fn open(&mut self, text: &[u8], block: &Block, bit: u32) -> Result<(), Error<O::Error>> {
        if matches!(self.state, State::Value(_)) {
            return Ok(());
        }
        let index = block.start + bit as usize;
        let first = text[index];
        self.enter_member();
        match self.role_of_container(first) {
            Some(role) => self.begin(role, first, index, bit),
            None => {
                let (object, pointer_length) = (first == b'{', self.pointer.len());
                self.frames.push(Frame { object, index: 0, pointer_length, empty: true });
                self.level += 1;
                Ok(())
            }
        }
    }

    /// Handles the bracket that closes the container of the level.
    #[inline(always)]
    fn close(&mut self, text: &[u8], block: &Block, bit: u32) -> Result<(), Error<O::Error>> {
        if matches!(&self.state, State::Value(value) if value.form != Form::Value) {
            self.level -= 1;
            return self.end_value_at(text, block, bit);
        }
        self.end_value_at(text, block, bit)?;
        self.leave_member();
        self.level -= 1;
        match self.frames.pop() {
            Some(Frame { empty: true, object, .. }) => self.keep_empty(object),
            _ => Ok(()),
        }
    }

    /// Marks the innermost frame as not empty, and completes the pointer of an element.
    fn enter_member(&mut self) {
        if let Some(frame) = self.frames.last_mut() {
            frame.empty = false;
            if !frame.object {
                self.pointer.push('/');
                self.pointer.push_str(&frame.index.to_string());
            }
        }
    }

    fn leave_member(&mut self) {
        self.pointer.truncate(self.frames.last().map_or(0, |frame| frame.pointer_length));
    }

    /// Begins a value at its first byte.
    fn begin(&mut self, role: Role, first: u8, index: usize, bit: u32) -> Result<(), Error<O::Error>> {
        self.profiling = self.options.profile;
        let form = self.begin_value(role, first)?;
        let inside = form != Form::Value;
        self.span = index + usize::from(inside);
        self.profile_from = bit + u32::from(inside);
        self.level += usize::from(inside);
        if self.profiling {
            self.profile.begin(form);
            (self.wait, self.vain) = (0, 0);
        }
        Ok(())
    }

    /// Ends the value, if there is one, before the token at this bit.
    #[inline(never)]
    fn end_value_at(&mut self, text: &[u8], block: &Block, bit: u32) -> Result<(), Error<O::Error>> {
        if !matches!(self.state, State::Value(_)) {
            return Ok(());
        }
        if self.profiling {
            self.profile_until(text, block, bit);
        }
        self.copy_until(text, block.start + bit as usize)?;
        self.end_value()
    }

    /// Lets the profile see the tokens before this bit.
    #[inline(always)]
    fn profile_until(&mut self, text: &[u8], block: &Block, bit: u32) {
        let before = (1_u64 << bit) - 1;
        self.profile.read(text, block, before & u64::MAX.unbounded_shl(self.profile_from));
    }

    /// Ends a line of a file, or of a value that may become one.
    #[inline(always)]
    pub(crate) fn end_line(&mut self) -> Result<(), Error<O::Error>> {
        match &mut self.state {
            State::Value(value) if value.form == Form::Members => {
                value.records += 1;
                self.punctuate(b"\n", AFTER_VALUE)
            }
            State::Value(value) => {
                value.records += 1;
                self.punctuate(b"\n", b"\n")
            }
            state => unreachable!("a line ended outside a value: {state:?}"),
        }
    }

    /// Copies the bytes from `span` to `until`, without white space. Panics on an invalid span: to lose or repeat a
    /// byte would be worse.
    #[inline(always)]
    pub(crate) fn copy_until(&mut self, text: &[u8], until: usize) -> Result<(), Error<O::Error>> {
        while self.white != 0 {
            let bit = self.white.trailing_zeros();
            let run = self.block_start + bit as usize;
            if run >= until {
                break;
            }
            let length = (self.white >> bit).trailing_ones();
            // White space before the span lies outside the value; beyond the end of the slice every bit is set.
            if run >= self.span {
                self.copy_span(text, run)?;
                self.span = until.min(run + length as usize);
            }
            self.white &= u64::MAX.unbounded_shl(bit + length);
        }
        self.copy_span(text, until)
    }

    #[inline(always)]
    fn copy_span(&mut self, text: &[u8], until: usize) -> Result<(), Error<O::Error>> {
        let bytes = &text[self.span..until];
        self.span = until;
        if bytes.is_empty() { Ok(()) } else { self.append(bytes) }
    }

    pub(crate) fn key_limit(&self) -> Error<O::Error> {
        Error::Syntax(self.scanner.error(self.span, SyntaxErrorKind::KeyLimit(KEY_BYTES_MAX)))
    }
}
