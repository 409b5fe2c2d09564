//! Long descriptions of tools: shortened in a list, and read back whole.

use lro_host::mcp::{self, ListedTool, ProtocolError, READ_TOOL};
use lro_host::read::{PAGE_BYTES_DEFAULT, PAGE_BYTES_MIN};
use serde::Deserialize;
use serde_json::json;

use super::Session;
use super::ceiling::SHORTER_MAX;
use super::resource::text_resource;
use crate::settings::{Size, Tokenizer};
use crate::tenants::caches::ToolFact;

/// Beginning of the URIs of whole descriptions. The percent-encoded name of the tool follows. They are handles of
/// [`READ_TOOL`], too.
pub(super) const URI: &str = "lro://tools/";

/// Template of these URIs.
pub(super) const TEMPLATE: &str = r#"{"uriTemplate":"lro://tools/{tool}","name":"lro-tool","title":"Description of a tool","description":"The whole description of a tool that was listed with a shorter one","mimeType":"text/plain"}"#;

/// Arguments of [`READ_TOOL`] about a description.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Asked {
    handle: String,
    /// Byte of the text where the page begins, in decimal digits.
    cursor: Option<String>,
    bytes: Option<u32>,
}

/// The arguments of a call of [`READ_TOOL`] about a description, or why they cannot be read; `None` for another handle.
pub(super) fn asked(arguments: &str) -> Option<Result<Asked, String>> {
    #[derive(Deserialize)]
    struct Handle {
        handle: String,
    }
    let Handle { handle } = serde_json::from_str(arguments).ok()?;
    handle.starts_with(URI).then(|| serde_json::from_str(arguments).map_err(|error| error.to_string()))
}

/// Whether the argument `handle` is a description that the gateway has.
pub(super) fn knows(session: &Session, arguments: &str) -> bool {
    matches!(asked(arguments), Some(Ok(asked)) if session.whole_description(&asked.handle).is_some())
}

/// The answer to a call of [`READ_TOOL`] about a description: a tool result as JSON, with at most so many bytes of text.
pub(super) fn page(session: &Session, asked: &Result<Asked, String>, bytes_max: u32) -> String {
    let text = asked.as_ref().map_err(String::clone).and_then(|asked| {
        let whole = session.whole_description(&asked.handle).ok_or_else(|| unknown(&asked.handle))?;
        page_text(&whole, asked, bytes_max)
    });
    match text {
        Ok(text) => format!(r#"{{"content":[{}]}}"#, mcp::text_block(&text)),
        Err(reason) => mcp::tool_error(&reason),
    }
}

/// The result of `resources/read` of a description, as JSON.
///
/// # Errors
/// The gateway does not have it.
pub(super) fn resource(session: &Session, uri: &str, modern: bool) -> Result<String, ProtocolError> {
    let text = session.whole_description(uri);
    let text = text.ok_or_else(|| ProtocolError::missing_resource(unknown(uri), modern))?;
    Ok(text_resource(uri, "text/plain", &text, modern))
}

impl Session {
    /// The size above which descriptions are shortened; `None` when they are not, or could not be read back.
    pub(super) fn description_limit(&self) -> Option<Size> {
        let rules = &self.rules;
        let is_readable = rules.announces() && !rules.has_name_conflict() && self.allows(READ_TOOL);
        self.limit(rules.config.description_limit.filter(|_| is_readable))
    }

    /// Keeps the descriptions that are too long.
    pub(super) fn keep_descriptions(&self, listed: &[ListedTool<'_>], limit: Size) {
        let tokenizer = self.client().tokenizer;
        let long = listed.iter().filter(|tool| self.allows(&tool.name)).filter_map(|tool| {
            let text = tool.description.as_ref().filter(|text| tokenizer.exceeds(text.as_bytes(), limit))?;
            Some(((ToolFact::Description, tool.name.as_ref().to_owned()), text.as_bytes()))
        });
        self.rules.caches.learn(self.tenant(), long);
    }

    /// What a tool is listed with instead of its description; `None` if that is short enough, or is not kept: there may be no
    /// room for it, or another tool of its name.
    pub(super) fn short_description(&self, tool: &ListedTool<'_>, limit: Size) -> Option<String> {
        let tokenizer = self.client().tokenizer;
        let text = tool.description.as_ref().filter(|text| tokenizer.exceeds(text.as_bytes(), limit))?;
        let kept = self.rules.caches.description(self.tenant(), &tool.name)?;
        if kept != text.as_bytes() {
            return None;
        }
        Some(shortened(text, &tool.name, limit, tokenizer)).filter(|short| short.len() < text.len())
    }

    fn whole_description(&self, uri: &str) -> Option<String> {
        let tool = mcp::percent_decoded(uri.strip_prefix(URI)?).filter(|tool| self.allows(tool))?;
        let text = self.rules.caches.description(self.tenant(), &tool)?;
        String::from_utf8(text.to_vec()).ok()
    }
}

/// The beginning of a description, and where the whole is. Only that when nothing more fits.
fn shortened(text: &str, tool: &str, limit: Size, tokenizer: Tokenizer) -> String {
    let arguments = json!({ "handle": format!("{URI}{}", mcp::percent_encoded(tool)) });
    let note = format!("[shortened; {READ_TOOL} {arguments} gives all {} bytes]", text.len());
    let mut length = text.len() as u64;
    let mut short = text.to_owned();
    for _ in 0..SHORTER_MAX {
        let Some(size) = tokenizer.size_beyond(short.as_bytes(), limit) else { return short };
        // A bit less than its share, for the note.
        let share = u128::from(length) * u128::from(limit.amount) / u128::from(size.max(1)) / 8 * 7;
        length = u64::try_from(share).unwrap_or(u64::MAX);
        short = format!("{}{note}", beginning(text, usize::try_from(length).unwrap_or(usize::MAX)));
    }
    if tokenizer.exceeds(short.as_bytes(), limit) { note } else { short }
}

/// The beginning of a text of at most so many bytes, up to the end of a sentence, or else of a word, if that is in its second
/// half.
fn beginning(text: &str, bytes: usize) -> String {
    let end = text.floor_char_boundary(bytes);
    let head = text.get(..end).unwrap_or_default();
    let in_half = |at: &usize| *at > end / 2;
    let starts_white = |at: usize| text.get(at..).is_some_and(|rest| rest.starts_with(char::is_whitespace));
    let ends = head.rmatch_indices(['.', '!', '?', '\n', '。', '！', '？']).filter_map(|(at, mark)| {
        let after = at + mark.len();
        (!mark.is_ascii() || mark == "\n" || starts_white(after)).then_some(after)
    });
    if let Some(sentence) = { ends }.next().filter(in_half) {
        return format!("{} ", head.get(..sentence).unwrap_or_default().trim_end());
    }
    let word = head.rfind(char::is_whitespace).filter(in_half).unwrap_or(end);
    match head.get(..word).unwrap_or_default().trim_end() {
        "" => String::new(),
        words => format!("{words}… "),
    }
}

/// A page of a description, with a last line that says where it goes on if it does.
///
/// # Errors
/// If the cursor does not point into the text.
fn page_text(whole: &str, asked: &Asked, bytes_max: u32) -> Result<String, String> {
    let start = match &asked.cursor {
        None => 0,
        Some(cursor) => cursor
            .parse()
            .ok()
            .filter(|start| *start < whole.len() && whole.is_char_boundary(*start))
            .ok_or_else(|| format!("`{cursor}` is not a cursor of this text: begin again without one"))?,
    };
    let bytes = asked.bytes.unwrap_or(PAGE_BYTES_DEFAULT).max(PAGE_BYTES_MIN).min(bytes_max);
    let end = whole.floor_char_boundary(start.saturating_add(bytes as usize));
    let text = whole.get(start..end).unwrap_or_default();
    if end == whole.len() {
        return Ok(text.to_owned());
    }
    let next = json!({ "handle": asked.handle, "cursor": end.to_string(), "bytes": bytes });
    Ok(format!("{text}\n[bytes {start} to {} of {}; next: {READ_TOOL} {next}]", end - 1, whole.len()))
}

fn unknown(uri: &str) -> String {
    format!("there is no description `{uri}`: read the description in `tools/list`, or request that list again")
}
