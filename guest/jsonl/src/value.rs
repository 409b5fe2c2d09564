//! Decides where the values of a document go: inline, to a separate file, or to the rest.

use lro_json::write;

use crate::lines::{AFTER_VALUE, BEFORE_KEY, BEFORE_VALUE, Form, join, member_lines};
use crate::split::{KEY_BYTES_MAX, Splitter, State, copied_text};
use crate::{BLOCK_BYTES, Error, FileReport, NOTED_MAX, Output, Stream, Target};

/// The role of a value outside or at the root of a section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// The section with this index.
    Section(usize),
    /// The value to keep with this index.
    Keep(usize),
    /// Any other member.
    Other,
}

/// A value that is being written.
#[derive(Debug)]
pub(crate) struct Value {
    pub(crate) form: Form,
    pub(crate) records: u64,
    role: Role,
    /// Bytes that the buffer may hold: the inline limit of a value that may stay inline, one block of a file.
    pub(crate) limit: usize,
    /// Bytes already written to the output.
    written: u64,
    destination: Destination,
}

/// Where the bytes of a value go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Destination {
    /// Buffered in memory, while the value may still be small.
    Memory,
    /// A separate file.
    File,
    /// A line of the rest.
    Rest,
}

impl<O: Output> Splitter<O> {
    /// The role of the value at the current pointer; `None` for a container of the skeleton.
    pub(crate) fn role_of_container(&self, first: u8) -> Option<Role> {
        let inside = |other: &str| other.strip_prefix(self.pointer.as_str()).is_some_and(|rest| rest.starts_with('/'));
        match self.role() {
            Role::Section(index) => Some(Role::Section(index)),
            _ if self.options.sections.iter().any(|section| inside(&section.pointer)) => None,
            Role::Keep(index) => Some(Role::Keep(index)),
            Role::Other if self.options.keep.iter().any(|keep| inside(keep)) => None,
            Role::Other if self.pointer.is_empty() && first == b'{' => None,
            Role::Other => Some(Role::Other),
        }
    }

    /// The role of a scalar at the current pointer.
    pub(crate) fn role(&self) -> Role {
        let section = self.options.sections.iter().position(|section| section.pointer == self.pointer);
        let keep = || self.options.keep.iter().position(|keep| *keep == self.pointer);
        section.map(Role::Section).or_else(|| keep().map(Role::Keep)).unwrap_or(Role::Other)
    }

    /// Begins the value at the current pointer.
    pub(crate) fn begin_value(&mut self, role: Role, first: u8) -> Result<Form, Error<O::Error>> {
        let section = match role {
            Role::Section(index) => Some((index, &self.options.sections[index])),
            _ => None,
        };
        let form = match section {
            Some((index, section)) => {
                let target = Target::Section { index, pointer: &self.pointer, shape: section.shape };
                self.output.begin(target).map_err(Error::Output)?;
                Form::of_section(section.shape, first)
            }
            None => Form::of_member(first),
        };
        let limit = match role {
            Role::Section(_) => BLOCK_BYTES,
            Role::Keep(_) => self.options.keep_bytes.max(self.options.inline_bytes),
            Role::Other => self.options.inline_bytes,
        };
        let destination = if section.is_some() { Destination::File } else { Destination::Memory };
        self.state = State::Value(Value { form, records: 0, role, limit, written: 0, destination });
        Ok(form)
    }

    /// Appends bytes of the current key or value.
    #[inline(always)]
    pub(crate) fn append(&mut self, bytes: &[u8]) -> Result<(), Error<O::Error>> {
        let limit = match &self.state {
            State::Value(value) => value.limit,
            _ => KEY_BYTES_MAX,
        };
        if self.buffer.len() + bytes.len() > limit {
            return self.append_beyond(bytes);
        }
        self.buffer.extend_from_slice(bytes);
        Ok(())
    }

    /// Appends bytes when the buffer is full.
    #[cold]
    fn append_beyond(&mut self, bytes: &[u8]) -> Result<(), Error<O::Error>> {
        match &self.state {
            State::Value(Value { destination: Destination::Memory, form, .. }) => {
                let begins_key = *form == Form::Members && self.buffer.last().is_none_or(|last| *last == b'\n');
                if self.begin_large()? == Destination::File && begins_key {
                    self.buffer.extend_from_slice(BEFORE_KEY);
                }
            }
            State::Value(_) => {}
            _ => return Err(self.key_limit()),
        }
        for piece in bytes.chunks(BLOCK_BYTES) {
            if self.buffer.len() + piece.len() > BLOCK_BYTES {
                self.flush()?;
            }
            self.buffer.extend_from_slice(piece);
        }
        Ok(())
    }

    /// Appends the text between the parts of a line: `written` in a file, `buffered` elsewhere.
    #[inline(always)]
    pub(crate) fn punctuate(&mut self, buffered: &[u8], written: &[u8]) -> Result<(), Error<O::Error>> {
        match &self.state {
            State::Value(Value { destination: Destination::File, .. }) => self.append(written),
            State::Value(Value { destination: Destination::Rest, .. }) if buffered == b"\n" => self.append(b","),
            State::Value(Value { destination: Destination::Rest, .. }) => self.append(buffered),
            // Without the limit check: the form of a line must not change within its punctuation.
            _ => {
                self.buffer.extend_from_slice(buffered);
                Ok(())
            }
        }
    }

    /// Begins a file or a line of the rest for the current value, which is too long to stay inline.
    fn begin_large(&mut self) -> Result<Destination, Error<O::Error>> {
        let State::Value(value) = &mut self.state else { unreachable!("a large value began outside a value") };
        value.limit = BLOCK_BYTES;
        if self.large_files >= self.options.large_max {
            value.destination = Destination::Rest;
            let opening: &[u8] = match value.form {
                Form::Elements => b"[",
                Form::Members => b"{",
                Form::Value => b"",
            };
            self.buffer.iter_mut().filter(|byte| **byte == b'\n').for_each(|byte| *byte = b',');
            self.begin_rest_line()?;
            self.write_rest(opening)?;
            self.flush()?;
            return Ok(Destination::Rest);
        }
        value.destination = Destination::File;
        self.large_files += 1;
        let target = Target::Large { pointer: &self.pointer, shape: value.form.large_shape() };
        self.output.begin(target).map_err(Error::Output)?;
        if value.form == Form::Members {
            self.buffer = member_lines(&self.buffer);
        }
        if self.buffer.len() > BLOCK_BYTES {
            self.flush()?;
        }
        Ok(Destination::File)
    }

    /// Writes the buffer to the output.
    fn flush(&mut self) -> Result<(), Error<O::Error>> {
        if let State::Value(Value { destination: Destination::Rest, .. }) = self.state {
            let buffer = std::mem::take(&mut self.buffer);
            self.write_rest(&buffer)?;
            self.buffer = buffer;
            self.buffer.clear();
            return Ok(());
        }
        for block in self.buffer.chunks(BLOCK_BYTES) {
            self.output.write(Stream::Current, block).map_err(Error::Output)?;
        }
        let State::Value(value) = &mut self.state else { unreachable!("bytes were flushed outside a value") };
        value.written += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    /// Ends the current value, if there is one.
    pub(crate) fn end_value(&mut self) -> Result<(), Error<O::Error>> {
        let State::Value(value) = &mut self.state else {
            return Ok(());
        };
        if value.destination == Destination::Rest {
            let form = value.form;
            return self.end_large_in_rest(form);
        }
        // An empty container has no line, and nothing was copied for it.
        if value.records > 0 || value.written > 0 || !self.buffer.is_empty() {
            self.end_line()?;
        }
        let State::Value(Value { form, role, destination, .. }) = self.state else {
            unreachable!("a line ended the value")
        };
        if destination == Destination::File {
            return self.end_file();
        }
        let bytes = match form {
            Form::Value => self.buffer.len() - 1,
            _ => (self.buffer.len() + 1).max(2),
        };
        if bytes <= self.options.inline_bytes && self.document.noted.len() < NOTED_MAX && self.is_noted() {
            let mut json = self.buffer.clone();
            join(form, &mut json);
            self.document.noted.push((self.pointer.clone(), copied_text(&json).to_owned()));
        }
        match role {
            Role::Keep(index) if bytes <= self.options.keep_bytes => {
                self.kept.push(index);
                let value = self.take_small(form);
                self.document.kept.push(value);
                Ok(())
            }
            _ if bytes > self.options.inline_bytes => match self.large_files < self.options.large_max {
                true => {
                    self.begin_large()?;
                    self.end_file()
                }
                false => self.end_in_rest(form),
            },
            _ if self.is_excluded(form) => {
                self.document.has_excluded = true;
                self.end_in_rest(form)
            }
            _ if self.inline_total + self.pointer.len() + bytes <= self.options.inline_total => {
                self.inline_total += self.pointer.len() + bytes;
                let value = self.take_small(form);
                self.document.inline.push(value);
                Ok(())
            }
            _ => self.end_in_rest(form),
        }
    }

    /// Whether the name of the current member is one to note.
    fn is_noted(&self) -> bool {
        let name = self.pointer.rsplit('/').next();
        self.options.note.iter().any(|noted| Some(noted.as_str()) == name)
    }

    /// Whether the small value in the buffer, or one of its members, is excluded from inline by its name.
    fn is_excluded(&self, form: Form) -> bool {
        let own = self.pointer.rsplit('/').next();
        let is_null = |value: &[u8]| value.starts_with(b"null");
        let is_member = |name: &String| {
            let key = format!("\"{name}\":");
            let mut rest = self.buffer.as_slice();
            while let Some(at) = rest.windows(key.len()).position(|bytes| bytes == key.as_bytes()) {
                rest = rest.get(at + key.len()..).unwrap_or_default();
                if !is_null(rest) {
                    return true;
                }
            }
            false
        };
        // Of an array the buffer has the elements alone, of which the first may be null.
        let is_null_itself = form == Form::Value && is_null(&self.buffer);
        let is_own = |name: &String| own == Some(name) && !is_null_itself;
        self.options.inline_exclude.iter().any(|name| is_own(name) || is_member(name))
    }

    /// The pointer and compact JSON of a small value.
    fn take_small(&mut self, form: Form) -> (String, String) {
        join(form, &mut self.buffer);
        let json = copied_text(&self.buffer).to_owned();
        self.buffer.clear();
        self.state = State::Skeleton;
        (self.pointer.clone(), json)
    }

    fn end_file(&mut self) -> Result<(), Error<O::Error>> {
        if !self.buffer.is_empty() {
            self.flush()?;
        }
        let State::Value(value) = &self.state else { unreachable!("a file ended outside a value") };
        let profile = self.profiling.then(|| {
            self.profile.settle();
            std::mem::take(&mut self.profile)
        });
        let report = FileReport { records: value.records, bytes: value.written, profile };
        self.output.end(Stream::Current, report).map_err(Error::Output)?;
        self.state = State::Skeleton;
        Ok(())
    }

    /// Ends a buffered value as a line of the rest.
    fn end_in_rest(&mut self, form: Form) -> Result<(), Error<O::Error>> {
        join(form, &mut self.buffer);
        let value = std::mem::take(&mut self.buffer);
        self.begin_rest_line()?;
        self.write_rest(&value)?;
        self.buffer = value;
        self.end_rest_line()
    }

    /// Ends a value that was streamed to a line of the rest.
    fn end_large_in_rest(&mut self, form: Form) -> Result<(), Error<O::Error>> {
        self.flush()?;
        self.write_rest(match form {
            Form::Elements => b"]",
            Form::Members => b"}",
            Form::Value => b"",
        })?;
        self.end_rest_line()
    }

    fn begin_rest_line(&mut self) -> Result<(), Error<O::Error>> {
        if self.rest.is_none() {
            self.output.begin(Target::Rest).map_err(Error::Output)?;
            self.rest = Some((Vec::with_capacity(BLOCK_BYTES), FileReport::default()));
        }
        let mut line = String::from("{\"pointer\":");
        write::push_string(&mut line, &self.pointer);
        self.write_rest(line.as_bytes())?;
        self.write_rest(BEFORE_VALUE)
    }

    fn end_rest_line(&mut self) -> Result<(), Error<O::Error>> {
        self.write_rest(AFTER_VALUE)?;
        let Some((_, report)) = &mut self.rest else { unreachable!("a line of the rest ended before the file began") };
        report.records += 1;
        self.buffer.clear();
        self.state = State::Skeleton;
        Ok(())
    }

    fn write_rest(&mut self, bytes: &[u8]) -> Result<(), Error<O::Error>> {
        let Some((lines, report)) = &mut self.rest else {
            unreachable!("bytes of the rest came before the file began")
        };
        report.bytes += bytes.len() as u64;
        for piece in bytes.chunks(BLOCK_BYTES) {
            if lines.len() + piece.len() > BLOCK_BYTES {
                self.output.write(Stream::Rest, lines).map_err(Error::Output)?;
                lines.clear();
            }
            lines.extend_from_slice(piece);
        }
        Ok(())
    }

    /// Adds an empty container of the skeleton as a member, so that it is not lost.
    pub(crate) fn keep_empty(&mut self, object: bool) -> Result<(), Error<O::Error>> {
        self.begin_value(Role::Other, if object { b'{' } else { b'[' })?;
        self.end_value()
    }
}
