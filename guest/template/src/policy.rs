//! The decisions of this policy: large texts go unchanged to `.txt` files, structured content goes to one `.json` file,
//! and the descriptor shows the path, the size and the first lines of each. Everything else stays in the reply.
//!
//! It accesses the host only through two traits, so that its tests run without a host.

use serde_json::{Map, Value, json};

use crate::bindings::exports::lro::filter::lro_filter::{Call, Descriptor, Plan, PolicyError, Verdict};
use crate::bindings::lro::filter::types::{
    Abilities, Action, DecisionMode, File, FileKind, Origin, Part, PartKind, PlannedPart, Size, SizeUnit, Truncation,
};

#[cfg(test)]
mod tests;

/// Default number of lines of a file that the descriptor shows.
const HEAD_LINES: u64 = 3;

/// Most characters of the lines shown.
const HEAD_CHARACTERS_MAX: usize = 400;

/// Most characters of a file name that come from the name of a part.
const NAME_CHARACTERS_MAX: usize = 48;

/// The input of a policy.
pub(crate) trait Source {
    /// The next characters of a part that is not binary, from a byte offset; empty only at its end.
    fn read(&self, part: u32, offset: u64) -> Result<String, PolicyError>;
}

/// The output of a policy.
pub(crate) trait Directory {
    /// Creates a file.
    fn create(&mut self, name: &str) -> Result<(), PolicyError>;

    /// Writes all of these bytes to the file that was created last.
    fn write(&mut self, bytes: &[u8], offset: u64) -> Result<(), PolicyError>;
}

/// The verdict on a result. Tool errors pass.
pub(crate) fn inspect(call: &Call, parts: &[Part], source: &impl Source) -> Result<Verdict, PolicyError> {
    let settings = &call.settings;
    head_lines(call)?;
    if settings.mode == DecisionMode::Never || call.is_error {
        return Ok(Verdict::Pass);
    }
    let mut plan = Plan { parts: Vec::with_capacity(parts.len()) };
    for (index, part) in (0..).zip(parts) {
        let is_large =
            || Ok(settings.mode == DecisionMode::Always || exceeds(source, index, part, settings.threshold)?);
        plan.parts.push(match part.kind {
            PartKind::Text if is_large()? => PlannedPart::Text,
            // Without sections, the whole value goes to a file.
            PartKind::Structured if is_large()? => PlannedPart::Sections(Vec::new()),
            _ => PlannedPart::Keep,
        });
    }
    if plan.parts.iter().all(|part| matches!(part, PlannedPart::Keep)) {
        return Ok(Verdict::Pass);
    }
    Ok(match settings.action {
        Action::Offload => Verdict::Offload(plan),
        Action::Truncate => {
            Verdict::Truncate(Truncation { limit: settings.truncate_limit, suffix: settings.truncate_suffix.clone() })
        }
        Action::Reject if settings.advice.is_empty() => {
            Verdict::Reject(format!("The result of `{}` is too large. Ask for less.", call.tool))
        }
        Action::Reject => Verdict::Reject(settings.advice.clone()),
    })
}

/// The setting of this policy: `custom` is `{"head": LINES}`.
fn head_lines(call: &Call) -> Result<usize, PolicyError> {
    let wrong = || PolicyError::Invalid("custom: must be such as {\"head\": 3}, and nothing else".to_owned());
    let Some(custom) = &call.settings.custom else { return Ok(HEAD_LINES as usize) };
    let custom: Map<String, Value> = serde_json::from_str(custom).map_err(|_| wrong())?;
    if custom.keys().any(|key| key != "head") {
        return Err(wrong());
    }
    let lines = custom.get("head").map_or(Some(HEAD_LINES), Value::as_u64).ok_or_else(wrong)?;
    usize::try_from(lines).map_err(|_| wrong())
}

/// Whether a part is larger than a size. Bytes bound the other units from above, so a small part is not read.
fn exceeds(source: &impl Source, index: u32, part: &Part, limit: Size) -> Result<bool, PolicyError> {
    if limit.unit == SizeUnit::Bytes || part.size <= limit.amount {
        return Ok(part.size > limit.amount);
    }
    let (mut offset, mut characters, mut quarters) = (0, 0, 0);
    loop {
        let slice = source.read(index, offset)?;
        offset += slice.len() as u64;
        characters += slice.chars().count() as u64;
        quarters += slice.chars().map(quarters_of_token).sum::<u64>();
        let amount = if limit.unit == SizeUnit::Tokens { quarters.div_ceil(4) } else { characters };
        if amount > limit.amount || slice.is_empty() {
            return Ok(amount > limit.amount);
        }
    }
}

/// The estimate of the contract's `size-unit`.
fn quarters_of_token(character: char) -> u64 {
    match character {
        ..'\u{300}' => 1,
        ..'\u{2000}' => 2,
        _ => 4,
    }
}

/// A written file.
struct Written {
    /// Its name without the extension, and the key in the descriptor.
    section: String,
    name: String,
    kind: FileKind,
    part: u32,
    media_type: String,
    lines: u64,
    bytes: u64,
    quarters: u64,
    head: String,
}

/// Executes a plan of [`inspect`], and describes the files.
pub(crate) fn write(
    call: &Call,
    parts: &[Part],
    plan: &Plan,
    source: &impl Source,
    directory: &mut impl Directory,
) -> Result<Descriptor, PolicyError> {
    let head_lines = head_lines(call)?;
    if plan.parts.len() != parts.len() {
        return Err(PolicyError::Invalid(format!("plan: {} parts of {}", plan.parts.len(), parts.len())));
    }
    let mut files: Vec<Written> = Vec::new();
    for ((index, part), planned) in (0..).zip(parts).zip(&plan.parts) {
        let (kind, extension, media_type) = match planned {
            PlannedPart::Keep => continue,
            PlannedPart::Text => (FileKind::Text, "txt", "text/plain"),
            PlannedPart::Sections(sections) if sections.is_empty() => (FileKind::Value, "json", "application/json"),
            _ => return Err(PolicyError::Invalid(format!("plan: part {index} is neither a text nor a whole value"))),
        };
        let section = free_name(part, &files);
        let mut file = Written {
            name: format!("{section}.{extension}"),
            section,
            kind,
            part: index,
            media_type: part.media_type.clone().unwrap_or_else(|| media_type.to_owned()),
            lines: 0,
            bytes: 0,
            quarters: 0,
            head: String::new(),
        };
        copy(&mut file, head_lines, source, directory)?;
        files.push(file);
    }
    Ok(Descriptor {
        content: content(call, &files)?,
        offloaded_tokens: files.iter().map(|file| file.quarters.div_ceil(4)).sum(),
        files: files.into_iter().map(Written::record).collect(),
        notes: Vec::new(),
    })
}

/// Copies a part to its file, slice by slice: the memory of a policy must not grow with the result.
fn copy(
    file: &mut Written,
    head_lines: usize,
    source: &impl Source,
    directory: &mut impl Directory,
) -> Result<(), PolicyError> {
    directory.create(&file.name)?;
    let mut ends_line = true;
    loop {
        let mut slice = source.read(file.part, file.bytes)?;
        if slice.is_empty() {
            break;
        }
        if file.kind == FileKind::Value {
            // The JSON value must be on one line. In strings, line breaks are escaped, so this changes only white
            // space.
            slice = slice.replace(['\n', '\r'], " ");
        }
        directory.write(slice.as_bytes(), file.bytes)?;
        file.bytes += slice.len() as u64;
        file.lines += slice.matches('\n').count() as u64;
        file.quarters += slice.chars().map(quarters_of_token).sum::<u64>();
        ends_line = slice.ends_with('\n');
        let room = HEAD_CHARACTERS_MAX.saturating_sub(file.head.chars().count());
        file.head.extend(slice.chars().take(room));
    }
    file.lines += u64::from(!ends_line);
    file.head = file.head.split_inclusive('\n').take(head_lines).collect();
    Ok(())
}

/// A file name from the end of a part's name: letters, digits, `-` and `_`, and a number when it is taken. A part's
/// name is untrusted.
fn free_name(part: &Part, files: &[Written]) -> String {
    let end = part.name.as_deref().and_then(|name| name.rsplit(['/', ':']).find(|step| !step.is_empty()));
    let name = end.unwrap_or(if part.kind == PartKind::Structured { "structured" } else { "text" });
    let safe = |character: char| if character.is_ascii_alphanumeric() || character == '-' { character } else { '_' };
    let name: String = name.chars().take(NAME_CHARACTERS_MAX).map(safe).collect();
    let is_free = |candidate: &String| files.iter().all(|file| file.section != *candidate);
    let mut numbered = (2_u64..).map(|number| format!("{name}-{number}"));
    if is_free(&name) { name } else { numbered.find(is_free).unwrap_or(name) }
}

impl Written {
    /// The entry of a file in the answer.
    fn record(self) -> File {
        File {
            name: self.name,
            kind: self.kind,
            section: self.section,
            parts: vec![self.part],
            origin: Origin::Content,
            form: None,
            derived_from: None,
            pointer: (self.kind == FileKind::Value).then(String::new),
            shape: None,
            media_type: self.media_type,
            records: if self.kind == FileKind::Text { self.lines } else { 0 },
            bytes: self.bytes,
            schema: None,
            queries: Vec::new(),
        }
    }
}

/// The descriptor: with the first lines of each file, or without them when it would exceed its limit.
fn content(call: &Call, files: &[Written]) -> Result<String, PolicyError> {
    let limit = call.settings.descriptor_limit as usize;
    let candidates = [true, false].map(|has_heads| describe(call, files, has_heads));
    let fitting = candidates.into_iter().find(|content| content.chars().count() <= limit);
    fitting.ok_or_else(|| PolicyError::Limit(format!("descriptor-limit: {limit} characters are too few")))
}

fn describe(call: &Call, files: &[Written], has_heads: bool) -> String {
    let paths: Map<String, Value> =
        files.iter().map(|file| (file.section.clone(), json!(format!("{}/{}", call.shown_path, file.name)))).collect();
    let summary: Map<String, Value> = files
        .iter()
        .map(|file| {
            let mut counts = json!({ "lines": file.lines, "bytes": file.bytes });
            if has_heads {
                counts["head"] = json!(file.head);
            }
            (file.section.clone(), counts)
        })
        .collect();
    let has_handle =
        !call.reader.abilities.contains(Abilities::SHELL) || call.reader.abilities.contains(Abilities::READ_TOOL);
    let handle = if has_handle { format!("\"handle\":{},", json!(call.id)) } else { String::new() };
    let (files, summary, guidance) = (Value::from(paths), Value::from(summary), json!(guidance(call)));
    // The order matters, because a model reads from the front.
    format!("{{\"offloaded\":true,{handle}\"files\":{files},\"summary\":{summary},\"guidance\":{guidance}}}")
}

/// Advice that names only abilities of the reader.
fn guidance(call: &Call) -> &'static str {
    if call.reader.abilities.contains(Abilities::SHELL) {
        "The result was too large and is in files. Use `head`, `grep` or `jq` on them; do not read a file whole."
    } else if call.reader.abilities.contains(Abilities::READ_TOOL) {
        "The result was too large and is in files. Page with `lro_read` on the handle."
    } else {
        "The result was too large and is in files. Nothing here can read them: tell the user the handle, or ask for less."
    }
}
