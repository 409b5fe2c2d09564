//! Encodes values of the contract as the JSON of the vectors.

use lro_host::filter::Request;
use lro_host::sandbox::types::{
    Abilities, AggregateKind, Call, Condition, Delimited, File, FileKind, Form, Operator, Origin, PlannedPart, Query,
    ReadError, Reader, SectionShape, Selection, Size, SizeUnit, StoredQuery,
};
use lro_host::sandbox::{Descriptor, PartKind, PolicyError, Verdict};
use serde_json::{Value, json};

pub(super) fn call(request: &Request, call: &Call) -> Value {
    let settings = serde_json::to_value(request.settings.as_ref()).expect("settings are JSON");
    record([
        ("id", Some(json!(call.id))),
        ("time", Some(json!(call.time))),
        ("tenant", Some(json!(call.tenant))),
        ("session", call.session.as_ref().map(|session| json!(session))),
        ("tool", Some(json!(call.tool))),
        ("query", call.query.as_ref().map(|query| json!(query))),
        ("input-schema", call.input_schema.as_ref().map(|schema| json!(schema))),
        ("is-error", Some(json!(call.is_error))),
        ("shown-path", Some(json!(call.shown_path))),
        ("reader", Some(reader(&call.reader))),
        ("settings", Some(kebab(settings))),
    ])
}

fn reader(reader: &Reader) -> Value {
    record([("abilities", Some(abilities(reader.abilities))), ("limit", reader.limit.map(size))])
}

pub(super) fn verdict(verdict: &Verdict) -> Value {
    match verdict {
        Verdict::Pass => json!("pass"),
        Verdict::Offload(plan) => {
            json!({ "offload": { "parts": plan.parts.iter().map(planned_part).collect::<Value>() } })
        }
        Verdict::Truncate(truncation) => {
            json!({ "truncate": { "limit": size(truncation.limit), "suffix": truncation.suffix } })
        }
        Verdict::Reject(advice) => json!({ "reject": advice }),
    }
}

pub(super) fn descriptor(descriptor: &Descriptor) -> Value {
    json!({
        "content": descriptor.content,
        "files": descriptor.files.iter().map(file).collect::<Value>(),
        "offloaded-tokens": descriptor.offloaded_tokens,
        "notes": descriptor.notes,
    })
}

pub(super) fn policy_error(error: &PolicyError) -> Value {
    match error {
        PolicyError::Invalid(text) => json!({ "invalid": text }),
        PolicyError::Read(ReadError::NoSuchPart) => json!({ "read": "no-such-part" }),
        PolicyError::Read(ReadError::WrongKind) => json!({ "read": "wrong-kind" }),
        PolicyError::Read(ReadError::InsideCharacter(start)) => json!({ "read": { "inside-character": start } }),
        PolicyError::Read(ReadError::Failed(text)) => json!({ "read": { "failed": text } }),
        PolicyError::NoSpace => json!("no-space"),
        PolicyError::Io(text) => json!({ "io": text }),
        PolicyError::Limit(text) => json!({ "limit": text }),
        PolicyError::Other(text) => json!({ "other": text }),
    }
}

pub(super) fn part_kind(kind: PartKind) -> &'static str {
    match kind {
        PartKind::Text => "text",
        PartKind::Structured => "structured",
        PartKind::Binary => "binary",
        PartKind::Block => "block",
        PartKind::Meta => "meta",
    }
}

fn planned_part(part: &PlannedPart) -> Value {
    match part {
        PlannedPart::Keep => json!("keep"),
        PlannedPart::Text => json!("text"),
        PlannedPart::Bytes => json!("bytes"),
        PlannedPart::Sections(sections) => {
            let sections = sections.iter().map(
                |section| json!({ "pointer": section.pointer, "shape": shape(section.shape), "name": section.name }),
            );
            json!({ "sections": sections.collect::<Value>() })
        }
        PlannedPart::Records(planned) => json!({ "records": { "form": form(planned.form), "name": planned.name } }),
        PlannedPart::Joined(index) => json!({ "joined": index }),
    }
}

fn file(file: &File) -> Value {
    record([
        ("name", Some(json!(file.name))),
        ("kind", Some(json!(file_kind(file.kind)))),
        ("section", Some(json!(file.section))),
        ("parts", Some(json!(file.parts))),
        ("origin", Some(json!(origin(file.origin)))),
        ("form", file.form.map(form)),
        ("derived-from", file.derived_from.as_ref().map(|name| json!(name))),
        ("pointer", file.pointer.as_ref().map(|pointer| json!(pointer))),
        ("shape", file.shape.map(|value| json!(shape(value)))),
        ("media-type", Some(json!(file.media_type))),
        ("records", Some(json!(file.records))),
        ("bytes", Some(json!(file.bytes))),
        ("schema", file.schema.as_ref().map(|schema| json!(schema))),
        ("queries", Some(file.queries.iter().map(stored_query).collect())),
    ])
}

fn stored_query(stored: &StoredQuery) -> Value {
    json!({ "name": stored.name, "description": stored.description, "query": query(&stored.query) })
}

fn query(query: &Query) -> Value {
    let group = query.group.as_ref().map(|group| {
        let aggregates = group.aggregates.iter().map(|aggregate| {
            record([
                ("kind", Some(json!(aggregate_kind(aggregate.kind)))),
                ("field", aggregate.field.as_ref().map(|field| json!(field))),
                ("name", aggregate.name.as_ref().map(|name| json!(name))),
            ])
        });
        json!({ "by": selections(&group.by), "aggregates": aggregates.collect::<Value>() })
    });
    let sort = query.sort.iter().map(|key| json!({ "field": key.field, "descending": key.descending }));
    record([
        ("where", Some(query.where_.iter().map(condition).collect())),
        ("group", group),
        ("select", Some(selections(&query.select))),
        ("distinct", Some(json!(query.distinct))),
        ("sort", Some(sort.collect())),
        ("sample", query.sample.map(|sample| json!(sample))),
        ("count", Some(json!(query.count))),
        ("offset", Some(json!(query.offset))),
        ("limit", query.limit.map(|limit| json!(limit))),
    ])
}

fn selections(selections: &[Selection]) -> Value {
    let selection = |selection: &Selection| {
        record([("field", Some(json!(selection.field))), ("name", selection.name.as_ref().map(|name| json!(name)))])
    };
    selections.iter().map(selection).collect()
}

fn condition(condition: &Condition) -> Value {
    match condition {
        Condition::All(steps) => json!({ "all": steps }),
        Condition::Any(steps) => json!({ "any": steps }),
        Condition::Negation(step) => json!({ "negation": step }),
        Condition::Test(test) => {
            let test = record([
                ("field", Some(json!(test.field))),
                ("operator", Some(json!(operator(test.operator)))),
                ("value", test.value.as_ref().map(|value| json!(value))),
                ("ignore-case", Some(json!(test.ignore_case))),
                ("parameter", test.parameter.as_ref().map(|parameter| json!(parameter))),
            ]);
            json!({ "test": test })
        }
    }
}

fn size(size: Size) -> Value {
    let unit = match size.unit {
        SizeUnit::Bytes => "bytes",
        SizeUnit::Characters => "characters",
        SizeUnit::Tokens => "tokens",
    };
    json!({ "amount": size.amount, "unit": unit })
}

fn abilities(abilities: Abilities) -> Value {
    let all =
        [(Abilities::SHELL, "shell"), (Abilities::EXTRACT_TOOL, "extract-tool"), (Abilities::READ_TOOL, "read-tool")];
    all.into_iter().filter(|(ability, _)| abilities.contains(*ability)).map(|(_, name)| name).collect()
}

fn shape(shape: SectionShape) -> &'static str {
    match shape {
        SectionShape::Elements => "elements",
        SectionShape::Members => "members",
        SectionShape::Value => "value",
    }
}

fn origin(origin: Origin) -> &'static str {
    match origin {
        Origin::Content => "content",
        Origin::RecordsOfText => "records-of-text",
        Origin::Outline => "outline",
    }
}

fn form(form: Form) -> Value {
    match form {
        Form::JsonLines => json!("json-lines"),
        Form::JsonSequence => json!("json-sequence"),
        Form::JsonWithin => json!("json-within"),
        Form::Delimited(Delimited { delimiter, header }) => {
            json!({ "delimited": { "delimiter": delimiter, "header": header } })
        }
        Form::MarkdownTable => json!("markdown-table"),
        Form::AlignedTable => json!("aligned-table"),
        Form::PythonLiteral => json!("python-literal"),
        Form::Yaml => json!("yaml"),
        Form::Markup => json!("markup"),
        Form::JsonColumns => json!("json-columns"),
        Form::KeyedBlocks => json!("keyed-blocks"),
    }
}

fn file_kind(kind: FileKind) -> &'static str {
    match kind {
        FileKind::Records => "records",
        FileKind::Text => "text",
        FileKind::Value => "value",
        FileKind::Bytes => "bytes",
    }
}

fn operator(operator: Operator) -> &'static str {
    match operator {
        Operator::Eq => "eq",
        Operator::Ne => "ne",
        Operator::Lt => "lt",
        Operator::Le => "le",
        Operator::Gt => "gt",
        Operator::Ge => "ge",
        Operator::OneOf => "one-of",
        Operator::Contains => "contains",
        Operator::StartsWith => "starts-with",
        Operator::Matches => "matches",
        Operator::Exists => "exists",
        Operator::IsNull => "is-null",
    }
}

fn aggregate_kind(kind: AggregateKind) -> &'static str {
    match kind {
        AggregateKind::Count => "count",
        AggregateKind::Sum => "sum",
        AggregateKind::Min => "min",
        AggregateKind::Max => "max",
        AggregateKind::Avg => "avg",
    }
}

fn record<const N: usize>(fields: [(&str, Option<Value>); N]) -> Value {
    let present = fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    Value::Object(present.collect())
}

/// Converts settings in the host's format to the names of the contract, without absent options. Their keys are never
/// data.
fn kebab(value: Value) -> Value {
    match value {
        Value::Object(members) => {
            let members = members.into_iter().filter(|(_, value)| !value.is_null());
            Value::Object(members.map(|(key, value)| (key.replace('_', "-"), kebab(value))).collect())
        }
        Value::Array(elements) => elements.into_iter().map(kebab).collect(),
        other => other,
    }
}
