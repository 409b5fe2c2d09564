//! Cuts a result to a limit: whole records of JSON, the beginning of other text, a note in place of the rest.

use lro_payload::{Part, PartKind, PayloadReader, Size};

use super::budget::Budget;
use super::records::Copies;
use super::reply::size_beyond;
use super::result::{Block, Role, ToolResult};
use super::sections;
use super::text::{escaped, quoted, text_block};

/// Longest warning in a truncated result, in characters: 512. A longer one is cut.
pub const WARNING_CHARACTERS_MAX: usize = 512;

/// Bytes reserved for each block that follows, so that it can at least be named.
const STUB_BYTES: u64 = 160;

/// Longest media type in the note about an omitted block, in characters.
const MEDIA_TYPE_CHARACTERS_MAX: usize = 64;

/// A member other than content is kept when it takes no more than one part in this many of the limit.
const MEMBER_SHARE: u64 = 8;

/// Bytes of text read at a time.
const SLICE_BYTES: u32 = 64 << 10;

/// How often a result is cut. Pieces are counted one by one, and the tokens of the whole are a little more or less.
const CUTS_MAX: u32 = 8;

/// Options of a truncation.
#[derive(Clone, Copy, Debug)]
pub struct Truncation<'a> {
    /// Size of the whole message, escapes and envelope included.
    pub limit: Size,
    /// Text after the cut of a text that is not JSON. It is cut itself when it does not fit.
    pub suffix: &'a str,
    /// The reason for the cut; empty for a default text. At most [`WARNING_CHARACTERS_MAX`] characters of it are used.
    pub warning: &'a str,
}

/// Key of the structured content, with its quotation marks.
const STRUCTURED: &[u8] = b"\"structuredContent\"";

/// Replacement of structured content of which not even one record fits.
const NO_RECORDS: &str = r#"{"offloaded":false}"#;

/// Replacement of structured content that cannot stay whole.
#[derive(Clone, Copy)]
enum Form<'a> {
    /// An object with its first records, [`NO_RECORDS`] at least.
    Records,
    /// This JSON, valid by the same schema; without it, or when it does not fit, as [`Form::Error`].
    Short(Option<&'a [u8]>),
    /// None, and the result becomes a tool error.
    Error,
}

/// Builds the content of a cut result.
struct Cutter<'a> {
    result: &'a ToolResult,
    reader: PayloadReader,
    budget: Budget,
    suffix: &'a str,
    warning: &'a str,
    blocks: Vec<String>,
    /// The first records of the structured content, which a text block repeats.
    object: Option<String>,
    /// Whether one of the blocks has the warning.
    warned: bool,
    omitted: usize,
}

impl ToolResult {
    /// The message cut to a limit: valid JSON, with every block present or named.
    ///
    /// Blocks that fit stay unchanged, earlier ones first. A text that is JSON with records becomes an object:
    /// `offloaded` false, `warning`, under the JSON Pointer of each section its first whole records, under `omitted`
    /// the number of the others (bytes, for a single text), and small other members. Any other text keeps its
    /// beginning, and in an error also its end. Any other block is replaced by a note with its kind and size.
    ///
    /// Structured content that is too large is replaced by the same object, by `{"offloaded":false}` when even that
    /// does not fit, and dropped in an error; `_meta` and unknown members stay when they take no more than an eighth of
    /// the limit. The limit always holds, unless it is smaller than the envelope with an empty `content` and that
    /// replacement.
    pub fn truncated(&self, truncation: &Truncation<'_>) -> Vec<u8> {
        self.cut_within(truncation, Form::Records)
    }

    /// As [`ToolResult::truncated`], but structured content that is too large is replaced by `short`, shorter JSON of
    /// the same schema. Without it, or when it does not fit, the result becomes a tool error without structured
    /// content.
    pub fn truncated_within_schema(&self, truncation: &Truncation<'_>, short: Option<&[u8]>) -> Vec<u8> {
        self.cut_within(truncation, Form::Short(short))
    }

    /// Cuts again for a smaller limit while the whole has more tokens than its pieces.
    fn cut_within(&self, truncation: &Truncation<'_>, form: Form<'_>) -> Vec<u8> {
        let mut amount = truncation.limit.amount;
        for _ in 0..CUTS_MAX {
            let reply = self.cut(&Truncation { limit: Size { amount, ..truncation.limit }, ..*truncation }, form);
            match size_beyond(&reply, truncation.limit) {
                Some(size) if amount > 0 => amount = amount.saturating_sub(size - truncation.limit.amount),
                _ => return reply,
            }
        }
        self.cut(&Truncation { limit: Size { amount: 0, ..truncation.limit }, ..*truncation }, form)
    }

    fn cut(&self, truncation: &Truncation<'_>, form: Form<'_>) -> Vec<u8> {
        let mut cutter = Cutter::new(self, truncation);
        let mut members = self.result_type();
        for text in [self.reply_envelope().0, self.reply_envelope().1] {
            cutter.budget.spend(&String::from_utf8_lossy(text));
        }
        cutter.budget.spend(r#"{"content":[]}"#);
        for (key, value) in &members {
            cutter.budget.spend(&member_text(key, value));
        }
        if self.is_error() || matches!(form, Form::Error) {
            let value: &[u8] = b"true";
            cutter.budget.spend(&member_text(b"\"isError\"", value));
            members.push((b"\"isError\"", value));
        }
        members.extend(cutter.keep_members(truncation.limit.amount / MEMBER_SHARE));
        let structured = cutter.structured(truncation.limit.amount, form);
        let is_missing = self.structured.is_some() && structured.is_none() && !self.is_error();
        if is_missing && matches!(form, Form::Short(_)) {
            return self.cut(truncation, Form::Error);
        }
        cutter.content(truncation.limit.amount, structured.as_deref(), form);
        let content = format!("[{}]", cutter.blocks.join(","));
        members.push((b"\"content\"", content.as_bytes()));
        if let Some(structured) = &structured {
            members.push((STRUCTURED, structured.as_bytes()));
        }
        self.message_with(&members)
    }
}

fn member_text(key: &[u8], value: &[u8]) -> String {
    format!(",{}:{}", String::from_utf8_lossy(key), String::from_utf8_lossy(value))
}

impl<'a> Cutter<'a> {
    fn new(result: &'a ToolResult, truncation: &Truncation<'a>) -> Self {
        let warning = truncation.warning;
        let cut = warning.char_indices().nth(WARNING_CHARACTERS_MAX).map_or(warning.len(), |(end, _)| end);
        Self {
            result,
            reader: PayloadReader::new(result.payload().clone()),
            budget: Budget::new(truncation.limit),
            suffix: truncation.suffix,
            warning: warning.get(..cut).unwrap_or_default(),
            blocks: Vec::new(),
            object: None,
            warned: false,
            omitted: 0,
        }
    }

    /// The members besides content that stay unchanged. Leaves enough of the budget for [`NO_RECORDS`].
    fn keep_members(&mut self, share: u64) -> Vec<(&'a [u8], &'a [u8])> {
        let mut kept = Vec::new();
        let least = match self.result.structured {
            Some(_) => self.budget.of_bytes(member_text(STRUCTURED, NO_RECORDS.as_bytes()).len() as u64),
            None => 0,
        };
        for (role, member) in &self.result.members {
            let (key, value) = (self.result.at(&member.key), self.result.at(&member.value));
            let is_false = *role == Role::IsError && !self.result.is_error();
            if !matches!(role, Role::Meta | Role::Cursor | Role::Other) && !is_false {
                continue;
            }
            let reserve = self.budget.left().saturating_sub(share).max(least);
            if self.take_with_reserve(reserve, key.len() + value.len(), || member_text(key, value)) {
                kept.push((key, value));
            }
        }
        kept
    }

    /// Spends on a text if it fits beside a reserve. Makes the text only when its length may fit.
    fn take_with_reserve(&mut self, reserve: u64, length: usize, text: impl FnOnce() -> String) -> bool {
        self.budget.with_reserve(reserve, |budget| length as u64 <= budget.bytes_max() && budget.take(&text()))
    }

    /// The structured content of the reply.
    fn structured(&mut self, limit: u64, form: Form<'_>) -> Option<String> {
        let part = self.result.structured?;
        if matches!(form, Form::Error) {
            return None;
        }
        let whole = self.whole_structured(limit);
        if whole.is_some() || self.result.is_error() {
            return whole;
        }
        if let Form::Short(short) = form {
            return self.half_for_structured(short?, limit);
        }
        let note_reserve = self.note_size().min(limit / 4);
        self.object = self.structured_object(part as u32, note_reserve);
        let object = self.object.clone();
        if object.is_none() {
            self.budget.spend(&member_text(STRUCTURED, NO_RECORDS.as_bytes()));
        }
        Some(object.unwrap_or_else(|| NO_RECORDS.to_owned()))
    }

    /// Adds the blocks.
    fn content(&mut self, limit: u64, structured: Option<&str>, form: Form<'_>) {
        let note_reserve = self.note_size().min(limit / 4);
        let has_copy = self.result.blocks.iter().any(|block| block.part.is_none());
        if let Some(object) = self.object.take_if(|_| !has_copy) {
            self.blocks.push(text_block(&object));
        }
        if let (Some(part), Form::Error, false) = (self.result.structured, form, has_copy) {
            let others = if self.result.blocks.is_empty() { 0 } else { self.budget.left() / 2 };
            let text = self.cut_text(part as u32, note_reserve + others);
            self.blocks.extend(text.map(|text| text_block(&text)));
        }
        let count = self.result.blocks.len();
        let object = self.object.take();
        let mut unsaid = object.as_deref();
        for (index, block) in self.result.blocks.iter().enumerate() {
            if block.part.is_none() && object.is_some() {
                // Already spent together with the structured content, which all such blocks repeat.
                self.blocks.extend(unsaid.take().map(text_block));
                continue;
            }
            let later = STUB_BYTES.saturating_mul((count - index - 1) as u64);
            let reserve = note_reserve + self.budget.of_bytes(later).min(self.budget.left() / 2);
            self.add(block, reserve);
        }
        let is_left_out = structured.is_none_or(|structured| structured == NO_RECORDS);
        if self.result.structured.is_some() && is_left_out {
            self.note(" The structured content was left out.");
        } else {
            self.note("");
        }
    }

    /// The unchanged structured content, if it fits in half of the limit.
    fn whole_structured(&mut self, limit: u64) -> Option<String> {
        let (_, member) = self.result.members.iter().find(|(role, _)| *role == Role::Structured)?;
        self.half_for_structured(self.result.at(&member.value), limit)
    }

    /// The value as structured content, if it fits in half of the limit.
    fn half_for_structured(&mut self, value: &[u8], limit: u64) -> Option<String> {
        let reserve = self.budget.left().saturating_sub(limit / 2);
        let fits = self.take_with_reserve(reserve, value.len(), || member_text(STRUCTURED, value));
        fits.then(|| String::from_utf8_lossy(value).into_owned())
    }

    /// The first records of the structured content, spent twice: as such and as a text block.
    fn structured_object(&mut self, part: u32, reserve: u64) -> Option<String> {
        let others = self.result.blocks.iter().filter(|block| block.part.is_some()).count();
        let reserve = reserve + if others > 0 { self.budget.left() / 2 } else { 0 };
        let mut budget = self.budget.clone();
        budget.spend(r#","structuredContent":,{"type":"text","text":""}"#);
        let (reader, warning) = (&mut self.reader, self.warning);
        let object =
            budget.with_reserve(reserve, |budget| sections::cut(reader, part, budget, Copies::Two, warning))?;
        self.budget = budget;
        self.warned = true;
        Some(object)
    }

    /// Adds a block whole, cut or named, or only counts it.
    fn add(&mut self, block: &Block, reserve: u64) {
        let raw = self.result.at(&block.span);
        if self.take_with_reserve(reserve, raw.len(), || format!(",{}", String::from_utf8_lossy(raw))) {
            self.blocks.push(String::from_utf8_lossy(raw).into_owned());
            return;
        }
        let Some(index) = block.part.or(self.result.structured) else { return };
        let Some(part) = self.part(index) else { return };
        let stub = stub(part);
        let text = matches!(part.kind, PartKind::Text | PartKind::Structured);
        let cut = if text { self.cut_text(index as u32, reserve) } else { None };
        match cut {
            Some(text) => self.blocks.push(text_block(&text)),
            None if self.budget.take(&format!(",{stub}")) => self.blocks.push(stub),
            None => self.omitted += 1,
        }
    }

    /// The prefix of a text that fits in a block; spends on that block.
    fn cut_text(&mut self, part: u32, reserve: u64) -> Option<String> {
        let mut budget = self.budget.clone();
        budget.spend(r#",{"type":"text","text":""}"#);
        let is_error = self.result.is_error();
        let object = if is_error {
            None
        } else {
            let mut budget = budget.clone();
            let (reader, warning) = (&mut self.reader, self.warning);
            let object =
                budget.with_reserve(reserve, |budget| sections::cut(reader, part, budget, Copies::One, warning));
            object.map(|object| (object, budget))
        };
        if let Some((object, budget)) = object {
            self.budget = budget;
            self.warned = true;
            return Some(object);
        }
        let text = budget.with_reserve(reserve, |budget| self.plain(part, budget, is_error))?;
        self.budget = budget;
        Some(text)
    }

    /// The beginning of a text and the suffix; in an error also the end.
    fn plain(&mut self, part: u32, budget: &mut Budget, is_error: bool) -> Option<String> {
        if budget.left() == 0 {
            return None;
        }
        let suffix = budget.take_head(self.suffix, escaped);
        if suffix.len() < self.suffix.len() {
            return (!suffix.is_empty()).then(|| suffix.to_owned());
        }
        let tail_share = if is_error { budget.left() / 4 } else { 0 };
        let mut text = budget.with_reserve(tail_share, |budget| self.head(part, budget));
        if self.part(part as usize).is_some_and(|part| part.size() == text.len() as u64) {
            return Some(text);
        }
        let end = self.tail(part, text.len() as u64, tail_share > 0);
        text.push_str(suffix);
        // The suffix stands on a line of its own, because the end may begin in the middle of a word.
        if !end.is_empty() && budget.take(&escaped("\n")) {
            let tail = budget.take_tail(&end, escaped);
            text.extend((!tail.is_empty()).then_some('\n'));
            text.push_str(tail);
        }
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

    /// Up to a slice from the end of a text, and nothing before `from`.
    fn tail(&mut self, part: u32, from: u64, wanted: bool) -> String {
        let size = self.part(part as usize).map_or(0, Part::size);
        if !wanted || from >= size {
            return String::new();
        }
        // A few attempts find the start of a character: none has more than four bytes.
        let start = from.max(size.saturating_sub(u64::from(SLICE_BYTES)));
        (0..4).find_map(|step| self.reader.read_text(part, start + step, SLICE_BYTES).ok()).unwrap_or_default()
    }

    /// Ends the content with the warning, unless a block has it, and the number of blocks that are not named.
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

    /// The reserve for the note.
    fn note_size(&self) -> u64 {
        self.budget.of_bytes(quoted(self.warning).len() as u64 + STUB_BYTES)
    }

    fn part(&self, index: usize) -> Option<&'a Part> {
        self.result.payload().parts().get(index)
    }
}

/// The text block that names an omitted block.
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
