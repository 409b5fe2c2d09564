//! How the pages of a tool follow one another.

use bytes::Bytes;
use lro_json::members;
use lro_json::write::{Object, string};
use lro_jsonl::page::{Argument, Facts, List, Page};
use serde::{Deserialize, Serialize};

use super::announce::appended;
use super::link;
use super::message::{Id, Message};
use super::percent;
use super::span;
use super::tool_page::ToolPage;

/// Longest cursor, in bytes of JSON, that is sent back: 16 KiB.
const CURSOR_BYTES_MAX: usize = 16 << 10;

/// What selects a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PagingStyle {
    /// Found by usual spellings, in the result and in the schema of the arguments.
    #[default]
    Auto,
    /// A cursor that each page gives for the next.
    Cursor,
    /// A page number.
    Page,
    /// The number of items before the page.
    Offset,
    /// Arguments in the query of a URL that each page gives for the next.
    Link,
}

/// How to follow the pages of a tool. What is `None` is found by usual spellings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Paging {
    /// What selects a page.
    pub style: PagingStyle,
    /// The argument for it.
    pub argument: Option<String>,
    /// JSON Pointer of what a page says of the next: the cursor, the link, the number, or whether there is one.
    pub next: Option<String>,
    /// JSON Pointer of the number of all items.
    pub total: Option<String>,
}

/// What follows a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Following {
    /// Nothing.
    End,
    /// The page that these arguments select, with their values as JSON.
    Page(Vec<(String, String)>),
    /// There is more, but it cannot be asked for.
    Unknown,
}

/// What the number of a page counts.
#[derive(Clone, Copy, Debug)]
enum Counting {
    Pages,
    /// The items before the page.
    Items,
}

impl Paging {
    /// What follows a page that was selected by these arguments, a JSON object, when so many items are known. `schema` is that
    /// of the arguments.
    pub fn following(&self, page: &ToolPage, arguments: &str, schema: Option<&str>, items: u64) -> Following {
        let noted = page.noted();
        let list = [List { pointer: &page.pointer, records: page.count as u64 }];
        let (said, facts) = (Page::of(&noted, &list, schema).next, Facts::of(&noted, &list));
        let linked = page.linked();
        let said_link = said.as_ref().filter(|(name, _)| name == "link").and_then(|(_, url)| address(url));
        let said_link = said_link.or_else(|| linked.filter(|_| said.is_none()));
        let pointed = self.next.as_deref().map(|pointer| page.value(pointer).filter(is_something));
        if facts.more == Some(false) || pointed == Some(None) {
            return Following::End;
        }
        let pointed = pointed.flatten();
        let one = |name: Option<&str>, value: String| {
            let name = self.argument.as_deref().or(name).unwrap_or_default();
            Following::Page(vec![(name.to_owned(), value)])
        };
        let has_all = self.total(page, facts).is_some_and(|total| items >= total);
        let number = |kind: Argument, first: u64, step: u64| {
            let name = self.argument.as_deref().unwrap_or(kind.name(schema));
            let asked = member(arguments, name).and_then(|value| value.trim_matches('"').parse().ok()).unwrap_or(first);
            match pointed.and_then(|pointed| pointed.parse::<u64>().ok()) {
                Some(next) => one(Some(name), next.to_string()),
                None if has_all => Following::End,
                None => one(Some(name), asked.saturating_add(step).to_string()),
            }
        };
        let cursor = |value: &str, name: Option<&str>| {
            if value.len() > CURSOR_BYTES_MAX || value.starts_with(['{', '[', 't']) {
                return Following::Unknown;
            }
            one(name.or(Some(Argument::Cursor.name(schema))), value.to_owned())
        };
        match (self.style, &said) {
            (PagingStyle::Cursor, Some((name, value))) if said_link.is_none() => {
                cursor(pointed.unwrap_or(value), Some(name))
            }
            (PagingStyle::Cursor, _) => pointed.map_or(Following::End, |value| cursor(value, None)),
            (PagingStyle::Page, _) => number(Argument::Page, 1, 1),
            (PagingStyle::Offset, _) => number(Argument::Offset, 0, page.count as u64),
            (PagingStyle::Link, _) => {
                let url = pointed.and_then(address).or(said_link);
                url.map_or(Following::End, |url| of_link(&url, arguments, schema))
            }
            (PagingStyle::Auto, said) => match (said_link, said) {
                (Some(url), _) => of_link(&url, arguments, schema),
                (None, Some((name, value))) => one(Some(name), value.clone()),
                (None, None) if !has_all && (facts.total.is_some() || facts.more == Some(true)) => {
                    let has = |kind: Argument| kind.of_tool(schema).is_some();
                    match (has(Argument::Offset), has(Argument::Page)) {
                        (true, _) => number(Argument::Offset, 0, page.count as u64),
                        (false, true) => number(Argument::Page, 1, 1),
                        (false, false) => Following::Unknown,
                    }
                }
                (None, None) => Following::End,
            },
        }
    }

    /// How many items come before the first page of a call with these arguments, a JSON object, which `changes` continue;
    /// `None` when the call begins in the middle of a list whose pages are not numbered.
    pub fn before(
        &self,
        arguments: &str,
        changes: &[(String, String)],
        page: &ToolPage,
        schema: Option<&str>,
    ) -> Option<u64> {
        let asked = |name: &str| member(arguments, name).filter(|value| *value != "null");
        let [(name, _)] = changes else {
            return changes.iter().all(|(name, _)| asked(name).is_none()).then_some(0);
        };
        let Some(asked) = asked(name) else { return Some(0) };
        let asked: u64 = asked.trim_matches('"').parse().ok()?;
        match self.counting(name, schema)? {
            Counting::Pages => asked.saturating_sub(1).checked_mul(page.count as u64),
            Counting::Items => Some(asked),
        }
    }

    /// What the argument counts by which pages are selected; `None` when it does not.
    fn counting(&self, name: &str, schema: Option<&str>) -> Option<Counting> {
        match self.style {
            PagingStyle::Page => Some(Counting::Pages),
            PagingStyle::Offset => Some(Counting::Items),
            PagingStyle::Auto if name == Argument::Page.name(schema) => Some(Counting::Pages),
            PagingStyle::Auto if name == Argument::Offset.name(schema) => Some(Counting::Items),
            PagingStyle::Auto | PagingStyle::Cursor | PagingStyle::Link => None,
        }
    }

    /// What selects the pages that follow a page: the next, by these changes of its arguments, and those after it, as far as
    /// they can be foretold by counting. None where only a page says what follows it.
    pub fn ahead(
        &self,
        changes: &[(String, String)],
        page: &ToolPage,
        schema: Option<&str>,
    ) -> impl Iterator<Item = Vec<(String, String)>> + use<> {
        let step = |name: &str| match self.counting(name, schema)? {
            Counting::Pages => Some(1),
            Counting::Items => Some(page.count as u64),
        };
        let counted = match changes {
            [(name, first)] => {
                step(name).zip(first.parse::<u64>().ok()).map(|(step, first)| (name.clone(), first, step))
            }
            _ => None,
        };
        let numbered = |(name, first, step): (String, u64, u64)| {
            let numbers = std::iter::successors(Some(first), move |number| number.checked_add(step));
            numbers.map(move |number| vec![(name.clone(), number.to_string())])
        };
        counted.into_iter().flat_map(numbered)
    }

    /// Items of all pages, if a page says so.
    pub fn total_of(&self, page: &ToolPage) -> Option<u64> {
        let list = [List { pointer: &page.pointer, records: page.count as u64 }];
        self.total(page, Facts::of(&page.noted(), &list))
    }

    fn total(&self, page: &ToolPage, facts: Facts) -> Option<u64> {
        match &self.total {
            Some(pointer) => page.value(pointer)?.parse().ok(),
            None => facts.total,
        }
    }
}

/// The request for another page: a call with another id, these arguments, and no progress token, as it would begin again
/// with every page.
pub fn page_request(call: &Message, id: &Id, arguments: &str) -> Bytes {
    let request = Message::read(Message::read(call.with_id(id)).without(&["params", "_meta", "progressToken"]));
    if request.value(&["params", "arguments"]).is_some() {
        return request.with_bytes(&["params", "arguments"], arguments.as_bytes());
    }
    let params = request.find(&["params"]);
    let added = format!("\"arguments\":{arguments}");
    let edit = params.and_then(|params| appended(request.bytes(), &params, b"{}", &[added]));
    span::spliced(request.bytes(), edit.into_iter().collect())
}

/// Arguments, a JSON object, with some of them replaced or added.
pub fn with_arguments(arguments: &str, changes: &[(String, String)]) -> String {
    let mut object = Object::default();
    for member in members(arguments).into_iter().flatten() {
        let key: String = serde_json::from_str(member.key).unwrap_or_default();
        if !changes.iter().any(|(name, _)| *name == key) {
            object.member(&key, member.value);
        }
    }
    for (name, value) in changes {
        object.member(name, value);
    }
    object.finish()
}

/// Whether a value says that there is a next page.
fn is_something(json: &&str) -> bool {
    !matches!(*json, "null" | "false" | "\"\"")
}

/// The URL that a JSON string names: by itself, or as a `Link` header.
fn address(json: &str) -> Option<String> {
    let text: String = serde_json::from_str(json).ok()?;
    if text.starts_with('<') { link::next_of_value(&text).map(str::to_owned) } else { Some(text) }
}

/// The arguments of a tool in the query of a URL.
fn of_link(url: &str, arguments: &str, schema: Option<&str>) -> Following {
    let query = url.split_once('?').map_or("", |(_, query)| query.split('#').next().unwrap_or_default());
    let properties = schema.and_then(|schema| member(schema, "properties")).unwrap_or_default();
    let mut changes = Vec::new();
    for (name, value) in query.split('&').filter_map(|pair| pair.split_once('=')) {
        let (Some(name), Some(value)) = (percent::decoded(name), percent::decoded(value)) else { continue };
        let (asked, property) = (member(arguments, &name), member(properties, &name));
        if asked.is_none() && property.is_none() {
            continue;
        }
        let kind = property.and_then(|property| member(property, "type"));
        let is_number = matches!(kind, Some("\"integer\"" | "\"number\""))
            || kind.is_none() && asked.is_none_or(|asked| !asked.starts_with('"'));
        let value = if is_number && value.parse::<u64>().is_ok() { value } else { string(&value) };
        if asked != Some(value.as_str()) {
            changes.push((name, value));
        }
    }
    if changes.is_empty() { Following::Unknown } else { Following::Page(changes) }
}

/// The value of a member of an object.
fn member<'a>(object: &'a str, name: &str) -> Option<&'a str> {
    let name = string(name);
    members(object).ok()?.into_iter().find(|member| member.key == name).map(|member| member.value)
}
