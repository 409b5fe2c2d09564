//! A result that fits a limit: whole records of JSON, the beginning of other text, a note in the place of the rest.

use super::budget::{Budget, escaped};
use super::records::Copies;
use super::reply::{quoted, text_block};
use super::result::{Block, Role, ToolResult};
use super::sections;
use crate::sandbox::types::Size;
use crate::sandbox::{Part, PartKind, PayloadReader};

/// Longest warning that goes into a truncated result; a longer one is cut.
pub const WARNING_CHARACTERS_MAX: usize = 512;

/// Set aside for each block that is still to come, so that it can at least be named.
const STUB_BYTES: u64 = 160;

/// Longest media type in the note about an omitted block.
const MEDIA_TYPE_CHARACTERS_MAX: usize = 64;

/// A member other than content is kept when it takes no more than this share of the limit.
const MEMBER_SHARE: u64 = 8;

/// Bytes of text read at a time.
const SLICE_BYTES: u32 = 64 << 10;

/// How a result is to be cut.
#[derive(Clone, Copy, Debug)]
pub struct Truncation<'a> {
    /// Size of the whole message, escapes and envelope included.
    pub limit: Size,
    /// Text after the cut of a text that is not JSON. It is cut itself when it does not fit.
    pub suffix: &'a str,
    /// Why the result was cut; empty for the limit alone. At most [`WARNING_CHARACTERS_MAX`] characters of it are used.
    pub warning: &'a str,
}

/// What is at hand while the content of a result is put together.
struct Cutter<'a> {
    result: &'a ToolResult,
    reader: PayloadReader,
    budget: Budget,
    suffix: &'a str,
    warning: &'a str,
    blocks: Vec<String>,
    /// Whether the warning stands in one of the blocks.
    warned: bool,
    omitted: usize,
}

impl ToolResult {
    /// The message cut to a limit; valid JSON, with every block in its place or named.
    ///
    /// Blocks that fit stay as they are, earlier ones first. A text that is JSON with records becomes an object:
    /// `offloaded` false, `warning`, under the JSON Pointer of each section its first whole records, under `omitted` how
    /// many more there are (bytes, for a single text), and small other members. Another text keeps its beginning, of an
    /// error also its end. A block of another kind gives way to a note of its kind and size.
    ///
    /// Structured content is replaced by the same object when it is too large, or dropped when even that does not fit;
    /// `_meta` and unknown members stay when they take no more than an eighth of the limit. The limit always holds but
    /// for one that is smaller than the envelope with an empty `content`.
    pub fn truncated(&self, truncation: &Truncation<'_>) -> Vec<u8> {
        let warning = truncation.warning;
        let cut = warning.char_indices().nth(WARNING_CHARACTERS_MAX).map_or(warning.len(), |(end, _)| end);
        let mut cutter = Cutter {
            result: self,
            reader: PayloadReader::new(self.payload().clone()),
            budget: Budget::new(truncation.limit),
            suffix: truncation.suffix,
            warning: warning.get(..cut).unwrap_or_default(),
            blocks: Vec::new(),
            warned: false,
            omitted: 0,
        };
        let mut members = self.result_type();
        for text in [self.envelope().0, self.envelope().1] {
            cutter.budget.spend(&String::from_utf8_lossy(text));
        }
        cutter.budget.spend(r#"{"content":[]}"#);
        for (key, value) in &members {
            cutter.budget.spend(&member_text(key, value));
        }
        if self.is_error() {
            let value: &[u8] = b"true";
            cutter.budget.spend(&member_text(b"\"isError\"", value));
            members.push((b"\"isError\"", value));
        }
        members.extend(cutter.keep_members(truncation.limit.amount / MEMBER_SHARE));
        let structured = cutter.content(truncation.limit.amount);
        let content = format!("[{}]", cutter.blocks.join(","));
        members.push((b"\"content\"", content.as_bytes()));
        if let Some(structured) = &structured {
            members.push((b"\"structuredContent\"", structured.as_bytes()));
        }
        self.message_with(&members)
    }
}

fn member_text(key: &[u8], value: &[u8]) -> String {
    format!(",{}:{}", String::from_utf8_lossy(key), String::from_utf8_lossy(value))
}

impl<'a> Cutter<'a> {
    /// The members besides content that stay as they are.
    fn keep_members(&mut self, share: u64) -> Vec<(&'a [u8], &'a [u8])> {
        let mut kept = Vec::new();
        for (role, member) in &self.result.members {
            let (key, value) = (self.result.at(&member.key), self.result.at(&member.value));
            let is_false = *role == Role::IsError && !self.result.is_error();
            if !matches!(role, Role::Meta | Role::Other) && !is_false {
                continue;
            }
            let aside = self.budget.left().saturating_sub(share);
            if self.take_aside(aside, key.len() + value.len(), || member_text(key, value)) {
                kept.push((key, value));
            }
        }
        kept
    }

    /// Spends on a text, if it fits when an amount is set aside. The text is only made when its length may fit.
    fn take_aside(&mut self, aside: u64, length: usize, text: impl FnOnce() -> String) -> bool {
        self.budget.set_aside(aside, |budget| length as u64 <= budget.bytes_max() && budget.take(&text()))
    }

    /// Fills the blocks and returns the structured content.
    fn content(&mut self, limit: u64) -> Option<String> {
        let note_aside = self.note_size().min(limit / 4);
        let mut structured = None;
        let mut object = None;
        if let Some(part) = self.result.structured {
            structured = self.whole_structured(part, limit);
            if structured.is_none() && !self.result.is_error() {
                object = self.structured_object(part as u32, note_aside);
                structured.clone_from(&object);
            }
        }
        let has_copy = self.result.blocks.iter().any(|block| block.part.is_none());
        if let Some(object) = object.take_if(|_| !has_copy) {
            self.blocks.push(text_block(&object));
        }
        let count = self.result.blocks.len();
        for (index, block) in self.result.blocks.iter().enumerate() {
            if block.part.is_none()
                && let Some(object) = object.take()
            {
                // Paid for together with the structured content.
                self.blocks.push(text_block(&object));
                continue;
            }
            let later = STUB_BYTES.saturating_mul((count - index - 1) as u64);
            let aside = note_aside + self.budget.of_bytes(later).min(self.budget.left() / 2);
            self.add(block, aside);
        }
        if self.result.structured.is_some() && structured.is_none() {
            self.note(" The structured content was left out.");
        } else {
            self.note("");
        }
        structured
    }

    /// The structured content as it is, when half of the limit is enough for it.
    fn whole_structured(&mut self, part: usize, limit: u64) -> Option<String> {
        let size = self.part(part)?.size();
        let value = &self.result.members.iter().find(|(role, _)| *role == Role::Structured)?.1.value;
        let aside = self.budget.left().saturating_sub(limit / 2);
        let length = usize::try_from(size).ok()?;
        let value = self.result.at(value);
        let fits = self.take_aside(aside, length, || member_text(b"\"structuredContent\"", value));
        fits.then(|| String::from_utf8_lossy(value).into_owned())
    }

    /// The first records of the structured content, paid for twice: as such and as a text block.
    fn structured_object(&mut self, part: u32, aside: u64) -> Option<String> {
        let others = self.result.blocks.iter().filter(|block| block.part.is_some()).count();
        let aside = aside + if others > 0 { self.budget.left() / 2 } else { 0 };
        let mut budget = self.budget.clone();
        budget.spend(r#","structuredContent":,{"type":"text","text":""}"#);
        let (reader, warning) = (&mut self.reader, self.warning);
        let object = budget.set_aside(aside, |budget| sections::cut(reader, part, budget, Copies::Two, warning))?;
        self.budget = budget;
        self.warned = true;
        Some(object)
    }

    /// Adds a block: whole, cut, named, or only counted.
    fn add(&mut self, block: &Block, aside: u64) {
        let raw = self.result.at(&block.span);
        if self.take_aside(aside, raw.len(), || format!(",{}", String::from_utf8_lossy(raw))) {
            self.blocks.push(String::from_utf8_lossy(raw).into_owned());
            return;
        }
        let Some(index) = block.part.or(self.result.structured) else { return };
        let Some(part) = self.part(index) else { return };
        let stub = stub(part);
        let text = matches!(part.kind, PartKind::Text | PartKind::Structured);
        let cut = if text { self.cut_text(index as u32, aside) } else { None };
        match cut {
            Some(text) => self.blocks.push(text_block(&text)),
            None if self.budget.take(&format!(",{stub}")) => self.blocks.push(stub),
            None => self.omitted += 1,
        }
    }

    /// As much of a text as fits into a block, and pays for that block.
    fn cut_text(&mut self, part: u32, aside: u64) -> Option<String> {
        let mut budget = self.budget.clone();
        budget.spend(r#",{"type":"text","text":""}"#);
        let is_error = self.result.is_error();
        let object = if is_error {
            None
        } else {
            let mut budget = budget.clone();
            let (reader, warning) = (&mut self.reader, self.warning);
            let object = budget.set_aside(aside, |budget| sections::cut(reader, part, budget, Copies::One, warning));
            object.map(|object| (object, budget))
        };
        if let Some((object, budget)) = object {
            self.budget = budget;
            self.warned = true;
            return Some(object);
        }
        let text = budget.set_aside(aside, |budget| self.plain(part, budget, is_error))?;
        self.budget = budget;
        Some(text)
    }

    /// The beginning of a text and the suffix; of an error also the end.
    fn plain(&mut self, part: u32, budget: &mut Budget, is_error: bool) -> Option<String> {
        if budget.left() == 0 {
            return None;
        }
        let suffix = budget.take_head(self.suffix, escaped);
        if suffix.len() < self.suffix.len() {
            return (!suffix.is_empty()).then(|| suffix.to_owned());
        }
        let tail_share = if is_error { budget.left() / 4 } else { 0 };
        let mut text = budget.set_aside(tail_share, |budget| self.head(part, budget));
        if self.part(part as usize).is_some_and(|part| part.size() == text.len() as u64) {
            return Some(text);
        }
        let end = self.tail(part, text.len() as u64, tail_share > 0);
        let tail = budget.take_tail(&end, escaped);
        text.push_str(suffix);
        text.push_str(tail);
        Some(text)
    }

    fn head(&mut self, part: u32, budget: &mut Budget) -> String {
        let mut head = String::new();
        while let Ok(slice) = self.reader.read_text(part, head.len() as u64, SLICE_BYTES) {
            let fits = !slice.is_empty() && budget.take(&escaped(&slice));
            if !fits {
                head.push_str(budget.take_head(&slice, escaped));
                break;
            }
            head.push_str(&slice);
        }
        head
    }

    /// At most a slice from the end of a text, and nothing from before `from`.
    fn tail(&mut self, part: u32, from: u64, wanted: bool) -> String {
        let size = self.part(part as usize).map_or(0, Part::size);
        if !wanted || from >= size {
            return String::new();
        }
        // A few attempts find the start of a character: none has more than four bytes.
        let start = from.max(size.saturating_sub(u64::from(SLICE_BYTES)));
        (0..4).find_map(|step| self.reader.read_text(part, start + step, SLICE_BYTES).ok()).unwrap_or_default()
    }

    /// Ends the content with the warning, unless it was given, and the number of blocks that are not even named.
    fn note(&mut self, more: &str) {
        let mut note = if self.warned { String::new() } else { self.warning.to_owned() };
        note.push_str(more);
        if self.omitted > 0 {
            note.push_str(&format!(" Content blocks omitted: {}.", self.omitted));
        }
        let note = text_block(note.trim());
        if note != text_block("") && self.budget.take(&format!(",{note}")) {
            self.blocks.push(note);
        }
    }

    /// What to set aside for the note.
    fn note_size(&self) -> u64 {
        self.budget.of_bytes(quoted(self.warning).len() as u64 + STUB_BYTES)
    }

    fn part(&self, index: usize) -> Option<&'a Part> {
        self.result.payload().parts().get(index)
    }
}

/// A text block in the place of another.
fn stub(part: &Part) -> String {
    let kind = match part.kind {
        PartKind::Text => "text",
        PartKind::Structured => "structured content",
        PartKind::Binary => "binary content",
        PartKind::Block => "content block",
        PartKind::Meta => "metadata",
    };
    let media_type = part.media_type.iter().flat_map(|media_type| media_type.chars().take(MEDIA_TYPE_CHARACTERS_MAX));
    let media_type: String = media_type.collect();
    text_block(&format!("[omitted: {kind} {media_type} of {} bytes]", part.size()))
}
