//! One written file, as the descriptor and the manifest see it.

use lro_json::unescaped_lossy;
use lro_json::write::string;
use lro_jsonl::Profile;
use lro_jsonl::page::List;
use lro_text::outline::Outline;

use crate::bindings::lro::filter::types::{FileKind, Form, Origin, SectionShape, Settings};
use crate::recipes::Recipe;

/// Characters shown from the beginning of a text; half as many are shown from the end.
const PREVIEW_CHARACTERS: usize = 160;

/// Entries shown of the outline of a text.
const OUTLINE_SHOWN: usize = 10;

/// Characters shown of the title of such an entry.
const TITLE_CHARACTERS: usize = 60;

/// Shortest and longest word, in characters, that an example searches for.
const WORD_CHARACTERS_MIN: usize = 4;
const WORD_CHARACTERS_MAX: usize = 20;

/// One written file.
pub(crate) struct Entry {
    pub(crate) file_name: String,
    pub(crate) section: String,
    pub(crate) kind: FileKind,
    pub(crate) parts: Vec<u32>,
    pub(crate) origin: Origin,
    /// How its records stand in a text.
    pub(crate) form: Option<Form>,
    /// What the form does not say: what is wrong with the text.
    pub(crate) remark: Option<String>,
    /// Name of the file with the original bytes.
    pub(crate) derived_from: Option<String>,
    pub(crate) pointer: Option<String>,
    pub(crate) shape: Option<SectionShape>,
    pub(crate) media_type: String,
    /// URI of the resource that it was embedded in.
    pub(crate) uri: Option<String>,
    pub(crate) records: u64,
    pub(crate) bytes: u64,
    pub(crate) tokens: u64,
    /// Index of the section's rule in the settings.
    pub(crate) rule: Option<usize>,
    pub(crate) profile: Option<Profile>,
    /// The first record, or its beginning.
    pub(crate) first: Vec<u8>,
    pub(crate) preview: Option<Preview>,
    pub(crate) outline: Option<TextOutline>,
    pub(crate) recipes: Vec<Recipe>,
}

impl Default for Entry {
    fn default() -> Self {
        Self {
            file_name: String::new(),
            section: String::new(),
            kind: FileKind::Records,
            parts: Vec::new(),
            origin: Origin::Content,
            form: None,
            remark: None,
            derived_from: None,
            pointer: None,
            shape: None,
            media_type: String::new(),
            uri: None,
            records: 0,
            bytes: 0,
            tokens: 0,
            rule: None,
            profile: None,
            first: Vec::new(),
            preview: None,
            outline: None,
            recipes: Vec::new(),
        }
    }
}

impl Entry {
    /// The JSON Schema of a line: the configured schema, else the inferred one.
    pub(crate) fn schema(&self, settings: &Settings) -> Option<String> {
        self.given_schema(settings).map(str::to_owned).or_else(|| self.profile.as_ref().map(Profile::schema_json))
    }

    /// A word that can be searched for: in a text, or in records that are strings.
    pub(crate) fn word(&self) -> Option<String> {
        let of_outline = self.outline.as_ref().and_then(|outline| outline.word.clone());
        let of_text = || self.preview.as_ref().and_then(|preview| word(&preview.head));
        of_outline.or_else(of_text).or_else(|| word(&first_string(&self.first)))
    }

    /// Whether it holds the small members of a document that found no room in the descriptor.
    pub(crate) fn is_rest(&self) -> bool {
        match self.origin {
            Origin::Content => self.pointer.is_none(),
            Origin::RecordsOfText => self.form.is_none(),
            Origin::Outline => false,
        }
    }

    /// The list of the result whose records it holds.
    pub(crate) fn list(&self) -> Option<List<'_>> {
        let is_list = self.kind == FileKind::Records && self.shape == Some(SectionShape::Elements);
        let pointer = self.pointer.as_deref().filter(|_| is_list)?;
        Some(List { pointer, records: self.records })
    }

    /// The configured schema, unless it is empty (`{}`).
    pub(crate) fn given_schema<'a>(&self, settings: &'a Settings) -> Option<&'a str> {
        let schema = settings.sections.get(self.rule?)?.schema.as_deref()?;
        let is_empty = lro_json::members(schema).is_ok_and(|members| members.is_empty());
        (!is_empty).then_some(schema)
    }
}

/// The beginning of a record that is a string; empty for others.
fn first_string(record: &[u8]) -> String {
    let text = record.strip_prefix(b"\"").map(unescaped_lossy).unwrap_or_default();
    String::from_utf8_lossy(&text).chars().take(PREVIEW_CHARACTERS).collect()
}

/// The longest word of a text that is worth a search, the first of equally long ones.
pub(crate) fn word(text: &str) -> Option<String> {
    let words = text.rsplit(|character: char| !character.is_alphabetic()).map(|word| (word.chars().count(), word));
    let worth = words.filter(|(length, _)| (WORD_CHARACTERS_MIN..=WORD_CHARACTERS_MAX).contains(length));
    worth.max_by_key(|(length, _)| *length).map(|(_, word)| word.to_owned())
}

/// Beginning and end of a text.
#[derive(Default)]
pub(crate) struct Preview {
    pub(crate) head: String,
    pub(crate) tail: String,
}

impl Preview {
    pub(crate) fn add(&mut self, slice: &str) {
        let missing = PREVIEW_CHARACTERS.saturating_sub(self.head.chars().count());
        self.head.extend(slice.chars().take(missing));
        let end = |text: &str| text.char_indices().rev().nth(PREVIEW_CHARACTERS / 2 - 1).map_or(0, |(at, _)| at);
        self.tail.push_str(&slice[end(slice)..]);
        self.tail.drain(..end(&self.tail));
    }
}

/// Fewest entries of an outline that is shown and becomes a file. A single one repeats the beginning of the text.
pub(crate) const OUTLINE_ENTRIES_MIN: usize = 2;

/// What a text is, and the entries that say most about it.
pub(crate) struct TextOutline {
    pub(crate) kind: String,
    /// As JSON strings.
    pub(crate) best: Vec<String>,
    /// A word of them that can be searched for.
    pub(crate) word: Option<String>,
}

impl TextOutline {
    pub(crate) fn of(outline: &Outline) -> Self {
        let shown = |entry: &lro_text::outline::Entry| {
            let title: String = entry.title.chars().take(TITLE_CHARACTERS).collect();
            let lines = if entry.lines == 1 { "line" } else { "lines" };
            string(&format!("{}: {title} ({} {lines})", entry.line, entry.lines))
        };
        let count = if outline.entries.len() < OUTLINE_ENTRIES_MIN { 0 } else { OUTLINE_SHOWN };
        let best = outline.best(count);
        let word = best.iter().find_map(|entry| word(&entry.title));
        Self { kind: outline.kind.clone(), best: best.into_iter().map(shown).collect(), word }
    }
}
