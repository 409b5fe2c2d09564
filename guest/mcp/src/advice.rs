//! Advice on how to ask a tool for less, with the numbers of a result and the arguments that the tool has.
//!
//! What limits, selects or filters is found by usual names of arguments and, for numbers and lists, by their descriptions. Nothing
//! is named that the schema does not have, nor what the call already gave to that end.

use std::collections::BTreeMap;

use lro_json::write::thousands;
use lro_json::{Member, members};

/// Longest advice, in characters: with its key less than the 60 estimated tokens that a descriptor leaves free.
pub const ADVICE_CHARACTERS_MAX: usize = 216;

/// Longest name that advice shows, in characters.
const NAME_CHARACTERS_MAX: usize = 40;

/// Smallest share of the records that makes a field worth leaving out, in percent.
const SHARE_MIN: u64 = 30;

/// Most arguments that are named as filters.
const FILTERS_MAX: usize = 3;

/// Arguments for the number of records, in small letters without `_`, `-` and `$`.
const LIMITS: &[&str] = &[
    "limit",
    "maxresults",
    "maxitems",
    "maxrecords",
    "maxrows",
    "maxcount",
    "perpage",
    "pagesize",
    "first",
    "top",
    "take",
    "size",
    "numresults",
    "count",
    "rows",
    "batchsize",
    "maxnumber",
    "resultlimit",
    "topk",
];

/// What a description says of such an argument.
const LIMIT_WORDS: &[&str] =
    &["maximum number of", "max number of", "number of results", "how many results", "items per page"];

/// Arguments that go on where a page ended.
const PAGES: &[&str] = &["offset", "skip", "page", "pagenumber", "cursor", "pagetoken", "nexttoken", "startindex"];

/// Arguments for the fields to return, and for those to leave out.
const FIELDS: &[&str] =
    &["fields", "select", "columns", "includefields", "properties", "attributes", "projection", "returnfields"];
const FIELD_WORDS: &[&str] = &["fields to return", "fields to include", "columns to return", "properties to return"];
const WITHOUT: &[&str] = &["exclude", "excludefields", "omit", "omitfields", "without"];

/// Arguments that narrow what is looked at.
const FILTERS: &[&str] = &[
    "filter",
    "where",
    "query",
    "q",
    "search",
    "since",
    "until",
    "after",
    "before",
    "startdate",
    "enddate",
    "datefrom",
    "dateto",
    "starttime",
    "endtime",
    "state",
    "status",
    "path",
    "glob",
    "pattern",
    "depth",
    "maxdepth",
    "head",
    "tail",
    "labels",
    "category",
];

/// What is known of a result that is too large.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResultSize {
    /// Its estimated tokens.
    pub tokens: u64,
    /// How many estimated tokens would have passed.
    pub fitting: u64,
    /// Its records, if it is a list.
    pub records: Option<u64>,
    /// The field that takes most of a record, and its share in percent.
    pub largest_field: Option<(String, u64)>,
}

/// Advice for a tool with this input schema that was called with these arguments; `None` if the schema has nothing that helps.
pub fn advice(input_schema: &str, arguments: Option<&str>, size: &ResultSize) -> Option<String> {
    let properties = properties(input_schema);
    let given = members(arguments.unwrap_or("{}")).unwrap_or_default();
    let tool = Tool { properties, given };
    let clauses = [tool.limit(size), tool.fields(size), tool.filters()];
    let records = size.records.map(|records| format!("{} records, ", thousands(records))).unwrap_or_default();
    let mut text = format!("{records}{} tokens.", thousands(size.tokens));
    let head = text.len();
    for clause in clauses.into_iter().flatten() {
        if text.chars().count() + 1 + clause.chars().count() <= ADVICE_CHARACTERS_MAX {
            text.push(' ');
            text.push_str(&clause);
        }
    }
    (text.len() > head).then_some(text)
}

/// The field that takes most of these records, JSON objects, and its share in percent; `None` if no field with a plain name takes
/// 30 percent, or there is only one.
pub fn largest_field<'a>(records: impl IntoIterator<Item = &'a str>) -> Option<(String, u64)> {
    let mut sizes: BTreeMap<&str, u64> = BTreeMap::new();
    for record in records {
        for Member { key, value } in members(record).ok()? {
            *sizes.entry(key).or_default() += (key.len() + value.len()) as u64;
        }
    }
    let all: u64 = sizes.values().sum();
    let (key, most) = sizes.iter().max_by_key(|(_, size)| **size)?;
    let name: String = serde_json::from_str(key).ok()?;
    let share = most * 100 / all.max(1);
    (sizes.len() > 1 && share >= SHARE_MIN && is_plain(&name)).then_some((name, share))
}

/// A tool and one call of it.
struct Tool<'a> {
    properties: Vec<Property<'a>>,
    given: Vec<Member<'a>>,
}

struct Property<'a> {
    name: String,
    /// In small letters, without `_`, `-` and `$`.
    folded: String,
    schema: &'a str,
}

fn properties(input_schema: &str) -> Vec<Property<'_>> {
    let found = member(input_schema, "properties").and_then(|properties| members(properties).ok()).unwrap_or_default();
    let property = |Member { key, value: schema }| {
        let name: String = serde_json::from_str(key).ok().filter(|name: &String| is_plain(name))?;
        let folded = name.chars().filter(|letter| !"_-$".contains(*letter)).flat_map(char::to_lowercase).collect();
        Some(Property { name, folded, schema })
    };
    found.into_iter().filter_map(property).collect()
}

impl Property<'_> {
    fn is_of(&self, types: &[&str]) -> bool {
        let kind = member(self.schema, "type").unwrap_or_default();
        kind.is_empty() || types.iter().any(|wanted| kind.contains(&format!("\"{wanted}\"")))
    }

    fn describes(&self, words: &[&str]) -> bool {
        let text = member(self.schema, "description").unwrap_or_default().to_lowercase();
        words.iter().any(|word| text.contains(word))
    }

    fn number(&self, key: &str) -> Option<u64> {
        member(self.schema, key)?.parse::<f64>().ok().filter(|number| *number >= 0.0).map(|number| number as u64)
    }
}

impl Tool<'_> {
    /// The property with the first of these names, else one whose description says what it is.
    fn find(&self, names: &[&str], words: &[&str], types: &[&str]) -> Option<&Property<'_>> {
        let fitting = || self.properties.iter().filter(|property| property.is_of(types));
        let named = names.iter().find_map(|name| fitting().find(|property| property.folded == *name));
        named.or_else(|| fitting().find(|property| property.describes(words)))
    }

    /// The value of an argument in the call, unless it is null.
    fn given(&self, name: &str) -> Option<&str> {
        let is_it = |member: &&Member<'_>| serde_json::from_str::<String>(member.key).is_ok_and(|key| key == name);
        self.given.iter().find(is_it).map(|member| member.value).filter(|value| *value != "null")
    }

    fn limit(&self, size: &ResultSize) -> Option<String> {
        let records = size.records.filter(|records| *records > 1)?;
        let limit = self.find(LIMITS, LIMIT_WORDS, &["integer", "number"])?;
        // A tenth less: the first records may be larger than others.
        let fitting = u128::from(size.fitting) * u128::from(records) * 9 / 10 / u128::from(size.tokens.max(1));
        let fitting = rounded(u64::try_from(fitting).unwrap_or(u64::MAX));
        let fitting = fitting.min(limit.number("maximum").unwrap_or(u64::MAX));
        let asked = self.given(&limit.name).and_then(|value| value.trim_matches('"').parse::<f64>().ok());
        let is_less = fitting < records && asked.is_none_or(|asked| asked < 1.0 || asked > fitting as f64);
        if fitting == 0 || !is_less || limit.number("minimum").is_some_and(|least| least > fitting) {
            return None;
        }
        let next = self.find(PAGES, &[], &["integer", "number", "string"]).filter(|next| next.name != limit.name);
        let next = next.map(|next| format!(", then `{}`", next.name)).unwrap_or_default();
        Some(format!("`{}` <= {} fits{next}.", limit.name, thousands(fitting)))
    }

    fn fields(&self, size: &ResultSize) -> Option<String> {
        let (field, share) = size.largest_field.as_ref()?;
        let is_new = |property: &&Property<'_>| self.given(&property.name).is_none();
        if let Some(fields) = self.find(FIELDS, FIELD_WORDS, &["string", "array"]).filter(is_new) {
            return Some(format!("`{}` can leave out `{field}`, {share} % of it.", fields.name));
        }
        let without = self.find(WITHOUT, &[], &["string", "array"]).filter(is_new)?;
        Some(format!("`{}`: `{field}` leaves out {share} % of it.", without.name))
    }

    fn filters(&self) -> Option<String> {
        let named = |name: &&str| self.properties.iter().find(|property| property.folded == *name);
        let found = FILTERS.iter().filter_map(named).filter(|property| self.given(&property.name).is_none());
        let names: Vec<String> = found.take(FILTERS_MAX).map(|property| format!("`{}`", property.name)).collect();
        let (last, others) = names.split_last()?;
        let verb = if others.is_empty() { "narrows" } else { "narrow" };
        let others = others.iter().map(|name| format!("{name}, ")).collect::<String>();
        Some(format!("{others}{last} {verb} it."))
    }
}

/// Rounds down to two digits.
fn rounded(number: u64) -> u64 {
    let unit = 10_u64.pow(number.checked_ilog10().unwrap_or(0).saturating_sub(1));
    number / unit * unit
}

/// Whether a name can be shown as it is: letters, digits and few others, as schemas and data are not the gateway's words.
fn is_plain(name: &str) -> bool {
    let is_of_name = |letter: char| letter.is_alphanumeric() || "_-.$".contains(letter);
    (1..=NAME_CHARACTERS_MAX).contains(&name.chars().count()) && name.chars().all(is_of_name)
}

/// The value of a member of an object.
fn member<'a>(object: &'a str, name: &str) -> Option<&'a str> {
    let is_it = |member: &Member<'_>| member.key.trim_matches('"') == name;
    members(object).ok()?.into_iter().find(is_it).map(|member| member.value)
}
