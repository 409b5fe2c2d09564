//! The decisions of this policy: when the texts and the structured content of a result are large together, they go to
//! files. Parts that are alike share one, however many there are: JSON objects become records, other texts one text. A few
//! small parts beside larger ones stay in the reply, and so do images and everything else.
//!
//! It accesses the host only through two traits, so that its tests run without a host.

mod descriptor;
#[cfg(test)]
mod tests;
mod tokens;
mod write;

use serde_json::{Map, Value};

use crate::bindings::exports::lro::filter::lro_filter::{Call, Plan, PolicyError, Verdict};
use crate::bindings::lro::filter::types::{
    Action, DecisionMode, Part, PartKind, PlannedPart, PlannedSection, SectionShape, Size, SizeUnit, Truncation,
};
pub(crate) use write::write;

/// Default number of lines of a file that the descriptor shows.
const HEAD_LINES: u64 = 3;

/// Most parts of up to `inline-limit` bytes that stay in the reply beside larger ones, such as "Found 1,000 issues:".
const SMALL_MAX: usize = 8;

/// Longest JSON object, in bytes, that becomes a record: it is held in memory to be checked. A longer one is a text.
const RECORD_BYTES_MAX: u64 = 16 * 1024;

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
    if settings.mode == DecisionMode::BySize && !exceed(parts, settings.threshold, source)? {
        return Ok(Verdict::Pass);
    }
    let plan = plan(call, parts, source)?;
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

/// Whether a part may go to a file. Every other part stays in the reply, and does not count.
fn is_data(part: &Part) -> bool {
    matches!(part.kind, PartKind::Text | PartKind::Structured)
}

/// Whether all data of a result together is larger than a size. Bytes bound the other units from above, so a small result
/// is not read.
fn exceed(parts: &[Part], limit: Size, source: &impl Source) -> Result<bool, PolicyError> {
    let data = || (0..).zip(parts).filter(|(_, part)| is_data(part));
    if data().all(|(_, part)| part.complete) && data().map(|(_, part)| part.size).sum::<u64>() <= limit.amount {
        return Ok(false);
    }
    let (mut bytes, mut characters, mut tokens) = (0, 0, Tokens::default());
    for (index, _) in data() {
        for slice in slices(index, source) {
            let slice = slice?;
            bytes += slice.len() as u64;
            characters += slice.chars().count() as u64;
            tokens.push(&slice);
            let amount = match limit.unit {
                SizeUnit::Bytes => bytes,
                SizeUnit::Characters => characters,
                SizeUnit::Tokens => tokens.count(),
            };
            if amount > limit.amount {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// The estimate of the contract's `size-unit`, of a text in pieces.
#[derive(Default)]
struct Tokens {
    bytes: u64,
    hundredths: u64,
    state: tokens::State,
}

impl Tokens {
    fn push(&mut self, text: &str) {
        self.bytes += text.len() as u64;
        self.hundredths += text.chars().map(|character| self.state.next(character)).sum::<u64>();
    }

    fn count(&self) -> u64 {
        self.hundredths.div_ceil(100).min(self.bytes)
    }
}

/// The slices of a part, up to its end or the first error.
fn slices(part: u32, source: &impl Source) -> impl Iterator<Item = Result<String, PolicyError>> {
    let mut offset = 0;
    std::iter::from_fn(move || {
        let slice = source.read(part, offset);
        offset += slice.as_ref().map_or(0, String::len) as u64;
        Some(slice).filter(|slice| !slice.as_ref().is_ok_and(String::is_empty))
    })
}

/// What becomes of each part: the first record and the first text begin a file, which the others of their kind join.
fn plan(call: &Call, parts: &[Part], source: &impl Source) -> Result<Plan, PolicyError> {
    let is_small = |part: &&Part| is_data(part) && part.complete && part.size <= call.settings.inline_limit.into();
    let (data, small) = (parts.iter().filter(|part| is_data(part)).count(), parts.iter().filter(is_small).count());
    let keeps_small = call.settings.mode == DecisionMode::BySize && small <= SMALL_MAX && small < data;
    let (mut first_record, mut first_text) = (None, None);
    let mut planned = Vec::with_capacity(parts.len());
    for (index, part) in (0..).zip(parts) {
        planned.push(if !is_data(part) || keeps_small && is_small(&part) {
            PlannedPart::Keep
        } else if part.kind == PartKind::Structured {
            // Without sections, the whole value goes to a file.
            PlannedPart::Sections(Vec::new())
        } else if is_record(index, part, source)? {
            match *first_record.get_or_insert(index) {
                first if first < index => PlannedPart::Joined(first),
                _ => PlannedPart::Sections(vec![PlannedSection {
                    pointer: String::new(),
                    shape: SectionShape::Value,
                    name: "records".to_owned(),
                }]),
            }
        } else {
            match *first_text.get_or_insert(index) {
                first if first < index => PlannedPart::Joined(first),
                _ => PlannedPart::Text,
            }
        });
    }
    Ok(Plan { parts: planned })
}

/// Whether a text is a JSON object, short enough to be checked. One with a name is a text, because a record has no place
/// for it.
fn is_record(index: u32, part: &Part, source: &impl Source) -> Result<bool, PolicyError> {
    if has_label(part) || !part.complete || part.size > RECORD_BYTES_MAX {
        return Ok(false);
    }
    let text: String = slices(index, source).collect::<Result<_, _>>()?;
    Ok(serde_json::from_str::<Map<String, Value>>(&text).is_ok())
}

/// Whether a part is more than its text, such as a resource with its URI.
fn has_label(part: &Part) -> bool {
    part.name.is_some() || part.media_type.is_some()
}
