//! The definitions of the tools, as in `tools/list`.

use lro_contract::query::operator::OPERATORS;
use serde_json::{Value, json};

use super::{EXTRACT_TOOL, READ_TOOL};

/// Definitions of both tools, as in `tools/list`.
pub fn definitions() -> [Value; 2] {
    let field = json!({"type": "string", "description": "owner.name, or a JSON Pointer such as /owner/name"});
    let handle = json!({"type": "string", "description": "member `handle` of a descriptor"});
    let section =
        json!({"type": "string", "description": "key under `files` of the descriptor; needed when there are several"});
    let condition = json!({
        "type": "object",
        "description": "{\"field\", \"op\", \"value\", \"ignore_case\"}, {\"all\": […]}, {\"any\": […]} or {\"not\": …}. \
                        A missing field fails every test; null is equal to null only",
        "properties": {
            "field": field,
            "op": {"enum": OPERATORS},
            "value": {"description": "any JSON value; a list for `in`, a regular expression for `matches`"},
            "ignore_case": {"type": "boolean"},
            "all": {"type": "array", "items": {"type": "object"}},
            "any": {"type": "array", "items": {"type": "object"}},
            "not": {"type": "object"},
        },
    });
    let text_or = |text: &str, items: Value| json!({"anyOf": [{"type": "string", "description": text}, {"type": "array", "items": items}]});
    let or_object = |extra: &str| json!({"description": format!("a field, or {{\"field\", {extra}}}")});
    let fields = text_or("fields: \"id, owner.name\"", or_object("\"as\""));
    let sort = text_or("\"-age, id\"", or_object("\"descending\""));
    let conditions = text_or(
        "an expression: age > 30 and (state == \"open\" or title contains 'x') and not note is null",
        condition,
    );
    let aggregates = text_or(
        "\"count, sum:amount\"",
        json!({"type": "object", "required": ["kind"], "properties": {
            "kind": {"enum": ["count", "sum", "min", "max", "avg"]}, "field": field, "as": {"type": "string"},
        }}),
    );
    let group = json!({"anyOf": [
        {"type": "string", "description": "fields: \"state\""},
        {"type": "object", "properties": {"by": fields, "aggregates": aggregates}},
    ]});
    let whole = |minimum: u32| json!({"type": "integer", "minimum": minimum});
    let sql = json!({"type": "string", "description": "one SELECT as in DuckDB. Tables are the sections by name, or `records` if there \
        is one; fields are columns: state, owner.name, \"/owner/name\""});
    let table = json!({"handle": handle, "section": {"type": "string"}, "as": {"type": "string", "description": "name in `sql`"}});
    let from = json!({"type": "array", "description": "the tables of `sql`, if they are of several results", "items": {
        "type": "object", "required": ["handle"], "additionalProperties": false, "properties": table,
    }});
    let extract = json!({
        "name": EXTRACT_TOOL,
        "title": "Ask about an offloaded result",
        "description": "Answers one question about a large result that was offloaded, without reading it. Find text with \
            search, in a text or in all strings of records, in one section or in all; a hit says where it stands, and lines shows \
            what is around it. Of records, prefer the typed query: where, group, select, distinct, sort, sample, count, offset, limit apply in this order. Example: \
            {\"handle\": \"…\", \"where\": \"status == 'open' and age > 30\", \"select\": \"id, title\", \"sort\": \"-age\", \
            \"limit\": 20}; of a text: {\"handle\": \"…\", \"search\": \"timeout\", \"ignore_case\": true, \"context\": 2}. Count with \"count\": true. Where you would \
            write SQL, give it: {\"handle\": \"…\", \"sql\": \"SELECT state, count(*) AS n FROM records WHERE lat > 60 GROUP BY state ORDER BY n DESC \
            LIMIT 5\"}; from joins several results. Otherwise give a jq program, run on one record after another, or the \
            name of a recipe; offset and limit go with them too. `notes` of an answer say where a value was compared as \
            another type.",
        "inputSchema": {"type": "object", "additionalProperties": false, "properties": {
            "handle": handle, "section": section,
            "where": conditions, "ignore_case": {"type": "boolean", "description": "in all of `where`, or in `search`"},
            "group": group, "select": fields, "distinct": {"type": "boolean"}, "sort": sort,
            "sample": whole(1), "count": {"type": "boolean"}, "offset": whole(0), "limit": whole(1),
            "search": {"type": "string", "description": "text to find, as it is; a regular expression with `regex`, words in any \
                order with `words`, a question in plain words with `rank`. Answers {line, text, where}, in very long lines offset too; goes with `ignore_case`, \
                `count`, `offset` and `limit` (20)"},
            "regex": {"type": "boolean"}, "words": {"type": "boolean"},
            "rank": {"type": "boolean", "description": "the passages first that answer best"},
            "before": whole(0), "after": whole(0),
            "context": {"type": "integer", "minimum": 0, "description": "lines to show before and after each hit"},
            "lines": {"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 2,
                "description": "only lines [from, to] of a text or records, counted from 1 as in hits; [-5, -1] are the last five"},
            "sql": sql,
            "from": from,
            "jq": {"type": "string", "description": "program; variables from `args`"},
            "slurp": {"type": "boolean", "description": "run the program once, over the array of all records"},
            "args": {"type": "object"},
            "recipe": {"type": "string", "description": "name under `recipes` or `jq_recipes` of the descriptor"},
            "params": {"type": "object", "description": "values in the place of the recipe's own"},
        }},
    });
    let read = json!({
        "name": READ_TOOL,
        "title": "Page through an offloaded result",
        "description": format!("Gives a page of an offloaded result: records, lines of a text, or bytes. To find or count \
            something use {EXTRACT_TOOL} instead. Go on with the cursor under `next`, or the call in the last line of a text."),
        "inputSchema": {"type": "object", "required": ["handle"], "additionalProperties": false, "properties": {
            "handle": handle, "section": section,
            "from": {"type": "integer", "description": "number of the first record or line, counted from 0: one less than `line` of a hit; -10 is the tenth from the end"},
            "offset": {"type": "integer", "minimum": 0, "description": "byte of the record or line `from` to begin at: `offset` of a hit"},
            "cursor": {"type": "string", "description": "`next` of the page before"},
            "limit": {"type": "integer", "minimum": 1, "description": "most records or lines; by default as many as fit"},
            "bytes": {"type": "integer", "minimum": 256, "description": "most bytes, 20000 by default, at most 200000"},
        }},
    });
    [extract, read]
}

/// JSON Schema of an argument that is a question: see [`question`](super::question).
pub fn question_schema() -> Value {
    json!({
        "type": "object",
        "description": format!("Question about the result: if it is too large to show, the answer comes in its place, in this \
            same call. The arguments of `{EXTRACT_TOOL}` without `handle`, such as {{\"where\": \"status == 'open'\", \
            \"select\": \"id, title\", \"limit\": 20}}, {{\"group\": \"state\"}}, {{\"count\": true}} or {{\"search\": \"timeout\", \
            \"context\": 2}}; `section` where there may be several. A small result comes whole."),
    })
}

/// Instructions about both tools for the model.
pub fn guidance() -> String {
    format!(
        "Tool results that are too large arrive as a descriptor with `\"offloaded\": true`: what there is, its fields, and a \
         `handle`. Answer questions about such a result with the tool `{EXTRACT_TOOL}` (filter, count, group, sort) and page \
         through it with `{READ_TOOL}`; do not call the first tool again for the same data."
    )
}
