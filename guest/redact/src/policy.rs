//! The default policy on the redacted result.

use std::cell::OnceCell;

use lro_json::walk::value_end;
use lro_json::write::{Object, array, string};
use lro_json::{Validator, validate};
use lro_offload::{
    Call, Descriptor, Part, PartKind, Plan, PlannedPart, PolicyError, Source, Verdict, Wish, inspect, plan, write,
};

use crate::{Redactor, Rules};

/// Least bytes passed on at a time, except the last ones.
const SLICE_BYTES_MIN: usize = 64 * 1024;

/// Guidance for the model about a small result.
const GUIDANCE: &str =
    "Secrets were taken out; what is left of the result is in `redacted`. There are no files to read.";

/// A result without its secrets.
pub(crate) struct Redacted<'a, S> {
    source: &'a S,
    rules: &'a Rules,
    /// The parts as they came.
    parts: Vec<Part>,
}

type Each<'a> = dyn FnMut(&Redactor<'_>, &mut String, bool) -> Result<bool, PolicyError> + 'a;

impl<'a, S: Source> Redacted<'a, S> {
    pub(crate) fn new(source: &'a S, rules: &'a Rules) -> Self {
        Self { source, rules, parts: source.parts() }
    }

    /// Calls `each` with the redactor, its output since the last call, and whether the part is complete, until it
    /// returns false.
    fn redact(&self, part: u32, each: &mut Each<'_>) -> Result<(), PolicyError> {
        let kind = self.parts.get(part as usize).map(|part| part.kind);
        let with_table = OnceCell::new();
        let (mut redactor, mut out, mut more) = (None, String::new(), true);
        self.source.read_text(part, &mut |slice| {
            let begin = || {
                let is_json = kind != Some(PartKind::Text) || looks_like_json(slice);
                let with_table = with_table.get_or_init(|| if is_json { self.rules.with_table(slice) } else { None });
                Redactor::new(with_table.as_ref().unwrap_or(self.rules), is_json)
            };
            let redactor = redactor.get_or_insert_with(begin);
            redactor.push(slice, &mut out);
            more = each(redactor, &mut out, false)?;
            Ok(more)
        })?;
        if let Some(redactor) = redactor.as_mut().filter(|_| more) {
            redactor.finish(&mut out);
            each(redactor, &mut out, true)?;
        }
        Ok(())
    }

    /// Whether a part contains a secret. A binary part to be dropped counts as one.
    fn has_secret(&self, index: u32, part: &Part) -> Result<bool, PolicyError> {
        if self.drops(part) {
            return Ok(true);
        }
        let mut found = part.name.as_deref().is_some_and(|name| without_secrets(name, self.rules) != name);
        if part.kind != PartKind::Binary && !found {
            self.redact(index, &mut |redactor, out, _| {
                out.clear();
                found = redactor.found();
                Ok(!found)
            })?;
        }
        Ok(found)
    }

    fn drops(&self, part: &Part) -> bool {
        part.kind == PartKind::Binary && self.rules.drops_binary
    }

    /// The whole part, if it has at most `characters_max` characters.
    fn whole(&self, part: u32, characters_max: usize) -> Result<Option<String>, PolicyError> {
        let (mut text, mut fits) = (String::new(), true);
        self.read_text(part, &mut |slice| {
            text.push_str(slice);
            fits = text.chars().count() <= characters_max;
            Ok(fits)
        })?;
        Ok(fits.then_some(text))
    }
}

impl<S: Source> Source for Redacted<'_, S> {
    fn parts(&self) -> Vec<Part> {
        let mut parts = self.parts.clone();
        for part in &mut parts {
            part.name = part.name.as_deref().map(|name| without_secrets(name, self.rules));
        }
        parts
    }

    fn read_text(&self, part: u32, each: &mut dyn FnMut(&str) -> Result<bool, PolicyError>) -> Result<(), PolicyError> {
        self.redact(part, &mut |_, out, is_last| {
            let is_due = out.len() >= SLICE_BYTES_MIN || (is_last && !out.is_empty());
            let more = !is_due || each(out)?;
            if is_due {
                out.clear();
            }
            Ok(more)
        })
    }

    fn read_bytes(&self, part: u32, offset: u64) -> Result<Vec<u8>, PolicyError> {
        self.source.read_bytes(part, offset)
    }
}

/// The verdict of the default policy, except that a result with a secret never passes unchanged, neither whole nor cut.
pub(crate) fn verdict(call: &Call, source: &Redacted<'_, impl Source>) -> Result<Verdict, PolicyError> {
    let verdict = inspect(call, source)?;
    if matches!(verdict, Verdict::Reject(_)) {
        return Ok(verdict);
    }
    let otherwise = if matches!(verdict, Verdict::Pass) { Wish::Keep } else { Wish::Any };
    let mut wishes = Vec::with_capacity(source.parts.len());
    for (index, part) in (0..).zip(&source.parts) {
        let has_secret = stays(&verdict, index as usize) && source.has_secret(index, part)?;
        wishes.push(if has_secret { Wish::Write } else { otherwise });
    }
    if !wishes.contains(&Wish::Write) {
        return Ok(verdict);
    }
    Ok(Verdict::Offload(plan(call, source, &source.parts(), &wishes)?))
}

fn stays(verdict: &Verdict, part: usize) -> bool {
    match verdict {
        Verdict::Offload(plan) => plan.parts.get(part).is_none_or(|planned| matches!(planned, PlannedPart::Keep)),
        _ => true,
    }
}

/// Writes the redacted parts of the plan. A small result takes no file: the descriptor contains it.
pub(crate) fn describe(
    mut call: Call,
    source: &Redacted<'_, impl Source>,
    mut plan: Plan,
) -> Result<Descriptor, PolicyError> {
    call.query = call.query.map(|query| without_secrets(&query, source.rules));
    let mut dropped = Vec::new();
    for (part, planned) in source.parts().iter().zip(&mut plan.parts) {
        if source.drops(part) && !matches!(planned, PlannedPart::Keep) {
            *planned = PlannedPart::Keep;
            let media_type = part.media_type.as_deref().unwrap_or("application/octet-stream");
            dropped.push(format!("{media_type}, {} bytes", part.size));
        }
    }
    let notes = dropped.iter().map(|part| format!("dropped a binary part, which cannot be redacted: {part}"));
    let notes: Vec<String> = notes.collect();
    let dropped = (!dropped.is_empty()).then(|| array(dropped.iter().map(|part| string(part))));
    if let Some(content) = inline(&call, source, &plan, dropped.as_deref())? {
        return Ok(Descriptor { content, files: Vec::new(), offloaded_tokens: 0, notes });
    }
    let member = dropped.map(|dropped| format!(",\"dropped\":{dropped}}}")).unwrap_or_default();
    let reserved = u32::try_from(member.chars().count()).unwrap_or(u32::MAX);
    call.settings.descriptor_limit = call.settings.descriptor_limit.saturating_sub(reserved);
    let mut descriptor = write(&call, source, &plan)?;
    if !member.is_empty() && descriptor.content.pop().is_some() {
        descriptor.content.push_str(&member);
    }
    descriptor.notes.extend(notes);
    Ok(descriptor)
}

/// A descriptor that contains the whole redacted result, for a result that would have passed without its secrets and
/// fits.
fn inline(
    call: &Call,
    source: &Redacted<'_, impl Source>,
    plan: &Plan,
    dropped: Option<&str>,
) -> Result<Option<String>, PolicyError> {
    let limit = call.settings.descriptor_limit as usize;
    let (mut values, mut left) = (Vec::new(), limit);
    for ((index, part), planned) in (0..).zip(&source.parts()).zip(&plan.parts) {
        if matches!(planned, PlannedPart::Keep) {
            continue;
        }
        let text = if part.kind == PartKind::Binary { None } else { source.whole(index, left)? };
        let Some(text) = text else { return Ok(None) };
        left -= text.chars().count();
        values.push(if part.kind != PartKind::Text && validate(&text).is_ok() {
            text.replace(['\n', '\r'], " ")
        } else {
            string(&text)
        });
    }
    if !values.is_empty() && !matches!(inspect(call, source)?, Verdict::Pass) {
        return Ok(None);
    }
    let mut object = Object::default();
    object.member("offloaded", "true").member("files", "{}").member("redacted", &array(&values));
    if let Some(dropped) = dropped {
        object.member("dropped", dropped);
    }
    object.member("guidance", &string(GUIDANCE));
    Ok(Some(object.finish()).filter(|content| content.chars().count() <= limit))
}

/// Bytes at the beginning of a text that decide whether it is JSON, or JSON values one after another.
const LOOKS_LIKE_JSON_BYTES: usize = 4096;

/// Whether a text begins with JSON that can contain a secret. A line of a log may begin with a bracket as well.
fn looks_like_json(text: &str) -> bool {
    let text = text.trim_start();
    let head = &text[..text.floor_char_boundary(LOOKS_LIKE_JSON_BYTES)];
    let is_json = match value_end(head.as_bytes(), 0) {
        Ok(end) => {
            // A quoted cell is no JSON.
            let is_cell = head.get(end..).is_some_and(|rest| rest.starts_with([',', ';', '\t', '|']));
            !is_cell && head.get(..end).is_some_and(|value| validate(value).is_ok())
        }
        Err(_) => Validator::new().push(head).is_ok(),
    };
    head.starts_with(['{', '[', '"']) && is_json
}

/// A short text without its secrets.
fn without_secrets(text: &str, rules: &Rules) -> String {
    let (mut redactor, mut out) = (Redactor::new(rules, looks_like_json(text)), String::new());
    redactor.push(text, &mut out);
    redactor.finish(&mut out);
    out
}
