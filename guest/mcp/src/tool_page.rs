//! One page of a list that a tool returns: where the list is in the result, and what stands around it.

use std::borrow::Cow;
use std::ops::Range;

use bytes::Bytes;
use lro_json::pointer::{key_of_step, push_json_step};
use lro_json::write::string;
use lro_json::{Member, elements, members};
use lro_jsonl::page::names;

use super::blocks::Object;
use super::link;
use super::message::Message;
use super::span::{self, Span};

/// Most levels of objects that are searched for a list.
const LEVELS_MAX: usize = 4;

/// Longest text beside structured content, in bytes, that is searched for header lines: 16 KiB.
const LINKS_BYTES_MAX: usize = 16 << 10;

/// Usual names of the list, preferred in this order where an object has several.
const LISTS: [&str; 12] =
    ["items", "results", "records", "data", "entries", "edges", "nodes", "rows", "values", "list", "hits", "result"];

/// Where a page stands in a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageForm {
    /// In the structured content, with or without a copy as text.
    Structured {
        /// Whether there is text too.
        has_text: bool,
    },
    /// In a text, alone or beside header lines.
    Text,
}

/// Names of members with the headers of the response that a page was made of, in small letters.
const HEADERS: [&str; 4] = ["headers", "header", "response_headers", "responseheaders"];

/// Name of the header, and of a member with it, in small letters.
const LINK: &str = "link";

/// One page: a JSON document with a list, and the objects around the list.
#[derive(Clone, Debug)]
pub struct ToolPage {
    /// Where it stands.
    pub form: PageForm,
    /// JSON Pointer of the list.
    pub pointer: String,
    /// Number of items.
    pub count: usize,
    document: Bytes,
    /// The next page, by the header lines in the texts.
    linked: Option<String>,
    /// The items with what is between them.
    items: Range<usize>,
    /// The objects around the list, from the outside in: the keys and values of their other members.
    around: Vec<Vec<(Range<usize>, Range<usize>)>>,
    /// The keys that lead to the list.
    keys: Vec<Range<usize>>,
}

impl ToolPage {
    /// The page in an answer to a call: the list at `pointer`, or without one the only list that it can be. `None` for an
    /// error, and for a result without such a list.
    pub fn of(answer: &Message, pointer: Option<&str>) -> Option<Self> {
        let result = answer.outer.result.as_ref().filter(|_| !answer.is_tool_error())?;
        let structured = result.get(&answer.bytes, "structuredContent").map(|value| answer.bytes.slice(value.clone()));
        let Some(document) = structured.filter(|value| value != "null") else {
            let (document, linked) = document_of_texts(&answer.bytes, result, pointer.is_some())?;
            return Self::of_document(document.into(), PageForm::Text, linked, pointer);
        };
        let form = PageForm::Structured { has_text: !result.blocks.is_empty() };
        let texts = result.blocks.iter().filter(|block| block.span.len() <= LINKS_BYTES_MAX);
        let linked = texts.filter_map(|block| text(&answer.bytes, &block.span)).find_map(|text| linked(&text));
        Self::of_document(document, form, linked, pointer)
    }

    fn of_document(document: Bytes, form: PageForm, linked: Option<String>, wanted: Option<&str>) -> Option<Self> {
        let text = std::str::from_utf8(&document).ok()?;
        let path = match wanted {
            Some(pointer) => pointer.split('/').skip(1).map(key_of_step).collect(),
            None => found(text)?,
        };
        let at = |part: &str| {
            let start = part.as_ptr() as usize - text.as_ptr() as usize;
            start..start + part.len()
        };
        let (mut value, mut pointer) = (text.trim(), String::new());
        let (mut around, mut keys) = (Vec::new(), Vec::new());
        for key in &path {
            let all = members(value).ok()?;
            let is_next = |member: &Member<'_>| decoded(member.key) == *key;
            let next = all.iter().copied().find(is_next)?;
            around.push(all.iter().filter(|member| !is_next(member)).map(|one| (at(one.key), at(one.value))).collect());
            keys.push(at(next.key));
            push_json_step(&mut pointer, inside(next.key));
            value = next.value;
        }
        // A list that is null on the last page is empty.
        let list = if value == "null" { Vec::new() } else { elements(value).ok()? };
        let items =
            list.first().zip(list.last()).map(|(first, last)| at(first).start..at(last).end).unwrap_or_default();
        Some(Self { form, pointer, count: list.len(), items, around, keys, linked, document: document.clone() })
    }

    /// The items as they stand in the document, with what is between them.
    pub fn items(&self) -> &str {
        self.text(&self.items)
    }

    /// The beginning of a document with this list, up to the items. A list alone becomes the member `items` of an object.
    pub fn opening(&self) -> String {
        if self.keys.is_empty() {
            return "{\"items\":[".to_owned();
        }
        let keys = self.keys.iter().map(|key| format!("{{{}:", self.text(key)));
        keys.chain(["[".to_owned()]).collect()
    }

    /// The end of a document with this list, after the items: the members around the list as in this page, and one more of
    /// the outermost object.
    pub fn closing(&self, name: &str, json: &str) -> String {
        if self.keys.is_empty() {
            return format!("],{}:{json}}}", string(name));
        }
        let mut text = String::from("]");
        for (level, members) in self.around.iter().enumerate().rev() {
            for (key, value) in members {
                text.push_str(&format!(",{}:{}", self.text(key), self.text(value)));
            }
            let is_taken = || members.iter().any(|(key, _)| decoded(self.text(key)) == name);
            if level == 0 && !is_taken() {
                text.push_str(&format!(",{}:{json}", string(name)));
            }
            text.push('}');
        }
        text
    }

    /// Pointer and JSON of the members around the list that say something of the page.
    pub fn noted(&self) -> Vec<(String, String)> {
        let (known, mut noted, mut pointer) = (names(), Vec::new(), String::new());
        for (level, members) in self.around.iter().enumerate() {
            for (key, value) in members {
                let key = inside(self.text(key));
                if known.iter().any(|name| name == key) {
                    noted.push((format!("{pointer}/{key}"), self.text(value).to_owned()));
                }
            }
            if let Some(key) = self.keys.get(level) {
                push_json_step(&mut pointer, inside(self.text(key)));
            }
        }
        noted
    }

    /// The address of the next page, by a `Link` header: in a text, in a member of that name around the list, or in one with
    /// headers.
    pub fn linked(&self) -> Option<String> {
        let member = |(key, value): &(Range<usize>, Range<usize>)| {
            let (key, value) = (inside(self.text(key)).to_lowercase(), self.text(value));
            match HEADERS.contains(&key.as_str()) {
                true => members(value).ok()?.into_iter().find_map(|member| {
                    let is_link = inside(member.key).eq_ignore_ascii_case(LINK);
                    is_link.then(|| linked_in(member.value)).flatten()
                }),
                false => (key == LINK).then(|| linked_in(value)).flatten(),
            }
        };
        self.linked.clone().or_else(|| self.around.iter().flatten().find_map(member))
    }

    /// The value at a pointer to a member around the list, or inside one.
    pub fn value(&self, pointer: &str) -> Option<&str> {
        let text = std::str::from_utf8(&self.document).ok()?;
        pointer.split('/').skip(1).map(key_of_step).try_fold(text, |value, key| {
            members(value).ok()?.into_iter().find(|member| decoded(member.key) == key).map(|member| member.value)
        })
    }

    fn text(&self, range: &Range<usize>) -> &str {
        self.document.get(range.clone()).and_then(|bytes| std::str::from_utf8(bytes).ok()).unwrap_or_default()
    }
}

/// The only text that is not header lines, as the document, and the next page by those. Texts that look like header lines
/// count as such when one links to the next page, or it `is_known` that this is a page.
fn document_of_texts(message: &[u8], result: &Object, is_known: bool) -> Option<(String, Option<String>)> {
    let texts: Option<Vec<Cow<'_, str>>> = result.blocks.iter().map(|block| text(message, &block.span)).collect();
    let (heads, bodies): (Vec<_>, Vec<_>) = texts?.into_iter().partition(|text| link::is_headers(text));
    let [body] = <[Cow<'_, str>; 1]>::try_from(bodies).ok()?;
    let of_heads = heads.iter().find_map(|head| linked(head));
    if !heads.is_empty() && of_heads.is_none() && !is_known {
        return None;
    }
    match link::body_after_headers(&body) {
        Some((head, document)) => Some((document.to_owned(), linked(head).or(of_heads))),
        None => Some((body.into_owned(), of_heads)),
    }
}

/// The next page by the `Link` headers in the lines of a text.
fn linked(text: &str) -> Option<String> {
    link::next_of_lines(text).map(str::to_owned)
}

/// The next page by the value of a `Link` header, as JSON: a string, or an array of some.
fn linked_in(json: &str) -> Option<String> {
    let values: Vec<String> = match json.starts_with('[') {
        true => serde_json::from_str(json).ok()?,
        false => vec![serde_json::from_str(json).ok()?],
    };
    values.iter().find_map(|value| link::next_of_value(value)).map(str::to_owned)
}

/// The text of a block; `None` for a block of another type.
fn text<'a>(message: &'a [u8], block: &Span) -> Option<Cow<'a, str>> {
    let kind = span::string(message, &span::child(message, block, "type")?)?;
    let text = span::child(message, block, "text").filter(|_| kind == "text")?;
    span::string(message, &text)
}

/// The keys that lead to the list that a document is about: on the outermost level with lists that are not empty, the one
/// with the most usual name, or the only one.
fn found(text: &str) -> Option<Vec<String>> {
    let mut level = vec![(Vec::new(), text.trim())];
    for _ in 0..=LEVELS_MAX {
        let lists: Vec<&(Vec<String>, &str)> = level.iter().filter(|(_, value)| is_list(value)).collect();
        let named = |name: &&str| lists.iter().find(|(path, _)| path.last().is_some_and(|key| key == name));
        if let Some((path, _)) =
            LISTS.iter().find_map(named).copied().or(lists.first().copied().filter(|_| lists.len() == 1))
        {
            return Some(path.clone());
        }
        if !lists.is_empty() {
            return None;
        }
        let mut inner = Vec::new();
        for (path, value) in level.iter().filter(|(_, value)| value.starts_with('{')) {
            for member in members(value).ok()? {
                let mut path: Vec<String> = path.clone();
                path.push(decoded(member.key));
                inner.push((path, member.value));
            }
        }
        level = inner;
    }
    None
}

/// Whether a value is an array with elements.
fn is_list(json: &str) -> bool {
    json.strip_prefix('[').is_some_and(|rest| !rest.trim_start().starts_with(']'))
}

/// The inside of a key as JSON.
fn inside(key: &str) -> &str {
    key.get(1..key.len() - 1).unwrap_or_default()
}

fn decoded(key: &str) -> String {
    serde_json::from_str(key).unwrap_or_else(|_| inside(key).to_owned())
}
