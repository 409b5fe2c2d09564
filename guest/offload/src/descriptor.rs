//! The descriptor: what the model sees in place of the result.
//!
//! The standard level stays under 600 estimated tokens whatever the data: pieces are added in order of importance while
//! tokens are left, and a piece that does not fit is omitted as a whole. Kept values and the shown path do not count.

use lro_json::write::{Object, array, string};
use lro_jsonl::page::Page;
use lro_jsonl::{Field, Profile, tokens};

use crate::arguments::Target;
use crate::bindings::lro::filter::types::{
    Abilities, Call, DescriptorDialect, DescriptorLevel, FileKind, Origin, SummaryKind,
};
use crate::encoded;
use crate::entry::Entry;
use crate::fields::{display_path, is_spelled_out, pointer, type_names};
use crate::header::level_name;
use crate::names::Names;
use crate::recipes::Recipe;
use crate::sample::shortened;
use crate::summary::{constant_paths, counts, distinct, range, top_values};

/// Most estimated tokens of the data in a descriptor at the standard level; its fixed text takes fewer than 60 more.
const STANDARD_TOKENS: u64 = 540;

/// Longest sample of a record at the standard level, in bytes.
const SAMPLE_BYTES_MAX: usize = 600;

/// Bytes of JSON for an estimated token.
const BYTES_A_TOKEN: usize = 3;

/// Most recipes of one file, besides configured ones, below the level full.
const RECIPES_SHOWN: usize = 3;

/// Most files listed at the levels below full; the others are counted here and listed in the manifest.
const FILES_SHOWN: usize = 4;

/// Names that a kept value cannot have at the top level.
const RESERVED: [&str; 16] = [
    "offloaded",
    "handle",
    "files",
    "more_files",
    "paging",
    "inline",
    "summary",
    "schemas",
    "samples",
    "recipes",
    "jq_recipes",
    "guidance",
    "file_path",
    "line_schema",
    "integrity",
    "warning",
];

/// Everything a descriptor can show.
#[derive(Default)]
pub(crate) struct Contents {
    pub(crate) entries: Vec<Entry>,
    /// Configured inline keys and their values, in the configured order.
    pub(crate) kept: Vec<(String, String)>,
    /// Other small members.
    pub(crate) inline: Vec<(String, String)>,
    pub(crate) notes: Vec<String>,
    /// Whether the reply keeps parts of the result as they are.
    pub(crate) keeps_parts: bool,
    /// The section with the cursor of the tool's next page.
    pub(crate) cursor: Option<String>,
    /// What each document says of the list that it is a page of.
    pub(crate) pages: Vec<Page>,
}

/// The descriptor as a JSON object, at the configured level or, where that would exceed the limit, at a lower one.
pub(crate) fn content(call: &Call, contents: &Contents) -> String {
    let levels = [DescriptorLevel::Full, DescriptorLevel::Standard, DescriptorLevel::Pointer];
    let from = levels.iter().position(|level| *level == call.settings.level).unwrap_or(1);
    let limit = call.settings.descriptor_limit as usize;
    let mut text = String::new();
    for level in levels.into_iter().skip(from) {
        text = Builder::new(call, contents, level).build();
        if text.chars().count() <= limit {
            break;
        }
    }
    text
}

/// The reference to a file for its reader: its path for a shell, else its name, which the tools accept as a section.
pub(crate) fn shown_file(call: &Call, file_name: &str) -> String {
    if call.reader.abilities.contains(Abilities::SHELL) {
        format!("{}/{file_name}", call.shown_path)
    } else {
        file_name.to_owned()
    }
}

struct Builder<'a> {
    call: &'a Call,
    contents: &'a Contents,
    level: DescriptorLevel,
    page: Page,
    /// Estimated tokens left.
    tokens_left: u64,
}

/// The data-dependent pieces that fit.
#[derive(Default)]
struct Pieces {
    summaries: Vec<Object>,
    schemas: Vec<Option<String>>,
    samples: Vec<Option<String>>,
    recipes: Vec<Recipe>,
}

impl<'a> Builder<'a> {
    fn new(call: &'a Call, contents: &'a Contents, level: DescriptorLevel) -> Self {
        let tokens_left = if level == DescriptorLevel::Full { u64::MAX } else { STANDARD_TOKENS };
        Self { call, contents, level, page: Page::of_all(contents.pages.clone()), tokens_left }
    }

    fn build(mut self) -> String {
        let shown = self.shown();
        let mut object = Object::default();
        let has_recipes = shown.iter().any(|entry| !entry.recipes.is_empty());
        // Room for the longer text: which recipes find room is not known yet.
        self.take(&self.guidance(&shown, has_recipes));
        self.head(&mut object, &shown);
        let pieces = self.pieces(&shown);
        match self.call.settings.dialect {
            DescriptorDialect::Sections => self.sections_dialect(&mut object, &shown, &pieces),
            DescriptorDialect::Specification => self.specification_dialect(&mut object, &shown, &pieces),
        }
        if self.level != DescriptorLevel::Pointer {
            object.member("guidance", &string(&self.guidance(&shown, !pieces.recipes.is_empty())));
        }
        object.finish()
    }

    /// The listed entries: all at the full level, else the largest, in the order they were written.
    fn shown(&self) -> Vec<&'a Entry> {
        let entries = &self.contents.entries;
        if self.level == DescriptorLevel::Full || entries.len() <= FILES_SHOWN {
            return entries.iter().collect();
        }
        let mut sizes: Vec<u64> = entries.iter().map(|entry| entry.bytes).collect();
        sizes.sort_unstable_by(|a, b| b.cmp(a));
        let least = sizes.get(FILES_SHOWN - 1).copied().unwrap_or(0);
        entries.iter().filter(|entry| entry.bytes >= least).take(FILES_SHOWN).collect()
    }

    /// Writes the marker, the handle, the files, and the inline values.
    fn head(&mut self, object: &mut Object, shown: &[&Entry]) {
        object.member("offloaded", "true");
        let abilities = self.call.reader.abilities;
        if !abilities.contains(Abilities::SHELL) || abilities.intersects(Abilities::EXTRACT_TOOL | Abilities::READ_TOOL)
        {
            object.member("handle", &string(&self.call.id));
        }
        if self.call.settings.dialect == DescriptorDialect::Specification
            && let Some(main) = main_entry(shown)
        {
            object.member("file_path", &string(&self.path(main)));
        }
        let mut files = Object::default();
        for entry in shown {
            files.member(&entry.section, &string(&self.path(entry)));
            self.take(&entry.section);
            self.take(&entry.file_name);
        }
        object.member("files", &files.finish());
        let more = self.contents.entries.len() - shown.len();
        if more > 0 {
            object.member("more_files", &more.to_string());
        }
        if let Some(page) = self.page.json() {
            self.take(&page);
            object.member("paging", &page);
        }
        let (mut names, mut clashes) = (Names::default(), Object::default());
        let mut clashing = Names::default();
        for name in RESERVED {
            names.unique(name);
        }
        for (key, value) in &self.contents.kept {
            add_value(object, &mut clashes, &mut names, &mut clashing, key, value);
        }
        for (key, value) in &self.contents.inline {
            self.take(key);
            self.take(value);
            add_value(object, &mut clashes, &mut names, &mut clashing, key, value);
        }
        if !clashes.is_empty() {
            object.member("inline", &clashes.finish());
        }
    }

    fn path(&self, entry: &Entry) -> String {
        shown_file(self.call, &entry.file_name)
    }

    /// Spends tokens on a text if it fits; returns whether it does.
    fn fits(&mut self, text: &str) -> bool {
        let cost = tokens(text) + 1;
        let fits = cost <= self.tokens_left;
        if fits {
            self.tokens_left -= cost;
        }
        fits
    }

    /// Spends tokens on a text that is always shown.
    fn take(&mut self, text: &str) {
        self.tokens_left = self.tokens_left.saturating_sub(tokens(text) + 1);
    }

    fn pieces(&mut self, shown: &[&Entry]) -> Pieces {
        let mut pieces = Pieces::default();
        for entry in shown {
            let mut summary = Object::default();
            counts(&mut summary, entry);
            self.take(&summary.finish());
            pieces.summaries.push(summary);
        }
        if self.level == DescriptorLevel::Pointer {
            return pieces;
        }
        let mut order: Vec<usize> = (0..shown.len()).collect();
        // Records say more than the text that they were read from.
        let rank = |entry: &&Entry| (entry.form.is_some(), entry.bytes);
        order.sort_by_key(|&index| std::cmp::Reverse(shown.get(index).map(rank)));
        // Half of the tokens are left for samples, recipes and summaries.
        let reserve = self.tokens_left / 2;
        pieces.schemas = self.each(shown, &order, |builder, entry, is_last| {
            let room = builder.tokens_left.saturating_sub(reserve);
            builder.schema(entry, if is_last { room } else { room / 2 + room / 4 })
        });
        pieces.samples = self.each(shown, &order, |builder, entry, _| builder.sample(entry));
        pieces.recipes = self.recipes(shown, &order);
        for &index in &order {
            if let (Some(entry), Some(summary)) = (shown.get(index), pieces.summaries.get_mut(index)) {
                self.details(summary, entry);
            }
        }
        pieces
    }

    /// A piece of each entry, made in this order; `make` gets whether an entry is the last.
    fn each(
        &mut self,
        shown: &[&Entry],
        order: &[usize],
        make: impl Fn(&mut Self, &Entry, bool) -> Option<String>,
    ) -> Vec<Option<String>> {
        let mut pieces = vec![None; shown.len()];
        for (number, &index) in (1..).zip(order) {
            if let (Some(entry), Some(piece)) = (shown.get(index), pieces.get_mut(index)) {
                *piece = make(self, entry, number == order.len());
            }
        }
        pieces
    }

    /// At the full level the JSON Schema, else a short configured schema, else the fields and their types while tokens of
    /// `room` are left. Those whose value is the same in all records are left out.
    fn schema(&mut self, entry: &Entry, room: u64) -> Option<String> {
        if self.level == DescriptorLevel::Full {
            return entry.schema(&self.call.settings);
        }
        if let Some(given) = entry.given_schema(&self.call.settings)
            && tokens(given) < room
        {
            self.take(given);
            return Some(given.to_owned());
        }
        let profile = entry.profile.as_ref()?;
        let all: Vec<Field<'_>> = profile.all_fields().collect();
        // What is in a container follows it.
        let following = all.iter().skip(1).map(Some).chain([None]);
        let is_listed = |(field, next): &(&Field<'_>, Option<&Field<'_>>)| {
            !is_spelled_out(field, *next) && field.constant(profile.records()).is_none()
        };
        let mut listed: Vec<&Field<'_>> = all.iter().zip(following).filter(is_listed).map(|(field, _)| field).collect();
        // The fields of the record before those of its members.
        listed.sort_by_key(|field| field.path.iter().map(|key| 1 + key.arrays).sum::<usize>());
        let least = self.tokens_left.saturating_sub(room);
        let mut fields = Object::default();
        for field in listed {
            let name = display_path(field);
            let types = string(&type_names(field));
            if self.tokens_left <= least || !self.fits(&format!("{name}{types}")) {
                fields.member("…", "\"more\"");
                break;
            }
            fields.member(&name, &types);
        }
        (!fields.is_empty()).then(|| fields.finish())
    }

    /// The first record, shortened, in at most a third of the tokens that are left.
    fn sample(&mut self, entry: &Entry) -> Option<String> {
        if entry.is_rest() || entry.origin == Origin::Outline || entry.first.is_empty() {
            return None;
        }
        let constants = entry.profile.as_ref().map(constant_paths).unwrap_or_default();
        let room = usize::try_from(self.tokens_left / 3).unwrap_or(usize::MAX).saturating_mul(BYTES_A_TOKEN);
        let sample = shortened(&entry.first, room.min(SAMPLE_BYTES_MAX), &|path| constants.contains(path))?;
        self.fits(&sample).then_some(sample)
    }

    /// The recipes that fit, as shell commands, else as arguments of the tool `lro_extract`.
    fn recipes(&mut self, shown: &[&Entry], order: &[usize]) -> Vec<Recipe> {
        let abilities = self.call.reader.abilities;
        let (has_shell, has_tool) = (abilities.contains(Abilities::SHELL), abilities.contains(Abilities::EXTRACT_TOOL));
        let mut chosen = Vec::new();
        for &index in order {
            let Some(entry) = shown.get(index).filter(|entry| self.says_all_of(entry)) else { continue };
            let mut own_left = if self.level == DescriptorLevel::Full { usize::MAX } else { RECIPES_SHOWN };
            for recipe in &entry.recipes {
                let command = match recipe.call(self.target(entry)) {
                    // A reader with the tool can run by name whatever is named, but for a configured command.
                    None if has_tool && !(has_shell && recipe.configured) => continue,
                    _ if has_shell => recipe.command.clone(),
                    Some(call) if has_tool => call,
                    _ => continue,
                };
                if !recipe.configured {
                    let Some(left) = own_left.checked_sub(1) else { break };
                    own_left = left;
                }
                let cost = format!("{}{}", recipe.name, command.replace(self.call.shown_path.as_str(), ""));
                if self.fits(&cost) {
                    chosen.push(Recipe { command, ..recipe.clone() });
                }
            }
        }
        chosen
    }

    /// Where a question about an entry goes.
    fn target<'b>(&'b self, entry: &'b Entry) -> Target<'b> {
        let is_alone = self.contents.entries.len() == 1;
        Target { handle: &self.call.id, section: Some(entry.section.as_str()).filter(|_| !is_alone) }
    }

    /// Whether recipes and details of an entry may be shown. Below the full level, an outline shows only what it is.
    fn says_all_of(&self, entry: &Entry) -> bool {
        entry.origin != Origin::Outline || self.level == DescriptorLevel::Full
    }

    /// Adds the details of a summary besides the count.
    fn details(&mut self, summary: &mut Object, entry: &Entry) {
        if !self.says_all_of(entry) {
            return;
        }
        if let Some(outline) = &entry.outline {
            let best: Vec<&String> = outline.best.iter().take_while(|entry| self.fits(entry)).collect();
            if !best.is_empty() {
                summary.member("outline", &array(best));
            }
        }
        if let Some(preview) = &entry.preview {
            for (key, text) in [("head", &preview.head), ("tail", &preview.tail)] {
                let text = string(text);
                if self.fits(&text) {
                    summary.member(key, &text);
                }
            }
        }
        self.encoded(summary, entry);
        let Some(profile) = &entry.profile else { return };
        let rules =
            entry.rule.and_then(|rule| self.call.settings.sections.get(rule)).map(|rule| rule.summaries.as_slice());
        let mut names = Names::default();
        for name in ["count", "uri", "form", "base64", "constants"] {
            names.unique(name);
        }
        let constants = self.constants(profile);
        if !constants.is_empty() {
            summary.member("constants", &constants.finish());
        }
        for field in profile.fields().filter(|field| field.constant(profile.records()).is_none()) {
            let pointer = pointer(&field);
            let wanted = |kind| match rules {
                Some(rules) if !rules.is_empty() => rules.iter().any(|rule| rule.kind == kind && rule.field == pointer),
                _ => kind != SummaryKind::Distinct || self.level == DescriptorLevel::Full,
            };
            let mut detail = Object::default();
            if wanted(SummaryKind::Range) {
                range(&mut detail, &field);
            }
            if wanted(SummaryKind::TopValues) {
                top_values(&mut detail, &field);
            }
            if wanted(SummaryKind::Distinct) {
                distinct(&mut detail, &field);
            }
            let (name, detail) = (display_path(&field), detail);
            if !detail.is_empty() && self.fits(&format!("{name}{}", detail.finish())) {
                summary.member(&names.unique(&name), &detail.finish());
            }
        }
    }

    /// Adds the fields that are bytes in base64, as the first record shows.
    fn encoded(&mut self, summary: &mut Object, entry: &Entry) {
        let mut fields = Object::default();
        if entry.kind == FileKind::Records {
            for (field, media_type) in encoded::fields(&entry.first) {
                if self.fits(&format!("{field}{media_type}")) {
                    fields.member(&field, &string(media_type));
                }
            }
        }
        if !fields.is_empty() {
            summary.member("base64", &fields.finish());
        }
    }

    /// The fields whose value is the same in all records, while they fit.
    fn constants(&mut self, profile: &Profile) -> Object {
        let mut constants = Object::default();
        for field in profile.fields() {
            let Some(value) = field.constant(profile.records()) else { continue };
            let name = display_path(&field);
            if !self.fits(&format!("{name}{value}")) {
                constants.member("…", "\"more\"");
                break;
            }
            constants.member(&name, value);
        }
        constants
    }

    fn sections_dialect(&self, object: &mut Object, shown: &[&Entry], pieces: &Pieces) {
        let mut summary = Object::default();
        for (entry, piece) in shown.iter().zip(&pieces.summaries) {
            summary.member(&entry.section, &piece.finish());
        }
        object.member("summary", &summary.finish());
        if pieces.schemas.is_empty() {
            return;
        }
        let mut schemas = Object::default();
        for (entry, schema) in shown.iter().zip(&pieces.schemas) {
            if let Some(schema) = schema {
                schemas.member(&entry.section, schema);
            }
        }
        object.member("schemas", &schemas.finish());
        let mut samples = Object::default();
        for (entry, sample) in shown.iter().zip(&pieces.samples) {
            if let Some(sample) = sample {
                samples.member(&entry.section, sample);
            }
        }
        if !samples.is_empty() {
            object.member("samples", &samples.finish());
        }
        let mut recipes = Object::default();
        for recipe in &pieces.recipes {
            recipes.member(&recipe.name, &self.shown_recipe(recipe));
        }
        if !recipes.is_empty() {
            object.member(self.recipes_key(), &recipes.finish());
        }
    }

    fn specification_dialect(&self, object: &mut Object, shown: &[&Entry], pieces: &Pieces) {
        let mut summary = Object::default();
        let saved: u64 = self.contents.entries.iter().map(|entry| entry.tokens).sum();
        let main = main_entry(shown);
        summary
            .member("count", &main.map_or(0, |entry| entry.records).to_string())
            .member("estimated_tokens", &saved.to_string())
            .member("operation", &string(&self.call.tool))
            .member("detail", &string(level_name(self.level)));
        for (entry, piece) in shown.iter().zip(&pieces.summaries) {
            summary.member(&entry.section, &piece.finish());
        }
        object.member("summary", &summary.finish());
        let schema =
            shown.iter().zip(&pieces.schemas).find(|(entry, _)| main.is_some_and(|main| std::ptr::eq(main, **entry)));
        if let Some((_, Some(schema))) = schema {
            object.member("line_schema", schema);
        }
        let commands = pieces.recipes.iter().map(|recipe| {
            let mut command = Object::default();
            let key = if self.has_shell() { "command" } else { "arguments" };
            command.member("description", &string(&recipe.description)).member(key, &self.shown_recipe(recipe));
            command.finish()
        });
        object.member(self.recipes_key(), &array(commands));
    }

    fn has_shell(&self) -> bool {
        self.call.reader.abilities.contains(Abilities::SHELL)
    }

    /// Commands for a shell use jq; calls of a tool do not.
    fn recipes_key(&self) -> &'static str {
        if self.has_shell() { "jq_recipes" } else { "recipes" }
    }

    /// A command as a string, the arguments of a call as they are.
    fn shown_recipe(&self, recipe: &Recipe) -> String {
        if self.has_shell() { string(&recipe.command) } else { recipe.command.clone() }
    }

    /// Advice that names only abilities of the reader that work on these files, with a call that answers.
    fn guidance(&self, shown: &[&Entry], has_recipes: bool) -> String {
        let abilities = self.call.reader.abilities;
        let is_asked = |entry: &Entry| matches!(entry.kind, FileKind::Records | FileKind::Text);
        let extracts = abilities.contains(Abilities::EXTRACT_TOOL) && self.contents.entries.iter().any(is_asked);
        let mut text = String::from(match self.contents.keeps_parts {
            true => "What is not shown here is in files.",
            false => "The result was too large and is in files.",
        });
        if extracts {
            text.push_str(" Answer with one call");
            if let Some(call) = main_entry(shown).and_then(|entry| self.target(entry).example(entry)) {
                text.push_str(&format!(", such as lro_extract {call}"));
            }
            text.push('.');
        }
        if abilities.contains(Abilities::READ_TOOL) {
            text.push_str(if extracts { " Page with `lro_read`." } else { " Page with `lro_read` on the handle." });
        }
        if self.has_shell() {
            if shown.iter().any(|entry| entry.kind == FileKind::Records) {
                text.push_str(" Line 1 of a .jsonl file is a header, each later line one record.");
            }
            let filter = if has_recipes { "Run a recipe or your own filter" } else { "Run a filter" };
            text.push_str(&format!(" {filter}; do not read a file whole."));
        }
        if !extracts && !abilities.intersects(Abilities::READ_TOOL | Abilities::SHELL) {
            text.push_str(" Nothing here can read them: tell the user the handle, or ask for less.");
        }
        if let Some(sentence) = self.page.sentence() {
            text.push_str(&format!(" {sentence}"));
        }
        if let Some(section) = self.contents.cursor.as_ref().filter(|_| self.page.next.is_none()) {
            text.push_str(&format!(" The tool has more pages: their cursor is in `{section}`."));
        }
        text
    }
}

/// The entry that a dialect with a single file shows.
fn main_entry<'a>(shown: &[&'a Entry]) -> Option<&'a Entry> {
    // Lines of a text are not records, and neither an outline nor the small members are the result.
    let is_data = |entry: &Entry| entry.kind == FileKind::Records && !entry.is_rest();
    let rank = |entry: &&Entry| {
        (entry.origin != Origin::Outline, is_data(entry), entry.form.is_some(), entry.records, entry.bytes)
    };
    shown.iter().copied().max_by_key(rank)
}

/// Adds a kept value under its key, or under `inline` when the key is taken.
fn add_value(
    object: &mut Object,
    clashes: &mut Object,
    names: &mut Names,
    clashing: &mut Names,
    key: &str,
    value: &str,
) {
    if names.is_free(key) {
        object.member(&names.unique(key), value);
    } else {
        clashes.member(&clashing.unique(key), value);
    }
}
