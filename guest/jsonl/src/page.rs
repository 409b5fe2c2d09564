//! What a page says of the list that it is a part of: how many records there are, and how to get more.
//!
//! Only usual spellings count, and only beside the records: in the objects around them, or in one that describes the page,
//! such as `pageInfo`. What could be read in two ways says nothing.

use lro_json::write::{Object, string, thousands};
use lro_json::{Member, members};

/// The number of all records.
const TOTALS: &[&str] = &[
    "total",
    "total_count",
    "totalCount",
    "total_results",
    "totalResults",
    "total_records",
    "totalRecords",
    "total_items",
    "totalItems",
    "total_elements",
    "totalElements",
    "total_hits",
    "totalHits",
    "num_found",
    "numFound",
    "@odata.count",
];

/// The number of all records or, by these names, another one, such as a sum of money: alone it counts only when a member
/// says that this is a page.
const AMBIGUOUS: &[&str] = &["total", COUNT];

/// The number of all records, or of those of this page.
const COUNT: &str = "count";

/// Whether there is another page.
const FLAGS: &[&str] = &["has_more", "hasMore", "has_next", "hasNext", "has_next_page", "hasNextPage"];

/// The cursor of the next page.
const CURSORS: &[&str] = &[
    "nextCursor",
    "next_cursor",
    "nextPageToken",
    "next_page_token",
    "nextToken",
    "next_token",
    "nextMarker",
    "next_marker",
    "continuationToken",
    "continuation_token",
];

/// The cursor of the end of this page: it continues only when a flag says so.
const ENDS: &[&str] = &["endCursor", "end_cursor", "cursor"];

/// The address of the next page, or its number.
const NEXT: &[&str] =
    &["next", "next_page", "nextPage", "next_url", "nextUrl", "next_page_url", "nextLink", "@odata.nextLink"];

/// The offset of the next page.
const NEXT_OFFSETS: &[&str] = &["next_offset", "nextOffset"];

/// The offset of this page.
const OFFSETS: &[&str] = &["offset", "skip"];

/// The number of this page.
const PAGES: &[&str] = &["page", "page_number", "pageNumber", "current_page", "currentPage"];

/// The number of records that a page has.
const SIZES: &[&str] = &["limit", "per_page", "perPage", "page_size", "pageSize"];

/// Objects that describe a page.
const HOLDERS: &[&str] = &[
    "pageInfo",
    "page_info",
    "pagination",
    "paging",
    "page",
    "meta",
    "metadata",
    "_meta",
    "links",
    "_links",
    "response_metadata",
    "responseMetadata",
];

/// An argument that selects a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Argument {
    /// The cursor of the page.
    Cursor,
    /// Its number.
    Page,
    /// The number of records before it.
    Offset,
}

impl Argument {
    /// Usual names, the most usual first. None is called like a member that clients follow by themselves.
    const fn names(self) -> &'static [&'static str] {
        match self {
            Self::Cursor => &[
                "cursor",
                "after",
                "page_token",
                "pageToken",
                "next_token",
                "nextToken",
                "marker",
                "starting_after",
                "startingAfter",
                "start_cursor",
                "startCursor",
                "continuation_token",
                "continuationToken",
            ],
            Self::Page => &["page", "page_number", "pageNumber"],
            Self::Offset => &["offset", "skip"],
        }
    }

    /// The only argument of this kind that a tool has, by the schema of its arguments.
    pub fn of_tool(self, schema: Option<&str>) -> Option<&'static str> {
        let properties = schema.and_then(|schema| member(schema, "properties"))?;
        let mut known = self.names().iter().copied().filter(|name| member(properties, name).is_some());
        known.next().filter(|_| known.next().is_none())
    }

    /// The same, or else the most usual name.
    pub fn name(self, schema: Option<&str>) -> &'static str {
        self.of_tool(schema).or_else(|| self.names().first().copied()).unwrap_or_default()
    }
}

/// What a page says besides how to go on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Records of all pages.
    pub total: Option<u64>,
    /// Whether there is another page.
    pub more: Option<bool>,
}

impl Facts {
    /// What the members say that [`Page::of`] reads.
    pub fn of(noted: &[(String, String)], lists: &[List<'_>]) -> Self {
        let found = Found(around(noted, lists));
        Self { total: found.total(TOTALS), more: found.flag() }
    }
}

/// Longest value, in bytes of JSON, that a descriptor shows: longer cursors stay in their file.
const VALUE_BYTES_MAX: usize = 256;

/// Names of the members that a page is known by.
pub fn names() -> Vec<String> {
    let lists = [TOTALS, &[COUNT], FLAGS, CURSORS, ENDS, NEXT, NEXT_OFFSETS, OFFSETS, PAGES, SIZES, HOLDERS];
    lists.concat().into_iter().map(str::to_owned).collect()
}

/// The records of one list in a document.
#[derive(Clone, Copy, Debug)]
pub struct List<'a> {
    /// JSON Pointer of the list.
    pub pointer: &'a str,
    /// Number of its records.
    pub records: u64,
}

/// What a result says of the list that it is a page of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// Records of this page, and of all.
    pub count: Option<(u64, u64)>,
    /// The argument that continues, and its value as JSON.
    pub next: Option<(String, String)>,
}

impl Page {
    /// What a document says: by its members of [`names`], as pointer and JSON, and by its lists. `schema` is that of the
    /// tool's arguments.
    pub fn of(noted: &[(String, String)], lists: &[List<'_>], schema: Option<&str>) -> Self {
        let found = Found(around(noted, lists));
        let [List { records, .. }] = *lists else { return Self { count: None, next: found.next(None, None, schema) } };
        let total = found.all_records();
        let next = found.next(Some(records), total, schema);
        let count = total.filter(|total| *total > records).map(|total| (records, total));
        Self { count, next }
    }

    /// What the documents of one result say together: nothing where they differ.
    pub fn of_all(pages: Vec<Self>) -> Self {
        let (counts, next): (Vec<_>, Vec<_>) = pages.into_iter().map(|page| (page.count, page.next)).unzip();
        Self { count: only(counts.into_iter().flatten().collect()), next: only(next.into_iter().flatten().collect()) }
    }

    /// As a member of the descriptor: `{"records", "of", "next": {ARGUMENT: VALUE}}`; `None` when it says nothing.
    pub fn json(&self) -> Option<String> {
        let mut page = Object::default();
        if let Some((records, of)) = self.count {
            page.member("records", &records.to_string()).member("of", &of.to_string());
        }
        if let Some((argument, value)) = &self.next {
            let mut next = Object::default();
            next.member(argument, value);
            page.member("next", &next.finish());
        }
        (!page.is_empty()).then(|| page.finish())
    }

    /// The same in a sentence.
    pub fn sentence(&self) -> Option<String> {
        let continues = "`paging.next` continues, and an operator can set `collect`.";
        match (self.count, &self.next) {
            (None, None) => None,
            (None, Some(_)) => Some(format!("It is one page of more: {continues}")),
            (Some((records, of)), None) => Some(format!("It has {} of {} records.", thousands(records), thousands(of))),
            (Some((records, of)), Some(_)) => {
                Some(format!("It has {} of {} records: {continues}", thousands(records), thousands(of)))
            }
        }
    }
}

/// The members that say something of a page, as name and JSON.
struct Found(Vec<(String, String)>);

impl Found {
    /// The values of members with these names.
    fn values<'a>(&'a self, names: &'a [&str]) -> impl Iterator<Item = &'a str> {
        let named = self.0.iter().filter(|(name, _)| names.contains(&name.as_str()));
        named.map(|(_, value)| value.as_str())
    }

    /// The number of all records.
    fn all_records(&self) -> Option<u64> {
        let is_clear =
            self.0.iter().any(|(name, _)| TOTALS.contains(&name.as_str()) && !AMBIGUOUS.contains(&name.as_str()));
        let has_total = self.values(TOTALS).next().is_some();
        let total = if has_total { self.total(TOTALS) } else { self.total(&[COUNT]) };
        total.filter(|_| is_clear || self.is_page())
    }

    /// The number under these names, when all of them have the same.
    fn total(&self, names: &[&str]) -> Option<u64> {
        only(self.values(names).map(whole_number).collect())?
    }

    /// Whether a member says that this is a page.
    fn is_page(&self) -> bool {
        let names = [FLAGS, CURSORS, ENDS, NEXT, NEXT_OFFSETS, OFFSETS, PAGES, SIZES].concat();
        self.values(&names).next().is_some()
    }

    /// Whether a flag says that there is another page; `None` without one, `Some(false)` when flags differ.
    fn flag(&self) -> Option<bool> {
        let mut flags = self.values(FLAGS).filter(|value| matches!(*value, "true" | "false")).peekable();
        flags.peek()?;
        Some(flags.all(|value| value == "true"))
    }

    /// The argument that continues and its value: the most explicit kind that the members have.
    fn next(&self, records: Option<u64>, total: Option<u64>, schema: Option<&str>) -> Option<(String, String)> {
        let flag = self.flag();
        if flag == Some(false) {
            return None;
        }
        let has_more = flag == Some(true);
        let cursors = || self.values(CURSORS).filter(|value| *value != "null");
        let ends = || self.values(ENDS).filter(|value| has_more && *value != "null");
        let next = || self.values(NEXT).filter(|value| *value != "null");
        let numbers = |names| self.values(names).filter_map(whole_number);
        let cursor = |value: Option<&str>| {
            let value = value.filter(|value| is_cursor(value))?;
            Some((Argument::Cursor.name(schema).to_owned(), value.to_owned()))
        };
        if cursors().next().is_some() {
            return cursor(only(cursors().collect()));
        }
        if ends().next().is_some() {
            return cursor(only(ends().collect()));
        }
        if let Some(offset) = only(numbers(NEXT_OFFSETS).collect()) {
            return Some((Argument::Offset.name(schema).to_owned(), offset.to_string()));
        }
        if let Some(value) = next().next() {
            only(next().collect())?;
            return match whole_number(value) {
                Some(page) => Some((Argument::Page.name(schema).to_owned(), page.to_string())),
                None => is_address(value).then(|| ("link".to_owned(), value.to_owned())),
            };
        }
        if let (Some(offset), Some(records)) =
            (only(numbers(OFFSETS).collect()), records.filter(|records| *records > 0))
        {
            let next = offset.checked_add(records)?;
            let is_more = has_more || total.is_some_and(|total| next < total);
            return is_more.then(|| (Argument::Offset.name(schema).to_owned(), next.to_string()));
        }
        let page = only(numbers(PAGES).collect()).filter(|_| has_more)?.checked_add(1)?;
        Some((Argument::Page.name(schema).to_owned(), page.to_string()))
    }
}

/// The value that all of these have.
fn only<T: PartialEq>(values: Vec<T>) -> Option<T> {
    let mut values = values.into_iter();
    let first = values.next()?;
    values.all(|value| value == first).then_some(first)
}

/// The members in objects around all lists, and in objects there that describe a page.
fn around(noted: &[(String, String)], lists: &[List<'_>]) -> Vec<(String, String)> {
    let is_around_all = |object: &str| match lists {
        [] => object.is_empty(),
        lists => lists.iter().all(|list| is_around(object, list.pointer)),
    };
    let mut found = Vec::new();
    for (pointer, json) in noted {
        let Some((object, name)) = pointer.rsplit_once('/') else { continue };
        let outside =
            object.rsplit_once('/').filter(|(_, holder)| HOLDERS.contains(holder)).map(|(outside, _)| outside);
        if !is_around_all(object) && !outside.is_some_and(is_around_all) {
            continue;
        }
        if json.starts_with('{') && HOLDERS.contains(&name) {
            let scalar =
                |Member { key, value }: Member<'_>| Some((key.get(1..key.len() - 1)?.to_owned(), value.to_owned()));
            found.extend(members(json).into_iter().flatten().filter_map(scalar));
        } else {
            found.push((name.to_owned(), json.clone()));
        }
    }
    found
}

/// Whether the value at a pointer is inside the object at another.
fn is_around(object: &str, pointer: &str) -> bool {
    pointer.strip_prefix(object).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// A number without sign, fraction and exponent.
fn whole_number(json: &str) -> Option<u64> {
    json.bytes().all(|byte| byte.is_ascii_digit()).then(|| json.parse().ok())?
}

/// Whether a value can be a cursor that is shown.
fn is_cursor(json: &str) -> bool {
    (json.starts_with('"') && json.len() > 2 || whole_number(json).is_some()) && json.len() <= VALUE_BYTES_MAX
}

/// Whether a value is the address of a page.
fn is_address(json: &str) -> bool {
    ["\"https://", "\"http://", "\"/"].iter().any(|start| json.starts_with(start)) && json.len() <= VALUE_BYTES_MAX
}

/// The value of a member of an object.
fn member<'a>(object: &'a str, name: &str) -> Option<&'a str> {
    let name = string(name);
    members(object).ok()?.into_iter().find(|member| member.key == name).map(|member| member.value)
}
